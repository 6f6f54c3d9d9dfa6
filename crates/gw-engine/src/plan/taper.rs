//! Thresholds of budgets: from a part of a budget on, an alias serves.

use gw_limits::Limiter;
use gw_wire::money::Money;

use crate::plan::PlanRequest;
use crate::plan::alias_plan::plan_of_alias;
use crate::plan::candidate::{Candidate, Plan};
use crate::request::context::RequestContext;

/// The plan of the alias that serves because of a threshold, and the warning about it. None: the request stays with the model that
/// it asks for.
pub(crate) async fn tapered(
    limiter: &Limiter,
    client: &RequestContext,
    (planner, most): (PlanRequest<'_>, Option<Money>),
    plan: &Plan,
) -> Option<(Plan, String)> {
    let rules = client.rules.as_ref().filter(|rules| rules.may_taper())?;
    let tapers = rules.tapers(limiter, client.asker(), plan.candidates.first()?.serving()).await;
    let mut plans =
        tapers.into_iter().filter_map(|taper| Some((plan_of_alias((planner, most), &taper.alias)?, taper)));
    let (tapered, taper) = plans.next()?;
    // A client that asks for the alias, or for its targets, gets what it asks for: that is no fallback.
    let is_asked = planner.request.model() == taper.alias || asks_for(plan, &tapered);
    (!is_asked).then_some((tapered, taper.warning))
}

/// Whether a plan has exactly the targets of an alias, beside fallbacks and upgrades.
fn asks_for(plan: &Plan, of_alias: &Plan) -> bool {
    let asked = plan.candidates.iter().filter(|candidate| candidate.group == 0 && !candidate.is_upgrade);
    let is_target = |asked: &Candidate| of_alias.candidates.iter().any(|one| one.model.id == asked.model.id);
    asked.clone().count() == of_alias.candidates.len() && asked.clone().all(is_target)
}
