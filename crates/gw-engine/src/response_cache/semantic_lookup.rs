//! Looks up answers to similar questions (`[[cache.semantic]]`). It is off unless an alias has it.
//!
//! If no answer to the exact question is kept, the gateway embeds the last turn and searches the nearest question of
//! the same context. The embedding is a request of its own for the caller's key: permitted, limited, paid and recorded
//! like any other. It runs in a task, so a shadow lookup delays no answer, and it ends with the call that it belongs
//! to.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_cache::{
    CacheDirectives, Context as SimilarContext, Freshness, Key, Peeked, SimilarityMode, Stored, UnitVector,
};
use gw_limits::Limiter;
use gw_store::journal::Journal;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use gw_wire::operation::PlainOperation;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::reserve::reserve_unadmitted;
use crate::call::settlement::Settlement;
use crate::clock;
use crate::cpu_pool::is_heavy;
use crate::error::Kind;
use crate::metrics::Metrics;
use crate::plan::PlanRequest;
use crate::request::ValidatedRequest;
use crate::request::context::{CallLog, ClientSurface, RequestContext};
use crate::request::operation::parse;
use crate::response_cache::cache_request::CacheRequest;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::question::{CandidateIdentities, question};
use crate::response_cache::semantic::{Alias, Semantic};
use crate::response_cache::shared_answer::now_ms;
use crate::services::Services;
use crate::upstream::attempts;
use crate::upstream::outcome::Answer;
use crate::{plan, request_id};

/// Nearest questions that one lookup tries. The answer of one may be gone or too old.
const MAX_TRIES: usize = 4;
/// The time limit of a shadow lookup.
const SHADOW_TIMEOUT: Duration = Duration::from_secs(10);

/// The services that a lookup uses.
pub(crate) struct LookupServices {
    metrics: Arc<Metrics>,
    journal: Option<Arc<Journal>>,
    pub(crate) limiter: Limiter,
}

impl LookupServices {
    pub(crate) fn of(services: &Services) -> Self {
        let journal = services.journal.clone();
        Self { metrics: Arc::clone(&services.metrics), journal, limiter: services.limiter.clone() }
    }
}

/// The answer to a similar question.
#[derive(Clone, Debug)]
pub(crate) struct SimilarAnswer {
    pub(crate) stored: Arc<Stored>,
    pub(crate) similarity: f32,
}

/// A lookup that runs in a task.
pub(crate) struct PendingLookup {
    found: oneshot::Receiver<SimilarAnswer>,
    kept: oneshot::Sender<()>,
    /// None = a shadow lookup, whose result the request does not wait for.
    timeout: Option<Duration>,
}

/// Tells the lookup that the answer is kept, so that similar questions may find it.
pub(crate) struct RememberQuestion(oneshot::Sender<()>);

impl RememberQuestion {
    pub(crate) fn kept(self) {
        // A failed lookup has no question to remember.
        let _ = self.0.send(());
    }
}

impl PendingLookup {
    /// The answer found in time, and the handle to report that the call's own answer is kept.
    pub(crate) async fn answer(self) -> (Option<SimilarAnswer>, Option<RememberQuestion>) {
        let Self { found, kept, timeout } = self;
        let nearest = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, found).await.ok().and_then(Result::ok),
            None => None,
        };
        (nearest, Some(RememberQuestion(kept)))
    }
}

impl Semantic {
    /// Begins a lookup. None if the alias has none, if there is no text to compare, or if the key may not use the
    /// embedding model, which then must not see the text.
    pub(crate) fn begin(
        &self,
        caching: &Arc<ResponseCache>,
        call: &Call,
        wanted: &CacheRequest,
        services: LookupServices,
    ) -> Option<PendingLookup> {
        let ValidatedRequest::Chat(request) = &call.context.request else { return None };
        let alias = Arc::clone(self.aliases.get(&request.model)?);
        let named = CandidateIdentities::of(call);
        let asked = named.asked();
        let embedder = &alias.settings.embedding_model;
        let scope = caching.scope(&call.context.client.caller);
        let context = SimilarContext::of(&scope, &question(call, &asked), embedder)?;
        let permit = Arc::clone(&alias.looks).try_acquire_owned().ok()?;
        let embedding = embedding(call, embedder, &context.text, &services)?;
        let waits = alias.settings.similar.mode == SimilarityMode::Answer;
        let timeout = waits.then_some(alias.settings.timeout);
        let (tell, found) = oneshot::channel();
        let (kept, was_kept) = oneshot::channel();
        let look = Lookup {
            alias,
            caching: Arc::clone(caching),
            context: context.key,
            key: wanted.key,
            directives: wanted.directives,
        };
        tokio::spawn(async move {
            let embedding = embed(embedding, &services.limiter, timeout.unwrap_or(SHADOW_TIMEOUT));
            let (vector, was_kept) = while_wanted(embedding, was_kept).await;
            drop(permit);
            let Some(vector) = vector else { return };
            look.answer(&vector, tell).await;
            if was_kept.in_the_end().await {
                look.alias.similar.add(look.context, vector, look.key);
            }
        });
        Some(PendingLookup { found, kept, timeout })
    }
}

/// Whether the answer of the call is kept.
enum KeptSignal {
    NotYet(oneshot::Receiver<()>),
    Kept,
    Never,
}

impl KeptSignal {
    async fn in_the_end(self) -> bool {
        match self {
            Self::NotYet(signal) => signal.await.is_ok(),
            Self::Kept => true,
            Self::Never => false,
        }
    }
}

/// The vector of the question; None if the embedding fails, or if all readers are gone and it is of no use.
async fn while_wanted(
    embedding: impl Future<Output = Option<UnitVector>>,
    mut signal: oneshot::Receiver<()>,
) -> (Option<UnitVector>, KeptSignal) {
    tokio::pin!(embedding);
    tokio::select! {
        vector = &mut embedding => (vector, KeptSignal::NotYet(signal)),
        kept = &mut signal => match kept {
            Ok(()) => (embedding.await, KeptSignal::Kept),
            Err(_) => (None, KeptSignal::Never),
        },
    }
}

/// The question of a lookup and its context.
struct Lookup {
    alias: Arc<Alias>,
    caching: Arc<ResponseCache>,
    context: Key,
    key: Key,
    directives: CacheDirectives,
}

impl Lookup {
    /// Reports the nearest question with an answer that is young enough. A shadow lookup only counts it.
    async fn answer(&self, vector: &UnitVector, tell: oneshot::Sender<SimilarAnswer>) {
        let similar = &self.alias.similar;
        let mut used = None;
        for found in similar.find(&self.context, vector, MAX_TRIES) {
            let stored = match self.caching.cache.peek(&found.key, now_ms()).await {
                Peeked::Present(stored) => stored,
                Peeked::Absent => {
                    similar.remove(&self.context, &found.key);
                    continue;
                }
                Peeked::Unknown => break,
            };
            if stored.lifetime.at(now_ms(), self.directives.max_age) == Freshness::Fresh {
                let nearest = SimilarAnswer { stored, similarity: found.similarity };
                // The request may have continued without waiting longer.
                used = (!found.is_usable || tell.send(nearest).is_ok()).then_some(found);
                break;
            }
        }
        similar.record_lookup(&self.context, used.as_ref());
    }
}

/// The call that embeds a text for a call's key; None if it is refused.
fn embedding(call: &Call, model: &str, text: &str, services: &LookupServices) -> Option<Box<Call>> {
    let mut body = json!({"model": model, "input": text});
    if let (Some(user), Some(members)) = (call.context.request.user(), body.as_object_mut()) {
        members.insert("user".to_owned(), user.into());
    }
    let snapshot = Arc::clone(&call.context.snapshot);
    let body = Bytes::from(body.to_string());
    let is_heavy = is_heavy(&body);
    let request = parse(PlainOperation::Embeddings, body, &snapshot.request_limits).ok()?;
    let caller = &call.context.client.caller;
    let planner = PlanRequest {
        snapshot: &snapshot,
        metrics: &services.metrics,
        caller,
        request: &request,
        headers: &[],
        attribution: None,
        preset: None,
    };
    let plan = plan::plan(planner, None).ok()?;
    let client = Box::new(RequestContext {
        request_id: request_id::generate(),
        accepted: clock::now(),
        log: Arc::new(CallLog::default()),
        cache_control: None,
        keepalive: None,
        surface: ClientSurface::default(),
        trace: None,
        max_cost: None,
        preset: None,
        matched_headers: Vec::new(),
        ..(*call.context.client).clone()
    });
    let operation = PlainOperation::Embeddings.row().name;
    let mut settlement =
        Settlement::open(&client, Arc::clone(&services.metrics), services.journal.as_ref(), operation);
    settlement.note_request(&request);
    settlement.note_plan(&plan);
    let context = AttemptContext {
        request,
        client,
        snapshot,
        id: String::new(),
        created: 0,
        is_heavy,
        cpu: call.context.cpu.clone(),
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
    Some(Box::new(Call::new(context, plan, settlement)))
}

/// The vector; None if the embedding cannot be paid, is late or fails. The ledger has a row in each case.
async fn embed(mut call: Box<Call>, limiter: &Limiter, timeout: Duration) -> Option<UnitVector> {
    if let Err(error) = reserve_unadmitted(limiter, &mut call).await {
        call.fail(&error);
        return None;
    }
    let log = Arc::clone(&call.context.client.log);
    let mut running = Box::pin(attempts::run(&mut call));
    let Ok(answered) = tokio::time::timeout(timeout, &mut running).await else {
        // A request that holds a reservation must not wait for a hanging upstream.
        log.note(|record| record.status = Some(Kind::UpstreamTimeout.code()));
        return None;
    };
    let Ok((_, Answer::Full(body))) = answered else { return None };
    vector(&body)
}

fn vector(body: &[u8]) -> Option<UnitVector> {
    #[derive(Deserialize)]
    struct Document {
        data: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        embedding: Vec<f32>,
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    UnitVector::of(&document.data.first()?.embedding)
}
