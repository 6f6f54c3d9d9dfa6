//! Faults on every side: hostile clients, broken upstreams, failing stores, lost replicas.

mod broken_upstreams;
mod chaos;
mod crash;
mod endurance;
mod expensive_bodies;
mod failing_stores;
mod hostile_clients;
mod hostile_stores;
mod large_uploads;
mod load;
mod loads;
mod malformed_http;
mod postgres_start;
mod replicas;
mod scarce_resources;
mod upstream_connections;
pub(crate) mod upstream_network;
