//! Adds better models that the client did not name, if the request permits it (`routing.allow_upgrade`).

use std::sync::Arc;

use crate::catalog::Model;
use crate::plan::PlanRequest;
use crate::plan::candidate::Candidate;

/// Upgrades in one plan. Further ones would only delay the failure of a request.
const MAX_UPGRADES: usize = 3;

/// The models that have the needed capabilities and are at least as good as the requested one in each known respect:
/// those of the same provider first, then the cheapest.
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
    able.take(MAX_UPGRADES)
        .map(|candidate| Candidate { is_fallback: true, is_upgrade: true, ..candidate })
        .collect()
}

/// Whether the model chats and is no downgrade. An unknown figure counts as the lowest.
fn is_upgrade(base: &Model, model: &Model) -> bool {
    model.id != base.id
        && model.is_chat()
        && model.scores.overall.unwrap_or(f64::MIN) >= base.scores.overall.unwrap_or(f64::MIN)
        && model.context_length.unwrap_or(0) >= base.context_length.unwrap_or(0)
}

/// Whether the model's price is within the configured ratio of the requested model's price. Without a ratio every price
/// is allowed, because the client permitted the upgrade.
fn is_affordable(base: &Model, model: &Model, bound: Option<f64>) -> bool {
    let Some(bound) = bound else { return true };
    match (base.price_per_million(), model.price_per_million()) {
        (Some(base), Some(price)) => price <= base * bound,
        _ => false,
    }
}
