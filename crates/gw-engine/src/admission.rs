//! What a key and its team may use, and what they use now: requests per minute, requests at one time, tokens per minute,
//! money in a period.
//!
//! Two doors. `enter`, before the body is read: the rate of requests, a place among those at one time, and whether
//! there is any money left. `reserve`, when it is known what the request can cost at the worst: tokens and money are set
//! aside before an upstream is called, and settled with what was really used, exactly once.

mod purse;
mod requests;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gw_store::Limits;
use gw_wire::money::Money;

pub(crate) use self::purse::Purse;
pub use self::requests::RateState;
use self::requests::RequestRate;
use self::tokens::TokenRate;
use crate::error::{Error, Kind, Result};

/// The limits of one key or one team, and what is used of them.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// `key` or `team`, for messages.
    whose: &'static str,
    requests: Option<RequestRate>,
    tokens: Option<TokenRate>,
    at_once: Option<u32>,
    running: AtomicU32,
    purse: Option<Purse>,
}

impl Allowance {
    pub(crate) fn new(whose: &'static str, limits: &Limits) -> Self {
        Self {
            whose,
            requests: limits.rpm.map(RequestRate::new),
            tokens: limits.tpm.map(TokenRate::new),
            at_once: limits.max_in_flight,
            running: AtomicU32::new(0),
            purse: limits.budget.map(Purse::new),
        }
    }

    /// The budget's purse.
    pub(crate) fn purse(&self) -> Option<&Purse> {
        self.purse.as_ref()
    }

    fn enter(self: &Arc<Self>, now: Instant) -> std::result::Result<Entered, Refused> {
        let mut entered = Entered::default();
        if let Some(rate) = &self.requests {
            let state = rate.take(now);
            entered.requests = Some(state);
            if let Some(wait) = state.retry_after {
                let message = format!(
                    "Rate limit reached for this {}: {} requests per minute.",
                    self.whose, state.limit
                );
                return Err(refused(entered, too_fast(message, wait)));
            }
        }
        if let Some(most) = self.at_once {
            let place = Running::take(self);
            if place.count > most {
                let message =
                    format!("This {} has {most} requests under way, which is all it may have.", self.whose);
                return Err(refused(entered, too_fast(message, Duration::from_secs(1))));
            }
            entered.place = Some(place);
        }
        if self.purse.as_ref().is_some_and(Purse::is_empty) {
            return Err(refused(entered, self.no_money()));
        }
        entered.tokens = self.tokens.as_ref().map(|tokens| tokens.state(now));
        Ok(entered)
    }

    fn no_money(&self) -> Error {
        let message =
            format!("The budget of this {} is used up or set aside for requests under way.", self.whose);
        Error::new(Kind::InsufficientQuota, message)
    }

    /// Sets aside the worst case.
    fn reserve(self: &Arc<Self>, tokens: u64, cost: Money, now: Instant) -> Result<Reserved> {
        if let Some(rate) = &self.tokens
            && let Err(wait) = rate.take(tokens, now)
        {
            let message =
                format!("Rate limit reached for this {}: {} tokens per minute.", self.whose, rate.limit());
            return Err(match wait {
                Some(wait) => too_fast(message, wait),
                None => Error::new(
                    Kind::RateLimitExceeded,
                    format!("{message} This request alone may need {tokens}."),
                )
                .retry_after(Duration::from_secs(60)),
            });
        }
        let reserved = Reserved { allowance: Arc::clone(self), tokens, cost, open: true };
        if self.purse.as_ref().is_some_and(|purse| !purse.reserve(cost)) {
            // Nothing of the money was taken; what was taken of the tokens goes back.
            reserved.forget_cost();
            return Err(self.no_money());
        }
        Ok(reserved)
    }
}

fn too_fast(message: String, wait: Duration) -> Error {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let wait = Duration::from_secs(seconds.max(1));
    Error::new(Kind::RateLimitExceeded, format!("{message} Please try again in {}s.", wait.as_secs()))
        .retry_after(wait)
}

/// What the first door says.
#[derive(Debug, Default)]
pub struct Entered {
    /// The state of the limit of requests, if there is one.
    pub requests: Option<RateState>,
    /// The state of the limit of tokens, if there is one.
    pub tokens: Option<TokenState>,
    place: Option<Running>,
    /// The team's.
    above: Option<Running>,
}

/// The state of a limit of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenState {
    /// Tokens per minute.
    pub limit: u64,
    /// Tokens that are free now.
    pub remaining: u64,
    /// Until all are free again.
    pub reset: Duration,
}

/// A request that may not pass, and the limits as they stand.
pub type Refused = Box<(Entered, Error)>;

fn refused(entered: Entered, error: Error) -> Refused {
    Box::new((entered, error))
}

/// A place among the requests at one time, given back when it is dropped.
#[derive(Debug)]
struct Running {
    allowance: Arc<Allowance>,
    count: u32,
}

impl Running {
    fn take(allowance: &Arc<Allowance>) -> Self {
        let count = allowance.running.fetch_add(1, Ordering::AcqRel) + 1;
        Self { allowance: Arc::clone(allowance), count }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.allowance.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Passes the first door of a key and of its team.
///
/// # Errors
/// `rate_limit_exceeded` or `insufficient_quota`, with the limits as they stand.
pub(crate) fn enter(
    own: &Arc<Allowance>,
    team: Option<&Arc<Allowance>>,
) -> std::result::Result<Entered, Refused> {
    let now = Instant::now();
    let mut entered = own.enter(now)?;
    if let Some(team) = team {
        let above = team.enter(now)?;
        entered.above = above.place;
        // The tighter of the two is what a client should know.
        entered.requests = tighter(entered.requests, above.requests, |state| u64::from(state.remaining));
        entered.tokens = tighter(entered.tokens, above.tokens, |state| state.remaining);
    }
    Ok(entered)
}

fn tighter<T: Copy>(one: Option<T>, other: Option<T>, left: impl Fn(&T) -> u64) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if left(&other) < left(&one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// Tokens and money set aside by one allowance. Dropped unsettled, all of it goes back.
#[derive(Debug)]
struct Reserved {
    allowance: Arc<Allowance>,
    tokens: u64,
    cost: Money,
    open: bool,
}

impl Reserved {
    fn settle(&mut self, tokens: u64, cost: Money) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        if let Some(rate) = &self.allowance.tokens {
            rate.settle(self.tokens, tokens);
        }
        if let Some(purse) = &self.allowance.purse {
            purse.settle(self.cost, cost);
        }
    }

    fn forget_cost(mut self) {
        self.open = false;
        if let Some(rate) = &self.allowance.tokens {
            rate.settle(self.tokens, 0);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.settle(0, Money::ZERO);
    }
}

/// What is set aside for a request, by its key and its team.
#[derive(Debug, Default)]
pub(crate) struct Reservation(Vec<Reserved>);

impl Reservation {
    /// Sets aside the worst case.
    ///
    /// # Errors
    /// `rate_limit_exceeded` or `insufficient_quota`; then nothing is set aside.
    pub(crate) fn of<'a>(
        allowances: impl Iterator<Item = &'a Arc<Allowance>>,
        tokens: u64,
        cost: Money,
    ) -> Result<Self> {
        let now = Instant::now();
        let limited = allowances.filter(|allowance| allowance.tokens.is_some() || allowance.purse.is_some());
        limited.map(|allowance| allowance.reserve(tokens, cost, now)).collect::<Result<_>>().map(Self)
    }

    /// Puts what was really used in its place.
    pub(crate) fn settle(&mut self, tokens: u64, cost: Money) {
        self.0.iter_mut().for_each(|reserved| reserved.settle(tokens, cost));
    }
}

#[cfg(test)]
mod tests;
