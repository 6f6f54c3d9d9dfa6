//! The places of a request's attempts in the order in which they began. They are noted when they end, and of a hedged request the later one
//! may end first.

use std::time::Instant;

use smallvec::SmallVec;

/// The begins of the attempts that are noted, in order. Most requests have one attempt.
#[derive(Debug, Default)]
pub(crate) struct BeginOrder(SmallVec<[Instant; 1]>);

impl BeginOrder {
    /// Adds an attempt, and returns its place. Attempts that began at one moment keep the order in which they are added.
    pub(crate) fn add(&mut self, began: Instant) -> usize {
        let place = self.0.partition_point(|other| *other <= began);
        self.0.insert(place, began);
        place
    }
}

/// Inserts a member at its place.
pub(crate) fn insert_at<T>(list: &mut Vec<T>, place: usize, member: T) {
    list.insert(place.min(list.len()), member);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn attempts_are_in_the_order_of_their_begins() {
        let (mut order, first) = (BeginOrder::default(), Instant::now());
        let places = [100, 0, 0, 50, 200].map(|after| order.add(first + Duration::from_millis(after)));
        assert_eq!(places, [0, 0, 1, 2, 4]);
    }

    #[test]
    fn a_place_behind_the_end_is_the_end() {
        let mut list = vec!['a'];
        insert_at(&mut list, 7, 'c');
        insert_at(&mut list, 1, 'b');
        assert_eq!(list, ['a', 'b', 'c']);
    }
}
