//! Answers to similar questions (`[[cache.semantic]]`): off unless an alias has it.
//!
//! Where nothing is kept for the very question, the last turn is embedded, and the nearest question of the same context is
//! looked for. The embedding is a request of its own, on behalf of the key that asks: permitted, limited and paid like any other,
//! with a row in the ledger. It runs in a task, so that a shadow delays nobody; it ends with the call that it is for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_cache::{
    CacheDirectives, Context as Company, Freshness, Key, Peeked, SimilarityFigures, SimilarityIndex,
    SimilarityMode, SimilaritySettings, Stored, UnitVector,
};
use gw_limits::Limiter;
use gw_store::journal::Journal;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};

use super::{Caching, Named, Wanted, now_ms, question};
use crate::account::Account;
use crate::ask::Ask;
use crate::attempts::{self, Answer, Call};
use crate::call::{CallLog, Context};
use crate::catalog::Catalog;
use crate::cpu_pool::is_heavy;
use crate::engine::Engine;
use crate::error::Kind;
use crate::job::Job;
use crate::metrics::Metrics;
use crate::pipeline::{self, Operation};
use crate::plan::{self, Planner};
use crate::request_id;

/// Embeddings of one alias under way at the same time; who comes then asks the upstream without a look.
const MOST_LOOKS: usize = 128;
/// So many of the nearest are tried in one look: the answer may be gone, or too old for this reader.
const MOST_TRIES: usize = 4;
/// How long the look of a shadow may take, for which nobody waits.
const SHADOWS_TIME: Duration = Duration::from_secs(10);

/// One `[[cache.semantic]]`.
#[derive(Clone, Debug)]
pub struct SemanticSettings {
    /// The alias whose questions are compared, as clients write it.
    pub alias: String,
    /// The catalogue id of the model that makes vectors.
    pub embedding_model: String,
    /// How near a question must be, and what is done then.
    pub similar: SimilaritySettings,
    /// How long a request waits for its look.
    pub timeout: Duration,
}

/// What is wrong with the models that are to make vectors. One that its provider may yet list is taken on trust.
#[must_use]
pub fn problems(
    all: &[SemanticSettings],
    catalog: &Catalog,
    discovers: impl Fn(&str) -> bool,
) -> Vec<String> {
    let problem = |settings: &SemanticSettings| {
        let SemanticSettings { alias, embedding_model: id, .. } = settings;
        let provider = id.split_once('/').map_or("", |(provider, _)| provider);
        let what = match catalog.get(id) {
            Some(model) if model.is_embedding() => return None,
            Some(_) => "is not an embedding model",
            None if discovers(provider) => return None,
            None => "is in no catalogue",
        };
        Some(format!("cache.semantic for '{alias}': the model '{id}' {what}"))
    };
    all.iter().filter_map(problem).collect()
}

/// The similar questions of all aliases that have them.
#[derive(Debug)]
pub(crate) struct Semantic {
    aliases: HashMap<String, Arc<Alias>>,
}

#[derive(Debug)]
struct Alias {
    settings: SemanticSettings,
    similar: SimilarityIndex,
    looks: Arc<Semaphore>,
}

/// What a look needs of the engine.
pub(super) struct Means {
    metrics: Arc<Metrics>,
    journal: Option<Arc<Journal>>,
    pub(super) limiter: Limiter,
}

impl Means {
    pub(super) fn of(engine: &Engine) -> Self {
        let journal = engine.journal().map(Arc::clone);
        Self { metrics: engine.metrics(), journal, limiter: engine.limiter().clone() }
    }
}

/// An answer to a similar question.
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    pub(super) stored: Arc<Stored>,
    pub(super) similarity: f32,
}

/// A look under way.
pub(super) struct Looking {
    found: oneshot::Receiver<Nearest>,
    kept: oneshot::Sender<()>,
    /// None: nobody waits for it.
    timeout: Option<Duration>,
}

/// To be told when the answer is kept: then the question may lead others to it.
pub(super) struct Remember(oneshot::Sender<()>);

impl Remember {
    pub(super) fn kept(self) {
        // A look that has failed has nothing to remember.
        let _ = self.0.send(());
    }
}

impl Looking {
    /// What it finds in time, and whom to tell of an own answer.
    pub(super) async fn answer(self) -> (Option<Nearest>, Option<Remember>) {
        let Self { found, kept, timeout } = self;
        let nearest = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, found).await.ok().and_then(Result::ok),
            None => None,
        };
        (nearest, Some(Remember(kept)))
    }
}

impl Semantic {
    pub(super) fn new(settings: Vec<SemanticSettings>) -> Self {
        let alias = |settings: SemanticSettings| {
            let similar = SimilarityIndex::new(settings.similar);
            let looks = Arc::new(Semaphore::new(MOST_LOOKS));
            (settings.alias.clone(), Arc::new(Alias { settings, similar, looks }))
        };
        Self { aliases: settings.into_iter().map(alias).collect() }
    }

    /// What came of it so far, by alias.
    pub(super) fn figures(&self) -> Vec<(&SemanticSettings, SimilarityFigures)> {
        let mut all: Vec<_> =
            self.aliases.values().map(|alias| (&alias.settings, alias.similar.figures())).collect();
        all.sort_by(|(one, _), (other, _)| one.alias.cmp(&other.alias));
        all
    }

    /// Begins a look for a chat whose answer is not kept. None when its alias has none, when there is nothing to compare, and when
    /// its key may not use the embedding model: then its words must not go there.
    pub(super) fn begin(
        &self,
        caching: &Arc<Caching>,
        call: &Call,
        wanted: &Wanted,
        means: Means,
    ) -> Option<Looking> {
        let Ask::Chat(request) = &call.job.ask else { return None };
        let alias = Arc::clone(self.aliases.get(&request.model)?);
        let named = Named::of(call);
        let asked = named.asked();
        let embedder = &alias.settings.embedding_model;
        let scope = caching.scope(&call.job.context.caller);
        let context = Company::of(&scope, &question(call, &asked), embedder)?;
        let permit = Arc::clone(&alias.looks).try_acquire_owned().ok()?;
        let embedding = embedding(call, embedder, &context.text, &means)?;
        let waits = alias.settings.similar.mode == SimilarityMode::Answer;
        let timeout = waits.then_some(alias.settings.timeout);
        let (tell, found) = oneshot::channel();
        let (kept, was_kept) = oneshot::channel();
        let look = Look {
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
        Some(Looking { found, kept, timeout })
    }
}

/// Whether the answer to the question is kept.
enum WasKept {
    NotYet(oneshot::Receiver<()>),
    Kept,
    Never,
}

impl WasKept {
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
    embedding: impl Future<Output = Option<UnitVector>>,
    mut told: oneshot::Receiver<()>,
) -> (Option<UnitVector>, WasKept) {
    tokio::pin!(embedding);
    tokio::select! {
        vector = &mut embedding => (vector, WasKept::NotYet(told)),
        kept = &mut told => match kept {
            Ok(()) => (embedding.await, WasKept::Kept),
            Err(_) => (None, WasKept::Never),
        },
    }
}

/// What is looked for, and where.
struct Look {
    alias: Arc<Alias>,
    caching: Arc<Caching>,
    context: Key,
    key: Key,
    wish: CacheDirectives,
}

impl Look {
    /// Tells the nearest question whose answer is there and young enough. A shadow counts it, and tells nothing.
    async fn answer(&self, vector: &UnitVector, tell: oneshot::Sender<Nearest>) {
        let similar = &self.alias.similar;
        let mut used = None;
        for found in similar.find(&self.context, vector, MOST_TRIES) {
            let stored = match self.caching.cache.peek(&found.key, now_ms()).await {
                Peeked::Present(stored) => stored,
                Peeked::Absent => {
                    similar.remove(&self.context, &found.key);
                    continue;
                }
                Peeked::Unknown => break,
            };
            if stored.lifetime.at(now_ms(), self.wish.max_age) == Freshness::Fresh {
                let nearest = Nearest { stored, similarity: found.similarity };
                // Whoever waited may have gone on without it.
                used = (!found.is_usable || tell.send(nearest).is_ok()).then_some(found);
                break;
            }
        }
        similar.record_lookup(&self.context, used.as_ref());
    }
}

/// The request that embeds a text on behalf of a call's key; None when it would be refused.
fn embedding(call: &Call, model: &str, text: &str, means: &Means) -> Option<Box<Call>> {
    let mut body = json!({"model": model, "input": text});
    if let (Some(user), Some(members)) = (call.job.ask.user(), body.as_object_mut()) {
        members.insert("user".to_owned(), user.into());
    }
    let snapshot = Arc::clone(&call.job.snapshot);
    let body = Bytes::from(body.to_string());
    let is_heavy = is_heavy(&body);
    let ask = pipeline::parse(Operation::Embeddings, body, &snapshot.request_limits).ok()?;
    let caller = &call.job.context.caller;
    let planner = Planner { snapshot: &snapshot, metrics: &means.metrics, caller, ask: &ask };
    let plan = plan::plan(planner, None).ok()?;
    let context = Context {
        request_id: request_id::generate(),
        accepted: Instant::now(),
        log: Arc::new(CallLog::default()),
        cache_control: None,
        keepalive: None,
        ..call.job.context.clone()
    };
    let operation = Operation::Embeddings.as_str();
    let mut account = Account::open(&context, Arc::clone(&means.metrics), means.journal.as_ref(), operation);
    account.asked(&ask);
    account.routed(&plan);
    let job = Job {
        ask,
        context,
        snapshot,
        id: String::new(),
        created: 0,
        is_heavy,
        cpu: call.job.cpu.clone(),
        limiter: means.limiter.clone(),
        granted: None,
        is_shortened: false.into(),
        meter: Arc::clone(account.meter()),
        resume: None,
    };
    Some(Box::new(Call::new(job, plan, account)))
}

/// The vector; None when it cannot be paid for, is late, or fails: all of it is in the ledger.
async fn embed(mut call: Box<Call>, limiter: &Limiter, timeout: Duration) -> Option<UnitVector> {
    if let Err(error) = pipeline::reserve(limiter, &mut call).await {
        call.tally.account.failed(&error);
        return None;
    }
    let log = Arc::clone(&call.job.context.log);
    let mut running = Box::pin(attempts::run(&mut call));
    let Ok(answered) = tokio::time::timeout(timeout, &mut running).await else {
        // What holds a budget must not hang on an upstream that does.
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
