//! Errors: Google's for every model, and Anthropic's for Claude.

use std::borrow::Cow;

use gw_wire::failure::Failure;
use http::HeaderMap;
use serde::Deserialize;

use crate::adapters::{anthropic, gemini};

/// Google's front end reports its own errors for every model, so the body decides whose error format it is.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let classify = if is_anthropic(body) { anthropic::errors::classify } else { gemini::errors::classify };
    classify(status, headers, body)
}

/// Whether an error body is Anthropic's: `{"type": "error", …}`. Google's error bodies have no `type`.
fn is_anthropic(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct ErrorType<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    serde_json::from_slice::<ErrorType<'_>>(body).is_ok_and(|error| error.kind == "error")
}
