//! Calls of a divided request that failed, and whose part was asked for again.

use std::sync::atomic::Ordering;
use std::time::Instant;

use gw_limits::Reservation;
use gw_wire::money::Money;

use super::{Attempt, AttemptOutcome, AttemptState, Records, UpstreamCall, UpstreamCallId, UpstreamCalls};
use crate::plan::candidate::Candidate;

/// A failed call of a part. It is an attempt of its own, because its part was asked for again.
#[derive(Debug)]
pub(crate) struct FailedPart {
    pub(crate) candidate: Candidate,
    pub(crate) attempt: Attempt,
    /// When the attempt began whose part it was.
    pub(crate) of_attempt_at: Instant,
    pub(crate) ended: Instant,
    /// The code of its error.
    pub(crate) status: &'static str,
    /// The upstream's reason.
    pub(crate) reason: Option<String>,
    /// Sets its charge aside until the request ends.
    pub(crate) held: Reservation,
}

impl UpstreamCallId {
    /// The place of the call among those of its request.
    pub(crate) fn number(self) -> usize {
        self.0
    }
}

impl UpstreamCalls {
    /// The charge of a call so far.
    pub(crate) fn charge_of(&self, UpstreamCallId(call): UpstreamCallId) -> Money {
        let mut records = self.records.lock();
        records
            .calls
            .get_mut(call)
            .and_then(UpstreamCall::billed)
            .map(|billed| billed.cost)
            .unwrap_or_default()
    }

    /// Ends a failed call as an attempt of its own, which began at this moment, so that its part can be asked for again. False: the request
    /// has made so many attempts already.
    pub(crate) fn fail_part(
        &self,
        UpstreamCallId(call): UpstreamCallId,
        (began, ended): (Instant, Instant),
        (status, reason): (&'static str, Option<String>),
        held: Reservation,
        most: usize,
    ) -> bool {
        let mut records = self.records.lock();
        let Records { attempts, calls, failed_parts } = &mut *records;
        if attempts.iter().filter(|attempt| attempt.is_counted()).count() >= most {
            return false;
        }
        let Some(call) = calls.get_mut(call) else { return false };
        let Some(parent) = attempts.get(call.attempt) else { return false };
        let (candidate, of_attempt_at) = (parent.candidate.clone(), parent.at);
        let number = attempts.len();
        call.attempt = number;
        attempts.push(AttemptState {
            candidate: candidate.clone(),
            at: began,
            outcome: Some(AttemptOutcome::Failed),
            end: Some((ended, status)),
            first_content: None,
            answer: None,
        });
        failed_parts.push(FailedPart {
            candidate,
            attempt: Attempt { number, at: began },
            of_attempt_at,
            ended,
            status,
            reason,
            held,
        });
        self.has_failed_parts.store(true, Ordering::Relaxed);
        true
    }

    /// Takes the failed parts that have no record yet.
    pub(crate) fn take_failed_parts(&self) -> Vec<FailedPart> {
        if !self.has_failed_parts.load(Ordering::Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut self.records.lock().failed_parts)
    }
}

impl AttemptState {
    /// Whether it counts towards the attempts that a request may make: it was sent, and its answer was not one without use.
    fn is_counted(&self) -> bool {
        match self.outcome {
            None => true,
            Some(AttemptOutcome::Wasted) => false,
            Some(_) => self.end.is_some(),
        }
    }
}
