//! The management API, and the process as operators see it.

pub(crate) mod keys;
mod process;
pub(crate) mod usage;
