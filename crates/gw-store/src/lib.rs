//! Memory: what outlives the process. Gateway keys as hashes, teams and the ledger, in an embedded SQLite file.

pub mod db;
pub mod keys;
pub mod ledger;

pub use db::{Error, Result, Store};
pub use keys::{NewKey, Role, StoredKey};
