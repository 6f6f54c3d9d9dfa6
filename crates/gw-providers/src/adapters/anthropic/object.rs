//! Writes JSON objects member by member, so that the client's JSON goes out unchanged.

use gw_wire::json::write_str;

/// An open JSON object at the end of a buffer.
pub(super) struct JsonObject<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> JsonObject<'o> {
    /// Opens an object.
    pub(super) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Opens an object with a `type`.
    pub(super) fn of_type(out: &'o mut Vec<u8>, kind: &str) -> Self {
        let mut object = Self::open(out);
        object.text("type", kind);
        object
    }

    /// Begins a member; the caller appends its value to the returned buffer.
    pub(super) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        write_str(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// Writes a string member.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        write_str(self.member(name), text);
    }

    /// Writes a member whose value is JSON text.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.member(name).extend_from_slice(json.as_bytes());
    }

    /// Writes an array member; `element` writes each element.
    pub(super) fn array<T>(
        &mut self,
        name: &str,
        elements: impl IntoIterator<Item = T>,
        mut element: impl FnMut(&mut Vec<u8>, T),
    ) {
        let out = self.member(name);
        out.push(b'[');
        for (position, value) in elements.into_iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            element(out, value);
        }
        out.push(b']');
    }

    /// Closes the object.
    pub(super) fn close(self) {
        self.out.push(b'}');
    }
}
