//! What a call used and cost, noted exactly once however the call ended.

use std::sync::Arc;
use std::time::Instant;

use gw_cache::Stored;
use gw_limits::Reservation;
use gw_store::journal::Journal;
use gw_wire::gateway::AttemptRecord;
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use crate::ask::Ask;
use crate::call::{CallLog, Context};
use crate::error::{Error, GATEWAY_SHUTDOWN, Kind, Result};
use crate::job::millis;
use crate::ledger::Line;
use crate::meter::{Meter, Started};
use crate::metrics::Metrics;
use crate::plan::{Candidate, Plan};

/// The open account of one call. Dropped before it is settled, it notes that the client went away.
#[derive(Debug)]
pub(crate) struct Account {
    log: Arc<CallLog>,
    metrics: Arc<Metrics>,
    operation: &'static str,
    settled: bool,
    /// What the upstream calls have used.
    meter: Arc<Meter>,
    /// An attempt whose upstream has not answered yet.
    calling: Option<Calling>,
    /// Another one that was begun beside it.
    beside: Option<Calling>,
    /// What upstreams used and charged that began an answer and broke off. The client is told of it.
    begun: (Usage, Money),
    /// Tokens of the answer that came out of the cache, and what they would have cost.
    found: (Usage, Money),
    /// Tokens and money set aside.
    reservation: Reservation,
    /// What was set aside besides, when everything had to be asked for anew or a stream grew.
    more: Vec<Reservation>,
    /// Its line in the ledger, until it is written.
    line: Option<Line>,
    accepted: Instant,
}

/// An attempt that is not over.
#[derive(Debug)]
struct Calling {
    candidate: Candidate,
    started: Started,
}

impl Account {
    pub(crate) fn open(
        context: &Context,
        metrics: Arc<Metrics>,
        journal: Option<&Arc<Journal>>,
        operation: &'static str,
    ) -> Self {
        let line = journal.map(|journal| Line::new(journal, context, operation));
        let log = Arc::clone(&context.log);
        let accepted = context.accepted;
        Self {
            log,
            metrics,
            operation,
            settled: false,
            meter: Arc::default(),
            calling: None,
            beside: None,
            begun: Default::default(),
            found: Default::default(),
            reservation: Reservation::default(),
            more: Vec::new(),
            line,
            accepted,
        }
    }

    /// The meter of the request's upstream calls.
    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// What was asked for, for the ledger.
    pub(crate) fn asked(&mut self, ask: &Ask) {
        if let Some(line) = &mut self.line {
            line.asked(ask);
        }
    }

    /// How it is routed, for the ledger.
    pub(crate) fn routed(&mut self, plan: &Plan) {
        if let Some(line) = &mut self.line {
            line.routed(plan);
        }
    }

    /// Holds what was set aside until the call is over.
    pub(crate) fn hold(&mut self, reservation: Reservation) {
        self.reservation = self.dated(reservation);
    }

    /// Holds what was set aside besides.
    pub(crate) fn hold_more(&mut self, reservation: Reservation) {
        let more = self.dated(reservation);
        self.more.push(more);
    }

    /// A budget counts it in the period in which the ledger has it.
    fn dated(&self, mut reservation: Reservation) -> Reservation {
        if let Some(line) = &self.line {
            reservation.begun_at(line.at());
        }
        reservation
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// An attempt begins, the `count`th, with upstream calls of these sizes. Noted before it is over: a client that goes away
    /// meanwhile has caused it all the same, and the provider bills the prompt.
    ///
    /// # Errors
    /// The request cannot be accounted for, so it must not go on.
    pub(crate) fn calling(
        &mut self,
        candidate: &Candidate,
        started: Started,
        count: usize,
        ask: &Ask,
    ) -> Result<()> {
        self.attempts(count);
        if let Some(line) = &mut self.line {
            line.begin(candidate, ask, self.meter.all())?;
        }
        self.calling = Some(Calling { candidate: candidate.clone(), started });
        Ok(())
    }

    /// Another attempt begins beside the one under way. A process that dies meanwhile has caused both.
    pub(crate) fn calling_too(&mut self, candidate: &Candidate, started: Started, count: usize, ask: &Ask) {
        self.attempts(count);
        if let Some(line) = &mut self.line {
            line.begin_too(candidate, ask);
        }
        self.beside = Some(Calling { candidate: candidate.clone(), started });
    }

    /// An attempt is not under way any more.
    fn is_over(&mut self, started: Started) {
        let is_it = |calling: &Calling| calling.started == started;
        if self.beside.as_ref().is_some_and(is_it) {
            self.beside = None;
        } else if self.calling.as_ref().is_some_and(is_it) {
            self.calling = self.beside.take();
        }
    }

    /// An attempt failed, or was given up for a faster one. What its provider has served of it, it bills. Gives what it costs.
    pub(crate) fn call_failed(&mut self, candidate: &Candidate, started: Started) -> Money {
        self.is_over(started);
        let bill = self.meter.of(started);
        if bill.usage.total() > 0 {
            self.metrics.used(&candidate.metrics, &bill.usage, bill.known_cost());
        }
        bill.cost
    }

    /// An upstream began the answer and broke off with this code; another one goes on.
    pub(crate) fn broke_off(&mut self, candidate: &Candidate, started: Started, code: &'static str) {
        self.metrics.failed(&candidate.metrics, code);
        self.in_vain(candidate, started);
    }

    /// What an upstream said is of no use, and paid for.
    pub(crate) fn in_vain(&mut self, candidate: &Candidate, started: Started) {
        self.is_over(started);
        let bill = self.meter.of(started);
        self.metrics.used(&candidate.metrics, &bill.usage, bill.known_cost());
        let (used, charged) = self.begun;
        self.begun = (used.plus(&bill.usage), charged + bill.cost);
    }

    /// What upstreams used and charged that began the answer before the last one.
    pub(crate) fn begun(&self) -> (Usage, Money) {
        self.begun
    }

    /// How many tokens a stream gives between two notes of its progress; None = nobody keeps them.
    pub(crate) fn progress_tokens(&self) -> Option<u64> {
        self.line.as_ref().map(Line::progress_tokens)
    }

    /// The answer of this candidate has used so much by now.
    pub(crate) fn progress(&mut self, candidate: &Candidate, usage: &Usage) {
        let (usage, paid) = (self.begun.0.plus(usage), self.meter.all().cost);
        if let Some(line) = &mut self.line {
            line.progress(candidate, &usage, paid);
        }
    }

    /// Notes an upstream call that is over, and the upstream's reason when it failed.
    pub(crate) fn attempted(&mut self, record: &AttemptRecord, reason: Option<String>) {
        if let Some(line) = &mut self.line {
            line.attempted(record, reason);
        }
    }

    /// Notes what an upstream that failed gave as its reason, for the log.
    pub(crate) fn upstream_said(&self, reason: &str) {
        self.log.note(|record| record.upstream_error = Some(reason.into()));
    }

    /// Notes the number of upstream calls so far.
    pub(crate) fn attempts(&self, count: usize) {
        self.log.note(|record| record.attempts = u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Notes when the first content of a stream came.
    pub(crate) fn first_token(&self, candidate: &Candidate, millis: u64) {
        candidate.metrics.first_token_after(millis);
        self.log.note(|record| record.ttft_ms = Some(millis));
    }

    /// A part of the answer comes out of the cache. To be noted when the rest has come.
    pub(crate) fn found(&mut self, usage: Usage, saved: Money) {
        self.found = (usage, saved);
    }

    /// The call was answered in full by this attempt.
    pub(crate) fn served(&mut self, candidate: &Candidate, usage: &Usage, cost: Option<Money>) {
        if self.close("ok") {
            self.metrics.served(&candidate.metrics, usage, cost);
            self.used(candidate, usage);
            self.write();
        }
    }

    /// It was answered with what another call brought: nothing is to be paid but for calls that were in vain.
    pub(crate) fn cached(&mut self, stored: &Stored, fallback: bool) {
        if self.close("ok") {
            let paid = self.meter.all().cost;
            if let Some(line) = &mut self.line {
                line.cached(stored, fallback, paid);
            }
            self.log.note(|record| {
                record.model = Some(Arc::clone(&stored.model_used));
                record.provider = Some(Arc::clone(&stored.provider));
                record.prompt_tokens = stored.usage.prompt;
                record.completion_tokens = stored.usage.completion;
                record.estimated = stored.usage.estimated;
                record.fallback = fallback;
                record.cache_hit = true;
                record.cost = paid;
            });
            self.write();
        }
    }

    /// The call failed. What its upstreams have served of it is paid.
    pub(crate) fn failed(&mut self, error: &Error) {
        let is_shutdown = error.code() == GATEWAY_SHUTDOWN;
        if self.close(if is_shutdown { GATEWAY_SHUTDOWN } else { error.kind.code() }) {
            self.unanswered();
            if let Some(line) = &mut self.line {
                line.failed(error.code());
            }
            self.write();
        }
    }

    /// A stream of this attempt was cut short after some tokens, by the upstream, a clock or the client.
    pub(crate) fn cut(&mut self, candidate: &Candidate, started: Started, code: &'static str) {
        if self.close(code) {
            let bill = self.meter.of(started);
            self.metrics.failed(&candidate.metrics, code);
            self.metrics.used(&candidate.metrics, &bill.usage, bill.known_cost());
            self.used(candidate, &bill.usage);
            self.write();
        }
    }

    /// A stream broke off that nobody goes on with: what it used is noted already.
    pub(crate) fn given_up(&mut self, candidate: &Candidate, code: &'static str) {
        if self.close(code) {
            self.used(candidate, &Usage::default());
            self.write();
        }
    }

    /// Nobody answered: the row has what all calls have used.
    fn unanswered(&mut self) {
        let bill = self.meter.all();
        if let Some(line) = &mut self.line {
            line.unused(&bill.usage, bill.cost);
        }
        self.log.note(|record| record.cost = bill.cost);
    }

    /// This candidate's answer used so much. The row has its tokens, and what all calls of the request cost.
    fn used(&mut self, candidate: &Candidate, usage: &Usage) {
        let paid = self.meter.all().cost;
        let (found, saved) = self.found;
        // What was found costs nothing, and is a part of what was said.
        let usage = &self.begun.0.plus(usage).plus(&found);
        if let Some(line) = &mut self.line {
            line.used(candidate, usage, paid);
            line.saved(saved);
        }
        self.log.note(|record| {
            record.model = Some(Arc::clone(&candidate.model.id));
            record.provider = Some(Arc::clone(&candidate.model.provider));
            record.prompt_tokens = usage.prompt;
            record.completion_tokens = usage.completion;
            record.estimated = usage.estimated;
            record.cost = paid;
            record.fallback = candidate.is_fallback;
        });
    }

    /// Ends the ledger's line: what it says now will outlive us. Only then what was set aside is settled: a process that
    /// died in between would have told the budget and not the ledger.
    fn write(&mut self) {
        if let Some(line) = self.line.take() {
            let record = self.log.record();
            let latency_ms = u64::try_from(self.accepted.elapsed().as_millis()).unwrap_or(u64::MAX);
            line.end(record.status.unwrap_or("ok"), record.ttft_ms, latency_ms);
        }
        let bill = self.meter.all();
        self.reservation.settle(bill.usage.total(), bill.cost.femtos());
        // Only when that counts: what goes back first could be had by others before it does.
        self.more.iter_mut().for_each(|more| more.settle(0, 0));
    }

    fn close(&mut self, code: &'static str) -> bool {
        if std::mem::replace(&mut self.settled, true) {
            return false;
        }
        let mut noted = code;
        // Whoever ended the call from outside has said why already.
        self.log.note(|record| noted = record.status.get_or_insert(code));
        self.metrics.outcome(self.operation, noted);
        true
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Nobody ended it: the client went away, or a bug unwinds what was under way.
        let kind = if std::thread::panicking() { Kind::InternalError } else { Kind::ClientClosedRequest };
        if !self.close(kind.code()) {
            return;
        }
        // The attempts ended for the same reason as the call.
        let status = self.log.record().status.unwrap_or(kind.code());
        let mut last = None;
        for calling in [self.beside.take(), self.calling.take()].into_iter().flatten() {
            let Calling { candidate, started } = &calling;
            let bill = self.meter.of(*started);
            self.metrics.used(&candidate.metrics, &bill.usage, bill.known_cost());
            let record = AttemptRecord {
                provider: Arc::clone(&candidate.model.provider),
                model: Arc::clone(&candidate.model.id),
                status,
                latency_ms: millis(started.elapsed()),
                cost: bill.known_cost(),
            };
            self.attempted(&record, None);
            last = Some((calling, bill.usage));
        }
        match last {
            Some((calling, usage)) => self.used(&calling.candidate, &usage),
            None => self.unanswered(),
        }
        self.write();
    }
}
