//! The dearest names of a span, part after part, in bounded memory.

use std::collections::BTreeMap;

use super::PART_NAMES;
use super::codec::each_cost;

/// A bit for each name of a part.
type Bits = Vec<u64>;

/// The dearest names so far by their numbers. Names that cost as much as the last one that is listed are a bit each, because there may be
/// a million of them: their order is that of their texts, which nobody knows here.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    limit: usize,
    /// The names above the floor, fewer than the limit once there is a floor.
    above: Vec<(i128, i64)>,
    floor: Option<i128>,
    tied: BTreeMap<i64, Bits>,
}

/// The costs of the names of a part.
#[derive(Debug)]
pub(super) struct PartCosts {
    /// The number of the first name.
    first: i64,
    /// By the number in the part; [`ABSENT`] for a name that has none.
    costs: Vec<i128>,
}

/// The place of a name without a cost.
const ABSENT: i128 = i128::MIN;

fn is_set(bits: &Bits, at: usize) -> bool {
    bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

fn set(bits: &mut Bits, at: usize) {
    if let Some(word) = bits.get_mut(at / 64) {
        *word |= 1 << (at % 64);
    }
}

fn no_bits() -> Bits {
    vec![0; PART_NAMES / 64]
}

impl PartCosts {
    /// No costs of the part that begins with this number.
    pub(super) fn new(first: i64) -> Self {
        Self { first, costs: vec![ABSENT; PART_NAMES] }
    }

    /// Adds a cost of a name.
    pub(super) fn add(&mut self, number: u16, cost: i128) {
        if let Some(sum) = self.costs.get_mut(usize::from(number)) {
            *sum = if *sum == ABSENT { cost } else { sum.saturating_add(cost) };
        }
    }

    /// Adds packed costs. None: they are damaged.
    pub(super) fn add_packed(&mut self, costs: &[u8]) -> Option<()> {
        each_cost(costs, |number, cost| self.add(number, cost))
    }

    /// The names with their costs, the lowest number first.
    pub(super) fn all(&self) -> impl Iterator<Item = (u16, i128)> {
        let costs = (0..=u16::MAX).zip(self.costs.iter().copied());
        costs.filter(|(_, cost)| *cost != ABSENT)
    }
}

impl Ranking {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), ..Self::default() }
    }

    /// Adds the names of a part that was not added before.
    pub(super) fn add(&mut self, part: &PartCosts) {
        let mut equal = no_bits();
        let mut has_equal = false;
        for (number, cost) in part.all() {
            if self.floor.is_none_or(|floor| cost > floor) {
                self.above.push((cost, part.first + i64::from(number)));
            } else if self.floor == Some(cost) {
                set(&mut equal, number.into());
                has_equal = true;
            }
        }
        if self.above.len() < self.limit {
            if has_equal {
                self.tied.insert(part.first, equal);
            }
            return;
        }
        let (_, &mut (floor, _), _) =
            self.above.select_nth_unstable_by(self.limit - 1, |(one, _), (other, _)| other.cmp(one));
        let all = std::mem::take(&mut self.above);
        self.floor = Some(floor);
        self.tied.clear();
        for (cost, id) in all {
            if cost > floor {
                self.above.push((cost, id));
            } else if cost == floor {
                let first = id - id.rem_euclid(PART_NAMES as i64);
                let at = usize::try_from(id - first).unwrap_or(usize::MAX);
                set(self.tied.entry(first).or_insert_with(no_bits), at);
            }
        }
    }

    /// The names that are listed for sure, with their costs.
    pub(super) fn above(&self) -> &[(i128, i64)] {
        &self.above
    }

    /// The cost of the names of which some are listed, and how many. None: all names are listed.
    pub(super) fn floor(&self) -> Option<(i128, usize)> {
        self.floor.map(|floor| (floor, self.limit.saturating_sub(self.above.len())))
    }

    /// Whether a name costs as much as the floor.
    pub(super) fn is_tied(&self, id: i64) -> bool {
        let first = id - id.rem_euclid(PART_NAMES as i64);
        self.tied
            .get(&first)
            .is_some_and(|bits| is_set(bits, usize::try_from(id - first).unwrap_or(usize::MAX)))
    }

    /// The number of names that cost as much as the floor.
    pub(super) fn tied_count(&self) -> usize {
        self.tied.values().flatten().map(|word| word.count_ones() as usize).sum()
    }

    /// The names that cost as much as the floor.
    pub(super) fn tied(&self) -> impl Iterator<Item = i64> {
        self.tied.iter().flat_map(|(first, bits)| {
            (0..=u16::MAX)
                .filter(|number| is_set(bits, (*number).into()))
                .map(move |number| first + i64::from(number))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_dearest_names_and_all_that_cost_as_much_as_the_last_are_found(
            parts in prop::collection::btree_map(0_i64..5, prop::collection::btree_map(0_u16..40, 0_i128..12, 0..30), 0..5),
            limit in 1_usize..20,
        ) {
            let mut ranking = Ranking::new(limit);
            for (part, costs) in &parts {
                let mut found = PartCosts::new(part * PART_NAMES as i64);
                costs.iter().for_each(|(number, cost)| found.add(*number, *cost));
                ranking.add(&found);
            }
            let mut all: Vec<(i128, i64)> = parts.iter().flat_map(|(part, costs)| {
                costs.iter().map(move |(number, cost)| (*cost, part * PART_NAMES as i64 + i64::from(*number)))
            }).collect();
            all.sort_by_key(|(cost, id)| (-cost, *id));
            let floor = all.get(limit - 1).map(|(cost, _)| *cost);
            prop_assert_eq!(ranking.floor().map(|(floor, _)| floor), floor);
            let above: Vec<_> = all.iter().copied().filter(|(cost, _)| floor.is_none_or(|floor| *cost > floor)).collect();
            let mut found = ranking.above().to_vec();
            found.sort_by_key(|(cost, id)| (-cost, *id));
            prop_assert_eq!(&found, &above);
            let tied: Vec<i64> = all.iter().filter(|(cost, _)| Some(*cost) == floor).map(|(_, id)| *id).collect();
            prop_assert_eq!(&ranking.tied().collect::<Vec<_>>(), &tied);
            prop_assert_eq!(ranking.tied_count(), tied.len());
            prop_assert!(tied.iter().all(|id| ranking.is_tied(*id)));
            if let Some((_, room)) = ranking.floor() {
                prop_assert_eq!(room, limit - above.len());
            }
        }
    }
}
