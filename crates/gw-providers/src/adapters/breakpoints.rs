//! Breakpoints of prompt caches in requests: those that the client has set, and those that the gateway adds.

use gw_wire::dialects::messages::breakpoints;
use gw_wire::json::{Kind, View};
use gw_wire::request::ChatRequest;
use gw_wire::utf8;
use memchr::memmem;

use crate::adapter::{BreakpointPlan, Breakpoints, Encoded, Target};
use crate::settings::BreakpointTtl;

/// The members that mark a breakpoint.
const MARKERS: [&str; 4] = ["cache_control", "cachePoint", "cache_point", "prompt_cache_breakpoint"];

/// Members whose content is not the API's: schemas of tools, and arguments of their calls.
const OPAQUE: [&str; 4] = ["input_schema", "parameters", "input", "arguments"];

/// The deepest value that is searched. Markers stand less deep in every API.
const MAX_DEPTH: usize = 12;

/// The target with breakpoints only if the client has set none.
pub(super) fn own_or_none<'t>(request: &ChatRequest, target: &Target<'t>) -> Target<'t> {
    let breakpoints = target.breakpoints.filter(|_| !has_marker(request));
    Target { breakpoints, ..*target }
}

/// Whether the client has set a breakpoint.
fn has_marker(request: &ChatRequest) -> bool {
    let bytes = request.client.as_ref().map_or_else(|| request.body.bytes(), |client| &client.native.bytes);
    if !MARKERS.iter().any(|marker| memmem::find(bytes, marker.as_bytes()).is_some()) {
        return false;
    }
    utf8::text(bytes).is_ok_and(|text| is_marked(View::new(text), MAX_DEPTH, true))
}

fn is_marked(value: View<'_>, depth: usize, is_top: bool) -> bool {
    if depth == 0 {
        return false;
    }
    match value.kind() {
        Kind::Object => value.members().any(|(name, value)| {
            let Some(name) = name.string() else { return false };
            if MARKERS.contains(&&*name) {
                return value.kind() != Kind::Null;
            }
            // The input of the Responses API is a list of items.
            let is_opaque = OPAQUE.contains(&&*name) && !(is_top && name == "input");
            !is_opaque && is_marked(value, depth - 1, false)
        }),
        Kind::Array => value.elements().any(|element| is_marked(element, depth - 1, false)),
        _ => false,
    }
}

/// Puts breakpoints into an encoded request of the Messages API. `takes_hour`: the host keeps prompts for an hour, too.
pub(super) fn mark_messages(mut encoded: Encoded, target: &Target<'_>, takes_hour: bool) -> Encoded {
    let Some(BreakpointPlan { ttl, is_held }) = target.breakpoints else { return encoded };
    if is_held {
        encoded.reading.breakpoints = Breakpoints::Held;
        return encoded;
    }
    let is_hour = ttl == BreakpointTtl::Hour && takes_hour;
    let marked = utf8::text(&encoded.call.body).ok().and_then(|text| breakpoints::add(text, is_hour));
    if let Some(body) = marked {
        encoded.call.body = body.into();
        encoded.reading.breakpoints = Breakpoints::Inserted;
    }
    encoded
}
