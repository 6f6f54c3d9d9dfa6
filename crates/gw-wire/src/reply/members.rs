//! Members of an answer itself (`service_tier`, `moderation`, …), with one bound for whole answers and streams.

use serde_json::value::RawValue;

/// The largest member that is passed on, in bytes. A larger one is left out.
pub const MAX_MEMBER_BYTES: usize = 1 << 20;

/// The members of one answer that are kept. No vendor has as many.
const MAX_MEMBERS: usize = 8;

/// Whether a member is passed on.
pub(crate) fn is_passed_on(value: &RawValue) -> bool {
    value.get().len() <= MAX_MEMBER_BYTES
}

/// The members of an answer that comes in pieces: the last value of each name.
#[derive(Debug, Default)]
pub struct Members {
    known: Vec<(String, Box<RawValue>)>,
    bytes: usize,
}

impl Members {
    /// Takes a value, which replaces an earlier one of its name.
    pub fn take(&mut self, name: &str, value: &RawValue) {
        let at = self.known.iter().position(|(known, _)| known == name);
        if !is_passed_on(value) {
            // An earlier value is not the last one.
            if let Some((name, former)) = at.map(|at| self.known.remove(at)) {
                self.bytes -= name.len() + former.get().len();
            }
            return;
        }
        let has_room = self.known.len() < MAX_MEMBERS;
        match at.and_then(|at| self.known.get_mut(at)) {
            // Some upstreams repeat a member in every chunk.
            Some((_, former)) if former.get() == value.get() => {}
            Some((_, former)) => {
                self.bytes = self.bytes - former.get().len() + value.get().len();
                *former = value.to_owned();
            }
            None if has_room => {
                self.bytes += name.len() + value.get().len();
                self.known.push((name.to_owned(), value.to_owned()));
            }
            None => {}
        }
    }

    /// Bytes of the names and values that are kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Name and value of each, in the order in which the names came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.known.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// All of them.
    #[must_use]
    pub fn into_vec(self) -> Vec<(String, Box<RawValue>)> {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn the_last_value_of_a_name_counts_once() {
        let mut members = Members::default();
        for value in ["[1]", "[1]", "[1,2]", "[1,2]"] {
            members.take("citations", &raw(value));
        }
        members.take("metadata", &raw("{}"));
        assert_eq!(members.bytes(), "citations[1,2]metadata{}".len());
        let told: Vec<_> = members.iter().map(|(name, value)| (name, value.get())).collect();
        assert_eq!(told, [("citations", "[1,2]"), ("metadata", "{}")]);
    }

    #[test]
    fn a_value_that_is_repeated_is_not_copied() {
        let mut members = Members::default();
        members.take("citations", &raw("[1]"));
        let place = members.iter().next().map(|(_, value)| value.get().as_ptr());
        let again = raw("[1]");
        members.take("citations", &again);
        assert_eq!(members.iter().next().map(|(_, value)| value.get().as_ptr()), place);
    }

    #[test]
    fn a_value_that_is_too_large_is_left_out_with_the_one_before() {
        let mut members = Members::default();
        let of = |bytes: usize| raw(&format!("\"{}\"", "x".repeat(bytes - 2)));
        members.take("metadata", &of(MAX_MEMBER_BYTES));
        assert_eq!(members.iter().count(), 1);
        members.take("metadata", &of(MAX_MEMBER_BYTES + 1));
        assert_eq!((members.iter().count(), members.bytes()), (0, 0));
        (0..20).for_each(|at| members.take(&format!("m{at}"), &raw("1")));
        assert_eq!(members.iter().count(), MAX_MEMBERS);
    }
}
