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

/// What the references in the schemas of one request may still cost, in units of what it takes to copy a byte.
///
/// A schema as it was sent is read once, so that its cost is bounded by its text. Only a reference has something read
/// again: following it costs its own length and all that it leads to. All schemas of a request share one budget.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

/// What a request has for its references, however small it is: about a millisecond's work at the most, because a small
/// request is translated between two others.
const FIXED: usize = 512 << 10;

/// What each byte of a schema adds.
const PER_BYTE: usize = 16;

/// No more bytes of one schema count: a result must not be larger, either.
const MOST_COUNTED: usize = write::MOST_BYTES;

/// What it costs to follow a reference, beside what depends on its length and on where it leads.
const FOLLOWED: usize = 128;

/// What it costs to read a value, beside its bytes.
const PER_VALUE: usize = 48;

impl Default for Budget {
    fn default() -> Self {
        Self { left: FIXED }
    }
}

impl Budget {
    fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    fn grow(&mut self, text: &str) {
        self.left = self.left.saturating_add(text.len().min(MOST_COUNTED).saturating_mul(PER_BYTE));
    }

    fn charge(&mut self, cost: usize) {
        self.left = self.left.saturating_sub(cost);
    }

    /// Charges a reference of so many bytes. It is hashed three times and copied once.
    fn charge_reference(&mut self, bytes: usize) {
        self.charge(FOLLOWED.saturating_add(bytes.saturating_mul(4)));
    }

    /// Charges values of so many bytes together.
    fn charge_values(&mut self, values: usize, bytes: usize) {
        self.charge(values.saturating_mul(PER_VALUE).saturating_add(bytes));
    }
}

/// A schema outgrows all bounds once its references are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Writes a schema.
pub(super) fn write(schema: View<'_>, kind: Kind, budget: &mut Budget) -> Result<Written, TooLarge> {
    let tree = Tree::new(schema);
    budget.grow(schema.text());
    written(&tree, kind, budget).ok_or(TooLarge)
}

/// Writes the parameters of a function; None when they have no property.
pub(super) fn write_parameters(
    schema: View<'_>,
    kind: Kind,
    budget: &mut Budget,
) -> Result<Option<Written>, TooLarge> {
    let tree = Tree::new(schema);
    budget.grow(schema.text());
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
