//! Serves embeddings with the response cache.

use std::sync::Arc;

use gw_cache::{Found, Outcome};

use crate::call::Call;
use crate::error::Result;
use crate::execute::execute_after_miss;
use crate::response::disconnect::DetachOnDrop;
use crate::response::reply::Reply;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::embeddings::kept_reply::{inconsistent, kept_reply};
use crate::response_cache::embeddings::partial_fetch::PartialFetch;
use crate::response_cache::embeddings::request::EmbeddingsCacheRequest;
use crate::response_cache::embeddings::vectors::CachedVectors;
use crate::response_cache::shared_answer::now_ms;
use crate::services::Services;

/// Serves embeddings with the cache.
///
/// # Errors
/// The error of the call.
pub(crate) async fn run(
    services: &Services,
    caching: &Arc<ResponseCache>,
    mut call: Box<Call>,
    wanted: EmbeddingsCacheRequest,
) -> Result<Reply> {
    let stamp = caching.cache.stamp();
    let looked = if wanted.directives.can_read {
        caching.cache.look_all(&wanted.keys, wanted.directives.max_age, now_ms()).await
    } else {
        wanted.keys.iter().map(|_| Found::Nothing).collect()
    };
    let mut fresh = Vec::with_capacity(looked.len());
    let is_all_kept = !looked.iter().any(|found| matches!(found, Found::Nothing));
    for found in looked {
        fresh.push(if let Found::Fresh(stored) = found { Some(stored) } else { None });
    }
    let mut found = CachedVectors::of(fresh);
    let are_all_there = found.are_all_there();
    // The missing vectors must come from the model of the cached ones, so that model must be a candidate.
    let is_there = |id: &str| call.plan.candidates.iter().any(|candidate| *candidate.model.id == *id);
    if !are_all_there && !found.model_used().is_some_and(is_there) {
        found = CachedVectors::none(wanted.keys.len());
    }
    let Some(request) = call.context.request.embeddings() else { return Err(inconsistent()) };
    let Some(permit) =
        caching.vectors.permit(call.context.client.caller.key_id(), found.unsent(&wanted.at, request))
    else {
        // The answer of an upstream has a size limit and a cost, unlike one of cached vectors.
        caching.cache.count(Outcome::Miss);
        return execute_after_miss(services, call).await;
    };
    if are_all_there {
        let sum = found.sum(&wanted.at).ok_or_else(inconsistent)?;
        caching.cache.count(Outcome::Hit(&sum));
        call.finish_cached(&sum, false, &[]);
        return kept_reply(&call, &wanted, (found, permit), &sum, "HIT").await;
    }
    let (log, cpu) = (Arc::clone(&call.context.client.log), call.context.cpu.clone());
    let drain = services.disconnect_drain_of(&call);
    let asking = PartialFetch::new(Arc::clone(caching), call, wanted, (found, permit), is_all_kept, stamp)?;
    let asking = Box::pin(cpu.host(asking.run(services.limiter.clone())));
    match drain {
        Some(drain) => DetachOnDrop::new(asking, drain, log).await,
        None => asking.await,
    }
}
