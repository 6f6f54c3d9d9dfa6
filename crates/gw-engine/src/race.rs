//! One attempt, or two at the same time: when the first is slower than usual to say anything, a second candidate is asked
//! as well (a hedge). The first content wins, the other call is dropped, and both are accounted for.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use gw_routing::health::{HealthStatus, Probe};
use gw_routing::hedge::{Hedge, hedge_after};
use gw_routing::metrics::InFlight;
use gw_wire::failure::Failure;
use gw_wire::money::Money;

use crate::ask::Ask;
use crate::attempts::{Call, Got, Served, ask};
use crate::job::Job;
use crate::meter::Started;
use crate::plan::{Candidate, Plan};
use crate::tally::Tally;
use crate::verdict::{self, Verdict};

/// An attempt under way.
struct Runner<'c> {
    index: usize,
    candidate: &'c Candidate,
    started: Started,
}

type Asking<'f> = Pin<&'f mut (dyn Future<Output = Result<Got, Failure>> + Send)>;

/// Asks the candidate, with a hedge where that is wanted and allowed. `Err(())` = what was asked has failed and is noted.
///
/// # Errors
/// The request cannot be accounted for.
pub(crate) async fn run(
    call: &mut Call,
    index: usize,
    candidate: &Candidate,
    started: Started,
    probe: Option<Probe>,
) -> Result<Served, ()> {
    let first = Runner { index, candidate, started };
    let flying = candidate.model.measured.start_call();
    // A probe finds out about its target: it is not to be outrun.
    let hedge = hedge(call, index, candidate).filter(|_| probe.is_none());
    let Call { job, plan, tally, .. } = call;
    let mut asking = pin!(ask(job, candidate, first.started));
    let early = match hedge {
        None => Some(asking.as_mut().await),
        Some((_, after)) => tokio::time::timeout(after, asking.as_mut()).await.ok(),
    };
    let second = hedge.filter(|_| early.is_none()).and_then(|(index, _)| {
        let candidate = plan.candidates.get(index)?;
        tally.hedge = Some(afford(job, first.candidate, candidate)?);
        Some(Runner { index, candidate, started: tally.begin() })
    });
    let Some(second) = second else {
        let result = match early {
            Some(result) => result,
            None => asking.await,
        };
        return match result {
            Ok(got) => Ok(first.served(got, flying, probe)),
            Err(failure) => {
                tally.failed(job, candidate, failure, first.started);
                Err(())
            }
        };
    };
    tally.hedged = Some(second.index);
    tally.account.calling_too(second.candidate, second.started, tally.records.len() + 2, &job.ask);
    let flying_too = second.candidate.model.measured.start_call();
    let mut asking_too = pin!(ask(job, second.candidate, second.started));
    match decide(job, tally, &first, asking.as_mut(), &second, asking_too.as_mut()).await {
        Some((got, true)) => Ok(second.served(got, flying_too, None)),
        Some((got, false)) => Ok(first.served(got, flying, probe)),
        None => Err(()),
    }
}

impl Runner<'_> {
    fn served(&self, got: Got, flying: InFlight, probe: Option<Probe>) -> Served {
        let Self { index, candidate, started } = *self;
        Served { index, candidate: candidate.clone(), started, got, flying, probe }
    }
}

/// Waits for the first of two attempts that brings something; tells whether it was the second. None = both have failed.
async fn decide(
    job: &Job,
    tally: &mut Tally,
    first: &Runner<'_>,
    mut asking: Asking<'_>,
    second: &Runner<'_>,
    mut asking_too: Asking<'_>,
) -> Option<(Got, bool)> {
    let (result, is_second) = tokio::select! {
        biased;
        result = &mut asking => (result, false),
        result = &mut asking_too => (result, true),
    };
    let fallback_on_4xx = job.snapshot.routing.fallback_on_4xx;
    let (winner, other) = if is_second { (second, first) } else { (first, second) };
    match result {
        Ok(got) => {
            tally.lost(other.candidate, other.started);
            let model = &other.candidate.model;
            // Slower than this is all that is known of it.
            model.measured.record_first_token(other.started.elapsed(), Instant::now());
            if !is_second {
                // It was only slower: it may still go on if the first one breaks off.
                tally.hedged = None;
            }
            Some((got, is_second))
        }
        // What is wrong with the request is wrong with it anywhere; the first one's word is what would have been heard alone.
        Err(failure) if !is_second && verdict::verdict(&failure, fallback_on_4xx) == Verdict::Stop => {
            tally.lost(other.candidate, other.started);
            tally.failed(job, winner.candidate, failure, winner.started);
            tally.hedge_is_over();
            None
        }
        Err(failure) => {
            tally.failed(job, winner.candidate, failure, winner.started);
            let result = if is_second { asking.await } else { asking_too.await };
            match result {
                Ok(got) => Some((got, !is_second)),
                Err(failure) => {
                    tally.failed(job, other.candidate, failure, other.started);
                    tally.hedge_is_over();
                    None
                }
            }
        }
    }
}

/// The second candidate and the silence after which it is asked; None = no hedge for this attempt.
fn hedge(call: &Call, index: usize, candidate: &Candidate) -> Option<(usize, Duration)> {
    let settings = call.job.snapshot.routing.hedge?;
    let second_index = call.plan.after(index, call.tally.hedged);
    let second = call.plan.candidates.get(second_index)?;
    let now = Instant::now();
    let standing = second.model.health.status(&call.job.snapshot.routing.breaker, now);
    // Of a whole answer nobody sees the first token. The slower call may have written all of its answer by the time it is
    // given up, and what that costs cannot be known.
    let ask = &call.job.ask;
    let is_priced = ask.wants_stream() || matches!(ask, Ask::Embeddings(_));
    let is_possible = call.tally.hedged.is_none()
        && call.tally.hedge.is_none()
        && is_priced
        && !second.is_upgrade
        && matches!(standing, HealthStatus::Able)
        && call.tally.counted() + 2 <= call.job.snapshot.routing.max_attempts as usize
        && ask.calls(candidate) == 1
        && ask.calls(second) == 1;
    if !is_possible {
        return None;
    }
    Some((second_index, hedge_after(&settings, &candidate.model.measured)?))
}

/// Sets aside what a hedge that is due can cost: the slower call's prompt. None = it cannot be afforded.
fn afford(job: &Job, first: &Candidate, second: &Candidate) -> Option<Hedge> {
    let state = &job.snapshot.state;
    let worst = job.ask.prompt_cost(first).max(job.ask.prompt_cost(second));
    let hedge = state.hedges.as_ref()?.allow(worst)?;
    if state.retry_budget.allow(Instant::now()) {
        return Some(hedge);
    }
    hedge.settle(Money::ZERO);
    None
}

impl Plan {
    /// The place behind this one, without the one that was hedged with.
    pub(crate) fn after(&self, index: usize, hedged: Option<usize>) -> usize {
        let next = index + 1;
        if hedged == Some(next) { next + 1 } else { next }
    }
}
