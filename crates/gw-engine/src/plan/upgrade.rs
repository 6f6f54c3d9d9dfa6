//! Better models that the client has not named but permits (`routing.allow_upgrade`, CONTRACT 1.8).

use std::sync::Arc;

use crate::catalog::Model;
use crate::plan::PlanRequest;
use crate::plan::candidate::Candidate;

/// Upgrades of one plan: with more of them a request would only fail later.
const MOST: usize = 3;

/// Models that are at least as good as the requested one in every respect that is known, and do what the request needs: of
/// the same provider first, then the cheapest.
pub(crate) fn candidates(
    planner: PlanRequest<'_>,
    requested: &[Arc<Model>],
    known: &[Candidate],
) -> Vec<Candidate> {
    let Some(base) = requested.iter().find(|model| planner.caller.may_use(model)) else {
        return Vec::new();
    };
    let bound = planner.snapshot.routing.upgrade_max_price_ratio;
    let mut better: Vec<&Arc<Model>> = planner
        .snapshot
        .catalog
        .models()
        .iter()
        .filter(|model| is_upgrade(base, model) && is_affordable(base, model, bound))
        .filter(|model| planner.caller.may_use(model))
        .filter(|model| known.iter().all(|known| known.model.id != model.id))
        .collect();
    better.sort_by_key(|model| {
        let price = model.price_sum();
        (model.provider != base.provider, price.is_none(), price)
    });
    let able = better.into_iter().filter_map(|model| planner.candidate(model, 0).ok());
    able.take(MOST).map(|candidate| Candidate { is_fallback: true, is_upgrade: true, ..candidate }).collect()
}

/// Never a downgrade: what is unknown counts as the least.
fn is_upgrade(base: &Model, model: &Model) -> bool {
    model.id != base.id
        && !model.is_embedding()
        && model.scores.overall.unwrap_or(f64::MIN) >= base.scores.overall.unwrap_or(f64::MIN)
        && model.context_length.unwrap_or(0) >= base.context_length.unwrap_or(0)
}

/// Whether it costs at most so many times what the requested model costs. Without a bound everything is affordable: the
/// client has asked for it.
fn is_affordable(base: &Model, model: &Model, bound: Option<f64>) -> bool {
    let Some(bound) = bound else { return true };
    match (base.price_per_million(), model.price_per_million()) {
        (Some(base), Some(price)) => price <= base * bound,
        _ => false,
    }
}
