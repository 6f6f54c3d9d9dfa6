//! A complete answer: the upstream calls of an attempt made, their answers read, put together and written for the client.

use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_providers::adapter::{Encoded, Reading};
use gw_wire::failure::Failure;
use gw_wire::money::Money;
use gw_wire::render::{self, Envelope};
use gw_wire::reply::{ChatChoice, ChatReply, TextReply};
use gw_wire::usage::Usage;

use crate::ask::Ask;
use crate::attempts::Call;
use crate::cpu_pool::is_heavy;
use crate::job::Job;
use crate::plan::Candidate;
use crate::share::Part;
use crate::tally::Warnings;

/// Upstream calls of one request that run at the same time.
const PARALLEL_CALLS: usize = 8;

/// What one call gave, and how it is read.
#[derive(Debug)]
pub(crate) struct Given {
    body: Bytes,
    reading: Reading,
    first: u32,
}

impl Given {
    /// Reading it takes long enough to make other connections wait.
    pub(crate) fn is_heavy(&self) -> bool {
        is_heavy(&self.body)
    }
}

/// Calls the candidate, once or once for each part; gives what it could not be told, too.
pub(crate) async fn fetch(job: &Job, candidate: &Candidate) -> Result<(Vec<Given>, Warnings), Failure> {
    let clocks = job.clocks(candidate);
    let mut parts = job.encode(candidate, job.ask.parts(candidate), &clocks).await?;
    if parts.len() == 1
        && let Some(part) = parts.pop()
    {
        let (given, warnings) = one(job, candidate, part).await?;
        return Ok((vec![given], warnings));
    }
    let given: Vec<(Given, Warnings)> = stream::iter(parts)
        .map(|part| one(job, candidate, part))
        .buffered(PARALLEL_CALLS)
        .try_collect()
        .await?;
    // All parts are the same request, so one's warnings are everyone's.
    let (given, mut warnings): (Vec<_>, Vec<_>) = given.into_iter().unzip();
    Ok((given, warnings.pop().unwrap_or_default()))
}

async fn one(
    job: &Job,
    candidate: &Candidate,
    (part, encoded): (Part, Encoded),
) -> Result<(Given, Warnings), Failure> {
    let clocks = job.clocks(candidate);
    let response = candidate.provider.send(encoded.call, &clocks).await?;
    let body = job.body_of(candidate, response, &clocks).await?;
    Ok((Given { body, reading: encoded.reading, first: part.first }, encoded.warnings))
}

/// Reads the answers, which are in the order of their choices, and writes one in the client's shape.
pub(crate) fn complete(
    call: &mut Call,
    candidate: &Candidate,
    started: Instant,
    given: &[Given],
) -> Result<Vec<u8>, Failure> {
    let adapter = candidate.provider.adapter();
    let prompt_bytes = call.job.ask.prompt_bytes();
    if matches!(call.job.ask, Ask::Chat(_)) {
        let mut replies = given.iter().map(|given| {
            let mut reply = adapter.decode_chat(&given.body, &given.reading)?;
            reply
                .choices
                .iter_mut()
                .for_each(|choice| choice.index = choice.index.saturating_add(given.first));
            Ok(reply)
        });
        let mut reply = replies.next().unwrap_or_else(|| Ok(ChatReply::default()))?;
        for more in replies {
            let more = more?;
            reply.choices.extend(more.choices);
            reply.usage = sum(reply.usage, more.usage);
        }
        let answered = || reply.choices.iter().map(chat_bytes).sum();
        let usage = known_or_estimated(reply.usage, prompt_bytes, answered);
        let made = if reply.fingerprint.is_none() { fingerprint(candidate) } else { String::new() };
        let write = |envelope: &Envelope<'_>| render::chat(&reply, envelope);
        return Ok(settle(call, candidate, started, usage, &made, write));
    }
    let mut replies = given.iter().map(|given| {
        let mut reply = adapter.decode_completion(&given.body, &given.reading)?;
        reply.choices.iter_mut().for_each(|choice| choice.index = choice.index.saturating_add(given.first));
        Ok(reply)
    });
    let mut reply = replies.next().unwrap_or_else(|| Ok(TextReply::default()))?;
    for more in replies {
        let more = more?;
        reply.choices.extend(more.choices);
        reply.usage = sum(reply.usage, more.usage);
    }
    let answered = || reply.choices.iter().map(|choice| choice.text.len() as u64).sum();
    let usage = known_or_estimated(reply.usage, prompt_bytes, answered);
    Ok(settle(call, candidate, started, usage, "", |envelope| render::text(&reply, envelope)))
}

/// What several calls used; unknown as soon as one of them is.
pub(crate) fn sum(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    Some(one?.plus(&other?))
}
/// The upstream's usage, where it is sound; the answer's bytes are only counted when they are needed.
fn known_or_estimated(known: Option<Usage>, prompt_bytes: u64, answered: impl FnOnce() -> u64) -> Usage {
    match known {
        Some(usage) if !usage.estimated => usage,
        Some(usage) => usage.or_estimate(prompt_bytes, answered()),
        None => Usage::estimate(prompt_bytes, answered()),
    }
}

fn chat_bytes(choice: &ChatChoice<'_>) -> u64 {
    let texts = [&choice.content, &choice.reasoning, &choice.refusal];
    let texts: usize = texts.iter().filter_map(|text| text.as_deref()).map(str::len).sum();
    let calls: usize = choice.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    (texts + calls) as u64
}

fn settle(
    call: &mut Call,
    candidate: &Candidate,
    started: Instant,
    usage: Usage,
    fingerprint: &str,
    write: impl FnOnce(&Envelope<'_>) -> Vec<u8>,
) -> Vec<u8> {
    let cost = candidate.model.cost(&usage);
    call.record_ok(candidate, started);
    let meta = call.meta(candidate, cost.is_some());
    let body = write(&Envelope {
        id: &call.job.id,
        created: call.job.created,
        model: &candidate.model.upstream_model,
        fingerprint,
        usage,
        cost: cost.unwrap_or(Money::ZERO),
        gateway: &meta,
    });
    call.served(candidate, &usage, cost);
    body
}

/// A stand-in for providers that give no `system_fingerprint`: stable for a provider, model and program version.
pub(crate) fn fingerprint(candidate: &Candidate) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (&*candidate.model.id, &*candidate.model.upstream_model, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    format!("fp_{:010x}", hasher.finish() & 0xff_ffff_ffff)
}
