//! `[identity]` and `[[identity.issuers]]`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use gw_identity::IssuerSettings;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::settings::IdentitySettings;
use super::super::tree::Table;
use super::keys::limits;

/// Reads the section.
pub(super) fn identity(root: &Table, report: &mut ProblemReport) -> IdentitySettings {
    let Some(table) = root.table("identity") else { return IdentitySettings::default() };
    let mut settings: IdentitySettings = filled(Some(table));
    if let Some(url) = settings.public_url.as_deref().filter(|url| !is_safe(url)) {
        let message = format!("'{url}' would send sessions unencrypted; write https");
        report.fault(table.position("public_url"), &table.path("public_url"), message);
    }
    let mut taken = BTreeSet::new();
    let mut has_login = false;
    for table in table.tables("issuers") {
        let Some(issuer) = issuer(table, report) else { continue };
        if !taken.insert(issuer.issuer.clone()) {
            report.fault(table.position("issuer"), &table.path("issuer"), "already has an entry");
        }
        if issuer.login.is_some() {
            if has_login {
                let message = "another issuer has a client id; browsers sign in with one issuer";
                report.fault(table.position("client_id"), &table.path("client_id"), message);
            }
            if settings.public_url.is_none() {
                let message = "needs 'identity.public_url'";
                report.fault(table.position("client_id"), &table.path("client_id"), message);
            }
            has_login = true;
        }
        settings.issuers.push(issuer);
    }
    settings
}

fn issuer(table: &Table, report: &mut ProblemReport) -> Option<IssuerSettings> {
    let issuer = table.text("issuer")?;
    table.node("audiences")?;
    if !is_safe(&issuer) {
        let message = "would send keys and codes unencrypted; write https";
        report.fault(table.position("issuer"), &table.path("issuer"), message);
    }
    for (part, whole) in [("client_secret", "client_id"), ("scopes", "client_id"), ("roles", "role_claim")] {
        if table.has(part) && !table.has(whole) {
            report.fault(table.position(part), &table.path(part), format!("needs '{whole}'"));
        }
    }
    if !table.has("role_claim") && matches!(table.choice("default_role"), None | Some("none")) {
        let message = "is missing, and 'default_role' is \"none\": every token would be refused";
        report.fault(&table.at, &table.path("role_claim"), message);
    }
    let login = table.node("client_id").map(|_| filled(Some(table)));
    Some(IssuerSettings { limits: limits(table, report), login, ..filled(Some(table)) })
}

/// Whether a URL is https, or http to this machine.
fn is_safe(url: &str) -> bool {
    if url.starts_with("https://") {
        return true;
    }
    let host = url.strip_prefix("http://").unwrap_or_default();
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_safe;

    #[test]
    fn only_this_machine_may_be_reached_without_tls() {
        for url in ["https://idp.example/x", "http://127.0.0.1:4000", "http://localhost/x", "http://[::1]:9"]
        {
            assert!(is_safe(url), "{url}");
        }
        for url in
            ["http://idp.example", "http://127.0.0.1.example", "http://localhost.example", "ftp://localhost"]
        {
            assert!(!is_safe(url), "{url}");
        }
    }
}
