//! From the bytes of a request to its members: the checks that hold for every endpoint.

use std::ops::Range;

use bytes::Bytes;

use super::fields::clip;
use super::limits::body_too_large;
use super::member_policy::{Folded, folded, without_joints};
use super::options::TOP_LEVEL_FALLBACKS;
use super::{Body, Invalid, Member, RequestLimits};
use crate::json::{Extent, Fault, Kind, MAX_DEPTH, View, check_members};
use crate::names::{NameIndex, place, repeated};

/// Every member the gateway gives a meaning to, on any endpoint. Sorted.
const KNOWN: [&str; 48] = [
    "audio",
    "best_of",
    "cache",
    "dimensions",
    "echo",
    "encoding_format",
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
    /// What is accepted is one JSON object of at most 128 levels, its member names unique, every string in it Unicode.
    /// `null` members are dropped, and so are members whose name is one of ours but for its case: an upstream that
    /// ignores case would read them in place of what we validated.
    ///
    /// # Errors
    /// `invalid_json`; `invalid_value` for a body beyond the limits.
    pub fn parse(bytes: Bytes, limits: &RequestLimits) -> Result<Self, Invalid> {
        let Members { members, index, .. } = Members::read(&bytes, limits)?;
        Ok(Self { bytes, members, index })
    }

    /// The member as a value to walk through.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<View<'_>> {
        self.get(name).map(View::new)
    }

    /// Where a member's value stands.
    pub(super) fn range(&self, name: &str) -> Option<&Range<usize>> {
        find(&self.members, self.index.as_ref(), name)
    }

    /// The bytes at a range of the body.
    pub(super) fn raw(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or(b"null")
    }
}

/// Every member of a body that must be one JSON object, in order, `null` and unknown names too: for an endpoint that
/// refuses what it does not know.
///
/// # Errors
/// `invalid_json`.
pub fn strict(bytes: &[u8]) -> Result<Vec<(Box<str>, View<'_>)>, Invalid> {
    let text = text_of(bytes)?;
    let view = |range: Range<usize>| View::exact(text.get(range).unwrap_or("null"));
    let (members, _) = split_all(text, &RequestLimits::default(), |_, _| {})?;
    Ok(members.into_iter().map(|(name, range)| (name, view(range))).collect())
}

/// The members of a body while its text is at hand, to look them up without checking the text's UTF-8 again.
pub(super) struct Members<'a> {
    pub(super) text: &'a str,
    pub(super) members: Vec<Member>,
    index: Option<NameIndex>,
    /// How much the members that hold JSON Schemas hold at most.
    pub(super) schemas: Extent,
}

impl<'a> Members<'a> {
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

    /// The members of a request whose models are resolved here, and how they are found: without the lists of fallbacks, which no
    /// upstream may see, and with a `model` where only `models` named it.
    pub(super) fn without_fallbacks(self) -> (Vec<Member>, Option<NameIndex>) {
        let is_list = |name: &str| TOP_LEVEL_FALLBACKS.contains(&name);
        if TOP_LEVEL_FALLBACKS.iter().all(|name| self.get(name).is_none()) {
            return self.into_parts();
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
        (members, index)
    }

    /// Where `part`, a slice of the body's text, begins in it.
    pub(super) fn offset(&self, part: &str) -> usize {
        offset(self.text, part)
    }

    /// The members and how they are found, once they have all been read.
    pub(super) fn into_parts(self) -> (Vec<Member>, Option<NameIndex>) {
        (self.members, self.index)
    }
}

/// The members that hold JSON Schemas.
const SCHEMAS: [&str; 3] = ["tools", "functions", "response_format"];

/// Where the value of this name stands.
fn find<'m>(members: &'m [Member], index: Option<&NameIndex>, name: &str) -> Option<&'m Range<usize>> {
    // Few members are the usual case, and this is asked for every name that a request may have.
    if index.is_none() {
        return members.iter().find(|(known, _)| **known == *name).map(|(_, range)| range);
    }
    let at = place(index, members.len(), name, |at| members.get(at).map(|(name, _)| &**name))?;
    members.get(at).map(|(_, range)| range)
}

fn invalid(message: String) -> Invalid {
    Invalid { code: "invalid_json", message }
}

fn text_of(bytes: &[u8]) -> Result<&str, Invalid> {
    std::str::from_utf8(bytes).map_err(|error| {
        invalid(format!(
            "The request body is not UTF-8: byte {} is no part of a character.",
            error.valid_up_to()
        ))
    })
}

/// All members; `each` is told how much each one holds.
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
    let (checked, found) = check_members(text, limits.bounds()).map_err(|fault| match fault {
        Fault::TooManyMembers(_) => body_too_large("members", limits.max_members, "max_members"),
        Fault::TooManyValues(_) => body_too_large("JSON values", limits.max_values, "max_values"),
        Fault::TooDeep(at) => {
            invalid(format!("The request body is nested deeper than {MAX_DEPTH} levels, at byte {at}."))
        }
        Fault::Syntax(at) if at >= text.len() => {
            invalid("The request body is not valid JSON: it ends too early.".to_owned())
        }
        Fault::Syntax(at) => {
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
    if let Some((name, _)) = repeated(index.as_ref(), members.len(), |at| Some(&*members.get(at)?.0))
        .and_then(|at| members.get(at))
    {
        return Err(invalid(format!("Invalid '{}': the member is given more than once.", clip(name))));
    }
    Ok((members, index))
}

/// Where `part`, a slice of `text`, begins in it.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// Whether the gateway gives the member of this name a meaning, on any endpoint.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.binary_search(&name).is_ok()
}

/// Whether a lenient reader takes this name for one of ours: without regard to case, `_` and `-`.
pub(super) fn resembles_known(name: &str) -> bool {
    let mut buffer = Folded::default();
    folded(name, &mut buffer)
        .is_some_and(|name| KNOWN.iter().any(|known| without_joints(known).eq(name.bytes())))
}

/// Whether a reader that ignores case takes this name for one of ours.
fn shadows_known(name: &str) -> bool {
    // Two characters outside ASCII fold to ASCII letters; Go's JSON reader knows them.
    let folded = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    let differs = name.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii());
    let longest = '\u{212a}'.len_utf8() * "prompt_cache_retention".len();
    differs && name.len() <= longest && {
        let folded: String = name.chars().map(folded).collect();
        KNOWN.binary_search(&&*folded).is_ok()
    }
}

#[cfg(test)]
mod tests;
