//! The leader's call: looks into the cache once more, reserves the cost, calls upstreams, keeps the answer, and gives
//! it to all readers.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use gw_cache::{Accumulator, Found, Lifetime, Outcome, Publisher, Stamp, Stored};
use gw_wire::event::log;
use gw_wire::kept_answer::{KeptChat, KeptPlaces};
use gw_wire::reply::Finish;
use gw_wire::stream::Shape;
use http_body::Body;

use crate::call::attempt_context::AttemptContext;
use crate::call::reserve::reserve;
use crate::call::shared_document::SharedDocument;
use crate::call::{CHOICES_MISSING, Call, CallSummary};
use crate::clock;
use crate::cpu_pool::{HEAVY_BYTES, is_heavy_answer, offload_if};
use crate::document_memory::MAX_ANSWER_BYTES;
use crate::error::{Error, Kind};
use crate::plan::cost_estimate::worst_case;
use crate::response::event_stream::EventStream;
use crate::response_cache::answer_content::{AnswerContent, KeptAnswer};
use crate::response_cache::cache_request::CacheRequest;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::semantic_lookup::{LookupServices, RememberQuestion, SimilarAnswer};
use crate::response_cache::shared_answer::{
    FlightError, FlightResult, SharedAnswer, SharedFailure, gone, now_ms,
};
use crate::services::Services;
use crate::shutdown::CutoffWatch;
use crate::upstream::attempts::search;
use crate::upstream::outcome::Answer;
use crate::upstream::stream::UpstreamStream;

/// The call of a leader.
pub(crate) struct LeaderCall {
    pub(crate) call: Box<Call>,
    pub(crate) wanted: CacheRequest,
    pub(crate) stamp: Stamp,
    /// The first look has found a stale answer, which will do if no upstream answers.
    pub(crate) is_any_stale: bool,
    /// Another flight may have stored the answer since the first look.
    pub(crate) looks_again: bool,
    pub(crate) lookup_services: LookupServices,
}

/// The call with the services that it uses.
pub(crate) struct ReadyLeader {
    work: LeaderCall,
    caching: Arc<ResponseCache>,
    cut: CutoffWatch,
}

type Pushed = Publisher<FlightResult, FlightError>;

impl LeaderCall {
    pub(crate) fn of(mut self, services: &Services, caching: Arc<ResponseCache>) -> ReadyLeader {
        self.call.context.is_shared = true;
        ReadyLeader { work: self, caching, cut: services.cutoff_watch() }
    }
}

/// Whether the budget of the request may end its stream before its model does.
fn may_be_cut(call: &Call) -> bool {
    let AttemptContext { request, snapshot, granted, .. } = &call.context;
    let worst = || worst_case(request, &call.plan, &snapshot.routing).1;
    granted.is_some_and(|granted| request.wants_stream() && granted < worst())
}

impl ReadyLeader {
    pub(crate) async fn run(self, pieces: Pushed) -> Result<FlightResult, FlightError> {
        let Self { work, caching, cut } = self;
        let LeaderCall { mut call, wanted, stamp, is_any_stale, looks_again, lookup_services } = work;
        if looks_again
            && let Found::Fresh(stored) =
                caching.cache.look(&wanted.key, wanted.directives.max_age, now_ms()).await
        {
            caching.cache.count(Outcome::Hit(&stored));
            call.finish_cached(&stored, false, &[]);
            return Ok(Arc::new(SharedAnswer::kept(stored, false)));
        }
        // Nothing has been paid for yet.
        let began_with_fallback = begins_with_fallback(&call);
        if let Err(error) = reserve(&lookup_services.limiter, &mut call).await {
            caching.cache.count(Outcome::Miss);
            call.fail(&error);
            return Err(SharedFailure::of_leader(error, None));
        }
        // One of the leader's limits has no room for the requested model or for the whole stream, and others may have it.
        if (!began_with_fallback && begins_with_fallback(&call)) || may_be_cut(&call) {
            call.context.is_shared = false;
            return Err(SharedFailure::unshared(call));
        }
        let begin = || caching.semantic.begin(&caching, &call, &wanted, lookup_services);
        let lookup =
            if wanted.directives.can_read { offload_if(call.context.is_heavy, begin).await } else { None };
        let (nearest, remember) = match lookup {
            Some(lookup) => lookup.answer().await,
            None => (None, None),
        };
        if let Some(SimilarAnswer { stored, similarity }) = nearest {
            caching.cache.count(Outcome::Similar(&stored));
            call.uncount_in_rules();
            call.finish_cached(&stored, false, &[]);
            return Ok(Arc::new(SharedAnswer {
                similarity: Some(similarity),
                ..SharedAnswer::kept(stored, false)
            }));
        }
        let store =
            AnswerWriter { caching: Arc::clone(&caching), wanted, stamp, remember, begun: clock::now() };
        let answered = match search(&mut call, 0).await {
            Ok(Some((_, answer))) => Ok(answer),
            Ok(None) => Err(call.progress.error()),
            Err(error) => Err(error),
        };
        let may_be_stale = answered.is_err() && is_any_stale;
        let kept = if may_be_stale { store.look_after_failure().await } else { Found::Nothing };
        if answered.is_ok() || matches!(kept, Found::Nothing) {
            caching.cache.count(Outcome::Miss);
        }
        match answered {
            Ok(Answer::Full(body)) => {
                offload_if(is_heavy_answer(&body), || store.whole(&mut call, body)).await
            }
            Ok(Answer::Vectors(_) | Answer::Socket(_)) => {
                let error = Error::new(Kind::InternalError, "The answer has no place in this cache.");
                store.failed(&mut call, error, Found::Nothing)
            }
            Ok(Answer::Stream(live)) => store.stream(call, live, cut, &pieces).await,
            Err(error) => store.failed(&mut call, error, kept),
        }
    }
}

/// Whether another model than the requested one is to answer first.
fn begins_with_fallback(call: &Call) -> bool {
    call.plan.candidates.first().is_some_and(|first| first.is_fallback)
}

/// Writes the answer for the readers and for the cache.
struct AnswerWriter {
    caching: Arc<ResponseCache>,
    wanted: CacheRequest,
    stamp: Stamp,
    /// Learns that the answer is kept.
    remember: Option<RememberQuestion>,
    begun: Instant,
}

impl AnswerWriter {
    fn whole(self, call: &mut Call, body: Bytes) -> Result<FlightResult, FlightError> {
        let origin = AnswerOrigin::of(&self.caching, call);
        let summary = call.summary.take().ok_or_else(|| SharedFailure::of(gone()))?;
        let read = |document: &Bytes| {
            AnswerContent::read(origin.shape, document).map(|content| KeptAnswer::of(&content, &summary))
        };
        let kept = match call.shared_document.take() {
            None => read(&body),
            Some(SharedDocument::Unread(document)) => read(&document),
            Some(SharedDocument::Partial) => None,
            Some(SharedDocument::Kept(KeptChat { body, finishes })) => {
                Some(KeptAnswer { body, finishes: Some(finishes) })
            }
        };
        // The document says `stop` where the upstream said nothing. Such an answer may be cut, and is not stored.
        let kept =
            kept.map(|kept| KeptAnswer { finishes: kept.finishes.filter(|_| !call.is_end_unknown), ..kept });
        let done = self.done(&origin, &summary, kept);
        Ok(Arc::new(SharedAnswer { own: Some(body), ..done }))
    }

    async fn stream(
        self,
        call: Box<Call>,
        live: Box<UpstreamStream>,
        cut: CutoffWatch,
        pieces: &Pushed,
    ) -> Result<FlightResult, FlightError> {
        let origin = AnswerOrigin::of(&self.caching, &call);
        let model = &live.candidate.model;
        pieces.name_source([Arc::clone(&model.id), Arc::clone(&model.provider)]);
        let mut stream = EventStream::for_sharing(call, live, cut);
        let mut accumulator = Accumulator::new(MAX_ANSWER_BYTES);
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut stream).poll_frame(cx)).await {
            let Ok(piece) = frame.into_data() else { continue };
            let is_heavy = piece.len() >= HEAVY_BYTES;
            offload_if(is_heavy, || log::read(&piece).flatten().for_each(|event| accumulator.add(&event)))
                .await;
            pieces.publish(piece);
            if pieces.wait_for_room().now_or_never().is_none() {
                // All readers are slow. The deadline stays, and the next poll ends the stream.
                let due = stream.due().unwrap_or_else(clock::now);
                let _late = tokio::time::timeout_at(due.into(), pieces.wait_for_room()).await;
            }
        }
        let Some(summary) = stream.take_summary() else {
            let error = stream.failure().unwrap_or_else(gone);
            // A limit of the leader ended its stream. Followers have limits of their own.
            let is_the_leaders = matches!(error.kind, Kind::InsufficientQuota | Kind::BudgetStoreUnavailable);
            if !is_the_leaders {
                return Err(SharedFailure::of(error));
            }
            return Err(SharedFailure::of_leader(error, stream.take_closing()));
        };
        let content = AnswerContent::gathered(origin.shape, accumulator);
        let kept = content.map(|content| KeptAnswer::of(&content, &summary));
        let done = self.done(&origin, &summary, kept);
        Ok(Arc::new(SharedAnswer { closing: stream.take_closing(), ..done }))
    }

    /// The answer that the cache holds after the upstreams have failed. A purge may have deleted the stale answer of the first look.
    async fn look_after_failure(&self) -> Found {
        let CacheRequest { key, directives, .. } = &self.wanted;
        self.caching.cache.look(key, directives.max_age, now_ms()).await
    }

    /// `kept` is what the cache holds.
    fn failed(&self, call: &mut Call, error: Error, kept: Found) -> Result<FlightResult, FlightError> {
        let is_theirs = error.kind.is_upstream_fault();
        let can_use = |stored: &Stored| self.wanted.directives.can_use_stale(&stored.lifetime, now_ms());
        let (stored, is_stale) = match kept {
            Found::Fresh(stored) if is_theirs => (stored, false),
            Found::Stale(stored) if is_theirs && can_use(&stored) => (stored, true),
            unused => {
                if !matches!(unused, Found::Nothing) {
                    self.caching.cache.count(Outcome::Miss);
                }
                call.fail(&error);
                return Err(SharedFailure::of(error));
            }
        };
        self.caching.cache.count(if is_stale { Outcome::Stale(&stored) } else { Outcome::Hit(&stored) });
        let answer = SharedAnswer::kept(stored, is_stale);
        call.finish_cached(&answer.answer, false, answer.warnings());
        Ok(Arc::new(answer))
    }

    /// The answer for all readers. It is kept if it is complete and a requested model gave it.
    fn done(self, origin: &AnswerOrigin, summary: &CallSummary, kept: Option<KeptAnswer>) -> SharedAnswer {
        let model = &summary.candidate.model;
        let has_content = kept.is_some();
        let (body, finishes) = kept.map_or_else(Default::default, |kept| (kept.body, kept.finishes));
        let is_whole = finishes.is_some();
        let answer = Arc::new(Stored {
            scope: origin.scope.clone(),
            source: Arc::clone(&origin.request_id),
            model: origin.model.as_str().into(),
            model_used: Arc::clone(&model.id),
            provider: Arc::clone(&model.provider),
            body: body.into(),
            finishes: finishes.unwrap_or_default(),
            usage: summary.usage,
            cost: summary.cost,
            took_ms: u64::try_from(clock::since(self.begun).as_millis()).unwrap_or(u64::MAX),
            lifetime: Lifetime::new(now_ms(), self.wanted.ttl, self.caching.settings.stale_if_error),
            places: KeptPlaces::default(),
        });
        let is_fallback = summary.candidate.is_fallback;
        // An answer of two models belongs to neither.
        let is_cut_short = summary.is_shortened && answer.finishes.contains(&Finish::Length);
        // The next call may bring all of the choices.
        let is_partial = is_cut_short || summary.lacks_choices;
        let may = self.wanted.directives.can_write && !is_fallback && !summary.is_continued && !is_partial;
        if may && gw_cache::is_cacheable(&answer.finishes) && is_whole {
            let is_kept = self.caching.cache.store(self.wanted.key, Arc::clone(&answer), self.stamp);
            if let Some(remember) = self.remember.filter(|_| is_kept) {
                remember.kept();
            }
        }
        SharedAnswer {
            answer,
            is_whole: has_content && !is_partial,
            own: None,
            closing: None,
            fallback_used: is_fallback,
            is_stale: false,
            lacks_choices: summary.lacks_choices,
            similarity: None,
        }
    }
}

impl SharedAnswer {
    /// The warnings that the answer has for each of its readers.
    pub(super) fn warnings(&self) -> &'static [&'static str] {
        match (self.is_stale, self.lacks_choices) {
            (true, _) => &["stale_if_error"],
            (false, true) => &[CHOICES_MISSING],
            (false, false) => &[],
        }
    }

    /// An answer from the cache.
    fn kept(answer: Arc<Stored>, is_stale: bool) -> Self {
        Self {
            answer,
            is_whole: true,
            own: None,
            closing: None,
            fallback_used: false,
            is_stale,
            lacks_choices: false,
            similarity: None,
        }
    }
}

/// The parts of a call that are needed after its end.
struct AnswerOrigin {
    scope: gw_cache::Scope,
    request_id: Arc<str>,
    model: String,
    shape: Shape,
}

impl AnswerOrigin {
    fn of(caching: &ResponseCache, call: &Call) -> Self {
        let shape = call.context.opening(String::new(), 0).shape;
        let (request_id, model) =
            (Arc::clone(&call.context.client.request_id), call.context.request.model().to_owned());
        Self { scope: caching.scope(&call.context.client.caller), request_id, model, shape }
    }
}
