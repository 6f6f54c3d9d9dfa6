//! The callers of requests and sessions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gw_identity::Identity;
use gw_store::keys::LastKey;
use gw_store::ledger::Entry;
use gw_wire::attribution::Attribution;

use super::Engine;
use crate::auth::Caller;
use crate::error::Result;
use crate::limit_use::SubjectUse;
use crate::rules::{Asker, Counter, RequestRules, RuleBudget, RuleObject, RuleState, ServingTarget, states};

impl Engine {
    /// How far the limits of keys and their teams are used up, by the id of the key. Ids of no key are left out. None while the figures
    /// cannot be read.
    pub async fn limits_of_keys(&self, ids: &HashSet<&str>) -> Option<HashMap<String, Vec<SubjectUse>>> {
        let callers = self.keys.find_all(ids);
        let subjects: Vec<_> = callers.iter().flat_map(|caller| caller.subjects().iter().cloned()).collect();
        if subjects.is_empty() {
            return Some(HashMap::new());
        }
        let mut uses = self.services.limiter.inspect(&subjects).await?.into_iter();
        let of = |caller: &Caller| {
            (caller.key_id().to_string(), uses.by_ref().take(caller.subjects().len()).collect())
        };
        Some(callers.iter().map(of).collect())
    }

    /// The states of the rules that apply to the caller's requests with these names, and of those of these targets (model and provider):
    /// None = of all targets. A request may need so many tokens and femto-USD.
    pub async fn rules_of(
        &self,
        caller: &Caller,
        attribution: Option<&Attribution>,
        need: (u64, i128),
        targets: Option<&[(&str, &str)]>,
    ) -> Vec<RuleState> {
        let (limiter, snapshot) = (&self.services.limiter, self.snapshot());
        let asker = Asker { caller, attribution };
        let Some(rules) = snapshot.rules.of(limiter, asker) else { return Vec::new() };
        let of_targets = match targets {
            None => snapshot.rules.known_of_targets(limiter, asker),
            Some(targets) => {
                let targets = targets.iter().map(|(model, provider)| ServingTarget { model, provider });
                targets
                    .filter_map(|target| rules.at(limiter, asker, target))
                    .flat_map(RequestRules::into_counters)
                    .collect()
            }
        };
        rules.states(limiter, need, of_targets).await
    }

    /// The ids of the counters of rules that a request of the ledger counted in.
    #[must_use]
    pub fn counters_of(&self, entry: &Entry) -> Vec<String> {
        self.snapshot().rules.counters_of(entry)
    }

    /// All rules with the counters that this process knows.
    pub async fn all_rules(&self) -> Vec<RuleObject> {
        let limiter = &self.services.limiter;
        let mut rules = self.snapshot().rules.all_counters(limiter);
        let mut uses = Vec::new();
        for (_, counters) in &mut rules {
            let subjects: Vec<_> = counters.iter().map(|counter| Arc::clone(&counter.subject)).collect();
            match limiter.inspect(&subjects).await {
                Some(of_rule) => uses.extend(of_rule),
                // Redis does not answer, so the states of these counters are not known.
                None => counters.clear(),
            }
        }
        // The states are made together, because one of all counters binds.
        let all: Vec<Counter> = rules.iter().flat_map(|(_, counters)| counters).cloned().collect();
        let mut states = states(&all, &uses, (0, 0)).into_iter();
        let mut objects = Vec::with_capacity(rules.len());
        for (settings, counters) in rules {
            let period = settings.limits.budget.map(|budget| budget.period).unwrap_or_default();
            let of_rule = states.by_ref().take(counters.len()).collect();
            objects.push(RuleObject::new(&settings, period.as_str(), &counters, of_rule));
        }
        objects
    }

    /// Whether a rule sets the tokens or the cost of requests aside before they are sent, so that their size must be known.
    #[must_use]
    pub fn has_reserving_rule(&self) -> bool {
        self.services.snapshot.load().rules.reserve()
    }

    /// How far the budgets of rules are spent, of at most so many counters.
    pub async fn rule_budgets(&self, most: usize) -> Vec<RuleBudget> {
        let limiter = &self.services.limiter;
        let all = self.snapshot().rules.all_counters(limiter).into_iter();
        let counters: Vec<_> = all
            .filter(|(settings, _)| settings.limits.budget.is_some())
            .flat_map(|(_, counters)| counters)
            .take(most)
            .collect();
        let subjects: Vec<_> = counters.iter().map(|counter| Arc::clone(&counter.subject)).collect();
        let uses = limiter.inspect(&subjects).await.unwrap_or_default();
        let budget = |(counter, used): (Counter, SubjectUse)| RuleBudget {
            name: counter.settings.name.clone(),
            split: counter.split,
            used,
        };
        counters.into_iter().zip(uses).map(budget).collect()
    }

    /// Identifies the caller by the values of the headers `Authorization` and `x-api-key`.
    ///
    /// # Errors
    /// `invalid_api_key`.
    pub fn identify<'h>(
        &self,
        authorization: impl Iterator<Item = &'h [u8]>,
        api_key: impl Iterator<Item = &'h [u8]>,
    ) -> Result<Caller> {
        self.keys.identify(None, authorization, api_key)
    }

    /// As [`Engine::identify`], for a request on a connection that accepted `last` before.
    ///
    /// # Errors
    /// `invalid_api_key`.
    pub fn identify_on<'h>(
        &self,
        last: &LastKey,
        authorization: impl Iterator<Item = &'h [u8]>,
        api_key: impl Iterator<Item = &'h [u8]>,
    ) -> Result<Caller> {
        self.keys.identify(Some(last), authorization, api_key)
    }

    /// The caller of the key with this SHA-256, which a sign-in has kept. The rules are those of the key itself.
    ///
    /// # Errors
    /// `invalid_api_key`: the key is revoked, expired, replaced or unknown; `store_unavailable`: the keys are too old to tell.
    pub fn caller_of_key(&self, hash: &[u8; 32]) -> Result<Caller> {
        self.keys.caller_of_key(hash)
    }

    /// The caller of an identity that an issuer has confirmed at a sign-in.
    ///
    /// # Errors
    /// `invalid_api_key`: the identity's team does not exist.
    pub fn caller_of(&self, identity: &Identity) -> Result<Caller> {
        self.keys.caller_of(identity)
    }
}
