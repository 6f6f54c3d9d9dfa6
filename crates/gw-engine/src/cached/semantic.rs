//! Answers to similar questions (`[[cache.semantic]]`): off unless an alias has it.
//!
//! Where nothing is kept for the very question, the last turn is embedded, and the nearest question of the same context is
//! looked for. The embedding is a request of its own, on behalf of the key that asks: permitted, limited and paid like any other,
//! with a row in the ledger. It runs in a task, so that a shadow delays nobody, and one that comes too late is still of use:
//! for the next one who asks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_cache::{
    Context as Company, Found, Key, Match, Similar, SimilarFigures, SimilarMode, SimilarSettings, Stored,
    Unit, Wish,
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
use crate::engine::Engine;
use crate::job::Job;
use crate::metrics::Metrics;
use crate::pipeline::{self, Operation};
use crate::plan::{self, Planner};
use crate::request_id;

/// Embeddings under way at the same time; who comes then asks the upstream without a look.
const MOST_LOOKS: usize = 256;
/// Vectors that lead to answers which are gone: so many are tried in one look.
const MOST_TRIES: usize = 4;

/// One `[[cache.semantic]]`.
#[derive(Clone, Debug)]
pub struct SemanticSettings {
    /// The alias whose questions are compared, as clients write it.
    pub alias: String,
    /// The catalogue id of the model that makes vectors.
    pub embedding_model: String,
    /// How near a question must be, and what is done then.
    pub similar: SimilarSettings,
    /// How long a request waits for its look.
    pub timeout: Duration,
}

/// The similar questions of all aliases that have them.
#[derive(Debug)]
pub(crate) struct Semantic {
    aliases: HashMap<String, Arc<Alias>>,
    looks: Arc<Semaphore>,
}

#[derive(Debug)]
struct Alias {
    settings: SemanticSettings,
    similar: Similar,
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
            let similar = Similar::new(settings.similar);
            (settings.alias.clone(), Arc::new(Alias { settings, similar }))
        };
        let aliases = settings.into_iter().map(alias).collect();
        Self { aliases, looks: Arc::new(Semaphore::new(MOST_LOOKS)) }
    }

    /// What is wrong with the models that are to make vectors.
    pub(super) fn problems(
        &self,
        catalog: &Catalog,
        discovers: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = String> {
        self.aliases.values().filter_map(move |alias| {
            let SemanticSettings { alias, embedding_model: id, .. } = &alias.settings;
            let provider = id.split_once('/').map_or("", |(provider, _)| provider);
            let what = match catalog.get(id) {
                Some(model) if model.is_embedding() => return None,
                Some(_) => "is not an embedding model",
                None if discovers(provider) => return None,
                None => "is in no catalogue",
            };
            Some(format!("cache.semantic for '{alias}': the model '{id}' {what}"))
        })
    }

    /// What came of it so far, by alias.
    pub(super) fn figures(&self) -> Vec<(&SemanticSettings, SimilarFigures)> {
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
        let permit = Arc::clone(&self.looks).try_acquire_owned().ok()?;
        let embedding = embedding(call, embedder, &context.text, &means)?;
        let timeout = (alias.settings.similar.mode == SimilarMode::Answer).then_some(alias.settings.timeout);
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
            let vector = embed(embedding, &means.limiter).await;
            drop(permit);
            let Some(vector) = vector else { return };
            if let Some(nearest) = look.nearest(&vector).await {
                // Whoever waited may have gone on without it.
                let _ = tell.send(nearest);
            } else {
                drop(tell);
            }
            if was_kept.await.is_ok() {
                look.alias.similar.add(look.context, vector, look.key);
            }
        });
        Some(Looking { found, kept, timeout })
    }
}

/// What is looked for, and where.
struct Look {
    alias: Arc<Alias>,
    caching: Arc<Caching>,
    context: Key,
    key: Key,
    wish: Wish,
}

impl Look {
    /// The nearest question whose answer is there and young enough. A shadow counts it, and finds nothing.
    async fn nearest(&self, vector: &Unit) -> Option<Nearest> {
        let similar = &self.alias.similar;
        let mut nearest = None;
        for _ in 0..MOST_TRIES {
            let Some(found) = similar.find(&self.context, vector) else { break };
            match self.caching.cache.look(&found.key, self.wish.max_age, now_ms()).await {
                Found::Fresh(stored) => {
                    nearest = Some((found, stored));
                    break;
                }
                // Young enough for others.
                Found::Stale(_) => break,
                Found::Nothing => similar.forget(&self.context, &found.key),
            }
        }
        similar.looked(&self.context, nearest.as_ref().map(|(found, _)| found));
        let (Match { similarity, counts, .. }, stored) = nearest?;
        counts.then_some(Nearest { stored, similarity })
    }
}

/// The request that embeds a text on behalf of a call's key; None when it would be refused.
fn embedding(call: &Call, model: &str, text: &str, means: &Means) -> Option<Box<Call>> {
    let mut body = json!({"model": model, "input": text});
    if let (Some(user), Some(members)) = (call.job.ask.user(), body.as_object_mut()) {
        members.insert("user".to_owned(), user.into());
    }
    let ask = pipeline::parse(Operation::Embeddings, Bytes::from(body.to_string())).ok()?;
    let snapshot = Arc::clone(&call.job.snapshot);
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
    let job = Job { ask, context, snapshot, id: String::new(), created: 0, resume: None };
    Some(Box::new(Call::new(job, plan, account)))
}

/// The vector; None when it cannot be paid for, or fails: both are in the ledger.
async fn embed(mut call: Box<Call>, limiter: &Limiter) -> Option<Unit> {
    if let Err(error) = pipeline::reserve(limiter, &mut call).await {
        call.tally.account.failed(&error);
        return None;
    }
    let Ok((_, Answer::Full(body))) = attempts::run(&mut call).await else { return None };
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
