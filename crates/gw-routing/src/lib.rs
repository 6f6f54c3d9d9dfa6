//! Routing decisions: which candidate first, whom to spare, when to try again. Pure: no IO, no runtime, no clock of its
//! own (every `now` is passed in), no globals.
//!
//! A candidate is described by [`Facts`]: what is known of it at the moment of the decision. [`order`] turns facts into
//! an order, by a [`Strategy`]. The facts come from [`Measured`] (live figures) and [`Health`] (the circuit breaker) of
//! one provider and model, and from [`Affinity`] (who holds a conversation's prompt cache). [`RetryBudget`] bounds what
//! failures may add to the traffic, [`HedgePurse`] what second attempts may add to the bill. `docs/routing.md` tells
//! operators the same, with a simulated hour.

pub mod affinity;
mod dice;
pub mod facts;
mod formula;
pub mod health;
pub mod hedge;
pub mod measured;
pub mod retry_budget;
pub mod score;
pub mod strategy;

pub use affinity::Affinity;
pub use facts::{Facts, Prior, Warm};
pub use health::{BreakerSettings, Health, Pass, Probe, Standing};
pub use hedge::{After, Hedge, HedgePurse, HedgeSettings, hedge_after};
pub use measured::{InFlight, Measured, Seen, Window};
pub use retry_budget::RetryBudget;
pub use score::{Parts, Place, Scored, Weights, order};
pub use strategy::Strategy;
