//! A request of a client that speaks the Messages API itself: it is sent as the client wrote it.

use std::borrow::Cow;

use bytes::Bytes;
use gw_wire::conversation::{Content, Conversation, Source};
use gw_wire::dialects::messages::native::{NativeHost, NativeRequest, Signature, request_body};
use gw_wire::dialects::{ClientDialect, ClientRequest, NativeNeed};
use gw_wire::request::ChatRequest;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use memchr::memmem;

use super::VERSION;
use crate::adapter::{Encoded, HttpCall, Reading, Target};
use crate::adapters::replay;

/// The client's own body for one host, and the warnings about it.
pub(in crate::adapters) struct ForwardedBody {
    pub(in crate::adapters) body: Bytes,
    pub(in crate::adapters) warnings: Vec<Cow<'static, str>>,
}

/// Makes the body for a host of the API. None: the client's body is in another dialect, or the answer must be shorter than
/// the client asks for, which only the translated request can say.
pub(in crate::adapters) fn body(
    request: &ChatRequest,
    client: &ClientRequest,
    target: &Target<'_>,
    host: &NativeHost<'_>,
) -> Option<ForwardedBody> {
    let is_own = client.native.dialect == ClientDialect::Messages;
    if !is_own || target.max_tokens(request.max_tokens) != request.max_tokens {
        return None;
    }
    let own = target.replay_target();
    let signature = |given: &str| own.open_signature(given).map_or(Signature::Drop, Signature::Replace);
    let mut has_lost = false;
    let call_id = |given: &str| replay::sent_id(given, &own, &mut has_lost);
    let NativeRequest { body, dropped, is_thinking_off } =
        request_body(&client.native.bytes, host, signature, call_id);
    let dropped = (dropped > 0 || has_lost).then_some(Cow::Borrowed(replay::DROPPED));
    let thinking = is_thinking_off.then_some(Cow::Borrowed("parameter_dropped:thinking"));
    Some(ForwardedBody { body: body.into(), warnings: dropped.into_iter().chain(thinking).collect() })
}

/// Whether the request has a part that only Anthropic's own API takes: a message thread, or an image or a file by its
/// address. Other hosts keep no threads, and take bytes only.
pub(in crate::adapters) fn needs_anthropic(request: &ChatRequest, client: &ClientRequest) -> bool {
    if matches!(client.need, NativeNeed::Required(_)) {
        return true;
    }
    // The name of the member may be written with escapes of its letters.
    let is_written = |text: &[u8]| memmem::find(&client.native.bytes, text).is_some();
    if !is_written(b"\"url\"") && !is_written(b"\\u00") {
        return false;
    }
    let conversation = Conversation::of_chat(request, 1);
    conversation.messages.iter().flat_map(|message| &message.parts).any(|part| match &part.content {
        Content::Image(source) | Content::File { source, .. } => matches!(source, Source::Url(_)),
        _ => false,
    })
}

/// The name of the header with the beta features that a client asks for.
const BETA: &str = "anthropic-beta";

/// The beta features that the client asks for and the host knows, and a warning for each of the others, which the host would
/// refuse together with the request.
pub(in crate::adapters) fn betas<'c>(
    client: &'c ClientRequest,
    known: &[&str],
) -> (Vec<&'c str>, Vec<Cow<'static, str>>) {
    let headers = client.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(BETA));
    let asked =
        headers.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|beta| !beta.is_empty());
    let (kept, lost): (Vec<_>, Vec<_>) = asked.partition(|beta| known.contains(beta));
    let warning =
        |beta: &str| Cow::Owned(format!("beta_dropped:{}", beta.chars().take(64).collect::<String>()));
    (kept, lost.into_iter().map(warning).collect())
}

/// Encodes the client's own body for Anthropic. None: see [`body`].
pub(super) fn encode(request: &ChatRequest, client: &ClientRequest, target: &Target<'_>) -> Option<Encoded> {
    let host = NativeHost { model: Some(target.upstream_model), ..NativeHost::default() };
    let ForwardedBody { body, warnings } = body(request, client, target, &host)?;
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
    let call =
        HttpCall { method: Method::POST, path: "/v1/messages".to_owned(), headers, body, upload: None };
    Some(Encoded { call, reading: Reading::default(), warnings })
}
