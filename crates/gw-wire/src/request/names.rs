//! Names of one object's members: found by name, and told when one comes twice. Few names are compared one by one; many
//! are hashed with a key of their own, so that nobody can choose names that collide.

use std::hash::{BuildHasher, RandomState};

/// So many names are compared one by one.
const FEW: usize = 24;

/// The place of each of many names.
#[derive(Clone, Debug)]
pub(super) struct NameIndex {
    hasher: RandomState,
    /// The names' hashes with their places, in order.
    places: Vec<(u64, usize)>,
}

impl NameIndex {
    /// None for few names: to compare them costs less.
    pub(super) fn of<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> Option<Self> {
        (names.len() > FEW).then(|| {
            let hasher = RandomState::new();
            let hash = |(at, name): (usize, &str)| (hasher.hash_one(name), at);
            let mut places: Vec<(u64, usize)> = names.enumerate().map(hash).collect();
            places.sort_unstable();
            Self { hasher, places }
        })
    }

    /// The places that this name may have.
    pub(super) fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let hash = self.hasher.hash_one(name);
        let from = self.places.partition_point(|(known, _)| *known < hash);
        let rest = self.places.get(from..).unwrap_or_default();
        rest.iter().take_while(move |(known, _)| *known == hash).map(|(_, at)| *at)
    }

    /// The place of a name that stands at an earlier place, too.
    fn repeated<'n>(&self, name: impl Fn(usize) -> Option<&'n str>) -> Option<usize> {
        let alike = self.places.chunk_by(|(one, _), (next, _)| one == next).filter(|alike| alike.len() > 1);
        let mut repeated = alike.filter_map(|alike| {
            let mut pairs = alike.windows(2);
            pairs.find_map(|pair| match pair {
                [(_, first), (_, second)] if name(*first) == name(*second) => Some(*second),
                _ => None,
            })
        });
        repeated.next()
    }
}

/// The place of a name that comes twice among so many; `name` gives the one at a place.
pub(super) fn repeated<'n>(
    index: Option<&NameIndex>,
    count: usize,
    name: impl Fn(usize) -> Option<&'n str>,
) -> Option<usize> {
    match index {
        Some(index) => index.repeated(name),
        None => (0..count).find(|at| (0..*at).any(|before| name(before) == name(*at))),
    }
}

#[cfg(test)]
mod tests {
    use super::{NameIndex, repeated};

    #[test]
    fn a_name_that_comes_twice_is_found_among_few_and_among_many() {
        for count in [2, 24, 25, 5000] {
            let mut names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
            let index = NameIndex::of(names.iter().map(String::as_str));
            assert_eq!(
                repeated(index.as_ref(), names.len(), |at| names.get(at).map(String::as_str)),
                None,
                "{count}"
            );
            if let Some(index) = &index {
                assert_eq!(index.candidates("n7").collect::<Vec<_>>(), [7]);
                assert_eq!(index.candidates("other").count(), 0);
            }
            names.push("n1".to_owned());
            let index = NameIndex::of(names.iter().map(String::as_str));
            assert_eq!(
                repeated(index.as_ref(), names.len(), |at| names.get(at).map(String::as_str)),
                Some(count),
                "{count}"
            );
        }
    }
}
