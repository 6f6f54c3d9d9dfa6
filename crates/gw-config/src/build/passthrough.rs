//! `[[passthrough]]`.

use std::collections::{BTreeMap, BTreeSet};

use gw_engine::settings::{CredentialMode, PassthroughSettings};
use gw_providers::settings::{TimeoutOverrides, Timeouts};
use gw_server::is_own_url;
use gw_wire::nearest::did_you_mean;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::tree::Table;
use super::models::rising_tiers;
use super::providers::{check_address, distinct_headers, is_demo};

/// Keys that a provider has itself.
const OF_TARGET: [&str; 3] = ["headers", "allow_private_network", "allow_plain_http"];
/// Headers that no upstream gets.
const NEVER_SENT: [&str; 3] = ["cookie", "cookie2", "proxy-authorization"];
/// Headers that hold the gateway key where the operator's credential is sent.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];
/// Headers of the gateway begin so.
const OWN_PREFIX: &str = "x-gateway-";

/// The routes by path, each with the methods that are taken and the entry that took them.
type Taken = BTreeMap<String, Vec<(Vec<String>, String)>>;

/// Reads every entry. `providers` are the names of the configured providers.
pub(super) fn routes(
    root: &Table,
    providers: &BTreeSet<String>,
    timeouts: Timeouts,
    report: &mut ProblemReport,
) -> Vec<PassthroughSettings> {
    let mut taken = Taken::new();
    let mut routes = Vec::new();
    for table in root.tables("passthrough") {
        let mut settings: PassthroughSettings = filled(Some(table));
        own_path(table, &settings, &mut taken, report);
        upstream(table, &settings, (root, providers), report);
        forwarded_headers(table, &settings, report);
        prices(table, &settings, report);
        if settings.target.is_some() {
            // A target has no provider whose timeouts could hold.
            let Timeouts { connect, first_token, idle, total } = settings.timeouts.over(timeouts);
            let (connect, first_token) = (Some(connect), Some(first_token));
            settings.timeouts =
                TimeoutOverrides { connect, first_token, idle: Some(idle), total: Some(total) };
        }
        routes.push(settings);
    }
    routes
}

/// Checks that the path leads to no other place.
fn own_path(table: &Table, settings: &PassthroughSettings, taken: &mut Taken, report: &mut ProblemReport) {
    if !table.has("path") {
        return;
    }
    let (at, path) = (table.position("path"), table.path("path"));
    if is_own_url(&settings.path) {
        report.fault(at, &path, "is a URL of the gateway");
        return;
    }
    let others = taken.entry(settings.path.clone()).or_default();
    let meets = |methods: &[String]| {
        methods.is_empty()
            || settings.methods.is_empty()
            || methods.iter().any(|one| settings.methods.contains(one))
    };
    if let Some((_, first)) = others.iter().find(|(methods, _)| meets(methods)) {
        report.fault(at, &path, format!("is already the path of {first}, for the same methods"));
    }
    others.push((settings.methods.clone(), table.path.clone()));
}

/// Checks that the entry has one upstream, and that it may be called.
fn upstream(
    table: &Table,
    settings: &PassthroughSettings,
    (root, providers): (&Table, &BTreeSet<String>),
    report: &mut ProblemReport,
) {
    match (table.has("target"), table.has("provider")) {
        (false, false) => {
            report.fault(&table.at, &table.path, "has no upstream; set 'target' or 'provider'");
        }
        (true, true) => {
            let (at, path) = (table.position("provider"), table.path("provider"));
            report.fault(at, &path, "cannot be combined with 'target'; write one of them");
        }
        (true, false) => {
            check_address(table, "target", report);
            distinct_headers(table, report);
        }
        (false, true) => of_provider(table, settings, (root, providers), report),
    }
}

fn of_provider(
    table: &Table,
    settings: &PassthroughSettings,
    (root, providers): (&Table, &BTreeSet<String>),
    report: &mut ProblemReport,
) {
    for key in OF_TARGET.into_iter().filter(|key| table.has(key)) {
        report.fault(table.position(key), &table.path(key), "belongs to 'target'; the provider has its own");
    }
    let Some(name) = settings.provider.as_deref() else { return };
    let (at, path) = (table.position("provider"), table.path("provider"));
    if is_demo(root, name) {
        report.fault(at, &path, "is the demo, which has no address; name another provider, or set 'target'");
    }
    if providers.contains(name) {
        return;
    }
    let others = || providers.iter().map(String::as_str).filter(|other| !is_demo(root, other));
    let hint = report.search(|| did_you_mean(name, others()));
    report.fault_with_hint(at, &path, "is not the name of a provider", hint);
}

/// Checks that no header is named which no upstream gets.
fn forwarded_headers(table: &Table, settings: &PassthroughSettings, report: &mut ProblemReport) {
    for node in table.list("forward_headers").unwrap_or_default() {
        let Some(name) = node.value.text().map(str::to_ascii_lowercase) else { continue };
        let holds_key = settings.credential == CredentialMode::Inject && KEY_HEADERS.contains(&&*name);
        if holds_key {
            report.fault(&node.at, &node.path, "holds the gateway key, which no upstream gets");
        } else if NEVER_SENT.contains(&&*name) || name.starts_with(OWN_PREFIX) {
            report.fault(&node.at, &node.path, "is a header that no upstream gets");
        }
    }
}

/// Checks that prices have tokens to be multiplied with.
fn prices(table: &Table, settings: &PassthroughSettings, report: &mut ProblemReport) {
    let Some(pricing) = table.table("pricing") else { return };
    rising_tiers(pricing, report);
    if settings.usage.is_none() {
        report.fault(
            table.position("pricing"),
            &table.path("pricing"),
            "needs 'usage', the shape of reported tokens",
        );
    }
}
