//! Embeddings out of the response cache, where the configuration wants it: each input is kept by itself, so that of a batch only
//! those are asked for that are not there.
//!
//! A vector belongs to its model: what is of two models is never put together. Nobody shares a call here: equal requests
//! under way each ask for themselves.

mod asking;
mod page;
mod room;
mod vectors;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gw_cache::{CacheDirectives, Found, Key, Outcome, Stored};
use gw_wire::request::EmbeddingsRequest;

use self::asking::Asking;
use self::page::Page;
use self::room::Place;
pub(super) use self::room::Room;
use self::vectors::Vectors;
use super::{AGE, Caching, Named, now_ms, question, told};
use crate::ask::Ask;
use crate::attempts::Call;
use crate::call::{Reply, ReplyBody};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::leavers::Staying;
use crate::pipeline::{self, cost_header, named};

/// What a request for embeddings wants of the cache, and under which keys.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Of the inputs, each once.
    keys: Vec<Key>,
    /// The first input with each of them.
    firsts: Vec<usize>,
    /// Which of them each input has.
    at: Vec<usize>,
    wish: CacheDirectives,
    /// How long its vectors stay.
    ttl: Duration,
}

impl Wanted {
    /// None when there is no key to be had.
    pub(super) fn of(
        caching: &Caching,
        call: &Call,
        request: &EmbeddingsRequest,
        wish: CacheDirectives,
        ttl: Duration,
    ) -> Option<Self> {
        let named = Named::of(call);
        let asked = named.asked();
        let count = request.inputs.len();
        let inputs = (0..count).map(|place| request.input(place));
        let all = Key::of_inputs(&caching.scope(&call.job.context.caller), &question(call, &asked), inputs)?;
        let mut known = HashMap::with_capacity(count);
        let (mut keys, mut firsts, mut at) = (Vec::new(), Vec::new(), Vec::with_capacity(count));
        for (place, key) in all.into_iter().enumerate() {
            let number = *known.entry(key).or_insert(keys.len());
            if number == keys.len() {
                keys.push(key);
                firsts.push(place);
            }
            at.push(number);
        }
        Some(Self { keys, firsts, at, wish, ttl })
    }
}

/// Serves embeddings that want the cache.
pub(crate) async fn run(
    engine: &Engine,
    caching: &Arc<Caching>,
    mut call: Box<Call>,
    wanted: Wanted,
) -> Result<Reply> {
    let stamp = caching.cache.stamp();
    let looked = if wanted.wish.can_read {
        caching.cache.look_all(&wanted.keys, wanted.wish.max_age, now_ms()).await
    } else {
        wanted.keys.iter().map(|_| Found::Nothing).collect()
    };
    let (mut fresh, mut kept) = (Vec::with_capacity(looked.len()), Vec::with_capacity(looked.len()));
    for found in looked {
        let (one, other) = match found {
            Found::Fresh(stored) => (Some(Arc::clone(&stored)), Some(stored)),
            Found::Stale(stored) => (None, Some(stored)),
            Found::Nothing => (None, None),
        };
        fresh.push(one);
        kept.push(other);
    }
    let mut found = Vectors::of(fresh);
    let are_all_there = found.are_all_there();
    // Whom the vectors are of that are there, he must be there for the others, too.
    let is_there = |id: &str| call.plan.candidates.iter().any(|candidate| *candidate.model.id == *id);
    if !are_all_there && !found.model_used().is_some_and(is_there) {
        found = Vectors::none(wanted.keys.len());
    }
    let Ask::Embeddings(request) = &call.job.ask else { return Err(odd()) };
    let Some(place) = caching.vectors.take(found.unsent(&wanted.at, request)) else {
        // An upstream that sends all of it is bound like any, and asking it costs something.
        caching.cache.count(Outcome::Miss);
        return pipeline::unshared(engine, call).await;
    };
    if are_all_there {
        let sum = found.sum(&wanted.at).ok_or_else(odd)?;
        caching.cache.count(Outcome::Hit(&sum));
        call.tally.account.cached(&sum, false);
        return kept_reply(&call, &wanted, (found, place), &sum, "HIT").await;
    }
    let (log, cpu) = (Arc::clone(&call.job.context.log), call.job.cpu.clone());
    let asking = Asking::new(Arc::clone(caching), call, wanted, (found, place), kept, stamp)?;
    let asking = Box::pin(cpu.host(asking.run(engine.limiter().clone())));
    match engine.leavers() {
        Some(leavers) => Staying::new(asking, leavers, log).await,
        None => asking.await,
    }
}

/// An answer of nothing but what was kept.
async fn kept_reply(
    call: &Call,
    wanted: &Wanted,
    (found, place): (Vectors, Place),
    sum: &Stored,
    what: &'static str,
) -> Result<Reply> {
    let Ask::Embeddings(request) = &call.job.ask else { return Err(odd()) };
    let mut headers = named(&sum.model_used, &sum.provider);
    headers.extend(cost_header(call));
    headers.push(told(what));
    headers.push((AGE, (sum.lifetime.age_ms(now_ms()) / 1000).into()));
    let page = Page {
        at: wanted.at.clone(),
        encoding: request.encoding,
        usage: sum.usage,
        found,
        fresh: None,
        place,
    };
    let (body, _) = page.make().await?;
    Ok(Reply { headers, body: ReplyBody::Full(body) })
}

/// What cannot be.
fn odd() -> Error {
    Error::new(Kind::InternalError, "The vectors do not go together.")
}
