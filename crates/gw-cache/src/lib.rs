//! The response cache: stored answers, looked up by everything they depend on, and upstream calls that identical
//! concurrent requests share.
//!
//! # How a request uses the cache
//!
//! 1. Build the [`Key`] from a [`Scope`] and a [`Question`] ([`Key::of`]), and take a [`Stamp`] ([`Cache::stamp`]).
//! 2. Look the key up ([`Cache::look`]). [`Found::Fresh`] is the answer.
//! 3. Join the calls in flight ([`SingleFlight::join`]). A [`Role::Follower`] waits for the answer of another request's
//!    call. A [`Role::Leader`] spawns [`Leader::drive`] with its own call, and follows it too.
//! 4. The call looks the key up once more and asks the upstream. It publishes the answer's chunks ([`Publisher`]),
//!    stores a complete answer that may be stored ([`is_cacheable`], [`Cache::store`]), and returns it. An
//!    [`Accumulator`] puts a streamed answer together first.
//! 5. Count the outcome ([`Cache::count`]).
//!
//! [`CacheDirectives`] say which of these steps a request wants. A request that does not read the cache neither looks
//! nor joins.
//!
//! If nothing is stored under the key, a [`SimilarityIndex`] can help: a [`Context`] and a vector lead to the key of a
//! similar question. Its answer is then looked up like any other.
//!
//! # Guarantees
//!
//! - Every key has a scope, and no answer leaves its scope, neither from the store nor through a shared call.
//! - A store that fails is a cache miss. A lookup in Redis never takes longer than its timeout.
//! - A value in Redis carries its key and a checksum. A value that does not match is a miss.
//! - A purged answer is never returned, and neither is an answer whose call was in flight during the purge.
//!
//! This crate does not call upstreams and does not compute costs. It stores what it is given.

mod accumulator;
mod cache;
mod canonical;
mod context;
mod directives;
#[cfg(test)]
mod doubles;
mod eligibility;
mod encoding;
mod entry;
mod figures;
mod freshness;
mod hasher;
mod in_process;
mod key;
mod native_digests;
mod purge_log;
mod redis;
mod similarity;
mod single_flight;
mod stamp;

pub use self::redis::settings::RedisSettings;
pub use accumulator::Accumulator;
pub use cache::{Cache, Found, Peeked};
pub use canonical::canonical_digest;
pub use context::Context;
pub use directives::{CacheDirectives, Mode};
pub use eligibility::is_cacheable;
pub use entry::Stored;
pub use figures::{Figures, Outcome};
pub use freshness::{Freshness, Lifetime};
pub use key::{Key, Question, Scope};
pub use native_digests::NativeDigests;
pub use purge_log::{Purge, PurgeError};
pub use similarity::vector::UnitVector;
pub use similarity::{
    DEFAULT_THRESHOLD, Match, SimilarityFigures, SimilarityIndex, SimilarityMode, SimilaritySettings,
};
pub use single_flight::delivery::{End, FlightBounds, Next, Wants};
pub use single_flight::{AnswerSource, Follower, Leader, Publisher, Role, SingleFlight};
pub use stamp::Stamp;
