//! The values that are in effect, each with its origin: a line of the file, an environment variable, or the default.

use serde_json::Value;
use toml::de::DeValue;

use super::masked;
use super::problems::{Location, Position, locate};
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

/// A default of the schema as JSON.
pub(super) fn json(value: &DeValue<'_>) -> Value {
    let number = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    match value {
        DeValue::String(text) => Value::from(&**text),
        DeValue::Integer(digits) => number(digits.as_str()),
        DeValue::Float(digits) => number(digits.as_str()),
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
