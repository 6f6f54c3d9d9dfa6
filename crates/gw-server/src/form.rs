//! Generation requests that are forms with files: the checks of the edge, the reading of the form, then the engine's call.

mod reading;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::payloads::ContentCapture;
use gw_engine::request::uploads::{FormKind, UploadedForm};
use gw_engine::{CallLog, Caller, ClientSurface, RequestContext};
use gw_wire::request::form::form_body;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body::Body;
use tokio::sync::oneshot;

use self::reading::{EarlyForm, ReadForm, read_form};
use crate::attribution::names_of;
use crate::cut::until_cut;
use crate::generate::{admitted, answered, count_own_tokens};
use crate::preset::{self, PresetTarget};
use crate::request_record::RequestRecord;
use crate::response::{ExtraHeaders, GatewayReply, HttpReply};
use crate::session::session_of;
use crate::state::ServerState;
use crate::upload::{BoxError, content_length, too_large};
use crate::wishes::Wishes;

/// Checks limits, media type and size, reads the form, then calls the engine.
pub(crate) async fn generate<B>(
    parts: &Parts,
    kind: FormKind,
    body: &mut B,
    record: &mut RequestRecord,
    caller: Caller,
    extra: &mut ExtraHeaders,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let state = Arc::clone(&record.state);
    record.in_flight = Some(state.begin_generation(&caller)?);
    let wishes = Wishes::read(&parts.headers)?;
    // A dry run uses up no limit.
    if wishes.dry_run.is_none() {
        record.admission_permit =
            Some(admitted(state.engine.admit(&caller, &record.request_id).await, extra)?);
    }
    let boundary = boundary(&parts.headers)?;
    let limit = state.settings.upload_limit;
    // The refusal comes before the first read, so a client that waits for `100 Continue` sends nothing.
    if content_length(&parts.headers).is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    let length = content_length(&parts.headers);
    // A request that rules or wishes measure before it is sent waits for its file. Budgets of the key and the team reserve the longest
    // file that the length allows.
    let waits =
        record.state.engine.has_reserving_rule() || wishes.dry_run.is_some() || wishes.max_cost.is_some();
    let (sender, early) = oneshot::channel();
    let early_form = EarlyForm {
        sender: Some(sender).filter(|_| !waits && length.is_some()),
        most_bytes: length.unwrap_or(0),
    };
    let key_id = Arc::clone(caller.key_id());
    let mut reading = Box::pin(read_form(body, boundary, &state, &key_id, early_form));
    let (read, is_whole) = tokio::select! {
        biased;
        whole = &mut reading => (whole, true),
        Ok(begun) = early => (Ok(begun), false),
    };
    let request = match read.and_then(|read| FormRequest::of(kind, read, record)) {
        Ok(request) => request,
        Err(error) => FormRequest::malformed(kind, error)?,
    };
    let is_whole = is_whole || request.form.is_err();
    let log = Arc::new(CallLog::default());
    let mut calling = Box::pin(call(parts, request, (record, caller), wishes, &log, extra));
    if is_whole {
        return calling.await;
    }
    // The upstream gets the file while it comes. A form that fails ends the call.
    let mut answer = None;
    poll_fn(|cx| {
        if answer.is_none()
            && let Poll::Ready(answered) = calling.as_mut().poll(cx)
        {
            let is_refused = answered.is_err();
            answer = Some(answered);
            if is_refused {
                return Poll::Ready(Ok(()));
            }
        }
        reading.as_mut().poll(cx).map(|read| read.map(drop))
    })
    .await
    .inspect_err(|error| log.ended(error.kind.code()))?;
    match answer {
        Some(answer) => answer,
        None => calling.await,
    }
}

/// A form that was read, or whose file is still coming.
struct FormRequest {
    kind: FormKind,
    fields: Bytes,
    form: Result<UploadedForm>,
}

impl FormRequest {
    /// The request of a form, whose memory the record holds.
    fn of(kind: FormKind, read: ReadForm, record: &mut RequestRecord) -> Result<Self> {
        record.body_permit = read.permit;
        let fields = Bytes::from(form_body(&read.fields)?);
        Ok(Self { kind, fields, form: Ok(read.form) })
    }

    /// The request of a form that cannot be read. The engine refuses it, so that it has a row as any request that is wrong.
    ///
    /// # Errors
    /// The form did not come: it is too large or too slow, or it broke off.
    fn malformed(kind: FormKind, error: Error) -> Result<Self> {
        if error.kind != Kind::Invalid {
            return Err(error);
        }
        Ok(Self { kind, fields: Bytes::from_static(b"{}"), form: Err(error) })
    }
}

/// Has the engine answer a request.
async fn call(
    parts: &Parts,
    request: FormRequest,
    (record, caller): (&mut RequestRecord, Caller),
    wishes: Wishes,
    log: &Arc<CallLog>,
    extra: &mut ExtraHeaders,
) -> Result<GatewayReply> {
    let FormRequest { kind, fields, form } = request;
    let state = Arc::clone(&record.state);
    let names = names_of(&parts.headers, &fields, caller.trusts_attribution());
    if wishes.dry_run.is_none() {
        capture(record, &state, &caller, &fields);
        record.call = Some(Arc::clone(log));
    }
    let cpu = state.engine.cpu_of(&caller);
    // No upstream gets the tags.
    let mut fields = names.body.unwrap_or(fields);
    let mut surface = ClientSurface { is_plain: wishes.is_plain, ..ClientSurface::default() };
    let (mut preset, mut matched_headers) = (None, Vec::new());
    if let Some(presets) = state.engine.presets(&fields, false) {
        matched_headers = state.engine.matched_headers(&parts.headers);
        let target = PresetTarget { operation: Some(kind.operation()), is_generation: true };
        let to = (target, &mut surface);
        (fields, preset) = Box::pin(preset::apply(presets, &cpu, &caller, to, fields)).await?;
    }
    let context = Box::new(RequestContext {
        request_id: Arc::clone(&record.request_id),
        caller,
        accepted: record.accepted,
        log: Arc::clone(log),
        client: Some(record.client.ip()),
        session: session_of(&parts.headers, &fields),
        attribution: names.attribution,
        preset,
        matched_headers,
        rules: None,
        warnings: names.warnings,
        max_cost: wishes.max_cost.map(Box::new),
        dry_run: wishes.dry_run.clone(),
        cache_control: None,
        keepalive: state.settings.keepalive,
        surface,
        trace: record.trace.clone(),
    });
    let engine = Arc::clone(&state.engine);
    let calling = pin!(cpu.host(async move { engine.generate_from_form(kind, context, fields, form).await }));
    let reply = until_cut(&state, Some(log), calling).await;
    if let Some(report) = wishes.dry_run.and_then(|dry_run| dry_run.take()) {
        return Ok(HttpReply::json(report));
    }
    count_own_tokens(record, log, extra);
    let reply = reply?;
    extra.extend(reply.headers);
    Ok(answered(reply.body, record, extra))
}

/// Begins to keep the fields for keys and traces with payloads. Files are not kept.
fn capture(record: &mut RequestRecord, state: &ServerState, caller: &Caller, fields: &Bytes) {
    if let Some((trace, most)) = record.trace.as_ref().zip(state.tracer.as_ref().and_then(|it| it.content()))
        && trace.is_recorded()
    {
        record.trace_content = Some(Box::new(ContentCapture::new(fields.clone(), most)));
    }
    record.capture = state.engine.capture(caller, &record.request_id, fields);
}

/// The line between the parts of a form.
fn boundary(headers: &HeaderMap) -> Result<String> {
    let unsupported = |message: &'static str| Err(Error::new(Kind::UnsupportedMediaType, message));
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let form = types.next().and_then(|value| value.to_str().ok()).filter(|value| {
        let essence = value.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("multipart/form-data")
    });
    let (Some(form), None) = (form, types.next()) else {
        return unsupported("Send the request body as a form, with 'Content-Type: multipart/form-data'.");
    };
    let is_encoded = |value: &HeaderValue| !matches!(value.as_bytes().trim_ascii(), b"" | b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().any(is_encoded) {
        return unsupported("A form must not have a Content-Encoding.");
    }
    multer::parse_boundary(form).map_err(|_| {
        Error::new(Kind::Invalid, "The Content-Type of the form has no 'boundary' that can be used.")
    })
}
