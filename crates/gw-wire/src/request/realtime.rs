//! The handshake of `GET /v1/realtime` as a request: the model that the session is with.

use bytes::Bytes;

use super::body::{Body, ParsedBody};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::member_policy::{GuardedMember, survey};
use super::options::{Fields, Routing};
use super::references::References;
use crate::operation::PlainOperation;

/// A validated handshake.
#[derive(Clone, Debug)]
pub struct RealtimeRequest {
    /// The members of the request: those of the URL, and those of a preset.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// The client speaks the protocol before the general one.
    pub is_beta: bool,
    /// The routing options, which a preset may have.
    pub routing: Routing,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks a handshake. The first fault is reported.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_realtime(bytes: Bytes, limits: &RequestLimits) -> Result<RealtimeRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_first()?;
    let is_beta = fields.boolean("is_beta")?;
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Realtime, false, &mut references);
    let body = members.without_fallbacks().into_body(bytes);
    Ok(RealtimeRequest { body, model, is_beta, routing, references, guarded })
}
