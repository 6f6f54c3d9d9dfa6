//! An answer that consists of cached vectors alone.

use gw_cache::Stored;

use crate::call::Call;
use crate::document_memory::DocumentPermit;
use crate::error::{Error, Kind, Result};
use crate::response::headers::{AGE, cache_status, cost_header, named};
use crate::response::reply::{Reply, ReplyBody};
use crate::response_cache::embeddings::answer::EmbeddingsAnswer;
use crate::response_cache::embeddings::request::EmbeddingsCacheRequest;
use crate::response_cache::embeddings::vectors::CachedVectors;
use crate::response_cache::shared_answer::now_ms;

/// The reply of cached vectors.
pub(crate) async fn kept_reply(
    call: &Call,
    wanted: &EmbeddingsCacheRequest,
    (found, permit): (CachedVectors, DocumentPermit),
    sum: &Stored,
    what: &'static str,
) -> Result<Reply> {
    let Some(request) = call.context.request.embeddings() else { return Err(inconsistent()) };
    let mut headers = named(&sum.model_used, &sum.provider);
    headers.extend(cost_header(call.cost));
    headers.push(cache_status(what));
    headers.push((AGE, (sum.lifetime.age_ms(now_ms()) / 1000).into()));
    let page = EmbeddingsAnswer {
        at: wanted.at.clone(),
        encoding: request.encoding,
        usage: sum.usage,
        found,
        fresh: None,
        permits: vec![permit],
    };
    let (body, _) = page.make().await?;
    Ok(Reply { headers, body: ReplyBody::Full(body) })
}

/// The error of a state that the code rules out.
pub(crate) fn inconsistent() -> Error {
    Error::new(Kind::InternalError, "The cached vectors do not match the request.")
}
