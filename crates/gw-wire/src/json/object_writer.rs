//! Writes JSON objects and arrays piece by piece, so that values which are JSON text already are copied unchanged.

use std::fmt::Display;
use std::io::Write as _;

use super::write_str;

/// Writes the members of one object behind the text that its buffer already holds. [`ObjectWriter::finish`] closes the
/// object; without it the object stays open, and [`ObjectWriter::resume`] can continue it later.
#[derive(Debug)]
pub struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Opens an object.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Opens an object whose first member is `type`.
    pub fn begin_typed(out: &'o mut Vec<u8>, kind: &str) -> Self {
        let mut object = Self::begin(out);
        object.string("type", kind);
        object
    }

    /// Continues an open object that already has members.
    pub fn resume(out: &'o mut Vec<u8>) -> Self {
        Self { out, is_empty: false }
    }

    /// Begins a member. The caller appends one JSON value to the returned buffer.
    pub fn member(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        write_str(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// Begins a member whose name needs no escapes. Most names are of this kind, and looking for escapes costs as much as
    /// writing them.
    pub(crate) fn plain_member(&mut self, name: &'static str) -> &mut Vec<u8> {
        debug_assert!(name.bytes().all(|byte| byte > 0x1f && byte < 0x7f && byte != b'"' && byte != b'\\'));
        self.separate();
        self.out.reserve(name.len() + 3);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
    }

    /// A string.
    pub fn string(&mut self, name: &'static str, value: &str) {
        write_str(self.plain_member(name), value);
    }

    /// A string; no member without a value.
    pub fn optional_string(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(name, value);
        }
    }

    /// An integer.
    pub fn integer(&mut self, name: &'static str, value: u64) {
        self.plain_member(name).extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A boolean.
    pub fn boolean(&mut self, name: &'static str, value: bool) {
        self.plain_member(name).extend_from_slice(if value { &b"true"[..] } else { b"false" });
    }

    /// A value whose `Display` is a JSON number or boolean; null without a value.
    pub fn number_or_null(&mut self, name: &'static str, value: Option<impl Display>) {
        let out = self.plain_member(name);
        match value {
            // Writing into memory cannot fail.
            Some(value) => drop(write!(out, "{value}")),
            None => out.extend_from_slice(b"null"),
        }
    }

    /// A value that is JSON text already, under any name.
    pub fn raw(&mut self, name: &str, json: impl AsRef<[u8]>) {
        self.member(name).extend_from_slice(json.as_ref());
    }

    /// A value that is JSON text already, under a name that needs no escape.
    pub(crate) fn plain_raw(&mut self, name: &'static str, json: &[u8]) {
        self.plain_member(name).extend_from_slice(json);
    }

    /// An object whose members `write` writes.
    pub fn object(&mut self, name: &'static str, write: impl FnOnce(&mut ObjectWriter<'_>)) {
        write_object(self.plain_member(name), write);
    }

    /// An array; `write` appends the JSON value of each item.
    pub fn array<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        write: impl FnMut(&mut Vec<u8>, T),
    ) {
        write_array(self.plain_member(name), items, write);
    }

    /// An array of strings.
    pub fn strings(&mut self, name: &'static str, values: impl IntoIterator<Item = impl AsRef<str>>) {
        self.array(name, values, |out, value| write_str(out, value.as_ref()));
    }

    /// The size of the buffer in bytes, with everything written before the object.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.out.len()
    }

    /// Closes the object.
    pub fn finish(self) {
        self.out.push(b'}');
    }
}

/// Writes an object whose members `write` writes.
pub fn write_object(out: &mut Vec<u8>, write: impl FnOnce(&mut ObjectWriter<'_>)) {
    let mut object = ObjectWriter::begin(out);
    write(&mut object);
    object.finish();
}

/// Writes an array; `write` appends the JSON value of each item.
pub fn write_array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_separated_and_escaped_and_nest() {
        let mut out = b"[".to_vec();
        let mut object = ObjectWriter::begin(&mut out);
        write_str(object.member("a\n"), "\"b\"");
        object.optional_string("left out", None);
        object.optional_string("c", Some("d"));
        object.integer("e", 7);
        object.boolean("e2", true);
        object.number_or_null("f", Some(-0.5));
        object.number_or_null("g", None::<bool>);
        object.raw("h", "[ 1 ]");
        object.object("i", |inner| inner.object("j", |_| {}));
        object.strings("k", ["l", "m"]);
        object.array("n", [0_u8; 0], |_, _| {});
        ObjectWriter::begin_typed(object.member("o"), "p").finish();
        let length = object.buffer_len();
        object.finish();
        assert_eq!(length + 1, out.len());
        let text = r#"[{"a\n":"\"b\"","c":"d","e":7,"e2":true,"f":-0.5,"g":null,"h":[ 1 ],"i":{"j":{}},"k":["l","m"],"n":[],"o":{"type":"p"}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn an_open_object_is_continued() {
        let mut out = Vec::new();
        ObjectWriter::begin(&mut out).integer("a", 1);
        let mut object = ObjectWriter::resume(&mut out);
        object.integer("b", 2);
        object.finish();
        assert_eq!(out, br#"{"a":1,"b":2}"#);
    }
}
