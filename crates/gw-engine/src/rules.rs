//! Rules (`[[budgets]]`): limits and budgets of requests by team, key, tag and end user.

pub(crate) mod counter;
mod request_rules;
mod state;

use std::sync::Arc;

use gw_limits::{Limiter, Subject, SubjectKind, SubjectUse};
use gw_wire::attribution::{Attribution, Dimension};

pub(crate) use self::counter::Counter;
use self::counter::{CounterId, MatchedNames};
pub use self::request_rules::RequestRules;
pub(crate) use self::state::states;
pub use self::state::{RuleObject, RuleState};
use crate::auth::{Caller, configured_id, matches};
use crate::settings::{EngineSettings, RuleSettings};

/// The most counters of a rule that the management API shows.
const MAX_SHOWN_COUNTERS: usize = 1_000;

/// All rules, in the order of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    settings: Arc<RuleSettings>,
    matched: MatchedNames,
}

impl Rules {
    pub(crate) fn new(settings: &EngineSettings) -> Self {
        let is_configured = |name: &String| settings.keys.iter().any(|key| key.name == *name);
        let rule = |rule: &RuleSettings| {
            let ids = rule.keys.iter().filter(|name| is_configured(name)).map(|name| configured_id(name));
            Rule {
                settings: Arc::new(rule.clone()),
                matched: MatchedNames {
                    teams: rule.teams.clone(),
                    keys: rule.keys.iter().cloned().chain(ids).collect(),
                    tags: rule.tags.clone(),
                    end_users: rule.end_users.clone(),
                },
            }
        };
        Self(settings.budgets.iter().map(rule).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules that apply to a request. None: no rule does.
    pub(crate) fn of(
        &self,
        limiter: &Limiter,
        caller: &Caller,
        attribution: Option<&Attribution>,
    ) -> Option<Arc<RequestRules>> {
        let applying = self.0.iter().filter(|rule| rule.applies(caller, attribution));
        let counters: Vec<Counter> =
            applying.map(|rule| rule.counter(limiter, caller, attribution)).collect();
        (!counters.is_empty()).then(|| Arc::new(RequestRules::new(caller.subjects(), counters)))
    }

    /// Whether a rule sets tokens or money aside before a request is sent.
    pub(crate) fn reserve(&self) -> bool {
        let reserves = |rule: &Rule| {
            let limits = &rule.settings.limits;
            limits.budget.is_some() || limits.tpm.is_some()
        };
        self.0.iter().any(reserves)
    }

    /// The rules with the counters that this process knows.
    pub(crate) fn all_counters(&self, limiter: &Limiter) -> Vec<(Arc<RuleSettings>, Vec<Counter>)> {
        let known: Vec<CounterId> =
            limiter.rule_counters().iter().filter_map(|id| CounterId::parse(id)).collect();
        let of = |rule: &Rule| {
            let mut splits: Vec<_> = known
                .iter()
                .filter(|id| id.rule == rule.settings.name && id.matched == rule.matched)
                .map(|id| id.split.clone())
                .take(MAX_SHOWN_COUNTERS)
                .collect();
            if splits.is_empty() && rule.settings.split_by.is_empty() {
                splits.push(Vec::new());
            }
            splits.sort();
            let counters = splits.into_iter().map(|split| rule.counter_of(limiter, split)).collect();
            (Arc::clone(&rule.settings), counters)
        };
        self.0.iter().map(of).collect()
    }
}

/// How far the budget of a rule's counter is spent.
#[derive(Clone, Debug)]
pub struct RuleBudget {
    /// The name of the rule.
    pub name: String,
    /// The values of `split_by`. None: the requests without such a value.
    pub split: Vec<(String, Option<String>)>,
    /// The use of its limits.
    pub used: SubjectUse,
}

impl Rule {
    fn applies(&self, caller: &Caller, attribution: Option<&Attribution>) -> bool {
        let MatchedNames { teams, keys, tags, end_users } = &self.matched;
        let has = |list: &[String], name: &str| list.iter().any(|known| known == name);
        let is_team = || caller.team().is_some_and(|team| has(teams, team));
        let is_key = || has(keys, caller.key_name()) || has(keys, caller.key_id());
        let is_tag = |tag: &str| tags.iter().any(|pattern| matches(pattern, tag));
        let is_tagged = || attribution.is_some_and(|names| names.tags.iter().any(|tag| is_tag(tag)));
        let is_user = || end_user(attribution).is_some_and(|user| has(end_users, user));
        (teams.is_empty() || is_team())
            && (keys.is_empty() || is_key())
            && (tags.is_empty() || is_tagged())
            && (end_users.is_empty() || is_user())
    }

    fn counter(&self, limiter: &Limiter, caller: &Caller, attribution: Option<&Attribution>) -> Counter {
        let value = |by: &String| {
            let value = match by.as_str() {
                "team" => caller.team().map(AsRef::as_ref),
                "key" => Some(&**caller.key_id()),
                "end_user" => end_user(attribution),
                tag => tag_value(attribution, tag.strip_prefix("tag:").unwrap_or(tag)),
            };
            (by.clone(), value.map(str::to_owned))
        };
        self.counter_of(limiter, self.settings.split_by.iter().map(value).collect())
    }

    fn counter_of(&self, limiter: &Limiter, split: Vec<(String, Option<String>)>) -> Counter {
        let id = CounterId { rule: self.settings.name.clone(), matched: self.matched.clone(), split };
        let subject: Arc<Subject> = limiter.subject(SubjectKind::Rule, &id.to_text(), self.settings.limits);
        Counter { settings: Arc::clone(&self.settings), split: id.split, subject }
    }
}

fn end_user(attribution: Option<&Attribution>) -> Option<&str> {
    attribution?.name(Dimension::EndUser)
}

/// The value of the tag `NAME:value`.
fn tag_value<'a>(attribution: Option<&'a Attribution>, name: &str) -> Option<&'a str> {
    attribution?.tags.iter().find_map(|tag| tag.strip_prefix(name)?.strip_prefix(':'))
}
