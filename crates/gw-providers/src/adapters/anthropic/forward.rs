//! A request of a client that speaks the Messages API itself: it is sent as the client wrote it.

use std::borrow::Cow;

use bytes::Bytes;
use gw_wire::dialects::messages::native::{NativeRequest, Signature, request_body};
use gw_wire::dialects::{ClientDialect, ClientRequest};
use gw_wire::request::ChatRequest;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::VERSION;
use crate::adapter::{Encoded, HttpCall, Reading, Target};
use crate::adapters::replay;

/// Encodes the client's own body. None: the body is in another dialect, or the answer must be shorter than the client
/// asks for, which only the translated request can say.
pub(super) fn encode(request: &ChatRequest, client: &ClientRequest, target: &Target<'_>) -> Option<Encoded> {
    let is_own = client.native.dialect == ClientDialect::Messages;
    if !is_own || target.max_tokens(request.max_tokens) != request.max_tokens {
        return None;
    }
    let own = target.replay_target();
    let signature = |given: &str| own.open_signature(given).map_or(Signature::Drop, Signature::Replace);
    let NativeRequest { body, dropped, is_thinking_off } =
        request_body(&client.native.bytes, target.upstream_model, signature);
    let accept = if request.stream { "text/event-stream" } else { "application/json" };
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(VERSION.0, VERSION.1);
    for (name, value) in &client.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(&**name), HeaderValue::try_from(&**value)) {
            // A header such as `anthropic-beta` may come several times.
            if name == VERSION.0 {
                headers.insert(name, value);
            } else {
                headers.append(name, value);
            }
        }
    }
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let path = "/v1/messages".to_owned();
    let call = HttpCall { method: Method::POST, path, headers, body: Bytes::from(body) };
    let dropped = (dropped > 0).then_some(Cow::Borrowed(replay::DROPPED));
    let thinking = is_thinking_off.then_some(Cow::Borrowed("parameter_dropped:thinking"));
    Some(Encoded {
        call,
        reading: Reading::default(),
        warnings: dropped.into_iter().chain(thinking).collect(),
    })
}
