//! The facts of a request that its answer repeats or depends on.

use std::sync::Arc;

use super::tool_names::ToolNames;

/// The facts of one request.
#[derive(Debug, Default)]
pub(super) struct RequestEcho {
    /// Members of the response object as JSON text, each with a comma before it. They are the same in every snapshot.
    pub(super) members: Vec<u8>,
    /// The members that the client sent otherwise than an upstream gets them, with the client's values. An upstream of this dialect
    /// repeats the values that it got.
    pub(super) differing: Vec<(String, Vec<u8>)>,
    /// `service_tier` of the request.
    pub(super) service_tier: Option<String>,
    /// `background` of the request.
    pub(super) is_background: bool,
    /// `previous_response_id` of the request.
    pub(super) previous_response_id: Option<String>,
    /// The client's tools.
    pub(super) tools: ToolNames,
    /// Whether log probabilities are wanted.
    pub(super) has_logprobs: bool,
    /// Whether reasoning is written as its own text instead of as a summary.
    pub(super) has_raw_reasoning: bool,
}

/// The facts of one request and the gateway's decisions about its answer. A copy is cheap.
#[derive(Clone, Debug)]
pub(super) struct AnswerFacts {
    pub(super) echo: Arc<RequestEcho>,
    /// Whether the answer has none of the gateway's own members.
    pub(super) is_plain: bool,
    /// `store` of the answer.
    pub(super) is_stored: bool,
}
