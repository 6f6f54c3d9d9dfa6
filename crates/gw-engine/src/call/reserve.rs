//! Reserves tokens and money for a call before its first upstream call.

use std::sync::Arc;

use gw_limits::{Limiter, Refusal, Reservation};
use gw_wire::money::Money;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::error::{Error, Result};
use crate::limit_error;
use crate::limit_use::is_of_rule;
use crate::plan::candidate::Plan;
use crate::plan::cost_estimate::{is_priced, least_case, worst_case};

/// Reserves the request's worst case for its key, its team and its rules, and counts the request in its rules.
///
/// # Errors
/// A limit or a budget refuses it.
pub(crate) async fn reserve(limiter: &Limiter, call: &mut Call) -> Result<()> {
    reserve_unadmitted(limiter, call).await?;
    if let Some(rules) = call.context.client.rules.clone() {
        let permit = Box::pin(rules.admit(limiter, &call.context.client.request_id)).await;
        if permit.is_err() {
            call.progress.settlement.release();
        }
        call.progress.settlement.hold_permit(permit?);
    }
    Ok(())
}

/// Reserves the worst case of a request that counts in no limit of requests.
///
/// # Errors
/// A limit or a budget refuses it.
pub(crate) async fn reserve_unadmitted(limiter: &Limiter, call: &mut Call) -> Result<()> {
    let id = Arc::clone(&call.context.client.request_id);
    let (reserved, granted) = set_aside(limiter, call, &id).await?;
    call.progress.settlement.hold(reserved);
    call.context.granted = granted;
    Ok(())
}

/// Reserves the worst case again, because everything is asked for anew. The first reservation stays.
///
/// # Errors
/// As [`reserve`].
pub(crate) async fn reserve_more(limiter: &Limiter, call: &mut Call) -> Result<()> {
    // Two reservations with one id would count as one.
    let id = format!("{}+", call.context.client.request_id);
    let (reserved, _) = set_aside(limiter, call, &id).await?;
    call.progress.settlement.hold_more(reserved);
    Ok(())
}

/// Reserves for the caller's subjects. If the budget must not be exceeded, a part of the worst case is enough, and its
/// amount is returned.
async fn set_aside(limiter: &Limiter, call: &mut Call, id: &str) -> Result<(Reservation, Option<Money>)> {
    if let Some(refusing) = call.context.client.refuses_unpriced() {
        keep_priced(call, &refusing)?;
    }
    let AttemptContext { client, request, snapshot, .. } = &call.context;
    let subjects = client.subjects();
    // The tokens of embeddings are those of their inputs, so they need no cut.
    let has_answer_text = request.writes_text();
    let is_cut = has_answer_text && client.caller.is_cut_by_budget();
    if subjects.is_empty() {
        return Ok((Reservation::default(), None));
    }
    let set_aside = async |plan: &Plan| {
        let (tokens, cost) = worst_case(request, plan, &snapshot.routing);
        let most = cost.femtos();
        let least = if is_cut { least_case(request, plan).femtos().min(most) } else { most };
        let reserving = limiter.reserve_up_to(id, subjects, tokens, most, least);
        let (reserved, granted) = match reserving.await {
            Ok(reserved) => reserved,
            Err(refused) => {
                if let Some(rules) = client.rules.as_ref().filter(|_| is_of_rule(&refused)) {
                    let error = Box::pin(rules.refusal(limiter, &refused, (tokens, least))).await;
                    return Err((error, refused));
                }
                let shortest = (has_answer_text && !is_cut).then(|| least_case(request, plan));
                let shortest = shortest.filter(|shortest| *shortest < cost);
                return Err((limit_error::reservation_error(&refused, shortest), refused));
            }
        };
        Ok::<_, (Error, Refusal)>((reserved, is_cut.then(|| Money::from_femtos(granted))))
    };
    let reserved = match set_aside(&call.plan).await {
        // Permitted upgrades must not refuse a request that would be served without them.
        Err(_) if call.plan.without_upgrades() => Box::pin(set_aside(&call.plan)).await,
        reserved => reserved,
    };
    reserved.map_err(|(error, refused)| {
        call.progress.settlement.tell_refusal(&client.caller, &refused);
        error
    })
}

/// Leaves out the candidates without a price, because a budget would not count their cost.
///
/// # Errors
/// No candidate has a price.
fn keep_priced(call: &mut Call, refusing: &str) -> Result<()> {
    let request = &call.context.request;
    let candidates = &mut call.plan.candidates;
    match candidates.first() {
        Some(first) if !candidates.iter().any(|candidate| is_priced(request, candidate)) => {
            Err(limit_error::unpriced(refusing, &first.model.id))
        }
        _ => {
            candidates.retain(|candidate| is_priced(request, candidate));
            Ok(())
        }
    }
}
