//! `[[alerts]]`.

use std::collections::BTreeMap;

use gw_alerts::{AlertFormat, AlertSettings};
use gw_wire::reach::{Reach, reach};
use secrecy::ExposeSecret;

use super::super::binding::filled;
use super::super::formats::alert_url_host;
use super::super::problems::ProblemReport;
use super::super::tree::Table;

/// Reads every entry.
pub(super) fn alerts(root: &Table, report: &mut ProblemReport) -> Vec<AlertSettings> {
    let mut names = BTreeMap::new();
    root.tables("alerts").map(|table| alert(table, &mut names, report)).collect()
}

fn alert(table: &Table, names: &mut BTreeMap<String, String>, report: &mut ProblemReport) -> AlertSettings {
    let settings: AlertSettings = filled(Some(table));
    if table.has("name") {
        let (at, path) = (table.position("name"), table.path("name"));
        match names.get(&settings.name) {
            Some(first) => report.fault(at, &path, format!("is already the name of {first}")),
            None => _ = names.insert(settings.name.clone(), table.path.clone()),
        }
    }
    let needs = match settings.format {
        AlertFormat::Json => &["url", "secret"][..],
        AlertFormat::Slack | AlertFormat::Teams => &["url"],
        AlertFormat::PagerDuty => &["routing_key"],
    };
    for key in needs.iter().filter(|key| !table.has(key)) {
        let message = format!("needs '{key}' for the format '{}'", settings.format.as_str());
        report.fault(&table.at, &table.path, message);
    }
    check_address(table, &settings, report);
    settings
}

/// Checks that the URL may be called, as far as it is written as an address.
fn check_address(table: &Table, settings: &AlertSettings, report: &mut ProblemReport) {
    let Some(url) = &settings.url else { return };
    let Ok(Some(address)) = alert_url_host(url.expose_secret()) else { return };
    let (at, path) = (table.position("url"), table.path("url"));
    let is_plain_http =
        url.expose_secret().get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"));
    match reach(address) {
        Reach::Public if is_plain_http => {
            let message = "is a public address without TLS: the messages would cross the network unencrypted";
            report.fault_with_hint(at, &path, message, Some("write https://".to_owned()));
        }
        Reach::Public => {}
        _ if !settings.allow_private_network => {
            let message = "is a private address, and allow_private_network is false";
            let hint = "set allow_private_network = true if the gateway may call it".to_owned();
            report.fault_with_hint(at, &path, message, Some(hint));
        }
        _ => {}
    }
}
