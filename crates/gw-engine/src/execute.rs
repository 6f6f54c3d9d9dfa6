//! One uncached call: reserves its worst case, calls upstreams, and answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use gw_limits::{Limiter, Subject};
use gw_wire::stream::Opening;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::reserve::{reserve, reserve_with_file};
use crate::error::{Error, Kind, Result};
use crate::request::one_shot::OneShot;
use crate::response::disconnect::{DetachOnDrop, DisconnectDrain};
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::PendingFirstToken;
use crate::response::headers::{cache_status, cost_header, left_header, reply_headers};
use crate::response::reply::{Reply, ReplyBody};
use crate::services::Services;
use crate::upstream::attempts;
use crate::upstream::outcome::Answer;

/// How long the head of a streamed answer waits for a first token. Until then a failure is a plain HTTP error.
pub(crate) const COMMIT_AFTER: Duration = Duration::from_secs(10);
/// How long a finished answer waits until Redis and the ledger tell what its budgets have left.
const MAX_WAIT_FOR_LEFT: Duration = Duration::from_secs(2);

/// Calls upstreams for this request alone.
///
/// # Errors
/// The reservation is refused, or no candidate answers.
pub(crate) async fn execute(services: &Services, mut call: Box<Call>) -> Result<Reply> {
    if let Err(error) = reserve_with_file(&services.limiter, &mut call).await {
        call.fail(&error);
        return Err(error);
    }
    execute_reserved(services, call).await
}

/// As [`execute`], for a request whose worst case is reserved.
///
/// # Errors
/// No candidate answers.
async fn execute_reserved(services: &Services, call: Box<Call>) -> Result<Reply> {
    if call.context.request.wants_stream() {
        return Box::pin(stream(services, call)).await;
    }
    match services.disconnect_drain_of(&call) {
        Some(drain) => {
            let log = Arc::clone(&call.context.client.log);
            let hosted = call.context.cpu.clone().host(unary(call));
            DetachOnDrop::new(Box::pin(hosted), drain, log).await
        }
        None => unary(call).await,
    }
}

/// Calls upstreams for this request alone, without a client, and returns the stream at once: errors are events of the stream.
/// A stream that is dropped cancels its upstream call.
///
/// # Errors
/// The reservation is refused.
pub(crate) async fn execute_as_stream(services: &Services, mut call: Box<Call>) -> Result<Box<EventStream>> {
    if let Err(error) = reserve(&services.limiter, &mut call).await {
        call.fail(&error);
        return Err(error);
    }
    Ok(waiting_stream(services, call, None))
}

/// Executes a request that could have shared another request's call, and cannot.
///
/// # Errors
/// As [`execute`].
pub(crate) async fn execute_after_miss(services: &Services, call: Box<Call>) -> Result<Reply> {
    let mut reply = execute(services, call).await?;
    reply.headers.push(cache_status("MISS"));
    Ok(reply)
}

/// As [`execute_after_miss`], for a request whose worst case is reserved.
///
/// # Errors
/// No candidate answers.
pub(crate) async fn execute_reserved_after_miss(services: &Services, call: Box<Call>) -> Result<Reply> {
    let mut reply = execute_reserved(services, call).await?;
    reply.headers.push(cache_status("MISS"));
    Ok(reply)
}

async fn unary(mut call: Box<Call>) -> Result<Reply> {
    let (index, answer) = attempts::run(&mut call).await?;
    let mut headers = reply_headers(call.plan.candidates.get(index));
    let is_without_cost = !call.context.request.writes_text();
    if is_without_cost || call.context.request.client().is_some() {
        headers.extend(cost_header(call.cost));
    }
    let media_type = call.context.request.one_shot().and_then(OneShot::media_type);
    headers.extend(media_type.map(|media_type| (CONTENT_TYPE, HeaderValue::from_static(media_type))));
    let AttemptContext { client, limiter, .. } = &call.context;
    let subjects = match call.plan.candidates.get(index) {
        Some(served) => client.subjects_at(limiter, served.serving()),
        None => Cow::Borrowed(client.subjects()),
    };
    headers.extend(budget_left(limiter, &subjects).await);
    match answer {
        Answer::Full(body) => Ok(Reply { headers, body: ReplyBody::Full(body) }),
        Answer::Stream(_) | Answer::Vectors(_) | Answer::Socket(_) => {
            Err(Error::new(Kind::InternalError, "The answer is not a document."))
        }
    }
}

/// The header with the least money that a budget of these subjects has left after the request. None: none has a budget, or the
/// spending of one of them is not known in time.
pub(crate) async fn budget_left(
    limiter: &Limiter,
    subjects: &[Arc<Subject>],
) -> Option<(HeaderName, HeaderValue)> {
    if !subjects.iter().any(|subject| subject.limits().budget.is_some()) {
        return None;
    }
    let left = match limiter.least_left_here(subjects) {
        Some(left) => left,
        // A header must not hold up an answer while Redis or the ledger is slow. Redis may know a budget no longer, and then the
        // ledger is asked.
        None => {
            let learned =
                tokio::time::timeout(MAX_WAIT_FOR_LEFT, Box::pin(limiter.least_left(subjects))).await;
            learned.ok().flatten()
        }
    };
    left.and_then(left_header)
}

async fn stream(services: &Services, call: Box<Call>) -> Result<Reply> {
    let file_type = call.context.request.form().filter(|form| form.is_file());
    let file_type = file_type.and_then(|_| call.context.request.one_shot()?.media_type());
    let disconnect_drain = services.disconnect_drain_of(&call);
    let limiter = call.context.limiter.clone();
    let subjects = file_type.map(|_| call.context.client.subjects().to_vec()).unwrap_or_default();
    let mut stream = waiting_stream(services, call, disconnect_drain);
    if let Some(file_type) = file_type {
        // A file has no place for a sign of life, so that its head waits for its first piece.
        let mut headers = reply_headers(stream.opened().await?.as_ref());
        let (own_type, cost) = stream.sound();
        headers.extend(cost_header(cost));
        if cost.is_some() {
            // The reservation covers the whole answer, so no less is left after it.
            headers.extend(budget_left(&limiter, &subjects).await);
        }
        headers.push((CONTENT_TYPE, own_type.unwrap_or(HeaderValue::from_static(file_type))));
        return Ok(Reply { headers, body: ReplyBody::Stream(stream) });
    }
    let headers = match tokio::time::timeout(COMMIT_AFTER, stream.opened()).await {
        Ok(served) => reply_headers(served?.as_ref()),
        Err(_) => Vec::new(),
    };
    Ok(Reply { headers, body: ReplyBody::Stream(stream) })
}

/// The stream of a call whose upstreams are not called yet.
fn waiting_stream(
    services: &Services,
    mut call: Box<Call>,
    disconnect_drain: Option<DisconnectDrain>,
) -> Box<EventStream> {
    let (keepalive, log) = (call.context.client.keepalive, Arc::clone(&call.context.client.log));
    let due = call.context.client.accepted + call.plan.longest_total();
    let opening = opening(&call);
    let first_token: PendingFirstToken = Box::pin(call.context.cpu.clone().host(async move {
        let found = attempts::run(&mut call).await;
        (call, found)
    }));
    // From here on the stream decides whether a disconnect drains or cancels the call.
    let waiting =
        EventStream::waiting(first_token, log, keepalive, services.cutoff_watch(), disconnect_drain);
    Box::new(waiting.due_by(due).opened_by(opening))
}

/// The opening of a stream that no upstream has answered yet.
pub(crate) fn opening(call: &Call) -> Opening {
    let first = call.plan.candidates.first();
    let prompt_tokens = first.map_or(0, |first| call.context.request.prompt_tokens(first));
    call.context.opening(call.context.request.model().to_owned(), prompt_tokens)
}
