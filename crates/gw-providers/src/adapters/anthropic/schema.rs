//! Translates JSON Schema for structured outputs: every object is closed, and only enforceable keywords remain.
//!
//! "Structured outputs", section "JSON Schema limitations", at platform.claude.com. As in the vendor's SDKs, limits
//! that cannot be enforced move into the description. Keywords that change the meaning make a schema untranslatable.

mod references;

use std::borrow::Cow;

use gw_wire::json::{Kind, Node, ObjectWriter, Tree, View};

/// String formats that the API enforces.
const ENFORCED_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Keywords that are copied unchanged.
const COPIED_KEYWORDS: [&str; 7] = ["type", "enum", "const", "title", "default", "required", "$ref"];

/// Limits that move into the description.
const DESCRIBED_LIMITS: [&str; 13] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "examples",
];

/// Keywords that do not change which values are valid.
const ANNOTATION_KEYWORDS: [&str; 8] =
    ["$schema", "$id", "$comment", "$anchor", "deprecated", "readOnly", "writeOnly", "example"];

/// Translates a schema for structured outputs; None if it has no equivalent.
pub(in crate::adapters) fn translate(schema: View<'_>) -> Option<String> {
    rewrite(schema).map(|(text, _)| text)
}

/// Whether the API can enforce the schema without any change.
pub(super) fn is_enforceable(schema: View<'_>) -> bool {
    rewrite(schema).is_some_and(|(_, is_changed)| !is_changed)
}

fn rewrite(schema: View<'_>) -> Option<(String, bool)> {
    let tree = Tree::new(schema);
    let root = tree.root();
    let [kind, reference] = root.pick(["type", "$ref"]);
    let object = kind.and_then(Node::string).is_some_and(|kind| kind == "object");
    if !object && reference.is_none() || references::is_recursive(root) {
        return None;
    }
    let mut out = Vec::with_capacity(schema.text().len() + 64);
    let mut rewriter = Rewriter::default();
    rewriter.schema(root, &mut out)?;
    Some((String::from_utf8(out).ok()?, rewriter.is_changed))
}

/// The limits of one schema that move into its description: keyword and value.
type DescribedLimits<'a> = Vec<(Cow<'a, str>, &'a str)>;

#[derive(Default)]
struct Rewriter {
    /// The translated schema allows other values than the client's.
    is_changed: bool,
}

impl Rewriter {
    /// Translates one schema; None at the first keyword without an equivalent.
    fn schema(&mut self, schema: Node<'_, '_>, out: &mut Vec<u8>) -> Option<()> {
        if schema.kind() != Kind::Object {
            return None;
        }
        let mut object = ObjectWriter::begin(out);
        let mut limits = Vec::new();
        for (name, value) in schema.members() {
            self.keyword(name.string()?, value, &mut object, &mut limits)?;
        }
        let [kind, properties, more, description] =
            schema.pick(["type", "properties", "additionalProperties", "description"]);
        if is_object(kind, properties) {
            let is_closed = more.map(|more| more.text() == "false");
            let properties = properties.is_some_and(|some| some.members().next().is_some());
            // Closing an object that allows any members would change its meaning.
            if is_closed == Some(false) || !properties && is_closed.is_none() {
                return None;
            }
            self.is_changed |= is_closed.is_none();
            object.boolean("additionalProperties", false);
        }
        self.is_changed |= !limits.is_empty();
        describe(&mut object, description.and_then(Node::string), &limits);
        object.finish();
        Some(())
    }

    fn keyword<'a>(
        &mut self,
        name: Cow<'a, str>,
        value: Node<'_, 'a>,
        object: &mut ObjectWriter<'_>,
        limits: &mut DescribedLimits<'a>,
    ) -> Option<()> {
        let is = |fits: &dyn Fn(&str) -> bool| value.string().is_some_and(|text| fits(&text));
        match &*name {
            // `schema` writes these at the end.
            "description" | "additionalProperties" => {}
            "properties" | "$defs" | "definitions" => {
                let mut inner = ObjectWriter::begin(object.member(&name));
                for (name, schema) in value.members() {
                    self.schema(schema, inner.member(&name.string()?))?;
                }
                inner.finish();
            }
            "items" => self.schema(value, object.member("items"))?,
            // `allOf` takes no references. Some generators wrap a single reference in it, which means the same without
            // `allOf`.
            "allOf" if value.elements().any(|schema| schema.member("$ref").is_some()) => {
                let mut all = value.elements();
                let (Some(only), None) = (all.next(), all.next()) else { return None };
                let mut members = only.members();
                let (Some((_, path)), None) = (members.next(), members.next()) else { return None };
                object.raw("$ref", path.text());
            }
            "anyOf" => self.list("anyOf", value, object)?,
            "allOf" => self.list("allOf", value, object)?,
            "oneOf" => {
                // `anyOf` does not enforce that exactly one alternative is valid.
                self.is_changed = true;
                self.list("anyOf", value, object)?;
            }
            "format" if is(&|format| ENFORCED_FORMATS.contains(&format)) => {
                object.raw("format", value.text())
            }
            "pattern" if is(&is_plain) => object.raw("pattern", value.text()),
            "minItems" if matches!(value.text(), "0" | "1") => object.raw("minItems", value.text()),
            "format" | "pattern" => limits.push((name, value.text())),
            known if DESCRIBED_LIMITS.contains(&known) => limits.push((name, value.text())),
            known if COPIED_KEYWORDS.contains(&known) => object.raw(known, value.text()),
            known if ANNOTATION_KEYWORDS.contains(&known) || known.starts_with("x-") => {}
            _ => return None,
        }
        Some(())
    }

    fn list(
        &mut self,
        name: &'static str,
        schemas: Node<'_, '_>,
        object: &mut ObjectWriter<'_>,
    ) -> Option<()> {
        let mut complete = Some(());
        object.array(name, schemas.elements(), |out, schema| {
            complete = complete.and_then(|()| self.schema(schema, out));
        });
        complete
    }
}

fn describe(object: &mut ObjectWriter<'_>, description: Option<Cow<'_, str>>, limits: &DescribedLimits<'_>) {
    let mut text = description.unwrap_or_default().into_owned();
    if !limits.is_empty() {
        let texts: Vec<String> = limits.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        text.push_str(if text.is_empty() { "{" } else { "\n\n{" });
        text.push_str(&texts.join(", "));
        text.push('}');
    }
    if !text.is_empty() {
        object.string("description", &text);
    }
}

/// Whether the schema's types include `object`. A schema without a type is one of objects if it has properties.
fn is_object(kind: Option<Node<'_, '_>>, properties: Option<Node<'_, '_>>) -> bool {
    let Some(kind) = kind else { return properties.is_some() };
    let is = |kind: Node<'_, '_>| kind.string().is_some_and(|kind| kind == "object");
    is(kind) || kind.elements().any(is)
}

/// Whether a pattern has no lookaround, backreferences or word boundaries.
fn is_plain(pattern: &str) -> bool {
    let mut escaped = false;
    for c in pattern.chars() {
        if escaped && (c.is_ascii_digit() || matches!(c, 'b' | 'B' | 'k' | 'p' | 'P')) {
            return false;
        }
        escaped = c == '\\' && !escaped;
    }
    !pattern.contains("(?")
}

#[cfg(test)]
mod tests {
    use gw_wire::json::View;
    use serde_json::{Value, json};

    fn closed(schema: &str) -> Option<String> {
        super::translate(View::new(schema))
    }

    #[test]
    fn objects_are_closed_and_keep_the_order_of_their_members() {
        let schema = r##"{"$schema":"x","type":"object","properties":{"z":{"type":"string","format":"date"},"a":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/p"}}},"required":["z"],"$defs":{"p":{"type":["object","null"],"properties":{"n":{"anyOf":[{"type":"integer"},{"const":null}]}},"additionalProperties":false}}}"##;
        let expected = r##"{"type":"object","properties":{"z":{"type":"string","format":"date"},"a":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/p"}}},"required":["z"],"$defs":{"p":{"type":["object","null"],"properties":{"n":{"anyOf":[{"type":"integer"},{"const":null}]}},"additionalProperties":false}},"additionalProperties":false}"##;
        assert_eq!(closed(schema).as_deref(), Some(expected));
    }

    #[test]
    fn unenforceable_limits_are_written_into_the_description() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer","description":"Years.","minimum":0,"maximum":150},"s":{"type":"string","pattern":"^(?=x)","format":"phone"}},"additionalProperties":false}"#;
        let said: Value = serde_json::from_str(&closed(schema).unwrap()).unwrap();
        assert_eq!(
            said["properties"]["n"],
            json!({"type": "integer", "description": "Years.\n\n{minimum: 0, maximum: 150}"})
        );
        assert_eq!(
            said["properties"]["s"],
            json!({"type": "string", "description": "{pattern: \"^(?=x)\", format: \"phone\"}"})
        );
    }

    #[test]
    fn a_reference_alone_in_all_of_is_unwrapped() {
        let schema = |all: &str| {
            let schema = r##"{"type":"object","properties":{"a":{"allOf":[ALL],"title":"A"}},"$defs":{"p":{"type":"string"}},"additionalProperties":false}"##;
            closed(&schema.replace("ALL", all))
        };
        let reference = r##"{"$ref":"#/$defs/p"}"##;
        assert!(schema(reference).unwrap().contains(r##"{"a":{"$ref":"#/$defs/p","title":"A"}}"##));
        assert_eq!(schema(&format!("{reference},{reference}")), None);
        assert!(schema(r#"{"type":"string"}"#).unwrap().contains(r#""allOf":[{"type":"string"}]"#));
    }

    #[test]
    fn references_are_pointers() {
        let schema = |reference: &str| {
            let schema = r##"{"type":"object","properties":{"x":{"$ref":"#/definitions/REF"}},"definitions":{"a/b~c":{"type":"string"}},"additionalProperties":false}"##;
            closed(&schema.replace("REF", reference))
        };
        assert!(schema("a~1b~0c").is_some());
        assert_eq!(schema("a/b~c"), None);
    }

    #[test]
    fn keywords_without_an_equivalent_are_not_translated() {
        for schema in [
            "{}",
            "true",
            r#"{"type":"array","items":{"type":"string"}}"#,
            r#"{"type":"object"}"#,
            r#"{"type":"object","properties":{}}"#,
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":true}"#,
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            r#"{"type":"object","properties":{"a":true}}"#,
            r#"{"type":"object","properties":{"a":{"not":{}}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"array","items":[{}]}}}"#,
            r#"{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"if":{}}]}}}"#,
            r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##,
            r##"{"type":"object","properties":{"a":{"$ref":"https://x/y"}}}"##,
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}}},"b":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}}}"##,
        ] {
            assert_eq!(closed(schema), None, "{schema}");
        }
    }

    #[test]
    fn only_unchanged_schemas_are_enforceable() {
        let enforceable = |schema: &str| super::is_enforceable(View::new(schema));
        assert!(enforceable(
            r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#
        ));
        assert!(enforceable(r#"{"type":"object","properties":{},"additionalProperties":false}"#));
        assert!(!enforceable(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#));
        assert!(!enforceable(
            r#"{"type":"object","properties":{"a":{"type":"string","minLength":1}},"additionalProperties":false}"#
        ));
    }

    proptest::proptest! {
        #[test]
        fn any_text_never_panics(schema in "[{}\\[\\]\",:a-z$#/ ]{0,80}") {
            let _ = closed(&schema);
        }
    }
}
