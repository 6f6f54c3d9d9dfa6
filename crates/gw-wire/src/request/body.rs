//! Reads the members of a request body: the checks that hold for every endpoint.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::fields::clip;
use super::folding::{Folded, folded, without_underscores};
use super::invalid::Invalid;
use super::limits::{RequestLimits, body_too_large};
use crate::json::{Extent, Kind, MAX_DEPTH, ScanError, View, check_members};
use crate::names::{NameIndex, duplicate, position};
use crate::utf8;

/// Other gateways' names for `routing.fallback`: OpenRouter's and LiteLLM's, and the one of agents' settings.
pub(super) const TOP_LEVEL_FALLBACKS: [&str; 3] = ["models", "fallbacks", "fallback_model"];

/// A member's name and the range of its value in the body. The name is borrowed if it is a known one.
pub(crate) type Member = (Cow<'static, str>, Range<usize>);

/// A set of names that may hold more than was put in, and never less: one bit for some names each. A request is asked for
/// every member that it may have, and most of them are absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameSet(u64);

impl NameSet {
    fn of(members: &[Member]) -> Self {
        Self(members.iter().fold(0, |bits, (name, _)| bits | Self::bit(name)))
    }

    /// The names of these members.
    pub(super) const fn of_kinds(mut kinds: &[(&str, Kind)]) -> Self {
        let mut bits = 0;
        while let [(name, _), rest @ ..] = kinds {
            bits |= Self::bit(name);
            kinds = rest;
        }
        Self(bits)
    }

    /// Inlined, so that the bit of a literal is a constant.
    #[inline(always)]
    const fn bit(name: &str) -> u64 {
        let (first, last) = match name.as_bytes() {
            [first, .., last] => (*first, *last),
            [only] => (*only, *only),
            [] => (0, 0),
        };
        let hash = (first as u32).wrapping_mul(183)
            ^ (last as u32).wrapping_mul(34)
            ^ (name.len() as u32).wrapping_mul(134);
        1 << (hash & 63)
    }

    #[inline(always)]
    fn may_hold(self, name: &str) -> bool {
        self.0 & Self::bit(name) != 0
    }
}

/// The top-level members of a request body, as ranges into the received bytes. Names are unescaped and unique.
#[derive(Clone, Debug)]
pub struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) members: Vec<Member>,
    /// Finds members by name; only in bodies with many members.
    index: Option<NameIndex>,
    names: NameSet,
}

/// Every member that has a meaning on any endpoint, at the place of its length: few names have one length, so a name is
/// found with few comparisons.
static KNOWN: [&[&str]; 23] = [
    &[],
    &["n"],
    &[],
    &[],
    &["echo", "seed", "stop", "user"],
    &["audio", "cache", "input", "model", "store", "tools", "top_p"],
    &["models", "prompt", "stream", "suffix"],
    &["best_of", "routing"],
    &["logprobs", "messages", "metadata"],
    &["fallbacks", "functions", "verbosity"],
    &["dimensions", "logit_bias", "max_tokens", "modalities", "moderation", "prediction"],
    &["temperature", "tool_choice"],
    &["service_tier", "top_logprobs"],
    &["function_call"],
    &["fallback_model", "stream_options"],
    &["encoding_format", "response_format"],
    &["presence_penalty", "prompt_cache_key", "reasoning_effort"],
    &["frequency_penalty", "safety_identifier"],
    &["web_search_options"],
    &["parallel_tool_calls"],
    &["prompt_cache_options"],
    &["max_completion_tokens"],
    &["prompt_cache_retention"],
];

/// Every member that has a meaning on any endpoint.
pub fn known_names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().flat_map(|names| names.iter().copied())
}

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
        let ParsedBody { members, index, names, .. } = ParsedBody::read(&bytes, limits)?;
        Ok(Self { bytes, members, index, names })
    }

    /// The bytes of the body.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A copy whose bytes keep no larger buffer in memory. A received body may be a part of one.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { bytes: Bytes::copy_from_slice(&self.bytes), ..self.clone() }
    }

    /// The JSON text of a top-level member; None for `null`, which counts as absent.
    #[must_use]
    #[inline]
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
    #[inline]
    pub fn view(&self, name: &str) -> Option<View<'_>> {
        self.get(name).map(View::new)
    }

    /// The range of a member's value.
    #[inline]
    pub(super) fn range(&self, name: &str) -> Option<&Range<usize>> {
        if self.names.may_hold(name) { self.find(name) } else { None }
    }

    fn find(&self, name: &str) -> Option<&Range<usize>> {
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
    Ok(members.into_iter().map(|(name, range)| (name.into(), view(range))).collect())
}

/// The members of a body with its text, so that lookups need not check the UTF-8 again.
pub(super) struct ParsedBody<'a> {
    pub(super) text: &'a str,
    pub(super) members: Vec<Member>,
    index: Option<NameIndex>,
    names: NameSet,
    /// Upper bound of the size of all members that hold JSON Schemas.
    pub(super) schemas: Extent,
}

impl<'a> ParsedBody<'a> {
    pub(super) fn read(bytes: &'a Bytes, limits: &RequestLimits) -> Result<Self, Invalid> {
        let text = text_of(bytes)?;
        let mut schemas = Extent::default();
        let (mut members, mut index) = split_all(text, limits, |name, extent| {
            // The members that hold JSON Schemas.
            if matches!(name, "tools" | "functions" | "response_format") {
                schemas.values = schemas.values.saturating_add(extent.values);
                schemas.depth = schemas.depth.max(extent.depth);
            }
        })?;
        let count = members.len();
        members.retain(|(name, range)| text.get(range.clone()) != Some("null") && !shadows_known(name));
        if members.len() < count {
            index = NameIndex::of(members.iter().map(|(name, _)| &**name));
        }
        let names = NameSet::of(&members);
        Ok(Self { text, members, index, names, schemas })
    }

    #[inline(always)]
    pub(super) fn get(&self, name: &str) -> Option<View<'a>> {
        if self.names.may_hold(name) { self.find(name) } else { None }
    }

    /// False: the body has none of these members.
    pub(super) fn may_hold_any(&self, names: NameSet) -> bool {
        self.names.0 & names.0 != 0
    }

    fn find(&self, name: &str) -> Option<View<'a>> {
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
        OwnedMembers { names: NameSet::of(&members), members, index }
    }

    /// The offset of `part`, a slice of the body's text.
    pub(super) fn offset(&self, part: &str) -> usize {
        offset(self.text, part)
    }

    /// All members, without the borrowed text.
    pub(super) fn into_members(self) -> OwnedMembers {
        OwnedMembers { members: self.members, index: self.index, names: self.names }
    }
}

/// The members of a body without its text.
pub(super) struct OwnedMembers {
    members: Vec<Member>,
    index: Option<NameIndex>,
    names: NameSet,
}

impl OwnedMembers {
    /// The body that these members were read from.
    pub(super) fn into_body(self, bytes: Bytes) -> Body {
        Body { bytes, members: self.members, index: self.index, names: self.names }
    }
}

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
    utf8::text(bytes).map_err(|error| {
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
        let name = known(&name).map_or_else(|| Cow::Owned(name.into_owned()), Cow::Borrowed);
        members.push((name, range));
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

/// The known member of this name: one that has a meaning on any endpoint.
pub(super) fn known(name: &str) -> Option<&'static str> {
    KNOWN.get(name.len())?.iter().copied().find(|known| *known == name)
}

/// Whether a lenient reader takes this name for a known one: without regard to case, `_` and `-`.
pub(super) fn resembles_known(name: &str) -> bool {
    let mut buffer = Folded::default();
    folded(name, &mut buffer)
        .is_some_and(|name| known_names().any(|known| without_underscores(known).eq(name.bytes())))
}

/// Whether a reader that ignores case takes this name for a known one, although it is none.
#[expect(clippy::ptr_arg, reason = "a known name is a borrowed one")]
fn shadows_known(name: &Cow<'static, str>) -> bool {
    // A known name is borrowed.
    let Cow::Owned(name) = name else { return false };
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
        known(&folded).is_some()
    }
}

#[cfg(test)]
mod tests;
