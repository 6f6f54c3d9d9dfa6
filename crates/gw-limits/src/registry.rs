//! The state of every key and team that was ever seen and is still of use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_store::Limits;
use parking_lot::Mutex;

use crate::subject::{State, Subject, Whose};

/// How long the state of a key that nobody holds is kept: longer than its tokens take to come back, and than the ledger
/// takes to learn what it spent.
const KEPT: Duration = Duration::from_secs(600);
/// So many more entries before the idle ones are looked for.
const BATCH: usize = 1024;

/// States by whose they are. Looked into when a key is made or changed, not by requests.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    states: HashMap<(Whose, Box<str>), Entry>,
    /// The size at which it is swept next.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    state: Arc<State>,
    asked: Instant,
}

impl Registry {
    /// The subject with these limits and with the state that it had before.
    pub(crate) fn subject(&self, whose: Whose, id: &str, limits: Limits) -> Arc<Subject> {
        let now = Instant::now();
        let inner = &mut *self.0.lock();
        if inner.states.len() >= inner.sweep_at {
            inner.states.retain(|_, entry| {
                // Held by a subject, a place or a reservation; or only just let go.
                if Arc::strong_count(&entry.state) > 1 {
                    entry.asked = now;
                }
                now.duration_since(entry.asked) < KEPT
            });
            inner.sweep_at = inner.states.len() + BATCH;
        }
        let entry = inner
            .states
            .entry((whose, id.into()))
            .or_insert_with(|| Entry { state: Arc::new(State::new(whose, id)), asked: now });
        entry.asked = now;
        entry.state.limit(&limits);
        Arc::new(Subject::new(limits, Arc::clone(&entry.state)))
    }
}
