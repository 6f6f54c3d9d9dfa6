//! Replies: the only place where an error becomes a response, and the headers that replies share.

use std::time::Duration;

use bytes::Bytes;
use gw_engine::EventStream;
use gw_engine::error::{Error, Kind, Retry};
use gw_engine::passthrough::RelayedBody;
use gw_wire::dialects::{ClientDialect, gemini, messages, responses};
use gw_wire::operation::PlainOperation;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER,
    SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, StatusCode, Version};

use crate::event_source::EventSource;

/// The media type of JSON.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The media type of web pages.
pub(crate) const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// The id of the request, in every response.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The id of the request, in every response of the Messages API.
pub(crate) const MESSAGES_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// Milliseconds until the response began.
pub(crate) const PROCESSING_MS: HeaderName = HeaderName::from_static("openai-processing-ms");
/// The URL of realtime sessions, which exist over a WebSocket only.
const REALTIME: &str = PlainOperation::Realtime.row().path;
pub(crate) const RULE: HeaderName = HeaderName::from_static("x-gateway-rule");
pub(crate) const RULE_RESETS_AT: HeaderName = HeaderName::from_static("x-gateway-rule-resets-at");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Whether a repetition of the request can succeed, in every error.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// The headers for which an answer has room at once. A generated answer has about fourteen, and a map that grows writes each of
/// them again.
const USUAL_HEADERS: usize = 24;
/// The longest wait that the SDKs of clients accept.
const MAX_RETRY_AFTER_SECONDS: u64 = 120;

/// The result of a handler. The server adds the headers that every response has.
#[derive(Debug)]
pub(crate) struct HttpReply<S> {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content<S>,
    /// The error code, for the log.
    pub(crate) code: Option<String>,
}

/// A reply of this gateway, whose streams are the engine's.
pub(crate) type GatewayReply = HttpReply<Box<EventStream>>;

/// Headers that a response gets besides those of its reply.
pub(crate) type ExtraHeaders = Vec<(HeaderName, HeaderValue)>;

/// The body of a reply.
#[derive(Debug)]
pub(crate) enum Content<S> {
    Empty,
    Full(Bytes),
    Stream(S),
    /// Events that do not come from the engine.
    Live(EventSource),
    /// The answer of an upstream on a pass-through route.
    Relay(Box<RelayedBody>),
}

impl<S> HttpReply<S> {
    /// A 204.
    pub(crate) fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            headers: HeaderMap::new(),
            content: Content::Empty,
            code: None,
        }
    }

    /// A reply with a whole body.
    pub(crate) fn full(status: StatusCode, media_type: HeaderValue, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
        headers.insert(CONTENT_TYPE, media_type);
        Self { status, headers, content: Content::Full(body.into()), code: None }
    }

    /// A 200 with JSON.
    pub(crate) fn json(body: impl Into<Bytes>) -> Self {
        Self::full(StatusCode::OK, JSON, body)
    }

    /// A 200 with a generated answer. Its headers go to `headers`, whose map is made at the end. Those of a stream keep proxies
    /// from caching, buffering or guessing the character set.
    pub(crate) fn generated(content: Content<S>, headers: &mut ExtraHeaders) -> Self {
        let is_typed = headers.iter().any(|(name, _)| *name == CONTENT_TYPE);
        if is_typed {
            // The engine says what a file or a text is.
        } else if let Content::Stream(_) = content {
            headers.push((CONTENT_TYPE, EVENTS));
            headers.push((CACHE_CONTROL, HeaderValue::from_static("no-cache")));
            headers.push((ACCEL_BUFFERING, HeaderValue::from_static("no")));
        } else {
            headers.push((CONTENT_TYPE, JSON));
        }
        Self { status: StatusCode::OK, headers: HeaderMap::new(), content, code: None }
    }

    /// A 200 with events that do not come from the engine.
    pub(crate) fn live(events: EventSource) -> Self {
        let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
        headers.insert(CONTENT_TYPE, EVENTS);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
        Self { status: StatusCode::OK, headers, content: Content::Live(events), code: None }
    }

    /// A 200 with JSON that is made as the client reads it.
    pub(crate) fn json_pieces(stream: S) -> Self {
        let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
        headers.insert(CONTENT_TYPE, JSON);
        Self { status: StatusCode::OK, headers, content: Content::Stream(stream), code: None }
    }

    /// A 200 with server-sent events.
    pub(crate) fn events(stream: S) -> Self {
        let mut headers = ExtraHeaders::new();
        let mut reply = Self::generated(Content::Stream(stream), &mut headers);
        reply.headers.extend(headers);
        reply
    }

    /// An error in the shape of the client's dialect, with its status and headers.
    pub(crate) fn error_in(dialect: ClientDialect, error: &Error, request_id: &str) -> Self {
        let (status, kind, _) = error.kind.row();
        let (status, body) = match dialect {
            ClientDialect::OpenAi => (status, error.body()),
            ClientDialect::Messages => {
                messages::errors::error_body(status, kind, error.code(), &error.message, request_id)
            }
            ClientDialect::Gemini => {
                let seconds = retry_seconds(error);
                (status, gemini::errors::error_body(status, error.code(), &error.message, seconds))
            }
            ClientDialect::Responses => {
                (status, responses::errors::error_body(&error.message, kind, error.code()))
            }
        };
        Self::error_with(error, status, body)
    }

    fn error_with(error: &Error, status: u16, body: Vec<u8>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut reply = Self::full(status, JSON, body);
        if error.kind == Kind::InvalidApiKey {
            reply.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        reply.headers.insert(SHOULD_RETRY, HeaderValue::from_static(should_retry(error)));
        if let Some(seconds) = retry_seconds(error) {
            reply.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(rule) = &error.rule {
            let resets_at = rule.resets_at.as_ref();
            let named = [(RULE, Some(&rule.name)), (RULE_RESETS_AT, resets_at)];
            let valued = named
                .into_iter()
                .filter_map(|(name, value)| Some((name, HeaderValue::from_bytes(value?.as_bytes()).ok()?)));
            reply.headers.extend(valued);
        }
        reply.code = Some(error.code().to_owned());
        reply
    }

    /// A 405, with the methods that the URL has.
    pub(crate) fn method_not_allowed(allow: &'static str, dialect: ClientDialect, request_id: &str) -> Self {
        let error = Error::new(Kind::MethodNotAllowed, format!("Method not allowed. Use one of: {allow}."));
        let mut reply = Self::error_in(dialect, &error, request_id);
        reply.headers.insert(ALLOW, HeaderValue::from_static(allow));
        reply
    }

    /// A 405 of a URL whose methods the configuration has.
    pub(crate) fn method_not_allowed_of(allow: &str) -> Self {
        let error = Error::new(Kind::MethodNotAllowed, format!("Method not allowed. Use one of: {allow}."));
        let mut reply = Self::error_in(ClientDialect::OpenAi, &error, "");
        reply.headers.extend(HeaderValue::from_str(allow).ok().map(|allow| (ALLOW, allow)));
        reply
    }

    /// A 426: the URL is for a WebSocket, and the request is not the whole handshake of one.
    pub(crate) fn upgrade_required(
        version: Version,
        dialect: ClientDialect,
        request_id: &str,
        path: &str,
    ) -> Self {
        let other = if path == REALTIME { "" } else { " Without one, use POST /v1/responses." };
        let message = format!("GET {path} is for a WebSocket (version 13, over HTTP/1.1).{other}");
        let mut reply = Self::error_in(dialect, &Error::new(Kind::UpgradeRequired, message), request_id);
        // HTTP/2 has neither header.
        if version <= Version::HTTP_11 {
            reply.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            reply.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            reply.headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        reply
    }

    /// The reply to HEAD: the headers of the reply to GET, without its body.
    pub(crate) fn without_body(mut self) -> Self {
        if let Content::Full(body) = &self.content {
            self.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        self.content = Content::Empty;
        self
    }
}

/// The value of `x-should-retry`.
pub(crate) fn should_retry(error: &Error) -> &'static str {
    match error.retry() {
        Retry::Useless => "false",
        Retry::AtOnce | Retry::AfterWait => "true",
    }
}

/// Seconds for `Retry-After`, rounded up. Every 429 and 503 that goes away by itself has one.
fn retry_seconds(error: &Error) -> Option<u64> {
    let hinted = error.retry_after.map(|after| after.as_secs() + u64::from(after.subsec_nanos() > 0));
    let goes_away = error.kind.retry() == Retry::AfterWait;
    hinted.or(goes_away.then_some(1)).map(|seconds| seconds.clamp(1, MAX_RETRY_AFTER_SECONDS))
}

/// Writes the time until a limit resets as OpenAI does: `1s`, `6m0s`, `1h0m5s`.
pub(crate) fn spell_reset(out: &mut Vec<u8>, reset: Duration) {
    let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut unit = |value: u64, unit: u8| {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        out.push(unit);
    };
    if hours > 0 {
        unit(hours, b'h');
    }
    if hours > 0 || minutes > 0 {
        unit(minutes, b'm');
    }
    unit(rest, b's');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(error: &Error) -> HeaderMap {
        HttpReply::<()>::error_in(ClientDialect::OpenAi, error, "").headers
    }

    #[test]
    fn retry_hints_are_whole_seconds_that_clients_accept() {
        for (millis, seconds) in [(0, "1"), (1, "1"), (1500, "2"), (119_001, "120"), (9_000_000, "120")] {
            let error = Error::new(Kind::UpstreamRateLimited, "x").retry_after(Duration::from_millis(millis));
            assert_eq!(headers(&error)[RETRY_AFTER], seconds, "{millis}");
        }
        assert_eq!(headers(&Error::new(Kind::NoAvailableProvider, "x"))[RETRY_AFTER], "1");
        assert!(!headers(&Error::new(Kind::InsufficientQuota, "x")).contains_key(RETRY_AFTER));
        assert!(!headers(&Error::new(Kind::UpstreamError, "x")).contains_key(RETRY_AFTER));
    }

    #[test]
    fn every_error_tells_whether_a_retry_helps() {
        for kind in Kind::ALL {
            let headers = headers(&Error::new(kind, "x"));
            let wanted = if kind.retry() == Retry::Useless { "false" } else { "true" };
            assert_eq!(headers[SHOULD_RETRY], wanted, "{kind:?}");
            assert_eq!(headers.contains_key(RETRY_AFTER), kind.retry() == Retry::AfterWait, "{kind:?}");
            assert_eq!(headers.contains_key(WWW_AUTHENTICATE), kind == Kind::InvalidApiKey);
        }
        let never = Error::new(Kind::RateLimitExceeded, "x").finally();
        assert_eq!(headers(&never)[SHOULD_RETRY], "false");
    }

    #[test]
    fn resets_are_spelled_like_openai() {
        for (millis, text) in
            [(0, "0s"), (1, "1s"), (60_000, "1m0s"), (360_000, "6m0s"), (3_605_000, "1h0m5s")]
        {
            let mut out = Vec::new();
            spell_reset(&mut out, Duration::from_millis(millis));
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
