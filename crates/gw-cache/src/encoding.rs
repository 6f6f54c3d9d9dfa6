//! Writing and reading the fields of a stored value. Numbers have a fixed width. Bytes follow their length.

use std::sync::Arc;

use bytes::Bytes;

pub(crate) fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_optional(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    put_number(out, number.unwrap_or(0));
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The unread rest of a value. Each read returns None if the value ends too early.
pub(crate) struct FieldReader(Bytes);

impl FieldReader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<Bytes> {
        (length <= self.0.len()).then(|| self.0.split_to(length))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.as_ref().try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn optional(&mut self) -> Option<Option<u64>> {
        let (is_present, number) = (self.byte()?, self.number()?);
        Some((is_present == 1).then_some(number))
    }

    pub(crate) fn bytes(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Option<Arc<str>> {
        let bytes = self.bytes()?;
        std::str::from_utf8(&bytes).ok().map(Arc::from)
    }
}
