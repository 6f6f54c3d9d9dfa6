//! Reserves tokens and money for a call before its first upstream call.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;

use gw_limits::{Limiter, Refusal, Reservation};
use gw_providers::multipart::FileSource;
use gw_wire::money::Money;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::enter_target::enter_target;
use crate::call::upstream_call::{Attempt, UpstreamCallId};
use crate::error::{Error, Result};
use crate::limit_error;
use crate::limit_error::first_of;
use crate::limit_use::is_of_rule;
use crate::plan::alias_plan::plan_of_alias;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::cost_estimate::{
    costs, is_priced, least_case, least_case_at, longest_answer, pays_for_all_attempts, worst_case,
};
use crate::plan::room::targets_with_room;
use crate::rules::RequestRules;

/// Reserves the request's worst case for its key, its team and its rules, and counts the request in its rules. A request that a rule
/// has no room for may be served by the alias of the rule.
///
/// # Errors
/// A limit or a budget refuses it.
pub(crate) async fn reserve(limiter: &Limiter, call: &mut Call) -> Result<()> {
    match reserve_as_planned(limiter, call).await {
        Err(error) if error.full_rule().is_some() || call.asked_plan.is_some() => {
            Box::pin(reserve_otherwise(limiter, call, error)).await
        }
        reserved => reserved,
    }
}

/// As [`reserve`], for a request whose file may still come. The reservation is for the longest file that the client's length allows. If
/// it does not fit, the request waits for the file, which tells how long it is, before anything is sent.
///
/// # Errors
/// As [`reserve`].
pub(crate) async fn reserve_with_file(limiter: &Limiter, call: &mut Call) -> Result<()> {
    let file = coming_file(call);
    match (reserve(limiter, call).await, file) {
        (Err(_), Some(file)) => {
            poll_fn(|cx| file.poll_end(cx)).await;
            Box::pin(reserve(limiter, call)).await
        }
        (reserved, _) => reserved,
    }
}

fn coming_file(call: &Call) -> Option<Arc<dyn FileSource>> {
    call.context.request.one_shot()?.coming_file()
}

/// As [`reserve`], for a request that no alias may serve.
///
/// # Errors
/// As [`reserve`].
pub(crate) async fn reserve_as_planned(limiter: &Limiter, call: &mut Call) -> Result<()> {
    let warnings = call.progress.warnings.len();
    if let Err(refused) = reserve_unadmitted(limiter, call).await {
        return Err(if refused.rule.is_some() {
            Box::pin(first_with_targets(limiter, call, refused)).await
        } else {
            refused
        });
    }
    if let Some(rules) = call.context.client.rules.clone() {
        let counted = Box::pin(count_in_rules(limiter, call, &rules)).await;
        if counted.is_err() {
            call.progress.settlement.release();
            // Rules in shadow mode warn of a request that is served.
            call.progress.warnings.truncate(warnings);
        }
        counted?;
    }
    Ok(())
}

/// The refusal of a rule of the whole request, or that of a rule of targets which stands before it, if no target has room either.
async fn first_with_targets(limiter: &Limiter, call: &Call, refused: Error) -> Error {
    let AttemptContext { client, request, snapshot, .. } = &call.context;
    if !client.rules.as_ref().is_some_and(|rules| rules.may_be_of_targets()) {
        return refused;
    }
    let with_room = targets_with_room(limiter, client, request, &call.plan, &snapshot.routing).await;
    first_of(refused, with_room.err())
}

/// Counts a request in its rules and in those of the first target that has room.
async fn count_in_rules(limiter: &Limiter, call: &mut Call, rules: &RequestRules) -> Result<()> {
    if rules.may_be_of_targets()
        && let Err(refused) = enter_first(call).await
    {
        // The tokens and the money of the other rules are reserved, so only their limits of requests can refuse.
        return Err(first_of(refused, rules.rates_refusal(limiter).await));
    }
    let permit = rules.admit(limiter, &call.context.client.request_id).await?;
    let Call { context, plan, progress, .. } = call;
    progress.settlement.hold_permit(permit);
    if !rules.shadows().is_empty() {
        let (tokens, cost) = worst_case(&context.request, plan, &context.snapshot.routing);
        // A rule that refuses requests without a price leaves out the candidates without one, as long as another candidate has one.
        let is_unpriced = rules.shadows_refuse_unpriced()
            && !plan.candidates.iter().any(|candidate| is_priced(&context.request, candidate));
        let (who, need) = ((limiter, &*context.client), ((tokens, cost.femtos()), is_unpriced));
        let holds = progress.settlement.rule_holds();
        let warnings = holds.shadow(who, None, rules.shadows(), need).await;
        progress.settlement.date_rule_holds();
        progress.warnings.extend(warnings);
    }
    Ok(())
}

/// Leaves out the candidates in front whose rules have no room.
///
/// # Errors
/// No candidate has room. The error is that of the rule which stands first in the configuration.
async fn enter_first(call: &mut Call) -> Result<()> {
    let mut refused: Option<Error> = None;
    let mut left_out = Vec::new();
    for candidate in call.plan.candidates.clone() {
        match enter_target(call, &candidate).await {
            Ok(()) => {
                leave_out(call, left_out);
                return Ok(());
            }
            Err(error) => {
                left_out.push((Arc::clone(&candidate.model.id), error.message.clone()));
                refused = Some(match refused.take() {
                    Some(first) => first_of(first, Some(error)),
                    None => error,
                });
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Removes candidates from the plan, with the reasons.
fn leave_out(call: &mut Call, left_out: Vec<(Arc<str>, Cow<'static, str>)>) {
    if left_out.is_empty() {
        return;
    }
    let is_out = |id: &Arc<str>| left_out.iter().any(|(other, _)| other == id);
    call.plan.candidates.retain(|candidate| !is_out(&candidate.model.id));
    call.plan.choice.get_or_insert_default().excluded.extend(left_out);
    call.progress.settlement.note_plan(&call.plan);
}

/// Reserves for a request that was refused as it is planned: with the model that it asked for, if an alias was to serve it because
/// of a threshold, or with the alias of the rule that refuses it.
///
/// # Errors
/// `refused`, if the alias does not fit either.
async fn reserve_otherwise(limiter: &Limiter, call: &mut Call, refused: Error) -> Result<()> {
    let mut refused = refused;
    if let Some(asked) = call.asked_plan.take() {
        let (plan, warning) = *asked;
        call.progress.warnings.retain(|other| *other != warning);
        call.replan(plan);
        match reserve_as_planned(limiter, call).await {
            Err(error) if error.rule.is_some() => refused = error,
            reserved => return reserved,
        }
    }
    let (Some(rule), Some(rules)) = (refused.full_rule(), call.context.client.rules.clone()) else {
        return Err(refused);
    };
    let name = rule.name.clone();
    let fallback = rules.fallback_of(&name).and_then(|alias| plan_of_alias(call.planner(), &alias));
    let Some(plan) = fallback else { return Err(refused) };
    let asked = std::mem::replace(&mut call.plan, plan);
    call.context.client.rules = Some(Arc::new(rules.without(&name)));
    if reserve_as_planned(limiter, call).await.is_err() {
        call.context.client.rules = Some(rules);
        // The row of the request names the model that it asks for.
        call.replan(asked);
        return Err(refused);
    }
    call.progress.warnings.push(Cow::Owned(format!("budget_fallback:{name}")));
    call.note_replanned();
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
    if call.context.client.rules.is_some() {
        call.progress.settlement.rule_holds().outgrow();
    }
    Ok(())
}

/// Whether a request that may be charged for its attempts so far can pay another one at this candidate.
pub(crate) async fn can_pay_another(call: &mut Call, candidate: &Candidate) -> bool {
    let AttemptContext { client, request, upstream_calls, .. } = &call.context;
    let charged = upstream_calls.all().cost;
    if let Some(most) = client.max_cost.as_deref()
        && charged + costs(request, candidate, longest_answer(request, candidate)) > *most
    {
        return false;
    }
    hold_charges(call, charged).await && grant_pays(call, candidate, charged).await
}

/// Reserves the charges of the attempts so far beside the first reservation, which is for one attempt. A key and a team whose answers are
/// cut pay these charges out of their grant, and only the rules hold them here. Returns false if they do not fit.
async fn hold_charges(call: &mut Call, charged: Money) -> bool {
    let is_granted = call.held().is_some();
    let Call { context, plan, progress, .. } = call;
    let AttemptContext { client, request, snapshot, limiter, .. } = &*context;
    let more = charged - progress.costs().reserved;
    let of_rules = || client.rules.as_ref().map(|rules| rules.of_counters()).unwrap_or_default();
    let subjects = if is_granted { of_rules() } else { client.subjects() };
    if more <= Money::ZERO
        || subjects.is_empty() && !is_granted
        || pays_for_all_attempts(request, plan, &snapshot.routing)
    {
        return true;
    }
    if !subjects.is_empty() {
        // A stream that grows has the ids without a letter.
        let (id, femtos) = (format!("{}+c{}", client.request_id, progress.records.len()), more.femtos());
        let Ok((reserved, _)) = limiter.reserve_up_to(&id, subjects, 0, femtos, femtos).await else {
            return false;
        };
        progress.settlement.hold_more(reserved);
    }
    progress.costs().reserved = charged;
    if client.rules.is_some() {
        progress.settlement.rule_holds().outgrow();
    }
    true
}

/// Reserves the charge of a failed call of a part beside the first reservation, so that the part can be asked for again. None: the request
/// cannot pay both.
pub(crate) async fn hold_part(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    failed: UpstreamCallId,
) -> Option<Reservation> {
    let AttemptContext { client, request, limiter, upstream_calls, .. } = context;
    let charge = upstream_calls.charge_of(failed);
    if charge <= Money::ZERO {
        return Some(Reservation::default());
    }
    let mut held = Reservation::default();
    // The rules of the target have set one attempt aside, too.
    let subjects = client.subjects_at(limiter, candidate.serving());
    if !subjects.is_empty() {
        let (id, femtos) = (format!("{}+p{}", client.request_id, failed.number()), charge.femtos());
        held = limiter.reserve_up_to(&id, &subjects, 0, femtos, femtos).await.ok()?.0;
    }
    // Another part may fail while this one waits for its reservation.
    let lost = || upstream_calls.all().cost - upstream_calls.of(attempt).cost + charge;
    let whole = || costs(request, candidate, longest_answer(request, candidate));
    let is_paid = client.max_cost.as_deref().is_none_or(|most| lost() + whole() <= *most);
    is_paid.then_some(held)
}

/// Whether the grant of a budget that must not be exceeded pays the charges so far and at least a short answer of this candidate. The grant
/// grows to the candidate's longest answer, as far as the budget has more.
async fn grant_pays(call: &mut Call, candidate: &Candidate, charged: Money) -> bool {
    let Some(held) = call.held() else { return true };
    let AttemptContext { client, request, limiter, .. } = &call.context;
    let least = charged + least_case_at(request, candidate) - held;
    let most = charged + costs(request, candidate, longest_answer(request, candidate)) - held;
    if most <= Money::ZERO {
        return true;
    }
    // A grant of nothing needs no reservation, and each larger grant has an id of its own.
    let (most, at_least) = (most.femtos(), least.femtos().max(1));
    let id = format!("{}+g{}", client.request_id, held.femtos());
    let grown = limiter.reserve_up_to(&id, client.caller.subjects(), 0, most, at_least).await;
    match grown {
        Ok((reserved, granted)) => {
            call.progress.settlement.hold_more(reserved);
            call.hold_further(Money::from_femtos(granted));
            true
        }
        Err(_) => least <= Money::ZERO,
    }
}

/// Whether a request can pay two attempts at one time, one of which is cancelled after it has read its prompt. The client's maximum has to
/// hold both at their longest, because the client states it for the worst case. A budget that must not be exceeded has to hold the
/// prompt of the one and a short answer of the other.
pub(crate) fn can_pay_both(call: &Call, first: &Candidate, second: &Candidate) -> bool {
    let AttemptContext { client, request, upstream_calls, .. } = &call.context;
    let (most, held) = (client.max_cost.as_deref(), call.held());
    if most.is_none() && held.is_none() {
        return true;
    }
    let charged = upstream_calls.all().cost;
    let whole = |candidate: &Candidate| costs(request, candidate, longest_answer(request, candidate));
    let least =
        |winner: &Candidate, loser: &Candidate| least_case_at(request, winner) + request.prompt_cost(loser);
    most.is_none_or(|most| charged + whole(first) + whole(second) <= *most)
        && held.is_none_or(|held| charged + least(first, second).max(least(second, first)) <= held)
}

impl Call {
    /// The money that the budget of the key or its team has granted, if it must not be exceeded.
    pub(crate) fn held(&self) -> Option<Money> {
        self.reservation.as_ref().map(|reservation| reservation.held).or(self.context.granted)
    }

    /// Adds to the granted money.
    pub(crate) fn hold_further(&mut self, more: Money) {
        if let Some(reservation) = &mut self.reservation {
            reservation.held += more;
        }
        if let Some(granted) = &mut self.context.granted {
            *granted += more;
        }
    }
}

/// Reserves for the caller's subjects. If the budget of the key or its team must not be exceeded, a part of the worst case is enough,
/// and its amount is returned.
async fn set_aside(limiter: &Limiter, call: &mut Call, id: &str) -> Result<(Reservation, Option<Money>)> {
    keep_priced(&call.context, &mut call.plan)?;
    if call.context.client.subjects().is_empty() {
        return Ok((Reservation::default(), None));
    }
    match set_aside_for_plan(limiter, call, id).await {
        // Permitted upgrades must not refuse a request that would be served without them.
        Err(_) if call.plan.without_upgrades() => Box::pin(set_aside_for_plan(limiter, call, id)).await,
        reserved => reserved,
    }
}

/// As [`set_aside`], for the plan as it is.
async fn set_aside_for_plan(
    limiter: &Limiter,
    call: &mut Call,
    id: &str,
) -> Result<(Reservation, Option<Money>)> {
    let Call { context, plan, progress, .. } = call;
    let AttemptContext { client, request, snapshot, .. } = &*context;
    // The tokens of embeddings are those of their inputs, so they need no cut.
    let has_answer_text = request.writes_text();
    let is_cut = has_answer_text && client.caller.is_cut_by_budget();
    let (tokens, cost) = worst_case(request, plan, &snapshot.routing);
    // No attempt is made that would take the cost beyond the client's maximum.
    let cost = client.max_cost.as_deref().map_or(cost, |most| cost.min(*most));
    let most = cost.femtos();
    let least = if is_cut { least_case(request, plan).femtos().min(most) } else { most };
    // The answer is cut for the key and its team alone. Rules need the whole worst case.
    let apart = client.rules.as_ref().filter(|rules| is_cut && !rules.of_counters().is_empty());
    let subjects = if apart.is_some() { client.caller.subjects() } else { client.subjects() };
    let mut reserving = limiter.reserve_up_to(id, subjects, tokens, most, least).await;
    if let Some(rules) = apart
        && reserving.is_ok()
    {
        let holds = progress.settlement.rule_holds();
        let held = Box::pin(holds.hold_apart((limiter, client), rules, (tokens, most))).await;
        progress.settlement.date_rule_holds();
        reserving = held.and(reserving);
    }
    let refused = match reserving {
        Ok((reserved, granted)) => {
            client.log.count_tokens(tokens);
            return Ok((reserved, is_cut.then(|| Money::from_femtos(granted))));
        }
        Err(refused) => refused,
    };
    if let Some(rules) = client.rules.as_ref().filter(|_| is_of_rule(&refused)) {
        return Err(Box::pin(rules.refusal(limiter, &refused, (tokens, most))).await);
    }
    let shortest = (has_answer_text && !is_cut).then(|| least_case(request, plan));
    let shortest = shortest.filter(|shortest| *shortest < cost);
    let mut error = limit_error::reservation_error(&refused, shortest);
    // Operators are told of it if this is the error that the client gets.
    error.spent_budget = match refused {
        Refusal::Budget { subject, .. } => Some(subject),
        _ => None,
    };
    Err(error)
}

/// Leaves out the candidates without a price, if a budget refuses them.
///
/// # Errors
/// No candidate has a price.
fn keep_priced(context: &AttemptContext, plan: &mut Plan) -> Result<()> {
    let AttemptContext { client, request, .. } = context;
    let candidates = &mut plan.candidates;
    let refusal = candidates.first().and_then(|first| client.unpriced_refusal(&first.model.id));
    let Some(refusal) = refusal else { return Ok(()) };
    if !candidates.iter().any(|candidate| is_priced(request, candidate)) {
        return Err(refusal);
    }
    candidates.retain(|candidate| is_priced(request, candidate));
    Ok(())
}
