//! `[[providers]]`.

use std::collections::{BTreeMap, BTreeSet};

use gw_providers::presets;
use gw_providers::settings::{Api, ProviderSettings};
use gw_wire::nearest::did_you_mean;
use gw_wire::reach::{Reach, reach};
use gw_wire::request::AllowedMembers;
use gw_wire::request::member_policy::{Rule, rule_of};

use super::super::binding::filled;
use super::super::formats::base_url_host;
use super::super::problems::ProblemReport;
use super::super::tree::Table;
use super::fields::regular;
use crate::opened_members::{misspelling, opens};

/// The names of all entries.
pub(super) fn names(root: &Table) -> BTreeSet<String> {
    root.tables("providers").filter_map(|table| table.text("name")).collect()
}

/// Whether the provider of this name is the demo, which has no address.
pub(super) fn is_demo(root: &Table, name: &str) -> bool {
    let is_named = |table: &&Table| table.text("name").as_deref() == Some(name);
    let Some(table) = root.tables("providers").find(is_named) else { return false };
    let api = match table.choice("api") {
        Some(word) => Api::named(word),
        None => Api::of_known_provider(name).or_else(|| Api::named(name)),
    };
    api.is_some_and(|api| api.is_demo)
}

/// Reads every entry and refuses a name that is taken.
pub(super) fn providers(root: &Table, report: &mut ProblemReport) -> Vec<ProviderSettings> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut providers = Vec::new();
    for table in root.tables("providers") {
        if let Some(name) = table.text("name") {
            if let Some(first) = taken.get(&name) {
                report.fault(
                    table.position("name"),
                    &table.path("name"),
                    format!("is already the name of {first}"),
                );
            }
            taken.entry(name).or_insert_with(|| table.path.clone());
        }
        providers.extend(provider(table, report));
    }
    providers
}

fn provider(table: &Table, report: &mut ProblemReport) -> Option<ProviderSettings> {
    address(table, report);
    let name = table.text("name");
    let api = api(table, name.as_deref(), report);
    regular(table, "credentials_file", report);
    one_way_of_keys(table, report);
    if let Some(api) = api {
        options_of_the_dialect(table, api, report);
    }
    let (name, api) = (name?, api?);
    if api.is_shared && !table.has("base_url") && !has_address(&name, api) {
        let message = format!("is required: '{name}' is not a known provider");
        let known = presets::ALL.iter().map(|preset| preset.name);
        let hint = did_you_mean(&name, known).or_else(|| {
            Some("write its address with the version, such as \"http://127.0.0.1:8000/v1\"".to_owned())
        });
        report.fault_with_hint(table.position("name"), &table.path("base_url"), message, hint);
    }
    distinct_headers(table, report);
    allowed_members(table, api, report);
    Some(ProviderSettings { api, ..filled(Some(table)) })
}

/// The dialect: the written one, else that of a known provider.
fn api(table: &Table, name: Option<&str>, report: &mut ProblemReport) -> Option<Api> {
    if table.has("api") {
        return table.choice("api").and_then(Api::named);
    }
    // A missing name is reported already.
    let name = name?;
    let known = Api::of_known_provider(name).or_else(|| Api::named(name));
    if known.is_none() {
        let values: Vec<String> = Api::ALL.iter().map(|api| format!("\"{}\"", api.as_str())).collect();
        let message = format!("is required: '{name}' is not a known provider");
        let hint = format!(
            "write \"openai\" for a server that is compatible with OpenAI (vLLM, llama.cpp, LM Studio), or another one of {}",
            values.join(", ")
        );
        report.fault_with_hint(table.position("name"), &table.path("api"), message, Some(hint));
    }
    known
}

/// Whether the gateway knows a provider of this name, configured or not.
pub(super) fn is_known(name: &str) -> bool {
    presets::find(name).is_some() || Api::named(name).is_some()
}

/// Whether the gateway knows the address of this provider of a shared API.
fn has_address(name: &str, api: Api) -> bool {
    presets::find(name).is_some_and(|preset| preset.api == api.name && preset.base_url.is_some())
}

/// The endpoints that the gateway appends to a base URL. No base URL may end in one.
const ENDPOINTS: [&str; 14] = [
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/responses",
    "/v1/messages",
    "/messages",
    "/v2/chat",
    "/v2/embed",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/tags",
    ":generateContent",
    ":streamGenerateContent",
];

/// Checks that a known server of this machine, whose address is not written, may be called.
fn local_address(table: &Table, report: &mut ProblemReport) {
    let is_local =
        table.text("name").and_then(|name| presets::find(&name)).is_some_and(|preset| preset.local);
    if is_local && table.bool("allow_private_network") == Some(false) {
        let message = "is false, and the provider is a server on this machine";
        let hint = "set allow_private_network = true if the gateway may call it".to_owned();
        let (at, path) = (table.position("allow_private_network"), table.path("allow_private_network"));
        report.fault_with_hint(at, &path, message, Some(hint));
    }
}

/// Checks that the address does not end in an endpoint, and that its network is allowed.
fn address(table: &Table, report: &mut ProblemReport) {
    let Some(url) = table.text("base_url") else { return local_address(table, report) };
    let end = url.trim_end_matches('/');
    if let Some(endpoint) = ENDPOINTS.iter().find(|endpoint| end.ends_with(**endpoint)) {
        let message = format!("ends in '{endpoint}', which the gateway appends itself");
        let hint = format!("write the address without '{endpoint}'");
        report.fault_with_hint(table.position("base_url"), &table.path("base_url"), message, Some(hint));
    }
    check_address(table, "base_url", report);
}

/// Checks that the network of an address is allowed.
pub(super) fn check_address(table: &Table, key: &'static str, report: &mut ProblemReport) {
    let Some(url) = table.text(key) else { return };
    let Ok(Some(address)) = base_url_host(&url) else { return };
    let is_plain_http = url.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"));
    let is_public = reach(address) == Reach::Public;
    if is_public && is_plain_http && table.bool("allow_plain_http") != Some(true) {
        let message = "is a public address without TLS: keys and prompts would cross the network unencrypted";
        let hint = "write https://, or set allow_plain_http = true".to_owned();
        report.fault_with_hint(table.position(key), &table.path(key), message, Some(hint));
    }
    if !is_public && table.bool("allow_private_network") == Some(false) {
        let message = "is a private address, and allow_private_network is false";
        let hint = "set allow_private_network = true if the gateway may call it".to_owned();
        report.fault_with_hint(table.position(key), &table.path(key), message, Some(hint));
    }
}

/// Checks that the keys are written in one way.
fn one_way_of_keys(table: &Table, report: &mut ProblemReport) {
    if table.has("api_key") && table.has("api_keys") {
        let message = "cannot be combined with 'api_key'; write all keys here, or one key there";
        report.fault(table.position("api_keys"), &table.path("api_keys"), message);
    }
}

/// Checks the guarded request members that clients may send. Dialects other than OpenAI's forward few of them.
fn allowed_members(table: &Table, api: Api, report: &mut ProblemReport) {
    let Some(nodes) = table.list("allow_members") else { return };
    if api.guarded_members == Some(&[]) && api.native_surface.is_none() {
        report.fault(table.position("allow_members"), &table.path("allow_members"), not_opening());
    }
    for node in nodes {
        let Some(name) = node.value.text() else { continue };
        if api.native_surface.is_some_and(|surface| opens(surface, name)) {
            continue;
        }
        if rule_of(name) == Some(Rule::Fallback) {
            report.fault(&node.at, &node.path, "means routing.fallback and is never sent to a provider");
        }
        if let Some(sent @ [first, ..]) = api.guarded_members
            && !sent.iter().any(|known| AllowedMembers::new([*known]).has(name))
        {
            let message =
                format!("is never sent to a provider of this api; what can be allowed is '{first}'");
            report.fault(&node.at, &node.path, message);
        } else if !table.text("name").is_some_and(|provider| report.is_accepted(&provider, name))
            && let Some(hint) = misspelling(api, name)
        {
            let message = "is not a member, a tool or a header that this release knows";
            report.fault_with_hint(&node.at, &node.path, message, Some(hint));
        }
    }
}

/// The fault of `allow_members` at a provider whose dialect forwards no guarded member, with the dialects that do.
fn not_opening() -> String {
    let real = || Api::ALL.iter().filter(|api| !api.is_demo);
    let opening = real().filter(|api| api.guarded_members.is_none() || api.native_surface.is_some());
    let opening: Vec<&str> = opening.map(|api| api.name).collect();
    let narrow = real().filter(|api| api.native_surface.is_none());
    let narrow = narrow.filter_map(|api| Some((api.name, api.guarded_members?)));
    let narrow: Vec<String> = narrow
        .filter(|(_, names)| !names.is_empty())
        .map(|(api, names)| format!("of {api} for '{}'", names.join("', '")))
        .collect();
    format!("is an option of {}, {}, not of this provider's api", opening.join(", "), narrow.join(", "))
}

/// Checks that each header is written once. Names that differ only in case are the same header.
pub(super) fn distinct_headers(table: &Table, report: &mut ProblemReport) {
    let mut taken = BTreeSet::new();
    for (name, node) in table.map("headers") {
        if !taken.insert(name.to_ascii_lowercase()) {
            report.fault(
                &node.at,
                &node.path,
                "is already set by another key; upper and lower case do not matter",
            );
        }
    }
}

/// Checks that the options are those of the dialect. An option of another dialect would be ignored.
fn options_of_the_dialect(table: &Table, api: Api, report: &mut ProblemReport) {
    let names: BTreeSet<&str> = Api::ALL.iter().flat_map(|api| api.options).copied().collect();
    for name in names {
        let Some(node) = table.node(name) else { continue };
        if !api.options.contains(&name) {
            let has_option = Api::ALL.iter().filter(|api| api.options.contains(&name));
            let mut known: Vec<&str> = has_option.map(|api| api.name).collect();
            known.sort_unstable();
            let message = format!("is an option of {}, not of this provider's api", known.join(" and "));
            report.fault(&node.at, &node.path, message);
        }
    }
}
