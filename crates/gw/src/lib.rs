//! The program: reads the configuration, connects the crates, starts and stops. It decides nothing about a single request.

pub mod admin_client;
pub mod agents;
pub mod check;
pub mod cli;
pub mod clock;
pub mod command;
pub mod config;
pub mod default_providers;
pub mod drill;
pub mod encryption_key;
pub mod explain;
pub mod first_start;
pub mod hand_over;
pub mod keys;
pub mod ledger;
pub mod listeners;
pub mod local_servers;
pub mod log_writer;
pub mod model_discovery;
pub mod models;
pub mod paths;
pub mod payloads;
pub mod readiness;
pub mod reload;
pub mod reload_command;
pub mod requests;
pub mod response_cache;
pub mod serve;
pub mod service_manager;
pub mod setup;
pub mod signals;
pub mod simulate;
pub mod start_report;
pub mod store;
pub mod stored_responses;
pub mod telemetry;
pub mod url_query;
pub mod usage;
pub mod watch;

#[cfg(test)]
mod openapi;
