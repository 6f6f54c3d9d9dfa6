//! The upstream call for the inputs of a request that the cache does not have.

use std::sync::Arc;

use bytes::Bytes;
use gw_cache::{Found, Key, Lifetime, Outcome, Stamp, Stored};
use gw_limits::Limiter;
use gw_wire::kept_answer::KeptPlaces;
use gw_wire::money::Money;
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use crate::call::Call;
use crate::call::progress::OK;
use crate::call::reserve::{reserve, reserve_as_planned, reserve_more};
use crate::call::upstream_call::AttemptOutcome;
use crate::clock::millis;
use crate::document_memory::DocumentPermit;
use crate::error::{Error, Result};
use crate::plan::candidate::{Candidate, Plan};
use crate::proportional::divide;
use crate::request::ValidatedRequest;
use crate::response::headers::{cache_status, cost_header, named};
use crate::response::reply::{Reply, ReplyBody};
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::embeddings::answer::{EmbeddingsAnswer, FetchedVectors};
use crate::response_cache::embeddings::kept_reply::{inconsistent, kept_reply};
use crate::response_cache::embeddings::request::EmbeddingsCacheRequest;
use crate::response_cache::embeddings::vectors::CachedVectors;
use crate::response_cache::shared_answer::now_ms;
use crate::retry_policy;
use crate::retry_policy::RetryDecision;
use crate::upstream::attempts::search;
use crate::upstream::embeddings::EmbeddingsOutput;
use crate::upstream::outcome::Answer;

/// A request with inputs that the cache does not have.
pub(crate) struct PartialFetch {
    caching: Arc<ResponseCache>,
    /// Its request becomes that for the missing inputs.
    call: Box<Call>,
    /// The client's request.
    request: Box<EmbeddingsRequest>,
    wanted: EmbeddingsCacheRequest,
    found: CachedVectors,
    /// The memory of the answer.
    permit: Option<DocumentPermit>,
    /// The cache has all vectors, some of them stale. They will do if no upstream answers.
    is_all_kept: bool,
    stamp: Stamp,
    /// The key numbers of the inputs that are asked for.
    numbers: Vec<usize>,
}

impl PartialFetch {
    /// # Errors
    /// The request is not for embeddings.
    pub(crate) fn new(
        caching: Arc<ResponseCache>,
        mut call: Box<Call>,
        wanted: EmbeddingsCacheRequest,
        (found, permit): (CachedVectors, DocumentPermit),
        is_all_kept: bool,
        stamp: Stamp,
    ) -> Result<Self> {
        let Some(request) = call.context.request.embeddings() else { return Err(inconsistent()) };
        let request = Box::new(request.clone());
        call.context.is_shared = true;
        let permit = Some(permit);
        Ok(Self { caching, call, request, wanted, found, permit, is_all_kept, stamp, numbers: Vec::new() })
    }

    pub(crate) async fn run(mut self, limiter: Limiter) -> Result<Reply> {
        let (mut full_plan, is_paid_for) = match self.set_aside(&limiter).await {
            Ok(set_aside) => set_aside,
            Err(error) => {
                self.call.fail(&error);
                return Err(error);
            }
        };
        let answered = match self.search().await {
            Ok(Some(output)) if !self.matches_found(&output) => {
                self.keep_wasted(*output).await;
                self.fetch_all(&limiter, full_plan, false).await
            }
            Ok(None) if self.retain_others(&mut full_plan) => {
                self.fetch_all(&limiter, full_plan, is_paid_for).await
            }
            // The rules of another target may have room.
            Err(error) if error.rule.is_some() && self.retain_others(&mut full_plan) => {
                self.fetch_all(&limiter, full_plan, is_paid_for).await
            }
            answered => answered,
        };
        match answered {
            Ok(Some(output)) => self.complete(output).await,
            Ok(None) => {
                let error = self.call.progress.error();
                self.failed(error).await
            }
            Err(error) => self.failed(error).await,
        }
    }

    /// Reserves the cost of the missing inputs. If another model may have to be asked for all inputs, it reserves that
    /// cost instead, if the budget has it. Returns the plan for all inputs, and whether it is paid for.
    async fn set_aside(&mut self, limiter: &Limiter) -> Result<(Plan, bool)> {
        let missing = self.found.missing();
        let full_plan = self.call.plan.clone();
        let Some(id) = self.found.first().map(|first| Arc::clone(&first.model_used)) else {
            self.request_only(missing)?;
            reserve(limiter, &mut self.call).await?;
            return Ok((full_plan, true));
        };
        let is_whose = |candidate: &Candidate| candidate.model.id == id;
        let mut is_paid_for = false;
        if !full_plan.candidates.iter().all(is_whose) {
            self.request_only(self.all())?;
            is_paid_for = reserve_as_planned(limiter, &mut self.call).await.is_ok();
        }
        let others = if is_paid_for { self.call.plan.clone() } else { full_plan.clone() };
        self.call.plan = full_plan;
        let mut without = self.call.plan.clone();
        without.candidates.retain(|candidate| !is_whose(candidate));
        self.call.plan.candidates.retain(is_whose);
        self.request_only(missing)?;
        if !is_paid_for {
            match reserve_as_planned(limiter, &mut self.call).await {
                Err(error) if error.rule.is_some() && !without.candidates.is_empty() => {
                    // A rule has no room for the model of the found vectors, so another one is asked for all inputs.
                    self.found = CachedVectors::none(self.wanted.keys.len());
                    self.call.plan = without.clone();
                    self.request_only(self.all())?;
                    reserve_as_planned(limiter, &mut self.call).await?;
                    return Ok((without, true));
                }
                reserved => reserved?,
            }
        }
        Ok((others, is_paid_for))
    }

    fn all(&self) -> Vec<usize> {
        (0..self.wanted.keys.len()).collect()
    }

    /// Makes the call one for the inputs with these key numbers, each once.
    fn request_only(&mut self, numbers: Vec<usize>) -> Result<()> {
        self.call.context.request =
            ValidatedRequest::OneShot(if numbers.len() == self.request.inputs.len() {
                self.request.clone()
            } else {
                let first = |number: &usize| self.wanted.firsts.get(*number).copied();
                let places: Vec<usize> = numbers.iter().filter_map(first).collect();
                Box::new(self.request.subset(&places).ok_or_else(inconsistent)?)
            });
        self.numbers = numbers;
        Ok(())
    }

    async fn search(&mut self) -> Result<Option<Box<EmbeddingsOutput>>> {
        let answered = search(&mut self.call, 0).await?;
        Ok(match answered {
            Some((_, Answer::Vectors(output))) => Some(output),
            _ => None,
        })
    }

    fn matches_found(&self, output: &EmbeddingsOutput) -> bool {
        self.found.accepts(output.model(&self.request), output.dimensions)
    }

    /// Removes the candidates that the cached vectors belong to. Whether others remain and may succeed.
    fn retain_others(&self, full_plan: &mut Plan) -> bool {
        let Some(id) = self.found.model_used() else { return false };
        let fallback_on_4xx = self.call.context.snapshot.routing.fallback_on_4xx;
        let last = self.call.progress.failures.last();
        full_plan.candidates.retain(|candidate| *candidate.model.id != *id);
        // A request that would fail everywhere is not sent to other models.
        let is_hopeless =
            last.is_some_and(|last| retry_policy::verdict(last, fallback_on_4xx) == RetryDecision::Stop);
        !full_plan.candidates.is_empty() && !is_hopeless
    }

    /// Handles a model that changed behind its name. Its vectors are paid for and of no use to this request. They are
    /// kept, so the next request finds that the vectors differ, and asks for all inputs at once.
    async fn keep_wasted(&mut self, output: EmbeddingsOutput) {
        let Some(request) = self.call.context.request.embeddings() else { return };
        let (usage, tokens) = output.tokens(request);
        let cost = output.cost();
        self.call.progress.waste_attempt(&output.candidate, output.attempt);
        let (fresh, keeping) = self.fresh(output, &usage, &tokens, cost);
        let keys = self.keys();
        if let Ok(bodies) = fresh.into_entries().await {
            self.caching.cache.store_all(keeping.entries(keys.into_iter(), bodies), self.stamp);
        }
    }

    /// Asks for all inputs, because the new vectors do not match the cached ones.
    async fn fetch_all(
        &mut self,
        limiter: &Limiter,
        plan: Plan,
        is_paid_for: bool,
    ) -> Result<Option<Box<EmbeddingsOutput>>> {
        self.found = CachedVectors::none(self.wanted.keys.len());
        self.call.plan = plan;
        self.request_only(self.all())?;
        if !is_paid_for {
            reserve_more(limiter, &mut self.call).await?;
        }
        self.search().await
    }

    /// The fetched vectors, and the template of their cache entries.
    fn fresh(
        &self,
        output: EmbeddingsOutput,
        usage: &Usage,
        tokens: &[u64],
        cost: Option<Money>,
    ) -> (FetchedVectors, EntryTemplate) {
        let known_cost = cost.map(|_| Money::ZERO);
        let cost = cost.map_or(0, |cost| u128::try_from(cost.femtos()).unwrap_or(0));
        let shares = tokens.iter().copied().zip(divide(cost, tokens)).collect();
        let took_ms = millis(output.attempt.elapsed());
        let stored = Stored { cost: known_cost, ..self.stored(&output.candidate, usage, took_ms) };
        let keeping = EntryTemplate { stored, shares };
        let fresh = FetchedVectors {
            model: output.model(&self.request).to_owned(),
            is_kept: self.wanted.directives.can_write && !output.candidate.is_fallback,
            output,
            numbers: self.numbers.clone(),
        };
        (fresh, keeping)
    }

    /// The keys of the inputs that are asked for.
    fn keys(&self) -> Vec<Key> {
        self.numbers.iter().filter_map(|number| self.wanted.keys.get(*number).copied()).collect()
    }

    async fn complete(mut self, mut output: Box<EmbeddingsOutput>) -> Result<Reply> {
        let Some(request) = self.call.context.request.embeddings() else {
            return Err(inconsistent());
        };
        let candidate = output.candidate.clone();
        let (usage, tokens) = output.tokens(request);
        let cost = output.cost();
        let usage_told = self.usage_told(&usage, &tokens);
        let saved = self.found.sum(&[]);
        let more = usage_told.prompt.saturating_sub(usage.prompt);
        let more = Usage { prompt: more, estimated: usage_told.estimated, ..Usage::default() };
        self.call
            .progress
            .settlement
            .note_found(more, saved.as_ref().map_or(Some(Money::ZERO), |saved| saved.cost));
        let billed = self.call.progress.end_attempt(&candidate, output.attempt, AttemptOutcome::Served, OK);
        self.call.finish_served(&candidate, &billed);
        self.caching.cache.count(saved.as_ref().map_or(Outcome::Miss, Outcome::Partial));

        let mut headers = named(&candidate.model.id, &candidate.model.provider);
        headers.extend(cost_header(self.call.cost));
        headers.push(cache_status(if saved.is_some() { "PARTIAL" } else { "MISS" }));
        let mut permits = vec![self.permit.take().ok_or_else(inconsistent)?];
        // Where few vectors were cached, the documents of the upstream are most of the answer's memory.
        permits.append(&mut output.take_permits(&self.call));
        let (fresh, keeping) = self.fresh(*output, &usage, &tokens, cost);
        let keys = self.keys();
        let Self { caching, request, wanted, found, stamp, .. } = self;
        let encoding = request.encoding;
        let page = EmbeddingsAnswer {
            at: wanted.at,
            encoding,
            usage: usage_told,
            found,
            fresh: Some(fresh),
            permits,
        };
        let (body, bodies) = page.make().await?;
        caching.cache.store_all(keeping.entries(keys.into_iter(), bodies), stamp);
        Ok(Reply { headers, body: ReplyBody::Full(body) })
    }

    /// The usage in the answer to the client: the tokens of all inputs, as without a cache.
    fn usage_told(&self, usage: &Usage, tokens: &[u64]) -> Usage {
        let mut by_key: Vec<Usage> = (0..self.wanted.keys.len())
            .map(|number| self.found.get(number).map_or(Usage::default(), |stored| stored.usage))
            .collect();
        for (number, tokens) in self.numbers.iter().zip(tokens) {
            if let Some(slot) = by_key.get_mut(*number) {
                *slot = Usage { prompt: *tokens, ..*usage };
            }
        }
        let of = |number: &usize| by_key.get(*number);
        self.wanted.at.iter().filter_map(of).fold(Usage::default(), |sum, usage| sum.plus(usage))
    }

    /// The cache entry without the vector.
    fn stored(&self, candidate: &Candidate, usage: &Usage, took_ms: u64) -> Stored {
        Stored {
            scope: self.caching.scope(&self.call.context.client.caller),
            source: Arc::clone(&self.call.context.client.request_id),
            model: self.request.model.as_str().into(),
            model_used: Arc::clone(&candidate.model.id),
            provider: Arc::clone(&candidate.model.provider),
            body: Bytes::new(),
            finishes: Vec::new(),
            usage: *usage,
            cost: None,
            took_ms,
            lifetime: Lifetime::new(now_ms(), self.wanted.ttl, self.caching.settings.stale_if_error),
            places: KeptPlaces::default(),
        }
    }

    /// Answers with stale vectors if all are still there and the upstreams failed.
    async fn failed(mut self, error: Error) -> Result<Reply> {
        let is_theirs = error.kind.is_upstream_fault();
        let kept = CachedVectors::of(if is_theirs && self.is_all_kept {
            self.look_again().await
        } else {
            Vec::new()
        });
        let sum = kept.sum(&self.wanted.at).filter(|_| is_theirs && kept.are_all_there());
        self.permit = None;
        let key = self.call.context.client.caller.key_id();
        let permit = || self.caching.vectors.permit(key, kept.unsent(&self.wanted.at, &self.request));
        let Some((sum, permit)) = sum.and_then(|sum| Some((sum, permit()?))) else {
            self.caching.cache.count(Outcome::Miss);
            self.call.fail(&error);
            return Err(error);
        };
        self.caching.cache.count(Outcome::Stale(&sum));
        self.call.finish_cached(&sum, false, &[]);
        kept_reply(&self.call, &self.wanted, (kept, permit), &sum, "STALE").await
    }
}

impl PartialFetch {
    /// The vectors that may be used after the upstreams have failed. Those of the first look may be deleted meanwhile.
    async fn look_again(&self) -> Vec<Option<Arc<Stored>>> {
        let directives = self.wanted.directives;
        let usable = |stored: &Arc<Stored>| directives.can_use_stale(&stored.lifetime, now_ms());
        let looked = self.caching.cache.look_all(&self.wanted.keys, directives.max_age, now_ms()).await;
        let kept = |found| match found {
            Found::Fresh(stored) => Some(stored),
            Found::Stale(stored) => Some(stored).filter(usable),
            Found::Nothing => None,
        };
        looked.into_iter().map(kept).collect()
    }
}

/// The cache entries without their vectors.
struct EntryTemplate {
    stored: Stored,
    /// The tokens and the cost of each vector.
    shares: Vec<(u64, u128)>,
}

impl EntryTemplate {
    /// The entries of the vectors that have a body.
    fn entries(
        &self,
        keys: impl Iterator<Item = Key>,
        bodies: Vec<Option<Bytes>>,
    ) -> Vec<(Key, Arc<Stored>)> {
        let entry = |((key, body), (prompt, cost)): ((Key, Option<Bytes>), &(u64, u128))| {
            // An unknown cost has no shares.
            let share = Money::from_femtos(i128::try_from(*cost).unwrap_or_default());
            let cost = self.stored.cost.map(|_| share);
            let usage = Usage { prompt: *prompt, ..self.stored.usage };
            Some((key, Arc::new(Stored { body: body?, usage, cost, ..self.stored.clone() })))
        };
        keys.zip(bodies).zip(&self.shares).filter_map(entry).collect()
    }
}
