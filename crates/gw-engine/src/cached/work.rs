//! The leader's call: looks once more, sets aside what it may cost, asks the upstream, keeps the answer, and gives it to all
//! who wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use gw_cache::{Accumulator, Found, Lifetime, Outcome, Publisher, Stamp, Stored};
use gw_providers::own;
use gw_wire::reply::Finish;
use gw_wire::stream::Shape;
use http_body::Body;

use super::kept::Content;
use super::semantic::{Means, Nearest, Remember};
use super::{Caching, Done, Failed, Fault, Finished, Wanted, gone, now_ms};
use crate::attempts::{Answer, Call, Told, search};
use crate::cpu_pool::{HEAVY_BYTES, is_heavy, offload_if};
use crate::cut::Cut;
use crate::engine::Engine;
use crate::error::{Error, Kind};
use crate::job::MAX_ANSWER_BYTES;
use crate::live::Live;
use crate::pipeline::reserve;
use crate::stream::EventStream;

/// A call to be made for all who wait for its answer.
pub(super) struct Work {
    pub(super) call: Box<Call>,
    pub(super) wanted: Wanted,
    pub(super) stamp: Stamp,
    /// An answer that is too old, for when no upstream answers.
    pub(super) stale: Option<Arc<Stored>>,
    /// Another flight may have ended since the first look.
    pub(super) looks_again: bool,
    pub(super) means: Means,
}

/// The same, with what it needs of the engine.
pub(super) struct Ready {
    work: Work,
    caching: Arc<Caching>,
    cut: Cut,
}

type Pushed = Publisher<Finished, Failed>;

impl Work {
    pub(super) fn of(mut self, engine: &Engine, caching: Arc<Caching>) -> Ready {
        self.call.is_shared = true;
        Ready { work: self, caching, cut: engine.cut() }
    }
}

impl Ready {
    pub(super) async fn run(self, pieces: Pushed) -> Result<Finished, Failed> {
        let Self { work, caching, cut } = self;
        let Work { mut call, wanted, stamp, stale, looks_again, means } = work;
        if looks_again
            && let Found::Fresh(stored) = caching.cache.look(&wanted.key, wanted.wish.max_age, now_ms()).await
        {
            caching.cache.count(Outcome::Hit(&stored));
            call.tally.account.cached(&stored, false);
            return Ok(Arc::new(Done::kept(stored, false)));
        }
        // Before anything is paid for.
        if let Err(error) = reserve(&means.limiter, &mut call).await {
            caching.cache.count(Outcome::Miss);
            call.tally.account.failed(&error);
            return Err(Arc::new(Fault { error, is_the_leaders: true }));
        }
        let begin = || caching.semantic.begin(&caching, &call, &wanted, means);
        let looking = if wanted.wish.can_read { offload_if(call.job.is_heavy, begin).await } else { None };
        let (nearest, remember) = match looking {
            Some(looking) => looking.answer().await,
            None => (None, None),
        };
        if let Some(Nearest { stored, similarity }) = nearest {
            caching.cache.count(Outcome::Similar(&stored));
            call.tally.account.cached(&stored, false);
            return Ok(Arc::new(Done { similarity: Some(similarity), ..Done::kept(stored, false) }));
        }
        let store = Keeper { caching: Arc::clone(&caching), wanted, stamp, remember, begun: Instant::now() };
        let answered = match search(&mut call, 0).await {
            Ok(Some((_, answer))) => Ok(answer),
            Ok(None) => Err(call.tally.error()),
            Err(error) => Err(error),
        };
        if answered.is_ok() || stale.is_none() {
            caching.cache.count(Outcome::Miss);
        }
        match answered {
            Ok(Answer::Full(body)) => offload_if(is_heavy(&body), || store.whole(&mut call, body)).await,
            Ok(Answer::Stream(live)) => store.stream(call, live, cut, &pieces).await,
            Err(error) => store.failed(&mut call, error, stale),
        }
    }
}

/// Keeps what may be kept.
struct Keeper {
    caching: Arc<Caching>,
    wanted: Wanted,
    stamp: Stamp,
    /// Who is to know that it is kept.
    remember: Option<Remember>,
    begun: Instant,
}

impl Keeper {
    fn whole(self, call: &mut Call, body: Vec<u8>) -> Result<Finished, Failed> {
        let body = Bytes::from(body);
        let asked = Asked::of(&self.caching, call);
        let told = call.told.take().ok_or_else(|| Fault::of(gone()))?;
        let content = Content::read(asked.shape, &body);
        let done = self.done(&asked, &told, content.as_ref());
        Ok(Arc::new(Done { own: Some(body), ..done }))
    }

    async fn stream(
        self,
        call: Box<Call>,
        live: Box<Live>,
        cut: Cut,
        pieces: &Pushed,
    ) -> Result<Finished, Failed> {
        let asked = Asked::of(&self.caching, &call);
        let mut stream = EventStream::unheard(call, live, cut);
        let mut decoder = own::stream(MAX_ANSWER_BYTES);
        let mut gather = Accumulator::new(MAX_ANSWER_BYTES);
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut stream).poll_frame(cx)).await {
            let Ok(piece) = frame.into_data() else { continue };
            let is_heavy = piece.len() >= HEAVY_BYTES;
            offload_if(is_heavy, || decoder.feed(&piece, &mut |event| gather.add(&event))).await;
            pieces.publish(piece);
            if pieces.wait_for_room().now_or_never().is_none() {
                // All readers are slow. The total clock keeps running, and the next poll ends the stream.
                let due = stream.due().unwrap_or_else(Instant::now);
                let _late = tokio::time::timeout_at(due.into(), pieces.wait_for_room()).await;
            }
        }
        let Some(told) = stream.told() else {
            let error = stream.failure().unwrap_or_else(gone);
            // A limit of the leader ends its stream: those who wait have limits of their own.
            let is_the_leaders = matches!(error.kind, Kind::InsufficientQuota | Kind::BudgetStoreUnavailable);
            return Err(Arc::new(Fault { error, is_the_leaders }));
        };
        Ok(Arc::new(self.done(&asked, &told, Content::gathered(asked.shape, gather).as_ref())))
    }

    fn failed(&self, call: &mut Call, error: Error, stale: Option<Arc<Stored>>) -> Result<Finished, Failed> {
        let had_stale = stale.is_some();
        let is_theirs = error.kind.row().0 >= 500 || error.kind == Kind::UpstreamRateLimited;
        let usable =
            stale.filter(|stored| is_theirs && self.wanted.wish.can_use_stale(&stored.lifetime, now_ms()));
        let Some(stored) = usable else {
            if had_stale {
                self.caching.cache.count(Outcome::Miss);
            }
            call.tally.account.failed(&error);
            return Err(Fault::of(error));
        };
        self.caching.cache.count(Outcome::Stale(&stored));
        call.tally.account.cached(&stored, false);
        Ok(Arc::new(Done::kept(stored, true)))
    }

    /// The answer for all who wait; kept in the cache when it is complete, and what was asked for answered it.
    fn done(self, asked: &Asked, told: &Told, content: Option<&Content<'_>>) -> Done {
        let model = &told.candidate.model;
        let body = content.map(|content| content.to_be_kept(told));
        let finishes = content.and_then(Content::finishes);
        let is_whole = finishes.is_some();
        let answer = Arc::new(Stored {
            scope: asked.scope.clone(),
            source: Arc::clone(&asked.request_id),
            model: asked.model.as_str().into(),
            model_used: Arc::clone(&model.id),
            provider: Arc::clone(&model.provider),
            body: body.unwrap_or_default().into(),
            finishes: finishes.unwrap_or_default(),
            usage: told.usage,
            cost: told.cost.unwrap_or_default(),
            took_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            lifetime: Lifetime::new(now_ms(), self.wanted.ttl, self.caching.settings.stale_if_error),
        });
        let is_fallback = told.candidate.is_fallback;
        // What two models have said together is neither's answer.
        let is_cut_short = told.is_shortened && answer.finishes.contains(&Finish::Length);
        let may = self.wanted.wish.can_write && !is_fallback && !told.is_continued && !is_cut_short;
        if may && gw_cache::is_cacheable(&answer.finishes) && is_whole {
            let is_kept = self.caching.cache.store(self.wanted.key, Arc::clone(&answer), self.stamp);
            if let Some(remember) = self.remember.filter(|_| is_kept) {
                remember.kept();
            }
        }
        Done {
            answer,
            is_whole: content.is_some() && !is_cut_short,
            own: None,
            fallback_used: is_fallback,
            is_stale: false,
            similarity: None,
        }
    }
}

impl Done {
    /// What was in the cache.
    fn kept(answer: Arc<Stored>, is_stale: bool) -> Self {
        Self { answer, is_whole: true, own: None, fallback_used: false, is_stale, similarity: None }
    }
}

/// What of a call is needed when the call itself is gone.
struct Asked {
    scope: gw_cache::Scope,
    request_id: Arc<str>,
    model: String,
    shape: Shape,
}

impl Asked {
    fn of(caching: &Caching, call: &Call) -> Self {
        let shape = call.job.opening(String::new()).shape;
        let (request_id, model) = (Arc::clone(&call.job.context.request_id), call.job.ask.model().to_owned());
        Self { scope: caching.scope(&call.job.context.caller), request_id, model, shape }
    }
}
