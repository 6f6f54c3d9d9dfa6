//! The rules that apply to one request.

use std::sync::Arc;

use gw_limits::{AdmissionPermit, Limiter, Refusal, Subject, SubjectUse};

use super::counter::Counter;
use super::state::{RuleState, refusal_error, states};
use crate::error::{Error, Result};
use crate::limit_error;
use crate::limit_use::{admission_refusal, is_of_rule, rate_refusal, reservation_refusal};

/// The tokens and the femto-USD that a request may need.
pub(crate) type Need = (u64, i128);

/// The rules that apply to one request, in the order of the configuration.
#[derive(Clone, Debug)]
pub struct RequestRules {
    /// The key and its team, then the counters.
    subjects: Box<[Arc<Subject>]>,
    counters: Box<[Counter]>,
}

impl RequestRules {
    pub(super) fn new(own: &[Arc<Subject>], counters: Vec<Counter>) -> Self {
        let of_rules = counters.iter().map(|counter| Arc::clone(&counter.subject));
        Self { subjects: own.iter().cloned().chain(of_rules).collect(), counters: counters.into() }
    }

    /// The key, its team and the counters.
    pub(crate) fn subjects(&self) -> &[Arc<Subject>] {
        &self.subjects
    }

    fn of_counters(&self) -> &[Arc<Subject>] {
        let own = self.subjects.len().saturating_sub(self.counters.len());
        self.subjects.get(own..).unwrap_or_default()
    }

    /// The rule that refuses requests whose cost nobody can know.
    pub(crate) fn refuses_unpriced(&self) -> Option<String> {
        let refusing = self.counters.iter().find(|counter| counter.subject.refuses_unpriced())?;
        Some(format!("rule '{}'", refusing.settings.name))
    }

    /// Counts a request whose tokens and money are reserved.
    ///
    /// # Errors
    /// `rate_limit_exceeded`.
    pub(crate) async fn admit(&self, limiter: &Limiter, request_id: &str) -> Result<AdmissionPermit> {
        let has_rate = |subject: &&Arc<Subject>| {
            let limits = subject.limits();
            limits.rpm.is_some() || limits.max_in_flight.is_some()
        };
        let rated: Vec<_> = self.of_counters().iter().filter(has_rate).cloned().collect();
        if rated.is_empty() {
            return Ok(AdmissionPermit::default());
        }
        match limiter.admit_rates(request_id, &rated).await {
            Ok(permit) => Ok(permit),
            // The request's own reservation is no reason for a refusal, so only the limits of requests count.
            Err(refused) => Err(self.named(limiter, &refused.refusal, rate_refusal).await),
        }
    }

    /// The error of a request that a rule refuses. Of several rules that refuse it, it names the first.
    pub(crate) async fn refusal(&self, limiter: &Limiter, refusal: &Refusal, need: Need) -> Error {
        let refuses =
            |used: &SubjectUse| admission_refusal(used).or_else(|| reservation_refusal(used, need.0, need.1));
        self.named(limiter, refusal, refuses).await
    }

    /// The error of a refusal, with the name of the first rule that refuses now.
    async fn named(
        &self,
        limiter: &Limiter,
        refusal: &Refusal,
        refuses: impl Fn(&SubjectUse) -> Option<Refusal>,
    ) -> Error {
        if !is_of_rule(refusal) {
            return limit_error::error(refusal);
        }
        let Some(uses) = limiter.inspect(self.of_counters()).await else {
            return limit_error::error(&Refusal::StoreUnavailable);
        };
        let mut pairs = self.counters.iter().zip(&uses);
        if let Some(error) =
            pairs.find_map(|(counter, used)| Some(refusal_error(counter, used, &refuses(used)?)))
        {
            return error;
        }
        // Room was made meanwhile. The rule with such a limit is named.
        let has_limit = |used: &&(&Counter, &SubjectUse)| match refusal {
            Refusal::Requests { limit, .. } => used.1.limits.rpm == Some(*limit),
            Refusal::Tokens { limit, .. } => used.1.limits.tpm == Some(*limit),
            Refusal::InFlight { limit, .. } => used.1.limits.max_in_flight == Some(*limit),
            Refusal::Budget { .. } | Refusal::StoreUnavailable => used.1.limits.budget.is_some(),
        };
        let pairs: Vec<_> = self.counters.iter().zip(&uses).collect();
        match pairs.iter().find(has_limit) {
            Some((counter, used)) => refusal_error(counter, used, refusal),
            None => limit_error::error(refusal),
        }
    }

    /// The refusal of the first rule that refuses. `uses` are those of the counters.
    pub(crate) fn first_refusal(&self, uses: &[SubjectUse], (tokens, femtos): Need) -> Option<Error> {
        self.counters.iter().zip(uses).find_map(|(counter, used)| {
            let refusal = admission_refusal(used).or_else(|| reservation_refusal(used, tokens, femtos))?;
            Some(refusal_error(counter, used, &refusal))
        })
    }

    /// The states of the rules for a request with this need. Empty while they cannot be read.
    pub(crate) async fn states(&self, limiter: &Limiter, need: Need) -> Vec<RuleState> {
        let uses = limiter.inspect(self.of_counters()).await.unwrap_or_default();
        states(&self.counters, &uses, need)
    }
}
