//! The transcript of what a client said, which another model may make beside the responses, at its own price.

use std::sync::Arc;

use gw_limits::{Subject, SubjectKind, SubjectUse};
use gw_wire::gateway::AttemptRecord;
use gw_wire::usage::{Unit, Units, Usage};

use super::OPERATION;
use super::session::RealtimeSession;
use crate::call::settlement::{Outcome, Settlement};
use crate::call::upstream_call::AttemptOutcome;
use crate::clock::{self, millis};
use crate::error::{Error, Kind, Result};
use crate::limit_error;
use crate::plan::call_size::{CallSize, credible_units};
use crate::plan::candidate::Candidate;
use crate::request::context::RequestContext;
use crate::rules::Asker;
use crate::services::Services;

/// The most seconds of what a client says before it is transcribed: the longest session of OpenAI has an hour
/// (platform.openai.com/docs/guides/realtime, November 2026).
const MOST_SECONDS: u64 = 3_600;

/// Checks whether a caller may have this model of the upstream transcribe.
///
/// # Errors
/// `model_not_allowed`, or `insufficient_quota` for a budget that refuses what has no price.
pub(crate) fn check(
    services: &Services,
    session: &RealtimeSession,
    asker: Asker<'_>,
    name: &str,
) -> Result<()> {
    let caller = asker.caller;
    let snapshot = services.snapshot();
    let found = session.transcriber(&snapshot, name);
    let model = found.as_ref().map(|candidate| &candidate.model);
    if caller.is_limited() && !model.is_some_and(|model| caller.may_use(model)) {
        let shown: String = name.chars().take(200).collect();
        let message = format!("This API key may not use the model '{shown}'.");
        return Err(Error::new(Kind::ModelNotAllowed, message));
    }
    let rules = snapshot.rules.of(&services.limiter, asker);
    let serving = found.as_ref().map_or_else(|| session.serving(), Candidate::serving);
    let of_target = || rules.as_ref()?.at(&services.limiter, asker, serving)?.unpriced_refusal(name);
    let of_rules = || rules.as_ref()?.unpriced_refusal(name).or_else(of_target);
    let of_caller = caller.refuses_unpriced();
    let refusal =
        of_caller.map(|kind| limit_error::unpriced(&format!("this {kind}"), name)).or_else(of_rules);
    match refusal {
        Some(refusal) if model.is_none_or(|model| model.prices.is_none()) => Err(refusal),
        _ => Ok(()),
    }
}

/// Checks whether the budgets of a caller, its team and its rules have money for a transcript. What running responses have reserved is
/// theirs: the client speaks while a response runs.
///
/// # Errors
/// `insufficient_quota`: one of them is spent.
pub(crate) async fn check_budget(
    services: &Services,
    session: &RealtimeSession,
    asker: Asker<'_>,
) -> Result<()> {
    let rules = services.snapshot().rules.of(&services.limiter, asker);
    let at = rules.as_ref().and_then(|rules| rules.at(&services.limiter, asker, session.serving()));
    let of_targets = at.iter().flat_map(|at| at.of_counters());
    let others = rules.as_ref().map_or_else(|| asker.caller.subjects(), |rules| rules.subjects());
    let subjects: Vec<Arc<Subject>> = others.iter().chain(of_targets).cloned().collect();
    if !subjects.iter().any(|subject| subject.limits().budget.is_some()) {
        return Ok(());
    }
    let is_spent = |used: &SubjectUse| {
        let budget = used.limits.budget.zip(used.budget);
        budget.is_some_and(|(budget, used)| used.spent_femtos >= budget.femtos())
    };
    // While Redis is away, the next response is checked as the configuration wants it.
    let used = services.limiter.inspect(&subjects).await.unwrap_or_default();
    if used.iter().any(is_spent) {
        let message = "A budget of this request is spent, so what the session hears is not transcribed.";
        return Err(Error::new(Kind::InsufficientQuota, message));
    }
    Ok(())
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
    let units = credible_units(reported.units, Units::new(Unit::Second, MOST_SECONDS));
    let estimated = reported.estimated || units != reported.units;
    let reported = Usage { units, estimated, ..reported };
    let mut settlement =
        Settlement::open(&client, Arc::clone(&services.metrics), services.journal.as_ref(), OPERATION);
    settlement.note_forwarded(name, false);
    let attempt = settlement.upstream_calls().begin_attempt(&candidate);
    let size = CallSize { is_unpriced, ..CallSize::default() };
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
    let paying = client.paying_subjects(&services.limiter, candidate.serving());
    let subjects: Vec<(SubjectKind, &str)> =
        paying.iter().map(|subject| (subject.kind(), subject.id())).collect();
    let begun = clock::unix_millis().div_euclid(1_000);
    services.limiter.charge(&client.request_id, &subjects, billed.cost.femtos(), begun);
}
