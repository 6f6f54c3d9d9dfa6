//! Alerts: operators are told of budgets, providers, keys, prices and sessions.
//!
//! [`watcher`] finds events beside the requests: it reads the events that requests drop into a channel, and looks at the state of
//! the gateway. [`Alerts`] claims each event in the store and queues its message there, once over all replicas and restarts.
//! [`delivery`] sends the messages until they are taken, for a day.

mod alerts;
pub mod conditions;
pub mod delivery;
mod destination;
mod event;
mod held;
mod looks;
mod message;
mod metrics;
mod operators;
mod schedule;
pub mod settings;
mod signature;
pub mod trigger;
pub mod watcher;

pub use alerts::{Alerts, PreparedAlerts};
pub use destination::AlertError;
pub use event::{BudgetKind, BudgetSpending};
pub use settings::{AlertFormat, AlertSettings};
pub use signature::is_signing_secret;
