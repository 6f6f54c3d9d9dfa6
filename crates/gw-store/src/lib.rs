//! Memory: what outlives the process. Gateway keys as hashes, teams and the ledger, in an embedded SQLite file.

pub mod db;
pub mod journal;
pub mod keys;
pub mod ledger;
pub mod limits;

pub use db::{Error, Result, Store};
pub use keys::{NewKey, Role, StoredKey, Team};
pub use limits::{Budget, Limits, Period};
