//! The file as a JSON document before references are replaced, with the line of each entry. Entries that the API makes are
//! added to this document.

use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::overlay::{overlays, variable};
use super::schema::Kind;
use super::settings::Lookup;

/// A gateway.toml as it is written.
#[derive(Clone, Debug, Default)]
pub struct RawFile {
    /// The document, in which aliases are always a list of tables.
    pub document: Map<String, Value>,
    /// The places of entries and keys.
    pub places: Vec<Place>,
}

/// The place of an entry of a list, or of a key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The section, such as `providers` or `routing`.
    pub section: String,
    /// The name of the entry or the key.
    pub name: String,
    /// The line in the file, from 1; None: an environment variable sets the key.
    pub line: Option<usize>,
}

/// The lists whose entries have a name, and the member that holds it.
pub const NAMED_LISTS: [(&str, &str); 5] =
    [("providers", "name"), ("models", "id"), ("aliases", "name"), ("alerts", "name"), ("budgets", "name")];

/// Reads a text that `check` accepts. Values of the environment that are no secrets are part of the document. A secret of the
/// environment is a reference to its variable.
#[must_use]
pub fn raw_file(text: &str, env: Lookup<'_>) -> RawFile {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut file = RawFile::default();
    for (name, value) in table.get_ref() {
        let section: &str = name.get_ref();
        let json = match (section, value.get_ref()) {
            ("aliases", DeValue::Table(map)) => alias_list(map, text, &mut file.places),
            (_, DeValue::Table(table)) => {
                for key in table.keys() {
                    file.note(section, key.get_ref(), Some(line(text, key.span().start)));
                }
                json_of(value.get_ref())
            }
            (_, DeValue::Array(entries)) => {
                for entry in entries.iter() {
                    let name = name_of(section, entry);
                    file.note(section, &name.unwrap_or_default(), Some(line(text, entry.span().start)));
                }
                json_of(value.get_ref())
            }
            _ => json_of(value.get_ref()),
        };
        file.document.insert(section.to_owned(), json);
    }
    file.add_environment(env);
    file
}

impl RawFile {
    fn note(&mut self, section: &str, name: &str, line: Option<usize>) {
        self.places.push(Place { section: section.to_owned(), name: name.to_owned(), line });
    }

    fn add_environment(&mut self, env: Lookup<'_>) {
        for (parent, _, key) in overlays() {
            let name = variable(parent.name, key.name);
            let Some(text) = env(&name) else { continue };
            let value = match key.kind {
                Kind::Secret(_) => json!(format!("${{{name}}}")),
                Kind::Bool | Kind::Int { .. } | Kind::Number { .. } | Kind::Price | Kind::UnitPrice => {
                    serde_json::from_str(text.trim()).unwrap_or(Value::String(text))
                }
                _ => Value::String(text.replace("${", "$${")),
            };
            let section = self.document.entry(parent.name).or_insert_with(|| json!({}));
            if let Value::Object(members) = section {
                members.insert(key.name.to_owned(), value);
            }
            self.places
                .retain(|place| (place.section.as_str(), place.name.as_str()) != (parent.name, key.name));
            self.note(parent.name, key.name, None);
        }
    }

    /// The place of an entry or a key that the file or the environment sets.
    #[must_use]
    pub fn place(&self, section: &str, name: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.section == section && place.name == name)
    }
}

impl Place {
    /// The place in words, with the path of the file.
    #[must_use]
    pub fn describe(&self, file: &str) -> String {
        match self.line {
            Some(line) => format!("{file}:{line}"),
            None => format!("the environment variable {}", variable(&self.section, &self.name)),
        }
    }
}

/// `[aliases]` as a list of tables.
fn alias_list(map: &DeTable<'_>, text: &str, places: &mut Vec<Place>) -> Value {
    let entries = map.iter().map(|(name, targets)| {
        let name_text: &str = name.get_ref();
        places.push(Place {
            section: "aliases".to_owned(),
            name: name_text.to_owned(),
            line: Some(line(text, name.span().start)),
        });
        // A key of TOML has no references, and the value that it becomes here would have them.
        json!({ "name": name_text.replace("${", "$${"), "targets": json_of(targets.get_ref()) })
    });
    entries.collect()
}

fn name_of(section: &str, entry: &Spanned<DeValue<'_>>) -> Option<String> {
    let (_, member) = NAMED_LISTS.into_iter().find(|(list, _)| *list == section)?;
    match entry.get_ref() {
        DeValue::Table(table) => match table.get(member)?.get_ref() {
            // The name that is in force: `$${` stands for `${`.
            DeValue::String(name) => Some(name.replace("$${", "${")),
            _ => None,
        },
        _ => None,
    }
}

fn json_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(number) => json!(i64::from_str_radix(number.as_str(), number.radix()).ok()),
        DeValue::Float(number) => json!(number.as_str().parse::<f64>().ok()),
        DeValue::Boolean(value) => json!(value),
        DeValue::Datetime(time) => json!(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json_of(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let members =
                table.iter().map(|(name, value)| (name.get_ref().to_string(), json_of(value.get_ref())));
            Value::Object(members.collect())
        }
    }
}

fn line(text: &str, offset: usize) -> usize {
    text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::raw_file;

    #[test]
    fn the_file_keeps_its_references_and_its_lines() {
        let text = "[routing]\nstrategy = \"cheapest\"\n\n[aliases]\nfast = \"a/x\"\n\n[[providers]]\nname = \"a\"\napi_key = \"${K}\"\n";
        let env = |name: &str| match name {
            "MODEL_GATEWAY_ROUTING__RETRIES" => Some("3".to_owned()),
            "MODEL_GATEWAY_REDIS__URL" => Some("redis://:secret@h".to_owned()),
            _ => None,
        };
        let file = raw_file(text, &env);
        let expected = json!({
            "routing": {"strategy": "cheapest", "retries": 3},
            "redis": {"url": "${MODEL_GATEWAY_REDIS__URL}"},
            "aliases": [{"name": "fast", "targets": "a/x"}],
            "providers": [{"name": "a", "api_key": "${K}"}],
        });
        assert_eq!(serde_json::Value::Object(file.document.clone()), expected);
        let place =
            |section: &str, name: &str| file.place(section, name).map(|place| place.describe("f.toml"));
        assert_eq!(place("routing", "strategy").as_deref(), Some("f.toml:2"));
        assert_eq!(place("aliases", "fast").as_deref(), Some("f.toml:5"));
        assert_eq!(place("providers", "a").as_deref(), Some("f.toml:7"));
        let variable = "the environment variable MODEL_GATEWAY_ROUTING__RETRIES";
        assert_eq!(place("routing", "retries").as_deref(), Some(variable));
        assert_eq!(place("routing", "hedge"), None);
    }
}
