//! Answers out of the response cache, and calls that identical requests share (`gw-cache`): how a chat that asks for it is
//! served.
//!
//! Whoever asks first for what is not there leads: its call runs in a task of its own (`work.rs`), which outlives it as long
//! as anybody waits for the answer. All others get what comes of it, and are accounted as hits.

mod hit;
pub(crate) mod operate;
mod shared;
mod work;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_cache::{
    Cache, End, Flights, Follower, Found, Key, Mode, Next, Outcome, Question, Role, Route, Scope, Stored,
    Wants, Wish,
};
use http::{HeaderName, HeaderValue};

use self::hit::Asker;
pub(crate) use self::shared::Shared;
use self::work::Work;
use crate::ask::Ask;
use crate::attempts::Call;
use crate::call::{CallLog, Reply, ReplyBody};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
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
#[derive(Clone, Copy, Debug)]
pub struct CachingSettings {
    /// How long an answer stays when the request does not say.
    pub default_ttl: Duration,
    /// How long beyond that it may be used when no upstream answers.
    pub stale_if_error: Duration,
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
}

type Finished = Arc<Done>;
type Failed = Arc<Error>;

/// The response cache and the calls under way.
#[derive(Debug)]
pub struct Caching {
    cache: Cache,
    flights: Flights<Finished, Failed>,
    settings: CachingSettings,
}

/// What a request wants, and under which key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    key: Key,
    /// Under which it shares a call: with those alone who want the very same of routing and cache.
    flight: Key,
    wish: Wish,
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
}

/// When an answer was kept, which replicas must agree on: unix milliseconds.
fn now_ms() -> u64 {
    u64::try_from(unix_millis()).unwrap_or(0)
}

impl Caching {
    /// Over this cache.
    #[must_use]
    pub fn new(cache: Cache, settings: CachingSettings) -> Self {
        Self { cache, flights: Flights::default(), settings }
    }

    /// The cache itself, to purge it and for its figures.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Whether and how the cache is to be used for a call.
    pub(crate) fn plan(&self, call: &Call) -> Plan {
        let Ask::Chat(request) = &call.job.ask else { return Plan::NotAsked };
        let Some(asked) = request.cache.filter(|asked| asked.enabled) else { return Plan::NotAsked };
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let ttl = asked.ttl.map_or(self.settings.default_ttl, seconds);
        let mut wish = Wish::new(Mode::read(asked.mode).unwrap_or_default(), ttl);
        if let Some(lines) = &call.job.context.cache_control {
            wish = wish.with_cache_control(lines);
        }
        match self.keys(call, &wish, ttl).filter(|_| !wish.is_nothing()) {
            Some((key, flight)) => Plan::Use(Wanted { key, flight, wish, ttl }),
            None => {
                self.cache.count(Outcome::Bypass);
                Plan::Bypass
            }
        }
    }

    /// The key of the answer, and that of a call which is shared. An answer is only kept when it is of a model that was asked for, so
    /// its key knows nothing of fallbacks; a call that is shared is answered by whoever its plan leads to, and fails when its
    /// plan fails.
    fn keys(&self, call: &Call, wish: &Wish, ttl: Duration) -> Option<(Key, Key)> {
        let Ask::Chat(request) = &call.job.ask else { return None };
        // Who may answer, whatever the order of the day: with what the configuration can change about them.
        let named = |candidate: &Candidate| {
            let Candidate { model, provider, group, is_upgrade, .. } = candidate;
            let who = format!("{} {} {:x}", model.id, model.upstream_model, provider.identity());
            (*group, *is_upgrade, who)
        };
        let mut all: Vec<(u32, bool, String)> = call.plan.candidates.iter().map(named).collect();
        all.sort_unstable();
        let asked: Vec<&str> =
            all.iter().filter(|(group, up, _)| *group == 0 && !up).map(|(_, _, who)| who.as_str()).collect();
        let question = Question {
            route: Route::Chat,
            model: &request.model,
            candidates: &asked,
            config: 0,
            body: &request.body,
            input: None,
        };
        let key = Key::of(&scope(call), &question)?;
        let mut hasher = DefaultHasher::new();
        (wish.reads, wish.writes, wish.max_age, wish.stale_if_error, ttl).hash(&mut hasher);
        all.iter().for_each(|(group, up, _)| (group, up).hash(&mut hasher));
        // What was purged meanwhile is not waited for.
        self.cache.stamp().hash(&mut hasher);
        let everybody: Vec<&str> = all.iter().map(|(_, _, who)| who.as_str()).collect();
        let question = Question { candidates: &everybody, config: hasher.finish(), ..question };
        Some((key, Key::of(&scope(call), &question)?))
    }
}

fn scope(call: &Call) -> Scope {
    Scope::Key(Arc::clone(call.job.context.caller.key_id()))
}

/// The header that says what the cache did.
pub(crate) fn told(what: &'static str) -> (HeaderName, HeaderValue) {
    (CACHE, HeaderValue::from_static(what))
}

/// Serves a chat that wants the cache.
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
    if wanted.wish.reads {
        match caching.cache.look(&wanted.key, wanted.wish.max_age, now_ms()).await {
            Found::Fresh(stored) => {
                caching.cache.count(Outcome::Hit(&stored));
                call.tally.account.cached(&stored, false);
                return hit::reply(&asker, &stored, "HIT", &[]);
            }
            Found::Stale(stored) => stale = Some(stored),
            Found::Nothing => {}
        }
    }
    let (flights, wants) = (&caching.flights, if asker.streams { Wants::Pieces } else { Wants::End });
    let role = if wanted.wish.reads {
        flights.join(wanted.flight, wants)
    } else {
        flights.alone(wanted.flight, wants)
    };
    let (follower, call) = match role {
        Role::Leader(lead, follower) => {
            // A store that is slow is not waited for twice.
            let looks_again = wanted.wish.reads && looking.elapsed() < SLOW_LOOK;
            let limiter = engine.limiter().clone();
            let work = Work { call, wanted, stamp, stale, looks_again, limiter };
            let work = work.of(engine, Arc::clone(caching));
            tokio::spawn(lead.drive(patience(engine.leavers()), move |pieces| work.run(pieces)));
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
            log.note(|record| record.status = record.status.or(Some(Kind::ClientClosedRequest.code())));
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
        Some(_) => tokio::time::timeout_at(asker.deadline.into(), follower.end()).await,
        None => Ok(follower.end().await),
    };
    leaving.0 = None;
    let Ok(end) = end else { return Err(failed(call, End::Failed(Arc::new(late())))) };
    match end {
        End::Complete(done) => match (&done.own, call) {
            (Some(own), None) => {
                let headers = asker.headers(&done, "MISS");
                Ok(Reply { headers, body: ReplyBody::Full(own.clone()) })
            }
            (_, call) if done.is_whole => joined(caching, &asker, call, &done),
            // Its kind of answer cannot be shared: an own call.
            (_, Some(call)) => pipeline::unshared(engine, call).await,
            (None, None) => Err(gone()),
        },
        other => Err(failed(call, other)),
    }
}

/// A follower's answer, or a leader's that was found after all.
fn joined(caching: &Caching, asker: &Asker, call: Option<Box<Call>>, done: &Done) -> Result<Reply> {
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
    hit::reply(&asker.of(done), answer, what, warnings)
}

/// What a flight's bad end is for one who has sent nothing yet.
fn failed(call: Option<Box<Call>>, end: End<Finished, Failed>) -> Error {
    let error = match end {
        End::Failed(error) => Error::clone(&error),
        End::Gone => Error::new(Kind::InternalError, "The gateway failed while answering this request."),
        _ => gone(),
    };
    if let Some(mut call) = call {
        call.tally.account.failed(&error);
    }
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
            return joined(caching, &asker, call, &done);
        }
        // Its kind of answer cannot be shared, or it was left behind before it was sent anything.
        (Some(Next::End(End::Complete(_) | End::TooSlow)), Some(call)) => {
            return pipeline::unshared(engine, call).await;
        }
        (Some(Next::End(end)), call) => return Err(failed(call, end)),
        (Some(Next::Piece(piece)), call) => (Some(piece), call),
        (None, call) if is_late => return Err(failed(call, End::Failed(Arc::new(late())))),
        (None, call) => (None, call),
    };
    let keepalive = asker.keepalive;
    let shared = Shared::new(Arc::clone(caching), asker, follower, call, first);
    let stream = EventStream::shared(shared, keepalive, engine.cut());
    Ok(Reply { headers: vec![told(what)], body: ReplyBody::Stream(Box::new(stream)) })
}
