//! The state of every key and team that is in use or was used a short time ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gw_store::Limits;
use parking_lot::Mutex;

use crate::subject::{State, Subject};
use crate::subject_kind::SubjectKind;

/// How long the state of an unused subject is kept. Its tokens are free again long before that, and the ledger knows
/// its spending.
const IDLE_TTL: Duration = Duration::from_secs(600);
/// The number of new entries after which idle entries are removed.
const SWEEP_INTERVAL: usize = 1024;
/// The most counters of rules that are kept. A rule by end user may have a million of them. Beyond it, half of the unused ones
/// leave, the longest unused first, and learn their spending anew from the ledger.
const MAX_RULE_COUNTERS: usize = 50_000;

/// States by subject. Used when a key is created or changed, but not by requests.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_subject: HashMap<(SubjectKind, Box<str>), Entry>,
    /// The number of entries at which the next sweep happens.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    state: Arc<State>,
    last_used: Instant,
}

impl Registry {
    /// A subject with these limits over the state that it had before.
    pub(crate) fn subject(&self, kind: SubjectKind, id: &str, limits: Limits) -> Arc<Subject> {
        self.subject_of(kind, id, limits, 0)
    }

    /// As [`Registry::subject`], with limits of the configuration with this number.
    pub(crate) fn subject_of(
        &self,
        kind: SubjectKind,
        id: &str,
        limits: Limits,
        configuration: u64,
    ) -> Arc<Subject> {
        let now = Instant::now();
        let entries = &mut *self.0.lock();
        if entries.by_subject.len() >= entries.sweep_at {
            entries.sweep(now);
        }
        let entry = entries
            .by_subject
            .entry((kind, id.into()))
            .or_insert_with(|| Entry { state: Arc::new(State::new(kind, id, &limits)), last_used: now });
        entry.last_used = now;
        entry.state.update_limits(&limits, configuration);
        Arc::new(Subject::new(limits, Arc::clone(&entry.state)))
    }
}

impl Registry {
    /// The ids of the counters of rules.
    pub(crate) fn rule_counters(&self) -> Vec<Box<str>> {
        let entries = self.0.lock();
        let is_rule = |(kind, _): &&(SubjectKind, Box<str>)| *kind == SubjectKind::Rule;
        entries.by_subject.keys().filter(is_rule).map(|(_, id)| id.clone()).collect()
    }

    /// The state of a subject that this process knows.
    pub(crate) fn state(&self, kind: SubjectKind, id: &str) -> Option<Arc<State>> {
        self.0.lock().by_subject.get(&(kind, id.into())).map(|entry| Arc::clone(&entry.state))
    }
}

impl Entries {
    fn sweep(&mut self, now: Instant) {
        self.by_subject.retain(|_, entry| {
            // A subject, a permit or a reservation still refers to it.
            if Arc::strong_count(&entry.state) > 1 {
                entry.last_used = now;
            }
            // Nobody else knows what a rule would have refused.
            now.duration_since(entry.last_used) < IDLE_TTL || entry.state.would_refuse.load(Relaxed) > 0
        });
        self.evict_rule_counters();
        self.sweep_at = self.by_subject.len() + SWEEP_INTERVAL;
    }

    /// Removes half of the unused counters of rules if there are too many.
    fn evict_rule_counters(&mut self) {
        let is_unused = |kind: SubjectKind, entry: &Entry| {
            kind == SubjectKind::Rule && Arc::strong_count(&entry.state) == 1
        };
        let unused = self.by_subject.iter().filter(|((kind, _), entry)| is_unused(*kind, entry));
        let mut times: Vec<Instant> = unused.map(|(_, entry)| entry.last_used).collect();
        if times.len() <= MAX_RULE_COUNTERS {
            return;
        }
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.by_subject.retain(|(kind, _), entry| !is_unused(*kind, entry) || entry.last_used > median);
    }
}
