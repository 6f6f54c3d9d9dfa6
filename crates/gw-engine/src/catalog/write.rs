//! Writes JSON objects member by member, in a chosen order.

use std::fmt::Display;
use std::io::Write;

use gw_wire::json::write_str;

/// An object that is being written. [`Object::end`] closes it; dropping it leaves it open on purpose.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    /// Opens an object.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Continues an object that has members.
    pub(super) fn more(out: &'a mut Vec<u8>) -> Self {
        Self { out, empty: false }
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> usize {
        self.out.len()
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        write_str(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// A string.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        write_str(self.key(key), value);
    }

    /// A string, if it is known.
    pub(super) fn known(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// A number or a boolean; null if unknown.
    pub(super) fn number(&mut self, key: &str, value: Option<impl Display>) {
        let out = self.key(key);
        match value {
            Some(value) => drop(write!(out, "{value}")),
            None => out.extend_from_slice(b"null"),
        }
    }

    /// A list of strings.
    pub(super) fn texts<'s>(&mut self, key: &str, values: impl IntoIterator<Item = &'s str>) {
        list(self.key(key), values, write_str);
    }

    /// A list of any values.
    pub(super) fn list<T>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = T>,
        write: impl FnMut(&mut Vec<u8>, T),
    ) {
        list(self.key(key), values, write);
    }

    /// An object inside this one.
    pub(super) fn object(&mut self, key: &str, write: impl FnOnce(&mut Object<'_>)) {
        let mut inner = Object::new(self.key(key));
        write(&mut inner);
        inner.end();
    }

    /// Closes it.
    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

fn list<T>(out: &mut Vec<u8>, values: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, value);
    }
    out.push(b']');
}
