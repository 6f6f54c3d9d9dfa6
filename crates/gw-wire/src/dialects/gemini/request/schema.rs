//! Google's `Schema` as a JSON Schema: names of types in small letters, `nullable` as a type, numbers instead of digits in
//! strings.

use std::borrow::Cow;

use crate::dialects::gemini::members::is_named;
use crate::json::{Kind, View, write_str};

/// The deepest level that is converted. A deeper schema is passed on as it is there, and the limits of a request refuse it.
const MAX_DEPTH: usize = 64;

/// Members of `Schema` in their JSON form. Names of properties are not among them.
const KNOWN: [&str; 12] = [
    "anyOf",
    "maxItems",
    "minItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "prefixItems",
    "additionalProperties",
    "oneOf",
    "allOf",
    "propertyOrdering",
];

/// Writes a schema.
pub(super) fn write(out: &mut Vec<u8>, schema: View<'_>) {
    write_at(out, schema, 0);
}

fn write_at(out: &mut Vec<u8>, schema: View<'_>, depth: usize) {
    if schema.kind() != Kind::Object || depth >= MAX_DEPTH {
        out.extend_from_slice(schema.text().as_bytes());
        return;
    }
    let is_nullable = schema
        .members()
        .any(|(name, value)| name.string().is_some_and(|name| name == "nullable") && value.text() == "true");
    let mut mark = b'{';
    for (name, value) in schema.members() {
        let Some(name) = name.string() else { continue };
        let name = KNOWN.into_iter().find(|known| is_named(&name, known)).map_or(name, Cow::Borrowed);
        // JSON Schema has no order and no word for null.
        if matches!(&*name, "nullable" | "propertyOrdering") || value.kind() == Kind::Null {
            continue;
        }
        out.push(mark);
        mark = b',';
        write_str(out, &name);
        out.push(b':');
        member(out, &name, value, is_nullable, depth);
    }
    out.extend_from_slice(if mark == b'{' { b"{}" } else { b"}" });
}

fn member(out: &mut Vec<u8>, name: &str, value: View<'_>, is_nullable: bool, depth: usize) {
    match name {
        "type" => write_type(out, value, is_nullable),
        "properties" | "$defs" | "defs" if value.kind() == Kind::Object => {
            let mut mark = b'{';
            for (name, schema) in value.members() {
                out.push(mark);
                mark = b',';
                out.extend_from_slice(name.text().as_bytes());
                out.push(b':');
                write_at(out, schema, depth + 1);
            }
            out.extend_from_slice(if mark == b'{' { b"{}" } else { b"}" });
        }
        "items" | "additionalProperties" => write_at(out, value, depth + 1),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" if value.kind() == Kind::Array => {
            let mut mark = b'[';
            for schema in value.elements() {
                out.push(mark);
                mark = b',';
                write_at(out, schema, depth + 1);
            }
            out.extend_from_slice(if mark == b'[' { b"[]" } else { b"]" });
        }
        "enum" if is_nullable && value.kind() == Kind::Array && !value.is_empty_array() => {
            // A value must be in the list, too.
            let list = value.text().trim_end().strip_suffix(']').unwrap_or_default();
            out.extend_from_slice(list.as_bytes());
            out.extend_from_slice(b",null]");
        }
        name if name.starts_with("max") || name.starts_with("min") => {
            let digits = value.string().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            match digits.filter(|digits| !digits.is_empty()) {
                Some(digits) => out.extend_from_slice(digits.as_bytes()),
                None => out.extend_from_slice(value.text().as_bytes()),
            }
        }
        _ => out.extend_from_slice(value.text().as_bytes()),
    }
}

fn write_type(out: &mut Vec<u8>, value: View<'_>, is_nullable: bool) {
    let Some(name) = value.string() else {
        out.extend_from_slice(value.text().as_bytes());
        return;
    };
    let name = name.to_ascii_lowercase();
    if is_nullable && name != "null" {
        out.push(b'[');
        write_str(out, &name);
        out.extend_from_slice(b",\"null\"]");
    } else {
        write_str(out, &name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(schema: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, View::new(schema));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_schema_of_google_becomes_a_json_schema() {
        for (schema, expected) in [
            (r#"{"type":"STRING","format":"date"}"#, r#"{"type":"string","format":"date"}"#),
            (r#"{"type":"INTEGER","nullable":true}"#, r#"{"type":["integer","null"]}"#),
            (
                r#"{"type":"ARRAY","items":{"type":"NUMBER"},"minItems":"1","max_items":"3"}"#,
                r#"{"type":"array","items":{"type":"number"},"minItems":1,"maxItems":3}"#,
            ),
            (
                r#"{"type":"OBJECT","properties":{"type":{"type":"STRING"},"any_of":{"type":"BOOLEAN"}},"required":["type"],"propertyOrdering":["type"]}"#,
                r#"{"type":"object","properties":{"type":{"type":"string"},"any_of":{"type":"boolean"}},"required":["type"]}"#,
            ),
            (
                r#"{"anyOf":[{"type":"STRING"},{"type":"NULL"}]}"#,
                r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
            ),
            (
                r#"{"type":"STRING","enum":["a"],"nullable":true}"#,
                r#"{"type":["string","null"],"enum":["a",null]}"#,
            ),
            (
                r#"{"type":"object","additionalProperties":false}"#,
                r#"{"type":"object","additionalProperties":false}"#,
            ),
            ("{}", "{}"),
        ] {
            assert_eq!(written(schema), expected, "{schema}");
        }
    }
}
