//! Walks over a JSON document along the schema, so that secrets and paths are found wherever they stand.

use serde_json::Value;

use super::schema::{Kind, Section};
use super::tables::ROOT;

/// The kinds of strings that callers treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A secret: a string or `{ file = "path" }`.
    Secret,
    /// A path of a file.
    Path,
    /// Any other string.
    Text,
}

/// Calls `visit` with the path, the kind and the value of each string and each secret in the value of a section. `section` is
/// the name of the section. The value of a list is one entry of it.
pub fn visit_section(section: &str, value: &mut Value, visit: &mut dyn FnMut(&str, Leaf, &mut Value)) {
    if let Some(key) = ROOT.key(section) {
        match entry_of(&key.kind) {
            Some(below) if value.is_object() => table(below, value, "", visit),
            _ => kind(&key.kind, value, "", visit),
        }
    }
}

/// The names of the keys of a section.
#[must_use]
pub fn section_keys(section: &str) -> Vec<&'static str> {
    let below = ROOT.key(section).and_then(|key| entry_of(&key.kind));
    below.map(|section| section.names().collect()).unwrap_or_default()
}

/// The schema of one entry of a list, or of a table.
fn entry_of(kind: &'static Kind) -> Option<&'static Section> {
    match kind {
        Kind::Table(section) | Kind::Tables(section) => Some(section),
        Kind::Either(one, other) => entry_of(other).or_else(|| entry_of(one)),
        _ => None,
    }
}

fn table(
    section: &'static Section,
    value: &mut Value,
    path: &str,
    visit: &mut dyn FnMut(&str, Leaf, &mut Value),
) {
    let Value::Object(members) = value else { return };
    for (name, value) in members {
        if let Some(key) = section.key(name) {
            kind(&key.kind, value, &below(path, name), visit);
        }
    }
}

fn kind(kind_: &'static Kind, value: &mut Value, path: &str, visit: &mut dyn FnMut(&str, Leaf, &mut Value)) {
    match (kind_, &mut *value) {
        (Kind::Secret(_), _) => visit(path, Leaf::Secret, value),
        (Kind::Path, Value::String(_)) => visit(path, Leaf::Path, value),
        (Kind::Text(_) | Kind::Choice(_) | Kind::ChoiceOr(..) | Kind::Time, Value::String(_)) => {
            visit(path, Leaf::Text, value)
        }
        (Kind::Table(section), Value::Object(_)) => table(section, value, path, visit),
        (Kind::Tables(section), Value::Array(entries)) => {
            for (index, entry) in entries.iter_mut().enumerate() {
                table(section, entry, &format!("{path}[{index}]"), visit);
            }
        }
        (Kind::List { of, .. }, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                kind(of, item, &format!("{path}[{index}]"), visit);
            }
        }
        // A text at any depth may hold a reference.
        (Kind::Json, _) => json(value, path, visit),
        (Kind::Map { of, .. }, Value::Object(members)) => {
            for (name, value) in members {
                kind(of, value, &below(path, name), visit);
            }
        }
        (Kind::Either(one, other), found) => {
            let chosen = if fits(one, found) { one } else { other };
            kind(chosen, value, path, visit);
        }
        _ => {}
    }
}

/// Visits every text of a value of any type.
fn json(value: &mut Value, path: &str, visit: &mut dyn FnMut(&str, Leaf, &mut Value)) {
    match value {
        Value::String(_) => visit(path, Leaf::Text, value),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                json(item, &format!("{path}[{index}]"), visit);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                json(value, &below(path, name), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether a value has the type of this kind.
fn fits(kind: &Kind, value: &Value) -> bool {
    match (kind, value) {
        (Kind::Secret(_), Value::Object(members)) => {
            members.contains_key("file") || members.contains_key("$secret")
        }
        (Kind::Secret(_) | Kind::Choice(_) | Kind::ChoiceOr(..) | Kind::Text(_), Value::String(_))
        | (Kind::Int { .. }, Value::Number(_))
        | (Kind::Bool, Value::Bool(_))
        | (Kind::Table(_) | Kind::Map { .. }, Value::Object(_))
        | (Kind::List { .. } | Kind::Tables(_), Value::Array(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Leaf, visit_section};

    #[test]
    fn secrets_and_paths_are_found_at_every_place() {
        let mut provider = json!({
            "name": "a", "api_key": "k", "api_keys": ["one", {"key": "two", "weight": 2}, {"file": "f"}],
            "headers": {"x-a": "h"}, "credentials_file": "c.json", "timeouts": {"idle_ms": 1},
        });
        let mut found = Vec::new();
        visit_section("providers", &mut provider, &mut |path, leaf, value| {
            found.push((path.to_owned(), leaf));
            if leaf == Leaf::Secret {
                *value = json!("***");
            }
        });
        let places: Vec<_> = found.iter().map(|(path, leaf)| (path.as_str(), *leaf)).collect();
        let expected = [
            ("api_key", Leaf::Secret),
            ("api_keys[0]", Leaf::Secret),
            ("api_keys[1].key", Leaf::Secret),
            ("api_keys[2]", Leaf::Secret),
            ("credentials_file", Leaf::Path),
            ("headers.x-a", Leaf::Secret),
            ("name", Leaf::Text),
        ];
        assert_eq!(places, expected);
        assert_eq!(provider["api_keys"], json!(["***", {"key": "***", "weight": 2}, "***"]));
    }
}
