//! The built-in provider `demo`: an upstream inside the process that speaks OpenAI's dialect. It works offline, and its
//! answers never change. It is called through the same adapter as other providers, without a network.

mod answer;
mod audio;
mod body;
mod choice;
mod embed;
mod example;
mod faults;
mod images;
mod moderation;
mod realtime;
mod rerank;
mod response;
mod text;
mod tools;
mod write;

use gw_wire::json::number_end;
use http::Method;
use serde_json::{Value, json};

pub use self::body::DemoBody;
pub use self::response::DemoResponse;
use crate::adapter::HttpCall;
use crate::client::{SocketLimits, UpstreamSocket};

/// The demo's models in the format of the shipped catalogue.
const CATALOGUE: &str = include_str!("demo/catalogue.json");

/// The demo's models as a catalogue. It is appended when a provider of this kind is configured.
#[must_use]
pub fn demo_catalogue() -> &'static str {
    CATALOGUE
}

/// The upstream. It has no state, so equal calls get equal answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demo;

/// Reads a body. JSON has no largest number, but serde_json does: a number beyond it is read as 0.
fn read_json(body: &[u8]) -> Option<Value> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Some(value);
    }
    let (mut out, mut at, mut in_string) = (Vec::with_capacity(body.len()), 0, false);
    while let Some(&byte) = body.get(at) {
        let end = number_end(body, at).filter(|_| !in_string && (byte == b'-' || byte.is_ascii_digit()));
        let end = end.unwrap_or(if in_string && byte == b'\\' { at + 2 } else { at + 1 });
        in_string ^= byte == b'"';
        let piece = body.get(at..end).unwrap_or_default();
        let number: Option<f64> = std::str::from_utf8(piece).ok().and_then(|text| text.parse().ok());
        // serde_json refuses the largest doubles, too, when they are written as integers.
        let is_too_large = number.is_some_and(|number| number.abs() > 1e308);
        out.extend_from_slice(if is_too_large { b"0" } else { piece });
        at = end;
    }
    serde_json::from_slice(&out).ok()
}

impl Demo {
    /// The upstream.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// Opens a realtime session; None: the address has no such model.
    pub(crate) async fn open_socket(&self, call: &HttpCall, limits: SocketLimits) -> Option<UpstreamSocket> {
        let is_known = call.path == "/realtime?model=realtime";
        if is_known { Some(realtime::open(limits).await) } else { None }
    }

    /// Answers a call. The model `silent` never answers. The model `panic` panics, to show the effect of a bug in the
    /// gateway.
    pub async fn send(&self, call: HttpCall) -> DemoResponse {
        let path = call.path.split('?').next().unwrap_or_default();
        if call.method == Method::GET && path == "/models" {
            return DemoResponse::json(200, &models());
        }
        if let Some(upload) = &call.upload {
            return match (path, upload.form().and_then(|form| form.field("model"))) {
                ("/audio/transcriptions" | "/audio/translations", Some("transcribe")) => {
                    audio::transcript(upload).await
                }
                ("/images/edits" | "/images/variations", Some("images")) => images::from_form(upload).await,
                _ => missing_model(),
            };
        }
        let Some(request) = read_json(&call.body) else {
            return DemoResponse::error(400, "invalid_request_error", None, "The body is not JSON.");
        };
        let model = request.get("model").and_then(Value::as_str).unwrap_or_default();
        if let Some(response) = faults::answer(model, path, &request).await {
            return response;
        }
        match (path, model) {
            ("/chat/completions", "chat") => answer::chat(&request),
            ("/completions", "chat") => answer::completion(&request),
            ("/embeddings", "embed") => embed::answer(&request),
            ("/rerank", "rerank") => rerank::answer(&request),
            ("/score", "rerank") => rerank::scores(&request),
            ("/moderations", "moderation") => moderation::answer(&request),
            ("/images/generations", "images") => images::answer(&request),
            ("/audio/speech", "speech") => audio::speech(&request),
            _ => missing_model(),
        }
    }
}

fn missing_model() -> DemoResponse {
    let message = "The demo has no such model here.";
    DemoResponse::error(404, "invalid_request_error", Some("model_not_found"), message)
}

/// The model list, from the catalogue.
fn models() -> Value {
    let catalogue: Vec<Value> = serde_json::from_str(CATALOGUE).unwrap_or_default();
    let name = |model: &Value| model.get("upstream_model").cloned().unwrap_or_default();
    let data: Vec<Value> = catalogue
        .iter()
        .map(|model| json!({"id": name(model), "object": "model", "created": 0, "owned_by": "demo"}))
        .collect();
    json!({"object": "list", "data": data})
}

#[cfg(test)]
mod tests;
