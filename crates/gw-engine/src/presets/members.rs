//! The members of a JSON object that is changed: those that stay keep their bytes and their order.

use std::borrow::Cow;

use gw_wire::json::{Kind, View, write_str};

/// The members of an object: their names, and their values as JSON.
pub(super) struct ObjectMembers<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_str(&mut out, text);
    // The writer of JSON texts keeps UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Whether both are spellings of one name. Google's API reads names with underscores and without.
fn is_same(one: &str, other: &str) -> bool {
    let small = |name: &str| name.replace('_', "").to_ascii_lowercase();
    one == other || (other.bytes().any(|byte| byte.is_ascii_uppercase()) && small(one) == small(other))
}

impl<'a> ObjectMembers<'a> {
    /// The members of an object; none for another value.
    pub(super) fn read(object: View<'a>) -> Self {
        let member = |(name, value): (View<'a>, View<'a>)| {
            (name.string().unwrap_or(Cow::Borrowed(name.text())), Cow::Borrowed(value.text()))
        };
        Self(object.members().map(member).collect())
    }

    /// The value of a member that is not null.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value =
            |(given, value): &'_ (Cow<'a, str>, Cow<'a, str>)| is_same(given, name).then(|| value.len());
        let place = self.0.iter().rposition(|member| value(member).is_some())?;
        self.0.get(place).map(|(_, value)| &**value).filter(|value| View::new(value).kind() != Kind::Null)
    }

    /// Sets a member, in its place if it is there.
    pub(super) fn set(&mut self, name: &str, value: String) {
        let mut value = Some(value);
        self.0.retain_mut(|(given, old)| {
            if !is_same(given, name) {
                return true;
            }
            let first = value.take();
            let is_first = first.is_some();
            if let Some(value) = first {
                *old = Cow::Owned(value);
            }
            is_first
        });
        if let Some(value) = value {
            self.0.push((Cow::Owned(name.to_owned()), Cow::Owned(value)));
        }
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(given, _)| !is_same(given, name));
    }

    /// The value at a path that is there and not null.
    pub(super) fn at(&self, path: &[&str]) -> Option<String> {
        let (name, rest) = path.split_first()?;
        let value = self.get(name)?;
        if rest.is_empty() { Some(value.to_owned()) } else { ObjectMembers::read(View::new(value)).at(rest) }
    }

    /// Sets the value at a path. A value on the way that is no object is replaced by one.
    pub(super) fn set_at(&mut self, path: &[&str], value: String) {
        match path {
            [] => {}
            [name] => self.set(name, value),
            [name, rest @ ..] => {
                let inner = self.get(name).unwrap_or("{}").to_owned();
                let mut inner = ObjectMembers::read(View::new(&inner));
                inner.set_at(rest, value);
                let written = inner.write();
                self.set(name, written);
            }
        }
    }

    /// Takes the member at a path out.
    pub(super) fn remove_at(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [name] => self.remove(name),
            [name, rest @ ..] => {
                let Some(inner) = self.get(name).map(str::to_owned) else { return };
                if View::new(&inner).kind() != Kind::Object {
                    return;
                }
                let mut inner = ObjectMembers::read(View::new(&inner));
                inner.remove_at(rest);
                let written = inner.write();
                self.set(name, written);
            }
        }
    }

    /// The object.
    pub(super) fn write(&self) -> String {
        let mut out = String::from("{");
        for (name, value) in &self.0 {
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
