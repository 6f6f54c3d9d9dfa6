//! A stream whose budget must not be crossed (`on_budget = "cut"`): it sets more aside as it grows, in steps, and ends when there is no
//! more.
//!
//! What it has used is estimated from below while it runs: a token for every three bytes or every piece, whichever is more. So a
//! stream can cross its budget by the tokens that its upstream makes between our last look and its end, and by what the upstream counts beyond
//! that estimate.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use gw_limits::{Limiter, Refusal, Reservation};
use gw_wire::money::Money;
use gw_wire::stream::{Closing, write_error};
use gw_wire::usage::Usage;

use super::{EventStream, Polled, State};
use crate::attempts::Call;
use crate::error::{Error, Kind};
use crate::live::Live;

/// Tokens of each answer that a step sets aside.
const STEP: u64 = 1_024;
/// Tokens between two looks at what is left.
const LOOK_EVERY: u64 = 64;
/// Tokens that an upstream may make after it was cut off.
const MARGIN: u64 = 32;

type Growing = Pin<Box<dyn Future<Output = Result<(Reservation, i128), Refusal>> + Send>>;

/// What is set aside for a stream.
pub(crate) struct Funds {
    limiter: Limiter,
    held: Money,
    growing: Option<Growing>,
    /// How often it has grown.
    steps: u32,
    /// There is no more.
    is_exhausted: bool,
    /// The tokens at which it is looked at again.
    next_look: u64,
}

impl Funds {
    pub(crate) fn new(limiter: &Limiter, held: Money) -> Self {
        Self { limiter: limiter.clone(), held, growing: None, steps: 0, is_exhausted: false, next_look: 0 }
    }
}

/// What all calls of the request cost by now, and what so many more tokens of each answer will.
fn needs(call: &Call, live: &Live, tokens: u64) -> (Money, Money) {
    let meter = &call.job.meter;
    let bill = live.meter(meter);
    let usage =
        Usage { completion: bill.usage.completion.max(live.normaliser.answer_tokens()), ..bill.usage };
    let cost = |usage: &Usage| live.candidate.model.cost(usage).unwrap_or_default();
    let now = cost(&usage);
    let more = tokens.saturating_mul(call.job.ask.answers());
    let then = cost(&Usage { completion: usage.completion.saturating_add(more), ..usage });
    let others = meter.all().cost - bill.cost;
    (others + now.max(bill.cost), then - now)
}

impl EventStream {
    /// Looks whether the stream may go on; None = it may.
    pub(super) fn poll_funds(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let State::Live(call, live) = &mut self.state else { return None };
        let (tokens, mut funds) = (live.normaliser.answer_tokens(), live.funds.take()?);
        if let Some(growing) = &mut funds.growing {
            let Poll::Ready(grown) = growing.as_mut().poll(cx) else {
                live.funds = Some(funds);
                // Not reading is what slows the upstream down.
                return Some(self.poll_clocks(cx).unwrap_or(Poll::Pending));
            };
            funds.growing = None;
            match grown {
                Ok((reservation, granted)) => {
                    funds.held += Money::from_femtos(granted);
                    call.tally.account.hold_more(reservation);
                }
                Err(_) => funds.is_exhausted = true,
            }
        } else if tokens < funds.next_look {
            live.funds = Some(funds);
            return None;
        }
        funds.next_look = tokens + LOOK_EVERY;
        let (spent, step) = needs(call, live, STEP);
        if funds.is_exhausted {
            let (_, margin) = needs(call, live, MARGIN);
            funds.next_look = tokens + 1;
            let is_over = spent + margin > funds.held;
            live.funds = Some(funds);
            return if is_over { Some(self.cut_off()) } else { None };
        }
        if spent + step > funds.held {
            funds.steps += 1;
            let (limiter, caller) = (funds.limiter.clone(), call.job.context.caller.clone());
            let id = format!("{}+{}", call.job.context.request_id, funds.steps);
            let (_, least) = needs(call, live, 1);
            let (most, least) = (step.femtos(), least.femtos());
            funds.growing =
                Some(Box::pin(
                    async move { limiter.reserve_up_to(&id, caller.subjects(), 0, most, least).await },
                ));
            live.funds = Some(funds);
            return self.poll_funds(cx);
        }
        live.funds = Some(funds);
        None
    }

    /// The budget is used up: the upstream is dropped, and the client hears what was used and why it ends.
    fn cut_off(&mut self) -> Polled {
        let State::Live(mut call, mut live) = std::mem::replace(&mut self.state, State::Over) else {
            return Poll::Ready(None);
        };
        live.abandon();
        let (code, mut out) = (Kind::InsufficientQuota.code(), std::mem::take(&mut live.out));
        let bill = live.meter(&call.job.meter);
        call.record(&live.candidate, code, live.started);
        let (used, charged) = call.tally.account.begun();
        let gateway = call.meta(&live.candidate, bill.known_cost().is_some());
        let closing = Closing { usage: used.plus(&bill.usage), cost: bill.cost + charged, gateway: &gateway };
        live.normaliser.tell_usage(&closing, &mut out);
        call.tally.account.cut(&live.candidate, live.started, code);
        let message = "The budget of the API key or its team is used up; the answer ends here.";
        let error = Error::new(Kind::InsufficientQuota, message);
        write_error(&mut out, message, "insufficient_quota", code);
        self.failure = Some(error);
        self.send(&out)
    }
}
