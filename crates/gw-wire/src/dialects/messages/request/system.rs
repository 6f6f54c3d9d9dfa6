//! System text: the member `system`, messages with the role `system`, and `mid_conv_system` blocks.

use std::borrow::Cow;

use super::counts::Counts;
use super::parts::{BlockPart, ChatContent, write_content};
use crate::dialects::messages::faults::{MessagesPath, list, not_one_of, object, required_string, string};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;

/// The start of the line by which Claude Code names itself. It changes from request to request, so it would spoil the
/// prompt caches of other providers.
const ATTRIBUTION: &str = "x-anthropic-billing-header:";

/// Between the blocks of a system prompt.
const BLANK_LINE: &str = "\n\n";

/// Reads a system text: a string or a list of text blocks, each of which counts. Returns no part for an empty text.
pub(super) fn read<'a>(
    path: &MessagesPath<'_>,
    value: View<'a>,
    counts: &mut Counts<'_>,
) -> Result<Vec<BlockPart<'a>>, Invalid> {
    if value.kind() == Kind::String {
        let text = without_attribution(string(path, value)?);
        counts.parts(path, 1)?;
        return Ok(if text.is_empty() { Vec::new() } else { vec![BlockPart::text(text)] });
    }
    let mut parts = Vec::new();
    for (at, block) in list(path, value)?.enumerate() {
        let path = path.item(at);
        counts.parts(&path, 1)?;
        let [kind, text, cache_control] = object(&path, block, ["type", "text", "cache_control"])?;
        let kind_path = path.member("type");
        match &*required_string(&kind_path, kind)? {
            "text" => {}
            other => return Err(not_one_of(&kind_path, &["text"], other)),
        }
        let mut text = required_string(&path.member("text"), text)?;
        if at == 0 {
            text = without_attribution(text);
        }
        if !text.is_empty() {
            parts.push(BlockPart { content: ChatContent::Text(text), cache_control });
        }
    }
    Ok(joined(parts))
}

/// Joins the texts into one, because most chat upstreams take a string. Texts with a cache marker stay apart.
fn joined(parts: Vec<BlockPart<'_>>) -> Vec<BlockPart<'_>> {
    if parts.len() < 2 || parts.iter().any(|part| part.cache_control.is_some()) {
        return parts;
    }
    let texts = parts.iter().filter_map(|part| match &part.content {
        ChatContent::Text(text) => Some(&**text),
        _ => None,
    });
    vec![BlockPart::text(texts.collect::<Vec<_>>().join(BLANK_LINE))]
}

/// The text without its first line, if that is the attribution.
fn without_attribution(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.starts_with(ATTRIBUTION) {
        return text;
    }
    let rest = |text: &str| text.find('\n').map_or(text.len(), |end| end + 1);
    match text {
        Cow::Borrowed(text) => {
            Cow::Borrowed(text.get(rest(text)..).unwrap_or_default().trim_start_matches('\n'))
        }
        Cow::Owned(text) => {
            let rest = text.get(rest(&text)..).unwrap_or_default().trim_start_matches('\n');
            Cow::Owned(rest.to_owned())
        }
    }
}

/// Writes a system message.
pub(super) fn write(out: &mut Vec<u8>, parts: &[BlockPart<'_>]) {
    let mut message = ObjectWriter::begin(out);
    message.string("role", "system");
    write_content(message.member("content"), parts);
    message.finish();
}
