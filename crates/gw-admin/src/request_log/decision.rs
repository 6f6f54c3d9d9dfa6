//! Why a request took its route: the candidates in their order, the outcome of each, and the models that could not serve it.

use gw_store::ledger::{Entry, ExcludedModel, RankedModel};
use serde::Serialize;

const PRICE_UNKNOWN: &str = "price_unknown";

/// The routing decision of a request.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct RouteObject<'a> {
    candidates: Vec<CandidateObject<'a>>,
    excluded: Vec<ExcludedObject<'a>>,
    /// How many entries the log has left out.
    left_out: u64,
}

/// A candidate, in the order of the plan.
#[derive(Debug, PartialEq, Serialize)]
struct CandidateObject<'a> {
    model: &'a str,
    /// `requested`, `fallback` or `upgrade`.
    origin: &'static str,
    tier: &'a str,
    /// `answered`, `not_asked`, or the error of its last attempt.
    outcome: &'a str,
}

/// A model that could not serve the request.
#[derive(Debug, PartialEq, Serialize)]
struct ExcludedObject<'a> {
    model: &'a str,
    reason: &'a str,
}

impl<'a> RouteObject<'a> {
    /// The decision of a request. None: there was no choice, or the row is one of an older version.
    pub(super) fn of(entry: &'a Entry) -> Option<Self> {
        let decision = entry.decision.as_deref()?;
        if decision.candidates.is_empty() && decision.excluded.is_empty() {
            return None;
        }
        let excluded =
            decision.excluded.iter().map(|ExcludedModel { model, reason }| ExcludedObject { model, reason });
        Some(Self {
            candidates: decision.candidates.iter().map(|ranked| CandidateObject::of(ranked, entry)).collect(),
            excluded: excluded.collect(),
            left_out: decision.left_out,
        })
    }
}

impl<'a> CandidateObject<'a> {
    fn of(ranked: &'a RankedModel, entry: &'a Entry) -> Self {
        let RankedModel { model, group, tier } = ranked;
        let last = entry.attempts.iter().rev().find(|attempt| *attempt.model == **model);
        let outcome = last.map_or("not_asked", |attempt| match &*attempt.status {
            "ok" => "answered",
            error => error,
        });
        let origin = match tier.as_str() {
            "upgrade" | "upgrade_away" => "upgrade",
            _ if *group == 0 => "requested",
            _ => "fallback",
        };
        Self { model, origin, tier, outcome }
    }
}

/// The warnings of a request. `price_unknown` is added from the row's own mark.
pub(super) fn warnings(entry: &Entry) -> Vec<&str> {
    let noted = entry.decision.iter().flat_map(|decision| &decision.warnings).map(String::as_str);
    let mut warnings: Vec<&str> = noted.collect();
    if entry.unpriced && !warnings.contains(&PRICE_UNKNOWN) {
        warnings.push(PRICE_UNKNOWN);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use gw_store::ledger::{Attempt, Decision};

    use super::*;

    fn attempt(model: &str, status: &'static str) -> Attempt {
        Attempt {
            provider: "acme".into(),
            model: model.into(),
            status: status.into(),
            latency_ms: 5,
            started_ms: 0,
            image_fetch_ms: 0,
            cost: Some(0),
            known_part: 0,
            reason: None,
        }
    }

    fn ranked(model: &str, group: u64, tier: &str) -> RankedModel {
        RankedModel { model: model.to_owned(), group, tier: tier.to_owned() }
    }

    #[test]
    fn each_candidate_has_its_outcome() {
        let excluded = ExcludedModel { model: "e".to_owned(), reason: "It takes no images.".to_owned() };
        let candidates = vec![
            ranked("a", 0, "able"),
            ranked("b", 1, "able"),
            ranked("c", 0, "away"),
            ranked("d", 0, "upgrade"),
        ];
        let decision = Decision { candidates, excluded: vec![excluded], ..Decision::default() };
        let attempts = vec![attempt("a", "upstream_error"), attempt("b", "ok")];
        let entry =
            Entry { decision: Some(Box::new(decision)), attempts, unpriced: true, ..Entry::default() };
        let route = serde_json::to_value(RouteObject::of(&entry)).unwrap();
        let candidate = |model, origin, tier, outcome| serde_json::json!({"model": model, "origin": origin, "tier": tier, "outcome": outcome});
        let expected = serde_json::json!({
            "candidates": [
                candidate("a", "requested", "able", "upstream_error"),
                candidate("b", "fallback", "able", "answered"),
                candidate("c", "requested", "away", "not_asked"),
                candidate("d", "upgrade", "upgrade", "not_asked"),
            ],
            "excluded": [{"model": "e", "reason": "It takes no images."}],
            "left_out": 0,
        });
        assert_eq!(route, expected);
        assert_eq!(warnings(&entry), [PRICE_UNKNOWN]);
        assert_eq!(RouteObject::of(&Entry::default()), None);
    }

    #[test]
    fn warnings_without_a_choice_are_no_route() {
        let noted = vec![PRICE_UNKNOWN.to_owned(), "parameter_dropped:seed".to_owned()];
        let decision = Some(Box::new(Decision { warnings: noted.clone(), ..Decision::default() }));
        let entry = Entry { decision, unpriced: true, ..Entry::default() };
        assert_eq!(RouteObject::of(&entry), None);
        assert_eq!(warnings(&entry), noted);
    }
}
