//! The state of prompt caches in this process: what each session left in its provider's cache, and whether breakpoints pay for a key.
//!
//! Both tables are bounded, and no key can push the entries of other keys out of them.

mod balance;
mod bounded_table;
mod segments;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gw_wire::prompt_cache::MissCause;
use parking_lot::Mutex;

use self::balance::Balance;
use self::bounded_table::BoundedTable;
pub(crate) use self::segments::Segments;
use crate::catalog::Model;

/// Sessions whose prompts are known, and those of one key.
const MAX_SESSIONS: usize = 4_096;
const MAX_SESSIONS_OF_KEY: usize = 512;

/// Pairs of a key and a target whose balance is known, and those of one key.
const MAX_BALANCES: usize = 8_192;
const MAX_BALANCES_OF_KEY: usize = 256;

/// The fewest tokens of a prompt that a model caches. Anthropic names 1,024 for most models and 2,048 for most of the family Haiku
/// ("Prompt caching", section "Cache limitations", at platform.claude.com).
const MIN_TOKENS: u64 = 1_024;
const MIN_TOKENS_OF_HAIKU: u64 = 2_048;

/// The fewest tokens of a prompt that gets breakpoints, if the configuration does not say it.
pub(crate) fn min_tokens(model: &Model) -> u64 {
    let is_haiku = [&model.upstream_model, &model.id].iter().any(|name| name.contains("haiku"));
    if is_haiku { MIN_TOKENS_OF_HAIKU } else { MIN_TOKENS }
}

/// The prompt of a session's last request, as the provider's cache has it.
#[derive(Clone, Debug)]
pub(crate) struct CachedPrompt {
    /// The catalogue id of the target.
    pub(crate) target: Arc<str>,
    pub(crate) segments: Segments,
    /// When the request was accepted.
    pub(crate) at: Instant,
    /// Tokens that the provider read from its cache or wrote into it.
    pub(crate) tokens: u64,
    /// The time for which the provider keeps them.
    pub(crate) ttl: Duration,
}

impl CachedPrompt {
    /// Why a later request of the session did not find all of this prompt, and the index of the first message that changed.
    pub(crate) fn cause(&self, later: &Self, age: Duration, ttl: Duration) -> (MissCause, Option<u64>) {
        if self.target != later.target {
            return (MissCause::Target, None);
        }
        let changed = self.segments.first_change(&later.segments);
        let rest = if age >= ttl { MissCause::Expired } else { MissCause::Provider };
        changed.unwrap_or((rest, None))
    }
}

/// The state of prompt caches.
#[derive(Debug)]
pub(crate) struct PromptCaches {
    sessions: Mutex<BoundedTable<CachedPrompt>>,
    /// Whether a session was ever noted.
    has_sessions: AtomicBool,
    balances: Mutex<BoundedTable<Balance>>,
}

impl Default for PromptCaches {
    fn default() -> Self {
        Self {
            sessions: Mutex::new(BoundedTable::new(MAX_SESSIONS, MAX_SESSIONS_OF_KEY)),
            has_sessions: AtomicBool::new(false),
            balances: Mutex::new(BoundedTable::new(MAX_BALANCES, MAX_BALANCES_OF_KEY)),
        }
    }
}

impl PromptCaches {
    /// Whether the prompt of a session may be known.
    pub(crate) fn has_sessions(&self) -> bool {
        self.has_sessions.load(Ordering::Relaxed)
    }

    /// Whether the prompt of this session is known.
    pub(crate) fn knows(&self, key_id: &str, session: &str, now: Instant) -> bool {
        self.has_sessions() && self.sessions.lock().get(key_id, session, now).is_some()
    }

    /// Replaces what the session's last request left in the cache, and returns it. A request that leaves nothing there is not kept.
    pub(crate) fn replace(
        &self,
        key_id: &Arc<str>,
        session: &Arc<str>,
        prompt: CachedPrompt,
        now: Instant,
    ) -> Option<CachedPrompt> {
        let mut sessions = self.sessions.lock();
        let last = sessions.remove(key_id, session, now);
        if prompt.tokens > 0 {
            sessions.insert(key_id, session, prompt, now);
            self.has_sessions.store(true, Ordering::Relaxed);
        }
        last
    }

    /// Whether breakpoints for a target are held back, because they cost the key more than they saved.
    pub(crate) fn is_held(&self, key_id: &str, target: &str, now: Instant) -> bool {
        self.balances.lock().get(key_id, target, now).is_some_and(|balance| balance.is_held(now))
    }

    /// Notes what a request with breakpoints saved and cost, in femto-USD.
    pub(crate) fn note(
        &self,
        key_id: &Arc<str>,
        target: &Arc<str>,
        (saved, surcharge): (i128, i128),
        now: Instant,
    ) {
        let mut balances = self.balances.lock();
        let mut balance = balances.remove(key_id, target, now).unwrap_or_default();
        balance.note(saved, surcharge, now);
        balances.insert(key_id, target, balance, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(target: &str, at: Instant, tokens: u64) -> CachedPrompt {
        let ttl = Duration::from_secs(300);
        CachedPrompt { target: target.into(), segments: Segments::default(), at, tokens, ttl }
    }

    #[test]
    fn the_first_cause_that_holds_counts() {
        let now = Instant::now();
        let ttl = Duration::from_secs(300);
        let (one, same, other) = (prompt("a/m", now, 1), prompt("a/m", now, 1), prompt("b/m", now, 1));
        assert_eq!(one.cause(&other, ttl, ttl), (MissCause::Target, None));
        assert_eq!(one.cause(&same, ttl, ttl), (MissCause::Expired, None));
        assert_eq!(one.cause(&same, ttl - Duration::from_secs(1), ttl), (MissCause::Provider, None));
    }

    #[test]
    fn a_session_belongs_to_its_key_and_ends_with_a_request_that_leaves_nothing() {
        let (caches, now) = (PromptCaches::default(), Instant::now());
        let [one, two, run]: [Arc<str>; 3] = ["k1".into(), "k2".into(), "run".into()];
        assert!(!caches.has_sessions());
        assert!(caches.replace(&one, &run, prompt("a/m", now, 7), now).is_none());
        assert!(caches.knows(&one, &run, now) && !caches.knows(&two, &run, now));
        assert!(caches.replace(&two, &run, prompt("a/m", now, 9), now).is_none());
        let last = caches.replace(&one, &run, prompt("a/m", now, 0), now);
        assert_eq!(last.map(|last| last.tokens), Some(7));
        assert!(caches.replace(&one, &run, prompt("a/m", now, 1), now).is_none());
    }

    #[test]
    fn breakpoints_are_held_for_an_hour_after_twenty_requests_that_do_not_pay() {
        let (caches, now) = (PromptCaches::default(), Instant::now());
        let [key, target]: [Arc<str>; 2] = ["k".into(), "a/m".into()];
        for _ in 0..19 {
            caches.note(&key, &target, (0, 5), now);
            assert!(!caches.is_held(&key, &target, now));
        }
        caches.note(&key, &target, (0, 5), now);
        assert!(caches.is_held(&key, &target, now));
        assert!(!caches.is_held(&key, "b/m", now) && !caches.is_held("other", &target, now));
        let end = now + Duration::from_secs(3_600);
        assert!(caches.is_held(&key, &target, end - Duration::from_millis(1)));
        assert!(!caches.is_held(&key, &target, end));
        caches.note(&key, &target, (0, 5), end);
        assert!(!caches.is_held(&key, &target, end));
    }
}
