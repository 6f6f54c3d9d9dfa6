//! Writing and reading the parts of a stored value: numbers of a fixed width, bytes behind their length.

use std::sync::Arc;

use bytes::Bytes;

pub(crate) fn put_count(out: &mut Vec<u8>, count: u64) {
    out.extend_from_slice(&count.to_le_bytes());
}

pub(crate) fn put_optional(out: &mut Vec<u8>, count: Option<u64>) {
    out.push(u8::from(count.is_some()));
    put_count(out, count.unwrap_or(0));
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What is left of a value. Every step gives None where the value ends too early.
pub(crate) struct Fields(Bytes);

impl Fields {
    pub(crate) fn of(bytes: Bytes) -> Self {
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

    pub(crate) fn count(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn optional(&mut self) -> Option<Option<u64>> {
        let (is_there, count) = (self.byte()?, self.count()?);
        Some((is_there == 1).then_some(count))
    }

    pub(crate) fn bytes(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.count()?).ok()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Option<Arc<str>> {
        let bytes = self.bytes()?;
        std::str::from_utf8(&bytes).ok().map(Arc::from)
    }
}
