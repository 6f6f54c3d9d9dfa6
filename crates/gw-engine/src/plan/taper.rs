//! Thresholds of budgets: from a part of a budget on, an alias serves.

use gw_limits::Limiter;
use gw_wire::money::Money;

use crate::plan::PlanRequest;
use crate::plan::alias_plan::plan_of_alias;
use crate::plan::candidate::Plan;
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
    let plans = tapers.into_iter();
    plans.filter_map(|taper| Some((plan_of_alias((planner, most), &taper.alias)?, taper.warning))).next()
}
