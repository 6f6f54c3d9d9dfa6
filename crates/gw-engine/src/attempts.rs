//! The one loop that calls upstreams: next candidate, at most one retry, one deadline over all of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gw_routing::health::{Permit, Probe};
use gw_routing::metrics::InFlight;
use gw_wire::failure::Failure;
use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Money;
use gw_wire::usage::Usage;
use rand::Rng;

use crate::account::Account;
use crate::ask::Ask;
use crate::cpu_pool::offload_if;
use crate::error::Error;
use crate::job::Job;
use crate::live::{self, Live};
use crate::meter::Started;
use crate::plan::{Candidate, Plan};
use crate::stream::Funds;
use crate::tally::{Tally, Warnings};
use crate::verdict::{self, Verdict};
use crate::worst::longest_answer;
use crate::{embed, race, whole};

/// The longest `Retry-After` that is waited out before the same target is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The progress of a stream is noted at least so many times in the longest answer that it may become.
const NOTES: u64 = 20;

/// One call on its way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) job: Job,
    pub(crate) plan: Plan,
    pub(crate) tally: Tally,
    /// What the client was told of a complete answer.
    pub(crate) told: Option<Told>,
    /// What the client is told that it cost: the answer, and what others charged that began it.
    pub(crate) cost: Money,
    /// The money set aside for a stream that broke off, until another upstream continues it.
    pub(crate) funds: Option<Funds>,
    /// Others may get its answer, too.
    pub(crate) is_shared: bool,
    /// The embeddings of a call that is shared.
    pub(crate) brought: Option<Box<embed::Brought>>,
}

/// Who answered, what was used and what it cost.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) candidate: Candidate,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Money>,
    /// Its length was limited by what its budget could pay.
    pub(crate) is_shortened: bool,
    /// Another one had begun it.
    pub(crate) is_continued: bool,
}

/// What a successful attempt gave.
pub(crate) enum Answer {
    /// The client's body.
    Full(Vec<u8>),
    /// A stream whose first content has come.
    Stream(Box<Live>),
}

/// What an attempt brought, before it is written for the client.
pub(crate) enum Got {
    Stream(Box<Live>),
    Whole(Vec<whole::Given>, Warnings),
    Vectors(Vec<embed::Batch>),
}

/// An attempt that brought something: whose, and since when.
pub(crate) struct Served {
    pub(crate) index: usize,
    pub(crate) candidate: Candidate,
    pub(crate) started: Started,
    pub(crate) got: Got,
    /// Counts it as in flight.
    pub(crate) flying: InFlight,
    /// It is the one request that finds out whether a broken target is well again.
    pub(crate) probe: Option<Probe>,
}

impl Call {
    /// That nobody has been asked for yet.
    pub(crate) fn new(job: Job, plan: Plan, account: Account) -> Self {
        Self {
            job,
            plan,
            tally: Tally::new(account),
            told: None,
            cost: Money::ZERO,
            funds: None,
            is_shared: false,
            brought: None,
        }
    }

    /// Notes a successful attempt.
    pub(crate) fn record_ok(&mut self, candidate: &Candidate, started: Started) {
        self.tally.record(candidate, "ok", started);
    }

    /// Notes an attempt that is over.
    pub(crate) fn record(&mut self, candidate: &Candidate, status: &'static str, started: Started) {
        self.tally.record(candidate, status, started);
    }

    /// The call was answered in full.
    pub(crate) fn served(&mut self, candidate: &Candidate, usage: &Usage, cost: Option<Money>) {
        let state = &self.job.snapshot.state;
        if let Some(conversation) = self.plan.conversation {
            state.affinity.note(conversation.id, &candidate.model.id, usage.prompt, Instant::now());
        }
        if let Some(purse) = &state.hedges {
            purse.record_served_cost(cost.unwrap_or_default());
        }
        self.tally.hedge_is_over();
        let (begun, charged) = self.tally.account.begun();
        let cost_of_all = cost.map(|cost| cost + charged);
        self.cost = cost.unwrap_or_default() + charged;
        self.told = self.is_shared.then(|| Told {
            candidate: candidate.clone(),
            usage: begun.plus(usage),
            cost: cost_of_all,
            is_shortened: self.job.is_shortened.load(Ordering::Relaxed),
            is_continued: begun != Usage::default(),
        });
        self.tally.account.served(candidate, usage, cost);
    }

    /// The `gateway` object of an answer that this candidate gave. Takes the records: it is written once.
    pub(crate) fn meta(&mut self, candidate: &Candidate, priced: bool) -> GatewayMeta {
        let mut warnings = std::mem::take(&mut self.tally.warnings);
        if !priced {
            warnings.push(Cow::Borrowed("price_unknown"));
        }
        if let Some(reason) = self.plan.upgraded(candidate, &self.tally.failures) {
            warnings.push(Cow::Borrowed(reason));
        }
        GatewayMeta {
            request_id: Arc::clone(&self.job.context.request_id),
            model_used: Arc::clone(&candidate.model.id),
            provider: Arc::clone(&candidate.model.provider),
            cache_hit: false,
            routing_strategy: self.plan.strategy.as_str(),
            fallback_used: candidate.is_fallback,
            latency_ms: self.job.latency_ms(),
            attempts: std::mem::take(&mut self.tally.records),
            warnings,
            saved: None,
            similar: None,
        }
    }
}

/// Runs the plan until a candidate answers. On failure the account is settled with the error's code.
pub(crate) async fn run(call: &mut Call) -> Result<(usize, Answer), Error> {
    let error = match search(call, 0).await {
        Ok(Some(answered)) => return Ok(answered),
        Ok(None) => call.tally.error(),
        Err(error) => error,
    };
    call.tally.account.failed(&error);
    Err(error)
}

/// Runs the plan from this candidate on; None when no candidate has answered.
///
/// # Errors
/// The request cannot be accounted for.
pub(crate) async fn search(call: &mut Call, from: usize) -> Result<Option<(usize, Answer)>, Error> {
    if from == 0 {
        // Earned by requests that call somebody, not by those that the cache answers.
        call.job.snapshot.state.retry_budget.record_request(Instant::now());
    }
    let mut next = from;
    while let Some(candidate) = call.plan.candidates.get(next).cloned() {
        match attempt(call, next, &candidate).await? {
            Outcome::Answered(index, answer) => return Ok(Some((index, answer))),
            Outcome::Next => next = call.plan.after(next, call.tally.hedged),
            Outcome::Stop => break,
        }
    }
    Ok(None)
}

/// What a candidate's attempts came to.
enum Outcome {
    Answered(usize, Answer),
    /// Another candidate may answer.
    Next,
    /// None will.
    Stop,
}

/// Tries a candidate: once, again with another key, again after a pause if it is the only one.
///
/// # Errors
/// The request cannot be accounted for.
async fn attempt(call: &mut Call, index: usize, candidate: &Candidate) -> Result<Outcome, Error> {
    let routing = call.job.snapshot.routing;
    let mut retries_left = retries(call, candidate);
    let mut keys_left = candidate.provider.keys().len().saturating_sub(1);
    loop {
        if is_over(call, candidate) {
            return Ok(Outcome::Stop);
        }
        let Some(probe) = may_pass(call, index, candidate) else { return Ok(Outcome::Next) };
        let started = call.tally.begin();
        call.tally.account.calling(candidate, started, call.tally.records.len() + 1, &call.job.ask)?;
        let known = call.tally.failures.len();
        if let Ok(served) = race::run(call, index, candidate, started, probe).await
            && let Ok((index, answer)) = finish(call, served).await
        {
            return Ok(Outcome::Answered(index, answer));
        }
        let failures = call.tally.failures.get(known..).unwrap_or_default();
        let Some(failure) = failures.last() else { return Ok(Outcome::Stop) };
        let verdict = |failure| verdict::verdict(failure, routing.fallback_on_4xx);
        // Of two that ran at the same time one may have said so; and the last failure need not be this candidate's.
        if failures.iter().any(|failure| verdict(failure) == Verdict::Stop) {
            return Ok(Outcome::Stop);
        }
        let key_failed = failures.len() == 1 && verdict::is_about_the_key(failure);
        match verdict(failure) {
            Verdict::Stop => return Ok(Outcome::Stop),
            // The provider may well serve us, only not with that key.
            _ if key_failed && keys_left > 0 && candidate.provider.has_other_key() => keys_left -= 1,
            Verdict::Retry if retries_left > 0 => {
                retries_left -= 1;
                let Some(pause) = pause(call, candidate, failure) else { return Ok(Outcome::Next) };
                tokio::time::sleep(pause).await;
            }
            Verdict::Retry | Verdict::Next => return Ok(Outcome::Next),
        }
    }
}

/// Retries of the same target. Another candidate is a better second try than the one that just failed; and of a divided
/// request the parts that had succeeded would be paid twice.
fn retries(call: &Call, candidate: &Candidate) -> u32 {
    let alone = call.plan.candidates.len() == 1 && call.job.ask.calls(candidate) == 1;
    if alone { call.job.snapshot.routing.retries } else { 0 }
}

/// Whether the calls or the time of the request are used up. Its first attempt is always made.
fn is_over(call: &Call, candidate: &Candidate) -> bool {
    let most = call.job.snapshot.routing.max_attempts as usize;
    let late = call.job.context.accepted.elapsed() >= candidate.clocks().total;
    let has_begun = !call.tally.failures.is_empty() || call.job.resume.is_some();
    call.tally.counted() >= most || (late && has_begun)
}

/// Whether the candidate's breaker lets the attempt pass; None = go on to the next. The last one is never held back, and
/// while there is room for extra attempts the others are not, either: all may be open by a common cause that is over.
fn may_pass(call: &Call, index: usize, candidate: &Candidate) -> Option<Option<Probe>> {
    let Job { snapshot, .. } = &call.job;
    let now = Instant::now();
    match candidate.model.health.request_permit(&snapshot.routing.breaker, now) {
        Permit::Granted => Some(None),
        Permit::Probe(probe) => Some(Some(probe)),
        Permit::Denied => {
            // Somebody else became the probe after the order was made: whoever is well behind it serves.
            let is_well = |other: &Candidate| {
                !other.is_upgrade && other.model.health.status(&snapshot.routing.breaker, now).is_served()
            };
            if call.plan.candidates.iter().skip(index + 1).any(is_well) {
                return None;
            }
            let is_last = call.tally.records.is_empty() && call.plan.is_last_named(index);
            (is_last || snapshot.state.retry_budget.allow(now)).then_some(None)
        }
    }
}

/// How long to wait before the same target is tried again: what it asks for, with a little jitter, so that clients that
/// failed together do not come back together. None = it is not worth it.
fn pause(call: &Call, candidate: &Candidate, failure: &Failure) -> Option<Duration> {
    let now = Instant::now();
    let breaker = &call.job.snapshot.routing.breaker;
    if !candidate.model.health.status(breaker, now).is_served() {
        return None;
    }
    let asked = failure.retry_after.unwrap_or_default();
    let jitter = Duration::from_millis(rand::rng().random_range(20..80));
    let left = candidate.clocks().total.saturating_sub(call.job.context.accepted.elapsed());
    let fits = asked <= LONGEST_PAUSE && asked + jitter < left;
    (fits && call.job.snapshot.state.retry_budget.allow(now)).then_some(asked + jitter)
}

/// Asks a candidate. What it brings is not decoded yet, unless it is a stream.
pub(crate) async fn ask(job: &Job, candidate: &Candidate, started: Started) -> Result<Got, Failure> {
    let got = match &job.ask {
        ask if ask.wants_stream() => {
            Box::pin(live::open(job, candidate, started)).await.map(|live| Got::Stream(Box::new(live)))
        }
        Ask::Embeddings(request) => {
            Box::pin(embed::fetch(job, candidate, started, request)).await.map(Got::Vectors)
        }
        _ => {
            Box::pin(whole::fetch(job, candidate, started)).await.map(|(given, told)| Got::Whole(given, told))
        }
    };
    got.map_err(|failure| candidate.provider.censor(failure))
}

/// Writes what an attempt brought for the client. An answer that cannot be read is a failure like any other, and noted.
async fn finish(call: &mut Call, served: Served) -> Result<(usize, Answer), ()> {
    let Served { index, candidate, started, got, flying, probe } = served;
    let body = match got {
        Got::Stream(mut live) => {
            call.tally.warnings.append(&mut live.warnings);
            if !live.normaliser.is_continuation() {
                call.tally.account.first_token(&candidate, call.job.latency_ms());
            }
            live.index = index;
            if let Some(tokens) = call.tally.account.progress_tokens() {
                live.note_every(tokens.min(longest_answer(&call.job.ask, &candidate) / NOTES));
            }
            let begin = |granted| Funds::new(&call.job.limiter, granted);
            live.funds = match call.funds.take() {
                Some(funds) => Some(funds.taken_over()),
                None => call.job.granted.map(begin),
            };
            candidate.model.measured.record_first_token(live.first_content, Instant::now());
            if probe.is_some() {
                candidate.model.health.record_success(&call.job.snapshot.routing.breaker, Instant::now());
            }
            // A stream is judged at its end, see `stream.rs`.
            live.flying = Some(flying);
            return Ok((index, Answer::Stream(live)));
        }
        Got::Whole(given, mut told) => {
            call.tally.warnings.append(&mut told);
            let is_heavy = given.iter().any(whole::Given::is_heavy);
            offload_if(is_heavy, || whole::complete(call, &candidate, started, &given)).await
        }
        Got::Vectors(batches) => {
            let is_heavy = batches.iter().any(embed::Batch::is_heavy);
            offload_if(is_heavy, || embed::complete(call, &candidate, started, batches)).await
        }
    };
    match body {
        Ok(body) => {
            candidate.served(&call.job.snapshot.routing.breaker, started.elapsed(), Instant::now());
            Ok((index, Answer::Full(body)))
        }
        Err(failure) => {
            let failure = candidate.provider.censor(failure);
            call.tally.failed(&call.job, &candidate, failure, started);
            Err(())
        }
    }
}
