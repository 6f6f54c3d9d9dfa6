//! The models that fail on purpose, for drills and tests.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::RETRY_AFTER;
use serde_json::{Value, json};

use super::answer;
use super::body::{BodyStep, DemoBody};
use super::choice::DemoChoice;
use super::response::DemoResponse;
use super::write::{self, DemoEndpoint};

/// The pause between two tokens of the model `slow`.
const SLOW_TOKEN_PAUSE: Duration = Duration::from_millis(50);

/// The answer of a failing model; None for other models.
pub(super) async fn answer(model: &str, path: &str, request: &Value) -> Option<DemoResponse> {
    let fault = match model {
        "silent" => std::future::pending().await,
        "panic" => bug(),
        model => refusal(model),
    };
    if fault.is_some() {
        return fault;
    }
    let endpoint = match path {
        "/chat/completions" => DemoEndpoint::Chat,
        "/completions" => DemoEndpoint::Text,
        _ => return None,
    };
    broken(model, endpoint, request)
}

#[expect(clippy::panic, reason = "this model shows what a bug of the gateway looks like to clients")]
fn bug() -> ! {
    panic!("the model demo/panic was called");
}

/// An error instead of an answer.
fn refusal(model: &str) -> Option<DemoResponse> {
    let error = DemoResponse::error;
    Some(match model {
        "error-429" => {
            let mut response =
                error(429, "rate_limit_error", Some("rate_limit_exceeded"), "The demo is busy.");
            response.headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
            response
        }
        "error-500" => error(500, "server_error", None, "The demo failed, as asked."),
        "error-503" => error(503, "server_error", Some("overloaded"), "The demo is overloaded, as asked."),
        "error-401" => {
            error(401, "authentication_error", Some("invalid_api_key"), "The demo refuses this key.")
        }
        "error-400" => {
            error(400, "invalid_request_error", Some("demo_refused"), "The demo refuses this request.")
        }
        "context" => {
            let message = "This model's maximum context length is 8 tokens; the prompt is longer.";
            error(400, "invalid_request_error", Some("context_length_exceeded"), message)
        }
        "filter" => {
            let message = "The prompt was refused by the demo's content filter.";
            error(400, "invalid_request_error", Some("content_filter"), message)
        }
        "garbage" => {
            let page =
                Bytes::from_static(b"<!doctype html>\n<title>Welcome</title>\n<p>This is no API.</p>\n");
            DemoResponse::new(200, "text/html", DemoBody::whole(page))
        }
        _ => return None,
    })
}

/// An answer that breaks off or fails while it is sent.
fn broken(model: &str, endpoint: DemoEndpoint, request: &Value) -> Option<DemoResponse> {
    if !matches!(model, "stall" | "slow" | "cut" | "truncate" | "error-first" | "error-mid") {
        return None;
    }
    let answers = match endpoint {
        DemoEndpoint::Chat => answer::chat_choices(request),
        DemoEndpoint::Text => answer::text_choices(request),
    };
    let answers = match answers {
        Ok(answers) => answers,
        Err(response) => return Some(*response),
    };
    if request.get("stream").and_then(Value::as_bool) == Some(true) {
        return Some(DemoResponse::events(DemoBody::script(stream(model, endpoint, request, &answers))));
    }
    let whole = write::whole(endpoint, model, request, &answers).to_string();
    let (half, _) = whole.split_at(whole.floor_char_boundary(whole.len() / 2));
    let half = BodyStep::Chunk(Bytes::copy_from_slice(half.as_bytes()));
    let steps = match model {
        "slow" => {
            vec![BodyStep::Pause(SLOW_TOKEN_PAUSE * tokens(&answers)), BodyStep::Chunk(Bytes::from(whole))]
        }
        "stall" => vec![half, BodyStep::Silence],
        "cut" => vec![half, BodyStep::Break],
        "truncate" => vec![half],
        _ => vec![BodyStep::Chunk(Bytes::from(error_object().to_string()))],
    };
    Some(DemoResponse::new(200, "application/json", DemoBody::script(steps)))
}

fn tokens(answers: &[DemoChoice]) -> u32 {
    u32::try_from(answers.iter().map(DemoChoice::tokens).sum::<u64>()).unwrap_or(u32::MAX).min(200)
}

/// The stream of a failing model. A chat begins with the role and one word, a text with one word.
fn stream(model: &str, endpoint: DemoEndpoint, request: &Value, answers: &[DemoChoice]) -> Vec<BodyStep> {
    let events = write::events(endpoint, model, request, answers);
    let head = if endpoint == DemoEndpoint::Chat { 2 } else { 1 };
    let error = BodyStep::Chunk(write::event(&error_object()));
    let begun = |count: usize| events.iter().take(count).cloned().map(BodyStep::Chunk).collect::<Vec<_>>();
    let mut steps = match model {
        "slow" => {
            return events
                .into_iter()
                .flat_map(|event| [BodyStep::Pause(SLOW_TOKEN_PAUSE), BodyStep::Chunk(event)])
                .collect();
        }
        "stall" => begun(head),
        "error-first" => Vec::new(),
        _ => begun(head + 2),
    };
    match model {
        "stall" => steps.push(BodyStep::Silence),
        "cut" => steps.push(BodyStep::Break),
        "error-first" | "error-mid" => steps.push(error),
        _ => {}
    }
    steps
}

fn error_object() -> Value {
    json!({"error": {"message": "The demo failed in its stream, as asked.", "type": "server_error", "code": null}})
}
