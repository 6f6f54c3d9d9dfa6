//! Answers that were given before: kept under keys that say whose they are, shared by identical requests in flight.
//!
//! # A request that asks for the cache
//!
//! 1. [`Key::of`] its [`Scope`] and [`Question`], and [`Cache::stamp`].
//! 2. [`Cache::look`]. [`Found::Fresh`] is the answer.
//! 3. [`Flights::join`]. A [`Role::Follower`] waits for what another request's work brings. A [`Role::Leader`] spawns
//!    [`Lead::drive`] and follows it, too.
//! 4. The work looks once more, calls the upstream, gives its [`Pieces`], [`Cache::store`]s what is complete and may be kept
//!    ([`may_be_kept`]), and returns it. A streamed answer is put together
//!    by a [`Gather`] first.
//! 5. [`Cache::count`] how it went.
//!
//! [`Wish`] says which of these a request wants at all: who does not want to read neither looks nor joins. A [`Similar`] stands beside: where nothing is found under the key, a
//! [`Context`] and a vector lead to the key of a similar question, whose answer is then looked for like any other.
//!
//! # Promises
//!
//! - There is no key without a scope, and no answer crosses one: not from the store, not by sharing a call.
//! - Whatever is wrong with a store is a miss. Nothing waits for one longer than it was told to.
//! - A value from a shared store carries its key and a checksum; what does not fit is a miss.
//! - What was purged is not given out any more, nor what was under way then.
//!
//! This crate neither calls an upstream nor knows what an answer costs; it keeps what it is given.

mod body;
mod cache;
mod canonical;
mod context;
#[cfg(test)]
mod doubles;
mod entry;
mod fields;
mod figures;
mod flight;
mod gather;
mod key;
mod life;
mod memory;
mod purges;
mod shared;
mod similar;
mod wish;

pub use body::may_be_kept;
pub use cache::{Cache, Found, NotPurged, Peeked};
pub use context::Context;
pub use entry::Stored;
pub use figures::{Figures, Outcome};
pub use flight::{Bounds, End, Flights, Follower, Lead, Next, Pieces, Role, Wants};
pub use gather::Gather;
pub use key::{Key, Question, Route, Scope};
pub use life::{Freshness, Life};
pub use purges::{Purge, Stamp};
pub use shared::SharedSettings;
pub use similar::{Match, Similar, SimilarFigures, SimilarMode, SimilarSettings, THRESHOLD, Unit};
pub use wish::{Mode, Wish};
