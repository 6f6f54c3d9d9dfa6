//! Embeddings: one request becomes as many upstream calls as the provider's batch limit requires.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_wire::embeddings::{NumbersInPlace, write_embeddings};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::money::Money;
use gw_wire::reply::{EmbeddingsReply, Vector};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::progress::OK;
use crate::call::upstream_call::{Attempt, AttemptOutcome, UpstreamCallId, UpstreamCalls};
use crate::cpu_pool::offload_if;
use crate::document_memory::DocumentPermit;
use crate::plan::call_size::{batches, inputs_size};
use crate::plan::candidate::Candidate;
use crate::proportional::divide;
use crate::upstream::outcome::Answer;

/// Upstream calls of one request that run at the same time.
const PARALLEL_BATCHES: usize = 4;
/// Answers up to this size are read in less than a millisecond. The numbers of vectors are read much faster than other JSON, so the
/// size alone decides.
const LIGHT_ANSWER_BYTES: usize = 96 << 10;
/// The bytes of a number of a vector in JSON.
const NUMBER_BYTES: usize = 14;
/// The bytes of a vector in JSON if the request names no dimensions.
const USUAL_VECTOR_BYTES: usize = 1536 * NUMBER_BYTES;

/// The answer of one batch.
#[derive(Debug)]
pub(crate) struct Batch {
    body: Bytes,
    /// How many vectors it must have.
    expected: usize,
    call: UpstreamCallId,
    /// Its memory, until another holder takes it.
    permit: Option<DocumentPermit>,
}

/// Takes the permits of the batches, and one for an answer of batches that are each too small to count.
fn take_permits(batches: &mut [Batch], context: &AttemptContext) -> Vec<DocumentPermit> {
    let own = context.snapshot.state.document_memory.empty_permit(context.client.caller.key_id());
    batches.iter_mut().filter_map(|batch| batch.permit.take()).chain(std::iter::once(own)).collect()
}

impl Batch {
    /// Whether reading it takes so long that it runs on the CPU pool.
    pub(crate) fn is_heavy(&self) -> bool {
        self.body.len() > LIGHT_ANSWER_BYTES
    }

    /// Tells the meter the usage of this batch. An answer that cannot be read fails when all batches are read.
    fn meter(&self, context: &AttemptContext, candidate: &Candidate) {
        let reply = candidate.provider.adapter().decode_embeddings(&self.body, self.expected);
        self.note(&context.upstream_calls, &reply);
    }

    /// Notes what its answer tells; gives its usage.
    fn note(&self, calls: &UpstreamCalls, reply: &Result<EmbeddingsReply<'_>, Failure>) -> Option<Usage> {
        match reply {
            Ok(reply) => Some(calls.observe(self.call, reply.usage, 0)),
            Err(failure) => {
                calls.fail(self.call, failure);
                None
            }
        }
    }
}

/// Calls the candidate once for each batch.
pub(crate) async fn fetch(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    request: &EmbeddingsRequest,
) -> Result<Vec<Batch>, Failure> {
    let ranges = batches(request.inputs.len(), candidate);
    if let [only] = ranges.as_slice() {
        return Ok(vec![one(context, candidate, attempt, request, only.clone()).await?]);
    }
    stream::iter(ranges)
        .map(|range| async {
            let batch = one(context, candidate, attempt, request, range).await?;
            // Another batch may fail, and the client may leave: the usage of this one is known now.
            offload_if(batch.is_heavy(), || batch.meter(context, candidate)).await;
            Ok::<_, Failure>(batch)
        })
        .buffered(PARALLEL_BATCHES)
        .try_collect()
        .await
}

/// The vectors of a candidate for a request that also uses cached vectors. They are checked, and neither written nor
/// settled.
#[derive(Debug)]
pub(crate) struct EmbeddingsOutput {
    pub(crate) candidate: Candidate,
    pub(crate) attempt: Attempt,
    /// The length of each vector.
    pub(crate) dimensions: usize,
    batches: Vec<Batch>,
    /// The model that the upstream reported.
    model: Option<String>,
    /// The usage of each batch.
    used: Vec<Usage>,
    cost: Option<Money>,
}

impl EmbeddingsOutput {
    /// The vectors of all batches.
    ///
    /// # Errors
    /// The vectors cannot be read, although they could be before.
    pub(crate) fn reply(&self) -> Result<EmbeddingsReply<'_>, Failure> {
        read(&self.candidate, &self.batches, |_, _| {})
    }

    /// Takes what counts the memory of the answer that is made of the vectors.
    pub(crate) fn take_permits(&mut self, call: &Call) -> Vec<DocumentPermit> {
        take_permits(&mut self.batches, &call.context)
    }

    /// The reported model, else the requested one.
    pub(crate) fn model<'a>(&'a self, request: &'a EmbeddingsRequest) -> &'a str {
        reported(self.model.as_deref(), request)
    }

    /// The cost; None if the model has no price.
    pub(crate) fn cost(&self) -> Option<Money> {
        self.cost
    }

    /// The usage of the request, and the tokens of each input: those of its batch, divided by length.
    pub(crate) fn tokens(&self, request: &EmbeddingsRequest) -> (Usage, Vec<u64>) {
        let usage = self.used.iter().fold(Usage::default(), |sum, used| sum.plus(used));
        let lengths: Vec<u64> = (0..request.inputs.len()).map(|place| request.input_bytes(place)).collect();
        let part = |whole: u64, lengths: &[u64]| -> Vec<u64> {
            divide(whole.into(), lengths)
                .into_iter()
                .map(|part| u64::try_from(part).unwrap_or(u64::MAX))
                .collect()
        };
        let mut rest = lengths.as_slice();
        let mut tokens = Vec::with_capacity(lengths.len());
        for (batch, used) in self.batches.iter().zip(&self.used) {
            let (lengths, others) = rest.split_at_checked(batch.expected).unwrap_or((rest, &[]));
            tokens.extend(part(used.prompt, lengths));
            rest = others;
        }
        (usage, tokens)
    }
}

/// Merges the batches and writes the answer. For a request that uses the cache, it returns the vectors instead.
pub(crate) fn complete(
    call: &mut Call,
    candidate: &Candidate,
    attempt: Attempt,
    mut batches: Vec<Batch>,
) -> Result<Answer, Failure> {
    let Some(request) = call.context.request.embeddings() else {
        return Err(Failure::new(FailureKind::BadRequest, "Not an embeddings request."));
    };
    let mut used = Vec::with_capacity(batches.len());
    let meter = Arc::clone(&call.context.upstream_calls);
    let merged = read(candidate, &batches, |batch, read| used.extend(batch.note(&meter, read)))?;
    check_lengths(&merged, request.dimensions)?;
    let bill = meter.of(attempt);
    let cost = bill.known_cost();
    if call.context.is_shared {
        let dimensions = merged.vectors.first().map_or(0, Vector::dimensions);
        let model = merged.model.as_deref().map(str::to_owned);
        let candidate = candidate.clone();
        let output = EmbeddingsOutput { candidate, attempt, dimensions, batches, model, used, cost };
        return Ok(Answer::Vectors(Box::new(output)));
    }
    let model = reported(merged.model.as_deref(), request).to_owned();
    let place = match batches.as_slice() {
        [only] => NumbersInPlace::of(&only.body, &merged.vectors, request.encoding),
        _ => None,
    };
    let out = match place {
        Some(place) => {
            drop(merged);
            let only = batches.iter_mut().next().map(|batch| std::mem::take(&mut batch.body));
            place.write(only.unwrap_or_default(), &model, &bill.usage)
        }
        None => write_embeddings(&merged, request.encoding, &model, &bill.usage).into(),
    };
    let permits = take_permits(&mut batches, &call.context);
    let out = DocumentPermit::count(permits, out);
    let billed = call.progress.end_attempt(candidate, attempt, AttemptOutcome::Served, OK);
    call.finish_served(candidate, &billed);
    Ok(Answer::Full(out))
}

/// Reads the vectors of all batches, and shows each batch as it is read.
fn read<'a>(
    candidate: &Candidate,
    batches: &'a [Batch],
    mut show: impl FnMut(&Batch, &Result<EmbeddingsReply<'a>, Failure>),
) -> Result<EmbeddingsReply<'a>, Failure> {
    let mut merged = EmbeddingsReply::default();
    for batch in batches {
        let part = candidate.provider.adapter().decode_embeddings(&batch.body, batch.expected);
        show(batch, &part);
        let part = part?;
        merged.model = merged.model.or(part.model);
        merged.vectors.extend(part.vectors);
    }
    Ok(merged)
}

fn reported<'a>(model: Option<&'a str>, request: &'a EmbeddingsRequest) -> &'a str {
    model.filter(|name| !name.is_empty()).unwrap_or(&request.model)
}

async fn one(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    request: &EmbeddingsRequest,
    range: Range<usize>,
) -> Result<Batch, Failure> {
    let clocks = context.clocks(candidate);
    let (expected, size) = (range.len(), inputs_size(request, range.clone()));
    let adapter = candidate.provider.adapter();
    let encode = || adapter.embeddings(request, range, &candidate.target());
    let http = context.step(&clocks, encode).await?;
    let call = context.upstream_calls.begin(attempt, candidate, size);
    let response = context.send(candidate, call, http, &clocks).await?;
    let vector_bytes = request.dimensions.map_or(USUAL_VECTOR_BYTES, |count| NUMBER_BYTES * count as usize);
    // Batches of one request hold their memory until all are there, so they do not wait for each other.
    let is_only = expected == request.inputs.len();
    let expected_bytes = is_only.then(|| expected.saturating_mul(vector_bytes));
    let (body, permit) = context.collect(response.body, &clocks, expected_bytes).await?;
    Ok(Batch { body, expected, call, permit: Some(permit) })
}

/// Checks that all vectors have one length, and the requested one.
fn check_lengths(reply: &EmbeddingsReply<'_>, wanted: Option<u32>) -> Result<(), Failure> {
    let first = reply.vectors.first().map_or(0, Vector::dimensions);
    let expected = wanted.map_or(first, |wanted| wanted as usize);
    if reply.vectors.iter().any(|vector| vector.dimensions() != expected) {
        let message = match wanted {
            Some(wanted) => {
                format!("The upstream returned vectors that do not have the {wanted} dimensions asked for.")
            }
            None => "The upstream returned vectors of different lengths.".to_owned(),
        };
        return Err(Failure::new(FailureKind::InvalidResponse, message));
    }
    Ok(())
}
