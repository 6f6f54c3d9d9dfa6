//! The keys of a provider, used in turn by weight. A key that the provider refuses is set aside. No output shows a key.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gw_wire::failure::{Failure, FailureKind};
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use crate::adapter::Scheme;
use crate::settings::SettingsError;

/// The most turns of one round. Larger weights are scaled down.
const MAX_TURNS: u64 = 1024;

/// How long a refused key is not used. Afterwards it is tried again, because the account may have been topped up.
const DEAD_KEY_PAUSE: Duration = Duration::from_secs(300);

/// How long the other keys are used first after a provider limited a key without naming a time.
const LIMITED_KEY_PAUSE: Duration = Duration::from_secs(2);

/// The state of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyState {
    /// In use.
    #[default]
    Alive,
    /// The provider refused the key with this status (401, 402, 403).
    Dead(Option<u16>),
    /// The provider asked to pause with this key.
    Resting,
}

impl KeyState {
    /// The name of the state in the admin API and in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Dead(_) => "dead",
            Self::Resting => "resting",
        }
    }
}

struct Key {
    value: HeaderValue,
    bare: SecretString,
    /// The state, and when it ends. Afterwards the key is alive again.
    state: Mutex<(KeyState, Option<Instant>)>,
    /// Until then the other keys that are alive are used first.
    limited_until: Mutex<Option<Instant>>,
}

impl Key {
    fn state(&self) -> (KeyState, Option<Instant>) {
        let (state, until) = *self.state.lock();
        match until {
            Some(until) if until > Instant::now() => (state, Some(until)),
            _ => (KeyState::Alive, None),
        }
    }

    /// Whether the provider limited the key a moment ago.
    fn is_limited(&self) -> bool {
        self.limited_until.lock().is_some_and(|until| until > Instant::now())
    }
}

/// Keys, and the order of their use.
pub(super) struct Credentials {
    header: HeaderName,
    keys: Vec<Key>,
    /// One round as indexes of `keys`, evenly mixed.
    turns: Vec<usize>,
    next: AtomicUsize,
}

/// Every key is set aside. Holds the time until the first key is used again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoUsableKey(pub(super) Duration);

impl Credentials {
    /// Keys that are sent with this scheme. An empty list sends no credentials.
    ///
    /// # Errors
    /// A key cannot be sent in a header. The message does not show the key.
    pub(super) fn new(keys: &[(SecretString, u32)], scheme: Scheme) -> Result<Self, SettingsError> {
        let header = match scheme {
            Scheme::Bearer => http::header::AUTHORIZATION,
            Scheme::Header(name) => HeaderName::from_static(name),
        };
        let weights: Vec<u32> = keys.iter().map(|(_, weight)| *weight).collect();
        let keys = keys.iter().map(|(key, _)| key_of(key, scheme)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { header, keys, turns: spread(&weights), next: AtomicUsize::new(0) })
    }

    /// The header that carries the key.
    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The next key. The only key of a provider is never set aside, because there is no alternative.
    ///
    /// # Errors
    /// There are several keys, and all of them are dead or resting.
    pub(super) fn next(&self) -> Result<Option<(usize, &HeaderValue)>, NoUsableKey> {
        match self.keys.as_slice() {
            [] => return Ok(None),
            [only] => return Ok(Some((0, &only.value))),
            _ => {}
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let round = self.turns.len().max(1);
        let mut limited = None;
        for step in 0..round {
            let at = self.turns.get((turn % round + step) % round).copied().unwrap_or(0);
            if let Some(key) = self.keys.get(at)
                && key.state().0 == KeyState::Alive
            {
                if !key.is_limited() {
                    return Ok(Some((at, &key.value)));
                }
                limited = limited.or(Some((at, &key.value)));
            }
        }
        if limited.is_some() {
            return Ok(limited);
        }
        let back = self.keys.iter().filter_map(|key| key.state().1).min();
        Err(NoUsableKey(
            back.map_or(Duration::from_secs(1), |at| at.saturating_duration_since(Instant::now())),
        ))
    }

    /// Whether another call can use a key that is alive.
    pub(super) fn has_other(&self) -> bool {
        self.keys.len() > 1 && self.keys.iter().any(|key| key.state().0 == KeyState::Alive)
    }

    /// Records a failure of a call with this key. Returns true when the key has just died.
    pub(super) fn record_failure(&self, key: usize, failure: &Failure) -> bool {
        let Some(key) = self.keys.get(key) else { return false };
        let now = Instant::now();
        let new = match failure.kind {
            FailureKind::Auth | FailureKind::Billing => {
                (KeyState::Dead(failure.status), Some(now + DEAD_KEY_PAUSE))
            }
            FailureKind::RateLimited => match failure.retry_after {
                Some(pause) => (KeyState::Resting, Some(now + pause)),
                None => {
                    *key.limited_until.lock() = Some(now + LIMITED_KEY_PAUSE);
                    return false;
                }
            },
            _ => return false,
        };
        let is_news = matches!(new.0, KeyState::Dead(_)) && !matches!(key.state().0, KeyState::Dead(_));
        *key.state.lock() = new;
        is_news
    }

    /// Records that the provider accepted a key, which makes it alive again.
    pub(super) fn record_success(&self, key: usize) {
        if let Some(key) = self.keys.get(key) {
            let mut state = key.state.lock();
            if state.1.is_some() {
                *state = (KeyState::Alive, None);
            }
        }
    }

    /// The number of keys.
    pub(super) fn count(&self) -> usize {
        self.keys.len()
    }

    /// The state of each key, in the order of the configuration, with the time until the key is used again.
    pub(super) fn states(&self) -> Vec<(KeyState, Option<Duration>)> {
        let now = Instant::now();
        let state = |key: &Key| {
            let (state, until) = key.state();
            (state, until.map(|until| until.saturating_duration_since(now)))
        };
        self.keys.iter().map(state).collect()
    }

    /// The bare keys.
    pub(super) fn bare(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.bare.expose_secret())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

fn key_of(key: &SecretString, scheme: Scheme) -> Result<Key, SettingsError> {
    let bare = key.expose_secret();
    if bare.is_empty() {
        return Err(SettingsError::EmptyKey);
    }
    let text = match scheme {
        Scheme::Bearer => format!("Bearer {bare}"),
        Scheme::Header(_) => bare.to_owned(),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| SettingsError::UnsendableKey)?;
    value.set_sensitive(true);
    Ok(Key { value, bare: key.clone(), state: Mutex::default(), limited_until: Mutex::default() })
}

/// One round of smooth weighted round robin: each index appears as often as its weight says, evenly mixed.
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
        // Of equal credits the first index wins. `max_by_key` alone would take the last.
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
    use std::time::{Duration, Instant};

    use gw_wire::failure::{Failure, FailureKind};
    use secrecy::SecretString;

    use super::{Credentials, KeyState, LIMITED_KEY_PAUSE, spread};
    use crate::adapter::Scheme;

    fn keys(weights: &[u32]) -> Credentials {
        let keys: Vec<_> = weights
            .iter()
            .enumerate()
            .map(|(n, weight)| (SecretString::from(format!("sekret{n}")), *weight))
            .collect();
        Credentials::new(&keys, Scheme::Bearer).unwrap()
    }

    fn sent(keys: &Credentials, times: usize) -> Vec<usize> {
        (0..times).map(|_| keys.next().unwrap().unwrap().0).collect()
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
        assert_eq!(sent(&two, 3), [0, 1, 0]);
        assert_eq!(two.next().unwrap().unwrap().1.to_str().unwrap(), "Bearer sekret0");
        assert!(keys(&[]).next().unwrap().is_none());
        let shown = format!("{two:?} {:?}", two.next());
        assert!(!shown.contains("sekret"), "{shown}");
    }

    #[test]
    fn a_refused_key_is_set_aside_and_a_limited_one_pauses_for_its_retry_after() {
        let two = keys(&[1, 1]);
        let refused = Failure::new(FailureKind::Auth, "no").with_status(401);
        assert!(two.record_failure(0, &refused) && !two.record_failure(0, &refused), "news only once");
        assert_eq!(two.states()[0].0, KeyState::Dead(Some(401)));
        assert_eq!(sent(&two, 3), [1, 1, 1]);
        let mut limited = Failure::new(FailureKind::RateLimited, "slow");
        two.record_failure(1, &limited);
        assert_eq!(two.states()[1].0, KeyState::Alive, "no pause was asked for");
        assert_eq!(sent(&two, 2), [1, 1], "no other key is alive");
        let pause = Duration::from_secs(60);
        limited.retry_after = Some(pause);
        let before = Instant::now();
        two.record_failure(1, &limited);
        assert_eq!(two.states()[1].0, KeyState::Resting);
        let super::NoUsableKey(back) = two.next().unwrap_err();
        assert!(back <= pause && back + before.elapsed() >= pause, "{back:?}");
        assert!(!two.has_other());
        two.record_success(1);
        assert_eq!(sent(&two, 2), [1, 1]);
    }

    #[test]
    fn after_a_limit_without_a_time_the_other_keys_come_first() {
        let three = keys(&[8, 1, 1]);
        // The pause is as long as it should be, and then an hour longer, so that a slow test does not outlast it.
        let limit = |key: usize| {
            let before = Instant::now();
            three.record_failure(key, &Failure::new(FailureKind::RateLimited, "slow"));
            let mut until = three.keys[key].limited_until.lock();
            let end = until.unwrap();
            assert!(end >= before + LIMITED_KEY_PAUSE && end <= Instant::now() + LIMITED_KEY_PAUSE);
            *until = Some(end + Duration::from_secs(3600));
        };
        limit(0);
        assert_eq!(sent(&three, 20).iter().filter(|key| **key == 0).count(), 0);
        limit(1);
        assert_eq!(sent(&three, 3), [2, 2, 2]);
        limit(2);
        assert!(sent(&three, 10).contains(&0), "all are limited, so they take turns");
        assert!(three.has_other());
    }

    #[test]
    fn a_refused_only_key_is_reported_and_still_used() {
        let one = keys(&[1]);
        assert!(one.record_failure(0, &Failure::new(FailureKind::Billing, "pay").with_status(402)));
        assert_eq!(one.states()[0].0, KeyState::Dead(Some(402)));
        assert_eq!(sent(&one, 1), [0]);
        assert!(!one.has_other());
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused_without_showing_it() {
        for key in ["", "sekret\n", "sek\u{0}ret"] {
            let message =
                Credentials::new(&[(SecretString::from(key), 1)], Scheme::Bearer).unwrap_err().to_string();
            assert!(!message.contains("sek"), "{message}");
        }
    }
}
