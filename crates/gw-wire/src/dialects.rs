//! The APIs that clients speak besides OpenAI's chat completions. A request is translated into a chat request, which is the
//! gateway's one internal form. The answer is written back in the client's dialect from the same events and replies as a
//! chat's.

mod chat_members;
pub(crate) mod client_dialect;
pub mod gemini;
pub mod images;
pub mod messages;
mod past_order;
pub mod responses;
pub mod speech;
pub mod transcript;

pub use self::client_dialect::ClientDialect;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use self::messages::native::edits::Edits;
use crate::event::{Event, SEAL_PREFIX};
use crate::gateway::GatewayMeta;
use crate::json::View;
use crate::render::Envelope;
use crate::reply::{ChatReply, Finish};
use crate::request::member_policy::is_spelling;
use crate::request::native_policy::{NativePolicy, PolicyPlace, Surface, Treatment, plain, treatment};
use crate::request::{AllowedMembers, Invalid};
use crate::stream::Closing;

/// Whether a signature or encrypted reasoning is a string that the gateway sealed.
fn is_sealed(opaque: &str) -> bool {
    opaque.starts_with(SEAL_PREFIX)
}

/// The body of a client's request, for an upstream that speaks the client's dialect.
#[derive(Clone, Debug)]
pub struct NativeBody {
    /// The body as the client sent it.
    pub bytes: Bytes,
    /// The dialect of the body.
    pub dialect: ClientDialect,
    /// The request has parts that only an upstream of this dialect understands.
    pub only_native: bool,
    /// The gateway keeps the conversation, so the upstream cannot look up reasoning by its id.
    pub is_kept_here: bool,
    /// The parts of the body that need a decision before such an upstream gets it.
    pub policy: Arc<NativePolicy>,
}

/// How far a request depends on an upstream that speaks the client's own dialect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NativeNeed {
    /// Every upstream serves the request.
    #[default]
    None,
    /// The request has an effect at an upstream of the dialect only.
    Preferred,
    /// The request has no meaning for another upstream. The error is for a client that no upstream can serve.
    Required(Invalid),
}

/// The parts of a request that its translation into a chat request does not hold.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Writes the answer.
    pub form: Arc<dyn AnswerForm>,
    /// The client's own body.
    pub native: NativeBody,
    /// Whether the request needs an upstream of the client's dialect.
    pub need: NativeNeed,
    /// Entries of `gateway.warnings` about the translation.
    pub warnings: Vec<Cow<'static, str>>,
    /// Headers of the request for an upstream that speaks the client's dialect, by name and value.
    pub headers: Vec<(Box<str>, Box<str>)>,
}

/// The name of the header with the beta features that a client asks for.
const BETA: &str = "anthropic-beta";

impl ClientRequest {
    /// The request without the members, headers and beta features that must not reach an upstream of the client's own
    /// dialect, and a warning for each. None: nothing is left out.
    #[must_use]
    pub fn admitted(&self, allowed: &AllowedMembers, denied_betas: &[String]) -> Option<(Self, Vec<String>)> {
        let (members, mut warnings) = self.native.policy.left_out(allowed);
        let headers = self.headers(allowed, denied_betas, &mut warnings);
        if members.is_empty() && headers.is_none() {
            return None;
        }
        let mut admitted = self.clone();
        if !members.is_empty() {
            admitted.native.bytes = without_members(&self.native.bytes, &members).into();
        }
        if let Some(headers) = headers {
            admitted.headers = headers;
        }
        Some((admitted, warnings))
    }

    /// The headers that are left; None if all are.
    fn headers(
        &self,
        allowed: &AllowedMembers,
        denied_betas: &[String],
        warnings: &mut Vec<String>,
    ) -> Option<Vec<(Box<str>, Box<str>)>> {
        let mut kept = Vec::with_capacity(self.headers.len());
        let before = warnings.len();
        for (name, value) in &self.headers {
            let name_is = |known: &str| name.eq_ignore_ascii_case(known);
            if name_is(BETA) && self.native.dialect != ClientDialect::Responses {
                let (lost, left): (Vec<&str>, Vec<&str>) = value
                    .split(',')
                    .map(str::trim)
                    .partition(|beta| denied_betas.iter().any(|no| no == beta));
                if lost.is_empty() {
                    kept.push((name.clone(), value.clone()));
                    continue;
                }
                warnings.extend(lost.iter().map(|beta| format!("beta_dropped:{}", plain(beta))));
                if !left.is_empty() {
                    kept.push((name.clone(), left.join(",").into()));
                }
                continue;
            }
            let is_responses = self.native.dialect == ClientDialect::Responses;
            let surface = if is_responses { Surface::Responses } else { Surface::Messages };
            let row = treatment(surface, PolicyPlace::Header, &name.to_ascii_lowercase());
            // No header of a Responses request is sent, and only those with a row are worth a warning.
            let is_kept = if is_responses { row.is_none() } else { allowed.has(name) };
            if row == Some(Treatment::Forwarded) || is_kept {
                kept.push((name.clone(), value.clone()));
            } else {
                warnings.push(format!("header_dropped:{}", plain(name)));
            }
        }
        (warnings.len() > before).then_some(kept)
    }
}

/// A body without these members: top-level ones, and members of those by both names with a dot between them. All other
/// bytes stay as they are.
fn without_members(bytes: &Bytes, names: &[&str]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    let mut edits = Edits::new(text);
    let names: BTreeSet<&str> = names.iter().copied().collect();
    let body = View::new(text);
    edits.remove_members(body, |name| names.contains(name));
    for (outer, inner) in names.iter().filter_map(|name| name.split_once('.')) {
        let is_outer = |name: View<'_>| name.string().is_some_and(|name| name == outer);
        // An edit inside a member that is removed itself would be a second edit of the same text.
        for (_, value) in body.members().filter(|(name, _)| !names.contains(outer) && is_outer(*name)) {
            edits.remove_members(value, |name| is_spelling(name, inner));
        }
    }
    edits.apply()
}

/// An error inside a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamError<'a> {
    /// The message for the client.
    pub message: &'a str,
    /// The type of the error in OpenAI's shape (`upstream_error`, …).
    pub kind: &'a str,
    /// The code of the error (`upstream_timeout`, …).
    pub code: &'a str,
    /// The code of the fault behind the error (`upstream_overloaded`, …), or the error's own code.
    pub cause: &'a str,
    /// The `gateway` object, if it is known.
    pub gateway: Option<&'a GatewayMeta>,
}

impl<'a> StreamError<'a> {
    /// An error without a fault behind it.
    #[must_use]
    pub fn new(message: &'a str, kind: &'a str, code: &'a str) -> Self {
        Self { message, kind, code, cause: code, gateway: None }
    }

    /// The type of the fault behind the error in OpenAI's shape. It is the error's own type where the cause tells no other.
    #[must_use]
    pub fn cause_kind(&self) -> &'a str {
        match self.cause {
            "invalid_request"
            | "unsupported_parameter"
            | "unsupported_value"
            | "unsupported_model"
            | "no_matching_target"
            | "max_cost_exceeded"
            | "context_length_exceeded"
            | "content_filter"
            | "model_not_found"
            | "not_found"
            | "unknown_url"
            | "method_not_allowed"
            | "configured_in_file"
            | "version_mismatch"
            | "request_timeout"
            | "request_too_large"
            | "uri_too_long"
            | "unsupported_media_type"
            | "upgrade_required"
            | "request_headers_too_large"
            | "unsupported_transfer_encoding" => "invalid_request_error",
            "invalid_api_key" => "authentication_error",
            "model_not_allowed" | "admin_required" | "role_not_allowed" | "sign_in_failed"
            | "cross_site_request" => "permission_error",
            "rate_limit_exceeded" | "upstream_rate_limited" | "session_limit_reached" => "rate_limit_error",
            "insufficient_quota" => "insufficient_quota",
            "internal_error" | "store_unavailable" | "budget_store_unavailable" => "server_error",
            _ => self.kind,
        }
    }
}

/// The facts about a streamed answer that its first event needs.
#[derive(Clone, Debug)]
pub struct EncoderOpening {
    /// The answer's id: `msg_…` or `resp_…`.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// The model's name.
    pub model: String,
    /// The estimate of the prompt's tokens.
    pub prompt_tokens: u64,
}

/// Writes the answer to one request in the client's dialect.
pub trait AnswerForm: Send + Sync + fmt::Debug {
    /// The client's dialect.
    fn dialect(&self) -> ClientDialect;

    /// An encoder for a streamed answer.
    fn encoder(&self, opening: EncoderOpening) -> Box<dyn AnswerEncoder>;

    /// Writes a complete answer.
    fn write(&self, reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> Vec<u8>;

    /// Whether the answer is a file, not a stream of events. It has no place for a sign of life or an error, so that one that fails
    /// is torn.
    fn is_file(&self) -> bool {
        false
    }
}

/// Writes a streamed answer in the client's dialect.
pub trait AnswerEncoder: Send + Sync + fmt::Debug {
    /// Appends the frames of one event. Events before the first content are remembered, and write nothing.
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>);

    /// Ends a complete answer.
    fn finish(&mut self, finish: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>);

    /// Ends the stream with an error.
    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>);

    /// The fault of an answer that its upstream has ended in this way, although the client could not read it; None = it has none.
    fn fault(&self, _finish: Option<Finish>) -> Option<&'static str> {
        None
    }

    /// Appends a sign of life, for a client whose upstream is silent.
    fn keepalive(&mut self, out: &mut Vec<u8>);

    /// An encoder that can only end this stream with an error, without the content so far. It is for the time in which
    /// the encoder itself is elsewhere.
    fn closer(&self) -> Box<dyn AnswerEncoder>;

    /// A copy of the encoder, for a stream that another upstream continues.
    fn boxed_clone(&self) -> Box<dyn AnswerEncoder>;

    /// The bytes that the encoder keeps until the stream ends.
    fn held_bytes(&self) -> usize;

    /// The bytes that the end of the stream takes while it is written, beside those that the encoder keeps: an estimate
    /// from above.
    fn ending_bytes(&self) -> usize {
        self.held_bytes().saturating_mul(2)
    }
}

#[cfg(test)]
mod echo_tests;
