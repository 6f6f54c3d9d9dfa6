//! The gateway.toml that an import makes: providers, models and aliases under unique names, and single settings.

use std::collections::{BTreeMap, BTreeSet};

use gw_providers::presets;
use gw_providers::settings::Api;
use gw_wire::money::Price;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

/// The character that stands for the `$` of a reference until the file is written. Every other `${` is text of the source. The
/// parser takes this character out of the source, so only the draft writes it.
pub(super) const REFERENCE: char = '\u{fdd0}';

/// The members of a table.
pub(super) type Members = Map<String, Value>;

/// A configuration in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    providers: Vec<(String, Members)>,
    models: Vec<(String, Members)>,
    /// The targets of each alias, in order.
    pub(super) aliases: Vec<(String, Vec<String>)>,
    keys: Vec<Members>,
    budgets: Vec<Members>,
    /// The providers with `discover = true`.
    discovering: Vec<String>,
    sections: BTreeMap<&'static str, Members>,
    /// The values that the source gives to environment variables.
    pub(super) defaults: BTreeMap<String, String>,
    /// The variables that the result refers to without a default.
    pub(super) variables: BTreeSet<String>,
    /// The secrets that are not written, and the variables in their places.
    secrets: Vec<KeptSecret>,
}

/// A secret of the source, and the variable in its place.
#[derive(Debug)]
struct KeptSecret {
    secret: SecretString,
    /// The name that the variable would have if nothing else had it.
    wanted: String,
    variable: String,
}

impl Draft {
    /// The name of the provider with these members. Equal members make one provider. `name` is used for the first one, and
    /// `name-2`, `name-3`, … for the others.
    pub(super) fn provider(&mut self, name: &str, members: Members) -> String {
        let is_same = |(known, other): &&(String, Members)| family(known, name) && *other == members;
        if let Some((known, _)) = self.providers.iter().find(is_same) {
            return known.clone();
        }
        let taken = |name: &str| self.providers.iter().any(|(known, _)| known == name);
        let free = unique(name, "-", taken);
        self.providers.push((free.clone(), members));
        free
    }

    /// The id of the model `provider/upstream` with these members. A model with other members gets an id of its own.
    pub(super) fn model(&mut self, provider: &str, upstream: &str, members: &Members) -> String {
        let wanted = format!("{provider}/{upstream}");
        let named = |id: &str| {
            let mut members = members.clone();
            if id != wanted {
                members.insert("upstream_model".to_owned(), upstream.into());
            }
            members
        };
        let is_same = |(id, other): &&(String, Members)| family(id, &wanted) && *other == named(id);
        if let Some((known, _)) = self.models.iter().find(is_same) {
            return known.clone();
        }
        let id = unique(&wanted, "-", |id| self.models.iter().any(|(known, _)| known == id));
        let members = named(&id);
        self.models.push((id.clone(), members));
        id
    }

    /// A copy of a model that `round_robin` uses only when the others fail, under an id of its own.
    pub(super) fn spare(&mut self, id: &str) -> String {
        let spare = format!("{id}-fallback");
        if self.models.iter().any(|(known, _)| *known == spare) {
            return spare;
        }
        let Some((_, members)) = self.models.iter().find(|(known, _)| known == id) else {
            return id.to_owned();
        };
        let mut members = members.clone();
        let upstream = id.split_once('/').map_or(id, |(_, model)| model);
        members.entry("upstream_model").or_insert_with(|| upstream.into());
        for (name, fact) in shipped_facts(id) {
            let Some(own) = members.get_mut(&name) else {
                members.insert(name, fact);
                continue;
            };
            // An entry of [[models]] overrides the shipped prices one by one.
            if let (Value::Object(own), Value::Object(shipped)) = (own, fact) {
                for (price, value) in shipped {
                    own.entry(price).or_insert(value);
                }
            }
        }
        members.insert("weight".to_owned(), json!(0));
        self.models.push((spare.clone(), members));
        spare
    }

    /// Sets a key of a section.
    pub(super) fn set(&mut self, section: &'static str, key: &str, value: Value) {
        self.sections.entry(section).or_default().insert(key.to_owned(), value);
    }

    /// Sets a key of a table in a section.
    pub(super) fn set_below(&mut self, section: &'static str, table: &str, key: &str, value: Value) {
        let table = self.sections.entry(section).or_default().entry(table).or_insert_with(|| json!({}));
        if let Value::Object(members) = table {
            members.insert(key.to_owned(), value);
        }
    }

    /// Takes the models of a provider from its own list.
    pub(super) fn discover(&mut self, provider: &str) {
        if !self.discovering.iter().any(|known| known == provider) {
            self.discovering.push(provider.to_owned());
        }
    }

    /// Adds a gateway key.
    pub(super) fn key(&mut self, members: Members) {
        self.keys.push(members);
    }

    /// Adds a rule of `[[budgets]]`.
    pub(super) fn budget(&mut self, members: Members) {
        self.budgets.push(members);
    }

    /// The text for a value of the source that may name an environment variable.
    pub(super) fn variable(&mut self, name: &str) -> String {
        match self.defaults.get(name) {
            Some(default) => variable_or(name, default),
            None => {
                self.variables.insert(name.to_owned());
                format!("{REFERENCE}{{{name}}}")
            }
        }
    }

    /// A reference to the variable that holds a secret of the source. The secret itself is not written. The first secret that wants
    /// the variable `wanted` gets this name, and other secrets get `_2`, `_3`, …
    pub(super) fn secret(&mut self, secret: &str, wanted: &str) -> String {
        let is_same = |known: &&KeptSecret| known.wanted == wanted && known.secret.expose_secret() == secret;
        let name = match self.secrets.iter().find(is_same) {
            Some(known) => known.variable.clone(),
            None => {
                let variable = self.free_variable(wanted);
                let (secret, wanted) = (SecretString::from(secret), wanted.to_owned());
                self.secrets.push(KeptSecret { secret, wanted, variable: variable.clone() });
                variable
            }
        };
        self.variable(&name)
    }

    /// A reference to a variable that nothing else refers to: `wanted`, or with `_2`, `_3`, ….
    pub(super) fn new_variable(&mut self, wanted: &str) -> String {
        let name = self.free_variable(wanted);
        self.variable(&name)
    }

    fn free_variable(&self, wanted: &str) -> String {
        unique(wanted, "_", |name| self.variables.contains(name))
    }

    /// Notes that a provider takes the usual variables of AWS.
    pub(super) fn needs_aws_keys(&mut self) {
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            self.variables.insert(name.to_owned());
        }
    }

    /// Adds what a provider's name does not say.
    fn complete_provider(&self, name: &str, members: &mut Members) {
        if self.discovering.iter().any(|known| known == name) {
            members.insert("discover".to_owned(), json!(true));
        }
        if presets::find(name).is_some() || members.contains_key("base_url") {
            return;
        }
        // Only the first provider of a family has the known name, so the others need its address.
        let preset = presets::ALL.iter().find(|preset| family(name, preset.name));
        if let Some(url) =
            preset.filter(|preset| preset.api == Api::OPENAI.as_str()).and_then(|preset| preset.base_url)
        {
            members.insert("base_url".to_owned(), url.into());
        }
    }

    /// The gateway.toml. `head` are the lines of its first comment.
    pub(super) fn text(&self, head: &[String]) -> String {
        let named = |member: &str, entries: &[(String, Members)]| -> Value {
            let entry = |(name, members): &(String, Members)| {
                let mut members = members.clone();
                members.insert(member.to_owned(), name.as_str().into());
                if member == "name" {
                    self.complete_provider(name, &mut members);
                }
                Value::Object(members)
            };
            entries.iter().map(entry).collect()
        };
        let aliases = self.aliases.iter().map(|(name, targets)| json!({ "name": name, "targets": targets }));
        let mut document = Map::new();
        for (section, members) in &self.sections {
            document.insert((*section).to_owned(), Value::Object(members.clone()));
        }
        document.insert("providers".to_owned(), named("name", &self.providers));
        document.insert("models".to_owned(), named("id", &self.models));
        document.insert("aliases".to_owned(), aliases.collect());
        document.insert("keys".to_owned(), self.keys.iter().cloned().map(Value::Object).collect());
        document.insert("budgets".to_owned(), self.budgets.iter().cloned().map(Value::Object).collect());
        document.values_mut().for_each(write_references);
        let head: String = head.iter().map(|line| format!("# {line}\n")).collect();
        format!("{head}\n{}", gw_config::toml_text(&document))
    }
}

/// A reference to a variable with a default.
pub(super) fn variable_or(name: &str, default: &str) -> String {
    format!("{REFERENCE}{{{name}:-{default}}}")
}

/// Writes the references of a document, and escapes every `${` that the source has written. The names of members have no
/// references.
fn write_references(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace("${", "$${").replace(REFERENCE, "$"),
        Value::Array(items) => items.iter_mut().for_each(write_references),
        Value::Object(members) => members.values_mut().for_each(write_references),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether `name` is `base` or one of `base-2`, `base-3`, …
fn family(name: &str, base: &str) -> bool {
    let Some(rest) = name.strip_prefix(base) else { return false };
    rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
}

fn unique(base: &str, separator: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let later = (2_u32..).map(|number| format!("{base}{separator}{number}"));
    std::iter::once(base.to_owned()).chain(later).find(|name| !is_taken(name)).unwrap_or_default()
}

/// The facts of the shipped catalogue that a copy of a model under another id would lose.
fn shipped_facts(id: &str) -> Members {
    const FACTS: [&str; 2] = ["context_length", "max_output_tokens"];
    const PRICES: [&str; 7] = [
        "official_input_per_m",
        "official_output_per_m",
        "cached_input_per_m",
        "cache_write_per_m",
        "cache_write_1h_per_m",
        "tiers",
        "currency",
    ];
    let entries: Vec<Value> = serde_json::from_str(gw_engine::catalog::SHIPPED).unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(id)) else {
        return Members::new();
    };
    let picked = |object: &Value, names: &[&str]| -> Members {
        let found = names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(name)?.clone())));
        found.filter(|(_, value)| !value.is_null()).collect()
    };
    let mut facts = picked(entry, &FACTS);
    let prices = entry.get("pricing").map(|pricing| picked(pricing, &PRICES)).unwrap_or_default();
    if !prices.is_empty() {
        facts.insert("pricing".to_owned(), Value::Object(prices));
    }
    facts
}

/// The price of a million tokens for the price of one, as JSON. None: it has more digits than a price can have.
pub(super) fn price_per_million(per_token: f64) -> Option<Value> {
    let nanos = (per_token * 1e15).round();
    if !(0.0..=1e18).contains(&nanos) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
    let price = Price::from_nanos(nanos as u64);
    let number: f64 = price.to_string().parse().ok()?;
    serde_json::Number::from_f64(number).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use gw_engine::catalog::SHIPPED;
    use serde_json::{Value, json};

    use super::{Draft, Members, REFERENCE, price_per_million};

    #[test]
    fn prices_are_exact() {
        assert_eq!(price_per_million(1.5e-7), Some(json!(0.15)));
        assert_eq!(price_per_million(0.000_003), Some(json!(3.0)));
        assert_eq!(price_per_million(0.0), Some(json!(0.0)));
    }

    #[test]
    fn a_secret_becomes_a_variable_that_equal_ones_share() {
        let mut draft = Draft::default();
        let plain = |reference: String| reference.replace(REFERENCE, "$");
        assert_eq!(plain(draft.variable("KEY")), "${KEY}");
        assert_eq!(plain(draft.secret("sk-1", "KEY")), "${KEY_2}");
        assert_eq!(plain(draft.secret("sk-2", "KEY")), "${KEY_3}");
        assert_eq!(plain(draft.secret("sk-1", "KEY")), "${KEY_2}");
        assert_eq!(plain(draft.secret("sk-1", "OTHER")), "${OTHER}");
    }

    #[test]
    fn only_the_references_of_the_import_are_references_in_the_file() {
        let mut draft = Draft::default();
        let key = draft.variable("KEY");
        let members = Members::from_iter([
            ("api_key".to_owned(), key.into()),
            ("headers".to_owned(), json!({ "x-a": "${KEY}" })),
        ]);
        let provider = draft.provider("openai", members);
        let model = draft.model(&provider, "a${KEY}", &Members::new());
        draft.aliases.push(("b$${KEY}".to_owned(), vec![model]));
        let text = draft.text(&[]);
        for line in [
            "api_key = \"${KEY}\"",
            "headers = { x-a = \"$${KEY}\" }",
            "id = \"openai/a$${KEY}\"",
            "name = \"b$$${KEY}\"",
            "targets = [\"openai/a$${KEY}\"]",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn equal_providers_are_one_and_others_get_a_number() {
        let mut draft = Draft::default();
        let key = |key: &str| Members::from_iter([("api_key".to_owned(), key.into())]);
        assert_eq!(draft.provider("openai", key("a")), "openai");
        assert_eq!(draft.provider("openai", key("b")), "openai-2");
        assert_eq!(draft.provider("openai", key("a")), "openai");
        assert_eq!(draft.provider("openai", key("b")), "openai-2");
    }

    #[test]
    fn a_copy_of_a_shipped_model_keeps_the_prices_that_its_entry_does_not_state() {
        let entries: Vec<Value> = serde_json::from_str(SHIPPED).unwrap();
        let shipped = entries.iter().find(|entry| entry["pricing"]["tiers"].is_array()).unwrap();
        let (provider, model) = shipped["id"].as_str().unwrap().split_once('/').unwrap();
        let stated = json!({ "official_input_per_m": 77.0 });
        let mut draft = Draft::default();
        let id = draft.model(provider, model, &Members::from_iter([("pricing".to_owned(), stated)]));
        let spare = draft.spare(&id);
        let (_, copy) = draft.models.iter().find(|(known, _)| *known == spare).unwrap();
        let pricing = &copy["pricing"];
        assert_eq!(pricing["official_input_per_m"], json!(77.0));
        for price in ["official_output_per_m", "cached_input_per_m", "tiers"] {
            assert_eq!(pricing[price], shipped["pricing"][price], "{price}");
        }
    }
}
