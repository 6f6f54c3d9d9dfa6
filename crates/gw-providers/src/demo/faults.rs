//! The models that misbehave on purpose, for drills and tests.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::RETRY_AFTER;
use serde_json::{Value, json};

use super::DemoResponse;
use super::answer::{self, Answer};
use super::body::{DemoBody, Step};
use super::write::{self, Endpoint};

/// Time between two tokens of the model `slow`.
const SLOW: Duration = Duration::from_millis(50);

/// The answer of a misbehaving model; None when the model is not one.
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
        "/chat/completions" => Endpoint::Chat,
        "/completions" => Endpoint::Text,
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

/// An answer that goes wrong on its way.
fn broken(model: &str, endpoint: Endpoint, request: &Value) -> Option<DemoResponse> {
    if !matches!(model, "stall" | "slow" | "cut" | "truncate" | "error-first" | "error-mid") {
        return None;
    }
    let answers = match endpoint {
        Endpoint::Chat => answer::chat_answers(request),
        Endpoint::Text => answer::text_answers(request),
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
    let half = Step::Chunk(Bytes::copy_from_slice(half.as_bytes()));
    let steps = match model {
        "slow" => vec![Step::Pause(SLOW * tokens(&answers)), Step::Chunk(Bytes::from(whole))],
        "stall" => vec![half, Step::Silence],
        "cut" => vec![half, Step::Break],
        "truncate" => vec![half],
        _ => vec![Step::Chunk(Bytes::from(error_object().to_string()))],
    };
    Some(DemoResponse::new(200, "application/json", DemoBody::script(steps)))
}

fn tokens(answers: &[Answer]) -> u32 {
    u32::try_from(answers.iter().map(Answer::tokens).sum::<u64>()).unwrap_or(u32::MAX).min(200)
}

/// The stream of a misbehaving model. The first events of a chat are the role and one word; of a text, one word.
fn stream(model: &str, endpoint: Endpoint, request: &Value, answers: &[Answer]) -> Vec<Step> {
    let events = write::events(endpoint, model, request, answers);
    let head = if endpoint == Endpoint::Chat { 2 } else { 1 };
    let error = Step::Chunk(write::event(&error_object()));
    let begun = |count: usize| events.iter().take(count).cloned().map(Step::Chunk).collect::<Vec<_>>();
    let mut steps = match model {
        "slow" => {
            return events.into_iter().flat_map(|event| [Step::Pause(SLOW), Step::Chunk(event)]).collect();
        }
        "stall" => begun(head),
        "error-first" => Vec::new(),
        _ => begun(head + 2),
    };
    match model {
        "stall" => steps.push(Step::Silence),
        "cut" => steps.push(Step::Break),
        "error-first" | "error-mid" => steps.push(error),
        _ => {}
    }
    steps
}

fn error_object() -> Value {
    json!({"error": {"message": "The demo failed in its stream, as asked.", "type": "server_error", "code": null}})
}
