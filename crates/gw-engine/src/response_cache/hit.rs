//! Replies with a kept answer: as a document or as a stream.

use bytes::Bytes;
use gw_cache::Stored;
use gw_wire::money::Money;
use http::{HeaderName, HeaderValue};

use crate::error::Result;
use crate::response::event_stream::EventStream;
use crate::response::headers::{AGE, cache_status, number};
use crate::response::reply::{Reply, ReplyBody};
use crate::response_cache::rendered::{replayed, written};
use crate::response_cache::reply_context::ReplyContext;
use crate::response_cache::shared_answer::now_ms;

const SIMILARITY: HeaderName = HeaderName::from_static("x-gateway-cache-similarity");
const SOURCE: HeaderName = HeaderName::from_static("x-gateway-cache-source");

fn header(name: HeaderName, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((name, HeaderValue::from_str(value).ok()?))
}

/// The reply of a kept answer.
pub(crate) fn reply(
    reply_context: &ReplyContext,
    stored: &Stored,
    what: &'static str,
    warnings: &[&'static str],
) -> Result<Reply> {
    let mut headers = reply_context.names(&stored.model_used, &stored.provider);
    headers.push(cache_status(what));
    headers.extend(reply_context.cost_header(Some(Money::ZERO)));
    if let Some(similar) = reply_context.similar(stored) {
        headers.extend(header(SIMILARITY, &similar.shown()));
        headers.extend(header(SOURCE, &similar.source));
    }
    headers.push((AGE, number(stored.lifetime.age_ms(now_ms()) / 1000)));
    let body = if reply_context.streams {
        let events = replayed(reply_context, stored, warnings)?;
        ReplyBody::Stream(Box::new(EventStream::ready(events, reply_context.deadline)))
    } else {
        ReplyBody::Full(Bytes::from(written(reply_context, stored, warnings)?))
    };
    Ok(Reply { headers, body })
}
