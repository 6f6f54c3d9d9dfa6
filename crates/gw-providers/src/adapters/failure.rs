//! The meaning of an upstream's error, from its status and then from its text in any of the usual formats.

use std::time::SystemTime;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::utf8;
use http::HeaderMap;
use serde_json::Value;

use crate::adapters::redact::{redact, redact_for_operators};
use crate::adapters::retry_after::retry_after;

/// A larger error body is not parsed.
const MAX_BODY_BYTES: usize = 256 << 10;

/// The part of a body without an error object that is shown to the operator.
const MAX_REASON_INPUT_BYTES: usize = 8 << 10;

/// The message for a 404 that names no model. An address that lacks its `/v1` is the usual reason.
const WRONG_ADDRESS: &str = "The upstream provider does not offer this model, or does not have this address; check the end of its base_url, such as /v1.";

/// The text of an error object, in any of the usual formats.
#[derive(Debug, Default)]
struct ErrorText {
    message: Option<String>,
    code: Option<String>,
    /// `type` or, in Google's form, `status`.
    class: Option<String>,
}

/// The failure that a response other than 2xx means.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let error = (body.len() <= MAX_BODY_BYTES)
        .then(|| serde_json::from_slice::<Value>(body).ok())
        .flatten()
        .map(|value| ErrorText::read(&value))
        .unwrap_or_default();
    let kind = by_status(status, &error);
    let is_about_the_url = matches!(status, 404 | 405) && error.is_about_the_url();
    let mut failure = error.into_failure(kind, Some(status)).with_status(status);
    if is_about_the_url {
        WRONG_ADDRESS.clone_into(&mut failure.message);
    }
    failure.retry_after = retry_after(headers, SystemTime::now());
    if failure.reason.is_none() {
        let beginning = body.get(..body.len().min(MAX_REASON_INPUT_BYTES)).unwrap_or_default();
        failure.reason = reason(&String::from_utf8_lossy(beginning));
    }
    failure
}

/// The upstream's text for the operator, without secrets.
fn reason(words: &str) -> Option<String> {
    Some(redact_for_operators(words)).filter(|words| !words.is_empty())
}

/// The failure that an error object inside a 200 means, in a complete body or in an event of a stream. `otherwise` is
/// the kind of an error that names none.
pub(super) fn reported(error: &Value, otherwise: FailureKind) -> Failure {
    let text = ErrorText::read(error);
    let status =
        text.code.as_deref().and_then(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
    let kind = match status {
        Some(status) => by_status(status, &text),
        None => by_words(&text).or_else(|| by_class(&text)).unwrap_or(otherwise),
    };
    let mut failure = text.into_failure(kind, status);
    failure.reason = failure.reason.or_else(|| reason(&error.to_string()));
    failure
}

/// A 2xx response that cannot be read.
pub(super) fn invalid(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::InvalidResponse, "The upstream provider's answer cannot be understood.")
        .with_detail(detail)
}

/// JSON that does not parse or has the wrong types. The detail holds the position only, because serde's message quotes
/// the answer.
pub(super) fn invalid_json(fault: &serde_json::Error) -> Failure {
    invalid(format_args!("{:?} fault at line {} column {}", fault.classify(), fault.line(), fault.column()))
}

/// An event of a stream that is not the expected JSON.
pub(super) fn invalid_event(fault: &serde_json::Error) -> Failure {
    let mut failure = invalid_json(fault);
    "The upstream provider sent an event that is not JSON of the expected kind."
        .clone_into(&mut failure.message);
    failure
}

/// A stream whose body ended inside an event.
pub(super) fn cut_event() -> Failure {
    broken("The upstream's stream ended in the middle of an event.")
}

/// The body as text, without a byte order mark.
pub(super) fn body_text(body: &[u8]) -> Result<&str, Failure> {
    let text = utf8::text(body).map_err(|_| invalid("the body is not UTF-8"))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A stream that broke off.
pub(super) fn broken(message: &'static str) -> Failure {
    Failure::new(FailureKind::StreamBroken, message)
}

/// An answer that the model could not finish. It is not the client's fault, and another attempt or another model may
/// succeed. `reason` is the provider's word.
pub(super) fn gave_up(reason: &str) -> Failure {
    broken("The upstream provider gave up its answer with an error.").with_detail(reason)
}

impl ErrorText {
    fn read(value: &Value) -> Self {
        let outer = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let inner = outer.get("error").filter(|error| !error.is_null()).unwrap_or(outer);
        let part = |names: &[&str]| {
            let found = |object: &Value| names.iter().find_map(|name| words(object.get(name)?));
            found(inner).or_else(|| found(outer))
        };
        Self {
            message: inner.as_str().map(str::to_owned).or_else(|| part(&["message", "detail", "msg"])),
            code: part(&["code"]),
            class: part(&["type", "status"]),
        }
    }

    fn into_failure(self, kind: FailureKind, status: Option<u16>) -> Failure {
        let own = own_words(kind, status);
        let upstream = self.message.as_deref().map(redact).filter(|words| !words.is_empty());
        let about_the_request =
            matches!(kind, FailureKind::BadRequest | FailureKind::ContextLength | FailureKind::ContentFilter);
        // A server without the requested feature answers with 501 and a useful message.
        let shown = about_the_request || (kind == FailureKind::Server && status == Some(501));
        let mut failure = Failure::new(kind, own);
        failure.reason = self.message.as_deref().and_then(reason);
        match upstream.filter(|_| shown) {
            Some(words) => failure.message = words,
            // The message may quote the prompt, so it is kept in `reason` only. The code and the type cannot.
            None => failure.detail = self.names(),
        }
        if kind == FailureKind::BadRequest {
            failure.code = self.code.filter(|code| is_plain(code));
        }
        failure
    }

    /// The code and the type, for the log.
    fn names(&self) -> Option<String> {
        let names: Vec<&str> = [&self.code, &self.class]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .filter(|name| is_plain(name))
            .collect();
        (!names.is_empty()).then(|| names.join(" "))
    }

    /// Whether the code or the type is one of these names (lower case).
    fn is(&self, names: &[&str]) -> bool {
        [&self.code, &self.class]
            .into_iter()
            .flatten()
            .any(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
    }

    /// Whether a 404 is the answer of a web server that does not have the URL. A missing model has a message of its own.
    fn is_about_the_url(&self) -> bool {
        self.message.as_deref().is_none_or(|message| {
            let message = message.trim_end_matches('.').to_ascii_lowercase();
            message == "not found"
                || message.starts_with("invalid url")
                || message.starts_with("unknown request url")
        }) && self.names().is_none_or(|names| !names.contains("model"))
    }

    /// Whether the message contains one of these phrases (lower case).
    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }
}

/// A string, a number as a string, or the joined messages of a list (`detail: [{loc, msg}]`).
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(list) => {
            let messages: Vec<String> = list.iter().filter_map(located).collect();
            (!messages.is_empty()).then(|| messages.join("; "))
        }
        Value::Object(object) => words(object.get("detail")?),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// Writes `{"loc": ["body", "messages", 0], "msg": "Field required"}` as `messages.0: Field required`.
fn located(item: &Value) -> Option<String> {
    let message = item.get("msg")?.as_str()?;
    let steps = item.get("loc").and_then(Value::as_array).into_iter().flatten();
    let place: Vec<String> = steps.filter(|step| *step != "body").filter_map(words).collect();
    Some(if place.is_empty() { message.to_owned() } else { format!("{}: {message}", place.join(".")) })
}

fn is_plain(code: &str) -> bool {
    code.len() <= 64
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn by_status(status: u16, error: &ErrorText) -> FailureKind {
    match status {
        400 | 413 | 422 => by_words(error).unwrap_or(FailureKind::BadRequest),
        // A 401 or 403 for a filtered prompt, a missing model or an empty account does not mean that the key is bad.
        401 | 403 => match by_words(error) {
            Some(kind @ (FailureKind::ContentFilter | FailureKind::ModelMissing | FailureKind::Billing)) => {
                kind
            }
            _ => FailureKind::Auth,
        },
        402 => FailureKind::Billing,
        // A wrong method or a removed address also means that the model is not available there.
        404 | 405 | 410 => FailureKind::ModelMissing,
        409 | 424 | 425 => FailureKind::Server,
        429 => match by_words(error) {
            Some(FailureKind::Billing) => FailureKind::Billing,
            _ => FailureKind::RateLimited,
        },
        503 | 529 | 498 => FailureKind::Overloaded,
        408 | 504 | 524 => FailureKind::Timeout,
        500..=599 => match by_words(error) {
            // llama.cpp and some proxies report a prompt that is too long with a 500.
            Some(FailureKind::ContextLength) => FailureKind::ContextLength,
            _ => FailureKind::Server,
        },
        411..=499 | 406 | 407 => FailureKind::BadRequest,
        _ => FailureKind::InvalidResponse,
    }
}

/// The kind of failure that the text states for certain.
fn by_words(error: &ErrorText) -> Option<FailureKind> {
    let context = ["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"];
    let too_long = [
        "maximum context length",
        "context length",
        "context window",
        "prompt is too long",
        "input is too long",
        "exceeds the available context size",
        "maximum prompt length",
        "input token count",
    ];
    let filter = [
        "content_filter",
        "content_policy_violation",
        "moderation_blocked",
        "responsibleaipolicyviolation",
        "data_inspection_failed",
    ];
    let quota = [
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "billing_error",
        // Z.ai's code for an empty account.
        "1113",
    ];
    let key = ["api key not valid", "incorrect api key", "invalid api key"];
    if error.is(&context) {
        Some(FailureKind::ContextLength)
    } else if error.is(&filter) || error.says(&["content management policy", "requires moderation"]) {
        Some(FailureKind::ContentFilter)
    } else if error.is(&quota) || error.says(&["insufficient balance"]) {
        Some(FailureKind::Billing)
    } else if error.is(&["invalid_api_key", "api_key_invalid"]) || error.says(&key) {
        Some(FailureKind::Auth)
    } else if error.is(&["model_not_found", "deploymentnotfound", "invalid_model"]) {
        Some(FailureKind::ModelMissing)
    } else if error.says(&too_long) {
        Some(FailureKind::ContextLength)
    } else {
        None
    }
}

/// The kind of failure that the error's code or type suggests when there is no status.
fn by_class(error: &ErrorText) -> Option<FailureKind> {
    [&error.code, &error.class].into_iter().flatten().find_map(|word| {
        let word = word.to_ascii_lowercase();
        let has = |part: &str| word.contains(part);
        if has("rate_limit") || has("resource_exhausted") || has("too_many_requests") {
            Some(FailureKind::RateLimited)
        } else if has("overloaded") || has("unavailable") {
            Some(FailureKind::Overloaded)
        } else if has("timeout") || has("deadline") {
            Some(FailureKind::Timeout)
        } else if has("authentication") || has("permission") {
            Some(FailureKind::Auth)
        } else if has("not_found") {
            Some(FailureKind::ModelMissing)
        } else if has("invalid_request") || has("badrequest") {
            Some(FailureKind::BadRequest)
        } else if has("server_error") || has("internal") || has("api_error") {
            Some(FailureKind::Server)
        } else {
            None
        }
    })
}

/// The gateway's own message, for failures whose upstream text is not shown to clients, and for upstreams without a
/// text.
fn own_words(kind: FailureKind, status: Option<u16>) -> String {
    match (kind, status) {
        (FailureKind::InvalidResponse, Some(status @ 300..=399)) => {
            format!("The upstream provider answered with a redirect ({status}); redirects are not followed.")
        }
        (FailureKind::InvalidResponse, Some(status)) => {
            format!("The upstream provider answered with an unexpected status ({status}).")
        }
        (FailureKind::Server, Some(status)) => format!("The upstream provider failed with status {status}."),
        (FailureKind::BadRequest, Some(status)) => {
            format!("The upstream provider refused the request with status {status}.")
        }
        (kind, _) => generic(kind).to_owned(),
    }
}

fn generic(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unreachable => "The upstream provider cannot be reached.",
        FailureKind::Timeout => "The upstream provider timed out.",
        FailureKind::RateLimited => "The upstream provider is limiting the rate of requests.",
        FailureKind::Overloaded => "The upstream provider is overloaded.",
        FailureKind::Server => "The upstream provider failed.",
        FailureKind::Auth => "The upstream provider refused the gateway's credentials.",
        FailureKind::NoKey => "Every key of the provider is set aside.",
        FailureKind::Billing => "The gateway's account at the upstream provider has no quota left.",
        FailureKind::ModelMissing => "The upstream provider does not offer this model.",
        FailureKind::ContextLength => "The prompt is longer than the model's context.",
        FailureKind::ContentFilter => "The prompt was refused by the upstream provider's content filter.",
        FailureKind::Unsupported => "The provider cannot do what the request asks for.",
        FailureKind::ImageAddress => "The provider takes images as bytes only, not by address.",
        FailureKind::BadRequest => "The upstream provider refused the request.",
        FailureKind::InvalidResponse => "The upstream provider's answer cannot be understood.",
        FailureKind::StreamBroken => "The upstream provider reported an error in its stream.",
        FailureKind::NoMemory => "The gateway is holding as many large answers as it can.",
        FailureKind::NoOpenFile => "The gateway has as many open connections as it may have.",
    }
}

#[cfg(test)]
mod tests;
