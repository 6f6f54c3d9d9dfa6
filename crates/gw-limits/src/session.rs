//! Sessions: the runs of agents. A session belongs to one key. It counts its calls, its cost and its time, and it remembers
//! its last tool calls, so that a run that repeats itself can be noticed.
//!
//! A process keeps at most [`MAX_SESSIONS`] sessions, and each key has a share of them (`fair_share.rs`). A session is
//! forgotten after [`SESSION_TTL`] without a request. A key beyond its share forgets its own least recently used sessions.
//! Replicas share sessions over Redis (`redis/sessions.rs`), which keeps [`MAX_SESSIONS_OF_KEY`] of each key. While Redis does not answer, each replica counts for itself.

mod recent_calls;
mod table;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::recent_calls::MAX_RECENT_CALLS;
pub(crate) use self::table::SessionTable;

/// The most sessions that a process remembers.
pub const MAX_SESSIONS: usize = 10_000;
/// How long a session without requests is remembered.
pub const SESSION_TTL: Duration = Duration::from_secs(24 * 3600);
/// The most sessions of one key in Redis: its share of a process that serves no other key.
pub(crate) const MAX_SESSIONS_OF_KEY: usize = MAX_SESSIONS / 2;

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

/// A duration of microseconds.
pub(crate) fn micros(micros: f64) -> Duration {
    Duration::from_micros(micros.max(0.0) as u64)
}

#[cfg(test)]
mod tests;
