//! A kept answer in the shape that this request wants: whole, or as a stream.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_cache::Stored;
use gw_providers::own;
use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Money;
use gw_wire::render::{self, Envelope};
use gw_wire::reply::ChatReply;
use gw_wire::stream::{Closing, Normaliser, Opening, Shape};
use http::{HeaderName, HeaderValue};

use super::{AGE, Done, now_ms, told};
use crate::ask::Ask;
use crate::attempts::Call;
use crate::call::{CallLog, Reply, ReplyBody};
use crate::error::{Error, Kind, Result};
use crate::job::millis;
use crate::live::replay_chat;
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
    choices: u32,
    include_usage: bool,
    fallback_used: bool,
    pub(super) streams: bool,
    pub(super) keepalive: Option<Duration>,
    pub(super) log: Arc<CallLog>,
}

impl Asker {
    pub(super) fn new(call: &Call) -> Self {
        let (choices, include_usage) = match &call.job.ask {
            Ask::Chat(request) => (request.n, request.include_usage),
            _ => (1, false),
        };
        let context = &call.job.context;
        let totals = call.plan.candidates.iter().map(|candidate| candidate.clocks().total);
        Self {
            request_id: Arc::clone(&context.request_id),
            accepted: context.accepted,
            deadline: context.accepted + totals.max().unwrap_or_default(),
            id: call.job.id.clone(),
            created: call.job.created,
            strategy: call.plan.strategy.as_str(),
            choices,
            include_usage,
            fallback_used: false,
            streams: call.job.ask.wants_stream(),
            keepalive: context.keepalive,
            log: Arc::clone(&context.log),
        }
    }

    /// With what is to be said of an answer that another request brought.
    pub(super) fn of(&self, done: &Done) -> Self {
        Self { fallback_used: done.fallback_used, ..self.clone() }
    }

    /// The headers of the leader's own answer.
    pub(super) fn headers(&self, done: &Done, what: &'static str) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers: Vec<_> = who(&done.answer).collect();
        headers.push(told(what));
        headers
    }

    pub(super) fn opening(&self, model: &str) -> Opening {
        Opening {
            shape: Shape::Chat,
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
        }
    }
}

fn who(stored: &Stored) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    named(&stored.model_used, &stored.provider).into_iter()
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
    headers.push((AGE, HeaderValue::from(stored.life.age_ms(now_ms()) / 1000)));
    let kept = kept(stored)?;
    let body = if asker.streams {
        ReplyBody::Stream(Box::new(EventStream::ready(replayed(asker, stored, kept, warnings))))
    } else {
        ReplyBody::Full(Bytes::from(written(asker, stored, &kept, warnings)))
    };
    Ok(Reply { headers, body })
}

fn kept(stored: &Stored) -> Result<ChatReply<'_>> {
    // It was read when it was stored: a fault here is ours.
    own::chat(&stored.body).map_err(|_| Error::new(Kind::InternalError, "The kept answer cannot be read."))
}

fn written(asker: &Asker, stored: &Stored, reply: &ChatReply<'_>, warnings: &[&'static str]) -> Vec<u8> {
    render::chat(
        reply,
        &Envelope {
            id: &asker.id,
            created: asker.created,
            model: &stored.model_used,
            fingerprint: "",
            usage: stored.usage,
            cost: Money::ZERO,
            gateway: &asker.meta(stored, warnings),
        },
    )
}

/// The whole stream at once.
fn replayed(asker: &Asker, stored: &Stored, reply: ChatReply<'_>, warnings: &[&'static str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stored.body.len() + 2048);
    let mut normaliser = Normaliser::new(asker.opening(&stored.model_used));
    replay_chat(reply, &mut |event| normaliser.accept(event, &mut out));
    let gateway = asker.meta(stored, warnings);
    normaliser.close(&Closing { usage: stored.usage, cost: Money::ZERO, gateway: &gateway }, &mut out);
    out
}

/// The same for a stream whose head is out already.
pub(super) fn replay(asker: &Asker, stored: &Stored, warnings: &[&'static str]) -> Result<Vec<u8>> {
    Ok(replayed(asker, stored, kept(stored)?, warnings))
}
