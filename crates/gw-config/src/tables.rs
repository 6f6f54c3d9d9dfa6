//! The schema of gateway.toml: one file for each section. [`super::walk`] checks a file against it, and docs/config.md is made
//! from it.

use super::schema::{Kind, Section, key};

mod agents;
mod alerts;
mod aliases;
mod budgets;
mod cache;
mod catalogue;
mod guards;
mod identity;
mod keys;
mod kinds;
mod models;
mod passthrough;
mod prices;
mod prompt_cache;
mod providers;
mod reconcile;
mod redis;
mod responses;
mod routing;
mod server;
mod store;
mod telemetry;
mod timeouts;

pub(super) use aliases::{CONDITIONAL_TARGETS, TARGET_NAMES};
#[cfg(test)]
pub(super) use providers::APIS;

/// The sections whose scalar keys an environment variable can set.
pub(super) const FROM_ENVIRONMENT: [&str; 7] =
    ["server", "timeouts", "store", "redis", "cache", "responses", "routing"];

/// The whole file.
pub(super) static ROOT: Section = Section {
    doc: "",
    keys: &[
        key("server", Kind::Table(&server::SERVER), "", ""),
        key("timeouts", Kind::Table(&timeouts::TIMEOUTS), "", ""),
        key("store", Kind::Table(&store::STORE), "", ""),
        key("redis", Kind::Table(&redis::REDIS), "", ""),
        key("cache", Kind::Table(&cache::CACHE), "", ""),
        key("responses", Kind::Table(&responses::RESPONSES), "", ""),
        key("telemetry", Kind::Table(&telemetry::TELEMETRY), "", ""),
        key("routing", Kind::Table(&routing::ROUTING), "", ""),
        key("providers", Kind::Tables(&providers::PROVIDER), "", ""),
        key("models", Kind::Tables(&models::MODEL), "", ""),
        key("aliases", aliases::ALIASES, "", aliases::DOC),
        key("catalogue", Kind::Table(&catalogue::CATALOGUE), "", ""),
        key("agents", Kind::Table(&agents::AGENTS), "", ""),
        key("keys", Kind::Tables(&keys::KEY), "", ""),
        key("guards", Kind::Tables(&guards::GUARD), "", ""),
        key("alerts", Kind::Tables(&alerts::ALERT), "", ""),
        key("budgets", Kind::Tables(&budgets::BUDGET), "", ""),
        key("reconcile", Kind::Tables(&reconcile::RECONCILE), "", ""),
        key("passthrough", Kind::Tables(&passthrough::PASSTHROUGH), "", ""),
        key("identity", Kind::Table(&identity::IDENTITY), "", ""),
    ],
};
