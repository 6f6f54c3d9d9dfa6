//! The keys of a provider, taken in turn by weight. Nothing here prints them.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Turns of one round at most; weights beyond it are scaled down.
const MAX_TURNS: u64 = 1024;

/// Authorization values in the order they are used.
pub(super) struct Credentials {
    values: Vec<HeaderValue>,
    /// Indexes of `values`: one round, spread evenly.
    turns: Vec<usize>,
    next: AtomicUsize,
}

impl Credentials {
    /// Bearer credentials; no key = no credentials.
    ///
    /// # Errors
    /// A key cannot be sent in a header. The message does not hold it.
    pub(super) fn bearer(keys: &[(SecretString, u32)]) -> Result<Self, String> {
        let values = keys.iter().map(|(key, _)| bearer(key)).collect::<Result<Vec<_>, _>>()?;
        let weights: Vec<u32> = keys.iter().map(|(_, weight)| *weight).collect();
        Ok(Self { values, turns: spread(&weights), next: AtomicUsize::new(0) })
    }

    /// Whose turn it is.
    pub(super) fn next(&self) -> Option<&HeaderValue> {
        if let [only] = self.values.as_slice() {
            return Some(only);
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(self.turns.len())?;
        self.values.get(*self.turns.get(turn)?)
    }

    /// The bare keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.iter().filter_map(|value| value.to_str().ok()?.strip_prefix("Bearer "))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.values.len())
    }
}

fn bearer(key: &SecretString) -> Result<HeaderValue, String> {
    let key = key.expose_secret();
    if key.is_empty() {
        return Err("api_key is empty".to_owned());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
        .map_err(|_| "api_key holds characters that cannot be sent in a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// One round in which each index appears as often as its weight says, spread as evenly as it goes (smooth weighted
/// round robin).
fn spread(weights: &[u32]) -> Vec<usize> {
    let divisor = weights.iter().fold(0, |sum, weight| gcd(sum, u64::from(*weight))).max(1);
    let total: u64 = weights.iter().map(|weight| u64::from(*weight) / divisor).sum();
    let scale = |weight: u32| {
        let weight = u64::from(weight) / divisor;
        if total > MAX_TURNS { (weight * MAX_TURNS / total).max(1) } else { weight }
    };
    let shares: Vec<i64> = weights.iter().map(|weight| i64::try_from(scale(*weight)).unwrap_or(1)).collect();
    let round: i64 = shares.iter().sum();
    let mut credit = vec![0_i64; shares.len()];
    let mut turns = Vec::new();
    for _ in 0..round {
        for (credit, share) in credit.iter_mut().zip(&shares) {
            *credit += share;
        }
        // The first of the richest: `max_by_key` would take the last.
        let richest = credit.iter_mut().enumerate().rev().max_by_key(|(_, credit)| **credit);
        if let Some((index, credit)) = richest {
            *credit -= round;
            turns.push(index);
        }
    }
    turns
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::{Credentials, spread};

    fn keys(weights: &[u32]) -> Credentials {
        let keys: Vec<_> = weights
            .iter()
            .enumerate()
            .map(|(n, weight)| (SecretString::from(format!("sekret{n}")), *weight))
            .collect();
        Credentials::bearer(&keys).unwrap()
    }

    #[test]
    fn keys_take_turns_by_weight_spread_evenly() {
        assert_eq!(spread(&[1, 1]), [0, 1]);
        assert_eq!(spread(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(spread(&[20, 10]), [0, 1, 0]);
        assert_eq!(spread(&[]), [0_usize; 0]);
        let huge = spread(&[u32::MAX, 1]);
        assert!(huge.len() <= 1025 && huge.contains(&1));
    }

    #[test]
    fn every_key_is_sent_in_its_turn_and_never_shown() {
        let two = keys(&[2, 1]);
        let sent: Vec<_> = (0..3).filter_map(|_| two.next()).map(|value| value.to_str().unwrap()).collect();
        assert_eq!(sent, ["Bearer sekret0", "Bearer sekret1", "Bearer sekret0"]);
        assert!(keys(&[]).next().is_none());
        let shown = format!("{two:?} {:?}", two.next());
        assert!(!shown.contains("sekret"), "{shown}");
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused_without_showing_it() {
        for key in ["", "sekret\n", "sek\u{0}ret"] {
            let message = Credentials::bearer(&[(SecretString::from(key), 1)]).unwrap_err();
            assert!(!message.contains("sek"), "{message}");
        }
    }
}
