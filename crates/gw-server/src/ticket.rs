//! A request's ticket: what the log line and the metrics will say of it, written when it drops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use gw_engine::error::Kind;
use gw_engine::payloads::Capture;
use gw_engine::{AdmissionPermit, CallLog};
use http::{Method, StatusCode, Uri};

use crate::access_log::LogLine;
use crate::edge::{Edge, Place};
use crate::guarded::Busy;
use crate::outgoing::Witness;
use crate::router::{Door, Name};
use crate::stall::note_due;
use crate::upload::Share;

const CLOSED: u16 = 499;

/// Everything that is known of a request, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) edge: Arc<Edge>,
    pub(crate) accepted: Instant,
    pub(crate) request_id: Arc<str>,
    pub(crate) client_request_id: Option<String>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) route: Name,
    pub(crate) client: SocketAddr,
    /// The listener that it came in by.
    pub(crate) door: Door,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) call: Option<Arc<CallLog>>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) code: Option<String>,
    pub(crate) bytes_out: u64,
    pub(crate) is_complete: bool,
    pub(crate) place: Option<Place>,
    /// Held for its drop: its places among the key's and the team's requests at one time.
    pub(crate) entered: Option<AdmissionPermit>,
    pub(crate) share: Option<Share>,
    /// Hears what is said, where the key has that switched on.
    pub(crate) capture: Option<Box<Capture>>,
    /// Held for its drop: the connection is idle again.
    pub(crate) busy: Busy,
}

impl Witness for Ticket {
    fn sent(&mut self, bytes: &Bytes) {
        self.bytes_out += bytes.len() as u64;
        if let Some(capture) = &mut self.capture {
            capture.sent(bytes);
        }
    }

    fn completed(&mut self) {
        self.is_complete = true;
    }

    fn panicked(&mut self) {
        self.edge.metrics.panics.inc();
        self.code = Some(Kind::InternalError.code().to_owned());
        tracing::error!(request_id = %self.request_id, "a response stream panicked");
    }

    fn due(&mut self, at: Instant) {
        // The one is read by the socket of an HTTP/1 connection, the other by the task of an HTTP/2 stream.
        self.busy.answer_by(at.into());
        note_due(at.into());
    }
}

impl Ticket {
    fn write(&self) {
        let duration = self.accepted.elapsed();
        let record = self.call.as_ref().map(|call| call.record());
        let sent = self.status.map_or(CLOSED, |status| status.as_u16());
        let outcome = record.as_ref().and_then(|record| record.status).filter(|outcome| *outcome != "ok");
        // A stream that we ended because its time was over was not closed by its client.
        let is_late = outcome == Some(Kind::UpstreamTimeout.code());
        let status = if self.is_complete || is_late { sent } else { CLOSED };
        let code = match (&self.code, outcome) {
            _ if status == CLOSED => Kind::ClientClosedRequest.code(),
            (Some(code), _) => code,
            (None, Some(outcome)) => outcome,
            (None, None) => "ok",
        };
        self.edge.metrics.finished(self.route, &self.method, status, duration);
        let accepted_at = SystemTime::now().checked_sub(duration).unwrap_or(SystemTime::UNIX_EPOCH);
        self.edge.log.write(&LogLine {
            accepted: accepted_at,
            request_id: &self.request_id,
            client_request_id: self.client_request_id.as_deref(),
            method: self.method.as_str(),
            path: self.uri.path(),
            route: self.route.1,
            status,
            code,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            bytes_out: self.bytes_out,
            key: self.key.as_deref(),
            client: self.client,
            call: record,
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.write();
    }
}
