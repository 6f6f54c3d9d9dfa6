//! A kept answer in the shape that this request wants: whole, or as a stream.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_cache::Stored;
use gw_wire::gateway::{GatewayMeta, SemanticMatch};
use gw_wire::money::Money;
use gw_wire::render::Envelope;
use gw_wire::stream::{Closing, Normaliser, Opening, Shape};
use http::{HeaderName, HeaderValue};

use super::kept::Content;
use super::{AGE, Done, now_ms, told};
use crate::attempts::Call;
use crate::call::{CallLog, Reply, ReplyBody};
use crate::error::{Error, Kind, Result};
use crate::job::millis;
use crate::pipeline::named;
use crate::stream::EventStream;

/// Who asks, and how the answer is to look: what is left of a call when the call itself is another task's.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    request_id: Arc<str>,
    accepted: Instant,
    /// When its own time is up, however much the call has left that it follows.
    pub(super) deadline: Instant,
    id: String,
    created: u64,
    strategy: &'static str,
    pub(super) shape: Shape,
    choices: u32,
    include_usage: bool,
    fallback_used: bool,
    /// How near the question is whose answer it gets, when it is not the same.
    similarity: Option<f32>,
    pub(super) streams: bool,
    pub(super) keepalive: Option<Duration>,
    pub(super) log: Arc<CallLog>,
}

impl Asker {
    pub(super) fn new(call: &Call) -> Self {
        let Opening { shape, choices, include_usage, .. } = call.job.opening(String::new());
        let context = &call.job.context;
        Self {
            request_id: Arc::clone(&context.request_id),
            accepted: context.accepted,
            deadline: context.accepted + call.plan.longest_total(),
            id: call.job.id.clone(),
            created: call.job.created,
            strategy: call.plan.strategy.as_str(),
            shape,
            choices,
            include_usage,
            fallback_used: false,
            similarity: None,
            streams: call.job.ask.wants_stream(),
            keepalive: context.keepalive,
            log: Arc::clone(&context.log),
        }
    }

    /// With what is to be said of an answer that another request brought.
    pub(super) fn of(&self, done: &Done) -> Self {
        Self { fallback_used: done.fallback_used, similarity: done.similarity, ..self.clone() }
    }

    /// The headers of the leader's own answer.
    pub(super) fn headers(&self, done: &Done, what: &'static str) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers: Vec<_> = who(&done.answer).collect();
        headers.push(told(what));
        headers
    }

    pub(super) fn opening(&self, model: &str) -> Opening {
        Opening {
            shape: self.shape,
            id: self.id.clone(),
            created: self.created,
            model: model.to_owned(),
            choices: self.choices,
            include_usage: self.include_usage,
        }
    }

    pub(super) fn meta(&self, stored: &Stored, warnings: &[&'static str]) -> GatewayMeta {
        GatewayMeta {
            request_id: Arc::clone(&self.request_id),
            model_used: Arc::clone(&stored.model_used),
            provider: Arc::clone(&stored.provider),
            cache_hit: true,
            routing_strategy: self.strategy,
            fallback_used: self.fallback_used,
            latency_ms: millis(self.accepted.elapsed()),
            attempts: Vec::new(),
            warnings: warnings.iter().map(|warning| Cow::Borrowed(*warning)).collect(),
            saved: Some(stored.cost),
            similar: self.similar(stored),
        }
    }

    fn similar(&self, stored: &Stored) -> Option<SemanticMatch> {
        self.similarity.map(|similarity| SemanticMatch { similarity, source: Arc::clone(&stored.source) })
    }
}

fn who(stored: &Stored) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    named(&stored.model_used, &stored.provider).into_iter()
}

const SIMILARITY: HeaderName = HeaderName::from_static("x-gateway-cache-similarity");
const SOURCE: HeaderName = HeaderName::from_static("x-gateway-cache-source");

fn header(name: HeaderName, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((name, HeaderValue::from_str(value).ok()?))
}

/// Answers with what was kept.
pub(super) fn reply(
    asker: &Asker,
    stored: &Stored,
    what: &'static str,
    warnings: &[&'static str],
) -> Result<Reply> {
    let mut headers: Vec<_> = who(stored).collect();
    headers.push(told(what));
    if let Some(similar) = asker.similar(stored) {
        headers.extend(header(SIMILARITY, &similar.shown()));
        headers.extend(header(SOURCE, &similar.source));
    }
    headers.push((AGE, HeaderValue::from(stored.life.age_ms(now_ms()) / 1000)));
    let kept = kept(asker, stored)?;
    let body = if asker.streams {
        let events = replayed(asker, stored, kept, warnings);
        ReplyBody::Stream(Box::new(EventStream::ready(events, asker.deadline)))
    } else {
        ReplyBody::Full(Bytes::from(written(asker, stored, &kept, warnings)))
    };
    Ok(Reply { headers, body })
}

fn kept<'a>(asker: &Asker, stored: &'a Stored) -> Result<Content<'a>> {
    // It was read when it was stored: a fault here is ours.
    Content::read(asker.shape, &stored.body)
        .ok_or_else(|| Error::new(Kind::InternalError, "The kept answer cannot be read."))
}

fn written(asker: &Asker, stored: &Stored, content: &Content<'_>, warnings: &[&'static str]) -> Vec<u8> {
    content.write(&Envelope {
        id: &asker.id,
        created: asker.created,
        model: &stored.model_used,
        fingerprint: "",
        usage: stored.usage,
        cost: Money::ZERO,
        gateway: &asker.meta(stored, warnings),
    })
}

/// The whole stream at once.
fn replayed(asker: &Asker, stored: &Stored, content: Content<'_>, warnings: &[&'static str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stored.body.len() + 2048);
    let mut normaliser = Normaliser::new(asker.opening(&stored.model_used));
    content.replay(&mut |event| normaliser.accept(event, &mut out));
    let gateway = asker.meta(stored, warnings);
    normaliser.finish(&Closing { usage: stored.usage, cost: Money::ZERO, gateway: &gateway }, &mut out);
    out
}

/// The same for a stream whose head is out already.
pub(super) fn replay(asker: &Asker, stored: &Stored, warnings: &[&'static str]) -> Result<Vec<u8>> {
    Ok(replayed(asker, stored, kept(asker, stored)?, warnings))
}
