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
use parking_lot::Mutex;

use super::{EventStream, Polled, State};
use crate::attempts::Call;
use crate::error::{Error, Kind};
use crate::live::Live;
use crate::refusal;

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
    /// In a lock only because what is under way cannot be shared between threads.
    growing: Mutex<Option<Growing>>,
    /// How often it has grown.
    steps: u32,
    /// There is no more.
    is_exhausted: bool,
    /// The tokens at which it is looked at again.
    next_look: u64,
}

impl std::fmt::Debug for Funds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Funds").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Funds {
    pub(crate) fn new(limiter: &Limiter, held: Money) -> Self {
        Self {
            limiter: limiter.clone(),
            held,
            growing: Mutex::default(),
            steps: 0,
            is_exhausted: false,
            next_look: 0,
        }
    }

    /// Another upstream goes on with the answer. Its stream counts its tokens from nothing.
    pub(crate) fn taken_over(self) -> Self {
        Self { next_look: 0, ..self }
    }
}

/// What all calls of the request cost by now, and what so many more tokens of each answer will.
fn needs(call: &Call, live: &Live, tokens: u64) -> (Money, Money) {
    let meter = &call.job.meter;
    let bill = live.meter(meter);
    // The meter knows of bytes, not of pieces.
    let unseen = live.normaliser.answer_tokens().saturating_sub(bill.usage.completion);
    let unseen = unseen.div_ceil(call.job.ask.answers().max(1));
    let now = meter.grown(live.started, unseen);
    let then = meter.grown(live.started, unseen.saturating_add(tokens));
    (meter.all().cost - bill.cost + now, then - now)
}

impl Funds {
    /// Takes the grant, or learns that there is no more. Gives the refusal.
    fn take(&mut self, grown: Result<(Reservation, i128), Refusal>, call: &mut Call) -> Option<Refusal> {
        match grown {
            Ok((reservation, granted)) => {
                self.held += Money::from_femtos(granted);
                self.is_exhausted = granted == 0;
                call.tally.account.hold_more(reservation);
                None
            }
            Err(refusal) => {
                self.is_exhausted = matches!(refusal, Refusal::Budget { .. });
                Some(refusal)
            }
        }
    }

    /// Asks for so much more, or for what there is down to a token's price.
    fn grow(&mut self, call: &Call, most: Money, least: Money) {
        self.steps += 1;
        let (limiter, caller) = (self.limiter.clone(), call.job.context.caller.clone());
        let id = format!("{}+{}", call.job.context.request_id, self.steps);
        let (most, least) = (most.femtos(), least.femtos());
        *self.growing.get_mut() =
            Some(Box::pin(
                async move { limiter.reserve_up_to(&id, caller.subjects(), 0, most, least).await },
            ));
    }
}

impl EventStream {
    /// Looks whether the stream may go on; None = it may.
    pub(super) fn poll_funds(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        loop {
            let State::Live(call, live) = &mut self.state else { return None };
            let (tokens, funds) = (live.normaliser.answer_tokens(), live.funds.as_mut()?);
            let mut refusal = None;
            if let Some(growing) = funds.growing.get_mut() {
                let Poll::Ready(grown) = growing.as_mut().poll(cx) else {
                    // Not reading is what slows the upstream down.
                    return Some(self.poll_clocks(cx).unwrap_or(Poll::Pending));
                };
                *funds.growing.get_mut() = None;
                refusal = funds.take(grown, call);
            } else if tokens < funds.next_look {
                return None;
            }
            let (held, is_exhausted) = (funds.held, funds.is_exhausted || refusal.is_some());
            // At its end every piece is looked at.
            funds.next_look = tokens + if is_exhausted { 1 } else { LOOK_EVERY };
            let (spent, step) = needs(call, live, if is_exhausted { MARGIN } else { STEP });
            if spent + step <= held {
                return None;
            }
            if is_exhausted {
                return Some(self.cut_off(refusal));
            }
            let (_, least) = needs(call, live, 1);
            let most = spent + step - held;
            if let Some(funds) = &mut live.funds {
                funds.grow(call, most, least.min(most));
            }
        }
    }

    /// No more can be set aside: the upstream is dropped, and the client hears the usage and the reason of the end.
    fn cut_off(&mut self, refusal: Option<Refusal>) -> Polled {
        let State::Live(mut call, mut live) = std::mem::replace(&mut self.state, State::Over) else {
            return Poll::Ready(None);
        };
        live.abandon();
        let error = match refusal {
            None | Some(Refusal::Budget { .. }) => Error::new(
                Kind::InsufficientQuota,
                "The budget of the API key or its team is used up; the answer ends here.",
            ),
            Some(refusal) => refusal::error(&refusal),
        };
        let ((_, class, code), mut out) = (error.kind.row(), std::mem::take(&mut live.out));
        let bill = live.meter(&call.job.meter);
        call.record(&live.candidate, code, live.started);
        let (used, charged) = call.tally.account.begun();
        let gateway = call.meta(&live.candidate, bill.known_cost().is_some());
        let closing = Closing { usage: used.plus(&bill.usage), cost: bill.cost + charged, gateway: &gateway };
        live.normaliser.write_usage(&closing, &mut out);
        call.tally.account.cut(&live.candidate, live.started, code);
        write_error(&mut out, &error.message, class, code);
        self.failure = Some(error);
        self.send(&out)
    }
}
