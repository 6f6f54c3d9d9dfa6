//! The rules that apply to one request.

use std::sync::Arc;

use gw_limits::{AdmissionPermit, Limiter, Refusal, Subject, SubjectUse};

use super::counter::Counter;
use super::state::{RuleState, refusal_error, states, unpriced_error};
use super::{Asker, Rule, ServingTarget};
use crate::error::{Error, Result};
use crate::limit_error;
use crate::limit_use::{admission_refusal, is_of_rule, rate_refusal, reservation_refusal};
use crate::settings::{OnLimit, RuleMode, RuleSettings, Threshold};

/// The tokens and the femto-USD that a request may need.
pub(crate) type Need = (u64, i128);

/// The rules that apply to one request, in the order of the configuration.
#[derive(Clone, Debug)]
pub struct RequestRules {
    /// The key and its team, then the counters.
    subjects: Box<[Arc<Subject>]>,
    /// Those that refuse.
    counters: Box<[Counter]>,
    /// Those in shadow mode.
    shadows: Box<[Counter]>,
    /// Rules that may belong to a target of the request.
    targets: Box<[Arc<Rule>]>,
}

/// An alias that serves because a part of a budget is spent.
#[derive(Clone, Debug)]
pub(crate) struct Taper {
    pub(crate) alias: String,
    /// The warning about it.
    pub(crate) warning: String,
}

impl RequestRules {
    pub(super) fn new(own: &[Arc<Subject>], counters: Vec<Counter>, targets: Vec<Arc<Rule>>) -> Self {
        let (counters, shadows): (Vec<_>, Vec<_>) =
            counters.into_iter().partition(|counter| counter.settings.mode == RuleMode::Enforce);
        let of_rules = counters.iter().map(|counter| Arc::clone(&counter.subject));
        Self {
            subjects: own.iter().cloned().chain(of_rules).collect(),
            counters: counters.into(),
            shadows: shadows.into(),
            targets: targets.into(),
        }
    }

    /// The key, its team and the counters.
    pub(crate) fn subjects(&self) -> &[Arc<Subject>] {
        &self.subjects
    }

    /// The counters that refuse.
    pub(crate) fn of_counters(&self) -> &[Arc<Subject>] {
        let own = self.subjects.len().saturating_sub(self.counters.len());
        self.subjects.get(own..).unwrap_or_default()
    }

    /// The counters of rules in shadow mode.
    pub(crate) fn shadows(&self) -> &[Counter] {
        &self.shadows
    }

    /// Whether a rule in shadow mode would refuse requests whose cost nobody can know.
    pub(crate) fn shadows_refuse_unpriced(&self) -> bool {
        self.shadows.iter().any(|counter| counter.subject.refuses_unpriced())
    }

    /// Whether a rule may belong to a target of the request.
    pub(crate) fn may_be_of_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The rules that belong to a target, without those of the whole request. None: no rule does.
    pub(crate) fn at(&self, limiter: &Limiter, asker: Asker<'_>, target: ServingTarget<'_>) -> Option<Self> {
        let applying = self.targets.iter().filter(|rule| rule.applies_to(target));
        let counters: Vec<_> =
            applying.flat_map(|rule| rule.counters(limiter, asker, Some(target))).collect();
        (!counters.is_empty()).then(|| Self::new(&[], counters, Vec::new()))
    }

    /// The alias that serves a request which the rule of this name has no room for.
    pub(crate) fn fallback_of(&self, name: &str) -> Option<String> {
        let of_counters = self.counters.iter().map(|counter| &counter.settings);
        let settings = of_counters.chain(self.targets.iter().map(|rule| &rule.settings));
        let refusing = settings.into_iter().find(|settings| settings.name == name)?;
        match &refusing.on_limit {
            OnLimit::Fallback(alias) => Some(alias.clone()),
            OnLimit::Refuse => None,
        }
    }

    /// The rules without the one of this name.
    pub(crate) fn without(&self, name: &str) -> Self {
        let own = self.subjects.len().saturating_sub(self.counters.len());
        let own: Vec<_> = self.subjects.iter().take(own).cloned().collect();
        let all = self.counters.iter().chain(&self.shadows);
        let counters = all.filter(|counter| counter.settings.name != name).cloned().collect();
        let targets = self.targets.iter().filter(|rule| rule.settings.name != name).cloned().collect();
        Self::new(&own, counters, targets)
    }

    /// Whether a rule has an alias that serves from a part of its budget on.
    pub(crate) fn may_taper(&self) -> bool {
        let has = |settings: &RuleSettings| !settings.thresholds.is_empty();
        self.counters.iter().any(|counter| has(&counter.settings))
            || self.targets.iter().any(|rule| has(&rule.settings))
    }

    /// The aliases that serve, because a part of a budget of the request or of its first target is spent.
    pub(crate) async fn tapers(
        &self,
        limiter: &Limiter,
        asker: Asker<'_>,
        target: ServingTarget<'_>,
    ) -> Vec<Taper> {
        let at = self.at(limiter, asker, target);
        let of_target = at.iter().flat_map(|rules| rules.counters.iter());
        let all = self.counters.iter().chain(of_target);
        let mut counters: Vec<_> =
            all.filter(|counter| !counter.settings.thresholds.is_empty()).cloned().collect();
        counters.sort_by_key(|counter| counter.place);
        let subjects: Vec<_> = counters.iter().map(|counter| Arc::clone(&counter.subject)).collect();
        let uses = limiter.inspect(&subjects).await.unwrap_or_default();
        counters.iter().zip(&uses).filter_map(|(counter, used)| reached(counter, used)).collect()
    }

    /// The refusal of a request to a model whose cost nobody can know. None: no rule refuses it.
    pub(crate) fn unpriced_refusal(&self, model: &str) -> Option<Error> {
        let refusing = self.counters.iter().find(|counter| counter.subject.refuses_unpriced())?;
        Some(unpriced_error(refusing, model))
    }

    /// The counters of requests per minute and in flight.
    pub(crate) fn rated(&self) -> Vec<Arc<Subject>> {
        self.of_counters().iter().filter(|subject| is_rated(subject)).cloned().collect()
    }

    /// Counts a request whose tokens and money are reserved.
    ///
    /// # Errors
    /// `rate_limit_exceeded`.
    pub(crate) async fn admit(&self, limiter: &Limiter, request_id: &str) -> Result<AdmissionPermit> {
        let rated = self.rated();
        if rated.is_empty() {
            return Ok(AdmissionPermit::default());
        }
        match limiter.admit_rates(request_id, &rated).await {
            Ok(permit) => Ok(permit),
            // The request's own reservation is no reason for a refusal, so only the limits of requests count.
            Err(refused) => Err(self.named(limiter, &refused.refusal, rate_refusal).await),
        }
    }

    /// The error of the first rule whose limit of requests has no room now. Nothing is counted.
    pub(crate) async fn rates_refusal(&self, limiter: &Limiter) -> Option<Error> {
        let uses = limiter.inspect(self.of_counters()).await?;
        let mut pairs = self.counters.iter().zip(&uses);
        pairs.find_map(|(counter, used)| Some(refusal_error(counter, used, &rate_refusal(used)?)))
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

    /// The error of the first rule that refuses a request with this need.
    pub(crate) async fn would_refuse(&self, limiter: &Limiter, need: Need) -> Option<Error> {
        match limiter.inspect(self.of_counters()).await {
            Some(uses) => self.first_refusal(&uses, need),
            None => Some(limit_error::error(&Refusal::StoreUnavailable)),
        }
    }

    /// The states of the rules for a request with this need, and of the counters of targets. Empty while they cannot be read.
    pub(crate) async fn states(
        &self,
        limiter: &Limiter,
        need: Need,
        of_targets: Vec<Counter>,
    ) -> Vec<RuleState> {
        let mut counters: Vec<Counter> =
            self.counters.iter().chain(&self.shadows).cloned().chain(of_targets).collect();
        counters.sort_by(|one, other| (one.place, &one.split).cmp(&(other.place, &other.split)));
        counters.dedup_by(|one, other| one.place == other.place && one.split == other.split);
        let subjects: Vec<_> = counters.iter().map(|counter| Arc::clone(&counter.subject)).collect();
        let uses = limiter.inspect(&subjects).await.unwrap_or_default();
        states(&counters, &uses, need)
    }

    /// All its counters, those in shadow mode too.
    pub(crate) fn into_counters(self) -> Vec<Counter> {
        self.counters.into_iter().chain(self.shadows).collect()
    }
}

/// Whether a counter has a limit of requests.
pub(crate) fn is_rated(subject: &Subject) -> bool {
    let limits = subject.limits();
    limits.rpm.is_some() || limits.max_in_flight.is_some()
}

/// The alias of the highest threshold of a counter that is spent.
fn reached(counter: &Counter, used: &SubjectUse) -> Option<Taper> {
    let (budget, spending) = used.limits.budget.zip(used.budget)?;
    let spent = spending.spent_femtos.saturating_mul(1_000_000_000);
    let is_reached =
        |threshold: &&Threshold| spent >= budget.femtos().saturating_mul(i128::from(threshold.nanos));
    let thresholds = counter.settings.thresholds.iter().filter(is_reached);
    let highest = thresholds.max_by_key(|threshold| threshold.nanos)?;
    let warning = format!("budget_taper:{}:{}", counter.settings.name, highest.at());
    Some(Taper { alias: highest.alias.clone(), warning })
}
