//! `[[providers]]`.

use std::collections::BTreeMap;

use gw_providers::presets;
use gw_providers::settings::{Api, ProviderSettings};
use gw_wire::money::Price;
use secrecy::SecretString;

use super::super::formats::{base_url_host, is_private};
use super::super::place::Report;
use super::super::tree::{Checked, Node, Table};
use super::timeouts;

/// The dialects that know an option.
type Speakers = &'static [Api];

/// Keys that only some dialects know.
const OPTIONS: [(&str, Speakers); 11] = [
    ("num_ctx_max", &[Api::Ollama]),
    ("region", &[Api::Bedrock, Api::Vertex]),
    ("project", &[Api::Vertex]),
    ("credentials_file", &[Api::Vertex]),
    ("api_version", &[Api::Azure]),
    ("deployments", &[Api::Azure]),
    ("auth", &[Api::Azure]),
    ("tenant_id", &[Api::Azure]),
    ("client_id", &[Api::Azure]),
    ("authority", &[Api::Azure]),
    ("profile", &[Api::Bedrock]),
];

/// The names of all that are written.
pub(super) fn names(root: &Table) -> Vec<String> {
    root.tables("providers").filter_map(|table| table.text("name")).collect()
}

/// Reads every entry and refuses a name that is taken.
pub(super) fn providers(root: &Table, report: &mut Report) -> Vec<ProviderSettings> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut providers = Vec::new();
    for table in root.tables("providers") {
        if let Some(name) = table.text("name") {
            if let Some(first) = taken.get(&name) {
                report.fault(
                    table.place("name"),
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

fn provider(table: &Table, report: &mut Report) -> Option<ProviderSettings> {
    address(table, report);
    let (name, spelled) = (table.text("name"), table.choice("api"));
    let api = Api::ALL.into_iter().find(|api| Some(api.as_str()) == spelled);
    let api_keys = credentials(table, report);
    let options = api.map(|api| options(table, api, report));
    let (name, api) = (name?, api?);
    if api == Api::OpenAi && !table.has("base_url") && !has_address(&name) {
        let message = "is missing: where a provider of this name is, is not known";
        report.fault(table.place("name"), &table.path("base_url"), message);
    }
    Some(ProviderSettings {
        name,
        api,
        base_url: table.text("base_url"),
        api_keys,
        headers: headers(table, report),
        price_multiplier: table.price("price_multiplier").unwrap_or(Price::from_nanos(1_000_000_000)),
        discover: table.bool("discover").unwrap_or(false),
        timeouts: table.table("timeouts").map(timeouts).unwrap_or_default(),
        embedding_batch: table.int("embedding_batch"),
        allow_private_network: table.bool("allow_private_network").unwrap_or(true),
        options: options.unwrap_or_default(),
    })
}

/// Whether there is a provider of this name in the world, configured or not.
pub(super) fn is_known(name: &str) -> bool {
    presets::find(name).is_some() || Api::ALL.iter().any(|api| api.as_str() == name)
}

/// Whether an OpenAI-like provider of this name needs no address.
fn has_address(name: &str) -> bool {
    presets::find(name).is_some_and(|preset| preset.api == Api::OpenAi && preset.base_url.is_some())
}

/// An address that the entry itself forbids.
fn address(table: &Table, report: &mut Report) {
    let Some(url) = table.text("base_url") else { return };
    let private = matches!(base_url_host(&url), Ok(Some(address)) if is_private(address));
    if private && table.bool("allow_private_network") == Some(false) {
        let message = "is a private address, and allow_private_network is false";
        report.fault(table.place("base_url"), &table.path("base_url"), message);
    }
}

/// `api_key` or `api_keys`, with their weights.
fn credentials(table: &Table, report: &mut Report) -> Vec<(SecretString, u32)> {
    if table.has("api_key") && table.has("api_keys") {
        let message = "stands beside 'api_key'; write all keys here, or one there";
        report.fault(table.place("api_keys"), &table.path("api_keys"), message);
    }
    let one = table.secret("api_key").map(|key| (key.clone(), 1));
    let many = table.list("api_keys").unwrap_or_default().iter().filter_map(weighted);
    one.into_iter().chain(many).collect()
}

fn weighted(node: &Node) -> Option<(SecretString, u32)> {
    match &node.value {
        Checked::Secret(key) => Some((key.clone(), 1)),
        Checked::Table(entry) => Some((entry.secret("key")?.clone(), entry.int("weight").unwrap_or(1))),
        _ => None,
    }
}

/// Names of headers do not differ by case.
fn headers(table: &Table, report: &mut Report) -> Vec<(String, SecretString)> {
    let mut headers: Vec<(String, SecretString)> = Vec::new();
    for (name, node) in table.map("headers") {
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            report.fault(&node.at, &node.path, "is the same header as another one in different letters");
        }
        if let Checked::Secret(value) = &node.value {
            headers.push((name.clone(), value.clone()));
        }
    }
    headers
}

/// An option of another dialect would be ignored, so it is refused.
fn options(table: &Table, api: Api, report: &mut Report) -> toml::Table {
    let mut options = toml::Table::new();
    for (name, apis) in OPTIONS {
        let Some(node) = table.node(name) else { continue };
        if !apis.contains(&api) {
            let known: Vec<&str> = apis.iter().map(|api| api.as_str()).collect();
            let message = format!("is an option of {}, not of this provider's api", known.join(" and "));
            report.fault(&node.at, &node.path, message);
        }
        options.extend(as_toml(&node.value).map(|value| (name.to_owned(), value)));
    }
    options
}

/// Texts, paths, integers and maps of them; no option holds anything else.
fn as_toml(value: &Checked) -> Option<toml::Value> {
    Some(match value {
        Checked::Int(value) => toml::Value::Integer(*value),
        Checked::Path(path) => toml::Value::String(path.to_str()?.to_owned()),
        Checked::Map(entries) => {
            let entries =
                entries.iter().filter_map(|(name, node)| Some((name.clone(), as_toml(&node.value)?)));
            toml::Value::Table(entries.collect())
        }
        other => toml::Value::String(other.text()?.to_owned()),
    })
}
