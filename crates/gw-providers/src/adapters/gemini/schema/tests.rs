//! Schemas for models of both formats.

use gw_testkit::measured::at_most;
use gw_wire::json::View;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ReferenceBudget, SchemaFormat, TranslatedSchema};

fn write(schema: View<'_>, kind: SchemaFormat) -> Option<TranslatedSchema> {
    super::translate(schema, kind, &mut ReferenceBudget::default()).ok()
}

/// A schema that is too large counts as one with properties.
fn has_properties(schema: View<'_>, kind: SchemaFormat) -> bool {
    super::translate_parameters(schema, kind, &mut ReferenceBudget::default())
        .map_or(true, |written| written.is_some())
}

fn written(schema: &Value, kind: SchemaFormat) -> (Value, bool) {
    let text = schema.to_string();
    let written = write(View::new(&text), kind).unwrap();
    (serde_json::from_str(written.schema.get()).unwrap(), written.is_simplified)
}

fn open_api(schema: &Value) -> (Value, bool) {
    written(schema, SchemaFormat::OpenApi)
}

fn json_schema(schema: &Value) -> (Value, bool) {
    written(schema, SchemaFormat::Json)
}

#[test]
fn references_are_inlined() {
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/definitions/B~1c"}},
        "$defs": {"A": {"type": "array", "items": {"$ref": "#/definitions/B~1c"}}}, "definitions": {"B/c": {"type": "string"}}});
    let expected = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": {"type": "string"}}});
    assert_eq!(json_schema(&schema), (expected.clone(), false));
    let (mut open, is_simplified) = open_api(&schema);
    open.as_object_mut().unwrap().remove("propertyOrdering");
    assert_eq!((open, is_simplified), (expected, false));
}

#[test]
fn recursion_ends() {
    let schema = json!({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}});
    let (written, is_simplified) = json_schema(&schema);
    assert!(is_simplified);
    let inner = written.pointer("/properties/children/items/properties/children/items").unwrap();
    assert_eq!(inner, &json!({}));
    assert!(open_api(&schema).1);
    for circle in [
        json!({"$ref": "#"}),
        json!({"$ref": "#/a", "a": {"$ref": "#/a"}}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": "https://example.org/a"}),
    ] {
        assert!(json_schema(&circle).1, "{circle}");
        assert!(open_api(&circle).1);
    }
    let text = doubling().to_string();
    assert!(write(View::new(&text), SchemaFormat::Json).is_none());
    assert!(write(View::new(&text), SchemaFormat::OpenApi).is_none());
}

/// References that double at every step.
fn doubling() -> Value {
    let mut definitions = serde_json::Map::new();
    for step in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", step + 1)});
        definitions
            .insert(format!("d{step}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[test]
fn all_schemas_of_a_request_share_one_budget() {
    let text = doubling().to_string();
    let few = r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}"##;
    let many = few.replace(r#""type":"string""#, &format!(r#""enum":[{}]"#, vec!["1"; 6000].join(",")));
    let many = many
        .replace(r##""a":{"$ref":"#/$defs/x"}"##, r##""a":{"$ref":"#/$defs/x"},"b":{"$ref":"#/$defs/x"}"##);
    for kind in [SchemaFormat::Json, SchemaFormat::OpenApi] {
        let mut budget = ReferenceBudget::default();
        assert!(super::translate(View::new(&many), kind, &mut budget).is_ok());
        for _ in 0..128 {
            assert!(super::translate(View::new(&text), kind, &mut budget).is_err());
            assert_eq!(budget.left, 0);
        }
        // The budget that a schema adds suffices for a few references only.
        assert!(super::translate(View::new(few), kind, &mut budget).is_ok());
        assert!(super::translate(View::new(&many), kind, &mut budget).is_err());
    }
}

/// A schema whose references multiply, so that `{"$ref": name}` and one definition are visited often.
fn multiplying(name: &str, definition: &str) -> String {
    let refs = |count: usize, to: &str| vec![format!(r##"{{"$ref":"#/$defs/{to}"}}"##); count].join(",");
    format!(
        r##"{{"type":"object","properties":{{"p":{{"anyOf":[{}]}}}},"$defs":{{"b":{{"anyOf":[{},{}]}},"c":{{"$ref":"{name}"}},"d":{definition}}}}}"##,
        refs(133, "b"),
        refs(100, "c"),
        refs(100, "d"),
    )
}

#[test]
fn following_a_reference_costs_its_length_and_target() {
    let long = format!("#/{}", "x".repeat(480 << 10));
    let list = |one: &str| vec![one; 40_000].join(",");
    for (name, definition) in [
        (long.as_str(), "{}".to_owned()),
        ("#", format!(r#"{{"enum":[{}]}}"#, list("true"))),
        ("#", format!(r#"{{"type":[{}]}}"#, list("\"null\""))),
        ("#", format!(r#"{{"anyOf":[{}]}}"#, list(r#"{"type":"null"}"#))),
        ("#", format!(r#"{{"required":[{}]}}"#, list("\"a\""))),
        ("#", format!(r#"{{"$comment":"{}"}}"#, "x".repeat(480 << 10))),
    ] {
        let text = multiplying(name, &definition);
        for kind in [SchemaFormat::Json, SchemaFormat::OpenApi] {
            let mut budget = ReferenceBudget::default();
            assert!(super::translate(View::new(&text), kind, &mut budget).is_err(), "{definition:.40}");
            assert_eq!(budget.left, 0, "{definition:.40}");
        }
    }
    // A schema without references costs nothing, whatever its size.
    let plain = format!(r#"{{"type":"object","properties":{{"a":{{"enum":[{}]}}}}}}"#, list("1"));
    let mut budget = ReferenceBudget { left: 1 };
    let most = super::MAX_COUNTED_BYTES.min(plain.len()) * super::BUDGET_PER_BYTE;
    assert!(super::translate(View::new(&plain), SchemaFormat::Json, &mut budget).is_ok());
    assert_eq!(budget.left, 1 + most);
    // One reference costs itself, its target and the member inside the target.
    let one = r##"{"a":{"$ref":"#/$defs/x"},"items":{"$ref":"#/$defs/x"},"$defs":{"x":{"type":"string"}}}"##;
    let mut budget = ReferenceBudget::default();
    assert!(super::translate(View::new(one), SchemaFormat::OpenApi, &mut budget).is_ok());
    let spent = super::BASE_BUDGET + one.len() * super::BUDGET_PER_BYTE - budget.left;
    let (reference, target) = (r##""#/$defs/x""##, r#"{"type":"string"}"#);
    assert_eq!(spent, super::REFERENCE_COST + 4 * reference.len() + 2 * super::VALUE_COST + target.len());
}

#[test]
fn shared_definitions_are_inlined_each_time() {
    // An order with addresses, persons and amounts: each definition is used several times, at up to four levels.
    let text = |description: &str| json!({"type": "string", "description": description.repeat(4)});
    let r = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    let schema = json!({"type": "object", "properties": {
            "buyer": r("Person"), "seller": r("Person"), "payer": r("Person"), "agent": r("Person"),
            "lines": {"type": "array", "items": r("Line")}, "returned": {"type": "array", "items": r("Line")},
            "gifts": {"type": "array", "items": r("Line")}, "total": r("Amount"), "paid": r("Amount"), "open": r("Amount")},
        "$defs": {
            "Amount": {"type": "object", "properties": {"value": text("The amount in units. "), "currency": text("ISO 4217. ")}},
            "Address": {"type": "object", "properties": {"street": text("The street. "), "city": text("The city. "),
                "zip": text("The postal code. "), "country": r("Country"), "valid": r("Period")}},
            "Country": {"type": "object", "properties": {"code": text("ISO 3166. "), "name": text("In English. ")}},
            "Period": {"type": "object", "properties": {"from": text("The first day. "), "to": text("The last day. ")}},
            "Person": {"type": "object", "properties": {"name": text("The full name. "), "home": r("Address"),
                "work": r("Address"), "bill": r("Address"), "ship": r("Address"), "since": r("Period")}},
            "Line": {"type": "object", "properties": {"item": text("What it is. "), "price": r("Amount"), "tax": r("Amount"),
                "rebate": r("Amount"), "from": r("Address"), "to": r("Address"), "by": r("Person")}}}});
    assert!(schema.to_string().len() < 4 << 10);
    for (kind, is_simplified) in [(SchemaFormat::Json, false), (SchemaFormat::OpenApi, false)] {
        let (whole, simplified) = written(&schema, kind);
        assert_eq!(simplified, is_simplified);
        assert!(whole.to_string().len() > 24 << 10, "{}", whole.to_string().len());
        let deep =
            "/properties/gifts/items/properties/by/properties/ship/properties/valid/properties/to/type";
        assert_eq!(whole.pointer(deep), Some(&json!("string")));
    }
}

#[test]
fn a_small_schema_cannot_cause_much_work() {
    let remark = "x".repeat(100 << 10);
    let properties: serde_json::Map<_, _> =
        (0..5000).map(|at| (format!("p{at}"), json!({"$ref": "#/$defs/a/b"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "$defs": {"a": {"b": {"type": "string", "title": remark}}}});
    let many: serde_json::Map<_, _> = (0..30_000).map(|at| (format!("p{at}"), json!({}))).collect();
    let many = json!({"type": "object", "properties": many});
    let before = std::time::Instant::now();
    for schema in [schema, many] {
        let text = schema.to_string();
        assert!(write(View::new(&text), SchemaFormat::Json).is_none());
        assert!(write(View::new(&text), SchemaFormat::OpenApi).is_none());
        assert!(has_properties(View::new(&text), SchemaFormat::Json));
    }
    at_most("a_small_schema_cannot_cause_much_work", before.elapsed(), std::time::Duration::from_secs(20));
}

#[test]
fn the_schema_subset_keeps_supported_keywords() {
    for (schema, expected, is_simplified) in [
        (json!({"const": "a"}), json!({"type": "string", "enum": ["a"]}), false),
        (json!({"type": "string", "const": "a"}), json!({"type": "string", "enum": ["a"]}), false),
        (json!({"type": "integer", "enum": [1, 2]}), json!({"type": "integer"}), true),
        (
            json!({"enum": ["a", null], "type": ["string", "null"]}),
            json!({"type": "string", "enum": ["a"], "nullable": true}),
            false,
        ),
        (
            json!({"type": ["string", "integer", "null"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": true}),
            false,
        ),
        (
            json!({"anyOf": [{"type": "null"}, {"type": "number", "description": "inner"}], "description": "outer"}),
            json!({"type": "number", "description": "outer", "nullable": true}),
            false,
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "title": "t"}),
            json!({"title": "t", "anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": true}),
            false,
        ),
        (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}}), false),
        (
            json!({"items": {"type": "integer"}}),
            json!({"type": "array", "items": {"type": "integer"}}),
            false,
        ),
        (json!({"type": "string", "format": "email"}), json!({"type": "string"}), false),
        (
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "string", "format": "date-time"}),
            false,
        ),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "minimum": 0}),
            json!({"type": "number", "minimum": 0}),
            true,
        ),
        (
            json!({"type": "object", "additionalProperties": false, "properties": {}}),
            json!({"type": "object"}),
            false,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object"}),
            true,
        ),
        (json!({"type": "object", "propertyNames": {"pattern": "a"}}), json!({"type": "object"}), true),
        (
            json!({"type": "string", "default": "a", "examples": ["b"], "$comment": "c", "x-own": 1}),
            json!({"type": "string"}),
            false,
        ),
        (
            json!({"type": "object", "properties": {"a": true, "b": false}, "required": ["a", "c"]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "propertyOrdering": ["a", "b"]}),
            true,
        ),
    ] {
        assert_eq!(open_api(&schema), (expected, is_simplified), "{schema}");
    }
}

#[test]
fn json_schema_keeps_its_keywords() {
    let same = json!({"type": "object", "title": "T", "description": "d", "additionalProperties": false, "minProperties": 1,
        "patternProperties": {"^a": {"type": "string"}},
        "properties": {"n": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 2, "default": 4}, "s": {"type": "string", "format": "email"},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}}, "u": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["n"]});
    assert_eq!(json_schema(&same), (same, false));
    for (schema, expected, is_simplified) in [
        (json!({"$schema": "x", "$id": "y", "type": "string"}), json!({"type": "string"}), false),
        (json!({"const": 5}), json!({"enum": [5]}), false),
        (json!({"enum": ["a", "b"], "const": "a"}), json!({"enum": ["a"]}), false),
        (json!({"type": "boolean", "const": true}), json!({"type": "boolean"}), true),
        (
            json!({"type": ["string", "null"], "enum": ["a", null]}),
            json!({"type": ["string", "null"], "enum": ["a"]}),
            false,
        ),
        (json!({"type": "array"}), json!({"type": "array", "items": {}}), false),
        (json!({"properties": {"a": {}}}), json!({"type": "object", "properties": {"a": {}}}), false),
        (json!({"type": "object", "required": ["gone"]}), json!({"type": "object"}), false),
        (json!({"not": {"$ref": "#/$defs/x"}, "$defs": {"x": {}}}), json!({}), true),
        (
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "string"}}, "description": "d"}]}),
            json!({"type": "object", "description": "d", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}),
            false,
        ),
    ] {
        assert_eq!(json_schema(&schema), (expected, is_simplified), "{schema}");
    }
}

#[test]
fn properties_stay_in_the_clients_order() {
    let text = r#"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}},"required":["z","a"]}"#;
    assert_eq!(write(View::new(text), SchemaFormat::Json).unwrap().schema.get(), text);
}

#[test]
fn an_object_without_properties_is_translated() {
    let has = |text: &str, kind| has_properties(View::new(text), kind);
    assert!(
        !has(r#"{"type":"object","properties":{}}"#, SchemaFormat::Json) && !has("{}", SchemaFormat::Json)
    );
    assert!(has(r##"{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"b":{}}}}}"##, SchemaFormat::OpenApi));
    let map = r#"{"type":"object","additionalProperties":{"type":"string"}}"#;
    assert!(has(map, SchemaFormat::Json) && !has(map, SchemaFormat::OpenApi));
}

/// Any JSON that resembles a schema.
fn any_schema() -> impl Strategy<Value = Value> {
    let names = [
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "$ref",
        "enum",
        "const",
        "required",
        "additionalProperties",
        "x",
        "format",
        "$defs",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["string", "object", "array", "null", "#", "#/$defs/x", "#/items", "a"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(names.to_vec()), inner), 0..5).prop_map(|members| {
                members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_becomes_valid_json_without_references(schema in any_schema()) {
        let text = schema.to_string();
        for kind in [SchemaFormat::Json, SchemaFormat::OpenApi] {
            if let Some(written) = write(View::new(&text), kind) {
                prop_assert!(serde_json::from_str::<Value>(written.schema.get()).is_ok());
                prop_assert!(!written.schema.get().contains("\"$ref\":\""), "{} -> {}", text, written.schema.get());
            }
        }
    }
}
