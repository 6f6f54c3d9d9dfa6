//! Names that must be unique within a request.

use std::collections::HashMap;

/// The names so far, each with its number of uses.
#[derive(Debug, Default)]
pub(super) struct UniqueNames {
    asked: HashMap<String, u32>,
}

impl UniqueNames {
    /// Returns the name, or the first numbered form of it that is free. `numbered` is called with 2, 3 and so on.
    pub(super) fn take(&mut self, name: &str, numbered: impl Fn(u32) -> String) -> String {
        let Some(asked) = self.asked.get(name) else {
            self.asked.insert(name.to_owned(), 1);
            return name.to_owned();
        };
        // The count continues, so no form is tried twice.
        let mut count = *asked;
        let unique = loop {
            count = count.saturating_add(1);
            let next = numbered(count);
            if !self.asked.contains_key(&next) {
                break next;
            }
        };
        self.asked.insert(name.to_owned(), count);
        self.asked.insert(unique.clone(), 1);
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::UniqueNames;

    #[test]
    fn a_name_that_is_taken_gets_the_next_free_number() {
        let mut names = UniqueNames::default();
        let mut take = |name: &str| names.take(name, |count| format!("{name} {count}"));
        let asked = ["a", "a 2", "a", "a", "b", "a 2", "a"];
        assert_eq!(asked.map(&mut take), ["a", "a 2", "a 3", "a 4", "b", "a 2 2", "a 5"]);
    }
}
