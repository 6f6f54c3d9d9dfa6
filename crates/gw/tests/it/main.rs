//! The gateway seen from outside: the real program, real sockets, and only the upstream is made up.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod authz;
mod budget_cuts;
mod budgets;
mod cache;
mod cache_calls;
mod cache_ends;
mod cache_followers;
mod cache_key;
mod cache_memory;
mod cache_scope;
mod cache_shared;
mod cache_teams;
mod cache_vectors;
mod cache_vectors_bounds;
mod canary;
mod chaos;
mod charged;
mod chat;
mod clock;
mod clock_periods;
mod completions;
mod config_cli;
mod continued;
mod cost;
mod crash;
mod docs_examples;
mod drill;
mod edges;
mod embeddings;
mod errors;
mod explain;
mod first_minutes;
mod first_run;
mod guarantees_client;
mod guarantees_connections;
mod guarantees_docs;
mod guarantees_injection;
mod guarantees_journal;
mod guarantees_network;
mod guarantees_routing;
mod guarantees_secrets;
mod guarantees_splits;
mod guarantees_stores;
mod guarantees_upstream;
mod harness;
mod hedging;
mod http;
mod keys_api;
mod keys_cli;
mod keys_docs;
mod leavers;
mod ledger;
mod load;
mod member_policy;
mod models;
mod overload;
mod payloads;
mod postgres_start;
mod private_files;
mod process;
mod provider_keys;
mod providers;
mod replicas;
mod request_limits;
mod requests_as_asked;
mod requests_at_the_edge;
mod routing;
mod routing_properties;
mod semantic;
mod simulate;
mod stalled_readers;
mod strategies;
mod stream;
mod stream_clocks;
mod tenant_references;
mod tenants;
mod tidy;
mod usage_api;
mod versions;
mod worst_bodies;
