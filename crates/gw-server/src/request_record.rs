//! The record of a request. Dropping it writes the log line and the metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use gw_engine::error::Kind;
use gw_engine::payloads::{Capture, ContentCapture};
use gw_engine::request::trace::{RequestTrace, ServerRecord};
use gw_engine::shared_pool::PoolHolding;
use gw_engine::{AdmissionPermit, AnswerRecord, CallLog};
use gw_wire::dialects::ClientDialect;
use http::{Method, StatusCode, Uri};

use crate::access_log::LogLine;
use crate::admission::Meter;
use crate::in_flight::InFlightPermit;
use crate::listener::Listener;
use crate::masked_keys::masked_keys;
use crate::metrics::RouteLabel;
use crate::outgoing::BodyObserver;
use crate::stall::note_deadline;
use crate::state::ServerState;
use crate::timed_io::RequestGuard;
use crate::upload::BodyPermit;

/// The status in the log of a request whose client went away.
const CLIENT_CLOSED: u16 = 499;
/// The most bytes of an answer that passes through, of those that are stored or traced.
const MAX_PIECES_BYTES: usize = 1 << 20;
/// Characters of a method that a trace keeps. Clients may invent methods.
const MAX_METHOD_CHARS: usize = 16;

/// The facts about a request, collected from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub(crate) state: Arc<ServerState>,
    pub(crate) accepted: Instant,
    pub(crate) request_id: Arc<str>,
    pub(crate) client_request_id: Option<String>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) route: RouteLabel,
    pub(crate) client: SocketAddr,
    pub(crate) listener: Listener,
    pub(crate) dialect: ClientDialect,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) call: Option<Arc<CallLog>>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) code: Option<String>,
    pub(crate) bytes_out: u64,
    pub(crate) is_complete: bool,
    pub(crate) in_flight: Option<InFlightPermit>,
    /// The permits among the requests in flight of the key and its team. They are held until the request ends.
    pub(crate) admission_permit: Option<AdmissionPermit>,
    pub(crate) body_permit: Option<BodyPermit>,
    /// The memory of a large whole answer, until its client has taken it.
    pub(crate) waiting_answer: Option<PoolHolding>,
    /// Measures the CPU time of the request, if it is one of those that are measured.
    pub(crate) meter: Option<Box<Meter>>,
    /// Stores the payload of the request, for keys with `log_payloads`.
    pub(crate) capture: Option<Box<Capture>>,
    /// The trace of the request; None = no traces are written.
    pub(crate) trace: Option<Arc<RequestTrace>>,
    /// The bodies for its trace, if traces have them.
    pub(crate) trace_content: Option<Box<ContentCapture>>,
    /// The pieces of an answer that passes through, if it is stored or traced.
    pub(crate) pieces: BytesMut,
    /// Tells the connection when the request ends. None = the answer is made without a connection.
    pub(crate) guard: Option<RequestGuard>,
    /// A call in the background has the record of this request, and ends it.
    pub(crate) is_handed_on: bool,
}

impl BodyObserver for RequestRecord {
    fn sent(&mut self, bytes: &Bytes) {
        self.bytes_out += bytes.len() as u64;
        if let Some(capture) = &mut self.capture {
            capture.sent(bytes);
        }
        if let Some(content) = &mut self.trace_content {
            content.sent(bytes);
        }
    }

    fn sent_piece(&mut self, bytes: &Bytes) {
        if self.is_captured() && self.pieces.len() < MAX_PIECES_BYTES {
            let room = MAX_PIECES_BYTES - self.pieces.len();
            self.pieces.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        self.bytes_out += bytes.len() as u64;
    }

    fn completed(&mut self) {
        self.is_complete = true;
    }

    fn meter(&mut self) -> Option<&mut Meter> {
        self.meter.as_deref_mut()
    }

    fn panicked(&mut self) {
        self.state.metrics.panics.inc();
        self.code = Some(Kind::InternalError.code().to_owned());
        tracing::error!(request_id = %self.request_id, "a response stream panicked");
    }

    fn deadline(&mut self, deadline: Instant) {
        // The socket of an HTTP/1 connection reads the first, the task of an HTTP/2 stream the second.
        if let Some(guard) = &self.guard {
            guard.answer_by(deadline.into());
        }
        note_deadline(deadline.into());
    }
}

impl AnswerRecord for RequestRecord {
    fn made(&mut self, bytes: &Bytes) {
        self.sent(bytes);
    }
}

impl RequestRecord {
    fn is_captured(&self) -> bool {
        self.capture.is_some() || self.trace_content.is_some()
    }

    /// Hands over the pieces of an answer that passed through.
    fn take_pieces(&mut self) {
        let whole = std::mem::take(&mut self.pieces).freeze();
        if let Some(capture) = self.capture.as_mut().filter(|_| !whole.is_empty()) {
            capture.sent(&whole);
        }
        if let Some(content) = self.trace_content.as_mut().filter(|_| !whole.is_empty()) {
            content.sent(&whole);
        }
    }

    /// Takes the record of a request whose answer is made in the background: its permits, its payload, its trace and its line
    /// of the access log. The connection keeps nothing of it.
    pub(crate) fn hand_on(&mut self) -> Self {
        let mut capture = self.capture.take();
        let mut trace_content = self.trace_content.take();
        if let Some(capture) = &mut capture {
            capture.streams();
        }
        if let Some(content) = &mut trace_content {
            content.streams();
        }
        self.is_handed_on = true;
        Self {
            state: Arc::clone(&self.state),
            accepted: self.accepted,
            request_id: Arc::clone(&self.request_id),
            client_request_id: self.client_request_id.take(),
            method: self.method.clone(),
            uri: self.uri.clone(),
            route: self.route,
            client: self.client,
            listener: self.listener,
            dialect: self.dialect,
            key: self.key.clone(),
            call: self.call.clone(),
            status: Some(StatusCode::OK),
            code: None,
            bytes_out: 0,
            is_complete: true,
            in_flight: self.in_flight.take(),
            admission_permit: self.admission_permit.take(),
            body_permit: self.body_permit.take(),
            waiting_answer: None,
            meter: None,
            capture,
            trace: self.trace.take(),
            trace_content,
            pieces: BytesMut::new(),
            guard: None,
            is_handed_on: false,
        }
    }

    fn write(&mut self) {
        self.take_pieces();
        let ended = Instant::now();
        let duration = ended.saturating_duration_since(self.accepted);
        let record = self.call.as_ref().map(|call| call.record());
        let sent = self.status.map_or(CLIENT_CLOSED, |status| status.as_u16());
        let outcome = record.as_ref().and_then(|record| record.status).filter(|outcome| *outcome != "ok");
        // The gateway itself ended a stream that ran into its total timeout.
        let is_late = outcome == Some(Kind::UpstreamTimeout.code());
        let has_left = self.status.is_none() || !(self.is_complete || is_late);
        let status = if has_left { CLIENT_CLOSED } else { sent };
        let code = match (&self.code, outcome) {
            _ if has_left => Kind::ClientClosedRequest.code(),
            (Some(code), _) => code,
            (None, Some(outcome)) => outcome,
            (None, None) => "ok",
        };
        let trace = self.trace.as_ref().filter(|trace| trace.is_recorded());
        let exemplar = trace.map(|trace| trace.id());
        self.state.metrics.count_request(self.route, &self.method, status, duration, exemplar);
        let accepted_at = SystemTime::now().checked_sub(duration).unwrap_or(SystemTime::UNIX_EPOCH);
        let path = self.uri.path();
        let path = if path == self.route.pattern { path.into() } else { masked_keys(path) };
        self.state.log.write(&LogLine {
            accepted: accepted_at,
            request_id: &self.request_id,
            client_request_id: self.client_request_id.as_deref(),
            method: self.method.as_str(),
            path: &path,
            route: self.route.pattern,
            status,
            code,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            bytes_out: self.bytes_out,
            key: self.key.as_deref(),
            client: self.client,
            trace_id: self.trace.as_ref().map(|trace| trace.id()),
            call: record.as_ref(),
        });
        if let Some(trace) = trace {
            trace.note_server(ServerRecord {
                request_id: Arc::clone(&self.request_id),
                method: self.method.as_str().chars().take(MAX_METHOD_CHARS).collect(),
                route: self.route.pattern,
                accepted: self.accepted,
                ended,
                status,
                code: code.to_owned(),
                key: self.key.clone(),
                record,
                content: self.trace_content.as_mut().map(|content| content.take()),
            });
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        if !self.is_handed_on {
            self.write();
        }
    }
}
