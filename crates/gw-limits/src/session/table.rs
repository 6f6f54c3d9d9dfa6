//! The sessions of one process. Each key has a share of them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::recent_calls::RecentCalls;
use super::{MAX_SESSIONS, SESSION_TTL, SessionId, SessionLimit, SessionRequest, SessionUse, micros};
use crate::fair_share::fair_share;

/// The part of a key's sessions that is forgotten at once when it has too many: one in this many.
const EVICTED_PART: usize = 16;

/// The sessions of one process. Times are microseconds of a clock that never goes back.
#[derive(Debug, Default)]
pub(crate) struct SessionTable(Mutex<SessionsByKey>);

/// The sessions of each key by their names.
type KeySessions = HashMap<Arc<str>, Session>;

#[derive(Debug, Default)]
struct SessionsByKey {
    keys: HashMap<Arc<str>, KeySessions>,
    /// The sessions of all keys.
    count: usize,
}

#[derive(Clone, Debug, Default)]
struct Session {
    calls: u64,
    cost_femtos: i128,
    first_seen: f64,
    last_used: f64,
    recent_calls: RecentCalls,
}

impl SessionTable {
    /// Counts a request, unless it goes beyond a limit.
    ///
    /// # Errors
    /// The first limit that it goes beyond.
    pub(crate) fn admit(&self, request: &SessionRequest<'_>, now: f64) -> Result<SessionUse, SessionLimit> {
        self.0.lock().session(request.id, now).admit(request, now)
    }

    /// As [`SessionTable::admit`], but counts nothing.
    ///
    /// # Errors
    /// The first limit that the request would go beyond.
    pub(crate) fn look(&self, request: &SessionRequest<'_>, now: f64) -> Result<SessionUse, SessionLimit> {
        let sessions = self.0.lock();
        let SessionId { key_id, name } = request.id;
        let session = sessions.keys.get(key_id).and_then(|own| own.get(name)).cloned();
        session.unwrap_or_default().admit(request, now)
    }

    /// Adds the cost of a request that is over.
    pub(crate) fn charge(&self, id: &SessionId, cost_femtos: i128) {
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.keys.get_mut(&id.key_id).and_then(|own| own.get_mut(&id.name)) {
            session.cost_femtos = session.cost_femtos.saturating_add(cost_femtos.max(0));
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().count
    }
}

impl Session {
    /// Counts a request, unless it goes beyond a limit.
    fn admit(&mut self, request: &SessionRequest<'_>, now: f64) -> Result<SessionUse, SessionLimit> {
        if self.calls == 0 || is_expired(self, now) {
            *self = Self { first_seen: now, ..Self::default() };
        }
        self.last_used = now;
        let repeats = self.recent_calls.add(request.newest_calls).max(request.equal_calls);
        let used = SessionUse {
            calls: self.calls.saturating_add(1),
            cost_femtos: self.cost_femtos,
            age: micros(now - self.first_seen),
            repeats,
        };
        if let Some(limit) = request.stop.exceeded_by(used).next() {
            return Err(limit);
        }
        self.calls = used.calls;
        Ok(used)
    }
}

impl SessionsByKey {
    /// The session of this name. The sessions of other keys never take its room.
    fn session(&mut self, id: &SessionId, now: f64) -> &mut Session {
        let own = self.keys.get(&id.key_id);
        let (held, is_known) = own.map_or((0, false), |own| (own.len(), own.contains_key(&id.name)));
        if !is_known {
            let share = fair_share(MAX_SESSIONS as u64, self.count.saturating_sub(held) as u64);
            if held > 0 && held as u64 >= share {
                self.evict_of(&Arc::clone(&id.key_id), now);
            } else if self.count >= MAX_SESSIONS {
                self.evict_of_largest(now);
            }
            self.count += 1;
        }
        self.keys.entry(Arc::clone(&id.key_id)).or_default().entry(Arc::clone(&id.name)).or_default()
    }

    /// Forgets sessions of the key that holds the most. Of keys with one session each, those that are least recently used.
    fn evict_of_largest(&mut self, now: f64) {
        let largest = self.keys.iter().max_by_key(|(_, own)| own.len());
        match largest.map(|(key, own)| (Arc::clone(key), own.len())) {
            Some((key, held)) if held > 1 => self.evict_of(&key, now),
            _ => {
                let oldest_kept = oldest_kept(self.keys.values().flat_map(HashMap::values));
                self.keys.retain(|_, own| own.values().any(|session| session.last_used > oldest_kept));
                self.count = self.keys.values().map(HashMap::len).sum();
            }
        }
    }

    /// Forgets the expired sessions of a key and, if there are none, the least recently used ones.
    fn evict_of(&mut self, key: &Arc<str>, now: f64) {
        let Some(own) = self.keys.get_mut(key) else { return };
        let before = own.len();
        own.retain(|_, session| !is_expired(session, now));
        if own.len() == before {
            let oldest_kept = oldest_kept(own.values());
            own.retain(|_, session| session.last_used > oldest_kept);
        }
        self.count = self.count.saturating_sub(before - own.len());
        if own.is_empty() {
            self.keys.remove(key);
        }
    }
}

/// The last use up to which sessions are forgotten: of one in [`EVICTED_PART`] of them, and of one at least.
fn oldest_kept<'s>(sessions: impl Iterator<Item = &'s Session>) -> f64 {
    let mut used: Vec<f64> = sessions.map(|session| session.last_used).collect();
    let last = (used.len() / EVICTED_PART).saturating_sub(1);
    if last >= used.len() {
        return f64::NEG_INFINITY;
    }
    *used.select_nth_unstable_by(last, f64::total_cmp).1
}

fn is_expired(session: &Session, now: f64) -> bool {
    now - session.last_used > SESSION_TTL.as_micros() as f64
}
