//! The bodies of drills and probes.

use gw_engine::error::Error;
use gw_wire::json::{Kind, View};
use gw_wire::request::fields::{
    Path, array, empty_string, integer, missing, string, string_too_long, wrong_type,
};
use gw_wire::request::{Invalid, parse_members};
use serde_json::Value;

use super::{DrillRequest, ProbeRequest};
use crate::body::{boolean, unknown_member};

/// Maximum number of names in `only`.
const MAX_NAMES: usize = 100;
/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 300;
/// The bounds of `max_tokens`. Reasoning models need more than the default.
const MAX_TOKENS: std::ops::RangeInclusive<i64> = 16..=65_536;
/// The value of `max_tokens` in a body without it.
const DEFAULT_MAX_TOKENS: u64 = 256;

pub(super) fn drill(body: &[u8]) -> Result<DrillRequest, Error> {
    let (mut only, mut routing) = (Vec::new(), None);
    for (name, value) in parse_members(body)? {
        let path = &Path::Top(&name);
        match &*name {
            "only" => only = names(path, value)?,
            "routing" => routing = Some(object(path, value)?),
            _ => return Err(unknown_member(&name, &["only", "routing"])),
        }
    }
    if only.is_empty() {
        return Err(missing(&Path::Top("only")).into());
    }
    Ok(DrillRequest { only, routing })
}

pub(super) fn probe(provider: String, body: &[u8]) -> Result<ProbeRequest, Error> {
    let mut probe = ProbeRequest {
        provider,
        model: None,
        only: Vec::new(),
        max_tokens: DEFAULT_MAX_TOKENS,
        is_dry_run: false,
    };
    if body.trim_ascii().is_empty() {
        return Ok(probe);
    }
    for (name, value) in parse_members(body)? {
        let path = &Path::Top(&name);
        match &*name {
            "model" => probe.model = Some(text(path, value)?),
            "only" => probe.only = names(path, value)?,
            "max_tokens" => probe.max_tokens = integer(path, value, &MAX_TOKENS)?.unsigned_abs(),
            "dry_run" => probe.is_dry_run = boolean(path, value)?,
            _ => return Err(unknown_member(&name, &["model", "only", "max_tokens", "dry_run"])),
        }
    }
    Ok(probe)
}

fn names(path: &Path<'_>, value: View<'_>) -> Result<Vec<String>, Invalid> {
    array(path, value, MAX_NAMES, "an array of strings")?
        .enumerate()
        .map(|(at, name)| text(&path.item(at), name))
        .collect()
}

fn text(path: &Path<'_>, value: View<'_>) -> Result<String, Invalid> {
    let text = string(path, value)?;
    match text.chars().count() {
        0 => Err(empty_string(path)),
        chars if chars > MAX_NAME_CHARS => Err(string_too_long(path, MAX_NAME_CHARS, chars)),
        _ => Ok(text.into_owned()),
    }
}

fn object(path: &Path<'_>, value: View<'_>) -> Result<Value, Invalid> {
    let parsed = (value.kind() == Kind::Object).then(|| serde_json::from_str(value.text()).ok()).flatten();
    parsed.ok_or_else(|| wrong_type(path, "an object", value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_of_a_drill_are_read() {
        let read = drill(br#"{"only": ["fast"], "routing": {"fallback": ["a/b"]}}"#).unwrap();
        let routing = serde_json::json!({"fallback": ["a/b"]});
        assert_eq!(read, DrillRequest { only: vec!["fast".to_owned()], routing: Some(routing) });
    }

    #[test]
    fn wrong_members_are_refused_by_name() {
        let message = |body: &str| drill(body.as_bytes()).unwrap_err().message.into_owned();
        assert!(message("{}").contains("'only'"));
        assert!(message(r#"{"routing": []}"#).contains("'routing'"));
        assert!(message(r#"{"only": [""]}"#).contains("'only[0]'"));
        assert!(message(r#"{"names": ["a"]}"#).contains("only, routing"));
        let error = probe("acme".to_owned(), br#"{"max_tokens": 15}"#).unwrap_err();
        assert!(error.message.contains("'max_tokens'"), "{}", error.message);
    }
}
