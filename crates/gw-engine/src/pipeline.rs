//! The life of a generation request, step by step; read this first.
//!
//! The edge has identified the caller and read the body. Then: parse and validate (400), refuse what this version
//! cannot do, resolve and permit and check capability (`plan.rs`), set aside the worst case (`worst.rs`), attempt
//! (`attempts.rs`), account.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gw_limits::{Limiter, Reservation};
use gw_wire::money::Money;
use gw_wire::request::{RequestLimits, chat, completion, embeddings};
use http::{HeaderName, HeaderValue};

use crate::account::Account;
use crate::ask::Ask;
use crate::attempts::{self, Answer, Call};
use crate::cached;
use crate::call::{Context, Reply, ReplyBody};
use crate::cpu_pool::{is_heavy, offload_if};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::job::Job;
use crate::leavers::Staying;
use crate::plan::{self, Candidate, Planner};
use crate::refusal;
use crate::stream::{EventStream, Opening};
use crate::worst::{least_case, worst_case};

const MODEL: HeaderName = HeaderName::from_static("x-gateway-model");
const PROVIDER: HeaderName = HeaderName::from_static("x-gateway-provider");

/// How long the head of a streamed answer is held back for a first token. Until then a failure is a plain HTTP error.
pub(crate) const COMMIT_AFTER: Duration = Duration::from_secs(10);

/// Which endpoint a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Chat,
    Completion,
    Embeddings,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completion => "completion",
            Self::Embeddings => "embeddings",
        }
    }
}

/// Runs a request to its answer.
pub(crate) async fn run(
    engine: &Engine,
    operation: Operation,
    context: Context,
    body: Bytes,
) -> Result<Reply> {
    let mut account = Account::open(&context, engine.metrics(), engine.journal(), operation.as_str());
    let is_heavy = is_heavy(&body);
    let planned = offload_if(is_heavy, || prepare(engine, operation, &context, body, &mut account)).await;
    let (ask, plan) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            account.failed(&error);
            return Err(error);
        }
    };
    context.log.note(|record| {
        record.stream = ask.wants_stream();
        if let Some(first) = plan.1.candidates.first() {
            record.model = Some(Arc::clone(&first.model.id));
            record.provider = Some(Arc::clone(&first.model.provider));
        }
    });
    let (snapshot, plan) = plan;
    let cpu = engine.cpu_of(&context.caller);
    let job = Job {
        id: answer_id(operation),
        created: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        ask,
        context,
        snapshot,
        is_heavy,
        cpu,
        limiter: engine.limiter().clone(),
        granted: None,
        is_shortened: false.into(),
        meter: Arc::clone(account.meter()),
        resume: None,
    };
    let call = Box::new(Call::new(job, plan, account));
    let asked = match engine.caching() {
        Some(caching) => Some((caching, offload_if(is_heavy, || caching.plan(&call)).await)),
        None => None,
    };
    match asked {
        Some((caching, cached::Plan::Use(wanted))) => {
            Box::pin(cached::run(engine, caching, call, wanted)).await
        }
        Some((caching, cached::Plan::Vectors(wanted))) => {
            Box::pin(cached::embeddings::run(engine, caching, call, *wanted)).await
        }
        asked => {
            let mut reply = alone(engine, call).await?;
            reply.headers.extend(asked.is_some().then(|| cached::told("BYPASS")));
            Ok(reply)
        }
    }
}

/// Calls upstreams for this request alone.
async fn alone(engine: &Engine, mut call: Box<Call>) -> Result<Reply> {
    if let Err(error) = reserve(engine.limiter(), &mut call).await {
        call.tally.account.failed(&error);
        return Err(error);
    }
    if call.job.ask.wants_stream() {
        return Box::pin(stream(engine, call)).await;
    }
    match engine.leavers() {
        Some(leavers) => {
            let log = Arc::clone(&call.job.context.log);
            let hosted = call.job.cpu.clone().host(whole(call));
            Staying::new(Box::pin(hosted), leavers, log).await
        }
        None => whole(call).await,
    }
}

/// The same for one who had hoped to share another's answer.
pub(crate) async fn unshared(engine: &Engine, call: Box<Call>) -> Result<Reply> {
    let mut reply = alone(engine, call).await?;
    reply.headers.push(cached::told("MISS"));
    Ok(reply)
}

/// Steps that call nobody: parse, validate, resolve, permit, capability.
fn prepare(
    engine: &Engine,
    operation: Operation,
    context: &Context,
    body: Bytes,
    account: &mut Account,
) -> Result<(Ask, (Arc<plan::Snapshot>, plan::Plan))> {
    if engine.is_draining() {
        return Err(Error::new(Kind::NoAvailableProvider, "The gateway is shutting down.")
            .retry_after(Duration::from_secs(1)));
    }
    let snapshot = engine.snapshot();
    let ask = parse(operation, body, &snapshot.request_limits)?;
    account.asked(&ask);
    let metrics = engine.metrics();
    let planner = Planner { snapshot: &snapshot, metrics: &metrics, caller: &context.caller, ask: &ask };
    let plan = plan::plan(planner, None)?;
    account.routed(&plan);
    Ok((ask, (snapshot, plan)))
}

/// Sets aside what the request can use at the worst, with its key and with its team.
pub(crate) async fn reserve(limiter: &Limiter, call: &mut Call) -> Result<()> {
    let id = Arc::clone(&call.job.context.request_id);
    let (reserved, granted) = set_aside(limiter, call, &id).await?;
    call.tally.account.hold(reserved);
    call.job.granted = granted;
    Ok(())
}

/// The same for what it asks for besides: what was set aside before stays so.
pub(crate) async fn reserve_more(limiter: &Limiter, call: &mut Call) -> Result<()> {
    // Of one name and one amount there is one lease.
    let id = format!("{}+", call.job.context.request_id);
    let (reserved, _) = set_aside(limiter, call, &id).await?;
    call.tally.account.hold_more(reserved);
    Ok(())
}

/// What was set aside, and how much that is where the budget must not be crossed: then a part of the worst case will do.
async fn set_aside(limiter: &Limiter, call: &mut Call, id: &str) -> Result<(Reservation, Option<Money>)> {
    let Job { context, ask, snapshot, .. } = &call.job;
    let subjects = context.caller.subjects();
    // The tokens of embeddings are those of their inputs.
    let is_cut = context.caller.is_cut_by_budget() && !matches!(ask, Ask::Embeddings(_));
    if subjects.is_empty() {
        return Ok((Reservation::default(), None));
    }
    let set_aside = async |plan: &plan::Plan| {
        let (tokens, cost) = worst_case(ask, plan, &snapshot.routing);
        let most = cost.femtos();
        let least = if is_cut { least_case(ask, plan).femtos().min(most) } else { most };
        let reserving = limiter.reserve_up_to(id, subjects, tokens, most, least);
        let (reserved, granted) = reserving.await.map_err(|refused| refusal::error(&refused))?;
        Ok((reserved, is_cut.then(|| Money::from_femtos(granted))))
    };
    match set_aside(&call.plan).await {
        // A permission must not cost what would be served without it.
        Err(_) if call.plan.without_upgrades() => set_aside(&call.plan).await,
        reserved => reserved,
    }
}

pub(crate) fn parse(operation: Operation, body: Bytes, limits: &RequestLimits) -> Result<Ask> {
    Ok(match operation {
        Operation::Chat => Ask::Chat(Box::new(chat::parse_chat(body, limits)?)),
        Operation::Completion => Ask::Completion(Box::new(completion::parse_completion(body, limits)?)),
        Operation::Embeddings => Ask::Embeddings(Box::new(embeddings::parse_embeddings(body, limits)?)),
    })
}

async fn whole(mut call: Box<Call>) -> Result<Reply> {
    let (index, answer) = attempts::run(&mut call).await?;
    let mut headers = reply_headers(call.plan.candidates.get(index));
    if matches!(call.job.ask, Ask::Embeddings(_)) {
        headers.extend(cost_header(&call));
    }
    match answer {
        Answer::Full(body) => Ok(Reply { headers, body: ReplyBody::Full(body.into()) }),
        Answer::Stream(_) => Err(Error::new(Kind::InternalError, "The answer was a stream.")),
    }
}

async fn stream(engine: &Engine, mut call: Box<Call>) -> Result<Reply> {
    let (keepalive, log) = (call.job.context.keepalive, Arc::clone(&call.job.context.log));
    let due = call.job.context.accepted + call.plan.longest_total();
    let opening: Opening = Box::pin(call.job.cpu.clone().host(async move {
        let found = attempts::run(&mut call).await;
        (call, found)
    }));
    // From here on it knows what is to become of a call whose client goes away.
    let waiting = EventStream::waiting(opening, log, keepalive, engine.cut(), engine.leavers());
    let mut stream = Box::new(waiting.due_by(due));
    let headers = match tokio::time::timeout(COMMIT_AFTER, stream.opened()).await {
        Ok(served) => reply_headers(served?.as_ref()),
        Err(_) => Vec::new(),
    };
    Ok(Reply { headers, body: ReplyBody::Stream(stream) })
}

/// What embeddings cost: their body has no place for it.
pub(crate) fn cost_header(call: &Call) -> Option<(HeaderName, HeaderValue)> {
    let cost = call.cost.to_string();
    Some((HeaderName::from_static("x-gateway-cost-usd"), HeaderValue::from_str(&cost).ok()?))
}

/// Who served, for those who read headers only.
fn reply_headers(candidate: Option<&Candidate>) -> Vec<(HeaderName, HeaderValue)> {
    let Some(candidate) = candidate else { return Vec::new() };
    named(&candidate.model.id, &candidate.model.provider)
}

/// The headers that name a model and its provider.
pub(crate) fn named(model: &str, provider: &str) -> Vec<(HeaderName, HeaderValue)> {
    let named = [(MODEL, model), (PROVIDER, provider)];
    let mut headers = Vec::with_capacity(named.len() + 2);
    headers.extend(
        named.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?))),
    );
    headers
}

fn answer_id(operation: Operation) -> String {
    let prefix = if operation == Operation::Chat { "chatcmpl-" } else { "cmpl-" };
    let mut unique = uuid::Uuid::encode_buffer();
    let unique = uuid::Uuid::now_v7().hyphenated().encode_lower(&mut unique);
    let mut id = String::with_capacity(prefix.len() + unique.len());
    id.push_str(prefix);
    id.push_str(unique);
    id
}
