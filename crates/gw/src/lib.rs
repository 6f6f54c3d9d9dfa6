//! The program: reads the configuration, wires the crates together, starts and stops. Nothing about a call is decided here.

pub mod announce;
pub mod automatic;
pub mod caching;
pub mod check;
pub mod cli;
pub mod clock;
pub mod config;
pub mod discover;
pub mod drill;
pub mod explain;
pub mod first_start;
pub mod keys;
pub mod ledger;
pub mod lines;
pub mod local;
pub mod models;
pub mod operator;
pub mod payloads;
pub mod places;
pub mod readiness;
pub mod serve;
pub mod setup;
pub mod signals;
pub mod simulate;
pub mod telemetry;
pub mod usage;
pub mod watch;

#[cfg(test)]
mod openapi;
