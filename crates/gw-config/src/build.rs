//! Composes the settings of the crates from checked tables, and checks the rules that need several keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gw_engine::payloads::{Masks, PayloadSettings};
use gw_engine::settings::{EngineSettings, RoutingSettings};
use gw_limits::{RedisSettings, WhenAway};
use gw_providers::settings::Timeouts;
use gw_routing::hedge::{HedgeDelay, HedgeSettings};
use gw_routing::strategy::Strategy;
use gw_server::TlsSettings;
use gw_server::client_address::ForwardedHeader;
use gw_server::settings::ServerSettings;

use gw_wire::request::RequestLimits;

use super::file;
use super::fingerprint::Fingerprints;
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

use fields::{regular, set, timeouts};

/// Composes all settings. With a problem in the report, the result must not be used.
pub(super) fn config(root: &Table, report: &mut ProblemReport) -> Config {
    let names = providers::names(root);
    let mut config = Config {
        server: root.table("server").map(|table| server(table, report)).unwrap_or_default(),
        reload_on_change: root
            .table("server")
            .and_then(|table| table.bool("reload_on_change"))
            .unwrap_or(true),
        timeouts: root.table("timeouts").map(timeouts).unwrap_or_default().over(Timeouts::default()),
        providers: providers::providers(root, report),
        engine: EngineSettings {
            routing: root.table("routing").map(routing).unwrap_or_default(),
            request_limits: root.table("server").map(request_limits).unwrap_or_default(),
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
        catalogue_keys: root
            .table("catalogue")
            .and_then(|table| table.texts("trusted_keys"))
            .unwrap_or_default(),
        otlp: telemetry::otlp(root, report),
        data_dir: root.table("server").and_then(|table| table.file("data_dir")),
        later: Vec::new(),
        fingerprints: Fingerprints::default(),
    };
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
    let mut settings = ServerSettings::default();
    set(&mut settings.listen, table.text("listen"));
    settings.admin_listen = table.text("admin_listen");
    set(&mut settings.body_limit, table.int::<usize>("body_limit_mib").map(|mib| mib << 20));
    settings.body_memory = table.int::<usize>("body_memory_mib").map(|mib| mib << 20);
    if settings.body_memory.is_some_and(|memory| memory < settings.body_limit) {
        let text = format!("is less than 'body_limit_mib'; write at least {}", settings.body_limit >> 20);
        report.fault(table.position("body_memory_mib"), &table.path("body_memory_mib"), text);
    }
    set(&mut settings.max_connections, table.int("max_connections"));
    set(&mut settings.max_in_flight, table.int("max_in_flight"));
    set(&mut settings.shed_after, table.millis("shed_after_ms"));
    set(
        &mut settings.keepalive,
        table.seconds("keepalive_seconds").map(|every| Some(every).filter(|e| !e.is_zero())),
    );
    set(&mut settings.head_timeout, table.millis("head_timeout_ms"));
    set(&mut settings.body_timeout, table.millis("body_timeout_ms"));
    set(&mut settings.drain, table.seconds("drain_seconds"));
    set(&mut settings.drain_delay, table.seconds("shutdown_delay_seconds"));
    set(&mut settings.cors_origins, table.texts("cors_origins"));
    set(&mut settings.admin_cors_origins, table.texts("admin_cors_origins"));
    settings.tls = table.table("tls").and_then(|tls| server_tls(tls, report));
    set(&mut settings.max_connections_per_address, table.int("max_connections_per_address").map(Some));
    let bad_keys = table.int::<u32>("bad_keys_per_minute");
    set(&mut settings.bad_keys_per_minute, bad_keys.map(|most| Some(most).filter(|most| *most > 0)));
    let ranges = table.texts("trusted_proxies").unwrap_or_default();
    settings.trusted_proxies.ranges = ranges.iter().filter_map(|range| range.parse().ok()).collect();
    if table.choice("forwarded_header") == Some("forwarded") {
        settings.trusted_proxies.header = ForwardedHeader::Forwarded;
    }
    set(&mut settings.proxy_protocol, table.bool("proxy_protocol"));
    if settings.proxy_protocol && ranges.is_empty() {
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
    Some(TlsSettings {
        cert: tls.file("cert")?,
        key: tls.file("key")?,
        client_ca: tls.file("client_ca"),
        is_client_certificate_optional: tls.choice("client_certificate") == Some("optional"),
    })
}

/// `[server.request_limits]`.
fn request_limits(server: &Table) -> RequestLimits {
    let mut limits = RequestLimits::default();
    if let Some(table) = server.table("request_limits") {
        set(&mut limits.max_messages, table.int("max_messages"));
        set(&mut limits.max_content_parts, table.int("max_content_parts"));
        set(&mut limits.max_tool_calls, table.int("max_tool_calls"));
        set(&mut limits.max_tools, table.int("max_tools"));
        set(&mut limits.max_schema_nodes, table.int("max_schema_nodes"));
        set(&mut limits.max_schema_depth, table.int("max_schema_depth"));
        set(&mut limits.max_members, table.int("max_members"));
        set(&mut limits.max_values, table.int("max_values"));
    }
    limits
}

fn routing(table: &Table) -> RoutingSettings {
    let mut settings = RoutingSettings::default();
    set(&mut settings.strategy, table.choice("strategy").and_then(Strategy::named));
    set(&mut settings.max_attempts, table.int("max_attempts"));
    set(&mut settings.retries, table.int("retries"));
    set(&mut settings.fallback_on_4xx, table.bool("fallback_on_4xx"));
    set(&mut settings.drain_on_disconnect, table.choice("on_disconnect").map(|choice| choice == "drain"));
    settings.continue_mid_stream = table.choice("mid_stream") == Some("continue");
    settings.upgrade_max_price_ratio = table.number("upgrade_max_price_ratio");
    if let Some(breaker) = table.table("breaker") {
        set(&mut settings.breaker.failures, breaker.int("failures"));
        set(&mut settings.breaker.cooldown, breaker.millis("cooldown_ms"));
        set(&mut settings.breaker.ramp, breaker.millis("ramp_ms"));
    }
    settings.hedge = table.table("hedge").map(|hedge| HedgeSettings {
        after: hedge.millis("after").map_or(HedgeDelay::P95, HedgeDelay::Fixed),
        max_extra_cost_percent: hedge.number("max_extra_cost_percent").unwrap_or(5.0),
    });
    if let Some(balanced) = table.table("balanced") {
        let weights = &mut settings.weights;
        set(&mut weights.price, balanced.number("price"));
        set(&mut weights.latency, balanced.number("latency"));
        set(&mut weights.quality, balanced.number("quality"));
        set(&mut weights.availability, balanced.number("availability"));
        set(&mut weights.load, balanced.number("load"));
    }
    settings
}

fn store(table: &Table, report: &mut ProblemReport) -> StoreSettings {
    let mut settings = StoreSettings { url: table.secret("url").cloned(), ..StoreSettings::default() };
    set(&mut settings.start_timeout, table.int("start_timeout_seconds").map(Duration::from_secs));
    // 0 = for ever.
    set(
        &mut settings.retention_days,
        table.int("retention_days").map(|days| Some(days).filter(|days| *days > 0)),
    );
    set(&mut settings.progress_tokens, table.int("progress_tokens"));
    set(&mut settings.payloads, table.table("payloads").map(payloads));
    settings.content = store::content(table, report);
    settings
}

fn payloads(table: &Table) -> PayloadSettings {
    let mut settings = PayloadSettings::default();
    let masks = |words: Vec<String>| {
        let has = |word: &str| words.iter().any(|known| known == word);
        Masks { email: has("email"), phone: has("phone"), card: has("card"), secret: has("secret") }
    };
    set(&mut settings.masks, table.texts("redact").map(masks));
    set(&mut settings.retention_days, table.int("retention_days"));
    set(&mut settings.most, table.int::<usize>("max_kib").map(|kib| kib << 10));
    settings
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
    settings.ca_file = table.file("ca_file");
    set(&mut settings.prefix, table.text("prefix"));
    set(&mut settings.timeout, table.millis("timeout_ms"));
    if table.choice("when_away") == Some("closed") {
        settings.when_away = WhenAway::Closed;
    }
    Some(settings)
}
