//! The targets of a plan whose rules have room.

use gw_limits::Limiter;

use crate::error::{Error, Result};
use crate::limit_error::first_of;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::cost_estimate::{is_priced, worst_case_at};
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::settings::RoutingSettings;

/// The targets whose rules have room for the request now. Nothing is counted.
///
/// # Errors
/// No target has room. The error is that of the rule which stands first in the configuration.
pub(crate) async fn targets_with_room(
    limiter: &Limiter,
    client: &RequestContext,
    request: &ValidatedRequest,
    plan: &Plan,
    routing: &RoutingSettings,
) -> Result<Vec<Candidate>> {
    let (mut kept, mut refused): (Vec<Candidate>, Option<Error>) = (Vec::new(), None);
    for candidate in &plan.candidates {
        let rules = client.rules.as_ref();
        let at = rules.and_then(|rules| rules.at(limiter, client.asker(), candidate.serving()));
        let refusal = match &at {
            Some(at) => {
                match at.unpriced_refusal(&candidate.model.id).filter(|_| !is_priced(request, candidate)) {
                    Some(refusal) => Some(refusal),
                    None => {
                        let (tokens, cost) = worst_case_at(request, plan, candidate, routing);
                        at.would_refuse(limiter, (tokens, cost.femtos())).await
                    }
                }
            }
            None => None,
        };
        match refusal {
            None => kept.push(candidate.clone()),
            Some(error) => {
                refused = Some(match refused.take() {
                    Some(first) => first_of(first, Some(error)),
                    None => error,
                });
            }
        }
    }
    match refused {
        Some(refused) if kept.is_empty() => Err(refused),
        _ => Ok(kept),
    }
}
