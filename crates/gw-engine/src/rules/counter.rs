//! A counter of a rule: one for all requests of the rule, or one for each value of `split_by`.

use std::sync::Arc;

use gw_limits::Subject;
use serde::{Deserialize, Serialize};

use crate::settings::RuleSettings;

/// The names that a rule matches. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MatchedNames {
    pub(crate) teams: Vec<String>,
    /// Names and ids.
    pub(crate) keys: Vec<String>,
    /// With `*`.
    pub(crate) tags: Vec<String>,
    pub(crate) end_users: Vec<String>,
    /// Catalogue ids, with `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<String>,
    /// With `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) providers: Vec<String>,
}

/// The id of a counter. It says which requests count, so that the ledger can tell what they cost. A rule whose `match` changes
/// has new counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CounterId {
    pub(crate) rule: String,
    pub(crate) matched: MatchedNames,
    /// The values of `split_by`. None: the counter is of requests without a value.
    pub(crate) split: Vec<(String, Option<String>)>,
}

impl CounterId {
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The value of a member of `split_by`. None: the rule is not split by it.
    pub(crate) fn split_value(&self, by: &str) -> Option<Option<&str>> {
        let (_, value) = self.split.iter().find(|(name, _)| name == by)?;
        Some(value.as_deref())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// A counter with the rule that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// The place of the rule in the configuration.
    pub(crate) place: usize,
    pub(crate) settings: Arc<RuleSettings>,
    pub(crate) split: Vec<(String, Option<String>)>,
    pub(crate) subject: Arc<Subject>,
}
