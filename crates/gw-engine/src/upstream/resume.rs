//! A plain text stream that broke off is continued by the next candidate (`mid_stream = "continue"`).
//!
//! The client sees one stream: the same id, no second role, the rest of the text. What the first upstream used is billed
//! with what the next one uses; `gateway.attempts` and a warning tell of it.

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

/// Looks for somebody to go on; gives the call back with the next stream, or with the broken one.
pub(crate) type PendingContinuation =
    Pin<Box<dyn Future<Output = (Box<Call>, Result<Box<UpstreamStream>, Box<UpstreamStream>>)> + Send>>;

/// Begins to continue a stream that broke off with an error of this kind. When that cannot be, call and stream come back.
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
        call.context.continuation = Some(Continuation { normaliser: stream.normaliser.resumed(), original });
        let next = call.plan.after(stream.index, call.progress.hedged);
        match search(&mut call, next).await {
            Ok(Some((_, Answer::Stream(next)))) => {
                call.progress.warnings.push(Cow::Borrowed("continued_mid_stream"));
                (call, Ok(next))
            }
            _ => (call, Err(stream)),
        }
    })))
}

/// The request as it was and the text so far; None when there is nobody to request or the answer is not plain text.
fn rest(call: &Call, stream: &UpstreamStream) -> Option<(Box<ChatRequest>, String)> {
    let routing = &call.context.snapshot.routing;
    let ValidatedRequest::Chat(asked) = &call.context.request else { return None };
    let original = call.context.continuation.as_ref().map_or(asked, |resume| &resume.original);
    let more = call.plan.candidates.len() > call.plan.after(stream.index, call.progress.hedged);
    let in_time = clock::since(call.context.client.accepted) < stream.candidate.clocks().total;
    let may = routing.continue_mid_stream && more && in_time && original.wants_plain_text();
    let said = stream.normaliser.said().filter(|_| may)?;
    Some((original.clone(), said.to_owned()))
}
