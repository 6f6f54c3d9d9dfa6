//! The causes of a difference between the provider's bill and the ledger. Their amounts are the difference, to the last digit.

use gw_wire::money::Money;

use super::bill::{BilledDay, BilledTokens};
use super::rates::TokenRates;

/// The kinds of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseKind {
    /// The provider charged for tokens that the ledger does not have.
    MissingHere,
    /// The ledger has tokens that the provider did not charge for.
    MissingThere,
    /// Both have the same tokens at different prices.
    Price,
    /// The parts of cache writes that are kept for five minutes and for an hour differ.
    CacheLifetime,
    /// Tokens of another service tier than the usual one.
    Tier,
    /// Tools that the provider ran.
    HostedTools,
    /// The bill is in another currency.
    Currency,
    /// The days of the bill begin at another hour.
    TimeZone,
    /// No other cause fits.
    Unexplained,
}

impl CauseKind {
    /// The name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingHere => "missing_here",
            Self::MissingThere => "missing_there",
            Self::Price => "price",
            Self::CacheLifetime => "cache_lifetime",
            Self::Tier => "tier",
            Self::HostedTools => "hosted_tools",
            Self::Currency => "currency",
            Self::TimeZone => "time_zone",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A part of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The kind.
    pub kind: CauseKind,
    /// Its part of the provider's cost minus ours.
    pub usd: Money,
    /// The facts behind it, for people.
    pub detail: String,
}

/// The most by which the sums of a report may be rounded, in femto-USD.
const ROUNDING_FEMTOS: i128 = 1_000_000;

/// The ledger's figures of a day and a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnDay {
    /// The cost, as far as prices were known.
    pub cost: Money,
    /// Requests that an upstream served or may have served.
    pub requests: u64,
    /// Requests of which a price was unknown.
    pub unpriced: u64,
    /// The tokens. None: the rows are purged, and the sums do not tell them apart.
    pub tokens: Option<BilledTokens>,
    /// Whether the tokens tell cache writes for an hour from those for five minutes.
    pub has_lifetimes: bool,
    /// The cost beyond that of tokens: tools that the provider ran.
    pub tools: Money,
    /// The cost of calls without tokens: those that failed, or were left for a fallback.
    pub unserved: Money,
    /// The costs that answers stated.
    pub stated: StatedSum,
}

/// The costs that a provider stated in its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatedSum {
    /// The requests whose answers stated one.
    pub requests: u64,
    /// Their sum.
    pub cost: Money,
    /// The ledger's cost of the same requests.
    pub own: Money,
}

impl StatedSum {
    pub(crate) fn add(&mut self, more: &Self) {
        self.requests = self.requests.saturating_add(more.requests);
        self.cost += more.cost;
        self.own += more.own;
    }
}

/// Everything that is known of a day and a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedDay<'a> {
    pub own: OwnDay,
    pub bill: Option<&'a BilledDay>,
    pub rates: Option<TokenRates>,
    /// The hours by which the bill's days begin later than those in UTC, if that explains the tokens of all days.
    pub shifted_hours: Option<i64>,
}

impl ComparedDay<'_> {
    /// The provider's cost minus ours.
    pub(crate) fn difference(&self) -> Money {
        self.bill.map(BilledDay::cost).unwrap_or_default() - self.own.cost
    }

    /// The causes of the difference. None without a difference.
    pub(crate) fn causes(&self) -> Vec<Cause> {
        let difference = self.difference();
        if difference == Money::ZERO {
            return self.bill.map(|bill| self.foreign(bill, difference)).unwrap_or_default();
        }
        let nothing = BilledDay::default();
        let bill = self.bill.unwrap_or(&nothing);
        if !bill.foreign.is_empty() {
            return self.foreign(bill, difference);
        }
        let mut causes = Causes { left: difference, found: Vec::new() };
        self.add_tools(bill, &mut causes);
        if self.own == OwnDay::default() || (bill.cost() == Money::ZERO && bill.all_tokens().is_none()) {
            self.add_one_sided(bill, &mut causes);
        } else {
            self.add_tokens(bill, &mut causes);
        }
        causes.found
    }

    /// Amounts of another currency are not compared.
    fn foreign(&self, bill: &BilledDay, difference: Money) -> Vec<Cause> {
        if bill.foreign.is_empty() {
            return Vec::new();
        }
        let detail = format!("the provider bills {}, which is not compared", bill.foreign.join(", "));
        vec![Cause { kind: CauseKind::Currency, usd: difference, detail }]
    }

    fn add_tools(&self, bill: &BilledDay, causes: &mut Causes) {
        if bill.tool_cost == Money::ZERO {
            return;
        }
        // The ledger has a part of it where the catalogue has a price of the tool.
        let own = self.own.tools.clamp(Money::ZERO, bill.tool_cost.max(Money::ZERO));
        let tools = bill.tools.join(", ");
        causes.add(CauseKind::HostedTools, bill.tool_cost - own, || {
            format!("the provider charges for {tools}")
        });
    }

    /// One of both has nothing but tools.
    fn add_one_sided(&self, bill: &BilledDay, causes: &mut Causes) {
        let left = causes.left;
        if let Some(hours) = self.shifted_hours {
            return causes.add(CauseKind::TimeZone, left, || shifted(hours));
        }
        if self.own == OwnDay::default() {
            let requests = bill.requests.map(|count| format!(" {count}")).unwrap_or_default();
            causes.add(CauseKind::MissingHere, left, || {
                format!("the ledger has no request of this model, the provider has{requests}")
            });
        } else {
            let requests = self.own.requests;
            causes.add(CauseKind::MissingThere, left, || {
                format!("the ledger has {requests} requests of this model, the provider has none")
            });
        }
    }

    fn add_tokens(&self, bill: &BilledDay, causes: &mut Causes) {
        let known = bill.all_tokens().zip(self.own.tokens).zip(self.rates);
        let Some(((billed, own), rates)) = known else {
            let (left, is_price) = (causes.left, self.rates.is_none() || self.own.unpriced > 0);
            let kind = if is_price { CauseKind::Price } else { CauseKind::Unexplained };
            return causes.add(kind, left, || {
                let detail = if is_price { NO_PRICE } else { "the tokens of one side are not known" };
                self.with_stated(detail.to_owned())
            });
        };
        let billed = if bill.is_cache_unknown { with_cache_of(billed, &own) } else { billed };
        if let Some(cost) = bill.tier_cost {
            causes.add(CauseKind::Tier, cost - rates.cost(&bill.tier_tokens), || tiers(bill));
        }
        let own = if self.own.has_lifetimes { own } else { with_lifetimes_of(own, &billed) };
        let lifetime = lifetime(&rates, &billed, &own);
        causes.add(CauseKind::CacheLifetime, lifetime, || lifetimes(&billed, &own));
        let tokens = rates.cost(&billed) - rates.cost(&own) - lifetime - self.own.unserved;
        let (kind, detail) = match self.shifted_hours {
            Some(hours) => (CauseKind::TimeZone, shifted(hours)),
            None if tokens > Money::ZERO => {
                (CauseKind::MissingHere, counts(&billed, &own, bill, self.own.requests))
            }
            None => (CauseKind::MissingThere, counts(&billed, &own, bill, self.own.requests)),
        };
        causes.add(kind, tokens, || detail);
        let left = causes.left;
        let (kind, detail) = if left.femtos().abs() <= ROUNDING_FEMTOS {
            (CauseKind::Unexplained, "rounding of the report".to_owned())
        } else if bill.tier_cost.is_none() && bill.tier_tokens.total() > 0 {
            (CauseKind::Tier, tiers(bill))
        } else if self.own.unpriced > 0 {
            (CauseKind::Price, self.with_stated(NO_PRICE.to_owned()))
        } else {
            let side = if left > Money::ZERO { "more" } else { "less" };
            let amount = Money::from_femtos(left.femtos().abs());
            let detail = format!("{} tokens cost {amount} USD {side} there than here", billed.total());
            (CauseKind::Price, self.with_stated(detail))
        };
        causes.add(kind, left, || detail);
    }

    /// Adds the costs that the provider's answers stated, which tell a wrong price here from another bill there.
    fn with_stated(&self, detail: String) -> String {
        let StatedSum { requests, cost, own } = self.own.stated;
        if requests == 0 {
            return detail;
        }
        format!(
            "{detail}; the answers of {requests} requests stated {cost} USD, the ledger has {own} USD for them"
        )
    }
}

const NO_PRICE: &str = "the gateway knew no price of a part of the requests";

/// The causes that are found, and the part of the difference that has none yet.
struct Causes {
    left: Money,
    found: Vec<Cause>,
}

impl Causes {
    fn add(&mut self, kind: CauseKind, usd: Money, detail: impl FnOnce() -> String) {
        if usd != Money::ZERO {
            self.left = self.left - usd;
            self.found.push(Cause { kind, usd, detail: detail() });
        }
    }
}

fn shifted(hours: i64) -> String {
    let (count, side) = (hours.unsigned_abs(), if hours > 0 { "after" } else { "before" });
    format!("the days of the report begin {count} h {side} midnight UTC")
}

fn tiers(bill: &BilledDay) -> String {
    let mut names = bill.tiers.clone();
    names.sort();
    names.dedup();
    format!("{} tokens of the service tier {}", bill.tier_tokens.total(), names.join(", "))
}

fn counts(billed: &BilledTokens, own: &BilledTokens, bill: &BilledDay, requests: u64) -> String {
    let there = bill.requests.map(|count| format!("{count} requests with ")).unwrap_or_default();
    format!(
        "there {there}{} prompt and {} answer tokens, here {requests} requests with {} and {}",
        billed.prompt(),
        billed.completion,
        own.prompt(),
        own.completion
    )
}

fn lifetimes(billed: &BilledTokens, own: &BilledTokens) -> String {
    format!(
        "cache writes for five minutes and an hour: there {} and {} tokens, here {} and {}",
        billed.write_5m, billed.write_1h, own.write_5m, own.write_1h
    )
}

/// The cost of cache writes that one side has for an hour and the other for five minutes.
fn lifetime(rates: &TokenRates, billed: &BilledTokens, own: &BilledTokens) -> Money {
    let difference = |there: u64, here: u64| i128::from(there) - i128::from(here);
    let (long, short) =
        (difference(billed.write_1h, own.write_1h), difference(billed.write_5m, own.write_5m));
    if long.signum() * short.signum() >= 0 {
        return Money::ZERO;
    }
    let moved = long.abs().min(short.abs()) * long.signum();
    Money::from_femtos(moved.saturating_mul(rates.write_1h - rates.write_5m))
}

/// The tokens of a report that does not tell cached ones apart, with as many cached ones as the ledger has.
fn with_cache_of(billed: BilledTokens, own: &BilledTokens) -> BilledTokens {
    let cached = own.cached.min(billed.uncached);
    let write_5m = own.write_5m.min(billed.uncached - cached);
    let write_1h = own.write_1h.min(billed.uncached - cached - write_5m);
    let uncached = billed.uncached - cached - write_5m - write_1h;
    BilledTokens { uncached, cached, write_5m, write_1h, completion: billed.completion }
}

/// The tokens of sums, whose cache writes have as much for an hour as the report has.
fn with_lifetimes_of(own: BilledTokens, billed: &BilledTokens) -> BilledTokens {
    let writes = own.write_5m.saturating_add(own.write_1h);
    let write_1h = billed.write_1h.min(writes);
    BilledTokens { write_5m: writes - write_1h, write_1h, ..own }
}

/// The hours by which a report's days begin later than days in UTC. `own` are the ledger's tokens by hour since 1970, `billed` the
/// report's tokens by day since 1970. None: the days of UTC fit, or no whole hour fits.
pub(crate) fn shift_of_days(own: impl Fn(i64) -> u64, billed: &[(i64, u64)]) -> Option<i64> {
    let of_day = |day: i64, shift: i64| {
        let first = day * 24 + shift;
        (first..first + 24).map(&own).sum::<u64>()
    };
    let fits = |shift: i64| billed.iter().all(|(day, tokens)| of_day(*day, shift) == *tokens);
    // Rows that are missing at the end of a single day look like a shift, which moves tokens from one day to the next.
    let differ = billed.iter().filter(|(day, tokens)| of_day(*day, 0) != *tokens);
    if differ.count() < 2 {
        return None;
    }
    (1..=MAX_SHIFT_HOURS).flat_map(|hours| [hours, -hours]).find(|shift| fits(*shift))
}

/// The furthest time zone from UTC.
pub(crate) const MAX_SHIFT_HOURS: i64 = 14;

#[cfg(test)]
mod tests;
