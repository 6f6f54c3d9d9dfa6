//! Answers to similar questions (`[[cache.semantic]]`): off unless an alias has it.
//!
//! Where nothing is kept for the very question, the last turn is embedded, and the nearest question of the same context is
//! looked for. The embedding is a request of its own, on behalf of the key that asks: permitted, limited and paid like any other,
//! with a row in the ledger. It runs in a task, so that a shadow delays nobody; it ends with the call that it is for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_cache::{Context as SimilarContext, Freshness, Key, Peeked, SimilarMode, Stored, Unit, Wish};
use gw_limits::Limiter;
use gw_store::journal::Journal;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::reserve::reserve;
use crate::call::settlement::Settlement;
use crate::clock;
use crate::cpu_pool::is_heavy;
use crate::error::Kind;
use crate::metrics::Metrics;
use crate::plan::PlanRequest;
use crate::request::ValidatedRequest;
use crate::request::context::{CallLog, RequestContext};
use crate::request::operation::{Operation, parse};
use crate::response_cache::cache_request::CacheRequest;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::flight::now_ms;
use crate::response_cache::question::{CandidateIdentities, question};
use crate::response_cache::semantic::{Alias, Semantic};
use crate::services::Services;
use crate::upstream::attempts;
use crate::upstream::outcome::Answer;
use crate::{plan, request_id};

/// So many of the nearest are tried in one look: the answer may be gone, or too old for this reader.
const MOST_TRIES: usize = 4;
/// How long the look of a shadow may take, for which nobody waits.
const SHADOWS_TIME: Duration = Duration::from_secs(10);

/// What a look needs of the services.
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

/// An answer to a similar question.
#[derive(Clone, Debug)]
pub(crate) struct SimilarAnswer {
    pub(crate) stored: Arc<Stored>,
    pub(crate) similarity: f32,
}

/// A look under way.
pub(crate) struct PendingLookup {
    found: oneshot::Receiver<SimilarAnswer>,
    kept: oneshot::Sender<()>,
    /// None: nobody waits for it.
    timeout: Option<Duration>,
}

/// To be told when the answer is kept: then the question may lead others to it.
pub(crate) struct RememberQuestion(oneshot::Sender<()>);

impl RememberQuestion {
    pub(crate) fn kept(self) {
        // A look that has failed has nothing to remember.
        let _ = self.0.send(());
    }
}

impl PendingLookup {
    /// What it finds in time, and whom to tell of an own answer.
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
    /// Begins a look for a chat whose answer is not kept. None when its alias has none, when there is nothing to compare, and when
    /// its key may not use the embedding model: then its words must not go there.
    pub(crate) fn begin(
        &self,
        caching: &Arc<ResponseCache>,
        call: &Call,
        wanted: &CacheRequest,
        means: LookupServices,
    ) -> Option<PendingLookup> {
        let ValidatedRequest::Chat(request) = &call.context.request else { return None };
        let alias = Arc::clone(self.aliases.get(&request.model)?);
        let named = CandidateIdentities::of(call);
        let asked = named.asked();
        let embedder = &alias.settings.embedding_model;
        let scope = caching.scope(&call.context.client.caller);
        let context = SimilarContext::of(&scope, &question(call, &asked), embedder)?;
        let permit = Arc::clone(&alias.looks).try_acquire_owned().ok()?;
        let embedding = embedding(call, embedder, &context.text, &means)?;
        let waits = alias.settings.similar.mode == SimilarMode::Answer;
        let timeout = waits.then_some(alias.settings.timeout);
        let (tell, found) = oneshot::channel();
        let (kept, was_kept) = oneshot::channel();
        let look = Lookup {
            alias,
            caching: Arc::clone(caching),
            context: context.key,
            key: wanted.key,
            wish: wanted.wish,
        };
        tokio::spawn(async move {
            let embedding = embed(embedding, &means.limiter, timeout.unwrap_or(SHADOWS_TIME));
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

/// Whether the answer to the question is kept.
enum KeptSignal {
    NotYet(oneshot::Receiver<()>),
    Kept,
    Never,
}

impl KeptSignal {
    async fn in_the_end(self) -> bool {
        match self {
            Self::NotYet(told) => told.await.is_ok(),
            Self::Kept => true,
            Self::Never => false,
        }
    }
}

/// The vector, unless all who were to get the answer have gone, or there is none: then it is of no use any more.
async fn while_wanted(
    embedding: impl Future<Output = Option<Unit>>,
    mut told: oneshot::Receiver<()>,
) -> (Option<Unit>, KeptSignal) {
    tokio::pin!(embedding);
    tokio::select! {
        vector = &mut embedding => (vector, KeptSignal::NotYet(told)),
        kept = &mut told => match kept {
            Ok(()) => (embedding.await, KeptSignal::Kept),
            Err(_) => (None, KeptSignal::Never),
        },
    }
}

/// What is looked for, and where.
struct Lookup {
    alias: Arc<Alias>,
    caching: Arc<ResponseCache>,
    context: Key,
    key: Key,
    wish: Wish,
}

impl Lookup {
    /// Tells the nearest question whose answer is there and young enough. A shadow counts it, and tells nothing.
    async fn answer(&self, vector: &Unit, tell: oneshot::Sender<SimilarAnswer>) {
        let similar = &self.alias.similar;
        let mut used = None;
        for found in similar.find(&self.context, vector, MOST_TRIES) {
            let stored = match self.caching.cache.peek(&found.key, now_ms()).await {
                Peeked::There(stored) => stored,
                Peeked::Absent => {
                    similar.forget(&self.context, &found.key);
                    continue;
                }
                Peeked::Unknown => break,
            };
            if stored.life.at(now_ms(), self.wish.max_age) == Freshness::Fresh {
                let nearest = SimilarAnswer { stored, similarity: found.similarity };
                // Whoever waited may have gone on without it.
                used = (!found.counts || tell.send(nearest).is_ok()).then_some(found);
                break;
            }
        }
        similar.looked(&self.context, used.as_ref());
    }
}

/// The request that embeds a text on behalf of a call's key; None when it would be refused.
fn embedding(call: &Call, model: &str, text: &str, means: &LookupServices) -> Option<Box<Call>> {
    let mut body = json!({"model": model, "input": text});
    if let (Some(user), Some(members)) = (call.context.request.user(), body.as_object_mut()) {
        members.insert("user".to_owned(), user.into());
    }
    let snapshot = Arc::clone(&call.context.snapshot);
    let body = Bytes::from(body.to_string());
    let is_heavy = is_heavy(&body);
    let request = parse(Operation::Embeddings, body, &snapshot.request_limits).ok()?;
    let caller = &call.context.client.caller;
    let planner = PlanRequest { snapshot: &snapshot, metrics: &means.metrics, caller, request: &request };
    let plan = plan::plan(planner, None).ok()?;
    let client = RequestContext {
        request_id: request_id::generate(),
        accepted: clock::now(),
        log: Arc::new(CallLog::default()),
        cache_control: None,
        keepalive: None,
        ..call.context.client.clone()
    };
    let operation = Operation::Embeddings.as_str();
    let mut settlement =
        Settlement::open(&client, Arc::clone(&means.metrics), means.journal.as_ref(), operation);
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
        limiter: means.limiter.clone(),
        granted: None,
        is_shortened: false.into(),
        upstream_calls: Arc::clone(settlement.upstream_calls()),
        continuation: None,
    };
    Some(Box::new(Call::new(context, plan, settlement)))
}

/// The vector; None when it cannot be paid for, is late, or fails: all of it is in the ledger.
async fn embed(mut call: Box<Call>, limiter: &Limiter, timeout: Duration) -> Option<Unit> {
    if let Err(error) = reserve(limiter, &mut call).await {
        call.fail(&error);
        return None;
    }
    let log = Arc::clone(&call.context.client.log);
    let mut running = Box::pin(attempts::run(&mut call));
    let Ok(answered) = tokio::time::timeout(timeout, &mut running).await else {
        // What holds a budget must not hang on an upstream that does.
        log.note(|record| record.status = Some(Kind::UpstreamTimeout.code()));
        return None;
    };
    let Ok((_, Answer::Full(body))) = answered else { return None };
    vector(&body)
}

fn vector(body: &[u8]) -> Option<Unit> {
    #[derive(Deserialize)]
    struct Document {
        data: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        embedding: Vec<f32>,
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    Unit::of(&document.data.first()?.embedding)
}
