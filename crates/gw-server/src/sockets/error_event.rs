//! The errors of a socket: events that say what an answer's status would be. The socket stays open.

use gw_engine::error::Error;
use gw_wire::dialects::responses::errors::error_body;
use gw_wire::json::{ObjectWriter, View};
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use uuid::Uuid;

use crate::response::{REQUEST_ID, RULE, RULE_RESETS_AT, SHOULD_RETRY};

/// The event of an error that needs no request.
pub(super) fn of_error(error: &Error) -> String {
    let (status, kind, _) = error.kind.row();
    write(status, &error_body(&error.message, kind, error.code()), &HeaderMap::new())
}

/// The event of an answer that is an error.
pub(super) fn of_answer(status: StatusCode, body: &[u8], headers: &HeaderMap) -> String {
    write(status.as_u16(), body, headers)
}

/// The event of an error of a realtime session, about the client's event of this id.
pub(super) fn of_realtime(error: &Error, event_id: Option<&str>) -> String {
    let (status, kind, _) = error.kind.row();
    let mut out = Vec::with_capacity(error.message.len() + 200);
    let mut event = ObjectWriter::begin_typed(&mut out, "error");
    event.string("event_id", &format!("event_{}", Uuid::now_v7().simple()));
    event.integer("status", status.into());
    event.object("error", |inner| {
        inner.string("type", kind);
        inner.string("code", error.code());
        inner.string("message", &error.message);
        inner.raw("param", "null");
        match event_id {
            Some(id) => inner.string("event_id", id),
            None => inner.raw("event_id", "null"),
        }
    });
    event.finish();
    String::from_utf8(out).unwrap_or_default()
}

/// `headers` has those of the answer that tell when to try again, and which rule refused the turn.
fn write(status: u16, body: &[u8], headers: &HeaderMap) -> String {
    let text = std::str::from_utf8(body).unwrap_or("{}");
    let [error] = View::new(text).pick(["error"]);
    let mut out = Vec::with_capacity(body.len() + 160);
    let mut event = ObjectWriter::begin_typed(&mut out, "error");
    event.integer("status", status.into());
    event.raw("error", error.map_or("null", View::text));
    let told =
        [RETRY_AFTER, SHOULD_RETRY, REQUEST_ID, RULE, RULE_RESETS_AT].map(|name| (headers.get(&name), name));
    let mut told =
        told.iter().filter_map(|(value, name)| Some((value.as_ref()?.to_str().ok()?, name))).peekable();
    if told.peek().is_some() {
        event.object("headers", |out| {
            for (value, name) in told {
                gw_wire::json::write_str(out.member(name.as_str()), value);
            }
        });
    }
    event.finish();
    String::from_utf8(out).unwrap_or_default()
}

/// Adds the `stream_id` of a turn to one of its events.
pub(super) fn with_stream_id(event: &str, stream_id: Option<&str>) -> String {
    match (stream_id, event.strip_prefix('{')) {
        (Some(id), Some(rest)) => format!("{{\"stream_id\":{id},{rest}"),
        _ => event.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use gw_engine::error::Kind;

    use super::*;

    #[test]
    fn an_error_event_has_its_status_and_the_stream_id_as_sent() {
        let event = of_error(&Error::new(Kind::UnsupportedParameter, "No."));
        let event = with_stream_id(&event, Some("\"a\\u0041\""));
        assert!(
            event.starts_with("{\"stream_id\":\"a\\u0041\",\"type\":\"error\",\"status\":400,\"error\":{"),
            "{event}"
        );
        let body = br#"{"error":{"message":"m","code":"c"}}"#;
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, 3.into());
        let event = of_answer(StatusCode::TOO_MANY_REQUESTS, body, &headers);
        let expected = r#"{"type":"error","status":429,"error":{"message":"m","code":"c"},"headers":{"retry-after":"3"}}"#;
        assert_eq!(event, expected);
    }
}
