//! The transcript of what a client said, which another model may make beside the responses, at its own price.

use std::sync::Arc;

use gw_limits::SubjectKind;
use gw_wire::gateway::AttemptRecord;

use super::OPERATION;
use super::session::RealtimeSession;
use crate::auth::Caller;
use crate::call::settlement::{Outcome, Settlement};
use crate::call::upstream_call::AttemptOutcome;
use crate::clock::{self, millis};
use crate::error::{Error, Kind, Result};
use crate::limit_error;
use crate::plan::call_size::CallSize;
use crate::request::context::RequestContext;
use crate::rules::Asker;
use crate::services::Services;

/// Checks whether a caller may have this model of the upstream transcribe.
///
/// # Errors
/// `model_not_allowed`, or `insufficient_quota` for a budget that refuses what has no price.
pub(crate) fn check(
    services: &Services,
    session: &RealtimeSession,
    caller: &Caller,
    name: &str,
) -> Result<()> {
    let snapshot = services.snapshot();
    let found = session.transcriber(&snapshot, name);
    let model = found.as_ref().map(|candidate| &candidate.model);
    if caller.is_limited() && !model.is_some_and(|model| caller.may_use(model)) {
        let shown: String = name.chars().take(200).collect();
        let message = format!("This API key may not use the model '{shown}'.");
        return Err(Error::new(Kind::ModelNotAllowed, message));
    }
    let rules = snapshot.rules.of(&services.limiter, Asker { caller, attribution: None });
    let of_rules = || rules.as_ref()?.unpriced_refusal(name);
    let of_caller = caller.refuses_unpriced();
    let refusal =
        of_caller.map(|kind| limit_error::unpriced(&format!("this {kind}"), name)).or_else(of_rules);
    match refusal {
        Some(refusal) if model.is_none_or(|model| model.prices.is_none()) => Err(refusal),
        _ => Ok(()),
    }
}

/// Charges a transcript with this `usage` (JSON). Nothing was reserved for it, because the upstream makes it by itself.
pub(crate) fn charge(
    services: &Services,
    session: &RealtimeSession,
    mut client: Box<RequestContext>,
    (name, usage): (&str, &str),
) {
    let snapshot = services.snapshot();
    client.rules = services.rules_of(&snapshot, &client);
    let known = session.transcriber(&snapshot, name);
    let is_unpriced = known.is_none();
    let candidate = known.unwrap_or_else(|| session.candidate(&snapshot));
    let surface = candidate.provider.surfaces().realtime.as_deref();
    let Some(reported) = surface.and_then(|surface| surface.transcript_usage(usage)) else { return };
    let mut settlement =
        Settlement::open(&client, Arc::clone(&services.metrics), services.journal.as_ref(), OPERATION);
    settlement.note_forwarded(name, false);
    let attempt = settlement.upstream_calls().begin_attempt(&candidate);
    let size = CallSize { is_unpriced, has_inner_calls: true, ..CallSize::default() };
    let call = settlement.upstream_calls().begin(attempt, &candidate, size);
    settlement.upstream_calls().charge_as(call, (&candidate.model, size), Some(reported), 0);
    let now = clock::now();
    let billed = settlement.end_attempt(&candidate, attempt, AttemptOutcome::Served, (now, "ok"));
    let record = AttemptRecord {
        provider: Arc::clone(&candidate.model.provider),
        model: Arc::clone(&candidate.model.id),
        status: "ok",
        latency_ms: millis(attempt.until(now)),
        cost: billed.known_cost(),
    };
    settlement.note_attempt(&record, billed.cost, None, attempt);
    settlement.finish(&Outcome::Served);
    let rules = client.rules.as_ref();
    let at = rules.and_then(|rules| rules.at(&services.limiter, client.asker(), candidate.serving()));
    let subjects = client.subjects().iter().chain(at.iter().flat_map(|at| at.of_counters()));
    let subjects: Vec<(SubjectKind, &str)> = subjects.map(|subject| (subject.kind(), subject.id())).collect();
    let begun = clock::unix_millis().div_euclid(1_000);
    services.limiter.charge(&client.request_id, &subjects, billed.cost.femtos(), begun);
}
