//! JSON Schema in the words that Google's models take, read and written in the client's order (the order of properties
//! is the order in which they are generated).
//!
//! Models from 2.5 take JSON Schema (`parametersJsonSchema`, `responseJsonSchema`) and ignore keywords they do not know;
//! older ones take a subset of OpenAPI 3.0's and refuse everything else:
//! <https://ai.google.dev/gemini-api/docs/structured-output>, <https://ai.google.dev/api/caching#Schema>.
//!
//! For both, references are put in place (a recursive one twice, then it ends in any value), `allOf` is merged and `const`
//! becomes `enum`.

mod flat;
mod write;

use gw_wire::json::{self, Tree, View};
use serde_json::value::RawValue;

use self::flat::{Flat, Source};
use self::write::Writer;

/// Which words are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// JSON Schema.
    Json,
    /// The subset of OpenAPI's.
    OpenApi,
}

/// A schema as it is sent.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) schema: Box<RawValue>,
    /// It allows more than the client's.
    pub(super) is_simplified: bool,
}

/// What the schemas of one request may still cost. References that are put in place can make a small schema a lot of
/// work, so all schemas of a request share one budget, which grows with what the client sent.
#[derive(Debug)]
pub(super) struct Budget {
    /// Nodes that are looked at.
    nodes: usize,
    /// Bytes that are copied.
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: 100_000, bytes: 4 << 20 }
    }
}

impl Budget {
    fn is_exhausted(&self) -> bool {
        self.nodes == 0 || self.bytes == 0
    }

    /// Each node of a schema as it was sent is looked at a few times, and each byte is copied once or twice.
    fn grow(&mut self, tree: &Tree<'_>, text: &str) {
        self.nodes = self.nodes.saturating_add(tree.len().saturating_mul(8));
        self.bytes = self.bytes.saturating_add(text.len().saturating_mul(4));
    }
}

/// A schema outgrows all bounds once its references are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Writes a schema.
pub(super) fn write(schema: View<'_>, kind: Kind, budget: &mut Budget) -> Result<Written, TooLarge> {
    let tree = Tree::new(schema);
    budget.grow(&tree, schema.text());
    written(&tree, kind, budget).ok_or(TooLarge)
}

/// Writes the parameters of a function; None when they have no property.
pub(super) fn write_parameters(
    schema: View<'_>,
    kind: Kind,
    budget: &mut Budget,
) -> Result<Option<Written>, TooLarge> {
    let tree = Tree::new(schema);
    budget.grow(&tree, schema.text());
    if !has_properties(&tree, kind, budget) && !budget.is_exhausted() {
        return Ok(None);
    }
    written(&tree, kind, budget).ok_or(TooLarge).map(Some)
}

fn written(tree: &Tree<'_>, kind: Kind, budget: &mut Budget) -> Option<Written> {
    let mut writer = Writer::new(tree, kind, budget);
    writer.schema(tree.root(), 0)?;
    let (text, is_simplified) = writer.finish()?;
    let schema = serde_json::from_slice(&text).ok()?;
    Some(Written { schema, is_simplified })
}

/// Whether an object of this schema has any property.
fn has_properties(tree: &Tree<'_>, kind: Kind, budget: &mut Budget) -> bool {
    let flat = Flat::of(tree.root(), &mut Source::new(tree, budget));
    let is_map =
        || flat.members.get("additionalProperties").is_some_and(|value| value.kind() == json::Kind::Object);
    !flat.properties.is_empty()
        || flat.members.has("anyOf")
        || flat.members.has("oneOf")
        || kind == Kind::Json && is_map()
}

#[cfg(test)]
mod tests;
