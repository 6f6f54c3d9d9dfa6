//! Requests on pass-through routes: they go upstream as the client wrote them, and are counted, limited and charged like others.

mod charging;
mod further_choices;
mod relay;
mod request_facts;
mod sending;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_providers::settings::Timeouts;
use gw_wire::operation::Operation;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use self::charging::Charging;
use self::further_choices::FurtherChoices;
pub use self::relay::{RelayedBody, TornAnswer};
use self::request_facts::RequestFacts;
use self::sending::SentCall;
pub use self::upload::{Upload, UploadSender, upload};
use crate::auth::Caller;
use crate::call::forwarded_reserve::{ForwardedCase, reserve};
use crate::call::settlement::{Outcome, Settlement};
use crate::catalog::Model;
use crate::cpu_pool::{is_heavy, offload_if};
use crate::error::{Error, Kind, Result};
use crate::execute::budget_left;
use crate::passthrough_routes::PassthroughRoute;
use crate::plan::candidate::Candidate;
use crate::plan::snapshot::Snapshot;
use crate::request::context::RequestContext;
use crate::services::Services;

/// A request on a pass-through route.
#[derive(Debug)]
pub struct PassthroughRequest {
    /// The route.
    pub route: Arc<PassthroughRoute>,
    /// The method.
    pub method: Method,
    /// The path behind that of the route, and the query. It is empty, or begins with `/` or `?`.
    pub path: String,
    /// The headers that go upstream.
    pub headers: HeaderMap,
    /// The body.
    pub body: PassthroughBody,
}

/// The body of a request on a pass-through route.
#[derive(Debug)]
pub enum PassthroughBody {
    /// A body that is there.
    Whole(Bytes),
    /// A body that is sent upstream as the client sends it.
    Streamed(Upload),
}

/// The answer of an upstream.
#[derive(Debug)]
pub struct PassthroughReply {
    /// The status.
    pub status: u16,
    /// The headers as the upstream sent them.
    pub headers: HeaderMap,
    /// The gateway's own header, if the request has a budget.
    pub budget_left: Option<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: RelayedBody,
}

/// A request that may be sent.
struct ReadyRequest {
    snapshot: Arc<Snapshot>,
    candidate: Candidate,
    charging: Charging,
    clocks: Timeouts,
    requested_model: String,
}

/// Sends a request upstream and answers with what comes back.
///
/// # Errors
/// Every refusal of the request, and the failure of the upstream call.
pub(crate) async fn run(
    services: &Services,
    mut client: Box<RequestContext>,
    request: PassthroughRequest,
) -> Result<PassthroughReply> {
    client.rules = services.rules_of(&services.snapshot(), &client);
    let mut settlement = Settlement::open(
        &client,
        Arc::clone(&services.metrics),
        services.journal.as_ref(),
        Operation::Passthrough.row().name,
    );
    let begun = begin(services, &client, &request, &mut settlement).await;
    let prepared = match begun {
        Ok(prepared) => prepared,
        Err(error) => {
            settlement.finish(&Outcome::Failed(&error));
            return Err(error);
        }
    };
    let ReadyRequest { snapshot, candidate, charging, clocks, .. } = prepared;
    // Tokens are counted when the answer is over, and then it has no headers any more.
    let at = charging.is_flat().then(|| client.subjects_at(&services.limiter, candidate.serving()));
    let call = SentCall::new(snapshot, candidate, charging, settlement);
    let mut reply = sending::send(call, &client, request, clocks, services.cutoff_watch()).await?;
    if let Some(subjects) = at {
        reply.budget_left = budget_left(&services.limiter, &subjects).await;
    }
    Ok(reply)
}

/// The steps before anything is sent: the model, the permission, the session, the reservation.
async fn begin(
    services: &Services,
    client: &RequestContext,
    request: &PassthroughRequest,
    settlement: &mut Settlement,
) -> Result<ReadyRequest> {
    if services.is_draining() {
        return Err(Error::new(Kind::NoAvailableProvider, "The gateway is shutting down.")
            .retry_after(Duration::from_secs(1)));
    }
    let is_heavy = matches!(&request.body, PassthroughBody::Whole(body) if is_heavy(body));
    let snapshot = services.snapshot();
    let prepared = offload_if(is_heavy, || prepare(services, snapshot, client, request, settlement)).await?;
    let ReadyRequest { charging, candidate, requested_model, snapshot, .. } = &prepared;
    client.log.note(|record| {
        record.model = Some(Arc::clone(&candidate.model.id));
        record.provider = Some(Arc::clone(&candidate.model.provider));
    });
    if !charging.has_price()
        && let Some(refusal) =
            client.unpriced_refusal_at(&services.limiter, &candidate.model.id, candidate.serving())
    {
        return Err(refusal);
    }
    if let Some(guarded) = snapshot.session_guards.of_forwarded(client, requested_model) {
        let warnings = guarded.admit(&services.limiter, &services.metrics).await?;
        if !warnings.is_empty() {
            settlement.note_warnings(&warnings);
        }
        settlement.charge_session(guarded.charge(&services.limiter));
    }
    let (tokens, cost) = charging.worst_case();
    let is_unpriced = !charging.has_price();
    let case = ForwardedCase { candidate, need: (tokens, cost.femtos()), is_unpriced, counts: true };
    reserve(&services.limiter, client, case, settlement).await?;
    Ok(prepared)
}

/// The bytes of a body that was read, and the most bytes of the body.
fn body_size(body: &PassthroughBody) -> (u64, u64) {
    match body {
        PassthroughBody::Whole(body) => (body.len() as u64, body.len() as u64),
        PassthroughBody::Streamed(upload) => (0, upload.most_bytes()),
    }
}

fn prepare(
    services: &Services,
    snapshot: Arc<Snapshot>,
    client: &RequestContext,
    request: &PassthroughRequest,
    settlement: &mut Settlement,
) -> Result<ReadyRequest> {
    let route = &*request.route;
    let body = match &request.body {
        PassthroughBody::Whole(body) => Some(&**body),
        PassthroughBody::Streamed(_) => None,
    };
    let facts = RequestFacts::of(&request.path, body);
    let requested_model = facts.models.first().cloned().unwrap_or_default();
    settlement.note_forwarded(&requested_model, facts.is_stream);
    client.log.note(|record| record.stream = facts.is_stream);
    let recognised: Vec<_> =
        facts.models.iter().map(|name| recognise(&snapshot, route, name, &client.caller)).collect();
    if client.caller.is_limited() {
        let further = FurtherChoices::of(&request.path, body);
        let find = |name: &str| recognise(&snapshot, route, name, &client.caller);
        check_models(&client.caller, &facts, &further, find)?;
        check_encoding(&request.headers)?;
    }
    if route.reads_usage() && route.priced.is_none() && facts.models.len() > 1 {
        let message = "The request names several models, and a route that is charged by tokens needs the one that serves.";
        return Err(Error::new(Kind::Invalid, message));
    }
    let known = recognised.first().copied().flatten();
    let model = known.unwrap_or(&route.model);
    let charging =
        Charging::of(route, (model, known.is_some()), (&request.method, &facts), body_size(&request.body));
    let candidate = Candidate {
        model: Arc::clone(model),
        provider: Arc::clone(&route.provider),
        metrics: services.metrics.model(&route.provider, &model.id),
        group: 0,
        is_fallback: false,
        is_upgrade: false,
        prompt_cache: None,
    };
    let clocks = route.timeouts.over(candidate.clocks());
    Ok(ReadyRequest { candidate, charging, clocks, requested_model, snapshot })
}

/// The model of the catalogue that a name stands for at the upstream of a route: by the provider's own names, else by its id. A
/// target has no names of its own, so there the names of all providers count, and those of models that the caller may use first.
fn recognise<'s>(
    snapshot: &'s Snapshot,
    route: &PassthroughRoute,
    name: &str,
    caller: &Caller,
) -> Option<&'s Arc<Model>> {
    let is_named = |model: &&Arc<Model>| {
        *model.upstream_model == *name && (route.is_target || model.provider == *route.provider.name())
    };
    let mut named = snapshot.catalog.models().iter().filter(is_named);
    let first = named.clone().next();
    let by_id = || {
        snapshot.catalog.get(name).filter(|model| route.is_target || model.provider == *route.provider.name())
    };
    named.find(|model| caller.may_use(model)).or(first).or_else(by_id)
}

/// Checks that a caller with a list of models names models of it, and nothing that may lead to another one.
fn check_models<'s>(
    caller: &Caller,
    facts: &RequestFacts,
    further: &FurtherChoices,
    find: impl Fn(&str) -> Option<&'s Arc<Model>>,
) -> Result<()> {
    let may_use = |name: &str| find(name).is_some_and(|model| caller.may_use(model));
    let mut all = facts.models.iter().chain(&further.named).chain(&further.inner);
    if let Some(name) = all.find(|name| !may_use(name)) {
        let shown: String = name.chars().take(200).collect();
        return Err(Error::new(
            Kind::ModelNotAllowed,
            format!("This API key may not use the model '{shown}'."),
        ));
    }
    // The model that an inner object names need not be the model that serves.
    if facts.models.is_empty() && further.named.is_empty() {
        let message =
            "This API key may use only some models, and the request names none that the gateway knows.";
        return Err(Error::new(Kind::ModelNotAllowed, message));
    }
    if facts.has_other_choice || further.is_unclear {
        let message = "This API key may use only some models, and the request may choose another one: send a JSON body \
                       that names one model.";
        return Err(Error::new(Kind::ModelNotAllowed, message));
    }
    Ok(())
}

/// Checks that the upstream reads the bytes in which the gateway found the model.
fn check_encoding(headers: &HeaderMap) -> Result<()> {
    let is_plain = |value: &HeaderValue| {
        let encoding = value.as_bytes().trim_ascii();
        encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
    };
    if headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Ok(());
    }
    let message = "This API key may use only some models, and a body with a Content-Encoding may name another one: send \
                   the JSON body without it.";
    Err(Error::new(Kind::ModelNotAllowed, message))
}
