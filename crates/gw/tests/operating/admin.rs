//! The management API, and the process as operators see it.

mod accepted_entries;
mod configuration;
pub(crate) mod keys;
mod preset_values;
mod process;
mod reload;
mod restart;
mod stored_faults;
pub(crate) mod usage;
