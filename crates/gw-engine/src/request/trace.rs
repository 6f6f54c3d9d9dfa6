//! The trace of one request: its ids from the beginning, and its facts, which are handed over when its last part has ended.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gw_providers::settings::Api;
use gw_wire::attribution::Attribution;
use gw_wire::money::Money;
use gw_wire::trace_context::{SpanId, TraceId, TraceParent, trace_state};
use gw_wire::usage::Usage;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::payloads::CapturedContent;
use crate::request::context::CallRecord;

/// The header with the trace and the caller's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with what other tracing systems say about the trace.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Takes the traces of finished requests. It is called where a request ends, so it must not block.
pub trait TraceSink: fmt::Debug + Send + Sync {
    /// Takes one trace.
    fn take(&self, request: TracedRequest);
}

/// Begins the traces of requests.
#[derive(Debug)]
pub struct Tracer {
    sink: Arc<dyn TraceSink>,
    /// The part of the requests without a caller's decision that are recorded, 0 to 1.
    ratio: f64,
    /// The bytes of an answer's text that are kept; None = traces have no prompts and answers.
    content: Option<usize>,
}

impl Tracer {
    /// A tracer that hands traces to this sink. `content` is the length to which answers are kept.
    #[must_use]
    pub fn new(sink: Arc<dyn TraceSink>, ratio: f64, content: Option<usize>) -> Self {
        Self { sink, ratio, content }
    }

    /// The bytes of an answer's text that are kept; None = traces have no prompts and answers.
    #[must_use]
    pub fn content(&self) -> Option<usize> {
        self.content
    }

    /// Begins the trace of a request, as the caller's headers ask: the caller's decision about recording stands.
    #[must_use]
    pub fn begin(&self, headers: &HeaderMap) -> Arc<RequestTrace> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        // A request with two such headers is treated as one without: either header could be the right one.
        let parent = match (parents.next(), parents.next()) {
            (Some(value), None) => TraceParent::parse(value.as_bytes()),
            _ => None,
        };
        let trace = parent.map_or_else(|| TraceId::new(rand::random()), |parent| parent.trace);
        let is_sampled = parent.map_or_else(|| trace.fraction() < self.ratio, |parent| parent.is_sampled);
        let state = parent.and_then(|_| trace_state(headers.get(TRACESTATE)?.as_bytes()));
        let ids = TraceIds {
            trace,
            server: SpanId::new(rand::random()),
            parent: parent.map(|parent| parent.span),
            state: state.map(Into::into),
            began: (Instant::now(), SystemTime::now()),
        };
        let sink = is_sampled.then(|| Arc::clone(&self.sink));
        Arc::new(RequestTrace { ids, sink, parts: Mutex::default() })
    }
}

/// The ids of a request's spans, and the clock that dates them.
#[derive(Clone, Debug)]
pub struct TraceIds {
    /// The trace.
    pub trace: TraceId,
    /// The span of the request itself. The spans of its attempts are its children.
    pub server: SpanId,
    /// The caller's span.
    pub parent: Option<SpanId>,
    /// The caller's `tracestate`.
    pub state: Option<Box<str>>,
    began: (Instant, SystemTime),
}

impl TraceIds {
    /// The time of day of a moment of the request.
    #[must_use]
    pub fn time_of(&self, moment: Instant) -> SystemTime {
        let (began, time) = self.began;
        match moment.checked_duration_since(began) {
            Some(after) => time.checked_add(after),
            None => time.checked_sub(began.saturating_duration_since(moment)),
        }
        .unwrap_or(time)
    }

    /// The span of an attempt; the first attempt has number 0.
    #[must_use]
    pub fn attempt(&self, number: usize) -> SpanId {
        self.server.child(number)
    }
}

/// The trace of a request under way. The last holder's drop hands it over.
#[derive(Debug)]
pub struct RequestTrace {
    ids: TraceIds,
    /// None = the trace is passed on and not recorded.
    sink: Option<Arc<dyn TraceSink>>,
    parts: Mutex<(Option<ServerRecord>, Option<Box<CallTrace>>)>,
}

impl RequestTrace {
    /// The id of the trace.
    #[must_use]
    pub fn id(&self) -> TraceId {
        self.ids.trace
    }

    /// Whether its spans are written.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.sink.is_some()
    }

    /// Writes the headers of an upstream call that belongs to this attempt.
    pub(crate) fn write_headers(&self, attempt: usize, headers: &mut HeaderMap) {
        let TraceIds { trace, state, .. } = &self.ids;
        let parent =
            TraceParent { trace: *trace, span: self.ids.attempt(attempt), is_sampled: self.is_recorded() };
        let header = |text: &str| HeaderValue::from_str(text).ok();
        headers.extend(header(&parent.to_string()).map(|value| (TRACEPARENT, value)));
        headers.extend(state.as_deref().and_then(header).map(|value| (TRACESTATE, value)));
    }

    /// Notes the end of the request at the edge.
    pub fn note_server(&self, record: ServerRecord) {
        self.parts.lock().0 = Some(record);
    }

    /// Notes the end of the call.
    pub(crate) fn note_call(&self, call: Box<CallTrace>) {
        self.parts.lock().1 = Some(call);
    }
}

impl Drop for RequestTrace {
    fn drop(&mut self) {
        let (server, call) = std::mem::take(self.parts.get_mut());
        if let (Some(sink), Some(server)) = (&self.sink, server) {
            sink.take(TracedRequest { ids: self.ids.clone(), server, call });
        }
    }
}

/// A finished request.
#[derive(Debug)]
pub struct TracedRequest {
    /// Its ids.
    pub ids: TraceIds,
    /// The request as the edge saw it.
    pub server: ServerRecord,
    /// The call; None = the request was refused before it.
    pub call: Option<Box<CallTrace>>,
}

/// A request as the edge saw it.
#[derive(Debug)]
pub struct ServerRecord {
    /// `req_…`.
    pub request_id: Arc<str>,
    /// The method.
    pub method: String,
    /// The pattern of the URL.
    pub route: &'static str,
    /// When the request was accepted.
    pub accepted: Instant,
    /// When its response ended.
    pub ended: Instant,
    /// The status that was sent, or 499.
    pub status: u16,
    /// `ok` or an error code.
    pub code: String,
    /// The name of the key.
    pub key: Option<Arc<str>>,
    /// The record of the call.
    pub record: Option<CallRecord>,
    /// The bodies, if traces have them.
    pub content: Option<CapturedContent>,
}

/// The call of a request.
#[derive(Debug, Default)]
pub struct CallTrace {
    /// The operation's name in the ledger.
    pub operation: &'static str,
    /// The key's team.
    pub team: Option<Arc<str>>,
    /// The session.
    pub session: Option<Arc<str>>,
    /// The request's end user, tags, repository, branch and pull request.
    pub attribution: Option<Arc<Attribution>>,
    /// The model as the client wrote it.
    pub requested_model: String,
    /// The strategy of the routing.
    pub strategy: &'static str,
    /// The parameters of the request.
    pub parameters: Parameters,
    /// The id of the answer that the client gets; None = no upstream answered.
    pub response_id: Option<String>,
    /// The attempts that are over, in order.
    pub attempts: Vec<AttemptTrace>,
}

/// The members of a complete answer that its span reports.
#[derive(Debug, Default)]
pub struct AnswerTrace {
    /// The model that it reports.
    pub model: Option<String>,
    /// Why each choice ended, in order.
    pub finish_reasons: Vec<&'static str>,
}

/// The parameters of a request that traces have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parameters {
    /// The client wants a stream.
    pub stream: bool,
    /// The number of choices, if it is not 1.
    pub choices: Option<u64>,
    /// The bound on the answer's tokens.
    pub max_tokens: Option<u64>,
    /// `temperature`.
    pub temperature: Option<f64>,
    /// `top_p`.
    pub top_p: Option<f64>,
    /// `frequency_penalty`.
    pub frequency_penalty: Option<f64>,
    /// `presence_penalty`.
    pub presence_penalty: Option<f64>,
    /// `seed`.
    pub seed: Option<i64>,
    /// `dimensions` of vectors.
    pub dimensions: Option<u64>,
}

/// One attempt.
#[derive(Debug)]
pub struct AttemptTrace {
    /// Its place among the attempts of the request, from 0. It names the span.
    pub number: usize,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// `ok`, `cancelled` or an error code.
    pub status: &'static str,
    /// The API of the provider.
    pub api: Api,
    /// The provider's name.
    pub provider: Arc<str>,
    /// The model's catalogue id.
    pub model: Arc<str>,
    /// The model's name at the provider.
    pub upstream_model: String,
    /// The provider's host.
    pub host: Option<String>,
    /// The model is a fallback.
    pub is_fallback: bool,
    /// The client's answer has tokens of this attempt.
    pub is_answer: bool,
    /// The tokens of its calls.
    pub usage: Usage,
    /// The cost of its calls; None = a model without a price.
    pub cost: Option<Money>,
    /// The time from its begin to the first content of its stream.
    pub first_content: Option<Duration>,
    /// The answer of the attempt; None = the answer is not complete.
    pub answer: Option<Box<AnswerTrace>>,
}
