//! Memory: what outlives the process. Gateway keys as hashes, in an embedded SQLite file.

pub mod db;
pub mod keys;

pub use db::{Error, Result, Store};
pub use keys::{NewKey, Role, StoredKey};
