//! The life of a generation request, step by step; read this first.
//!
//! The edge has identified the caller and read the body. Then each request is
//! 1. parsed and validated (`request/`),
//! 2. planned: resolved, permitted, checked against each model's capabilities, ordered by the strategy (`plan/`),
//! 3. counted in its session, which may stop it (`session_guard.rs`),
//! 4. answered from the response cache, or by a call that identical requests share (`response_cache/`), or
//! 5. executed alone (`execute.rs`): tokens and money are reserved (`call/reserve.rs`), upstreams are called
//!    (`upstream/attempts.rs`), the answer is written (`upstream/dispatch.rs`, `response/event_stream.rs`), and
//! 6. settled exactly once, however it ends (`call/settlement.rs`).

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_limits::Subject;
use gw_wire::operation::{Operation, OperationRow, PlainOperation};
use gw_wire::request::RequestLimits;
use gw_wire::request::images::ImageUse;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::settlement::{Outcome, Settlement};
use crate::clock::unix_millis;
use crate::cpu_pool::{is_heavy, offload_if};
use crate::dry_run::report;
use crate::error::{Error, Kind, Result};
use crate::execute::{budget_left, execute};
use crate::plan;
use crate::plan::PlanRequest;
use crate::plan::candidate::Plan;
use crate::plan::cost_estimate::keep_within;
use crate::plan::snapshot::Snapshot;
use crate::plan::taper::tapered;
use crate::plan::usual_model::name_usual_model;
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::request::operation::{image_forms, parse, transcription};
use crate::request::uploads::{FormKind, UploadedForm};
use crate::response::headers::{BUDGET_LEFT, cache_status};
use crate::response::reply::{Reply, ReplyBody};
use crate::response_cache::ResponseCache;
use crate::response_cache::cache_request::CacheUse;
use crate::response_cache::known_questions::KnownQuestion;
use crate::response_cache::{embeddings, serve};
use crate::services::Services;
use crate::session_guard::GuardedRequest;

/// Runs a request to its answer.
///
/// # Errors
/// Every refusal of the request, and the error of its last attempt.
pub(crate) async fn run(
    services: &Services,
    operation: PlainOperation,
    client: Box<RequestContext>,
    body: Bytes,
) -> Result<Reply> {
    let find = |cache: &Arc<ResponseCache>| cache.known.find(operation, &client.caller, &body);
    let known = services.response_cache.load().as_ref().and_then(find);
    let read = |body, limits: &RequestLimits| match known.as_ref().and_then(|known| known.request(limits)) {
        Some(request) => Ok(request),
        None => parse(operation, body, limits),
    };
    let call = begin(services, operation.into(), client, body, read).await?;
    answer_known(services, call, known).await
}

/// As [`run`], for a form with files, or for one that cannot be read.
///
/// # Errors
/// As [`run`].
pub(crate) async fn run_form(
    services: &Services,
    kind: FormKind,
    client: Box<RequestContext>,
    body: Bytes,
    form: Result<UploadedForm>,
) -> Result<Reply> {
    let operation = kind.operation();
    let parse = |body, limits: &RequestLimits| {
        let form = form?;
        match kind {
            FormKind::Transcription | FormKind::Translation => {
                transcription::parse(operation, body, form, limits)
            }
            FormKind::ImageEdit => image_forms::parse(ImageUse::Edit, body, form, limits),
            FormKind::ImageVariation => image_forms::parse(ImageUse::Variation, body, form, limits),
        }
    };
    let call = begin(services, operation.into(), client, body, parse).await?;
    answer(services, call).await
}

/// Validates and plans a request. `parse` reads its body.
///
/// # Errors
/// Every refusal of the request that needs no reservation.
pub(crate) async fn begin(
    services: &Services,
    operation: Operation,
    client: Box<RequestContext>,
    body: Bytes,
    parse: impl FnOnce(Bytes, &RequestLimits) -> Result<ValidatedRequest>,
) -> Result<Box<Call>> {
    let is_heavy = is_heavy(&body);
    begin_sized(services, operation, client, body, is_heavy, parse).await
}

/// Notes the report of a dry run. Returns the error that ends the request: its own, or one that the edge replaces by the report.
async fn answer_dry_run(
    services: &Services,
    mut client: Box<RequestContext>,
    body: Bytes,
    is_heavy: bool,
    parse: impl FnOnce(Bytes, &RequestLimits) -> Result<ValidatedRequest>,
) -> Error {
    let prepared = offload_if(is_heavy, || prepare(services, parse, &client, body, None)).await;
    let Prepared { request, snapshot, plan, guarded } = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    client.rules = services.rules_of(&snapshot, &client);
    if let Some(dry_run) = client.dry_run.clone() {
        dry_run.note(report(services, &mut client, &request, &snapshot, (plan, guarded)).await);
    }
    Error::internal()
}

/// As [`begin`], for a request whose parsing time does not follow from its body.
pub(crate) async fn begin_sized(
    services: &Services,
    operation: Operation,
    mut client: Box<RequestContext>,
    body: Bytes,
    is_heavy: bool,
    parse: impl FnOnce(Bytes, &RequestLimits) -> Result<ValidatedRequest>,
) -> Result<Box<Call>> {
    if client.dry_run.is_some() {
        // Few requests are dry runs, so the others do not carry their future.
        return Err(Box::pin(answer_dry_run(services, client, body, is_heavy, parse)).await);
    }
    let mut settlement = Settlement::open(
        &client,
        Arc::clone(&services.metrics),
        services.journal.as_ref(),
        operation.row().name,
    );
    let prepared =
        offload_if(is_heavy, || prepare(services, parse, &client, body, Some(&mut settlement))).await;
    let Prepared { request, snapshot, plan, guarded } = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            settlement.finish(&Outcome::Failed(&error));
            return Err(error);
        }
    };
    client.rules = services.rules_of(&snapshot, &client);
    client.log.note(|record| {
        record.stream = request.wants_stream();
        if let Some(first) = plan.candidates.first() {
            record.model = Some(Arc::clone(&first.model.id));
            record.provider = Some(Arc::clone(&first.model.provider));
        }
    });
    let now = u64::try_from(unix_millis()).unwrap_or(0);
    let context = AttemptContext {
        id: answer_id(operation, now),
        created: now / 1_000,
        request,
        cpu: services.cpu_of(&client.caller),
        client,
        snapshot,
        is_heavy,
        limiter: services.limiter.clone(),
        granted: None,
        is_shortened: false.into(),
        upstream_calls: Arc::clone(settlement.upstream_calls()),
        is_shared: false,
        conversation_memory: None,
        image_memory: None,
        kept_attempts: 0,
        continuation: None,
    };
    let mut call = Box::new(Call::new(context, plan, settlement));
    let of_fallbacks = call.planner().0.fallback_warnings(&call.plan);
    let Call { context, progress, .. } = &mut *call;
    progress.warnings.extend(of_fallbacks);
    progress.warnings.extend(context.client.warnings.iter().map(|warning| Cow::Borrowed(*warning)));
    if let Some(guarded) = guarded {
        Box::pin(enter_session(services, &guarded, &mut call)).await?;
    }
    if call.context.client.rules.as_ref().is_some_and(|rules| rules.may_taper()) {
        Box::pin(taper(&mut call)).await;
    }
    Ok(call)
}

/// Answers a planned request: from the cache, by a call that requests share, or by a call of its own.
///
/// # Errors
/// The refusal of the reservation, or the error of the last attempt.
pub(crate) fn answer(services: &Services, call: Box<Call>) -> impl Future<Output = Result<Reply>> {
    answer_known(services, call, None)
}

/// As [`answer`]. `known` is the body of the request, if the cache has answered it before.
async fn answer_known(
    services: &Services,
    call: Box<Call>,
    known: Option<Arc<KnownQuestion>>,
) -> Result<Reply> {
    let is_heavy = call.context.is_heavy;
    let response_cache = services.response_cache.load_full();
    let cache_use = match &response_cache {
        Some(cache) => {
            Some((cache, offload_if(is_heavy, || CacheUse::of(cache, &call, known.as_deref())).await))
        }
        None => None,
    };
    let subjects = cache_use.as_ref().map(|_| with_budgets(&call)).unwrap_or_default();
    let reply = match cache_use {
        Some((cache, CacheUse::Answer(wanted))) => serve::run(services, cache, call, wanted).await,
        Some((cache, CacheUse::Vectors(wanted))) => {
            Box::pin(embeddings::serve::run(services, cache, call, *wanted)).await
        }
        not_used => {
            let mut reply = execute(services, call).await?;
            reply.headers.extend(not_used.is_some().then(|| cache_status("BYPASS")));
            Ok(reply)
        }
    };
    if subjects.is_empty() { reply } else { Box::pin(tell_budget_left(services, &subjects, reply?)).await }
}

/// The key, its team and the rules of a request, if one of them has a budget.
fn with_budgets(call: &Call) -> Vec<Arc<Subject>> {
    let subjects = call.context.client.subjects();
    let has_budget = subjects.iter().any(|subject| subject.limits().budget.is_some());
    if has_budget { subjects.to_vec() } else { Vec::new() }
}

/// Adds the money that is left to a plain answer that the response cache has handed out. An answer of a call of its own has it already.
async fn tell_budget_left(services: &Services, subjects: &[Arc<Subject>], mut reply: Reply) -> Result<Reply> {
    let is_told = reply.headers.iter().any(|(name, _)| *name == BUDGET_LEFT);
    if !is_told && matches!(reply.body, ReplyBody::Full(_)) {
        reply.headers.extend(budget_left(&services.limiter, subjects).await);
    }
    Ok(reply)
}

/// A request that may be executed.
struct Prepared {
    request: ValidatedRequest,
    snapshot: Arc<Snapshot>,
    plan: Plan,
    guarded: Option<Box<GuardedRequest>>,
}

/// Has an alias serve the request, if a budget is spent to one of its thresholds.
async fn taper(call: &mut Call) {
    let Some(tapered) =
        tapered(&call.context.limiter, &call.context.client, call.planner(), &call.plan).await
    else {
        return;
    };
    let (plan, warning) = tapered;
    let asked = std::mem::replace(&mut call.plan, plan);
    call.progress.warnings.push(Cow::Owned(warning.clone()));
    call.asked_plan = Some(Box::new((asked, warning)));
    call.note_replanned();
}

/// Counts a request in its session.
///
/// # Errors
/// `session_limit_reached`.
async fn enter_session(services: &Services, guarded: &GuardedRequest, call: &mut Call) -> Result<()> {
    match guarded.admit(&services.limiter, &services.metrics).await {
        Ok(warnings) => {
            call.progress.warnings.extend(warnings);
            call.progress.settlement.charge_session(guarded.charge(&services.limiter));
            Ok(())
        }
        Err(error) => {
            call.fail(&error);
            Err(error)
        }
    }
}

/// The steps without input and output: parse, validate, resolve, permit, check capabilities.
fn prepare(
    services: &Services,
    parse: impl FnOnce(Bytes, &RequestLimits) -> Result<ValidatedRequest>,
    client: &RequestContext,
    body: Bytes,
    mut settlement: Option<&mut Settlement>,
) -> Result<Prepared> {
    if services.is_draining() {
        return Err(Error::new(Kind::NoAvailableProvider, "The gateway is shutting down.")
            .retry_after(Duration::from_secs(1)));
    }
    let snapshot = services.snapshot();
    let mut request = parse(body, &snapshot.request_limits)?;
    name_usual_model(&mut request, &snapshot, &client.caller)?;
    if let Some(settlement) = &mut settlement {
        settlement.note_request(&request);
    }
    let plan_request = PlanRequest::of_client(&snapshot, &services.metrics, client, &request);
    let mut plan = plan::plan(plan_request, None)?;
    if let Some(settlement) = &mut settlement {
        settlement.note_plan(&plan);
    }
    if let Some(most) = client.max_cost.as_deref().copied() {
        keep_within(&request, &mut plan, most)?;
    }
    // The responses of a realtime session count, and not its handshake.
    let guarded = if request.is_handshake() { None } else { snapshot.session_guards.of(client, &request) };
    Ok(Prepared { request, snapshot, plan, guarded })
}

fn answer_id(operation: Operation, millis: u64) -> String {
    let OperationRow { id_prefix: prefix, has_hyphens_in_id, .. } = *operation.row();
    let mut buffer = uuid::Uuid::encode_buffer();
    let unique = uuid::Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid();
    let unique = match has_hyphens_in_id {
        true => unique.hyphenated().encode_lower(&mut buffer),
        false => unique.simple().encode_lower(&mut buffer),
    };
    let mut id = String::with_capacity(prefix.len() + unique.len());
    id.push_str(prefix);
    id.push_str(unique);
    id
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use bytes::Bytes;

    use super::run;
    use crate::request::context::RequestContext;
    use crate::services::Services;
    use gw_wire::operation::PlainOperation;

    /// The bytes of the future that is made of these parts.
    fn bytes_of<P, F: Future>(_: impl FnOnce(P) -> F) -> usize {
        size_of::<F>()
    }

    /// A future is copied into its box, and the allocator's short path ends at 4 KiB. Parts that few calls run are boxed.
    #[test]
    fn the_future_of_a_call_is_small() {
        let bytes = bytes_of(|(services, client, body): (Services, Box<RequestContext>, Bytes)| async move {
            run(&services, PlainOperation::Chat, client, body).await
        });
        assert!(bytes <= 2_944, "{bytes}");
    }
}
