//! `model-gateway export`: the file, the entries of the API, and the keys and teams of the store as one gateway.toml.

use std::collections::BTreeMap;

use gw_admin::ConfigurationResponse;
use gw_admin::time::format_millis;
use gw_engine::error::Error;
use gw_providers::presets;
use gw_providers::settings::ProviderSettings;
use gw_store::limits::{Limits, UnpricedPolicy};
use gw_store::{StoredKey, Team};
use gw_wire::hex;
use gw_wire::money::Price;
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use super::merge::{FileState, merged};
use super::overlay::Overlay;
use super::{StoredConfiguration, unavailable};
use crate::{Leaf, NAMED_LISTS, toml_text, visit_section};
use crate::{default_providers, paths};

/// A gateway.toml, with the variables that hold its secrets.
#[derive(Debug)]
pub struct Export {
    /// The text.
    pub text: String,
    /// The variables that must be set before the start.
    pub variables: Vec<String>,
}

impl StoredConfiguration {
    /// `GET /admin/v1/config/export`. Secrets become references to variables.
    pub(super) async fn export_document(&self) -> Result<ConfigurationResponse, Error> {
        let export = self.export(false).await?;
        Ok(ConfigurationResponse { body: export.text.into(), is_new: false, is_toml: true, version: None })
    }

    /// Exports everything. `has_secrets` writes the secrets themselves instead of references.
    ///
    /// # Errors
    /// The file or the store cannot be read.
    pub async fn export(&self, has_secrets: bool) -> Result<Export, Error> {
        let (file, overlay) = (self.file()?, self.overlay().await?);
        let keys = self.store.keys().await.map_err(|error| unavailable(&error))?;
        let teams = self.store.teams().await.map_err(|error| unavailable(&error))?;
        Ok(compose(&file, &overlay, &keys, &teams, has_secrets))
    }
}

fn compose(
    file: &FileState,
    overlay: &Overlay,
    keys: &[StoredKey],
    teams: &[Team],
    has_secrets: bool,
) -> Export {
    // A secret has no references. The other texts of entries stay as they are, because the API takes `${` only as `$${`.
    let secret = |id: &str| {
        let secret = overlay.secrets.get(id).map(|secret| escaped(secret.expose_secret()));
        json!(secret.unwrap_or_default())
    };
    let mut document = merged(&file.raw, &overlay.entries, &secret);
    if file.path.is_none() {
        add_environment_providers(&mut document);
    }
    let mut names = SecretNames::default();
    if !has_secrets {
        for (section, value) in &mut document {
            names.replace(section, value);
        }
    }
    let store = document.entry("store").or_insert_with(|| json!({}));
    if let Value::Object(store) = store {
        for (name, mut list) in [
            ("keys", keys.iter().map(key_object).collect::<Value>()),
            ("teams", teams.iter().map(team_object).collect::<Value>()),
        ] {
            escape_references(&mut list);
            store.insert(name.to_owned(), list);
        }
    }
    if keys.is_empty() && teams.is_empty() && document.get("store") == Some(&json!({"keys": [], "teams": []}))
    {
        document.remove("store");
    }
    let variables: Vec<String> = names.used.into_keys().collect();
    let mut head = vec!["Exported by model-gateway. It makes the same state in an empty store.".to_owned()];
    if !variables.is_empty() {
        head.push(format!("Set these environment variables before the start: {}.", variables.join(", ")));
    }
    let head: String = head.iter().map(|line| format!("# {line}\n")).collect();
    Export { text: format!("{head}\n{}", toml_text(&document)), variables }
}

/// Writes the providers that a start without a file takes from the environment.
fn add_environment_providers(document: &mut Map<String, Value>) {
    let (providers, _) = default_providers::providers(&paths::variable);
    let list = document.entry("providers").or_insert_with(|| json!([]));
    let Value::Array(list) = list else { return };
    for provider in providers {
        let is_same = |known: &Value| known.get("name").and_then(Value::as_str) == Some(&*provider.name);
        if !list.iter().any(is_same) {
            list.push(provider_object(&provider));
        }
    }
}

fn provider_object(provider: &ProviderSettings) -> Value {
    let variable = presets::find(&provider.name).and_then(|preset| preset.key_variable);
    let key = variable.filter(|_| !provider.api_keys.is_empty()).map(|name| format!("${{{name}}}"));
    json!({
        "name": provider.name,
        "api": provider.api.as_str(),
        "base_url": provider.base_url,
        "api_key": key,
        "discover": Some(true).filter(|_| provider.discover),
    })
}

/// The variables that stand for literal secrets.
#[derive(Debug, Default)]
struct SecretNames {
    used: BTreeMap<String, String>,
}

impl SecretNames {
    /// Replaces the literal secrets of a section by references.
    fn replace(&mut self, section: &str, value: &mut Value) {
        match value {
            Value::Array(entries) => {
                for (index, entry) in entries.iter_mut().enumerate() {
                    let member = NAMED_LISTS.into_iter().find(|(list, _)| *list == section);
                    let member = member.map_or("name", |(_, member)| member);
                    let name = entry.get(member).and_then(Value::as_str).map(str::to_owned);
                    let name = name.unwrap_or_else(|| format!("{section}_{}", index + 1));
                    self.replace_in(section, &name, entry);
                }
            }
            value => self.replace_in(section, section, value),
        }
    }

    fn replace_in(&mut self, section: &str, name: &str, value: &mut Value) {
        visit_section(section, value, &mut |path, leaf, value| {
            let Value::String(text) = &*value else { return };
            let is_reference = text.replace("$${", "").contains("${");
            if leaf == Leaf::Secret && !is_reference {
                let variable = self.variable(&format!("{name}_{path}"), text.clone());
                *value = json!(format!("${{{variable}}}"));
            }
        });
    }

    /// A variable for a secret. Two places never share one.
    fn variable(&mut self, place: &str, secret: String) -> String {
        let plain: String = place
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        let plain = format!("GATEWAY_{}", plain.trim_matches('_'));
        let later = (2_u32..).map(|number| format!("{plain}_{number}"));
        let free = std::iter::once(plain.clone()).chain(later).find(|name| !self.used.contains_key(name));
        let name = free.unwrap_or(plain);
        self.used.insert(name.clone(), secret);
        name
    }
}

/// A text of the store as a string of gateway.toml, in which `${` begins a reference.
fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// Escapes every string. A text that an operator chose must not become a variable of the environment of the next gateway. The
/// names of members have no references.
fn escape_references(value: &mut Value) {
    match value {
        Value::String(text) => *text = escaped(text),
        Value::Array(items) => items.iter_mut().for_each(escape_references),
        Value::Object(members) => members.values_mut().for_each(escape_references),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn time(seconds: i64) -> String {
    format_millis(seconds.saturating_mul(1000))
}

/// `[[store.keys]]`
fn key_object(key: &StoredKey) -> Value {
    let mut object = json!({
        "id": key.id,
        "name": key.name,
        "key_hash": hex::encode(&key.hash),
        "role": key.role.as_str(),
        "team": key.team,
        "models": key.models,
        "log_payloads": Some(true).filter(|_| key.log_payloads),
        "trust_attribution": Some(true).filter(|_| key.trust_attribution),
        "created_at": time(key.created_at),
        "expires_at": key.expires_at.map(time),
        "revoked_at": key.revoked_at.map(time),
        "metadata": key.metadata,
        "previous_key_hash": key.previous.as_ref().map(|(hash, _)| hex::encode(hash)),
        "previous_valid_until": key.previous.as_ref().map(|(_, until)| time(*until)),
    });
    add_limits(&mut object, &key.limits);
    object
}

/// `[[store.teams]]`
fn team_object(team: &Team) -> Value {
    let mut object = json!({ "id": team.id, "created_at": time(team.created_at) });
    add_limits(&mut object, &team.limits);
    object
}

fn add_limits(object: &mut Value, limits: &Limits) {
    let Value::Object(members) = object else { return };
    let budget = limits.budget.as_ref();
    // A price in USD and an amount in USD have the same digits.
    let usd = budget.and_then(|budget| Price::from_nanos(budget.nano).to_string().parse::<f64>().ok());
    // A key without a budget may refuse requests without a price, too.
    let has_unpriced = budget.is_some() || limits.unpriced != UnpricedPolicy::default();
    for (name, value) in [
        ("rpm", json!(limits.rpm)),
        ("burst", json!(limits.burst)),
        ("tpm", json!(limits.tpm)),
        ("max_in_flight", json!(limits.max_in_flight)),
        ("budget_usd", json!(usd)),
        ("budget_period", json!(budget.map(|budget| budget.period.as_str()))),
        ("on_budget", json!(budget.map(|_| limits.on_budget.as_str()))),
        ("unpriced", json!(has_unpriced.then(|| limits.unpriced.as_str()))),
    ] {
        members.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use gw_store::Team;
    use gw_store::limits::Limits;
    use serde_json::json;

    use super::{FileState, Overlay, compose, escape_references};
    use crate::entry_locations::EntryLocations;
    use crate::raw_file;

    #[test]
    fn every_text_of_the_store_is_escaped_at_every_depth() {
        let mut value = json!({"a": "${A}", "${B}": ["x$${C}", {"d": "plain $5"}], "n": 1, "z": null});
        escape_references(&mut value);
        assert_eq!(value, json!({"a": "$${A}", "${B}": ["x$$${C}", {"d": "plain $5"}], "n": 1, "z": null}));
    }

    #[test]
    fn a_team_in_an_export_names_no_variable() {
        let team = Team { id: "${HOME}".to_owned(), limits: Limits::default(), created_at: 0 };
        let file =
            FileState { path: None, raw: raw_file("", &|_| None), locations: EntryLocations::default() };
        let text = compose(&file, &Overlay::default(), &[], &[team], false).text;
        assert!(text.contains("$${HOME}"), "{text}");
    }
}
