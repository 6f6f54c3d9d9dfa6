//! Edits of a JSON text that leave every other byte as it is.

use std::ops::Range;

use crate::json::View;

/// Replacements of ranges of one text, in any order. Ranges do not overlap.
#[derive(Debug)]
pub(in crate::dialects) struct Edits<'t> {
    text: &'t str,
    edits: Vec<(Range<usize>, Vec<u8>)>,
}

impl<'t> Edits<'t> {
    pub(in crate::dialects) fn new(text: &'t str) -> Self {
        Self { text, edits: Vec::new() }
    }

    /// The range of a value, which is a part of the text.
    fn range(&self, value: View<'t>) -> Range<usize> {
        let start = (value.text().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + value.text().len()
    }

    /// Replaces a value.
    pub(in crate::dialects) fn replace(&mut self, value: View<'t>, json: Vec<u8>) {
        self.edits.push((self.range(value), json));
    }

    /// Removes the members of an object that `is_removed` names. Returns the number of members that are left.
    pub(in crate::dialects) fn remove_members(
        &mut self,
        object: View<'t>,
        mut is_removed: impl FnMut(&str) -> bool,
    ) -> usize {
        let members = object.members().map(|(name, value)| {
            let is_removed = name.string().is_some_and(|name| is_removed(&name));
            (self.range(name).start..self.range(value).end, is_removed)
        });
        let members: Vec<_> = members.collect();
        self.remove(&members)
    }

    /// Removes the elements of an array at these positions, which are in order.
    pub(in crate::dialects) fn remove_elements(&mut self, array: View<'t>, positions: &[usize]) {
        let elements = array.elements().enumerate();
        let elements: Vec<_> = elements
            .map(|(at, element)| (self.range(element), positions.binary_search(&at).is_ok()))
            .collect();
        self.remove(&elements);
    }

    /// Removes entries with the comma that separates them. Returns the number of entries that are left.
    fn remove(&mut self, entries: &[(Range<usize>, bool)]) -> usize {
        let mut kept = 0;
        for (at, (range, is_removed)) in entries.iter().enumerate() {
            if !is_removed {
                kept += 1;
                continue;
            }
            let former = at.checked_sub(1).and_then(|at| entries.get(at));
            let next = entries.get(at + 1);
            let range = match (former, next) {
                (Some((former, _)), _) if kept > 0 => former.end..range.end,
                (_, Some((next, _))) => range.start..next.start,
                _ => range.clone(),
            };
            self.edits.push((range, Vec::new()));
        }
        kept
    }

    /// Appends members, written as `"a":1,"b":2`, to an object that has `kept` members left.
    pub(in crate::dialects) fn append(&mut self, object: View<'t>, kept: usize, members: &[u8]) {
        if members.is_empty() {
            return;
        }
        let end = self.range(object).end.saturating_sub(1);
        let mut text = Vec::with_capacity(members.len() + 1);
        if kept > 0 {
            text.push(b',');
        }
        text.extend_from_slice(members);
        self.edits.push((end..end, text));
    }

    /// The edited text.
    pub(in crate::dialects) fn apply(mut self) -> Vec<u8> {
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let added: usize = self.edits.iter().map(|(_, text)| text.len()).sum();
        let mut out = Vec::with_capacity(self.text.len() + added);
        let mut at = 0;
        for (range, text) in &self.edits {
            let between = self.text.as_bytes().get(at..range.start).unwrap_or_default();
            out.extend_from_slice(between);
            out.extend_from_slice(text);
            at = at.max(range.end);
        }
        out.extend_from_slice(self.text.as_bytes().get(at..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, names: &[&str], appended: &str) -> String {
        let mut edits = Edits::new(text);
        let object = View::new(text);
        let kept = edits.remove_members(object, |name| names.contains(&name));
        edits.append(object, kept, appended.as_bytes());
        String::from_utf8(edits.apply()).unwrap()
    }

    #[test]
    fn members_go_with_their_commas_and_the_rest_stays_as_it_is() {
        let text = r#" {"a": 1 ,"b" :2, "c": [3] } "#;
        assert_eq!(without(text, &["a"], ""), r#" {"b" :2, "c": [3] } "#);
        assert_eq!(without(text, &["b"], ""), r#" {"a": 1, "c": [3] } "#);
        assert_eq!(without(text, &["c"], ""), r#" {"a": 1 ,"b" :2 } "#);
        assert_eq!(without(text, &["a", "b"], ""), r#" {"c": [3] } "#);
        assert_eq!(without(text, &["b", "c"], r#""d":4"#), r#" {"a": 1 ,"d":4} "#);
        assert_eq!(without(text, &["a", "b", "c"], r#""d":4"#), r#" { "d":4} "#);
        assert_eq!(without("{}", &["a"], r#""d":4"#), r#"{"d":4}"#);
    }

    #[test]
    fn elements_go_with_their_commas() {
        let text = "[ 1, 2,3 ]";
        for (positions, left) in [
            (&[0][..], "[ 2,3 ]"),
            (&[1], "[ 1,3 ]"),
            (&[2], "[ 1, 2 ]"),
            (&[0, 2], "[ 2 ]"),
            (&[0, 1, 2], "[  ]"),
        ] {
            let mut edits = Edits::new(text);
            edits.remove_elements(View::new(text), positions);
            assert_eq!(String::from_utf8(edits.apply()).unwrap(), left, "{positions:?}");
        }
    }
}
