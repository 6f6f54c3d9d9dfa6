//! The plan of an alias that serves in the place of the model that a request asks for.

use gw_routing::strategy::Strategy;
use gw_wire::money::Money;

use crate::plan::PlanRequest;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::capability::keep_preferred;
use crate::plan::cost_estimate::keep_within;

/// The targets of an alias that can serve a request and that its key may use, as fallbacks. None: there is none.
pub(crate) fn plan_of_alias((planner, most): (PlanRequest<'_>, Option<Money>), alias: &str) -> Option<Plan> {
    let PlanRequest { snapshot, request, .. } = planner;
    let resolved = snapshot.catalog.resolve(alias)?;
    let strategy = resolved.strategy.and_then(Strategy::named).unwrap_or(snapshot.routing.strategy);
    let groups = planner.groups(alias, resolved.models).ok()?;
    let mut candidates: Vec<Candidate> = Vec::new();
    for (group, (_, models)) in (1..).zip(&groups) {
        for model in models.iter() {
            let considered =
                planner.consider(model, group, &candidates, |model| planner.caller.may_use(model));
            candidates.extend(considered.ok().flatten());
        }
    }
    keep_preferred(&mut candidates, request);
    let mut plan = Plan { candidates, strategy, conversation: None, is_feature_missing: false, choice: None };
    if let Some(most) = most {
        keep_within(request, &mut plan, most).ok()?;
    }
    if plan.candidates.len() > 1 {
        planner.sort(&mut plan, None);
    }
    (!plan.candidates.is_empty()).then_some(plan)
}
