//! A request moves from target to target, and the rules of each target hold for it.

use crate::call::Call;
use crate::call::progress::CallProgress;
use crate::error::Result;
use crate::plan::candidate::Candidate;
use crate::plan::cost_estimate::{is_priced, worst_case_at};
use crate::rules::RequestRules;

/// Moves a request to a target: its rules hold the worst case there, and those of other targets give everything back.
///
/// # Errors
/// A rule of the target has no room, or refuses requests whose cost nobody can know.
pub(crate) async fn enter_target(call: &mut Call, candidate: &Candidate) -> Result<()> {
    let Call { context, plan, progress, .. } = call;
    let Some(rules) = context.client.rules.as_ref().filter(|rules| rules.may_be_of_targets()) else {
        return Ok(());
    };
    let model = &candidate.model.id;
    let CallProgress { settlement, warnings, .. } = progress;
    if settlement.rule_holds().covers(model) {
        return Ok(());
    }
    let at = rules.at(&context.limiter, context.client.asker(), candidate.serving());
    if let Some(refusal) = at.as_ref().and_then(|at| at.unpriced_refusal(model))
        && !is_priced(&context.request, candidate)
    {
        return Err(refusal);
    }
    let is_unpriced = at.as_ref().is_some_and(RequestRules::shadows_refuse_unpriced)
        && !is_priced(&context.request, candidate);
    let (tokens, cost) = worst_case_at(&context.request, plan, candidate, &context.snapshot.routing);
    // The target that serves pays for the whole request.
    let cost = cost + context.upstream_calls.all().cost;
    let answering = context.upstream_calls.last_answering();
    let answering = answering.as_ref().map(|candidate| &*candidate.model.id);
    let (who, need) = ((&context.limiter, &*context.client), ((tokens, cost.femtos()), is_unpriced));
    let entered = settlement.rule_holds().enter(who, (model, answering), at.as_ref(), need).await;
    settlement.date_rule_holds();
    warnings.extend(entered?);
    Ok(())
}
