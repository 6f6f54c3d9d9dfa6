//! Persistent storage: gateway keys as hashes, teams, the ledger and optionally payloads, in an embedded SQLite file or in
//! a PostgreSQL database that replicas share.

pub mod alerts;
pub mod audit;
pub mod backup;
pub mod clock;
pub mod configuration;
pub mod db;
mod error;
pub mod inspection;
pub mod journal;
pub mod keys;
pub mod ledger;
pub mod limits;
pub mod payloads;
mod postgres;
mod private;
pub mod reconciliations;
mod secrets;
pub mod sessions;
pub mod sign_in_links;
mod sql;
mod sqlite;
pub mod stored_responses;
#[cfg(test)]
mod testing;

pub use db::{Error, Result, Store};
pub use keys::{NewKey, Role, StoredKey, Team};
pub use limits::{
    Budget, CountedTime, Limits, OnBudget, Period, PeriodLength, ROLLING_STEPS, RollingWindow, UnpricedPolicy,
};
