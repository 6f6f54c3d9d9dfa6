//! The command line, the first start, and the commands of the documentation.

mod agents;
mod config;
mod docs_examples;
mod drill;
mod explain;
mod export;
mod first_minutes;
mod first_run;
mod import;
mod keys;
mod keys_docs;
mod probe;
mod simulate;
