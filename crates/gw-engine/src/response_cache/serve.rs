//! Serves a chat or a text completion with the response cache.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use gw_cache::{CacheDirectives, End, Follower, Found, Next, Outcome, Role, Stamp, Stored, Wants};

use crate::call::Call;
use crate::clock;
use crate::cpu_pool::{is_heavy_answer, offload_if};
use crate::error::{Error, GATEWAY_SHUTDOWN, Kind, Result};
use crate::execute::{COMMIT_AFTER, execute_after_miss, execute_reserved_after_miss};
use crate::response::disconnect::patience;
use crate::response::event_stream::EventStream;
use crate::response::headers::cache_status;
use crate::response::reply::{Reply, ReplyBody};
use crate::response_cache::cache_request::CacheRequest;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::follower_stream::FollowerStream;
use crate::response_cache::hit;
use crate::response_cache::leader::LeaderCall;
use crate::response_cache::reply_context::ReplyContext;
use crate::response_cache::semantic_lookup::LookupServices;
use crate::response_cache::shared_answer::{
    FlightError, FlightResult, LogOnDisconnect, SharedAnswer, SharedFailure, gone, now_ms,
};
use crate::services::Services;

/// The longest first look after which the leader looks again.
const SLOW_LOOK: Duration = Duration::from_millis(20);

/// The first look at the cache.
struct FirstLook {
    stamp: Stamp,
    /// The store took long to answer.
    is_slow: bool,
    /// It has found an answer that is too old for the request.
    is_any_stale: bool,
}

/// Serves a chat or a text completion with the cache.
///
/// # Errors
/// The error of the call.
pub(crate) async fn run(
    services: &Services,
    caching: &Arc<ResponseCache>,
    mut call: Box<Call>,
    wanted: CacheRequest,
) -> Result<Reply> {
    let reply_context = ReplyContext::new(&call);
    let mut first = FirstLook { stamp: caching.cache.stamp(), is_slow: false, is_any_stale: false };
    let CacheDirectives { can_read, max_age, .. } = wanted.directives;
    let found = match can_read.then(|| caching.cache.look_here(&wanted.key, max_age, now_ms())) {
        None => Found::Nothing,
        Some(Some(found)) => found,
        Some(None) => {
            let begun = clock::now();
            let found = Box::pin(caching.cache.look(&wanted.key, max_age, now_ms())).await;
            first.is_slow = clock::since(begun) >= SLOW_LOOK;
            found
        }
    };
    match found {
        Found::Fresh(stored) => {
            caching.cache.count(Outcome::Hit(&stored));
            if !wanted.is_known {
                let scope = caching.scope(&call.context.client.caller);
                caching.known.note(&call, scope, wanted.key);
            }
            call.finish_cached(&stored, false, &[]);
            return reply(&reply_context, &stored, "HIT", &[]).await;
        }
        Found::Stale(_) => first.is_any_stale = true,
        Found::Nothing => {}
    }
    // In a box, because a hit needs none of it.
    after_first_look(services, caching, reply_context, call, (wanted, first)).boxed().await
}

/// Serves a request for which the first look has found no answer.
async fn after_first_look(
    services: &Services,
    caching: &Arc<ResponseCache>,
    reply_context: ReplyContext,
    call: Box<Call>,
    (wanted, first): (CacheRequest, FirstLook),
) -> Result<Reply> {
    let FirstLook { stamp, is_slow, is_any_stale } = first;
    // Only a miss needs the key of the shared call.
    let flight = offload_if(call.context.is_heavy, || ResponseCache::flight(&call, &wanted, stamp)).await;
    let (flights, wants) = (&caching.flights, if reply_context.streams { Wants::Chunks } else { Wants::End });
    let role = if wanted.directives.can_read {
        flights.join(flight, wants)
    } else {
        flights.lead_alone(flight, wants)
    };
    let (follower, call) = match role {
        Role::Leader(lead, follower) => {
            // A slow store is not asked twice.
            let looks_again = wanted.directives.can_read && !is_slow;
            let cpu = call.context.cpu.clone();
            let drain = services.disconnect_drain_of(&call);
            let work = LeaderCall {
                call,
                wanted,
                stamp,
                is_any_stale,
                looks_again,
                lookup_services: LookupServices::of(services),
            };
            let work = work.of(services, Arc::clone(caching));
            let driven = lead.drive(patience(drain), move |pieces| work.run(pieces));
            tokio::spawn(cpu.host(driven));
            (follower, None)
        }
        Role::Follower(follower) => (follower, Some(call)),
    };
    if reply_context.streams {
        stream(services, caching, reply_context, follower, call).await
    } else {
        document(services, caching, reply_context, follower, call).await
    }
}

async fn document(
    services: &Services,
    caching: &ResponseCache,
    reply_context: ReplyContext,
    mut follower: Follower<FlightResult, FlightError>,
    call: Option<Box<Call>>,
) -> Result<Reply> {
    let mut leaving = LogOnDisconnect(call.is_none().then(|| Arc::clone(&reply_context.log)));
    let end = match call {
        Some(_) => tokio::time::timeout_at(reply_context.deadline.into(), follower.wait_for_end()).await,
        None => Ok(follower.wait_for_end().await),
    };
    leaving.0 = None;
    let Ok(end) = end else { return Err(failed(call, End::Failed(SharedFailure::of(late())))) };
    match end {
        End::Failed(fault) if fault.is_the_leaders && call.is_some() => {
            execute_alone(services, caching, call).await
        }
        End::Failed(fault) => match fault.take_unshared() {
            Some(own) => go_on_alone(services, caching, own).await,
            None => Err(failed(call, End::Failed(fault))),
        },
        End::Complete(done) => match (&done.own, call) {
            (Some(own), None) => {
                let headers = reply_context.headers(&done, "MISS");
                Ok(Reply { headers, body: ReplyBody::Full(own.clone()) })
            }
            (_, call) if done.is_whole => joined(caching, &reply_context, call, &done).await,
            // The answer cannot be shared, so this request makes a call of its own.
            (_, call) => execute_alone(services, caching, call).await,
        },
        other => Err(failed(call, other)),
    }
}

/// Executes a request that could not share another request's answer.
async fn execute_alone(
    services: &Services,
    caching: &ResponseCache,
    call: Option<Box<Call>>,
) -> Result<Reply> {
    let call = call.ok_or_else(gone)?;
    caching.cache.count(Outcome::Miss);
    execute_after_miss(services, call).await
}

/// Executes the call of a leader that nobody can share.
async fn go_on_alone(services: &Services, caching: &ResponseCache, call: Box<Call>) -> Result<Reply> {
    caching.cache.count(Outcome::Miss);
    execute_reserved_after_miss(services, call).await
}

/// The reply of a follower, or of a leader that found an answer after all.
async fn joined(
    caching: &ResponseCache,
    reply_context: &ReplyContext,
    call: Option<Box<Call>>,
    done: &SharedAnswer,
) -> Result<Reply> {
    let answer = &done.answer;
    let warnings = done.warnings();
    let what = match (done.is_stale, &call) {
        (true, _) => "STALE",
        (false, Some(_)) => "COALESCED",
        (false, None) => "HIT",
    };
    if let Some(mut call) = call {
        caching.cache.count(Outcome::Coalesced(answer));
        call.finish_cached(answer, done.fallback_used, warnings);
    }
    reply(&reply_context.of(done), answer, what, warnings).await
}

/// The reply of a kept answer.
async fn reply(
    reply_context: &ReplyContext,
    stored: &Stored,
    what: &'static str,
    warnings: &[&'static str],
) -> Result<Reply> {
    offload_if(is_heavy_answer(&stored.body), || hit::reply(reply_context, stored, what, warnings)).await
}

/// The error of a shared call for a request whose head is not sent.
fn failed(call: Option<Box<Call>>, end: End<FlightResult, FlightError>) -> Error {
    let mut error = match end {
        End::Failed(fault) => fault.error.clone(),
        End::WorkLost => Error::internal(),
        _ => gone(),
    };
    if let Some(mut call) = call {
        call.fail(&error);
    }
    // This code is for the log, not for the client.
    error.code = error.code.filter(|code| code != GATEWAY_SHUTDOWN);
    error
}

/// The deadline of a follower has passed.
fn late() -> Error {
    Error::new(Kind::UpstreamTimeout, "The request exceeded its time limit.")
}

async fn stream(
    services: &Services,
    caching: &Arc<ResponseCache>,
    reply_context: ReplyContext,
    mut follower: Follower<FlightResult, FlightError>,
    call: Option<Box<Call>>,
) -> Result<Reply> {
    let mut leaving = LogOnDisconnect(call.is_none().then(|| Arc::clone(&reply_context.log)));
    let left = reply_context.deadline.saturating_duration_since(clock::now());
    let is_late = call.is_some() && left <= COMMIT_AFTER;
    let patience = if is_late { left } else { COMMIT_AFTER };
    let first = tokio::time::timeout(patience, follower.next()).await.ok();
    leaving.0 = None;
    let what = if call.is_none() { "MISS" } else { "COALESCED" };
    let (first, call) = match (first, call) {
        (Some(Next::End(End::Complete(done))), call) if done.is_whole => {
            return joined(caching, &reply_context, call, &done).await;
        }
        // The answer cannot be shared, or the flight dropped this reader before it was sent anything.
        (Some(Next::End(End::Complete(_) | End::TooSlow)), call @ Some(_)) => {
            return execute_alone(services, caching, call).await;
        }
        (Some(Next::End(End::Failed(fault))), call @ Some(_)) if fault.is_the_leaders => {
            return execute_alone(services, caching, call).await;
        }
        (Some(Next::End(end)), call) => {
            let own = if let End::Failed(fault) = &end { fault.take_unshared() } else { None };
            return match own {
                Some(own) => go_on_alone(services, caching, own).await,
                None => Err(failed(call, end)),
            };
        }
        (Some(Next::Chunk(piece)), call) => (Some(piece), call),
        (None, call) if is_late => return Err(failed(call, End::Failed(SharedFailure::of(late())))),
        (None, call) => (None, call),
    };
    let keepalive = reply_context.keepalive;
    // A head that goes out before the first content cannot name the model.
    let source = follower.source();
    let mut headers = source.map_or_else(Vec::new, |[model, provider]| reply_context.names(model, provider));
    headers.push(cache_status(what));
    let shared = FollowerStream::new(Arc::clone(caching), reply_context, follower, call, first);
    let stream = EventStream::shared(Box::new(shared), keepalive, services.cutoff_watch());
    Ok(Reply { headers, body: ReplyBody::Stream(Box::new(stream)) })
}
