//! A plain text stream that broke off is continued by the next candidate (`mid_stream = "continue"`).
//!
//! The client sees one stream: the same id, no second role, the rest of the text. What the first upstream used is billed
//! with what the next one uses; `gateway.attempts` and a warning tell of it.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use gw_wire::request::ChatRequest;
use gw_wire::stream::Normaliser;

use crate::ask::Ask;
use crate::attempts::{Answer, Call, search};
use crate::cpu_pool::offload_if;
use crate::error::Kind;
use crate::live::Live;

/// What a continuation must know of the stream that it goes on with.
#[derive(Debug)]
pub(crate) struct Resume {
    /// Makes the normaliser of the next stream.
    normaliser: Normaliser,
    /// What the client asked.
    original: Box<ChatRequest>,
}

impl Resume {
    pub(crate) fn normaliser(&self) -> Normaliser {
        self.normaliser.continuation()
    }
}

/// Looks for somebody to go on; gives the call back with the next stream, or with the broken one.
pub(crate) type Resuming = Pin<Box<dyn Future<Output = (Box<Call>, Result<Box<Live>, Box<Live>>)> + Send>>;

/// Begins to continue a stream that broke off with an error of this kind. When that cannot be, call and stream come back.
pub(crate) fn resume(
    mut call: Box<Call>,
    mut live: Box<Live>,
    kind: Kind,
) -> Result<Resuming, (Box<Call>, Box<Live>)> {
    let Some((original, said)) = rest(&call, &live) else { return Err((call, live)) };
    live.abandon();
    call.funds = live.funds.take();
    let candidate = live.candidate.clone();
    live.meter(&call.job.meter);
    call.record(&candidate, kind.code(), live.started);
    call.tally.account.broke_off(&candidate, live.started, kind.code());
    let cpu = call.job.cpu.clone();
    Ok(Box::pin(cpu.host(async move {
        let Some(rest) = offload_if(call.job.is_heavy, || original.continued(&said)).await else {
            return (call, Err(live));
        };
        call.job.ask = Ask::Chat(Box::new(rest));
        call.job.resume = Some(Resume { normaliser: live.normaliser.continuation(), original });
        let next = call.plan.after(live.index, call.tally.hedged);
        match search(&mut call, next).await {
            Ok(Some((_, Answer::Stream(next)))) => {
                call.tally.warnings.push(Cow::Borrowed("continued_mid_stream"));
                (call, Ok(next))
            }
            _ => (call, Err(live)),
        }
    })))
}

/// The request as it was and the text so far; None when there is nobody to ask or the answer is not plain text.
fn rest(call: &Call, live: &Live) -> Option<(Box<ChatRequest>, String)> {
    let routing = &call.job.snapshot.routing;
    let Ask::Chat(asked) = &call.job.ask else { return None };
    let original = call.job.resume.as_ref().map_or(asked, |resume| &resume.original);
    let more = call.plan.candidates.len() > call.plan.after(live.index, call.tally.hedged);
    let in_time = call.job.context.accepted.elapsed() < live.candidate.clocks().total;
    let may = routing.continue_mid_stream && more && in_time && original.wants_plain_text();
    let said = live.normaliser.sent_text().filter(|_| may)?;
    Some((original.clone(), said.to_owned()))
}

/// Nobody went on: what was used by then stands in the account already.
pub(crate) fn give_up(call: &mut Call, live: &Live, kind: Kind) {
    call.tally.account.given_up(&live.candidate, kind.code());
}
