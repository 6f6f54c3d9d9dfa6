//! The command line, the first start, and the commands of the documentation, with the real program.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod agents;
mod backup;
mod book;
mod config;
mod config_tools;
mod docs_examples;
mod doctor;
mod drill;
mod explain;
mod export;
mod first_minutes;
mod first_run;
#[expect(dead_code, unused_imports, reason = "the tests of a serving gateway need more of it")]
#[path = "../harness/harness.rs"]
mod harness;
mod import;
mod keys;
mod keys_docs;
mod login;
mod models_update;
mod probe;
mod reconcile;
mod simulate;
mod usage_by_name;
