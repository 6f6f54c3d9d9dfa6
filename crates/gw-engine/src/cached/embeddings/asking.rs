//! The upstream call for those inputs of a request that were not found.

use std::sync::Arc;

use bytes::Bytes;
use gw_cache::{Key, Life, Outcome, Stamp, Stored};
use gw_limits::Limiter;
use gw_wire::money::Money;
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use super::page::{Fresh, Page};
use super::room::Place;
use super::vectors::Vectors;
use super::{Wanted, kept_reply, odd};
use crate::ask::Ask;
use crate::attempts::{Call, search};
use crate::cached::{Caching, divide, now_ms, told};
use crate::call::{Reply, ReplyBody};
use crate::embed::Brought;
use crate::error::{Error, Kind, Result};
use crate::job::millis;
use crate::pipeline::{cost_header, named, reserve, reserve_more};
use crate::plan::{Candidate, Plan};
use crate::verdict::{self, Verdict};

/// A request of which something is to be asked for.
pub(super) struct Asking {
    caching: Arc<Caching>,
    /// Its request becomes what is asked for.
    call: Box<Call>,
    /// As the client has made it.
    request: Box<EmbeddingsRequest>,
    wanted: Wanted,
    found: Vectors,
    /// For the answer.
    place: Option<Place>,
    /// What was found, and what is too old, for when no upstream answers.
    kept: Vec<Option<Arc<Stored>>>,
    stamp: Stamp,
    /// The numbers of the keys that are asked for.
    numbers: Vec<usize>,
}

impl Asking {
    /// # Errors
    /// It is no request for embeddings.
    pub(super) fn new(
        caching: Arc<Caching>,
        mut call: Box<Call>,
        wanted: Wanted,
        (found, place): (Vectors, Place),
        kept: Vec<Option<Arc<Stored>>>,
        stamp: Stamp,
    ) -> Result<Self> {
        let Ask::Embeddings(request) = &call.job.ask else { return Err(odd()) };
        let request = request.clone();
        call.is_shared = true;
        let place = Some(place);
        Ok(Self { caching, call, request, wanted, found, place, kept, stamp, numbers: Vec::new() })
    }

    pub(super) async fn run(mut self, limiter: Limiter) -> Result<Reply> {
        let (mut whole, is_paid_for) = match self.set_aside(&limiter).await {
            Ok(set_aside) => set_aside,
            Err(error) => {
                self.call.tally.account.failed(&error);
                return Err(error);
            }
        };
        let answered = match self.search().await {
            Ok(Some(brought)) if !self.goes_with_what_was_found(&brought) => {
                self.in_vain(*brought).await;
                self.anew(&limiter, whole, false).await
            }
            Ok(None) if self.leaves_others(&mut whole) => self.anew(&limiter, whole, is_paid_for).await,
            answered => answered,
        };
        match answered {
            Ok(Some(brought)) => self.complete(brought).await,
            Ok(None) => {
                let error = self.call.tally.error();
                self.failed(error).await
            }
            Err(error) => self.failed(error).await,
        }
    }

    /// Sets aside what asking for the missing inputs costs and, where another model may have to be asked for all of them, what that
    /// does, if there is so much. Gives who can be asked then, and whether that is set aside.
    async fn set_aside(&mut self, limiter: &Limiter) -> Result<(Plan, bool)> {
        let missing = self.found.missing();
        let whole = self.call.plan.clone();
        let Some(id) = self.found.first().map(|first| Arc::clone(&first.model_used)) else {
            self.ask_for(missing)?;
            reserve(limiter, &mut self.call).await?;
            return Ok((whole, true));
        };
        let is_whose = |candidate: &Candidate| candidate.model.id == id;
        let mut is_paid_for = false;
        if !whole.candidates.iter().all(is_whose) {
            self.ask_for(self.all())?;
            is_paid_for = reserve(limiter, &mut self.call).await.is_ok();
        }
        let others = if is_paid_for { self.call.plan.clone() } else { whole.clone() };
        self.call.plan = whole;
        self.call.plan.candidates.retain(is_whose);
        self.ask_for(missing)?;
        if !is_paid_for {
            reserve(limiter, &mut self.call).await?;
        }
        Ok((others, is_paid_for))
    }

    fn all(&self) -> Vec<usize> {
        (0..self.wanted.keys.len()).collect()
    }

    /// Makes the call one for the inputs with these keys, each once.
    fn ask_for(&mut self, numbers: Vec<usize>) -> Result<()> {
        self.call.job.ask = Ask::Embeddings(if numbers.len() == self.request.inputs.len() {
            self.request.clone()
        } else {
            let first = |number: &usize| self.wanted.firsts.get(*number).copied();
            let places: Vec<usize> = numbers.iter().filter_map(first).collect();
            Box::new(self.request.subset(&places).ok_or_else(odd)?)
        });
        self.numbers = numbers;
        Ok(())
    }

    async fn search(&mut self) -> Result<Option<Box<Brought>>> {
        let answered = search(&mut self.call, 0).await?;
        Ok(answered.and_then(|_| self.call.brought.take()))
    }

    fn goes_with_what_was_found(&self, brought: &Brought) -> bool {
        self.found.take(brought.model(&self.request), brought.dimensions)
    }

    /// Leaves of those who can be asked the ones that the vectors are not of; whether there are any, and it is worth it.
    fn leaves_others(&self, whole: &mut Plan) -> bool {
        let Some(id) = self.found.model_used() else { return false };
        let fallback_on_4xx = self.call.job.snapshot.routing.fallback_on_4xx;
        let last = self.call.tally.failures.last();
        whole.candidates.retain(|candidate| *candidate.model.id != *id);
        // What would fail anywhere is not shopped around.
        let is_hopeless = last.is_some_and(|last| verdict::verdict(last, fallback_on_4xx) == Verdict::Stop);
        !whole.candidates.is_empty() && !is_hopeless
    }

    /// The model has changed behind its name. What it said is paid for, and of no use here: it is kept for the next request, which
    /// will find that nothing goes together, and ask for everything at once.
    async fn in_vain(&mut self, brought: Brought) {
        let Ask::Embeddings(request) = &self.call.job.ask else { return };
        let (usage, tokens) = brought.tokens(request);
        let cost = brought.cost();
        self.call.tally.in_vain(&brought.candidate, brought.started);
        let (fresh, keeping) = self.fresh(brought, &usage, &tokens, cost);
        let keys = self.keys();
        if let Ok(bodies) = fresh.into_entries().await {
            self.caching.cache.store_all(keeping.entries(keys.into_iter(), bodies), self.stamp);
        }
    }

    /// Asks these for everything, because nothing came that goes with what was found.
    async fn anew(
        &mut self,
        limiter: &Limiter,
        plan: Plan,
        is_paid_for: bool,
    ) -> Result<Option<Box<Brought>>> {
        self.found = Vectors::none(self.wanted.keys.len());
        self.call.plan = plan;
        self.ask_for(self.all())?;
        if !is_paid_for {
            reserve_more(limiter, &mut self.call).await?;
        }
        self.search().await
    }

    /// What was brought, and what is to be kept of it.
    fn fresh(
        &self,
        brought: Brought,
        usage: &Usage,
        tokens: &[u64],
        cost: Option<Money>,
    ) -> (Fresh, Keeping) {
        let cost = cost.map_or(0, |cost| u128::try_from(cost.femtos()).unwrap_or(0));
        let shares = tokens.iter().copied().zip(divide(cost, tokens)).collect();
        let took_ms = millis(brought.started.elapsed());
        let keeping = Keeping { stored: self.stored(&brought.candidate, usage, took_ms), shares };
        let fresh = Fresh {
            model: brought.model(&self.request).to_owned(),
            is_kept: self.wanted.wish.writes && !brought.candidate.is_fallback,
            brought,
            numbers: self.numbers.clone(),
        };
        (fresh, keeping)
    }

    /// Those that are asked for.
    fn keys(&self) -> Vec<Key> {
        self.numbers.iter().filter_map(|number| self.wanted.keys.get(*number).copied()).collect()
    }

    async fn complete(mut self, brought: Box<Brought>) -> Result<Reply> {
        let Ask::Embeddings(request) = &self.call.job.ask else { return Err(odd()) };
        let candidate = brought.candidate.clone();
        let (usage, tokens) = brought.tokens(request);
        let cost = brought.cost();
        let usage_told = self.usage_told(&usage, &tokens);
        let saved = self.found.sum(&[]);
        let more = usage_told.prompt.saturating_sub(usage.prompt);
        let more = Usage { prompt: more, estimated: usage_told.estimated, ..Usage::default() };
        self.call.tally.account.found(more, saved.as_ref().map_or(Money::ZERO, |saved| saved.cost));
        self.call.served(&candidate, &usage, cost);
        self.caching.cache.count(saved.as_ref().map_or(Outcome::Miss, Outcome::Partial));

        let mut headers = named(&candidate.model.id, &candidate.model.provider);
        headers.extend(cost_header(&self.call));
        headers.push(told(if saved.is_some() { "PARTIAL" } else { "MISS" }));
        let (fresh, keeping) = self.fresh(*brought, &usage, &tokens, cost);
        let keys = self.keys();
        let Self { caching, request, wanted, found, place, stamp, .. } = self;
        let place = place.ok_or_else(odd)?;
        let encoding = request.encoding;
        let page = Page { at: wanted.at, encoding, usage: usage_told, found, fresh: Some(fresh), place };
        let (body, bodies) = page.make().await?;
        caching.cache.store_all(keeping.entries(keys.into_iter(), bodies), stamp);
        Ok(Reply { headers, body: ReplyBody::Full(body) })
    }

    /// The tokens of all inputs, also of those that are there twice: what an answer to this request alone would tell.
    fn usage_told(&self, usage: &Usage, tokens: &[u64]) -> Usage {
        let mut by_key: Vec<Usage> = (0..self.wanted.keys.len())
            .map(|number| self.found.get(number).map_or(Usage::default(), |stored| stored.usage))
            .collect();
        for (number, tokens) in self.numbers.iter().zip(tokens) {
            if let Some(place) = by_key.get_mut(*number) {
                *place = Usage { prompt: *tokens, ..*usage };
            }
        }
        let of = |number: &usize| by_key.get(*number);
        self.wanted.at.iter().filter_map(of).fold(Usage::default(), |sum, usage| sum.plus(usage))
    }

    /// What all entries have in common.
    fn stored(&self, candidate: &Candidate, usage: &Usage, took_ms: u64) -> Stored {
        Stored {
            scope: self.caching.scope(&self.call.job.context.caller),
            source: Arc::clone(&self.call.job.context.request_id),
            model: self.request.model.as_str().into(),
            model_used: Arc::clone(&candidate.model.id),
            provider: Arc::clone(&candidate.model.provider),
            body: Bytes::new(),
            finishes: Vec::new(),
            usage: *usage,
            cost: Money::ZERO,
            took_ms,
            life: Life::new(now_ms(), self.wanted.ttl, self.caching.settings.stale_if_error),
        }
    }

    /// No upstream answers: what is too old may stand in, if it is all there.
    async fn failed(mut self, error: Error) -> Result<Reply> {
        let is_theirs = error.kind.row().0 >= 500 || error.kind == Kind::UpstreamRateLimited;
        let wish = self.wanted.wish;
        let usable = |stored: &Arc<Stored>| wish.takes_stale(&stored.life, now_ms());
        let kept =
            Vectors::of(std::mem::take(&mut self.kept).into_iter().map(|kept| kept.filter(usable)).collect());
        let sum = kept.sum(&self.wanted.at).filter(|_| is_theirs && kept.are_all_there());
        self.place = None;
        let place = || self.caching.vectors.take(kept.unsent(&self.wanted.at, &self.request));
        let Some((sum, place)) = sum.and_then(|sum| Some((sum, place()?))) else {
            self.caching.cache.count(Outcome::Miss);
            self.call.tally.account.failed(&error);
            return Err(error);
        };
        self.caching.cache.count(Outcome::Stale(&sum));
        self.call.tally.account.cached(&sum, false);
        kept_reply(&self.call, &self.wanted, (kept, place), &sum, "STALE").await
    }
}

/// What is to be kept of an answer, but for the vectors.
struct Keeping {
    stored: Stored,
    /// Tokens and cost of each vector.
    shares: Vec<(u64, u128)>,
}

impl Keeping {
    /// Of those that have a body.
    fn entries(
        &self,
        keys: impl Iterator<Item = Key>,
        bodies: Vec<Option<Bytes>>,
    ) -> Vec<(Key, Arc<Stored>)> {
        let entry = |((key, body), (prompt, cost)): ((Key, Option<Bytes>), &(u64, u128))| {
            let cost = Money::from_femtos(i128::try_from(*cost).unwrap_or_default());
            let usage = Usage { prompt: *prompt, ..self.stored.usage };
            Some((key, Arc::new(Stored { body: body?, usage, cost, ..self.stored.clone() })))
        };
        keys.zip(bodies).zip(&self.shares).filter_map(entry).collect()
    }
}
