//! The values that are in effect, each with its origin: a line of the file, an environment variable, or the default.

use serde_json::{Map, Value};
use toml::de::DeValue;

use super::masked;
use super::problems::{Location, Position, locate};
use super::scalar;
use super::schema::{Key, Kind, Section};
use super::tables::ROOT;
use super::tree::{Checked, Node, Table, join};

/// The tables that switch a feature on. Without the table there are no values of its keys.
const OFF_WHEN_ABSENT: [&str; 3] = ["redis", "server.tls", "routing.hedge"];

/// A value in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveValue {
    /// The key, such as `providers[0].base_url`.
    pub path: String,
    /// The value; a secret is masked. Null: the default is not a value, see `words`.
    pub value: Value,
    /// A default in words, such as `gateway.db in the data directory`.
    pub words: Option<String>,
    /// The origin.
    pub origin: Origin,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The key has its default value.
    Default,
    /// This place in the file.
    File(Location),
    /// This environment variable.
    Environment(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(location) => write!(f, "{}:{}", location.source, location.line),
            Self::Environment(name) => write!(f, "${name}"),
        }
    }
}

/// The values of a checked configuration, in the order of the reference.
pub(super) fn values(root: &Table, defaults: bool, text: &str, source: &str) -> Vec<EffectiveValue> {
    let mut collector = Collector { defaults, found: Vec::new() };
    collector.section(&ROOT, Some(root), "");
    let positions: Vec<&Position> =
        collector.found.iter().map(|(_, at)| at.unwrap_or(&Position::Whole)).collect();
    let locations = locate(&positions, text, source);
    let found = collector.found.into_iter().zip(locations);
    found.map(|((value, at), location)| EffectiveValue { origin: origin(at, location), ..value }).collect()
}

fn origin(at: Option<&Position>, location: Location) -> Origin {
    match at {
        None => Origin::Default,
        Some(Position::Variable(name)) => Origin::Environment(name.clone()),
        Some(Position::Whole | Position::Offset(_)) => Origin::File(location),
    }
}

struct Collector<'t> {
    defaults: bool,
    /// The values, and the position of those that are set.
    found: Vec<(EffectiveValue, Option<&'t Position>)>,
}

impl<'t> Collector<'t> {
    fn section(&mut self, section: &'static Section, table: Option<&'t Table>, path: &str) {
        for key in section.keys {
            let path = join(path, key.name);
            match table.and_then(|table| table.nodes.get(key.name)) {
                Some(node) => self.set(node),
                None if self.defaults => self.unset(key, &path),
                None => {}
            }
        }
    }

    /// Adds a value that is set, or the values below it.
    fn set(&mut self, node: &'t Node) {
        match &node.value {
            Checked::Table(table) => self.section(table.section, Some(table), &node.path),
            Checked::List(nodes) if nodes.iter().any(|node| matches!(node.value, Checked::Table(_))) => {
                nodes.iter().for_each(|node| self.set(node));
            }
            Checked::Map(entries) => entries.iter().for_each(|(_, node)| self.set(node)),
            _ => self.add(&node.path, masked::value(node), None, Some(&node.at)),
        }
    }

    /// Adds the default of a key, or the defaults below it.
    fn unset(&mut self, key: &'static Key, path: &str) {
        let default = key.default();
        match &key.kind {
            // A default in words means that the table has the values of another one.
            Kind::Table(section) if default.is_empty() && !OFF_WHEN_ABSENT.contains(&path) => {
                self.section(section, None, path);
            }
            _ if default.is_empty() => {}
            _ => match DeValue::parse(&default) {
                Ok(default) => self.add(path, json(default.get_ref()), None, None),
                Err(_) => self.add(path, Value::Null, Some(default.replace('`', "")), None),
            },
        }
    }

    fn add(&mut self, path: &str, value: Value, words: Option<String>, at: Option<&'t Position>) {
        let value = EffectiveValue { path: path.to_owned(), value, words, origin: Origin::Default };
        self.found.push((value, at));
    }
}

/// The defaults of the keys of a table that `set` does not have, as JSON. Those of a table below are an object. A default in words
/// is left out.
pub(super) fn defaults(section: &str, set: &Map<String, Value>) -> Map<String, Value> {
    match ROOT.key(section).map(|key| &key.kind) {
        Some(Kind::Table(table)) => defaults_of(table, set, section),
        _ => Map::new(),
    }
}

fn defaults_of(section: &Section, set: &Map<String, Value>, path: &str) -> Map<String, Value> {
    let default_of = |key: &Key| {
        let (path, set) = (join(path, key.name), set.get(key.name));
        let value = match &key.kind {
            Kind::Table(_) if set.is_none() && OFF_WHEN_ABSENT.contains(&path.as_str()) => return None,
            Kind::Table(below) => {
                let set = set.and_then(Value::as_object).cloned().unwrap_or_default();
                Value::Object(defaults_of(below, &set, &path))
            }
            _ if set.is_some() => return None,
            _ => json(DeValue::parse(&key.default()).ok()?.get_ref()),
        };
        Some((key.name.to_owned(), value))
    };
    section.keys.iter().filter_map(default_of).collect()
}

/// A default of the schema as JSON.
pub(super) fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(&**text),
        // Numbers of another base, and a sign in front. No JSON has `inf` and `nan`.
        DeValue::Integer(_) | DeValue::Float(_) => {
            let digits = scalar::decimal(value).unwrap_or_default();
            serde_json::from_str(&digits).unwrap_or_else(|_| Value::from(digits))
        }
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(values) => values.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(table) => {
            let members =
                table.iter().map(|(name, value)| (name.get_ref().to_string(), json(value.get_ref())));
            Value::Object(members.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::defaults;

    #[test]
    fn the_defaults_of_a_table_are_those_of_the_keys_that_nothing_sets() {
        let of = |section: &str, set: Value| Value::Object(defaults(section, set.as_object().unwrap()));
        let timeouts = json!({ "connect_ms": 5000, "first_token_ms": 120_000, "idle_ms": 120_000 });
        assert_eq!(of("timeouts", json!({ "total_ms": 1 })), timeouts);
        let routing = of("routing", json!({ "retries": 0, "breaker": { "failures": 9 } }));
        assert_eq!((&routing["strategy"], &routing["max_attempts"]), (&json!("default"), &json!(4)));
        assert_eq!((&routing["retries"], &routing["upgrade_max_price_ratio"]), (&Value::Null, &Value::Null));
        assert_eq!(
            (&routing["breaker"]["failures"], &routing["breaker"]["cooldown_ms"]),
            (&Value::Null, &json!(10_000))
        );
        // Without its table a hedge is off, so its keys have no value.
        assert_eq!(routing["hedge"], Value::Null);
        let hedge = of("routing", json!({ "hedge": { "after": 200 } }))["hedge"].clone();
        assert_eq!(hedge, json!({ "max_extra_cost_percent": 5 }));
        assert_eq!(of("providers", json!({})), json!({}));
    }
}
