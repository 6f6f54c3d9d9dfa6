//! From the bytes of a request to its members: the checks that hold for every endpoint.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;

use super::fields::clip;
use super::{Body, Invalid, Member};
use crate::json::{Fault, Kind, MAX_DEPTH, View, check_members};

/// Every member the gateway gives a meaning to, on any endpoint. Sorted.
const KNOWN: [&str; 46] = [
    "audio",
    "best_of",
    "cache",
    "dimensions",
    "echo",
    "encoding_format",
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
    /// `invalid_json`.
    pub fn parse(bytes: Bytes) -> Result<Self, Invalid> {
        let members = split(text_of(&bytes)?)?;
        Ok(Self { bytes, members })
    }

    /// The member as a value to walk through.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<View<'_>> {
        self.get(name).map(View::new)
    }

    /// Where a member's value stands.
    pub(super) fn range(&self, name: &str) -> Option<&Range<usize>> {
        self.members.iter().find(|(known, _)| &**known == name).map(|(_, range)| range)
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
    Ok(split_all(text)?.into_iter().map(|(name, range)| (name, view(range))).collect())
}

/// The members of a body while its text is at hand, to look them up without checking the text's UTF-8 again.
pub(super) struct Members<'a> {
    pub(super) text: &'a str,
    pub(super) members: Vec<Member>,
}

impl<'a> Members<'a> {
    pub(super) fn read(bytes: &'a Bytes) -> Result<Self, Invalid> {
        let text = text_of(bytes)?;
        Ok(Self { text, members: split(text)? })
    }

    pub(super) fn get(&self, name: &str) -> Option<View<'a>> {
        let (_, range) = self.members.iter().find(|(known, _)| &**known == name)?;
        self.text.get(range.clone()).map(View::exact)
    }
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

fn split(text: &str) -> Result<Vec<Member>, Invalid> {
    let mut members = split_all(text)?;
    members.retain(|(name, range)| text.get(range.clone()) != Some("null") && !shadows_known(name));
    Ok(members)
}

fn split_all(text: &str) -> Result<Vec<Member>, Invalid> {
    if text.starts_with('\u{feff}') {
        return Err(invalid(
            "The request body begins with a byte order mark, which JSON does not have.".to_owned(),
        ));
    }
    let (checked, found) = check_members(text).map_err(|fault| match fault {
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
    for (name, value) in found {
        let Some(name) = name.string() else {
            return Err(invalid(
                "A member name of the request body holds half of a surrogate pair.".to_owned(),
            ));
        };
        let start = offset(text, value.text());
        let range = start..start + value.text().len();
        if checked.lone_surrogate.is_some_and(|at| range.contains(&at)) {
            return Err(invalid(format!(
                "Invalid '{}': a string in it holds half of a surrogate pair, which is not Unicode.",
                clip(&name)
            )));
        }
        members.push((Box::from(name), range));
    }
    if let Some(name) = first_duplicate(&members) {
        return Err(invalid(format!("Invalid '{}': the member is given more than once.", clip(name))));
    }
    Ok(members)
}

/// Where `part`, a slice of `text`, begins in it.
pub(super) fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

fn first_duplicate(members: &[Member]) -> Option<&str> {
    const FEW: usize = 24;
    if members.len() <= FEW {
        let names = members.iter().map(|(name, _)| &**name);
        return names
            .enumerate()
            .find(|(at, name)| members.iter().take(*at).any(|(other, _)| **other == **name))
            .map(|(_, name)| name);
    }
    let mut seen = HashSet::with_capacity(members.len());
    members.iter().map(|(name, _)| &**name).find(|name| !seen.insert(*name))
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
