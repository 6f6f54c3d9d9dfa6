//! Sessions: the runs of agents. A session belongs to one key. It counts its calls, its cost and its time, and it remembers
//! its last tool calls, so that a run that repeats itself can be noticed.
//!
//! A process keeps at most [`MAX_SESSIONS`] sessions. A session is forgotten after [`SESSION_TTL`] without a request, and of
//! too many sessions the least recently used ones are forgotten first. Replicas share sessions over Redis
//! (`redis/sessions.rs`). While Redis does not answer, each replica counts for itself.

mod recent_calls;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) use self::recent_calls::MAX_RECENT_CALLS;
use self::recent_calls::RecentCalls;

/// The most sessions that a process remembers.
pub const MAX_SESSIONS: usize = 10_000;
/// How long a session without requests is remembered.
pub const SESSION_TTL: Duration = Duration::from_secs(24 * 3600);
/// The part of the sessions that is forgotten at once when there are too many: one in this many.
const EVICTED_PART: usize = 16;

/// A key, and the name of one of its sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// The id of the key.
    pub key_id: Arc<str>,
    /// The name that the client gave to the session.
    pub name: Arc<str>,
}

/// A tool call of the newest turn of a conversation, as two hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The call itself with its id. A request that is sent again has the same occurrences.
    pub occurrence: u64,
    /// The name of the tool and its arguments. Equal calls have equal hashes.
    pub call: u64,
}

/// The limits of a session. None = no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// Calls.
    pub max_calls: Option<u64>,
    /// The cost of requests that are over, in femto-USD.
    pub max_cost_femtos: Option<i128>,
    /// The time since the first request.
    pub max_age: Option<Duration>,
    /// Equal tool calls.
    pub max_repeats: Option<u32>,
}

/// A limit of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionLimit {
    /// [`SessionLimits::max_calls`].
    Calls,
    /// [`SessionLimits::max_cost_femtos`].
    Cost,
    /// [`SessionLimits::max_age`].
    Age,
    /// [`SessionLimits::max_repeats`].
    Repeats,
}

/// A request that wants to enter its session.
#[derive(Clone, Copy, Debug)]
pub struct SessionRequest<'r> {
    /// The session.
    pub id: &'r SessionId,
    /// The tool calls of the newest turn.
    pub newest_calls: &'r [ToolCall],
    /// The largest number of equal tool calls in the request's own conversation.
    pub equal_calls: u32,
    /// A request beyond these limits is refused.
    pub stop: SessionLimits,
}

/// The use of a session, this request included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUse {
    /// Calls.
    pub calls: u64,
    /// The cost of the requests that are over, in femto-USD.
    pub cost_femtos: i128,
    /// The time since the first request.
    pub age: Duration,
    /// The largest number of equal tool calls.
    pub repeats: u32,
}

impl SessionLimits {
    /// The stricter limits of two.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            [one, other].into_iter().flatten().min()
        }
        Self {
            max_calls: least(self.max_calls, other.max_calls),
            max_cost_femtos: least(self.max_cost_femtos, other.max_cost_femtos),
            max_age: least(self.max_age, other.max_age),
            max_repeats: least(self.max_repeats, other.max_repeats),
        }
    }

    /// The limits that this use goes beyond. The request itself is one of the calls.
    pub fn exceeded_by(self, used: SessionUse) -> impl Iterator<Item = SessionLimit> {
        let calls = self.max_calls.is_some_and(|max| used.calls > max);
        let cost = self.max_cost_femtos.is_some_and(|max| used.cost_femtos >= max);
        let age = self.max_age.is_some_and(|max| used.age >= max);
        let repeats = self.max_repeats.is_some_and(|max| used.repeats > max);
        let all = [
            (calls, SessionLimit::Calls),
            (cost, SessionLimit::Cost),
            (age, SessionLimit::Age),
            (repeats, SessionLimit::Repeats),
        ];
        all.into_iter().filter(|(is_exceeded, _)| *is_exceeded).map(|(_, limit)| limit)
    }
}

/// The sessions of one process. Times are microseconds of a clock that never goes back.
#[derive(Debug, Default)]
pub(crate) struct SessionTable(Mutex<HashMap<SessionId, Session>>);

#[derive(Debug, Default)]
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
        let mut sessions = self.0.lock();
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(request.id) {
            evict(&mut sessions, now);
        }
        let session = sessions.entry(request.id.clone()).or_default();
        if session.calls == 0 || is_expired(session, now) {
            *session = Session { first_seen: now, ..Session::default() };
        }
        session.last_used = now;
        let repeats = session.recent_calls.add(request.newest_calls).max(request.equal_calls);
        let used = SessionUse {
            calls: session.calls.saturating_add(1),
            cost_femtos: session.cost_femtos,
            age: micros(now - session.first_seen),
            repeats,
        };
        if let Some(limit) = request.stop.exceeded_by(used).next() {
            return Err(limit);
        }
        session.calls = used.calls;
        Ok(used)
    }

    /// Adds the cost of a request that is over.
    pub(crate) fn charge(&self, id: &SessionId, cost_femtos: i128) {
        if let Some(session) = self.0.lock().get_mut(id) {
            session.cost_femtos = session.cost_femtos.saturating_add(cost_femtos.max(0));
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

fn is_expired(session: &Session, now: f64) -> bool {
    now - session.last_used > SESSION_TTL.as_micros() as f64
}

/// Forgets the expired sessions and, if that is not enough, the least recently used ones.
fn evict(sessions: &mut HashMap<SessionId, Session>, now: f64) {
    sessions.retain(|_, session| !is_expired(session, now));
    if sessions.len() < MAX_SESSIONS {
        return;
    }
    let mut used: Vec<f64> = sessions.values().map(|session| session.last_used).collect();
    let (_, oldest_kept, _) = used.select_nth_unstable_by(MAX_SESSIONS / EVICTED_PART, f64::total_cmp);
    let oldest_kept = *oldest_kept;
    sessions.retain(|_, session| session.last_used >= oldest_kept);
    // Many sessions may have been used at one moment.
    if sessions.len() >= MAX_SESSIONS {
        sessions.clear();
    }
}

/// A duration of microseconds.
pub(crate) fn micros(micros: f64) -> Duration {
    Duration::from_micros(micros.max(0.0) as u64)
}

#[cfg(test)]
mod tests;
