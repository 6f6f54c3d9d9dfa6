//! Reserves tokens and money for a request that goes upstream as its client wrote it.

use gw_limits::Limiter;

use crate::call::settlement::Settlement;
use crate::error::Result;
use crate::limit_error;
use crate::limit_use::is_of_rule;
use crate::plan::candidate::Candidate;
use crate::request::context::RequestContext;
use crate::rules::{Need, RequestRules};

/// What a request that goes upstream as its client wrote it asks for at most.
#[derive(Clone, Copy)]
pub(crate) struct ForwardedCase<'c> {
    /// The target.
    pub(crate) candidate: &'c Candidate,
    /// The tokens and the money of the worst case.
    pub(crate) need: Need,
    /// Nobody can know its cost.
    pub(crate) is_unpriced: bool,
    /// It counts in the limits of requests of its rules.
    pub(crate) counts: bool,
}

/// Reserves the worst case for the key, its team and the rules.
///
/// # Errors
/// A limit or a budget refuses it.
pub(crate) async fn reserve(
    limiter: &Limiter,
    client: &RequestContext,
    case: ForwardedCase<'_>,
    settlement: &mut Settlement,
) -> Result<()> {
    if client.subjects().is_empty() && client.rules.is_none() {
        return Ok(());
    }
    let (tokens, femtos) = case.need;
    let reserving = limiter.reserve_up_to(&client.request_id, client.subjects(), tokens, femtos, femtos);
    let (reserved, _) = match reserving.await {
        Ok(reserved) => reserved,
        Err(refusal) => {
            settlement.tell_refusal(&client.caller, &refusal);
            return Err(match client.rules.as_ref().filter(|_| is_of_rule(&refusal)) {
                Some(rules) => Box::pin(rules.refusal(limiter, &refusal, case.need)).await,
                None => limit_error::reservation_error(&refusal, None),
            });
        }
    };
    client.log.count_tokens(tokens);
    settlement.hold(reserved);
    if let Some(rules) = &client.rules {
        let counted = Box::pin(count_in_rules(limiter, client, rules, case, settlement)).await;
        if counted.is_err() {
            settlement.release();
        }
        counted?;
    }
    Ok(())
}

/// Counts a request in its rules and in those of its target.
async fn count_in_rules(
    limiter: &Limiter,
    client: &RequestContext,
    rules: &RequestRules,
    case: ForwardedCase<'_>,
    settlement: &mut Settlement,
) -> Result<()> {
    let ForwardedCase { candidate, need, is_unpriced, counts } = case;
    let need = (need, is_unpriced);
    let mut warnings = Vec::new();
    if !counts {
        settlement.rule_holds().be_part();
    }
    if rules.may_be_of_targets() {
        let at = rules.at(limiter, client.asker(), candidate.serving());
        let target = (&candidate.model.id, None);
        warnings = settlement.rule_holds().enter((limiter, client), target, at.as_ref(), need).await?;
    }
    if counts {
        settlement.hold_permit(rules.admit(limiter, &client.request_id).await?);
    }
    if !rules.shadows().is_empty() {
        warnings.extend(settlement.rule_holds().shadow((limiter, client), None, rules.shadows(), need).await);
    }
    settlement.date_rule_holds();
    if !warnings.is_empty() {
        settlement.note_warnings(&warnings);
    }
    Ok(())
}
