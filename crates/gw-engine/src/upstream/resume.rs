//! Continues a plain text stream that broke off with the next candidate (`mid_stream = "continue"`).
//!
//! The client sees one stream: one id, one role, the rest of the text. The usage of both upstreams is billed.
//! `gateway.attempts` and a warning report the break.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use gw_wire::request::ChatRequest;

use crate::call::Call;
use crate::call::continuation::Continuation;
use crate::call::upstream_call::AttemptOutcome;
use crate::clock;
use crate::cpu_pool::offload_if;
use crate::error::Kind;
use crate::request::ValidatedRequest;
use crate::upstream::attempts::search;
use crate::upstream::outcome::Answer;
use crate::upstream::stream::UpstreamStream;

/// Searches for a candidate that continues the answer. Returns the call with the next stream, or with the broken one.
pub(crate) type PendingContinuation =
    Pin<Box<dyn Future<Output = (Box<Call>, Result<Box<UpstreamStream>, Box<UpstreamStream>>)> + Send>>;

/// Begins to continue a stream that broke off with this kind of error. If that is impossible, it returns the call and
/// the stream.
pub(crate) fn resume(
    mut call: Box<Call>,
    mut stream: Box<UpstreamStream>,
    kind: Kind,
) -> Result<PendingContinuation, (Box<Call>, Box<UpstreamStream>)> {
    let Some((original, said)) = rest(&call, &stream) else { return Err((call, stream)) };
    stream.cancel();
    call.reservation = stream.reservation.take();
    let candidate = stream.candidate.clone();
    stream.observe(&call.context.upstream_calls);
    call.progress.end_attempt(&candidate, stream.attempt, AttemptOutcome::Interrupted, kind.code());
    let cpu = call.context.cpu.clone();
    Ok(Box::pin(cpu.host(async move {
        let Some(rest) = offload_if(call.context.is_heavy, || original.continued(&said)).await else {
            return (call, Err(stream));
        };
        call.context.request = ValidatedRequest::Chat(Box::new(rest));
        call.context.continuation =
            Some(Box::new(Continuation { normaliser: stream.normaliser.continuation(), original }));
        let next = call.plan.next_index(stream.index, call.progress.hedged);
        match search(&mut call, next).await {
            Ok(Some((_, Answer::Stream(next)))) => {
                call.progress.warnings.push(Cow::Borrowed("continued_mid_stream"));
                (call, Ok(next))
            }
            _ => (call, Err(stream)),
        }
    })))
}

/// The client's request and the text so far; None if no candidate is left or the answer is not plain text.
fn rest(call: &Call, stream: &UpstreamStream) -> Option<(Box<ChatRequest>, String)> {
    let routing = &call.context.snapshot.routing;
    let ValidatedRequest::Chat(asked) = &call.context.request else { return None };
    let original = call.context.continuation.as_ref().map_or(asked, |resume| &resume.original);
    let more = call.plan.candidates.len() > call.plan.next_index(stream.index, call.progress.hedged);
    let in_time = clock::since(call.context.client.accepted) < stream.candidate.clocks().total;
    let may = routing.continue_mid_stream && more && in_time && original.wants_plain_text();
    let said = stream.normaliser.sent_text().filter(|_| may)?;
    Some((original.clone(), said.to_owned()))
}
