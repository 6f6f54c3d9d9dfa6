//! The packed form of a part of a block: a number after the other, each as short as its value.
//!
//! `costs` has for each name the distance of its number from the one before, and its cost. `counts` has the other sums of each name behind
//! their length, so that a reader skips those that it does not ask for.

use std::collections::BTreeMap;

use super::super::{Sums, Tokens};

/// Names of one part: their numbers within it, and their sums.
pub(super) type Entries = BTreeMap<u16, Sums>;

/// The columns of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) costs: Vec<u8>,
    /// Empty: only the costs are known.
    pub(super) counts: Vec<u8>,
}

impl Packed {
    /// Packs names with all their sums.
    pub(super) fn whole(entries: &Entries) -> Self {
        let mut packed = Self::costs_of(entries.iter().map(|(number, sums)| (*number, sums.cost)));
        let mut record = Vec::new();
        for sums in entries.values() {
            record.clear();
            let Tokens { prompt, completion, cached, cache_write, reasoning } = sums.tokens;
            let counts = [sums.requests, sums.failed, sums.cache_hits, sums.unpriced];
            for count in counts.into_iter().chain([prompt, completion, cached, cache_write, reasoning]) {
                push_number(&mut record, count.into());
            }
            push_number(&mut record, zigzag(sums.saved));
            push_number(&mut packed.counts, record.len() as u128);
            packed.counts.extend_from_slice(&record);
        }
        packed
    }

    /// Packs the costs of names, the lowest number first.
    pub(super) fn costs_of(costs: impl Iterator<Item = (u16, i128)>) -> Self {
        let mut packed = Self::default();
        let mut last = 0;
        for (number, cost) in costs {
            push_number(&mut packed.costs, number.wrapping_sub(last).into());
            push_number(&mut packed.costs, zigzag(cost));
            last = number;
        }
        packed
    }

    /// The names with their sums, or with their costs alone. None: the bytes are damaged.
    pub(super) fn entries(&self) -> Option<Entries> {
        let mut entries = Entries::new();
        if self.counts.is_empty() {
            each_cost(&self.costs, |number, cost| {
                entries.insert(number, Sums { cost, ..Sums::default() });
            })?;
        } else {
            each_sums(
                self,
                |_| true,
                |number, sums| {
                    entries.insert(number, sums);
                },
            )?;
        }
        Some(entries)
    }
}

/// Hands each name with its cost to `found`. None: the bytes are damaged.
pub(super) fn each_cost(mut costs: &[u8], mut found: impl FnMut(u16, i128)) -> Option<()> {
    let mut number = 0_u16;
    while let Some((first, rest)) = costs.split_first() {
        // Nearly all distances are a byte.
        let distance = if *first < 0x80 {
            costs = rest;
            u16::from(*first)
        } else {
            u16::try_from(take_number(&mut costs)?).ok()?
        };
        number = number.wrapping_add(distance);
        let cost = match take_word(&mut costs) {
            Some(word) => i128::from((word >> 1).cast_signed() ^ -((word & 1).cast_signed())),
            None => unzigzag(take_number(&mut costs)?),
        };
        found(number, cost);
    }
    Some(())
}

/// Hands each name that is wanted with its sums to `found`. None: the bytes are damaged.
pub(super) fn each_sums(
    packed: &Packed,
    is_wanted: impl Fn(u16) -> bool,
    mut found: impl FnMut(u16, Sums),
) -> Option<()> {
    let mut counts = &*packed.counts;
    let mut is_sound = true;
    each_cost(&packed.costs, |number, cost| {
        let Some((record, rest)) = take_number(&mut counts)
            .and_then(|length| usize::try_from(length).ok())
            .and_then(|length| counts.split_at_checked(length))
        else {
            is_sound = false;
            return;
        };
        counts = rest;
        if is_wanted(number) {
            match sums(record, cost) {
                Some(sums) => found(number, sums),
                None => is_sound = false,
            }
        }
    })?;
    is_sound.then_some(())
}

fn sums(mut record: &[u8], cost: i128) -> Option<Sums> {
    let mut count = || take_number(&mut record).and_then(|count| u64::try_from(count).ok());
    let (requests, failed, cache_hits, unpriced) = (count()?, count()?, count()?, count()?);
    let (prompt, completion, cached) = (count()?, count()?, count()?);
    let (cache_write, reasoning) = (count()?, count()?);
    let tokens = Tokens { prompt, completion, cached, cache_write, reasoning };
    let saved = unzigzag(take_number(&mut record)?);
    Some(Sums { requests, failed, cache_hits, tokens, cost, unpriced, saved })
}

/// A number without a sign: small numbers of either sign stay small.
fn zigzag(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)).cast_unsigned()
}

fn unzigzag(value: u128) -> i128 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

fn push_number(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number of at most eight bytes from the front, if there are eight bytes: without a branch for each of them.
fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    const ENDS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let ends = !word & ENDS;
    if ends == 0 {
        return None;
    }
    // The bits up to the highest one of the last byte.
    let bits = word & (ends ^ (ends - 1)) & !ENDS;
    *bytes = bytes.get(ends.trailing_zeros() as usize / 8 + 1..)?;
    let pairs = (bits & 0x007f_007f_007f_007f) | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    Some((fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4)
}

/// Takes a number from the front.
fn take_number(bytes: &mut &[u8]) -> Option<u128> {
    // Eight bytes fit into a word, and nearly all numbers are such.
    let (mut low, mut shift) = (0_u64, 0_u32);
    while shift < 56 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        low |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return Some(low.into());
        }
        shift += 7;
    }
    let mut value = u128::from(low);
    while shift < 128 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u128::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Entries> {
        let amount =
            prop_oneof![any::<i64>().prop_map(i128::from), -9_i128..9, any::<i128>().prop_map(|n| n >> 1)];
        let sums = (amount.clone(), amount, any::<[u64; 4]>(), any::<[u32; 5]>()).prop_map(
            |(cost, saved, counts, tokens)| {
                let [requests, failed, cache_hits, unpriced] = counts;
                let [prompt, completion, cached, cache_write, reasoning] = tokens.map(u64::from);
                let tokens = Tokens { prompt, completion, cached, cache_write, reasoning };
                Sums { requests, failed, cache_hits, tokens, cost, unpriced, saved }
            },
        );
        prop::collection::btree_map(any::<u16>(), sums, 0..40)
    }

    proptest! {
        #[test]
        fn packed_sums_are_read_as_they_were(entries in entries(), cut in any::<prop::sample::Index>()) {
            let packed = Packed::whole(&entries);
            prop_assert_eq!(packed.entries(), Some(entries.clone()));
            let costs = Packed::costs_of(entries.iter().map(|(number, sums)| (*number, sums.cost)));
            prop_assert_eq!(&costs.costs, &packed.costs);
            let only_costs = costs.entries().unwrap();
            prop_assert!(only_costs.iter().map(|(number, sums)| (*number, sums.cost)).eq(
                entries.iter().map(|(number, sums)| (*number, sums.cost))));
            // Damaged bytes are no panic.
            if !packed.counts.is_empty() {
                let cut = cut.index(packed.counts.len());
                let short = Packed { counts: packed.counts[..cut].to_vec(), ..packed.clone() };
                prop_assert!(cut == 0 || short.entries().is_none());
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(costs: Vec<u8>, counts: Vec<u8>) {
            let _ = Packed { costs, counts }.entries();
        }
    }
}
