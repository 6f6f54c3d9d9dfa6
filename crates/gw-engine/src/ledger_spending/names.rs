//! The names of the requests of a counter, where the filters of the ledger cannot tell them.

use crate::auth::matches;
use crate::rules::counter::CounterId;
use crate::rules::tag_values;

/// Whether the ledger's filters also find requests that the counter does not have, or find some twice: requests without a value have no
/// filter of their own, and a request may have several tags that the rule names.
pub(super) fn are_needed(counter: &CounterId) -> bool {
    let is_without = |by: &str| by == "end_user" || by.starts_with("tag:");
    let of_split = |(by, _): &(String, Option<String>)| by.starts_with("tag:");
    let tags = &counter.matched.tags;
    let has_pattern = tags.iter().any(|tag| tag.contains('*'));
    counter.split.iter().any(|(by, value)| value.is_none() && is_without(by))
        || has_pattern
        || tags.len() > 1
        || (!tags.is_empty() && counter.split.iter().any(of_split))
}

/// Whether a request with these tags, and with an end user or without one, counts in the counter. The ledger's filters find the key, the
/// target and an end user with a name.
pub(super) fn fit(counter: &CounterId, tags: &[Box<str>], has_end_user: bool) -> bool {
    let patterns = &counter.matched.tags;
    let is_named = |tag: &str| patterns.iter().any(|pattern| matches(pattern, tag));
    let is_tagged = patterns.is_empty() || tags.iter().any(|tag| is_named(tag));
    let is_of_split = |(by, value): &(String, Option<String>)| match by.strip_prefix("tag:") {
        Some(name) => match value.as_deref() {
            None => tag_values(tags, name).next().is_none(),
            Some(value) => tag_values(tags, name).any(|own| own == value),
        },
        None => by != "end_user" || value.is_some() || !has_end_user,
    };
    is_tagged && counter.split.iter().all(is_of_split)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::counter::MatchedNames;

    fn counter(tags: &[&str], split: &[(&str, Option<&str>)]) -> CounterId {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        CounterId {
            rule: "r".to_owned(),
            matched: MatchedNames { tags: texts(tags), ..MatchedNames::default() },
            split: split.iter().map(|(by, value)| ((*by).to_owned(), value.map(str::to_owned))).collect(),
        }
    }

    fn fits(counter: &CounterId, tags: &[&str], has_end_user: bool) -> bool {
        let tags: Vec<Box<str>> = tags.iter().map(|tag| (*tag).into()).collect();
        fit(counter, &tags, has_end_user)
    }

    #[test]
    fn a_counter_without_a_value_has_the_requests_without_one() {
        let without = counter(&[], &[("end_user", None)]);
        assert!(are_needed(&without) && fits(&without, &["a"], false) && !fits(&without, &[], true));
        let without = counter(&[], &[("tag:p", None)]);
        assert!(are_needed(&without) && fits(&without, &["a"], true) && !fits(&without, &["a", "p:x"], true));
        for split in [("end_user", Some("ann")), ("tag:p", Some("y"))] {
            assert!(!are_needed(&counter(&[], &[split])));
        }
    }

    #[test]
    fn several_tags_and_patterns_are_told_from_the_names() {
        let pattern = counter(&["p:*"], &[]);
        assert!(are_needed(&pattern) && are_needed(&counter(&["a", "b"], &[])));
        assert!(!are_needed(&counter(&["a"], &[])) && are_needed(&counter(&["a"], &[("tag:p", Some("x"))])));
        assert!(fits(&pattern, &["a", "p:x", "p:y"], true) && !fits(&pattern, &["a"], true));
        let both = counter(&["a"], &[("tag:p", Some("x"))]);
        assert!(fits(&both, &["a", "p:x", "p:y"], false) && !fits(&both, &["p:x"], false));
        assert!(!fits(&both, &["a", "p:y"], false));
    }
}
