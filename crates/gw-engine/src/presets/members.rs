//! The members of a JSON object that is changed: those that stay keep their bytes and their order.

use std::borrow::Cow;

use gw_wire::json::{Kind, View, write_str};

/// The members of an object: their names, and their values as JSON.
pub(super) struct ObjectMembers<'a> {
    members: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// A name counts in every case, with underscores and without, as Google's API reads names.
    is_loose: bool,
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_str(&mut out, text);
    // The writer of JSON texts keeps UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Whether both names are equal but for case and underscores.
fn is_alike(one: &str, other: &str) -> bool {
    let plain = |byte: &u8| *byte != b'_';
    let small = |byte: u8| byte.to_ascii_lowercase();
    one.bytes().filter(plain).map(small).eq(other.bytes().filter(plain).map(small))
}

impl<'a> ObjectMembers<'a> {
    /// The members of an object; none for another value.
    pub(super) fn read(object: View<'a>, is_loose: bool) -> Self {
        let member = |(name, value): (View<'a>, View<'a>)| {
            (name.string().unwrap_or(Cow::Borrowed(name.text())), Cow::Borrowed(value.text()))
        };
        Self { members: object.members().map(member).collect(), is_loose }
    }

    fn is_named(&self, given: &str, name: &str) -> bool {
        given == name || (self.is_loose && is_alike(given, name))
    }

    /// Whether a member has this name, whatever its value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(given, _)| self.is_named(given, name))
    }

    /// The value of a member that is not null.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let last = self.members.iter().rfind(|(given, _)| self.is_named(given, name));
        last.map(|(_, value)| &**value).filter(|value| View::new(value).kind() != Kind::Null)
    }

    /// Sets a member, in its place if it is there. A member that is there twice stays, for the reader of the request to refuse.
    pub(super) fn set(&mut self, name: &str, value: String) {
        let mut places =
            (0..).zip(&self.members).filter(|(_, (given, _))| self.is_named(given, name)).map(|(at, _)| at);
        let place: Option<usize> = places.next();
        if places.next().is_some() {
            return;
        }
        match place.and_then(|at| self.members.get_mut(at)) {
            Some((_, old)) => *old = Cow::Owned(value),
            None => self.members.push((Cow::Owned(name.to_owned()), Cow::Owned(value))),
        }
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, name: &str) {
        let is_loose = self.is_loose;
        self.members.retain(|(given, _)| given != name && !(is_loose && is_alike(given, name)));
    }

    /// The value at a path that is there and not null.
    pub(super) fn at(&self, path: &[&str]) -> Option<String> {
        let (name, rest) = path.split_first()?;
        let value = self.get(name)?;
        if rest.is_empty() {
            return Some(value.to_owned());
        }
        ObjectMembers::read(View::new(value), self.is_loose).at(rest)
    }

    /// Sets the value at a path. A value on the way that is no object stays, for the reader of the request to refuse.
    pub(super) fn set_at(&mut self, path: &[&str], value: String) {
        match path {
            [] => {}
            [name] => self.set(name, value),
            [name, rest @ ..] => self.change(name, |inner| inner.set_at(rest, value)),
        }
    }

    /// Takes the member at a path out.
    pub(super) fn remove_at(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [name] => self.remove(name),
            [name, rest @ ..] if self.get(name).is_some() => self.change(name, |inner| inner.remove_at(rest)),
            _ => {}
        }
    }

    /// Changes the object in a member. A missing member becomes an object.
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut ObjectMembers<'_>)) {
        let old = self.get(name).unwrap_or("{}").to_owned();
        if View::new(&old).kind() != Kind::Object {
            return;
        }
        let mut inner = ObjectMembers::read(View::new(&old), self.is_loose);
        change(&mut inner);
        let written = inner.write();
        self.set(name, written);
    }

    /// The object.
    pub(super) fn write(&self) -> String {
        let mut out = String::from("{");
        for (name, value) in &self.members {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&quoted(name));
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out
    }
}
