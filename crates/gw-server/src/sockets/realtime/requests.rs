//! The requests of a session, as the records have them: its handshake, its responses and its transcripts.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use gw_engine::payloads::ContentCapture;
use gw_engine::{CallLog, Caller, ClientSurface, RequestContext, request_id};
use gw_wire::dialects::ClientDialect;
use gw_wire::gateway::PresetUse;
use gw_wire::money::Money;
use gw_wire::operation::PlainOperation;
use http::{HeaderMap, Method, Uri};

use crate::attribution::names_of;
use crate::metrics::RouteLabel;
use crate::origin::Origin;
use crate::request_record::RequestRecord;
use crate::session::session_of;

/// The facts of a handshake that hold for its whole session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionFacts {
    /// The most that a response may cost.
    pub(super) max_cost: Option<Money>,
    pub(super) preset: Option<Arc<PresetUse>>,
}

/// The context of a request of a session.
pub(super) fn context(
    record: &RequestRecord,
    headers: &HeaderMap,
    caller: Caller,
    log: &Arc<CallLog>,
    facts: &SessionFacts,
) -> Box<RequestContext> {
    let names = names_of(headers, b"", caller.trusts_attribution());
    Box::new(RequestContext {
        request_id: Arc::clone(&record.request_id),
        caller,
        accepted: record.accepted,
        log: Arc::clone(log),
        client: Some(record.client.ip()),
        session: session_of(headers, b""),
        attribution: names.attribution,
        preset: facts.preset.clone(),
        matched_headers: Vec::new(),
        rules: None,
        warnings: names.warnings,
        max_cost: facts.max_cost.map(Box::new),
        dry_run: None,
        cache_control: None,
        keepalive: None,
        surface: ClientSurface::default(),
        trace: record.trace.clone(),
    })
}

/// The record of a response or a transcript. `asked` is the event that asks for it.
pub(super) fn record(
    origin: &Origin,
    route: RouteLabel,
    headers: &HeaderMap,
    caller: &Caller,
    asked: &Bytes,
) -> (Box<RequestRecord>, Arc<CallLog>) {
    let state = Arc::clone(&origin.state);
    let (request_id, log) = (request_id::generate(), Arc::new(CallLog::default()));
    let trace = state.tracer.as_ref().map(|tracer| tracer.begin(headers));
    let content = state.tracer.as_ref().and_then(|tracer| tracer.content());
    let content = content.filter(|_| trace.as_ref().is_some_and(|trace| trace.is_recorded()));
    let record = Box::new(RequestRecord {
        accepted: Instant::now(),
        client_request_id: None,
        method: Method::GET,
        uri: Uri::from_static(PlainOperation::Realtime.row().path),
        route,
        client: state.settings.trusted_proxies.client(origin.client, headers),
        listener: origin.listener,
        dialect: ClientDialect::OpenAi,
        key: Some(Arc::clone(caller.key_name())),
        call: Some(Arc::clone(&log)),
        status: None,
        code: None,
        bytes_out: 0,
        is_complete: false,
        in_flight: Some(state.take_in_flight()),
        admission_permit: None,
        body_permit: None,
        waiting_answer: None,
        meter: None,
        capture: state.engine.capture(caller, &request_id, asked),
        trace,
        trace_content: content.map(|most| Box::new(ContentCapture::new(asked.clone(), most))),
        pieces: BytesMut::new(),
        guard: None,
        is_handed_on: false,
        request_id,
        state,
    });
    (record, log)
}
