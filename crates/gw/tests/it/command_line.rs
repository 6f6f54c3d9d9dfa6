//! The command line, the first start, and the commands of the documentation.

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
mod import;
mod keys;
mod keys_docs;
mod models_update;
mod probe;
mod simulate;
