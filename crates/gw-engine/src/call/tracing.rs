//! The call's part of its trace. It is filled as the call goes on, and handed over when the call is settled.

use std::sync::Arc;

use gw_wire::trace_context::TraceId;

use crate::call::upstream_call::UpstreamCalls;
use crate::plan::candidate::Plan;
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::request::trace::{CallTrace, Parameters, RequestTrace};

/// Characters of a model's name that a span keeps.
pub(crate) const MAX_MODEL_CHARS: usize = 256;

/// The open record of one call.
#[derive(Debug)]
pub(crate) struct CallTracing {
    trace: Arc<RequestTrace>,
    record: Box<CallTrace>,
}

impl CallTracing {
    /// The record of a call; None = its trace is not recorded.
    pub(crate) fn of(client: &RequestContext, operation: &'static str) -> Option<Self> {
        let trace = client.trace.as_ref().filter(|trace| trace.is_recorded())?;
        let record = CallTrace {
            operation,
            team: client.caller.team().cloned(),
            session: client.session.clone(),
            attribution: client.attribution.clone(),
            ..CallTrace::default()
        };
        Some(Self { trace: Arc::clone(trace), record: Box::new(record) })
    }

    /// Notes the request's parameters. The request itself may be gone when the call is settled.
    pub(crate) fn note_request(&mut self, request: &ValidatedRequest) {
        let body = request.body();
        let number = |name| body.get(name).and_then(|text| text.parse().ok());
        self.record.requested_model = request.model().chars().take(MAX_MODEL_CHARS).collect();
        self.record.parameters = Parameters {
            stream: request.wants_stream(),
            choices: body.get("n").and_then(|text| text.parse().ok()).filter(|choices| *choices != 1),
            max_tokens: request.max_tokens().filter(|tokens| *tokens > 0),
            temperature: number("temperature"),
            top_p: number("top_p"),
            frequency_penalty: number("frequency_penalty"),
            presence_penalty: number("presence_penalty"),
            seed: body.get("seed").and_then(|text| text.parse().ok()),
            dimensions: body.get("dimensions").and_then(|text| text.parse().ok()),
        };
    }

    /// Notes what is known of a request that passes through.
    pub(crate) fn note_forwarded(&mut self, model: &str, is_stream: bool) {
        self.record.requested_model = model.chars().take(MAX_MODEL_CHARS).collect();
        self.record.parameters = Parameters { stream: is_stream, ..Parameters::default() };
    }

    /// The id of the trace.
    pub(crate) fn id(&self) -> TraceId {
        self.trace.id()
    }

    /// Notes the strategy.
    pub(crate) fn note_plan(&mut self, plan: &Plan) {
        self.record.strategy = plan.strategy.as_str();
    }

    /// Notes the id of the answer that the client gets.
    pub(crate) fn note_response(&mut self, id: &str) {
        self.record.response_id = Some(id.to_owned());
    }

    /// Hands the record over with the attempts of the call.
    pub(crate) fn end(mut self, calls: &UpstreamCalls) {
        self.record.attempts = calls.traced();
        self.trace.note_call(self.record);
    }
}
