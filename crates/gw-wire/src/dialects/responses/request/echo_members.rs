//! The members of a response object that repeat the request. A member that the request does not have gets its default, or
//! null where there is none.

use crate::dialects::responses::json_text::{put_one_line, text};
use crate::json::{Kind, ObjectWriter, View, write_array};
use crate::request::Body;

/// Name and default of each member that is copied.
const COPIED: [(&str, &str); 18] = [
    ("background", "false"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("parallel_tool_calls", "true"),
    ("presence_penalty", "0"),
    ("frequency_penalty", "0"),
    ("previous_response_id", "null"),
    ("prompt_cache_key", "null"),
    ("prompt_cache_retention", "null"),
    ("safety_identifier", "null"),
    ("temperature", "1.0"),
    ("tool_choice", "\"auto\""),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", "\"disabled\""),
    ("user", "null"),
    ("metadata", "{}"),
];

/// Enough for all members with their defaults.
const DEFAULT_BYTES: usize = 768;

/// Writes the members, each with a comma before it.
pub(super) fn write(body: &Body) -> Vec<u8> {
    let copied = COPIED.map(|(name, default)| (name, body.get(name).ok_or(default)));
    let size: usize = copied.iter().map(|(_, value)| value.map_or(0, str::len)).sum();
    let mut out = Vec::with_capacity(size + DEFAULT_BYTES);
    let mut echo = ObjectWriter::resume(&mut out);
    for (name, value) in copied {
        match value {
            Ok(value) => put_one_line(echo.plain_member(name), value),
            Err(default) => echo.plain_raw(name, default.as_bytes()),
        }
    }
    let reasoning = body.view("reasoning").filter(|value| value.kind() == Kind::Object);
    let [effort, summary, former] =
        reasoning.map_or([None; 3], |value| value.pick(["effort", "summary", "generate_summary"]));
    echo.object("reasoning", |out| {
        put_one_line(out.plain_member("effort"), effort.map_or("null", View::text));
        put_one_line(out.plain_member("summary"), summary.or(former).map_or("null", View::text));
    });
    let text = body.view("text").filter(|value| value.kind() == Kind::Object);
    let [format, verbosity] = text.map_or([None; 2], |value| value.pick(["format", "verbosity"]));
    echo.object("text", |out| {
        put_one_line(out.plain_member("format"), format.map_or(r#"{"type":"text"}"#, View::text));
        put_one_line(out.plain_member("verbosity"), verbosity.map_or("\"medium\"", View::text));
    });
    let tools = body.view("tools").filter(|value| value.kind() == Kind::Array);
    write_array(echo.plain_member("tools"), tools.into_iter().flat_map(View::elements), tool);
    out
}

/// The members of `own` whose values differ from those in `changed`. Both were written by [`write()`].
pub(super) fn differing(own: &[u8], changed: &[u8]) -> Vec<(String, Vec<u8>)> {
    let object = |members: &[u8]| {
        let members = std::str::from_utf8(members).unwrap_or_default();
        format!("{{{}}}", members.strip_prefix(',').unwrap_or_default())
    };
    let (own, changed) = (object(own), object(changed));
    let pairs = View::new(&own).members().zip(View::new(&changed).members());
    let differing = pairs.filter(|((_, own), (_, changed))| own.text() != changed.text());
    differing.filter_map(|((name, own), _)| Some((name.string()?.into_owned(), own.text().into()))).collect()
}

/// Writes a tool. A function has `description`, `parameters` and `strict`, because strict clients need them.
fn tool(out: &mut Vec<u8>, tool: View<'_>) {
    let [kind] = tool.pick(["type"]);
    if text(kind).is_none_or(|kind| kind != "function") {
        return put_one_line(out, tool.text());
    }
    let mut missing = vec!["description", "parameters", "strict"];
    let mut object = ObjectWriter::begin(out);
    for (name, value) in tool.members() {
        let Some(name) = name.string() else { continue };
        missing.retain(|missing| **missing != *name);
        put_one_line(object.member(&name), value.text());
    }
    missing.iter().for_each(|name| object.raw(name, "null"));
    object.finish();
}
