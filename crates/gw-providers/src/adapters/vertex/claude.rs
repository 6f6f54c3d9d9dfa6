//! Claude models on Vertex AI: the Messages API at `rawPredict` and `streamRawPredict`.
//!
//! Sources: "Claude Models on Google Cloud (Google managed)" at platform.claude.com and anthropic-sdk-python 2.12.0
//! (`lib/vertex/_client.py`), November 2026. The URL names the model, the body holds `anthropic_version`, and
//! everything else is as at Anthropic. The SDK sends beta features in the header `anthropic-beta`, and the gateway hands
//! on those of its clients. Structured outputs exist for Claude 4.5 and later, where the organisation's policy
//! `constraints/vertexai.allowedPartnerModelFeatures` allows them
//! (docs.cloud.google.com/gemini-enterprise-agent-platform/models/partner-models/claude/structured-outputs).

use gw_wire::conversation::Conversation;
use gw_wire::dialects::messages::native::NativeHost;
use gw_wire::dialects::{ClientDialect, ClientRequest};
use gw_wire::failure::Failure;
use gw_wire::reply::ChatReply;
use gw_wire::request::ChatRequest;
use gw_wire::usage::Usage;
use http::{HeaderName, HeaderValue};

use super::location::ProjectLocation;
use crate::adapter::{Capabilities, CountCall, DialectTraits, Encoded, Reading, StreamDecoder, Target};
use crate::adapters::anthropic::forward::{self, ForwardedBody};
use crate::adapters::anthropic::request::{self, MessagesHost, VERTEX_VERSION};
use crate::adapters::anthropic::{self, response};
use crate::adapters::breakpoints;
use crate::adapters::counting::{counting, picked};
use crate::adapters::http_call::post_streamable;
use crate::adapters::native::{Dialect, Policy};

/// The vendor name of Claude in the model rules.
pub(super) const VENDOR: &str = "claude";

const PUBLISHER: &str = "anthropic";

const BETA_HEADER: HeaderName = HeaderName::from_static("anthropic-beta");

/// The beta features of Claude on Vertex AI: the list that LiteLLM keeps (`anthropic_beta_headers_config.json`, read
/// 2026-11-23). Vertex AI refuses requests with others.
const BETAS: [&str; 12] = [
    "compact-2026-01-12",
    "compact-2026-09-04",
    "computer-use-2025-01-24",
    "computer-use-2025-11-24",
    "context-1m-2025-08-07",
    "context-management-2025-06-27",
    "interleaved-thinking-2025-05-14",
    "per-turn-control-2026-07-01",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "tool-search-tool-2025-10-19",
    "web-search-2025-03-05",
];

/// Claude on Vertex AI.
#[derive(Debug)]
pub(super) struct VertexClaude(pub(super) ProjectLocation);

impl Dialect for VertexClaude {
    const POLICY: &'static Policy = &Policy {
        traits: DialectTraits {
            capabilities: Capabilities { image_urls: false, ..anthropic::POLICY.traits.capabilities },
            ..anthropic::POLICY.traits
        },
        ..anthropic::POLICY
    };

    fn speaks(&self, dialect: ClientDialect, _: &Target<'_>) -> bool {
        dialect == ClientDialect::Messages
    }

    fn forward(&self, request: &ChatRequest, client: &ClientRequest, target: &Target<'_>) -> Option<Encoded> {
        if forward::needs_anthropic(request, client) {
            return None;
        }
        let version = format!("\"{VERTEX_VERSION}\"");
        let members = [("anthropic_version", version.as_str())];
        let host = NativeHost { members: &members, ..NativeHost::default() };
        let ForwardedBody { body, mut warnings } = forward::body(request, client, target, &host)?;
        let method = if request.stream { "streamRawPredict" } else { "rawPredict" };
        let path = self.0.path(PUBLISHER, target.upstream_model, method);
        let mut call = post_streamable(path, body, request.stream);
        let (betas, lost) = forward::betas(client, &BETAS);
        if let Ok(betas) = HeaderValue::try_from(betas.join(","))
            && !betas.is_empty()
        {
            call.headers.insert(BETA_HEADER, betas);
        }
        warnings.extend(lost);
        let encoded = Encoded { call, reading: Reading { is_claude: true, ..Reading::default() }, warnings };
        Some(breakpoints::mark_messages(encoded, target, true))
    }

    /// The URL names no model, so the body does (`lib/vertex/_client.py`).
    fn count(&self, encoded: &Encoded, target: &Target<'_>) -> Option<CountCall> {
        let path = self.0.path(PUBLISHER, "count-tokens", "rawPredict");
        Some(counting(&encoded.call, path, anthropic::COUNT_MEMBER, |body| {
            body.string("model", target.upstream_model);
            body.string("anthropic_version", VERTEX_VERSION);
            picked(&encoded.call, anthropic::COUNTED).for_each(|(name, value)| body.raw(name, value.text()));
        }))
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        let mut encoded = request::encode(conversation, target, MessagesHost::Vertex)?;
        encoded.reading.is_claude = true;
        let method = if conversation.stream { "streamRawPredict" } else { "rawPredict" };
        let path = self.0.path(PUBLISHER, target.upstream_model, method);
        let call = post_streamable(path, encoded.body, conversation.stream);
        let encoded = Encoded { call, reading: encoded.reading, warnings: encoded.warnings };
        Ok(breakpoints::mark_messages(encoded, target, true))
    }

    fn decode<'a>(&self, body: &'a [u8], _: &Reading) -> Result<ChatReply<'a>, Failure> {
        response::decode(body)
    }

    fn failed_usage(&self, body: &[u8], _: &Reading) -> Option<Usage> {
        response::failed_usage(body)
    }

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        anthropic::decoder(reading)
    }
}
