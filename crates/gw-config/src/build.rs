//! Composes the settings of the crates from checked tables, and checks the rules that need several keys.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gw_engine::settings::EngineSettings;
use gw_engine::stored_responses::StoredResponseSettings;
use gw_limits::RedisSettings;
use gw_providers::settings::{TimeoutOverrides, Timeouts};
use gw_server::settings::ServerSettings;

use super::binding::{fill, filled};
use super::file;
use super::problems::ProblemReport;
use super::settings::{AgentSettings, Config, Loaded, Readable, StoreSettings};
use super::tree::Table;

mod alerts;
mod budgets;
mod cache;
mod fields;
mod guards;
mod identity;
mod keys;
mod models;
mod passthrough;
mod presets;
mod providers;
mod reconcile;
mod store;
mod telemetry;

use fields::regular;

/// Composes all settings. With a problem in the report, the result must not be used.
pub(super) fn config(root: &Table, report: &mut ProblemReport) -> Config {
    let names = providers::names(root);
    let agents: AgentSettings = filled(Some(root));
    let mut timeouts = TimeoutOverrides::default();
    fill(&mut timeouts, root);
    let timeouts = timeouts.over(Timeouts::default());
    let server = server(root, report);
    let responses = StoredResponseSettings {
        max_conversation_bytes: server.body_limit.try_into().unwrap_or(u64::MAX),
        ..filled(Some(root))
    };
    let mut config = Config {
        server,
        timeouts,
        providers: providers::providers(root, report),
        engine: EngineSettings {
            routing: filled(Some(root)),
            request_limits: filled(Some(root)),
            models: models::models(root, &names, report),
            aliases: models::aliases(root, &agents, report),
            codex_instructions: agents
                .codex_instructions
                .and_then(|path| codex_instructions(&path, root, report)),
            keys: keys::keys(root, report),
            guards: guards::guards(root, report),
            budgets: budgets::budgets(root, report),
            passthrough: passthrough::routes(root, &names, timeouts, report),
            shown: String::new(),
            allowed_bytes: None,
            images: filled(Some(root)),
        },
        redis: root.table("redis").and_then(|table| redis(table, root, report)),
        cache: cache::cache(root, &names, report),
        responses,
        identity: identity::identity(root, report),
        store: StoreSettings {
            payloads: filled(Some(root)),
            content: store::content(root, report),
            ..filled(Some(root))
        },
        otlp: telemetry::otlp(root, report),
        alerts: alerts::alerts(root, report),
        ..filled(Some(root))
    };
    config.reconcile = reconcile::reconcile(root, (&names, config.providers.as_slice()), report);
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
    let routes = config.engine.passthrough.iter().map(|route| &route.timeouts);
    let own = providers.chain(models).chain(routes).filter_map(|timeouts| timeouts.total);
    own.fold(config.timeouts.total, Duration::max)
}

/// The largest system prompt for Codex.
const MAX_INSTRUCTIONS_BYTES: u64 = 1 << 20;

/// Reads the file of `agents.codex_instructions`.
fn codex_instructions(path: &Path, root: &Table, report: &mut ProblemReport) -> Option<Arc<str>> {
    let agents = root.table("agents")?;
    let text = match file::read(path, MAX_INSTRUCTIONS_BYTES).map(String::from_utf8) {
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

fn server(root: &Table, report: &mut ProblemReport) -> ServerSettings {
    let mut settings: ServerSettings = filled(Some(root));
    let Some(table) = root.table("server") else { return settings };
    if table.table("tls").is_some_and(|tls| !is_complete(tls, report)) {
        settings.tls = None;
    }
    if settings.body_memory.is_some_and(|memory| memory < settings.body_limit) {
        let text = format!("is less than 'body_limit_mib'; write at least {}", settings.body_limit >> 20);
        report.fault(table.position("body_memory_mib"), &table.path("body_memory_mib"), text);
    }
    if settings.proxy_protocol && settings.trusted_proxies.ranges.is_empty() {
        let text =
            "needs 'trusted_proxies': only their connections begin with a header of the PROXY protocol";
        report.fault(table.position("proxy_protocol"), &table.path("proxy_protocol"), text);
    }
    let admin_listen = settings.admin_listen.as_deref();
    if let Some(fault) = admin_listen.and_then(|admin| listener_conflict(&settings.listen, admin)) {
        report.fault(table.position("admin_listen"), &table.path("admin_listen"), fault);
    }
    settings
}

/// The reason why two listeners cannot have these addresses. The addresses of names are not known here.
fn listener_conflict(listen: &str, admin_listen: &str) -> Option<&'static str> {
    let (host, port) = listen.rsplit_once(':')?;
    let (admin_host, admin_port) = admin_listen.rsplit_once(':')?;
    let number: u16 = port.parse().ok()?;
    // The system chooses another port for each `:0`.
    if number == 0 || admin_port.parse::<u16>().ok() != Some(number) {
        return None;
    }
    if host == admin_host {
        return Some("is the same address as 'listen'; write another one");
    }
    let address =
        |host: &str| -> Option<IpAddr> { host.trim_start_matches('[').trim_end_matches(']').parse().ok() };
    let (one, other) = (address(host)?, address(admin_host)?);
    // `[::]` takes IPv4 connections, too.
    let covers = |wide: IpAddr, address: IpAddr| {
        wide.is_unspecified() && (wide.is_ipv6() || address.is_ipv4()) || wide == address
    };
    let is_shared = covers(one, other) || covers(other, one);
    is_shared.then_some(
        "has the port of 'listen', and one of the addresses includes the other; write another port",
    )
}

/// Checks `[server.tls]`; returns whether it has a certificate.
fn is_complete(tls: &Table, report: &mut ProblemReport) -> bool {
    for key in ["cert", "key", "client_ca"] {
        if tls.file(key).is_some_and(|path| file::read(&path, MAX_PEM_BYTES).is_err()) {
            report.fault(tls.position(key), &tls.path(key), "the file cannot be read");
        }
    }
    if tls.has("client_certificate") && !tls.has("client_ca") {
        let text = "needs 'client_ca', the authorities of the certificates";
        report.fault(tls.position("client_certificate"), &tls.path("client_certificate"), text);
    }
    tls.node("cert").is_some() && tls.node("key").is_some()
}

/// Builds `[redis]`. A section without an address would silently share nothing, so `url` is required.
fn redis(table: &Table, root: &Table, report: &mut ProblemReport) -> Option<RedisSettings> {
    if !table.has("url") {
        report.fault(root.position("redis"), &table.path("url"), "is missing");
    }
    table.node("url")?;
    let settings: RedisSettings = filled(Some(table));
    if !settings.is_readable() {
        report.fault(table.position("url"), &table.path("url"), "is not a Redis address");
    }
    regular(table, "ca_file", report);
    Some(settings)
}
