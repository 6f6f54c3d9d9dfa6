//! Composes the settings of the crates from checked tables, and checks the rules that need several keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gw_engine::settings::{EngineSettings, RoutingSettings};
use gw_limits::RedisSettings;
use gw_providers::settings::Timeouts;
use gw_server::TlsSettings;
use gw_server::settings::ServerSettings;

use super::binding::{fill, filled};
use super::file;
use super::problems::ProblemReport;
use super::settings::{Config, Loaded, Readable, StoreSettings};
use super::tree::Table;

mod cache;
mod fields;
mod guards;
mod identity;
mod keys;
mod models;
mod providers;
mod responses;
mod store;
mod telemetry;

use fields::{regular, timeouts};

/// Composes all settings. With a problem in the report, the result must not be used.
pub(super) fn config(root: &Table, report: &mut ProblemReport) -> Config {
    let names = providers::names(root);
    let mut config = Config {
        server: root.table("server").map(|table| server(table, report)).unwrap_or_default(),
        timeouts: root.table("timeouts").map(timeouts).unwrap_or_default().over(Timeouts::default()),
        providers: providers::providers(root, report),
        engine: EngineSettings {
            routing: root.table("routing").map(routing).unwrap_or_default(),
            request_limits: filled(root.table("server").and_then(|server| server.table("request_limits"))),
            models: models::models(root, &names, report),
            aliases: models::aliases(root, report),
            codex_instructions: root.table("agents").and_then(|table| codex_instructions(table, report)),
            keys: keys::keys(root, report),
            guards: guards::guards(root, report),
            shown: String::new(),
            allowed_bytes: None,
        },
        redis: root.table("redis").and_then(|table| redis(table, root, report)),
        cache: cache::cache(root, &names, report),
        responses: responses::responses(root),
        identity: identity::identity(root, report),
        store: root.table("store").map(|table| store(table, report)).unwrap_or_default(),
        otlp: telemetry::otlp(root, report),
        ..filled(root.table("server"))
    };
    if let Some(catalogue) = root.table("catalogue") {
        fill(&mut config, catalogue);
    }
    let longest = longest_request(&config);
    if let Some(redis) = &mut config.redis {
        redis.lease = MIN_LEASE.max(longest * 2);
    }
    config
}

/// The parts of a configuration with problems that other checks can use. None: the name of a provider cannot be read, so models
/// and aliases cannot be checked.
pub(super) fn readable(root: &Table, mut loaded: Loaded) -> Option<Readable> {
    let names = providers::names(root);
    if root.tables("providers").count() > names.len() {
        return None;
    }
    let config = &mut loaded.config;
    let broken = |name: &String| !config.providers.iter().any(|provider| provider.name == *name);
    let broken_providers = names.into_iter().filter(broken).collect();
    // Duplicates are reported already, and later checks would report them again.
    let mut seen = BTreeSet::new();
    config.providers.retain(|provider| seen.insert(provider.name.clone()));
    seen.clear();
    config.engine.models.retain(|model| seen.insert(model.id.clone()));
    config.engine.aliases.retain(|alias, settings| !settings.targets.contains(alias));
    Some(Readable { loaded, broken_providers })
}

/// The least lease of a reservation in Redis. The reservations of a process that died expire with their lease, which is twice
/// the longest request.
const MIN_LEASE: Duration = Duration::from_secs(10);

/// The longest time of a request. Its reservation must not expire earlier.
fn longest_request(config: &Config) -> Duration {
    let providers = config.providers.iter().map(|provider| &provider.timeouts);
    let models = config.engine.models.iter().map(|model| &model.timeouts);
    let own = providers.chain(models).filter_map(|timeouts| timeouts.total);
    own.fold(config.timeouts.total, Duration::max)
}

/// The largest system prompt for Codex.
const MAX_INSTRUCTIONS_BYTES: u64 = 1 << 20;

/// Reads the file of `agents.codex_instructions`.
fn codex_instructions(agents: &Table, report: &mut ProblemReport) -> Option<Arc<str>> {
    let path = agents.file("codex_instructions")?;
    let text = match file::read(&path, MAX_INSTRUCTIONS_BYTES).map(String::from_utf8) {
        Ok(Ok(text)) if !text.trim().is_empty() => return Some(text.into()),
        Ok(Ok(_)) => "is an empty file".to_owned(),
        Ok(Err(_)) => "is not UTF-8 text".to_owned(),
        Err(unreadable) => unreadable.to_string(),
    };
    report.fault(agents.position("codex_instructions"), &agents.path("codex_instructions"), text);
    None
}

/// The largest file of certificates.
const MAX_PEM_BYTES: u64 = 16 << 20;

fn server(table: &Table, report: &mut ProblemReport) -> ServerSettings {
    let tls = table.table("tls").and_then(|tls| server_tls(tls, report));
    let settings = ServerSettings { tls, ..filled(Some(table)) };
    if settings.body_memory.is_some_and(|memory| memory < settings.body_limit) {
        let text = format!("is less than 'body_limit_mib'; write at least {}", settings.body_limit >> 20);
        report.fault(table.position("body_memory_mib"), &table.path("body_memory_mib"), text);
    }
    if settings.proxy_protocol && settings.trusted_proxies.ranges.is_empty() {
        let text =
            "needs 'trusted_proxies': only their connections begin with a header of the PROXY protocol";
        report.fault(table.position("proxy_protocol"), &table.path("proxy_protocol"), text);
    }
    let any_port = settings.listen.ends_with(":0");
    if settings.admin_listen.as_ref() == Some(&settings.listen) && !any_port {
        let (at, path) = (table.position("admin_listen"), table.path("admin_listen"));
        report.fault(at, &path, "is the same address as 'listen'; write another one");
    }
    settings
}

/// `[server.tls]`.
fn server_tls(tls: &Table, report: &mut ProblemReport) -> Option<TlsSettings> {
    for key in ["cert", "key", "client_ca"] {
        if tls.file(key).is_some_and(|path| file::read(&path, MAX_PEM_BYTES).is_err()) {
            report.fault(tls.position(key), &tls.path(key), "the file cannot be read");
        }
    }
    if tls.has("client_certificate") && !tls.has("client_ca") {
        let text = "needs 'client_ca', the authorities of the certificates";
        report.fault(tls.position("client_certificate"), &tls.path("client_certificate"), text);
    }
    (tls.node("cert").is_some() && tls.node("key").is_some()).then(|| filled(Some(tls)))
}

fn routing(table: &Table) -> RoutingSettings {
    let hedge = table.table("hedge").map(|hedge| filled(Some(hedge)));
    let mut settings = RoutingSettings { hedge, ..filled(Some(table)) };
    for below in ["breaker", "balanced"].into_iter().filter_map(|name| table.table(name)) {
        fill(&mut settings, below);
    }
    settings
}

fn store(table: &Table, report: &mut ProblemReport) -> StoreSettings {
    let (payloads, content) = (filled(table.table("payloads")), store::content(table, report));
    StoreSettings { payloads, content, ..filled(Some(table)) }
}

/// Builds `[redis]`. A section without an address would silently share nothing, so `url` is required.
fn redis(table: &Table, root: &Table, report: &mut ProblemReport) -> Option<RedisSettings> {
    if !table.has("url") {
        report.fault(root.position("redis"), &table.path("url"), "is missing");
    }
    let mut settings = RedisSettings::new(table.secret("url")?.clone());
    if !settings.is_readable() {
        report.fault(table.position("url"), &table.path("url"), "is not a Redis address");
    }
    regular(table, "ca_file", report);
    fill(&mut settings, table);
    Some(settings)
}
