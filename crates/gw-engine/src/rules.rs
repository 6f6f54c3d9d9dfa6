//! Rules (`[[budgets]]`): limits and budgets of requests by team, key, tag and end user, and by the target that serves.

pub(crate) mod counter;
mod request_rules;
mod state;

use std::sync::Arc;

use gw_limits::{Limiter, Subject, SubjectUse};
use gw_store::ledger::Entry;
use gw_wire::attribution::{Attribution, Dimension};

pub(crate) use self::counter::Counter;
use self::counter::{CounterId, MatchedNames};
pub(crate) use self::request_rules::Need;
pub use self::request_rules::RequestRules;
pub(crate) use self::state::states;
pub use self::state::{RuleObject, RuleState};
use crate::auth::{Caller, configured_id, matches};
use crate::settings::{EngineSettings, RuleSettings};

/// The most counters of a rule that the management API shows.
const MAX_SHOWN_COUNTERS: usize = 1_000;

/// All rules, in the order of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Arc<Rule>>,
    /// The number of the configuration: it rises with each one that follows another.
    configuration: u64,
}

#[derive(Debug)]
pub(crate) struct Rule {
    settings: Arc<RuleSettings>,
    matched: MatchedNames,
    /// Its place in the configuration.
    place: usize,
    /// The number of its configuration.
    configuration: u64,
}

/// The key, the team and the names of a request.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) attribution: Option<&'a Attribution>,
}

/// The names of the owner of a request, by which rules apply.
#[derive(Clone, Copy)]
struct Requester<'a> {
    key_id: &'a str,
    key_name: &'a str,
    team: Option<&'a str>,
    attribution: Option<&'a Attribution>,
}

impl<'a> From<Asker<'a>> for Requester<'a> {
    fn from(Asker { caller, attribution }: Asker<'a>) -> Self {
        let (key_id, key_name) = (caller.key_id(), caller.key_name());
        Self { key_id, key_name, team: caller.team().map(AsRef::as_ref), attribution }
    }
}

/// A target that may serve a request.
#[derive(Clone, Copy)]
pub(crate) struct ServingTarget<'a> {
    /// The catalogue id of the model.
    pub(crate) model: &'a str,
    pub(crate) provider: &'a str,
}

impl Rules {
    /// The rules of a configuration that follows the one of the rules `earlier`.
    pub(crate) fn new(earlier: Option<&Self>, settings: &EngineSettings) -> Self {
        let configuration = earlier.map_or(0, |earlier| earlier.configuration) + 1;
        let is_configured = |name: &String| settings.keys.iter().any(|key| key.name == *name);
        let rule = |(place, rule): (usize, &RuleSettings)| {
            let ids = rule.keys.iter().filter(|name| is_configured(name)).map(|name| configured_id(name));
            Arc::new(Rule {
                settings: Arc::new(rule.clone()),
                matched: MatchedNames {
                    teams: rule.teams.clone(),
                    keys: rule.keys.iter().cloned().chain(ids).collect(),
                    tags: rule.tags.clone(),
                    end_users: rule.end_users.clone(),
                    models: rule.models.clone(),
                    providers: rule.providers.clone(),
                },
                place,
                configuration,
            })
        };
        Self { rules: settings.budgets.iter().enumerate().map(rule).collect(), configuration }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that apply to a request, or may apply to one of its targets. None: no rule does.
    pub(crate) fn of(&self, limiter: &Limiter, asker: Asker<'_>) -> Option<Arc<RequestRules>> {
        let applying: Vec<&Arc<Rule>> = self.rules.iter().filter(|rule| rule.applies(asker.into())).collect();
        if applying.is_empty() {
            return None;
        }
        let (of_targets, others): (Vec<_>, Vec<_>) =
            applying.into_iter().partition(|rule| rule.is_of_targets());
        let counters = others.iter().flat_map(|rule| rule.counters(limiter, asker, None)).collect();
        let targets = of_targets.into_iter().cloned().collect();
        Some(Arc::new(RequestRules::new(asker.caller.subjects(), counters, targets)))
    }

    /// The counters of rules of targets that this process knows and that apply to the caller's requests.
    pub(crate) fn known_of_targets(&self, limiter: &Limiter, asker: Asker<'_>) -> Vec<Counter> {
        let mut counters = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.is_of_targets() && rule.applies(asker.into())) {
            let own = rule.splits_of(asker.into(), None);
            let is_own = |split: &Split| {
                let same = |(one, other): (&(String, _), &(String, _))| is_target(&one.0) || one == other;
                own.iter().any(|own| split.len() == own.len() && split.iter().zip(own).all(same))
            };
            let splits = rule.known_splits(&known(limiter));
            let splits = splits.into_iter().filter(|split| is_own(split));
            counters.extend(splits.map(|split| rule.counter_of(limiter, split)));
        }
        counters
    }

    /// The ids of the counters that a request of the ledger counted in.
    pub(crate) fn counters_of(&self, entry: &Entry) -> Vec<String> {
        let requester = Requester {
            key_id: &entry.key_id,
            key_name: &entry.key_name,
            team: entry.team.as_deref(),
            attribution: entry.attribution.as_deref(),
        };
        let target = ServingTarget { model: &entry.model, provider: &entry.provider };
        let is_counted =
            |rule: &&Arc<Rule>| rule.applies(requester) && (!rule.is_of_targets() || rule.applies_to(target));
        let ids = |rule: &Arc<Rule>| {
            let splits = rule.splits_of(requester, Some(target)).into_iter();
            let ids = splits.map(|split| rule.id_of(split).to_text());
            ids.collect::<Vec<_>>()
        };
        self.rules.iter().filter(is_counted).flat_map(ids).collect()
    }

    /// Whether a rule sets tokens or money aside before a request is sent.
    pub(crate) fn reserve(&self) -> bool {
        let reserves = |rule: &Arc<Rule>| {
            let limits = &rule.settings.limits;
            limits.budget.is_some() || limits.tpm.is_some()
        };
        self.rules.iter().any(reserves)
    }

    /// The rules with the counters that this process knows.
    pub(crate) fn all_counters(&self, limiter: &Limiter) -> Vec<(Arc<RuleSettings>, Vec<Counter>)> {
        let known = known(limiter);
        let of = |rule: &Arc<Rule>| {
            let splits = rule.known_splits(&known);
            let counters = splits.into_iter().map(|split| rule.counter_of(limiter, split)).collect();
            (Arc::clone(&rule.settings), counters)
        };
        self.rules.iter().map(of).collect()
    }
}

/// The counters that this process knows.
fn known(limiter: &Limiter) -> Vec<CounterId> {
    limiter.rule_counters().iter().filter_map(|id| CounterId::parse(id)).collect()
}

/// Whether a counter is split by a property of the serving target.
fn is_target(split_by: &str) -> bool {
    matches!(split_by, "model" | "provider")
}

/// The members of `split_by` with the values of a counter. None: the counter is of requests without a value.
type Split = Vec<(String, Option<String>)>;

/// How far the budget of a rule's counter is spent.
#[derive(Clone, Debug)]
pub struct RuleBudget {
    /// The name of the rule.
    pub name: String,
    /// The values of `split_by`. None: the counter is of requests without a value.
    pub split: Vec<(String, Option<String>)>,
    /// The use of its limits.
    pub used: SubjectUse,
}

impl Rule {
    /// Whether it counts for the target that serves.
    pub(crate) fn is_of_targets(&self) -> bool {
        let MatchedNames { models, providers, .. } = &self.matched;
        !models.is_empty() || !providers.is_empty() || self.settings.split_by.iter().any(|by| is_target(by))
    }

    fn applies(&self, Requester { key_id, key_name, team, attribution }: Requester<'_>) -> bool {
        let MatchedNames { teams, keys, tags, end_users, .. } = &self.matched;
        let has = |list: &[String], name: &str| list.iter().any(|known| known == name);
        let is_team = || team.is_some_and(|team| has(teams, team));
        let is_key = || has(keys, key_name) || has(keys, key_id);
        let is_tag = |tag: &str| tags.iter().any(|pattern| matches(pattern, tag));
        let is_tagged = || attribution.is_some_and(|names| names.tags.iter().any(|tag| is_tag(tag)));
        let is_user = || end_user(attribution).is_some_and(|user| has(end_users, user));
        (teams.is_empty() || is_team())
            && (keys.is_empty() || is_key())
            && (tags.is_empty() || is_tagged())
            && (end_users.is_empty() || is_user())
    }

    fn applies_to(&self, target: ServingTarget<'_>) -> bool {
        let MatchedNames { models, providers, .. } = &self.matched;
        let is_one = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
        };
        is_one(models, target.model) && is_one(providers, target.provider)
    }

    /// The counters of a request. It has several if it has several tags of a name that the rule is split by.
    fn counters(
        &self,
        limiter: &Limiter,
        asker: Asker<'_>,
        target: Option<ServingTarget<'_>>,
    ) -> impl Iterator<Item = Counter> {
        self.splits_of(asker.into(), target).into_iter().map(|split| self.counter_of(limiter, split))
    }

    /// The values of `split_by`: each combination of them, because a request counts for each value.
    fn splits_of(
        &self,
        Requester { key_id, team, attribution, .. }: Requester<'_>,
        target: Option<ServingTarget<'_>>,
    ) -> Vec<Split> {
        let mut splits = vec![Split::new()];
        for by in &self.settings.split_by {
            let value = match by.as_str() {
                "team" => team,
                "key" => Some(key_id),
                "end_user" => end_user(attribution),
                "model" => target.map(|target| target.model),
                "provider" => target.map(|target| target.provider),
                tag => {
                    let tags = attribution.map_or(&[][..], |attribution| &attribution.tags);
                    let values: Vec<&str> =
                        tag_values(tags, tag.strip_prefix("tag:").unwrap_or(tag)).collect();
                    if let Some((last, others)) = values.split_last() {
                        let with = |value: &&str| push(splits.clone(), by, Some(*value));
                        let mut all: Vec<Split> = others.iter().flat_map(with).collect();
                        all.extend(push(splits, by, Some(*last)));
                        splits = all;
                        continue;
                    }
                    None
                }
            };
            splits = push(splits, by, value);
        }
        splits
    }

    /// The values of `split_by` of the counters that this process knows.
    fn known_splits(&self, known: &[CounterId]) -> Vec<Split> {
        let mut splits: Vec<_> = known
            .iter()
            .filter(|id| id.rule == self.settings.name && id.matched == self.matched)
            .map(|id| id.split.clone())
            .take(MAX_SHOWN_COUNTERS)
            .collect();
        if splits.is_empty() && self.settings.split_by.is_empty() {
            splits.push(Vec::new());
        }
        splits.sort();
        splits
    }

    fn id_of(&self, split: Split) -> CounterId {
        CounterId { rule: self.settings.name.clone(), matched: self.matched.clone(), split }
    }

    fn counter_of(&self, limiter: &Limiter, split: Split) -> Counter {
        let id = self.id_of(split);
        let subject: Arc<Subject> =
            limiter.rule_counter(&id.to_text(), self.settings.limits, self.configuration);
        Counter { place: self.place, settings: Arc::clone(&self.settings), split: id.split, subject }
    }
}

fn end_user(attribution: Option<&Attribution>) -> Option<&str> {
    attribution?.name(Dimension::EndUser)
}

/// The values of the tags `NAME:value`. A request has few tags.
pub(crate) fn tag_values<'a>(tags: &'a [Box<str>], name: &str) -> impl Iterator<Item = &'a str> {
    tags.iter().filter_map(move |tag| tag.strip_prefix(name)?.strip_prefix(':'))
}

/// Adds a value to each of these splits.
fn push(mut splits: Vec<Split>, by: &str, value: Option<&str>) -> Vec<Split> {
    splits.iter_mut().for_each(|split| split.push((by.to_owned(), value.map(str::to_owned))));
    splits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_newer_configuration_have_a_larger_number() {
        let settings = EngineSettings { budgets: vec![RuleSettings::default()], ..EngineSettings::default() };
        let number = |rules: &Rules| rules.rules.first().unwrap().configuration;
        let older = Rules::new(None, &settings);
        assert_eq!((number(&older), number(&Rules::new(Some(&older), &settings))), (1, 2));
    }
}
