//! Routing decisions: the order of candidates, when to skip one and when to try again. Pure: no IO, no runtime, no
//! globals and no clock (callers pass `now` in).
//!
//! [`Facts`] describe a candidate at the moment of the decision. [`order`] sorts candidates by a [`Strategy`]. The facts
//! come from [`CallMetrics`] (measured figures) and [`Health`] (the circuit breaker) of one provider and model, and from
//! [`Affinity`] (which model holds a conversation's prompt cache). [`RetryBudget`] bounds the calls that retries may add,
//! [`HedgeBudget`] the cost that hedges may add. `docs/routing.md` explains the same to operators and shows a simulated
//! hour.

pub mod affinity;
pub mod facts;
mod formula;
pub mod health;
pub mod hedge;
pub mod metrics;
pub mod retry_budget;
mod rng;
pub mod score;

pub use affinity::Affinity;
pub use facts::{Facts, Prior, PromptCache};
pub use gw_wire::strategy::{self, Strategy};
pub use health::{BreakerSettings, Health, HealthStatus, Permit, Probe};
pub use hedge::{Hedge, HedgeBudget, HedgeDelay, HedgeSettings, hedge_after};
pub use metrics::{Averages, CallMetrics, InFlight, Window};
pub use retry_budget::RetryBudget;
pub use score::{ScoreTerms, Scored, Tier, Weights, order};
