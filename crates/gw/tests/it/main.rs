//! The gateway seen from outside: the real program, real sockets, and only the upstream is made up.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod chat;
mod completions;
mod config_cli;
mod cost;
mod embeddings;
mod errors;
mod first_run;
mod guarantees_client;
mod guarantees_docs;
mod guarantees_splits;
mod guarantees_upstream;
mod harness;
mod http;
mod load;
mod models;
mod postgres_start;
mod process;
mod provider_keys;
mod providers;
mod routing;
mod stream;
mod tidy;
mod versions;
