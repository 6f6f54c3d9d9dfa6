//! The program: reads the configuration, connects the crates, starts and stops. It decides nothing about a single request.

pub mod admin_client;
pub mod agents;
pub mod alerts;
pub mod audit;
pub mod backup;
pub mod check;
pub mod cli;
pub mod clock;
pub mod config_command;
pub mod console_link;
pub mod diagnostics;
pub mod doctor;
pub mod drill;
pub mod explain;
pub mod export;
pub mod first_start;
pub mod hand_over;
pub mod identity;
pub mod keys;
pub mod ledger;
pub mod limit_metrics;
pub mod listeners;
pub mod local_servers;
pub mod log_filter;
pub mod log_writer;
pub mod login;
pub mod man;
pub mod management;
pub mod memory_limit;
pub mod model_discovery;
pub mod model_update;
pub mod models;
pub mod payloads;
pub mod provider_metrics;
pub mod readiness;
mod reconcile;
pub mod reload;
pub mod reload_command;
pub mod requests;
pub mod response_cache;
pub mod serve;
pub mod serve_args;
pub mod service_manager;
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
mod http_reference;
#[cfg(test)]
mod openapi;
