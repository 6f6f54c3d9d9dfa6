//! A small value that fits a JSON schema. It covers the usual schemas of tools and structured answers.

use std::cell::Cell;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// The members of an object that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilledMembers {
    /// All members.
    All,
    /// The required members.
    Required,
}

/// The depth at which a recursive schema ends.
const MAX_DEPTH: usize = 16;

/// A value that fits the schema. Free strings are the first words of `text`.
pub(super) fn of(schema: &Value, fill: FilledMembers, text: &str) -> Value {
    let word: Vec<&str> = text.split_whitespace().take(12).collect();
    let text = if word.is_empty() { "demo".to_owned() } else { word.join(" ") };
    ExampleMaker { root: schema, fill, text, left: Cell::new(MAX_WORK) }.value(schema, 0)
}

/// The most values and bytes of strings in one example. References and nested lists can make a small schema a huge
/// value.
const MAX_WORK: usize = 100_000;

struct ExampleMaker<'a> {
    root: &'a Value,
    fill: FilledMembers,
    text: String,
    /// The values and bytes that may still be written.
    left: Cell<usize>,
}

impl ExampleMaker<'_> {
    /// Subtracts from the remaining work. Returns false when none is left.
    fn spend(&self, work: usize) -> bool {
        let left = self.left.get().saturating_sub(work);
        self.left.set(left);
        left > 0
    }

    fn value(&self, schema: &Value, depth: usize) -> Value {
        if depth > MAX_DEPTH || !self.spend(1) {
            return Value::Null;
        }
        if let Some(target) =
            schema.get("$ref").and_then(Value::as_str).and_then(|place| place.strip_prefix('#'))
        {
            return self.root.pointer(target).map_or(Value::Null, |schema| self.value(schema, depth + 1));
        }
        let fixed = ["const", "default"].iter().find_map(|name| schema.get(name));
        if let Some(value) = fixed.or_else(|| schema.get("enum")?.as_array()?.first()) {
            return if self.spend(size(value)) { value.clone() } else { Value::Null };
        }
        for name in ["anyOf", "oneOf", "allOf"] {
            let Some(ways) = schema.get(name).and_then(Value::as_array) else { continue };
            let real = ways.iter().find(|way| way.get("type").and_then(Value::as_str) != Some("null"));
            return real.or_else(|| ways.first()).map_or(Value::Null, |way| self.value(way, depth + 1));
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).min(64);
                let item = || schema.get("items").map_or(Value::Null, |items| self.value(items, depth + 1));
                Value::Array((0..least).map(|_| item()).collect())
            }
            "integer" | "number" => number(schema),
            "boolean" => Value::Bool(true),
            "null" => Value::Null,
            _ => self.string(schema),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let mut members = Map::new();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if !self.spend(1) {
                break;
            }
            if self.fill == FilledMembers::All || required.contains(&**name) {
                members.insert(name.clone(), self.value(property, depth + 1));
            }
        }
        Value::Object(members)
    }

    fn string(&self, schema: &Value) -> Value {
        let known = match schema.get("format").and_then(Value::as_str) {
            Some("date") => Some("2026-01-01"),
            Some("date-time") => Some("2026-01-01T00:00:00Z"),
            Some("time") => Some("00:00:00Z"),
            Some("email") => Some("demo@example.com"),
            Some("uri" | "url") => Some("https://example.com/"),
            Some("uuid") => Some("00000000-0000-4000-8000-000000000000"),
            _ => None,
        };
        let mut text = known.map_or_else(|| self.text.clone(), str::to_owned);
        let bound = |name: &str| {
            schema.get(name).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok())
        };
        if let Some(longest) = bound("maxLength") {
            text = text.chars().take(longest).collect();
        }
        let least = bound("minLength").unwrap_or(0).min(10_000);
        let missing = least.saturating_sub(text.chars().count());
        if self.spend(text.len() + missing) {
            text.extend(std::iter::repeat_n('x', missing));
        }
        Value::String(text)
    }
}

/// The number of values and bytes of strings in a value.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The type of a schema: the first that is not null, or the type that other keywords suggest.
fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    };
    let shaped = || if schema.get("properties").is_some() { "object" } else { "string" };
    named.unwrap_or_else(shaped)
}

fn number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - 1.0));
    let value = 1.0_f64.max(least.unwrap_or(1.0)).min(most.unwrap_or(f64::MAX));
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}
