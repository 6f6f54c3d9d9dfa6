//! The JSON Schema of gateway.toml, for editors and other programs. It is made from the schema that the loader checks against.

use serde_json::{Map, Value, json};
use toml::de::DeValue;

use super::effective;
use super::schema::{Key, Kind, Section, Word};
use super::tables::ROOT;

/// The JSON Schema (draft 2020-12) of gateway.toml. It describes the form of each value. `model-gateway check` also checks the
/// rules between values, and the texts behind `${NAME}`.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = section(&ROOT);
    if let Value::Object(members) = &mut schema {
        members.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        members.insert("title".to_owned(), json!("gateway.toml of Model Gateway"));
    }
    schema
}

fn section(section: &Section) -> Value {
    let properties = section.keys.iter().map(|key| (key.name.to_owned(), property(key)));
    let mut schema = json!({
        "type": "object",
        "properties": properties.collect::<Map<_, _>>(),
        "additionalProperties": false,
    });
    let required: Vec<_> = section.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    if let Value::Object(members) = &mut schema {
        if !required.is_empty() {
            members.insert("required".to_owned(), json!(required));
        }
        if !section.doc.is_empty() {
            members.insert("description".to_owned(), json!(section.doc));
        }
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = kind(&key.kind);
    let Value::Object(members) = &mut schema else { return schema };
    if !key.doc.is_empty() {
        members.insert("description".to_owned(), json!(key.doc));
    }
    let default = key.default();
    if !default.is_empty()
        && let Ok(default) = DeValue::parse(&default)
    {
        members.insert("default".to_owned(), effective::json(default.get_ref()));
    }
    schema
}

fn kind(kind_of_value: &Kind) -> Value {
    match kind_of_value {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Price | Kind::UnitPrice => json!({ "type": "number", "minimum": 0 }),
        Kind::Text(_) | Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Secret(_) => json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            section(&super::secret::FILE),
        ] }),
        Kind::Choice(words) => choice(words),
        Kind::ChoiceOr(words, _) => {
            json!({ "anyOf": [choice(words), { "type": "string", "minLength": 1 }] })
        }
        // A TOML date is a value of its own, and a string may hold a date, too.
        Kind::Time => json!({ "type": "string", "format": "date-time" }),
        Kind::List { of, min } => json!({ "type": "array", "items": kind(of), "minItems": min }),
        Kind::Map { of, .. } => json!({ "type": "object", "additionalProperties": kind(of) }),
        Kind::Json => json!({}),
        Kind::Table(table) => section(table),
        Kind::Tables(table) => json!({ "type": "array", "items": section(table) }),
        Kind::Either(one, other) => json!({ "anyOf": [kind(one), kind(other)] }),
    }
}

/// The words of a choice, or a text with a reference to the environment.
fn choice(words: &[Word]) -> Value {
    let known = words.iter().flat_map(|(word, others)| std::iter::once(word).chain(*others));
    json!({ "anyOf": [{ "enum": known.collect::<Vec<_>>() }, { "type": "string", "pattern": "\\$\\{" }] })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::json_schema;

    #[test]
    fn keys_have_their_type_default_and_meaning() {
        let schema = json_schema();
        let port = &schema["properties"]["server"]["properties"]["drain_seconds"];
        assert_eq!(
            (&port["type"], &port["default"], &port["maximum"]),
            (&json!("integer"), &json!(30), &json!(3600))
        );
        assert!(port["description"].as_str().is_some_and(|doc| doc.ends_with('.')), "{port}");
        assert_eq!(schema["properties"]["providers"]["items"]["required"], json!(["name"]));
        assert_eq!(schema["additionalProperties"], json!(false));
    }
}
