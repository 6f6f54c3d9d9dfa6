//! Answers out of the response cache, and calls that identical requests share (`gw-cache`): how a chat that asks for it is
//! served, and a text completion where the configuration wants it.
//!
//! Whoever asks first for what is not there leads: its call runs in a task of its own (`work.rs`), which outlives it as long
//! as anybody waits for the answer. All others get what comes of it, and are accounted as hits.

mod divide;
pub(crate) mod embeddings;
mod hit;
mod kept;
pub(crate) mod operate;
mod semantic;
mod shared;
mod work;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_cache::{
    Cache, CacheDirectives, End, Follower, Found, Key, Mode, Next, Outcome, Question, Role, Route, Scope,
    SimilarityFigures, SingleFlight, Stored, Wants,
};
use http::{HeaderName, HeaderValue};

pub(crate) use self::divide::divide;
use self::hit::Asker;
use self::semantic::{Means, Semantic};
pub use self::semantic::{SemanticSettings, problems as semantic_problems};
pub(crate) use self::shared::Shared;
use self::work::Work;
use crate::ask::Ask;
use crate::attempts::Call;
use crate::auth::Caller;
use crate::call::{CallLog, Reply, ReplyBody};
use crate::cpu_pool::{is_heavy, offload_if};
use crate::engine::Engine;
use crate::error::{Error, GATEWAY_SHUTDOWN, Kind, Result};
use crate::leavers::patience;
use crate::ledger::unix_millis;
use crate::pipeline::{self, COMMIT_AFTER};
use crate::plan::Candidate;
use crate::stream::EventStream;

const CACHE: HeaderName = HeaderName::from_static("x-gateway-cache");
/// A look into the cache that took longer is not made again.
const SLOW_LOOK: Duration = Duration::from_millis(20);

const AGE: HeaderName = HeaderName::from_static("age");

/// `[cache]`.
#[derive(Clone, Debug)]
pub struct CachingSettings {
    /// How long an answer stays when the request does not say.
    pub default_ttl: Duration,
    /// How long beyond that it may be used when no upstream answers.
    pub stale_if_error: Duration,
    /// Text completions use it, too.
    pub completions: bool,
    /// Embeddings use it, too.
    pub embeddings: bool,
    /// Teams whose keys share their answers.
    pub shared_by_teams: Vec<String>,
}

/// What a flight ends with.
#[derive(Debug)]
pub(crate) struct Done {
    /// The answer, for everybody.
    answer: Arc<Stored>,
    /// False for an answer of a kind that only those can have who read it as it came: its text is not in `answer`.
    is_whole: bool,
    /// The leader's own answer, when it was made for it.
    own: Option<bytes::Bytes>,
    fallback_used: bool,
    /// It was kept for too long, and no upstream answers.
    is_stale: bool,
    /// It was kept for a similar question, with a vector this near.
    similarity: Option<f32>,
}

type Finished = Arc<Done>;
type Failed = Arc<Fault>;

/// Why a flight has failed.
#[derive(Debug)]
pub(crate) struct Fault {
    error: Error,
    /// It is about the leader's own limits, and nothing to those who wait: each has its own.
    is_the_leaders: bool,
}

impl Fault {
    fn of(error: Error) -> Failed {
        Arc::new(Self { error, is_the_leaders: false })
    }
}

/// The response cache and the calls under way.
#[derive(Debug)]
pub struct Caching {
    cache: Cache,
    flights: SingleFlight<Finished, Failed>,
    settings: CachingSettings,
    semantic: Semantic,
    /// For answers made of kept vectors.
    vectors: embeddings::Room,
}

/// What a request wants, and under which key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    key: Key,
    /// Under which it shares a call: with those alone who want the very same of routing and cache.
    flight: Key,
    wish: CacheDirectives,
    /// How long its answer stays.
    ttl: Duration,
}

/// What becomes of a request's wish for the cache.
pub(crate) enum Plan {
    /// It has none.
    NotAsked,
    /// It cannot be, or by its own word need not be.
    Bypass,
    Use(Wanted),
    /// The same for embeddings.
    Vectors(Box<embeddings::Wanted>),
}

/// When an answer was kept, which replicas must agree on: unix milliseconds.
fn now_ms() -> u64 {
    u64::try_from(unix_millis()).unwrap_or(0)
}

impl Caching {
    /// Over this cache; with these aliases, similar questions are answered, too.
    #[must_use]
    pub fn new(cache: Cache, settings: CachingSettings, semantic: Vec<SemanticSettings>) -> Self {
        let (flights, vectors) = (SingleFlight::default(), embeddings::Room::default());
        Self { cache, flights, settings, semantic: Semantic::new(semantic), vectors }
    }

    /// What came of the similar questions of each alias.
    pub fn similar(&self) -> impl Iterator<Item = (&str, SimilarityFigures)> {
        self.semantic.figures().into_iter().map(|(settings, figures)| (settings.alias.as_str(), figures))
    }

    /// The cache itself, to purge it and for its figures.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Whether and how the cache is to be used for a call.
    pub(crate) fn plan(&self, call: &Call) -> Plan {
        let Some((wish, ttl)) = self.wish(call) else { return Plan::NotAsked };
        let planned = match &call.job.ask {
            _ if wish.is_bypass() => None,
            Ask::Embeddings(request) => embeddings::Wanted::of(self, call, request, wish, ttl)
                .map(|wanted| Plan::Vectors(Box::new(wanted))),
            Ask::Chat(_) | Ask::Completion(_) => {
                self.keys(call, &wish, ttl).map(|(key, flight)| Plan::Use(Wanted { key, flight, wish, ttl }))
            }
        };
        planned.unwrap_or_else(|| {
            self.cache.count(Outcome::Bypass);
            Plan::Bypass
        })
    }

    /// What a call wants of the cache, and how long its answer stays: a chat as it says itself, all others as the operator
    /// does. None = nothing.
    fn wish(&self, call: &Call) -> Option<(CacheDirectives, Duration)> {
        let CachingSettings { default_ttl, completions, embeddings, .. } = self.settings;
        let (mode, ttl) = match &call.job.ask {
            Ask::Chat(request) => {
                let asked = request.cache.filter(|asked| asked.enabled)?;
                let ttl = asked.ttl.map_or(default_ttl, |seconds| Duration::from_secs(seconds.into()));
                (Mode::parse(asked.mode).unwrap_or_default(), ttl)
            }
            Ask::Completion(_) if completions => (Mode::ReadWrite, default_ttl),
            Ask::Embeddings(_) if embeddings => (Mode::ReadWrite, default_ttl),
            Ask::Completion(_) | Ask::Embeddings(_) => return None,
        };
        let wish = CacheDirectives::new(mode, ttl);
        let lines = call.job.context.cache_control.as_deref();
        Some((lines.map_or(wish, |lines| wish.with_cache_control(lines)), ttl))
    }

    /// Whose answers a caller gets, and whose its own become.
    fn scope(&self, caller: &Caller) -> Scope {
        let shares = |team: &str| self.settings.shared_by_teams.iter().any(|shared| shared == team);
        match caller.team_scope().filter(|_| caller.team().is_some_and(|team| shares(team))) {
            Some(team) => Scope::Team(Arc::clone(team)),
            None => Scope::Key(Arc::clone(caller.key_id())),
        }
    }

    /// The key of the answer, and that of a call which is shared. An answer is only kept when it is of a model that was asked for, so
    /// its key knows nothing of fallbacks; a call that is shared is answered by whoever its plan leads to, and fails when its
    /// plan fails.
    fn keys(&self, call: &Call, wish: &CacheDirectives, ttl: Duration) -> Option<(Key, Key)> {
        let named = Named::of(call);
        let asked = named.asked();
        let key = Key::of(&self.scope(&call.job.context.caller), &question(call, &asked))?;
        let mut hasher = DefaultHasher::new();
        (wish.can_read, wish.can_write, wish.max_age, wish.stale_if_error, ttl).hash(&mut hasher);
        named.0.iter().for_each(|(group, up, _)| (group, up).hash(&mut hasher));
        // What was purged meanwhile is not waited for.
        self.cache.stamp().hash(&mut hasher);
        let everybody: Vec<&str> = named.0.iter().map(|(_, _, who)| who.as_str()).collect();
        Some((key, key.of_call(&everybody, hasher.finish())))
    }
}

/// Who may answer a call, whatever the order of the day: with what the configuration can change about them.
struct Named(Vec<(u32, bool, String)>);

impl Named {
    fn of(call: &Call) -> Self {
        let named = |candidate: &Candidate| {
            let Candidate { model, provider, group, is_upgrade, .. } = candidate;
            // Its limits are sent upstream where a request names none.
            let limits = (model.max_output_tokens, model.context_length);
            let who = format!("{} {} {:x} {limits:?}", model.id, model.upstream_model, provider.identity());
            (*group, *is_upgrade, who)
        };
        let mut all: Vec<(u32, bool, String)> = call.plan.candidates.iter().map(named).collect();
        all.sort_unstable();
        Self(all)
    }

    /// Those whom the requested name stands for.
    fn asked(&self) -> Vec<&str> {
        self.0.iter().filter(|(group, up, _)| *group == 0 && !up).map(|(_, _, who)| who.as_str()).collect()
    }
}

/// What a call asks, of these candidates.
fn question<'a>(call: &'a Call, candidates: &'a [&'a str]) -> Question<'a> {
    let (route, body) = match &call.job.ask {
        Ask::Chat(request) => (Route::Chat, &request.body),
        Ask::Completion(request) => (Route::Completion, &request.body),
        Ask::Embeddings(request) => (Route::Embedding, &request.body),
    };
    Question { route, model: call.job.ask.model(), candidates, config: 0, body, input: None }
}

/// The header that says what the cache did.
pub(crate) fn told(what: &'static str) -> (HeaderName, HeaderValue) {
    (CACHE, HeaderValue::from_static(what))
}

/// Serves a chat or a text completion that wants the cache.
pub(crate) async fn run(
    engine: &Engine,
    caching: &Arc<Caching>,
    mut call: Box<Call>,
    wanted: Wanted,
) -> Result<Reply> {
    let asker = Asker::new(&call);
    let stamp = caching.cache.stamp();
    let mut stale = None;
    let looking = Instant::now();
    if wanted.wish.can_read {
        match caching.cache.look(&wanted.key, wanted.wish.max_age, now_ms()).await {
            Found::Fresh(stored) => {
                caching.cache.count(Outcome::Hit(&stored));
                call.tally.account.cached(&stored, false);
                return reply(&asker, &stored, "HIT", &[]).await;
            }
            Found::Stale(stored) => stale = Some(stored),
            Found::Nothing => {}
        }
    }
    let (flights, wants) = (&caching.flights, if asker.streams { Wants::Chunks } else { Wants::End });
    let role = if wanted.wish.can_read {
        flights.join(wanted.flight, wants)
    } else {
        flights.lead_alone(wanted.flight, wants)
    };
    let (follower, call) = match role {
        Role::Leader(lead, follower) => {
            // A store that is slow is not waited for twice.
            let looks_again = wanted.wish.can_read && looking.elapsed() < SLOW_LOOK;
            let cpu = call.job.cpu.clone();
            let work = Work { call, wanted, stamp, stale, looks_again, means: Means::of(engine) };
            let work = work.of(engine, Arc::clone(caching));
            let driven = lead.drive(patience(engine.leavers()), move |pieces| work.run(pieces));
            tokio::spawn(cpu.host(driven));
            (follower, None)
        }
        Role::Follower(follower) => (follower, Some(call)),
    };
    if asker.streams {
        stream(engine, caching, asker, follower, call).await
    } else {
        whole(engine, caching, asker, follower, call).await
    }
}

/// Notes that a client went away whose call is a task's.
struct Leaving(Option<Arc<CallLog>>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(log) = self.0.take() {
            log.ended(Kind::ClientClosedRequest.code());
        }
    }
}

async fn whole(
    engine: &Engine,
    caching: &Caching,
    asker: Asker,
    mut follower: Follower<Finished, Failed>,
    call: Option<Box<Call>>,
) -> Result<Reply> {
    let mut leaving = Leaving(call.is_none().then(|| Arc::clone(&asker.log)));
    let end = match call {
        Some(_) => tokio::time::timeout_at(asker.deadline.into(), follower.wait_for_end()).await,
        None => Ok(follower.wait_for_end().await),
    };
    leaving.0 = None;
    let Ok(end) = end else { return Err(failed(call, End::Failed(Fault::of(late())))) };
    match end {
        End::Failed(fault) if fault.is_the_leaders && call.is_some() => alone(engine, caching, call).await,
        End::Complete(done) => match (&done.own, call) {
            (Some(own), None) => {
                let headers = asker.headers(&done, "MISS");
                Ok(Reply { headers, body: ReplyBody::Full(own.clone()) })
            }
            (_, call) if done.is_whole => joined(caching, &asker, call, &done).await,
            // Its kind of answer cannot be shared: an own call.
            (_, call) => alone(engine, caching, call).await,
        },
        other => Err(failed(call, other)),
    }
}

/// The answer of one who had hoped to share another's.
async fn alone(engine: &Engine, caching: &Caching, call: Option<Box<Call>>) -> Result<Reply> {
    let call = call.ok_or_else(gone)?;
    caching.cache.count(Outcome::Miss);
    pipeline::unshared(engine, call).await
}

/// A follower's answer, or a leader's that was found after all.
async fn joined(caching: &Caching, asker: &Asker, call: Option<Box<Call>>, done: &Done) -> Result<Reply> {
    let answer = &done.answer;
    let (what, warnings): (_, &[&'static str]) = match (done.is_stale, &call) {
        (true, _) => ("STALE", &["stale_if_error"]),
        (false, Some(_)) => ("COALESCED", &[]),
        (false, None) => ("HIT", &[]),
    };
    if let Some(mut call) = call {
        caching.cache.count(Outcome::Coalesced(answer));
        call.tally.account.cached(answer, done.fallback_used);
    }
    reply(&asker.of(done), answer, what, warnings).await
}

/// A kept answer, written for this request.
async fn reply(
    asker: &Asker,
    stored: &Stored,
    what: &'static str,
    warnings: &[&'static str],
) -> Result<Reply> {
    offload_if(is_heavy(&stored.body), || hit::reply(asker, stored, what, warnings)).await
}

/// What a flight's bad end is for one who has sent nothing yet.
fn failed(call: Option<Box<Call>>, end: End<Finished, Failed>) -> Error {
    let mut error = match end {
        End::Failed(fault) => fault.error.clone(),
        End::WorkLost => Error::new(Kind::InternalError, "The gateway failed while answering this request."),
        _ => gone(),
    };
    if let Some(mut call) = call {
        call.tally.account.failed(&error);
    }
    // A word of the log, not of the client's.
    error.code = error.code.filter(|code| code != GATEWAY_SHUTDOWN);
    error
}

/// A follower's own time is used up.
fn late() -> Error {
    Error::new(Kind::UpstreamTimeout, "The request's time was used up.")
}

fn gone() -> Error {
    Error::new(Kind::UpstreamStreamError, "The shared call ended without an answer.")
}

async fn stream(
    engine: &Engine,
    caching: &Arc<Caching>,
    asker: Asker,
    mut follower: Follower<Finished, Failed>,
    call: Option<Box<Call>>,
) -> Result<Reply> {
    let mut leaving = Leaving(call.is_none().then(|| Arc::clone(&asker.log)));
    let left = asker.deadline.saturating_duration_since(Instant::now());
    let is_late = call.is_some() && left <= COMMIT_AFTER;
    let patience = if is_late { left } else { COMMIT_AFTER };
    let first = tokio::time::timeout(patience, follower.next()).await.ok();
    leaving.0 = None;
    let what = if call.is_none() { "MISS" } else { "COALESCED" };
    let (first, call) = match (first, call) {
        (Some(Next::End(End::Complete(done))), call) if done.is_whole => {
            return joined(caching, &asker, call, &done).await;
        }
        // Its kind of answer cannot be shared, or it was left behind before it was sent anything.
        (Some(Next::End(End::Complete(_) | End::TooSlow)), call @ Some(_)) => {
            return alone(engine, caching, call).await;
        }
        (Some(Next::End(End::Failed(fault))), call @ Some(_)) if fault.is_the_leaders => {
            return alone(engine, caching, call).await;
        }
        (Some(Next::End(end)), call) => return Err(failed(call, end)),
        (Some(Next::Chunk(piece)), call) => (Some(piece), call),
        (None, call) if is_late => return Err(failed(call, End::Failed(Fault::of(late())))),
        (None, call) => (None, call),
    };
    let keepalive = asker.keepalive;
    let shared = Shared::new(Arc::clone(caching), asker, follower, call, first);
    let stream = EventStream::shared(shared, keepalive, engine.cut());
    Ok(Reply { headers: vec![told(what)], body: ReplyBody::Stream(Box::new(stream)) })
}
