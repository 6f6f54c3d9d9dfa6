//! Reserves tokens and money for a call before its first upstream call.

use std::sync::Arc;

use gw_limits::{Limiter, Reservation};
use gw_wire::money::Money;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::error::Result;
use crate::limit_error;
use crate::plan::candidate::Plan;
use crate::plan::cost_estimate::{least_case, worst_case};
use crate::request::ValidatedRequest;

/// Sets aside what the request can use at the worst, with its key and with its team.
pub(crate) async fn reserve(limiter: &Limiter, call: &mut Call) -> Result<()> {
    let id = Arc::clone(&call.context.client.request_id);
    let (reserved, granted) = set_aside(limiter, call, &id).await?;
    call.progress.settlement.hold(reserved);
    call.context.granted = granted;
    Ok(())
}

/// The same for what it asks for besides: what was set aside before stays so.
pub(crate) async fn reserve_more(limiter: &Limiter, call: &mut Call) -> Result<()> {
    // Of one name and one amount there is one lease.
    let id = format!("{}+", call.context.client.request_id);
    let (reserved, _) = set_aside(limiter, call, &id).await?;
    call.progress.settlement.hold_more(reserved);
    Ok(())
}

/// What was set aside, and how much that is where the budget must not be crossed: then a part of the worst case will do.
async fn set_aside(limiter: &Limiter, call: &mut Call, id: &str) -> Result<(Reservation, Option<Money>)> {
    let AttemptContext { client, request, snapshot, .. } = &call.context;
    let subjects = client.caller.subjects();
    // The tokens of embeddings are those of their inputs.
    let is_cut = client.caller.is_cut_by_budget() && !matches!(request, ValidatedRequest::Embeddings(_));
    if subjects.is_empty() {
        return Ok((Reservation::default(), None));
    }
    let set_aside = async |plan: &Plan| {
        let (tokens, cost) = worst_case(request, plan, &snapshot.routing);
        let most = cost.femtos();
        let least = if is_cut { least_case(request, plan).femtos().min(most) } else { most };
        let reserving = limiter.reserve_up_to(id, subjects, tokens, most, least);
        let (reserved, granted) = reserving.await.map_err(|refused| limit_error::error(&refused))?;
        Ok((reserved, is_cut.then(|| Money::from_femtos(granted))))
    };
    match set_aside(&call.plan).await {
        // A permission must not cost what would be served without it.
        Err(_) if call.plan.without_upgrades() => set_aside(&call.plan).await,
        reserved => reserved,
    }
}
