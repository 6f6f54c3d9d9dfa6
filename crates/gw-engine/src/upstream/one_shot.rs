//! One-shot requests: one request becomes as many upstream calls as the provider's batch limit requires.

use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_providers::adapter::Reading;
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, CallForms};
use gw_providers::usage_scan::counts_in_headers;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::progress::OK;
use crate::call::upstream_call::{Attempt, AttemptOutcome, UpstreamCallId, UpstreamCalls};
use crate::clock;
use crate::cpu_pool::offload_if;
use crate::document_memory::DocumentPermit;
use crate::plan::call_size::{batch_size, batches};
use crate::plan::candidate::Candidate;
use crate::request::one_shot::{OneShot, OneShotAnswers};
use crate::upstream::embeddings::EmbeddingsOutput;
use crate::upstream::outcome::Answer;
use crate::upstream::part_retries::PartRetries;

/// The most forms in which one call is sent.
const MAX_FORMS: u8 = 4;
/// Upstream calls of one request that run at the same time.
const PARALLEL_BATCHES: usize = 4;
/// Answers up to this size are read in less than a millisecond. The numbers of vectors are read much faster than other JSON, so the
/// size alone decides.
const LIGHT_ANSWER_BYTES: usize = 96 << 10;

/// The answer of one batch.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) body: Bytes,
    /// The number of parts that it is for.
    pub(crate) parts: usize,
    pub(crate) call: UpstreamCallId,
    /// The usage in the headers, which counts if the body has none.
    in_headers: Option<Usage>,
    /// The form in which the provider answered, if that is another than the first.
    new_form: Option<CallForm>,
    /// Its memory, until another holder takes it.
    permit: Option<DocumentPermit>,
}

/// Takes the permits of the batches, and one for an answer of batches that are each too small to count.
pub(crate) fn take_permits(batches: &mut [Batch], context: &AttemptContext) -> Vec<DocumentPermit> {
    let own = context.snapshot.state.document_memory.empty_permit(context.client.caller.key_id());
    batches.iter_mut().filter_map(|batch| batch.permit.take()).chain(std::iter::once(own)).collect()
}

impl Batch {
    /// Whether reading it takes so long that it runs on the CPU pool.
    pub(crate) fn is_heavy(&self) -> bool {
        self.body.len() > LIGHT_ANSWER_BYTES
    }

    /// Tells the meter the usage of this batch. An answer that cannot be read fails when all batches are read.
    fn meter(&self, request: &dyn OneShot, provider: &Provider, calls: &UpstreamCalls) {
        let reported = request.meter(provider, &self.body, self.parts);
        self.note(calls, provider, reported.as_ref().map(|usage| *usage));
    }

    /// Notes what its answer reports. An answer that cannot be used may tell its usage all the same.
    fn note(&self, calls: &UpstreamCalls, provider: &Provider, reported: Result<Option<Usage>, &Failure>) {
        match reported {
            Ok(usage) => calls.observe(self.call, usage.or(self.in_headers), 0),
            Err(failure) => {
                let told = provider.adapter().failed_usage(&self.body, &Reading::default());
                if told.is_some() {
                    calls.observe(self.call, told, 0);
                }
                calls.fail(self.call, failure);
            }
        }
    }
}

/// The answers of all batches of an attempt.
pub(crate) struct Batches<'a> {
    pub(crate) id: &'a str,
    pub(crate) batches: &'a mut [Batch],
    pub(crate) calls: &'a UpstreamCalls,
    pub(crate) provider: &'a Provider,
    pub(crate) attempt: Attempt,
}

impl OneShotAnswers for Batches<'_> {
    fn id(&self) -> &str {
        self.id
    }

    fn len(&self) -> usize {
        self.batches.len()
    }

    fn get(&self, place: usize) -> Option<(&Bytes, usize)> {
        self.batches.get(place).map(|batch| (&batch.body, batch.parts))
    }

    fn take(&mut self, place: usize) -> Bytes {
        self.batches.get_mut(place).map(|batch| std::mem::take(&mut batch.body)).unwrap_or_default()
    }

    fn note(&self, place: usize, reported: Result<Option<Usage>, &Failure>) {
        if let Some(batch) = self.batches.get(place) {
            batch.note(self.calls, self.provider, reported);
        }
    }

    fn usage(&self) -> Usage {
        self.calls.of(self.attempt).usage
    }

    fn cost(&self) -> Option<Money> {
        self.calls.of(self.attempt).known_cost()
    }
}

/// Calls the candidate once for each batch.
pub(crate) async fn fetch(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    request: &dyn OneShot,
) -> Result<Vec<Batch>, Failure> {
    let ranges = batches(request, &candidate.provider);
    if let [only] = ranges.as_slice() {
        let only = (only.clone(), &mut None);
        return Ok(vec![one(context, candidate, attempt, request, only).await?]);
    }
    stream::iter(ranges)
        .map(|range| async {
            let (range, mut retries) = (range, PartRetries::new(context, candidate));
            let batch = loop {
                let (mut sent, began) = (None, clock::now());
                match one(context, candidate, attempt, request, (range.clone(), &mut sent)).await {
                    Ok(batch) => break batch,
                    Err(failure) => retries.wait(context, candidate, attempt, (sent, began), failure).await?,
                }
            };
            // Another batch may fail, the client may leave and the process may die: the usage of this one is known now.
            let meter = || batch.meter(request, &candidate.provider, &context.upstream_calls);
            offload_if(batch.is_heavy(), meter).await;
            context.upstream_calls.tell_early();
            Ok::<_, Failure>(batch)
        })
        .buffered(PARALLEL_BATCHES)
        .try_collect()
        .await
}

/// Reads the batches and writes the answer. For embeddings that use the cache, it returns the vectors instead.
pub(crate) fn complete(
    call: &mut Call,
    candidate: &Candidate,
    attempt: Attempt,
    mut batches: Vec<Batch>,
) -> Result<Answer, Failure> {
    let Some(request) = call.context.request.one_shot() else {
        return Err(Failure::new(FailureKind::BadRequest, "Not a one-shot request."));
    };
    if let Some(request) = request.embeddings().filter(|_| call.context.is_shared) {
        let output = EmbeddingsOutput::read(&call.context, request, (candidate, attempt), batches)?;
        return Ok(Answer::Vectors(Box::new(output)));
    }
    let calls = &*call.context.upstream_calls;
    let provider = &*candidate.provider;
    let mut answers = Batches { id: &call.context.id, batches: &mut batches, calls, provider, attempt };
    let out = request.write(&candidate.provider, &mut answers)?;
    // Another URL may answer anything, so its form is learned when the answer has been read.
    let new_form = batches.iter().find_map(|batch| batch.new_form);
    if let Some((forms, form)) = request.forms(&candidate.provider).zip(new_form) {
        forms.learn_form(form);
    }
    let permits = take_permits(&mut batches, &call.context);
    let out = DocumentPermit::count(permits, out);
    let billed = call.progress.end_attempt(candidate, attempt, AttemptOutcome::Served, OK);
    call.finish_served(candidate, &billed);
    Ok(Answer::Full(out))
}

async fn one(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    request: &dyn OneShot,
    (range, sent): (Range<usize>, &mut Option<UpstreamCallId>),
) -> Result<Batch, Failure> {
    let clocks = context.clocks(candidate);
    let (parts, size) = (range.len(), batch_size(request, range.clone()));
    let (provider, target) = (&*candidate.provider, candidate.target());
    let forms = request.forms(provider);
    let first = forms.map_or_else(CallForm::default, CallForms::form);
    let mut form = first;
    let mut forms_left = MAX_FORMS;
    let (call, response) = loop {
        let encode = || request.encode(provider, range.clone(), form, &target);
        let http = context.step(&clocks, encode).await?;
        let call = context.upstream_calls.begin(attempt, candidate, size);
        *sent = Some(call);
        match context.send(candidate, call, http, &clocks).await {
            Ok(response) => break (call, response),
            Err(failure) => {
                forms_left -= 1;
                let next = forms.filter(|_| forms_left > 0);
                let next = next.and_then(|forms| forms.next_form((first, form), &failure, &target));
                form = next.ok_or(failure)?;
            }
        }
    };
    // Batches of one request hold their memory until all are there, so they do not wait for each other.
    let is_only = parts == request.parts();
    let expected_bytes = is_only.then(|| request.answer_bytes(parts));
    let in_headers = request.embeddings().and_then(|_| counts_in_headers(&response.headers));
    let (body, permit) = context.collect(response.body, &clocks, expected_bytes).await?;
    let new_form = (form != first).then_some(form);
    Ok(Batch { body, parts, call, in_headers, new_form, permit: Some(permit) })
}
