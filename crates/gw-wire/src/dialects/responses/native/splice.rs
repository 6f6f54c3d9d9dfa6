//! Changes parts of a JSON text. All other bytes stay as they are.

use std::ops::Range;

use crate::json::View;

/// The changes of one text, in the order of their places.
#[derive(Debug, Default)]
pub(super) struct TextSplice {
    changes: Vec<(Range<usize>, Vec<u8>)>,
}

/// The offset of `part`, a slice of `text`.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// The place of a value inside the text that it is a slice of.
pub(super) fn range(text: &str, part: View<'_>) -> Range<usize> {
    let start = offset(text, part.text());
    start..start + part.text().len()
}

impl TextSplice {
    /// Replaces a range.
    pub(super) fn replace(&mut self, range: Range<usize>, with: impl Into<Vec<u8>>) {
        self.changes.push((range, with.into()));
    }

    /// Removes entries of an object or an array with the commas beside them. `entries` are all entries of the container
    /// in their order, each with whether it is removed.
    pub(super) fn remove(&mut self, entries: &[(Range<usize>, bool)]) {
        let last_kept = entries.iter().rposition(|(_, is_removed)| !is_removed);
        let mut previous: Option<&Range<usize>> = None;
        for (at, (range, is_removed)) in entries.iter().enumerate() {
            if *is_removed {
                let next = entries.get(at + 1).filter(|_| last_kept.is_some_and(|last| last > at));
                // If no kept entry follows, the comma before the entry goes, too.
                let start = previous.map_or(range.start, |previous| previous.end);
                let cut = next.map_or(start..range.end, |(next, _)| range.start..next.start);
                self.replace(cut, Vec::new());
            }
            previous = Some(range);
        }
    }

    /// The changed text.
    pub(super) fn apply(mut self, text: &str) -> Vec<u8> {
        self.changes.sort_by_key(|(range, _)| (range.start, range.end));
        let more: usize = self.changes.iter().map(|(_, with)| with.len()).sum();
        let mut out = Vec::with_capacity(text.len() + more);
        let mut at = 0;
        for (range, with) in self.changes {
            out.extend_from_slice(text.as_bytes().get(at..range.start.max(at)).unwrap_or_default());
            out.extend_from_slice(&with);
            at = at.max(range.end);
        }
        out.extend_from_slice(text.as_bytes().get(at..).unwrap_or_default());
        out
    }
}

/// An object whose members are changed one by one.
#[derive(Debug)]
pub(in crate::dialects::responses) struct ObjectSplice<'a> {
    text: &'a str,
    /// Name, the range of the member and the range of its value.
    members: Vec<(String, Range<usize>, Range<usize>)>,
    object: Range<usize>,
    removed: Vec<bool>,
    added: Vec<u8>,
    pub(super) splice: TextSplice,
}

impl<'a> ObjectSplice<'a> {
    /// Begins to change `object`, which is a slice of `text`.
    pub(in crate::dialects::responses) fn new(text: &'a str, object: View<'a>) -> Self {
        let members: Vec<_> = object
            .members()
            .map(|(name, value)| {
                let (literal, value) = (range(text, name), range(text, value));
                let name = name.string().unwrap_or_default().into_owned();
                (name, literal.start..value.end, value)
            })
            .collect();
        let removed = vec![false; members.len()];
        let object = range(text, object);
        Self { text, members, object, removed, added: Vec::new(), splice: TextSplice::default() }
    }

    /// The value of a member.
    pub(super) fn get(&self, name: &str) -> Option<View<'a>> {
        let (_, _, value) = self.members.iter().find(|(known, ..)| known == name)?;
        self.text.get(value.clone()).map(View::new)
    }

    /// Sets a member: its value is replaced, or the member is added at the end.
    pub(in crate::dialects::responses) fn set(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let known = self.members.iter().find(|(known, ..)| known == name);
        match known {
            Some((_, _, range)) => self.splice.replace(range.clone(), value.as_ref()),
            None => {
                self.added.extend_from_slice(b",\"");
                self.added.extend_from_slice(name.as_bytes());
                self.added.extend_from_slice(b"\":");
                self.added.extend_from_slice(value.as_ref());
            }
        }
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, name: &str) {
        for ((known, ..), removed) in self.members.iter().zip(&mut self.removed) {
            *removed |= known == name;
        }
    }

    /// All changes.
    pub(super) fn finish(mut self) -> TextSplice {
        let entries: Vec<_> = self
            .members
            .iter()
            .zip(&self.removed)
            .map(|((_, range, _), removed)| (range.clone(), *removed))
            .collect();
        let is_empty = entries.iter().all(|(_, removed)| *removed);
        self.splice.remove(&entries);
        if !self.added.is_empty() {
            let end = self.object.end.saturating_sub(1);
            let added = if is_empty { self.added.get(1..).unwrap_or_default() } else { &self.added };
            self.splice.replace(end..end, added);
        }
        self.splice
    }

    /// The changed text.
    pub(in crate::dialects::responses) fn apply(self) -> Vec<u8> {
        let text = self.text;
        self.finish().apply(text)
    }
}

#[cfg(test)]
mod unit_tests {
    use super::ObjectSplice;
    use crate::json::View;

    #[test]
    fn members_are_replaced_removed_and_added() {
        let text = " { \"a\" : 1 , \"b\":[2] ,\n\"c\": 3 } ";
        let spliced = |remove: &[&str]| {
            let mut object = ObjectSplice::new(text, View::new(text));
            remove.iter().for_each(|name| object.remove(name));
            object.set("d", "4");
            if !remove.contains(&"b") {
                object.set("b", "null");
            }
            String::from_utf8(object.apply()).unwrap()
        };
        assert_eq!(spliced(&[]), " { \"a\" : 1 , \"b\":null ,\n\"c\": 3 ,\"d\":4} ");
        assert_eq!(spliced(&["a"]), " { \"b\":null ,\n\"c\": 3 ,\"d\":4} ");
        assert_eq!(spliced(&["c"]), " { \"a\" : 1 , \"b\":null ,\"d\":4} ");
        assert_eq!(spliced(&["b", "c"]), " { \"a\" : 1 ,\"d\":4} ");
        assert_eq!(spliced(&["a", "b", "c"]).replace(' ', ""), "{\"d\":4}");
    }
}
