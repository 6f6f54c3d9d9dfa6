//! Translates JSON Schema into the formats that Google's models take, in the client's order: models generate properties
//! in the order of the schema.
//!
//! Models from 2.5 take JSON Schema (`parametersJsonSchema`, `responseJsonSchema`) and ignore unknown keywords. Older
//! models take a subset of OpenAPI 3.0 and refuse everything else:
//! <https://ai.google.dev/gemini-api/docs/structured-output>, <https://ai.google.dev/api/caching#Schema>.
//!
//! For both formats, references are replaced by their targets (a recursive one twice, then by a schema that allows any
//! value), `allOf` is merged, and `const` becomes `enum`.

mod flat_schema;
mod writer;

use gw_wire::json::{self, Tree, View};
use serde_json::value::RawValue;

use self::flat_schema::{FlatSchema, SchemaReader};
use self::writer::SchemaWriter;

/// The format of a written schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaFormat {
    /// JSON Schema.
    Json,
    /// Google's subset of OpenAPI 3.0.
    OpenApi,
}

/// A translated schema.
#[derive(Debug)]
pub(super) struct TranslatedSchema {
    pub(super) schema: Box<RawValue>,
    /// The translated schema allows more values than the client's.
    pub(super) is_simplified: bool,
}

/// The work that the schemas of one request may still cause, in units of copying one byte.
///
/// Reading a schema once is bounded by its size. Only references cause values to be read again: a reference costs its
/// own length and the size of its target. All schemas of a request share one budget.
#[derive(Debug)]
pub(super) struct ReferenceBudget {
    left: usize,
}

/// The budget of every request, about a millisecond of work at most, because requests of other clients wait meanwhile.
const BASE_BUDGET: usize = 512 << 10;

/// The budget that each byte of a schema adds.
const BUDGET_PER_BYTE: usize = 16;

/// The most bytes of one schema that add to the budget. A result must not be larger, either.
const MAX_COUNTED_BYTES: usize = writer::MAX_SCHEMA_BYTES;

/// The fixed cost of following a reference.
const REFERENCE_COST: usize = 128;

/// The fixed cost of reading a value.
const VALUE_COST: usize = 48;

impl Default for ReferenceBudget {
    fn default() -> Self {
        Self { left: BASE_BUDGET }
    }
}

impl ReferenceBudget {
    fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    fn grow(&mut self, text: &str) {
        self.left =
            self.left.saturating_add(text.len().min(MAX_COUNTED_BYTES).saturating_mul(BUDGET_PER_BYTE));
    }

    fn charge(&mut self, cost: usize) {
        self.left = self.left.saturating_sub(cost);
    }

    /// Charges a reference of this length. It is hashed three times and copied once.
    fn charge_reference(&mut self, bytes: usize) {
        self.charge(REFERENCE_COST.saturating_add(bytes.saturating_mul(4)));
    }

    /// Charges a number of values with this length in total.
    fn charge_values(&mut self, values: usize, bytes: usize) {
        self.charge(values.saturating_mul(VALUE_COST).saturating_add(bytes));
    }
}

/// A schema is too large once its references are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SchemaTooLarge;

/// Translates a schema.
pub(super) fn translate(
    schema: View<'_>,
    kind: SchemaFormat,
    budget: &mut ReferenceBudget,
) -> Result<TranslatedSchema, SchemaTooLarge> {
    let tree = Tree::new(schema);
    budget.grow(schema.text());
    translate_tree(&tree, kind, budget).ok_or(SchemaTooLarge)
}

/// Translates the parameters of a function; None if they have no properties.
pub(super) fn translate_parameters(
    schema: View<'_>,
    kind: SchemaFormat,
    budget: &mut ReferenceBudget,
) -> Result<Option<TranslatedSchema>, SchemaTooLarge> {
    let tree = Tree::new(schema);
    budget.grow(schema.text());
    if !has_properties(&tree, kind, budget) && !budget.is_exhausted() {
        return Ok(None);
    }
    translate_tree(&tree, kind, budget).ok_or(SchemaTooLarge).map(Some)
}

fn translate_tree(
    tree: &Tree<'_>,
    kind: SchemaFormat,
    budget: &mut ReferenceBudget,
) -> Option<TranslatedSchema> {
    let mut writer = SchemaWriter::new(tree, kind, budget);
    writer.schema(tree.root(), 0)?;
    let (text, is_simplified) = writer.finish()?;
    let schema = serde_json::from_slice(&text).ok()?;
    Some(TranslatedSchema { schema, is_simplified })
}

/// Whether objects of this schema have properties.
fn has_properties(tree: &Tree<'_>, kind: SchemaFormat, budget: &mut ReferenceBudget) -> bool {
    let flat = FlatSchema::of(tree.root(), &mut SchemaReader::new(tree, budget));
    let is_map =
        || flat.members.get("additionalProperties").is_some_and(|value| value.kind() == json::Kind::Object);
    !flat.properties.is_empty()
        || flat.members.has("anyOf")
        || flat.members.has("oneOf")
        || kind == SchemaFormat::Json && is_map()
}

#[cfg(test)]
mod tests;
