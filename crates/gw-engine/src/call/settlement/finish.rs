//! The end of a settlement: its row in the ledger, its reservations, and its metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_cache::Stored;
use gw_limits::AdmissionPermit;
use gw_wire::money::Money;

use super::{Settlement, attempt_record};
use crate::call::upstream_call::{AttemptOutcome, CacheAccount};
use crate::clock::{self, millis};
use crate::error::{Error, GATEWAY_SHUTDOWN, Kind};
use crate::metrics::RequestEnd;
use crate::occurrences::Occurrence;
use crate::request::context::CallRecord;

/// How a request ends.
pub(crate) enum Outcome<'a> {
    /// An upstream's answer was complete.
    Served,
    /// The answer came from the response cache, or from the call of another request.
    Cached { stored: &'a Stored, is_fallback: bool },
    /// The client gets this error instead of an answer.
    Failed(&'a Error),
    /// The client's stream ended early with this status.
    Interrupted(&'static str),
    /// The request was dropped with this status, and attempts may have been under way.
    Dropped(&'static str),
}

impl Settlement {
    /// Ends the request. The first outcome stands; later ones change nothing.
    pub(crate) fn finish(&mut self, outcome: &Outcome<'_>) {
        let status = match outcome {
            Outcome::Served | Outcome::Cached { .. } => "ok",
            Outcome::Failed(error) if error.code() == GATEWAY_SHUTDOWN => GATEWAY_SHUTDOWN,
            Outcome::Failed(error) => error.kind.code(),
            Outcome::Interrupted(status) | Outcome::Dropped(status) => status,
        };
        if !self.close(status) {
            return;
        }
        match outcome {
            Outcome::Served | Outcome::Interrupted(_) => self.write_answer(),
            Outcome::Cached { stored, is_fallback } => self.write_cached(stored, *is_fallback),
            Outcome::Failed(error) => {
                self.metrics.occurrences.tell_error(error, self.watched.as_deref());
                self.write_unanswered();
                // If something outside the call has set a status before, the row keeps that status.
                let is_noted = self.log.status() == Some(status);
                if let Some(line) = self.line.as_mut().filter(|_| is_noted) {
                    line.note_failure(error.code());
                }
            }
            Outcome::Dropped(status) => {
                self.end_pending(status);
                self.write_answer();
            }
        }
        self.settle();
    }

    /// Ends the attempts that were under way when the request was dropped. The attempt that began first counts as the one that answered.
    fn end_pending(&mut self, status: &'static str) {
        let status = self.log.status().unwrap_or(status);
        self.note_failed_parts();
        let pending = self.upstream_calls.pending();
        let last = pending.len().saturating_sub(1);
        for (place, (attempt, candidate)) in pending.into_iter().enumerate() {
            let outcome = if place == last { AttemptOutcome::Interrupted } else { AttemptOutcome::Cancelled };
            let now = clock::now();
            let (took, end) = (attempt.until(now), Some((now, status)));
            let billed = self.upstream_calls.end_attempt(attempt, outcome, end);
            self.measure_attempt(&candidate, took, &billed.usage, Some(status));
            self.metrics.failed(&candidate.metrics, status);
            self.meter(&candidate, &billed);
            let record = attempt_record(&candidate, attempt, (now, status), &billed);
            self.note_attempt(&record, billed.cost, None, attempt);
        }
    }

    /// Writes the row of a request that an upstream answered, in full or in part: the tokens of the answer, and the cost of all calls.
    fn write_answer(&mut self) {
        let Some(candidate) = self.upstream_calls.last_answering() else {
            return self.write_unanswered();
        };
        let billed = self.upstream_calls.all();
        let answer = self.upstream_calls.answer().usage;
        let (usage, saved) = match self.found.as_deref() {
            None => (answer, Some(Money::ZERO)),
            // Vectors from the cache cost nothing, and are a part of the answer.
            Some((found, saved)) => (answer.plus(found), *saved),
        };
        if let Some(line) = &mut self.line {
            line.note_usage(&candidate, &billed.with_usage(usage));
            line.note_charges(self.upstream_calls.charges(self.found.is_some()));
            line.note_saved(saved);
            // The client of an answer that broke off has got no `gateway` object.
            if self.upstream_calls.uses_prompt_cache()
                && line.prompt_cache().is_none()
                && let Some(account) = self.upstream_calls.cache_account().filter(CacheAccount::is_any)
            {
                line.note_prompt_cache(Arc::new(account.to_use()));
            }
        }
        self.log.note(|record| {
            record.model = Some(Arc::clone(&candidate.model.id));
            record.provider = Some(Arc::clone(&candidate.model.provider));
            record.prompt_tokens = usage.prompt;
            record.completion_tokens = usage.completion;
            record.estimated = usage.estimated;
            billed.note_cost(record);
            record.fallback = candidate.is_fallback;
        });
    }

    /// Writes the row of a request without an answer: the tokens and the cost of all calls.
    fn write_unanswered(&mut self) {
        let billed = self.upstream_calls.all();
        if let Some(line) = &mut self.line {
            line.note_unanswered(&billed);
            line.note_charges(self.upstream_calls.charges(false));
        }
        self.log.note(|record| billed.note_cost(record));
    }

    /// Writes the row of a request that is answered without an upstream call of its own. Upstream calls whose answers were not used are paid, too.
    fn write_cached(&mut self, stored: &Stored, is_fallback: bool) {
        let billed = self.upstream_calls.all();
        if let Some(line) = &mut self.line {
            line.note_cached(stored, is_fallback, &billed);
            line.note_charges(self.upstream_calls.charges(true));
        }
        self.log.note(|record| {
            record.model = Some(Arc::clone(&stored.model_used));
            record.provider = Some(Arc::clone(&stored.provider));
            record.prompt_tokens = stored.usage.prompt;
            record.completion_tokens = stored.usage.completion;
            record.estimated = stored.usage.estimated;
            record.fallback = is_fallback;
            record.cache_hit = true;
            billed.note_cost(record);
        });
    }

    /// Writes the ledger's line, and settles the reservations after it: a process that dies in between must not have charged the budget for a
    /// request that the ledger does not have.
    fn settle(&mut self) {
        let (now, record) = (clock::now(), self.log.record());
        let duration = now.saturating_duration_since(self.accepted);
        let request_id = self.line.take().map(|line| {
            if let Some((provider, model, used)) = line.prompt_cache() {
                self.metrics.prompt_cache(provider, model, used);
            }
            line.end(record.status.unwrap_or("ok"), record.ttft_ms, millis(duration))
        });
        self.measure(now, duration, &record);
        if let Some(tracing) = self.tracing.take() {
            tracing.end(&self.upstream_calls);
        }
        let billed = self.upstream_calls.all();
        if billed.known_cost().is_none()
            && let Some(model) = self.upstream_calls.first_unpriced()
        {
            self.metrics.unpriced_request(&model);
        }
        if let Some(attribution) = self.attribution.take() {
            self.metrics.attributed(&attribution, billed.cost);
        }
        if let Some(session) = self.session.take() {
            session.settle(billed.cost);
        }
        if record.counted_tokens > 0 {
            self.log.note(|record| record.counted_tokens = billed.usage.total());
        }
        let request_id = request_id.as_deref().unwrap_or_default();
        let (tokens, femtos) = (billed.usage.total(), billed.cost.femtos());
        self.reservation.settle(request_id, tokens, femtos);
        self.permit = AdmissionPermit::default();
        if let Some(holds) = self.rule_holds.take() {
            let served = self.upstream_calls.last_answering();
            let served = served.as_ref().map(|candidate| &*candidate.model.id);
            holds.settle(request_id, served, (tokens, femtos));
        }
        // The first reservation counts the cost before the others are released: no other request may have that money in between.
        self.additional_reservations.iter_mut().for_each(|more| more.settle(request_id, 0, 0));
        if let Some(caller) = self.watched.take().filter(|_| billed.cost.femtos() > 0) {
            self.metrics.occurrences.tell(|| Occurrence::Charged(*caller));
        }
    }

    /// Measures the request for the metrics.
    fn measure(&self, now: Instant, duration: Duration, record: &CallRecord) {
        if record.fallback && record.status == Some("ok") {
            self.upstream_calls.last_answering().iter().for_each(|it| self.metrics.fell_back(&it.metrics));
        }
        if let Some((begin, end)) = self.upstream_calls.span() {
            let before = begin.saturating_duration_since(self.accepted);
            self.metrics.overhead(before, now.saturating_duration_since(end));
        }
        let end = RequestEnd {
            operation: self.operation,
            error: record.status.filter(|status| *status != "ok"),
            duration,
            first_token: record.ttft_ms.map(Duration::from_millis),
            tokens: record.completion_tokens,
            trace: self.trace_id(),
        };
        self.metrics.request_ended(record.model.as_ref(), &end);
    }

    /// Closes the settlement; false if it was closed before.
    fn close(&mut self, status: &'static str) -> bool {
        if std::mem::replace(&mut self.is_finished, true) {
            return false;
        }
        let mut noted = status;
        // A status that was set before, outside the call, is kept.
        self.log.note(|record| noted = record.status.get_or_insert(status));
        self.metrics.outcome(self.operation, noted);
        true
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        // The client disconnected, or a panic unwinds the call.
        let kind = if std::thread::panicking() { Kind::InternalError } else { Kind::ClientClosedRequest };
        self.finish(&Outcome::Dropped(kind.code()));
    }
}
