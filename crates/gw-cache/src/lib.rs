//! Answers that were given before: kept under keys that say whose they are, shared by identical requests in flight.
//!
//! # A request that asks for the cache
//!
//! 1. [`Key::of`] its [`Scope`] and [`Question`], and [`Cache::stamp`].
//! 2. [`Cache::look`]. [`Found::Fresh`] is the answer.
//! 3. [`Flights::join`]. A [`Role::Follower`] waits for what another request's work brings. A [`Role::Leader`] spawns
//!    [`Lead::drive`] and follows it, too.
//! 4. The work looks once more, calls the upstream, gives its [`Pieces`], [`Cache::store`]s what is complete and may be kept, and
//!    returns it.
//! 5. [`Cache::count`] how it went.
//!
//! # Promises
//!
//! - There is no key without a scope, and no answer crosses one: not from the store, not by sharing a call.
//! - Whatever is wrong with a store is a miss. Nothing waits for one longer than it was told to.
//! - A value from a shared store carries its key and a checksum; what does not fit is a miss.
//! - What was purged is not given out any more, nor what was under way then.
//!
//! This crate neither calls an upstream nor knows what an answer costs; it keeps what it is given.

mod cache;
mod canonical;
mod context;
#[cfg(test)]
mod doubles;
mod entry;
mod fields;
mod figures;
mod flight;
mod key;
mod life;
mod memory;
mod purges;
mod shared;
mod similar;
mod wish;

pub use cache::{Cache, Found, NotPurged};
pub use context::Context;
pub use entry::Stored;
pub use figures::{Figures, Outcome};
pub use flight::{Bounds, End, Flights, Follower, Lead, Next, Pieces, Role, Wants};
pub use key::{Key, Question, Route, Scope};
pub use life::{Freshness, Life};
pub use purges::{Purge, Stamp};
pub use shared::SharedSettings;
pub use similar::{Match, Similar, SimilarFigures, SimilarMode, SimilarSettings, THRESHOLD, Unit};
pub use wish::{Mode, Wish};
