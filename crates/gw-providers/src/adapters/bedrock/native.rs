//! Claude for clients that speak the Messages API: the client's own body through InvokeModel, and the events of Anthropic's
//! stream inside the frames of InvokeModelWithResponseStream.
//!
//! Sources: anthropic-sdk-python 2.12.0 (`lib/bedrock/_client.py`), November 2026: the URL names the model and the stream,
//! the body holds `anthropic_version` and the beta features. User Guide, "Anthropic Claude Messages API"; API Reference,
//! `API_runtime_InvokeModelWithResponseStream` (`chunk` with `bytes` in base64).

use aws_smithy_types::event_stream::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_wire::dialects::ClientRequest;
use gw_wire::dialects::messages::native::NativeHost;
use gw_wire::request::ChatRequest;
use serde::Deserialize;

use super::call::post;
use super::errors;
use super::frames::FrameBuffer;
use super::stream::header;
use crate::adapter::{Encoded, Reading, StreamDecoder, Target};
use crate::adapters::anthropic::forward::{self, ForwardedBody};
use crate::adapters::anthropic::stream::AnthropicStreamState;
use crate::adapters::breakpoints;
use crate::adapters::failure::{broken, invalid, invalid_json};
use crate::adapters::sse_adapter::{EventSink, StreamState, UpstreamEvent};
use crate::adapters::text::Text;

/// The API version in the body.
const VERSION: &str = "\"bedrock-2023-05-31\"";

/// The beta features of Claude on Bedrock: the list that LiteLLM keeps (`anthropic_beta_headers_config.json`, read
/// 2026-11-23). Bedrock refuses requests with others.
const BETAS: [&str; 13] = [
    "compact-2026-01-12",
    "computer-use-2025-01-24",
    "computer-use-2025-11-24",
    "context-1m-2025-08-07",
    "context-management-2025-06-27",
    "dangerous-tool-use-2026-09-03",
    "effort-2025-11-24",
    "fine-grained-tool-streaming-2025-05-14",
    "mid-conversation-output-config-2026-07-01",
    "mid-conversation-tool-changes-2026-07-01",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "tool-search-tool-2025-10-19",
];

/// Encodes the client's own body. None: it is sent as a translated chat.
pub(super) fn encode(request: &ChatRequest, client: &ClientRequest, target: &Target<'_>) -> Option<Encoded> {
    if forward::needs_anthropic(request, client) {
        return None;
    }
    let (betas, lost) = forward::betas(client, &BETAS);
    let listed = serde_json::to_string(&betas).ok()?;
    let mut members = vec![("anthropic_version", VERSION)];
    if !betas.is_empty() {
        members.push(("anthropic_beta", &listed));
    }
    let host = NativeHost { model: None, drops_stream: true, members: &members };
    let ForwardedBody { body, mut warnings } = forward::body(request, client, target, &host)?;
    warnings.extend(lost);
    let operation = if request.stream { "invoke-with-response-stream" } else { "invoke" };
    let call = post(target.upstream_model, operation, body.into());
    let encoded = Encoded { call, reading: Reading::default(), warnings };
    Some(breakpoints::mark_messages(encoded, target, target.rules.cache_hour))
}

/// A frame's payload: one event of Anthropic's stream.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    bytes: Text<'a>,
}

/// Decodes one stream.
#[derive(Debug)]
pub(super) struct NativeStream {
    frames: FrameBuffer,
    state: AnthropicStreamState,
}

impl NativeStream {
    /// A decoder for a client that gets the events as they are.
    pub(super) fn new() -> Self {
        Self { frames: FrameBuffer::default(), state: AnthropicStreamState::native() }
    }

    fn message(&mut self, message: &Message, sink: EventSink<'_>) {
        let payload: &[u8] = message.payload();
        let reported = match header(message, ":message-type") {
            Some("exception") => header(message, ":exception-type"),
            Some("error") => header(message, ":error-code"),
            _ => None,
        };
        if let Some(name) = reported {
            return self.state.progress().fail(errors::in_stream(name, payload), sink);
        }
        if header(message, ":event-type") != Some("chunk") {
            return;
        }
        let chunk = match serde_json::from_slice::<Chunk<'_>>(payload) {
            Ok(chunk) => chunk,
            Err(fault) => return self.state.progress().fail(invalid_json(&fault), sink),
        };
        let Ok(data) = STANDARD.decode(chunk.bytes.0.as_bytes()) else {
            return self.state.progress().fail(invalid("an event of the stream is not base64"), sink);
        };
        let is_first = self.state.progress().begin();
        self.state.event(UpstreamEvent { name: b"", data: &data, is_first, is_last: false }, sink);
    }
}

impl StreamDecoder for NativeStream {
    fn feed(&mut self, chunk: &[u8], sink: EventSink<'_>) {
        if self.state.progress().is_over {
            return;
        }
        self.frames.push(chunk);
        while !self.state.progress().is_over {
            match self.frames.next() {
                Ok(Some(message)) => self.message(&message, sink),
                Ok(None) => return,
                Err(fault) => self.state.progress().fail(invalid(fault), sink),
            }
        }
    }

    fn eof(&mut self, sink: EventSink<'_>) {
        if !self.frames.is_empty() {
            let message = "The upstream's stream ended in the middle of an event.";
            self.state.progress().fail(broken(message), sink);
        } else if !self.state.progress().has_begun {
            self.state.progress().fail(invalid("the body is not an event stream"), sink);
        }
    }

    fn held_bytes(&self) -> usize {
        self.frames.held_bytes().saturating_add(self.state.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        chunk.map_or(0, |chunk| self.frames.work_bytes(chunk))
    }
}
