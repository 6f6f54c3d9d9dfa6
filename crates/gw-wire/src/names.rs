//! Names, each found by its place in a list: few are compared one by one; many are hashed with a key of their own, so that
//! nobody can choose names that collide.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

/// So many names are compared one by one.
const FEW: usize = 24;

/// The place of each of many names. The names themselves are kept elsewhere.
#[derive(Clone, Debug)]
pub struct NameIndex {
    hasher: RandomState,
    /// The names' hashes with their places.
    places: BTreeSet<(u64, usize)>,
}

impl NameIndex {
    /// None for few names: to compare them costs less.
    #[must_use]
    pub fn of<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> Option<Self> {
        (names.len() > FEW).then(|| {
            let hasher = RandomState::new();
            let places = names.enumerate().map(|(at, name)| (hasher.hash_one(name), at)).collect();
            Self { hasher, places }
        })
    }

    /// Adds a name that stands at this place.
    pub fn insert(&mut self, name: &str, place: usize) {
        self.places.insert((self.hasher.hash_one(name), place));
    }

    /// The places that this name may have, in order.
    fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let hash = self.hasher.hash_one(name);
        self.places.range((hash, 0)..=(hash, usize::MAX)).map(|(_, at)| *at)
    }

    /// The place of a name that stands at an earlier place, too.
    fn repeated<'n>(&self, name: impl Fn(usize) -> Option<&'n str>) -> Option<usize> {
        let pairs = self.places.iter().zip(self.places.iter().skip(1));
        let mut alike = pairs.filter(|((one, _), (next, _))| one == next);
        alike.find(|((_, first), (_, second))| name(*first) == name(*second)).map(|(_, (_, at))| *at)
    }
}

/// The first place of a name among so many; `name_at` gives the one at a place.
#[must_use]
pub fn place<'n>(
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

/// The place of a name that comes twice among so many; `name_at` gives the one at a place.
#[must_use]
pub fn repeated<'n>(
    index: Option<&NameIndex>,
    count: usize,
    name_at: impl Fn(usize) -> Option<&'n str>,
) -> Option<usize> {
    match index {
        Some(index) => index.repeated(name_at),
        None => (0..count).find(|at| (0..*at).any(|before| name_at(before) == name_at(*at))),
    }
}

#[cfg(test)]
mod tests {
    use super::{NameIndex, place, repeated};

    #[test]
    fn a_name_is_found_and_told_when_it_comes_twice_among_few_and_among_many() {
        for count in [2, 24, 25, 5000] {
            let mut names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
            let mut index = NameIndex::of(names.iter().map(String::as_str));
            assert_eq!(index.is_some(), count > 24, "{count}");
            let name_at = |at: usize| names.get(at).map(String::as_str);
            assert_eq!(repeated(index.as_ref(), names.len(), name_at), None, "{count}");
            assert_eq!(place(index.as_ref(), names.len(), "n1", name_at), Some(1));
            assert_eq!(place(index.as_ref(), names.len(), "other", name_at), None);
            names.push("n1".to_owned());
            if let Some(index) = &mut index {
                index.insert("n1", count);
            }
            let name_at = |at: usize| names.get(at).map(String::as_str);
            for index in [index, NameIndex::of(names.iter().map(String::as_str))] {
                assert_eq!(repeated(index.as_ref(), names.len(), name_at), Some(count), "{count}");
                assert_eq!(place(index.as_ref(), names.len(), "n1", name_at), Some(1));
            }
        }
    }
}
