//! Finds names in a list. Few names are compared one by one; many are hashed with a random key, so that no client can
//! choose names that collide.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

/// Up to this many names are compared one by one.
const MAX_COMPARED: usize = 24;

/// The positions of many names, by hash. The names themselves are kept elsewhere.
#[derive(Clone, Debug)]
pub struct NameIndex {
    hasher: RandomState,
    /// Each name's hash with its position.
    positions: BTreeSet<(u64, usize)>,
}

impl NameIndex {
    /// An index of these names; None for few names, which are compared faster.
    #[must_use]
    pub fn of<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> Option<Self> {
        (names.len() > MAX_COMPARED).then(|| {
            let hasher = RandomState::new();
            let positions = names.enumerate().map(|(at, name)| (hasher.hash_one(name), at)).collect();
            Self { hasher, positions }
        })
    }

    /// Adds a name at this position.
    pub fn insert(&mut self, name: &str, position: usize) {
        self.positions.insert((self.hasher.hash_one(name), position));
    }

    /// The possible positions of a name, in order.
    fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let hash = self.hasher.hash_one(name);
        self.positions.range((hash, 0)..=(hash, usize::MAX)).map(|(_, at)| *at)
    }

    /// The position of a name that also has an earlier position.
    fn duplicate<'n>(&self, name: impl Fn(usize) -> Option<&'n str>) -> Option<usize> {
        let pairs = self.positions.iter().zip(self.positions.iter().skip(1));
        let mut same_hash = pairs.filter(|((one, _), (next, _))| one == next);
        same_hash.find(|((_, first), (_, second))| name(*first) == name(*second)).map(|(_, (_, at))| *at)
    }
}

/// The first position of a name among `count` names; `name_at` returns the name at a position.
#[must_use]
pub fn position<'n>(
    index: Option<&NameIndex>,
    count: usize,
    name: &str,
    name_at: impl Fn(usize) -> Option<&'n str>,
) -> Option<usize> {
    let is_it = |at: &usize| name_at(*at) == Some(name);
    match index {
        None => (0..count).find(is_it),
        Some(index) => index.candidates(name).find(is_it),
    }
}

/// The position of a name that also has an earlier position; `name_at` returns the name at a position.
#[must_use]
pub fn duplicate<'n>(
    index: Option<&NameIndex>,
    count: usize,
    name_at: impl Fn(usize) -> Option<&'n str>,
) -> Option<usize> {
    match index {
        Some(index) => index.duplicate(name_at),
        None => (0..count).find(|at| (0..*at).any(|before| name_at(before) == name_at(*at))),
    }
}

#[cfg(test)]
mod tests {
    use super::{NameIndex, duplicate, position};

    #[test]
    fn names_and_duplicates_are_found_among_few_and_among_many() {
        for count in [2, 24, 25, 5000] {
            let mut names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
            let mut index = NameIndex::of(names.iter().map(String::as_str));
            assert_eq!(index.is_some(), count > 24, "{count}");
            let name_at = |at: usize| names.get(at).map(String::as_str);
            assert_eq!(duplicate(index.as_ref(), names.len(), name_at), None, "{count}");
            assert_eq!(position(index.as_ref(), names.len(), "n1", name_at), Some(1));
            assert_eq!(position(index.as_ref(), names.len(), "other", name_at), None);
            names.push("n1".to_owned());
            if let Some(index) = &mut index {
                index.insert("n1", count);
            }
            let name_at = |at: usize| names.get(at).map(String::as_str);
            for index in [index, NameIndex::of(names.iter().map(String::as_str))] {
                assert_eq!(duplicate(index.as_ref(), names.len(), name_at), Some(count), "{count}");
                assert_eq!(position(index.as_ref(), names.len(), "n1", name_at), Some(1));
            }
        }
    }
}
