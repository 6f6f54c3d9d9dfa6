//! Checks the providers: the addresses of their hosts, and with consent each of their keys.

use std::time::Duration;

use gw_config::setup::Setup;
use gw_providers::provider::Provider;
use gw_providers::settings::ProviderSettings;
use gw_wire::failure::Failure;
use http::header::DATE;
use tokio::time::{Instant, timeout};

use super::finding::{DoctorFinding, DoctorReport};
use super::storage::OtherClock;

/// The longest time for the question to the name server.
const DNS_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for a provider's answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest list of models.
const MAX_LIST_BYTES: usize = 16 << 20;

/// Checks all providers. `may_call` is the operator's consent to calls with their keys. Returns the clocks of the
/// providers that were called.
pub(super) async fn check(setup: &Setup, may_call: bool, report: &mut DoctorReport) -> Vec<OtherClock> {
    let mut clocks = Vec::new();
    for settings in setup.config.providers.iter().filter(|settings| !settings.api.is_demo) {
        // A provider that cannot be built is a problem of the configuration.
        let Ok(provider) = Provider::build(settings, setup.config.timeouts) else { continue };
        let Some(host) = provider.host() else { continue };
        let name = format!("{} ({host})", settings.name);
        let found = addresses(host).await;
        let is_known = found.is_ok();
        report.add(match found {
            Ok(count) => DoctorFinding::ok("provider address", &name, &found_addresses(count)),
            Err(problem) => DoctorFinding::failed("provider address", &name, &problem.to_string())
                .remedy("check base_url and the name server of this machine"),
        });
        if may_call && is_known {
            clocks.extend(check_keys(setup, settings, report).await);
        }
    }
    clocks
}

/// The reason why a host has no address.
#[derive(Debug, thiserror::Error)]
enum DnsError {
    #[error("the name server does not answer")]
    NoAnswer,
    #[error("the name has no address")]
    NoAddress,
    #[error("the name has no address: {0}")]
    Refused(#[from] std::io::Error),
}

fn found_addresses(count: usize) -> String {
    match count {
        1 => "the name server knows 1 address".to_owned(),
        count => format!("the name server knows {count} addresses"),
    }
}

/// The number of addresses of a host.
async fn addresses(host: &str) -> Result<usize, DnsError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = timeout(DNS_TIMEOUT, tokio::net::lookup_host((bare, 0))).await;
    match found.map_err(|_| DnsError::NoAnswer)??.count() {
        0 => Err(DnsError::NoAddress),
        count => Ok(count),
    }
}

/// The result of one call for a list of models.
enum Answer {
    /// The list came. The value of the header `date`.
    Listed(Option<String>),
    /// The API has no list of models.
    NoList,
    Failed(Box<Failure>),
}

/// Calls the provider once with each of its keys.
async fn check_keys(
    setup: &Setup,
    settings: &ProviderSettings,
    report: &mut DoctorReport,
) -> Option<OtherClock> {
    let single = |at: usize| ProviderSettings {
        api_keys: settings.api_keys.get(at).cloned().into_iter().collect(),
        ..settings.clone()
    };
    let count = settings.api_keys.len();
    let mut date = None;
    let mut is_accepted = false;
    for at in 0..count.max(1) {
        let Ok(provider) = Provider::build(&single(at), setup.config.timeouts) else { continue };
        let name =
            if count > 1 { format!("{} key {}", settings.name, at + 1) } else { settings.name.clone() };
        match list(&provider).await {
            Answer::Listed(found) => {
                is_accepted = true;
                date = date.or(found);
                report.add(DoctorFinding::ok("provider key", &name, "the provider answers with its models"));
            }
            Answer::NoList => report.add(DoctorFinding::ok(
                "provider key",
                &name,
                "not checked: this API has no list of models, and other calls cost money",
            )),
            Answer::Failed(failure) => report.add(refusal(&name, &provider.censor(*failure))),
        }
    }
    if is_accepted && count > 0 && lists_without_key(setup, &single(count)).await {
        let message =
            "the provider lists its models without a key, so the list does not show whether the key is good";
        report.add(DoctorFinding::warning("provider key", &settings.name, message).remedy(&format!(
            "send a chat to a model of {}, for example with curl; docs/quickstart.md has a command",
            settings.name
        )));
    }
    let time = httpdate::parse_http_date(&date?).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    // The header has whole seconds, so half a second is added.
    let millis = i64::try_from(time.as_millis()).ok()?.saturating_add(500);
    Some(OtherClock::read(&settings.name, millis))
}

async fn lists_without_key(setup: &Setup, without: &ProviderSettings) -> bool {
    match Provider::build(without, setup.config.timeouts) {
        Ok(provider) => matches!(list(&provider).await, Answer::Listed(_)),
        Err(_) => false,
    }
}

async fn list(provider: &Provider) -> Answer {
    let adapter = provider.adapter();
    let Some(listing) = adapter.traits().models else { return Answer::NoList };
    let mut clocks = provider.timeouts();
    clocks.first_token = clocks.first_token.min(CALL_TIMEOUT);
    let deadline = Instant::now() + CALL_TIMEOUT;
    let response = match provider.send((listing.call)(), &clocks).await {
        Ok(response) => response,
        Err(failure) => return Answer::Failed(Box::new(failure)),
    };
    let (status, headers) = (response.status, response.headers);
    let body = match response.body.collect(MAX_LIST_BYTES, clocks.idle, deadline).await {
        Ok(body) => body,
        Err(failure) => return Answer::Failed(Box::new(failure)),
    };
    if !(200..300).contains(&status) {
        return Answer::Failed(Box::new(adapter.classify(status, &headers, &body)));
    }
    Answer::Listed(headers.get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned))
}

fn refusal(name: &str, failure: &Failure) -> DoctorFinding {
    let remedy = match failure.status {
        Some(401 | 403) => "replace the key, or check its rights and its project",
        Some(402) => "pay the provider's bill, or raise its limit",
        Some(404) => "check base_url: the address has no list of models",
        Some(429) => "wait: the provider limits this key",
        Some(_) => "see the provider's status page",
        None => "check the network, the proxy and the certificates of this machine",
    };
    let status = failure.status.map_or_else(String::new, |status| format!(" (status {status})"));
    let detail = failure.detail.as_deref().map_or_else(String::new, |detail| format!(": {detail}"));
    DoctorFinding::failed(
        "provider key",
        name,
        &format!("{}{status}{detail}", failure.message.trim_end_matches('.')),
    )
    .remedy(remedy)
}
