//! Writing a JSON object member by member, so that schemas and numbers of the client's stay the text they came as.

use gw_wire::json::write_str;

/// An object being written behind what is already in its buffer.
pub(super) struct Object {
    out: Vec<u8>,
    empty: bool,
}

impl Object {
    /// Opens the brace.
    pub(super) fn begin(mut out: Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Closes the brace and gives the buffer back.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        write_str(&mut self.out, name);
        self.out.push(b':');
        &mut self.out
    }

    /// A string.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        write_str(self.name(name), value);
    }

    /// A count.
    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.raw(name, value.to_string());
    }

    /// A value as JSON text.
    pub(super) fn raw(&mut self, name: &str, json: impl AsRef<[u8]>) {
        self.name(name).extend_from_slice(json.as_ref());
    }

    /// An object.
    pub(super) fn object(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.name(name);
        let mut inner = Self::begin(std::mem::take(&mut self.out));
        write(&mut inner);
        self.out = inner.end();
    }

    /// A list of whatever `write` writes.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        write: impl FnMut(&mut Vec<u8>, T),
    ) {
        list(self.name(name), items, write);
    }
}

/// An object into a buffer.
pub(super) fn object(out: &mut Vec<u8>, write: impl FnOnce(&mut Object)) {
    let mut object = Object::begin(std::mem::take(out));
    write(&mut object);
    *out = object.end();
}

fn list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}
