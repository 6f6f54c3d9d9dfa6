//! Writes a schema keyword by keyword.

use std::borrow::Cow;

use gw_wire::json::{Kind, Node, Tree, write_str};
use memchr::memmem;

use super::flat_schema::{FlatSchema, SchemaReader};
use super::{ReferenceBudget, SchemaFormat};

/// The largest schema that is sent. References can make a small schema huge.
pub(super) const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// The deepest nesting of schemas; deeper schemas allow any value.
const MAX_DEPTH: usize = 48;

/// Keywords of the OpenAPI subset that are copied unchanged. Code below handles the others.
const COPIED_KEYWORDS: [&str; 13] = [
    "title",
    "description",
    "nullable",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "propertyOrdering",
];

/// Keywords that inform people and do not change which values are valid.
const ANNOTATION_KEYWORDS: [&str; 10] = [
    "default",
    "example",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "externalDocs",
    "xml",
    "discriminator",
    "strict",
];

/// The formats of the OpenAPI subset. Models refuse others.
const STRING_FORMATS: [&str; 6] = ["date-time", "enum", "float", "double", "int32", "int64"];

pub(super) struct SchemaWriter<'t, 'a> {
    source: SchemaReader<'t, 'a>,
    kind: SchemaFormat,
    out: Vec<u8>,
}

/// The types of a schema.
#[derive(Default)]
struct SchemaTypes<'a> {
    names: Vec<Cow<'a, str>>,
    is_nullable: bool,
}

impl<'t, 'a> SchemaWriter<'t, 'a> {
    pub(super) fn new(tree: &'t Tree<'a>, kind: SchemaFormat, budget: &'t mut ReferenceBudget) -> Self {
        Self { source: SchemaReader::new(tree, budget), kind, out: Vec::new() }
    }

    /// Returns the schema's text, and whether it allows more values than the client's schema. None if it is too large.
    pub(super) fn finish(self) -> Option<(Vec<u8>, bool)> {
        let is_whole = self.out.len() <= MAX_SCHEMA_BYTES && !self.source.is_exhausted();
        is_whole.then_some((self.out, self.source.is_simplified))
    }

    /// Writes one schema. None if the result is too large.
    pub(super) fn schema(&mut self, schema: Node<'t, 'a>, depth: usize) -> Option<()> {
        if self.out.len() > MAX_SCHEMA_BYTES || self.source.is_exhausted() {
            return None;
        }
        if schema.kind() != Kind::Object || depth > MAX_DEPTH {
            // `true` allows every value. `false` allows none, which the formats cannot express.
            self.source.is_simplified |= schema.text() != "true";
            self.out.extend_from_slice(b"{}");
            return Some(());
        }
        let flat = FlatSchema::of(schema, &mut self.source);
        self.out.push(b'{');
        match self.kind {
            SchemaFormat::Json => self.json(&flat, depth)?,
            SchemaFormat::OpenApi => self.open_api(&flat, depth, false)?,
        }
        self.out.push(b'}');
        self.source.leave(&flat.references);
        Some(())
    }

    fn name(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        write_str(&mut self.out, name);
        self.out.push(b':');
    }

    fn copy(&mut self, name: &str, value: Node<'_, '_>) {
        self.name(name);
        self.out.extend_from_slice(value.text().as_bytes());
    }

    fn list(&mut self, name: &str, schemas: impl Iterator<Item = Node<'t, 'a>>, depth: usize) -> Option<()> {
        self.name(name);
        self.out.push(b'[');
        for (at, schema) in schemas.enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.schema(schema, depth + 1)?;
        }
        self.out.push(b']');
        Some(())
    }

    fn strings<'s>(&mut self, name: &str, strings: impl Iterator<Item = &'s str>) {
        self.name(name);
        self.out.push(b'[');
        for (at, string) in strings.enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write_str(&mut self.out, string);
        }
        self.out.push(b']');
    }

    /// Writes the properties, and `required` with the names that are properties: models refuse other names.
    fn properties(&mut self, flat: &FlatSchema<'t, 'a>, depth: usize) -> Option<()> {
        if !flat.is_object || flat.properties.is_empty() && self.kind == SchemaFormat::OpenApi {
            return Some(());
        }
        self.name("properties");
        self.out.push(b'{');
        for (name, value) in flat.properties.iter() {
            self.name(name);
            self.schema(value, depth + 1)?;
        }
        self.out.push(b'}');
        let required: Vec<&str> =
            flat.required.iter().map(|(name, ())| name).filter(|name| flat.properties.has(name)).collect();
        if !required.is_empty() {
            self.strings("required", required.into_iter());
        }
        Some(())
    }

    /// Writes a schema as JSON Schema. Nearly all keywords stay, because models ignore unknown ones.
    fn json(&mut self, flat: &FlatSchema<'t, 'a>, depth: usize) -> Option<()> {
        let has = |wanted: &str| flat.members.has(wanted);
        let types = SchemaTypes::of(flat);
        if flat.is_object && !has("type") {
            self.name("type");
            self.out.extend_from_slice(b"\"object\"");
        }
        for (name, value) in flat.members.iter() {
            match name {
                "anyOf" | "oneOf" => self.list(name, value.elements(), depth)?,
                "prefixItems" => self.list(name, value.elements(), depth)?,
                "items" | "additionalProperties" if value.kind() == Kind::Object => {
                    self.name(name);
                    self.schema(value, depth + 1)?;
                }
                "const" => self.enumeration(std::iter::once(value)),
                "enum" => self.enumeration(value.elements()),
                // Models ignore this keyword, but refuse an unresolvable reference inside it.
                _ if memmem::find(value.text().as_bytes(), b"\"$ref\"").is_some() => {
                    self.source.is_simplified = true;
                }
                _ => self.copy(name, value),
            }
        }
        if types.names.iter().any(|name| name == "array") && !has("items") && !has("prefixItems") {
            self.name("items");
            self.out.extend_from_slice(b"{}");
        }
        self.properties(flat, depth)
    }

    /// Writes `enum`. Models take strings and numbers as values; the type expresses null, and nothing expresses a
    /// boolean.
    fn enumeration(&mut self, values: impl Iterator<Item = Node<'t, 'a>>) {
        let (known, others): (Vec<Node<'t, 'a>>, Vec<Node<'t, 'a>>) =
            values.partition(|value| matches!(value.kind(), Kind::String | Kind::Integer | Kind::Decimal));
        self.source.is_simplified |= others.iter().any(|value| value.kind() != Kind::Null);
        if known.is_empty() {
            return;
        }
        self.name("enum");
        let texts: Vec<&str> = known.iter().map(|value| value.text()).collect();
        self.out.push(b'[');
        self.out.extend_from_slice(texts.join(",").as_bytes());
        self.out.push(b']');
    }

    /// Writes a schema in the OpenAPI subset. `is_nullable`: an `anyOf` around this schema also allows null.
    fn open_api(&mut self, flat: &FlatSchema<'t, 'a>, depth: usize, is_nullable: bool) -> Option<()> {
        let types = SchemaTypes::of(flat);
        let alternatives = flat.members.iter().find(|(name, _)| matches!(*name, "anyOf" | "oneOf"));
        let is_nullable = is_nullable || types.is_nullable;
        if let Some((_, alternatives)) = alternatives {
            return self.alternatives(flat, alternatives, depth, is_nullable);
        }
        match types.names.as_slice() {
            [] => {}
            [only] => {
                self.name("type");
                write_str(&mut self.out, only);
            }
            several => {
                self.name("anyOf");
                self.out.push(b'[');
                for (at, name) in several.iter().enumerate() {
                    self.out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
                    self.name("type");
                    write_str(&mut self.out, name);
                    if *name == "array" {
                        self.any_items();
                    }
                    self.out.push(b'}');
                }
                self.out.push(b']');
            }
        }
        for (name, value) in flat.members.iter() {
            self.keyword(name, value, &types, depth)?;
        }
        if types.names == ["array"] && !flat.members.has("items") {
            self.any_items();
        }
        self.properties(flat, depth)?;
        if flat.properties.len() > 1 && !flat.members.has("propertyOrdering") {
            self.strings("propertyOrdering", flat.properties.iter().map(|(name, _)| name));
        }
        if is_nullable && !flat.members.has("nullable") {
            self.name("nullable");
            self.out.extend_from_slice(b"true");
        }
        Some(())
    }

    /// Writes `items`, which an array must have. Strings can express the most values.
    fn any_items(&mut self) {
        self.name("items");
        self.out.extend_from_slice(br#"{"type":"string"}"#);
    }

    /// Writes one keyword of the subset, except `type`, `properties` and `required`.
    fn keyword(
        &mut self,
        name: &str,
        value: Node<'t, 'a>,
        types: &SchemaTypes<'_>,
        depth: usize,
    ) -> Option<()> {
        match name {
            "type" => {}
            "items" if value.kind() == Kind::Object => {
                self.name(name);
                self.schema(value, depth + 1)?;
            }
            "items" => self.any_items(),
            "const" | "enum" => {
                let values: Vec<Node<'t, 'a>> =
                    if name == "const" { vec![value] } else { value.elements().collect() };
                let strings = values.iter().filter(|value| value.kind() == Kind::String).count();
                let nulls = values.iter().filter(|value| value.kind() == Kind::Null).count();
                if strings > 0 && strings + nulls == values.len() && types.names == ["string"] {
                    self.enumeration(values.into_iter());
                } else {
                    self.source.is_simplified = true;
                }
            }
            "format" => {
                if value.string().is_some_and(|format| STRING_FORMATS.contains(&&*format)) {
                    self.copy(name, value);
                }
            }
            "additionalProperties" => self.source.is_simplified |= value.kind() == Kind::Object,
            _ if COPIED_KEYWORDS.contains(&name) => self.copy(name, value),
            _ => self.source.is_simplified |= !ANNOTATION_KEYWORDS.contains(&name) && !name.starts_with("x-"),
        }
        Some(())
    }

    /// Writes `anyOf`, which takes only a description beside it. A single alternative beside null becomes the schema
    /// itself.
    fn alternatives(
        &mut self,
        flat: &FlatSchema<'t, 'a>,
        alternatives: Node<'t, 'a>,
        depth: usize,
        is_nullable: bool,
    ) -> Option<()> {
        let (nulls, schemas): (Vec<Node<'t, 'a>>, Vec<Node<'t, 'a>>) =
            alternatives.elements().partition(is_null);
        let is_nullable = is_nullable || !nulls.is_empty();
        let own = |name: &str| matches!(name, "title" | "description");
        if let [only] = schemas.as_slice()
            && depth <= MAX_DEPTH
        {
            let mut inner = FlatSchema::of(*only, &mut self.source);
            for (name, value) in flat.members.entries().filter(|(name, _)| own(name)) {
                inner.members.remove(&name);
                inner.members.put(name, value);
            }
            let done = self.open_api(&inner, depth + 1, is_nullable);
            self.source.leave(&inner.references);
            return done;
        }
        for (name, value) in flat.members.iter().filter(|(name, _)| own(name)) {
            self.copy(name, value);
        }
        let lost = |name: &str| {
            !own(name) && !matches!(name, "anyOf" | "oneOf" | "type") && !ANNOTATION_KEYWORDS.contains(&name)
        };
        self.source.is_simplified |= flat.is_object || flat.members.iter().any(|(name, _)| lost(name));
        self.list("anyOf", schemas.into_iter(), depth)?;
        if is_nullable {
            self.name("nullable");
            self.out.extend_from_slice(b"true");
        }
        Some(())
    }
}

impl<'a> SchemaTypes<'a> {
    /// Returns the types of `type`, or those that other keywords imply.
    fn of(flat: &FlatSchema<'_, 'a>) -> Self {
        let find = |wanted: &str| flat.members.get(wanted);
        let mut types = Self::default();
        match find("type") {
            Some(value) if value.kind() == Kind::Array => {
                types.names = value.elements().filter_map(Node::string).collect();
            }
            Some(value) => types.names.extend(value.string()),
            None if flat.is_object => types.names.push(Cow::Borrowed("object")),
            None if find("items").is_some() => types.names.push(Cow::Borrowed("array")),
            None => {
                let first =
                    find("enum").and_then(|values| values.elements().next()).or_else(|| find("const"));
                if first.is_some_and(|value| value.kind() == Kind::String) {
                    types.names.push(Cow::Borrowed("string"));
                }
            }
        }
        let before = types.names.len();
        types.names.retain(|name| name != "null");
        types.is_nullable = types.names.len() != before && !types.names.is_empty();
        types
    }
}

fn is_null(schema: &Node<'_, '_>) -> bool {
    schema
        .members()
        .any(|(name, value)| name.text() == "\"type\"" && value.string().is_some_and(|name| name == "null"))
}
