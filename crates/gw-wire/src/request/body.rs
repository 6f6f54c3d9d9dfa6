//! Reads the members of a request body: the checks that hold for every endpoint.

use std::ops::Range;

use bytes::Bytes;

use super::fields::clip;
use super::folding::{Folded, folded, without_underscores};
use super::invalid::Invalid;
use super::limits::{RequestLimits, body_too_large};
use crate::json::{Extent, Kind, MAX_DEPTH, ScanError, View, check_members};
use crate::names::{NameIndex, duplicate, position};

/// Other gateways' names for `routing.fallback`: OpenRouter's and LiteLLM's, and the one of agents' settings.
pub(super) const TOP_LEVEL_FALLBACKS: [&str; 3] = ["models", "fallbacks", "fallback_model"];

/// A member's name and the range of its value in the body.
pub(crate) type Member = (Box<str>, Range<usize>);

/// The top-level members of a request body, as ranges into the received bytes. Names are unescaped and unique.
#[derive(Clone, Debug)]
pub struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) members: Vec<Member>,
    /// Finds members by name; only in bodies with many members.
    index: Option<NameIndex>,
}

/// Every member that has a meaning on any endpoint. Sorted.
pub(super) const KNOWN: [&str; 49] = [
    "audio",
    "best_of",
    "cache",
    "dimensions",
    "echo",
    "encoding_format",
    "fallback_model",
    "fallbacks",
    "frequency_penalty",
    "function_call",
    "functions",
    "input",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "models",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "routing",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "suffix",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

impl Body {
    /// Reads the members of a request body.
    ///
    /// The body must be one JSON object of at most 128 levels with unique member names, and every string in it must be
    /// Unicode. `null` members are dropped, and so are members whose name differs from a known one only in case: an
    /// upstream that ignores case would read them instead of the validated ones.
    ///
    /// # Errors
    /// `invalid_json`, or `invalid_value` for a body beyond the limits.
    pub fn parse(bytes: Bytes, limits: &RequestLimits) -> Result<Self, Invalid> {
        let ParsedBody { members, index, .. } = ParsedBody::read(&bytes, limits)?;
        Ok(Self { bytes, members, index })
    }

    /// The JSON text of a top-level member; None for `null`, which counts as absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.range(name).map(|range| self.text(range))
    }

    /// All non-null members in their order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|(name, range)| (&**name, self.text(range)))
    }

    /// The text of a range of the body.
    #[must_use]
    pub fn text(&self, range: &Range<usize>) -> &str {
        self.bytes.get(range.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("null")
    }

    /// A top-level member as a view.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<View<'_>> {
        self.get(name).map(View::new)
    }

    /// The range of a member's value.
    pub(super) fn range(&self, name: &str) -> Option<&Range<usize>> {
        find(&self.members, self.index.as_ref(), name)
    }

    /// The bytes of a range of the body.
    pub(super) fn raw(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or(b"null")
    }
}

/// Every member of a body that must be one JSON object, in order, including `null` and unknown ones: for endpoints that
/// refuse unknown members.
///
/// # Errors
/// `invalid_json`.
pub fn parse_members(bytes: &[u8]) -> Result<Vec<(Box<str>, View<'_>)>, Invalid> {
    let text = text_of(bytes)?;
    let view = |range: Range<usize>| View::exact(text.get(range).unwrap_or("null"));
    let (members, _) = split_all(text, &RequestLimits::default(), |_, _| {})?;
    Ok(members.into_iter().map(|(name, range)| (name, view(range))).collect())
}

/// The members of a body with its text, so that lookups need not check the UTF-8 again.
pub(super) struct ParsedBody<'a> {
    pub(super) text: &'a str,
    pub(super) members: Vec<Member>,
    index: Option<NameIndex>,
    /// Upper bound of the size of all members that hold JSON Schemas.
    pub(super) schemas: Extent,
}

impl<'a> ParsedBody<'a> {
    pub(super) fn read(bytes: &'a Bytes, limits: &RequestLimits) -> Result<Self, Invalid> {
        let text = text_of(bytes)?;
        let mut schemas = Extent::default();
        let (mut members, mut index) = split_all(text, limits, |name, extent| {
            if SCHEMAS.contains(&name) {
                schemas.values = schemas.values.saturating_add(extent.values);
                schemas.depth = schemas.depth.max(extent.depth);
            }
        })?;
        let count = members.len();
        members.retain(|(name, range)| text.get(range.clone()) != Some("null") && !shadows_known(name));
        if members.len() < count {
            index = NameIndex::of(members.iter().map(|(name, _)| &**name));
        }
        Ok(Self { text, members, index, schemas })
    }

    pub(super) fn get(&self, name: &str) -> Option<View<'a>> {
        let range = find(&self.members, self.index.as_ref(), name)?;
        self.text.get(range.clone()).map(View::exact)
    }

    /// The members of a request whose models this gateway resolves, with their index. The lists of fallbacks are removed,
    /// because no upstream may see them, and `models` becomes `model` if there is no `model`.
    pub(super) fn without_fallbacks(self) -> OwnedMembers {
        let is_list = |name: &str| TOP_LEVEL_FALLBACKS.contains(&name);
        if TOP_LEVEL_FALLBACKS.iter().all(|name| self.get(name).is_none()) {
            return self.into_members();
        }
        let first = match (self.get("model"), self.get("models")) {
            (None, Some(models)) => models.elements().next(),
            _ => None,
        };
        let first = first.map(|name| {
            let start = offset(self.text, name.text());
            start..start + name.text().len()
        });
        let mut members = self.members;
        if let Some(range) = first
            && let Some(member) = members.iter_mut().find(|(name, _)| **name == *"models")
        {
            *member = ("model".into(), range);
        }
        members.retain(|(name, _)| !is_list(name));
        let index = NameIndex::of(members.iter().map(|(name, _)| &**name));
        OwnedMembers { members, index }
    }

    /// The offset of `part`, a slice of the body's text.
    pub(super) fn offset(&self, part: &str) -> usize {
        offset(self.text, part)
    }

    /// All members, without the borrowed text.
    pub(super) fn into_members(self) -> OwnedMembers {
        OwnedMembers { members: self.members, index: self.index }
    }
}

/// The members of a body without its text.
pub(super) struct OwnedMembers {
    members: Vec<Member>,
    index: Option<NameIndex>,
}

impl OwnedMembers {
    /// The body that these members were read from.
    pub(super) fn into_body(self, bytes: Bytes) -> Body {
        Body { bytes, members: self.members, index: self.index }
    }
}

/// The members that hold JSON Schemas.
const SCHEMAS: [&str; 3] = ["tools", "functions", "response_format"];

/// The range of the value of this member.
fn find<'m>(members: &'m [Member], index: Option<&NameIndex>, name: &str) -> Option<&'m Range<usize>> {
    // Most bodies have few members, and this is called for every member that a request may have.
    if index.is_none() {
        return members.iter().find(|(known, _)| **known == *name).map(|(_, range)| range);
    }
    let at = position(index, members.len(), name, |at| members.get(at).map(|(name, _)| &**name))?;
    members.get(at).map(|(_, range)| range)
}

fn invalid(message: String) -> Invalid {
    Invalid { code: "invalid_json", message }
}

fn text_of(bytes: &[u8]) -> Result<&str, Invalid> {
    std::str::from_utf8(bytes).map_err(|error| {
        invalid(format!(
            "The request body is not UTF-8: byte {} is not part of a character.",
            error.valid_up_to()
        ))
    })
}

/// All members; `each` gets the name and the size of each one.
fn split_all(
    text: &str,
    limits: &RequestLimits,
    mut each: impl FnMut(&str, Extent),
) -> Result<(Vec<Member>, Option<NameIndex>), Invalid> {
    if text.starts_with('\u{feff}') {
        return Err(invalid(
            "The request body begins with a byte order mark, which JSON does not have.".to_owned(),
        ));
    }
    let (checked, found) = check_members(text, limits.bounds()).map_err(|error| match error {
        ScanError::TooManyMembers(_) => body_too_large("members", limits.max_members, "max_members"),
        ScanError::TooManyValues(_) => body_too_large("JSON values", limits.max_values, "max_values"),
        ScanError::TooDeep(at) => {
            invalid(format!("The request body is nested deeper than {MAX_DEPTH} levels, at byte {at}."))
        }
        ScanError::Syntax(at) if at >= text.len() => {
            invalid("The request body is not valid JSON: it ends too early.".to_owned())
        }
        ScanError::Syntax(at) => {
            invalid(format!("The request body is not valid JSON: unexpected byte at offset {at}."))
        }
    })?;
    if View::new(text).kind() != Kind::Object {
        return Err(invalid("The request body must be a JSON object.".to_owned()));
    }
    let mut members = Vec::with_capacity(found.len());
    for member in found {
        let Some(name) = member.name.string() else {
            return Err(invalid(
                "A member name of the request body holds half of a surrogate pair.".to_owned(),
            ));
        };
        let value = member.value.text();
        let start = offset(text, value);
        let range = start..start + value.len();
        if checked.lone_surrogate.is_some_and(|at| range.contains(&at)) {
            return Err(invalid(format!(
                "Invalid '{}': a string in it holds half of a surrogate pair, which is not Unicode.",
                clip(&name)
            )));
        }
        each(&name, member.extent);
        members.push((Box::from(name), range));
    }
    let index = NameIndex::of(members.iter().map(|(name, _)| &**name));
    if let Some((name, _)) = duplicate(index.as_ref(), members.len(), |at| Some(&*members.get(at)?.0))
        .and_then(|at| members.get(at))
    {
        return Err(invalid(format!("Invalid '{}': the member is given more than once.", clip(name))));
    }
    Ok((members, index))
}

/// The offset of `part`, a slice of `text`.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// Whether a member of this name has a meaning on any endpoint.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.binary_search(&name).is_ok()
}

/// Whether a lenient reader takes this name for a known one: without regard to case, `_` and `-`.
pub(super) fn resembles_known(name: &str) -> bool {
    let mut buffer = Folded::default();
    folded(name, &mut buffer)
        .is_some_and(|name| KNOWN.iter().any(|known| without_underscores(known).eq(name.bytes())))
}

/// Whether a reader that ignores case takes this name for a known one.
fn shadows_known(name: &str) -> bool {
    // Two characters outside ASCII fold to ASCII letters, and Go's JSON reader folds them.
    let folded = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    let differs = name.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii());
    let max_bytes = '\u{212a}'.len_utf8() * "prompt_cache_retention".len();
    differs && name.len() <= max_bytes && {
        let folded: String = name.chars().map(folded).collect();
        KNOWN.binary_search(&&*folded).is_ok()
    }
}

#[cfg(test)]
mod tests;
