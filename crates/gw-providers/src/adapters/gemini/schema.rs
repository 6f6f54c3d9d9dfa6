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

use std::borrow::Cow;

use gw_wire::json::{self, View};
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

/// Writes a schema; None when it outgrows all bounds once its references are resolved.
pub(super) fn write(schema: View<'_>, kind: Kind) -> Option<Written> {
    let mut writer = Writer::new(schema, kind);
    writer.schema(schema, 0)?;
    let (text, is_simplified) = writer.finish()?;
    let schema = serde_json::from_slice(&text).ok()?;
    Some(Written { schema, is_simplified })
}

/// Whether an object of this schema has any property.
pub(super) fn has_properties(schema: View<'_>, kind: Kind) -> bool {
    let flat = Flat::of(schema, &mut Source::new(schema), &[]);
    let tells = |(name, value): &(Cow<'_, str>, View<'_>)| match &**name {
        "anyOf" | "oneOf" => true,
        "additionalProperties" => kind == Kind::Json && value.kind() == json::Kind::Object,
        _ => false,
    };
    !flat.properties.is_empty() || flat.members.iter().any(tells)
}

#[cfg(test)]
mod tests;
