//! The rows of chat completions, text completions and embeddings. They come from the rules that hold for every provider of
//! OpenAI's dialect.

use super::terms::{PolicyPlace, Row, Surface, Treatment};
use crate::hosted_tools::HostedTool;
use crate::request::body::{known, known_names};
use crate::request::member_policy::{REASONING_MODE, RULES, Rule, rule_of};

/// Types of tools. Other types are forwarded to providers of OpenAI's dialect, and refused for others.
const TOOLS: [Row; 2] = [("custom", Treatment::Forwarded), ("function", Treatment::Forwarded)];

/// Types of content parts. Other types are forwarded to providers of OpenAI's dialect, and refused for others; so are
/// `audio_url` and `video_url`, which cost no more than their tokens.
const PARTS: [Row; 7] = [
    ("audio_url", Treatment::Forwarded),
    ("file", Treatment::Forwarded),
    ("image_url", Treatment::Forwarded),
    ("input_audio", Treatment::Forwarded),
    ("refusal", Treatment::Forwarded),
    ("text", Treatment::Forwarded),
    ("video_url", Treatment::Forwarded),
];

/// The decision about a name.
pub(super) fn treatment(_: Surface, place: PolicyPlace, name: &str) -> Option<Treatment> {
    match place {
        PolicyPlace::Header | PolicyPlace::Nested => None,
        PolicyPlace::Tool => find(&TOOLS, name),
        PolicyPlace::Part => find(&PARTS, name),
        PolicyPlace::Member => member(name),
    }
}

fn find(rows: &[Row], name: &str) -> Option<Treatment> {
    rows.iter().find(|(known, _)| *known == name).map(|(_, decision)| *decision)
}

fn member(name: &str) -> Option<Treatment> {
    match name {
        "model" | "routing" | "cache" => return Some(Treatment::Own),
        REASONING_MODE => return Some(Treatment::Dropped),
        "tools" => return Some(Treatment::Forwarded),
        "web_search_options" => return Some(Treatment::Priced(HostedTool::WebSearch)),
        _ => {}
    }
    match rule_of(name) {
        Some(Rule::Steers | Rule::Search | Rule::Context) => Some(Treatment::Refused),
        Some(Rule::Price | Rule::Account | Rule::Hint | Rule::Unknown) => Some(Treatment::Dropped),
        Some(Rule::Fallback) => Some(Treatment::Fallback),
        None => known(name).is_some().then_some(Treatment::Forwarded),
    }
}

/// The rows of a place, sorted by name.
pub(super) fn rows(surface: Surface, place: PolicyPlace) -> Vec<Row> {
    let mut rows: Vec<Row> = match place {
        PolicyPlace::Header | PolicyPlace::Nested => Vec::new(),
        PolicyPlace::Tool if surface == Surface::Chat => TOOLS.to_vec(),
        PolicyPlace::Part if surface == Surface::Chat => PARTS.to_vec(),
        PolicyPlace::Tool | PolicyPlace::Part => Vec::new(),
        PolicyPlace::Member => {
            let names = known_names().chain([REASONING_MODE]).chain(RULES.iter().map(|(name, _)| *name));
            names.filter_map(|name| Some((name, member(name)?))).collect()
        }
    };
    rows.sort_unstable_by_key(|(name, _)| *name);
    rows.dedup_by_key(|(name, _)| *name);
    rows
}
