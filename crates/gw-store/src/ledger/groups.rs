//! The cache of SQLite's group numbers.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The numbers of groups that are in the database, by the shared part of their rows.
pub(crate) type Groups = Mutex<HashMap<Box<str>, i64>>;
