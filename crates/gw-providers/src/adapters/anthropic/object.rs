//! JSON objects written member by member, so that what the client wrote goes out as it came.

use gw_wire::json::write_str;

/// An object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Object<'o> {
    /// Opens an object.
    pub(super) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Opens a content block or anything else that has a type.
    pub(super) fn of_type(out: &'o mut Vec<u8>, kind: &str) -> Self {
        let mut object = Self::open(out);
        object.text("type", kind);
        object
    }

    /// Begins a member; its value is written to what is returned.
    pub(super) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        write_str(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// A string.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        write_str(self.member(name), text);
    }

    /// A value that is JSON already.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.member(name).extend_from_slice(json.as_bytes());
    }

    /// An array, each element written by `element`.
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
