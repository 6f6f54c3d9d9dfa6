//! A complete answer: makes the upstream calls of an attempt, reads and merges their answers, and writes the client's
//! document.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_providers::adapter::{Encoded, Reading};
use gw_providers::settings::Timeouts;
use gw_wire::event::{Event, thought_bytes};
use gw_wire::failure::Failure;
use gw_wire::json::View;
use gw_wire::kept_answer::KeptChat;
use gw_wire::render::{self, Envelope};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, TextReply};
use gw_wire::usage::{BYTES_PER_TOKEN, text_bytes};
use serde_json::value::RawValue;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::progress::{OK, Warnings};
use crate::call::shared_document::SharedDocument;
use crate::call::upstream_call::{Attempt, AttemptOutcome, UpstreamCallId};
use crate::clock;
use crate::cpu_pool::{is_heavy_answer, offload_if};
use crate::document_memory::DocumentPermit;
use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;
use crate::request::fan_out::SubRequest;
use crate::upstream::choices;
use crate::upstream::equal_content::has_equal_content;
use crate::upstream::part_retries::PartRetries;

/// The size that memory is set aside for when an answer turns out to be a large one.
const USUAL_ANSWER_BYTES: usize = 1 << 20;
/// Upstream calls of one request that run at the same time.
const PARALLEL_CALLS: usize = 8;

/// The answer of one upstream call, and how it is read.
#[derive(Debug)]
pub(crate) struct UnaryResponse {
    body: Bytes,
    reading: Reading,
    part: SubRequest,
    call: UpstreamCallId,
    permit: DocumentPermit,
}

impl UnaryResponse {
    /// Whether reading it takes so long that it runs on the CPU pool. References, which can make a small request heavy, mean
    /// nothing in an answer.
    pub(crate) fn is_heavy(&self) -> bool {
        is_heavy_answer(&self.body)
    }

    /// The memory that counts for it.
    pub(crate) fn into_permit(self) -> DocumentPermit {
        self.permit
    }
}

impl UnaryResponse {
    /// Reads the answer of a chat and records its usage.
    fn chat(&self, context: &AttemptContext, candidate: &Candidate) -> Result<ChatReply<'_>, Failure> {
        let adapter = candidate.provider.adapter();
        let decoded = adapter.decode_chat(&self.body, &self.reading);
        let mut reply = self.checked(context, candidate, decoded)?;
        context.upstream_calls.observe(self.call, reply.usage, reply.choices.iter().map(chat_bytes).sum());
        choices::check_said(reply.is_blank())?;
        choices::check_part(reply.choices.iter().map(|choice| choice.index), &self.part.share)?;
        reply
            .choices
            .iter_mut()
            .for_each(|choice| choice.index = choice.index.saturating_add(self.part.first));
        Ok(reply)
    }

    /// Reads the answer of a completion and records its usage.
    fn text(&self, context: &AttemptContext, candidate: &Candidate) -> Result<TextReply<'_>, Failure> {
        let adapter = candidate.provider.adapter();
        let decoded = adapter.decode_completion(&self.body, &self.reading);
        let mut reply = self.checked(context, candidate, decoded)?;
        context.upstream_calls.observe(
            self.call,
            reply.usage,
            reply.choices.iter().map(|choice| text_bytes(&choice.text)).sum(),
        );
        choices::check_said(reply.is_blank())?;
        choices::check_part(reply.choices.iter().map(|choice| choice.index), &self.part.share)?;
        reply
            .choices
            .iter_mut()
            .for_each(|choice| choice.index = choice.index.saturating_add(self.part.first));
        Ok(reply)
    }

    /// Records its usage only.
    fn meter(&self, context: &AttemptContext, candidate: &Candidate) {
        // The merge reports an unreadable answer, when all answers have arrived.
        match context.request {
            ValidatedRequest::Chat(_) => drop(self.chat(context, candidate)),
            ValidatedRequest::Completion(_) | ValidatedRequest::OneShot(_) => {
                drop(self.text(context, candidate));
            }
        }
    }

    /// Records the failure of an answer that cannot be used, and the usage that it tells all the same.
    fn checked<T>(
        &self,
        context: &AttemptContext,
        candidate: &Candidate,
        reply: Result<T, Failure>,
    ) -> Result<T, Failure> {
        reply.inspect_err(|failure| {
            let told = candidate.provider.adapter().failed_usage(&self.body, &self.reading);
            if let Some(usage) = told {
                context.upstream_calls.observe(self.call, Some(usage), 0);
            }
            context.upstream_calls.fail(self.call, failure);
        })
    }
}

/// Calls the candidate once for each sub-request, and returns the responses and the warnings.
pub(crate) async fn fetch(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
) -> Result<(Vec<UnaryResponse>, Warnings), Failure> {
    let clocks = context.clocks(candidate);
    let mut parts = context.encode(candidate, context.request.parts(candidate), &clocks).await?;
    if let [part] = parts.as_mut_slice() {
        // Writing a heavy request has taken some of the time.
        let clocks = if context.is_heavy { context.clocks(candidate) } else { clocks };
        let (given, warnings) =
            one(context, candidate, attempt, (part, &mut None), (&clocks, Some(USUAL_ANSWER_BYTES))).await?;
        return Ok((vec![given], warnings));
    }
    // Boxed, because few requests have several parts.
    Box::pin(fetch_parts(context, candidate, attempt, parts)).await
}

/// Makes several upstream calls at the same time.
async fn fetch_parts(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    parts: Vec<(SubRequest, Encoded)>,
) -> Result<(Vec<UnaryResponse>, Warnings), Failure> {
    let given: Vec<(UnaryResponse, Warnings)> = stream::iter(parts)
        .map(|part| async {
            let (part, mut retries) = (part, PartRetries::new(context, candidate));
            let (given, warnings) = loop {
                let (mut part, mut sent, began) = (part.clone(), None, clock::now());
                // The answers hold their memory until all are there, so they do not wait for each other.
                let clocks = context.clocks(candidate);
                match one(context, candidate, attempt, (&mut part, &mut sent), (&clocks, None)).await {
                    Ok(answered) => break answered,
                    Err(failure) => retries.wait(context, candidate, attempt, (sent, began), failure).await?,
                }
            };
            // The usage of this call is known from now on, even if another call fails, the client disconnects or the process dies.
            offload_if(given.is_heavy(), || given.meter(context, candidate)).await;
            context.upstream_calls.tell_early();
            Ok::<_, Failure>((given, warnings))
        })
        .buffered(PARALLEL_CALLS)
        .try_collect()
        .await?;
    // All sub-requests are the same request, so the warnings of one are those of all.
    let (given, mut warnings): (Vec<_>, Vec<_>) = given.into_iter().unzip();
    Ok((given, warnings.pop().unwrap_or_default()))
}

async fn one(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    ((part, encoded), sent): (&mut (SubRequest, Encoded), &mut Option<UpstreamCallId>),
    (clocks, expected_bytes): (&Timeouts, Option<usize>),
) -> Result<(UnaryResponse, Warnings), Failure> {
    let size = context.request.size_of_sent(candidate, part, encoded);
    let call = context.upstream_calls.begin(attempt, candidate, size);
    *sent = Some(call);
    let (response, reading, warnings) =
        context.send_encoded(candidate, call, (part, encoded), clocks).await?;
    let (body, permit) = context.collect(response.body, clocks, expected_bytes).await?;
    Ok((UnaryResponse { body, reading, part: part.clone(), call, permit }, warnings))
}

/// Reads the responses, which are in the order of their choices, and writes the client's document.
pub(crate) fn complete(
    call: &mut Call,
    candidate: &Candidate,
    attempt: Attempt,
    given: &[UnaryResponse],
) -> Result<Vec<u8>, Failure> {
    let is_chat = match call.context.request {
        ValidatedRequest::Chat(_) => true,
        ValidatedRequest::Completion(_) | ValidatedRequest::OneShot(_) => false,
    };
    if is_chat {
        let mut replies = given.iter().map(|given| given.chat(&call.context, candidate));
        let mut reply = replies.next().unwrap_or_else(|| Ok(ChatReply::default()))?;
        for more in replies {
            reply.choices.extend(more?.choices);
        }
        note_missing(call, reply.choices.iter().map(|choice| choice.index))?;
        let finishes = reply.choices.iter().map(|choice| choice.finish);
        note_answer(call, attempt, reply.model.as_deref(), finishes);
        let made = if reply.fingerprint.is_none() { fingerprint(candidate) } else { String::new() };
        let Some(form) = call.context.request.client().map(|client| Arc::clone(&client.form)) else {
            let (document, places) =
                settle(call, candidate, attempt, &made, |envelope| render::chat_document(&reply, envelope));
            if let Some(summary) = &call.summary {
                let kept = KeptChat::cut_out(&places, &reply, &document, &summary.usage);
                call.shared_document = kept.map(SharedDocument::Kept);
            }
            return Ok(document);
        };
        let is_shared = call.context.is_shared;
        let (body, is_partial) = settle(call, candidate, attempt, &made, |envelope| {
            let body = form.write(&reply, envelope);
            // Other requests get the answer as the gateway's own format holds it.
            let is_own = is_shared && reply.native.take().is_some();
            let is_partial = is_own && !has_equal_content(&body, &form.write(&reply, envelope));
            (body, is_partial)
        });
        if let Some(summary) = &call.summary {
            let model = &candidate.model.upstream_model;
            call.shared_document = Some(if is_partial {
                SharedDocument::Partial
            } else {
                let entry = render::cacheable_chat(&reply, &call.context.id, model, &made, &summary.usage);
                SharedDocument::Unread(entry.into())
            });
        }
        return Ok(body);
    }
    let mut replies = given.iter().map(|given| given.text(&call.context, candidate));
    let mut reply = replies.next().unwrap_or_else(|| Ok(TextReply::default()))?;
    for more in replies {
        reply.choices.extend(more?.choices);
    }
    note_missing(call, reply.choices.iter().map(|choice| choice.index))?;
    let finishes = reply.choices.iter().map(|choice| choice.finish);
    note_answer(call, attempt, reply.model.as_deref(), finishes);
    Ok(settle(call, candidate, attempt, "", |envelope| render::text(&reply, envelope)))
}

/// Checks the indexes of the whole answer, and notes that choices are missing.
fn note_missing(call: &mut Call, indexes: impl ExactSizeIterator<Item = u32>) -> Result<(), Failure> {
    if let Some(asked) = choices::asked_for(&call.context.request)
        && choices::check_whole(indexes, &asked)?
    {
        call.note_missing_choices();
    }
    Ok(())
}

fn note_answer(
    call: &mut Call,
    attempt: Attempt,
    model: Option<&str>,
    finishes: impl Iterator<Item = Option<Finish>> + Clone,
) {
    call.is_end_unknown = finishes.clone().any(|finish| finish.is_none());
    let Call { context, progress, .. } = call;
    progress.settlement.note_answer(attempt, &context.id, model, finishes);
}

fn chat_bytes(choice: &ChatChoice<'_>) -> u64 {
    let texts = [&choice.content, &choice.reasoning, &choice.refusal];
    let texts: u64 = texts.iter().filter_map(|text| text.as_deref()).map(text_bytes).sum();
    let written = |name: &str, arguments: &str| text_bytes(name) + text_bytes(arguments);
    let calls: u64 = choice.tool_calls.iter().map(|call| written(&call.name, &call.arguments)).sum();
    let legacy = choice.function_call.as_ref().map_or(0, |(name, arguments)| written(name, arguments));
    let extras = |(name, value): &(Cow<'_, str>, Cow<'_, RawValue>)| {
        let is_only = choice.reasoning.is_none() && name == "reasoning_details";
        let thoughts = if is_only { thought_bytes(View::new(value.get())) } else { 0 };
        thoughts + Event::Extra { choice: choice.index, name, value }.answer_bytes()
    };
    let images = choice.images.iter().map(|image| image.tokens.saturating_mul(BYTES_PER_TOKEN)).sum::<u64>();
    texts + calls + legacy + images + choice.extras.iter().map(extras).sum::<u64>()
}

fn settle<T>(
    call: &mut Call,
    candidate: &Candidate,
    attempt: Attempt,
    fingerprint: &str,
    write: impl FnOnce(&Envelope<'_>) -> T,
) -> T {
    let billed = call.progress.end_attempt(candidate, attempt, AttemptOutcome::Served, OK);
    let meta = call.meta(candidate, billed.known_cost().is_some());
    let body = write(&Envelope {
        id: &call.context.id,
        created: call.context.created,
        model: &candidate.model.upstream_model,
        fingerprint,
        usage: billed.usage,
        cost: billed.known_cost(),
        gateway: &meta,
    });
    call.finish_served(candidate, &billed);
    body
}

/// Replaces a missing `system_fingerprint`. It changes with the model's entry in the configuration and the catalogue, and with the
/// program's version.
pub(crate) fn fingerprint(candidate: &Candidate) -> String {
    format!("fp_{:010x}", candidate.model.revision & 0xff_ffff_ffff)
}
