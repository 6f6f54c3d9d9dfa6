//! Embeddings: one client request, as many upstream calls as the provider's batch limit asks for.

use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{EmbeddingsReply, Vector};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use crate::ask::{Ask, target};
use crate::attempts::Call;
use crate::cached::divide;
use crate::job::Job;
use crate::plan::Candidate;

/// Upstream calls of one request that run at the same time.
const PARALLEL_BATCHES: usize = 4;

/// The answer of one batch, and how many vectors it must have.
pub(crate) type Batch = (Bytes, usize);

/// Calls the candidate for every batch.
pub(crate) async fn fetch(
    job: &Job,
    candidate: &Candidate,
    request: &EmbeddingsRequest,
) -> Result<Vec<Batch>, Failure> {
    let count = request.inputs.len();
    let batch = candidate.provider.embedding_batch().max(1);
    let ranges: Vec<Range<usize>> =
        (0..count).step_by(batch).map(|from| from..count.min(from + batch)).collect();
    if let [only] = ranges.as_slice() {
        return Ok(vec![one(job, candidate, request, only.clone()).await?]);
    }
    stream::iter(ranges)
        .map(|range| one(job, candidate, request, range))
        .buffered(PARALLEL_BATCHES)
        .try_collect()
        .await
}

/// What a candidate brought for a request that is answered with kept vectors, too: found to be sound, and neither written nor
/// accounted for yet.
#[derive(Debug)]
pub(crate) struct Brought {
    pub(crate) candidate: Candidate,
    pub(crate) started: Instant,
    /// Of each vector.
    pub(crate) dimensions: usize,
    batches: Vec<Batch>,
    /// The model as it was reported.
    model: Option<String>,
    /// Prompt tokens of each batch, as they were reported.
    counted: Vec<Option<u64>>,
}

impl Brought {
    /// The vectors of all batches.
    ///
    /// # Errors
    /// They cannot be read, which they could before.
    pub(crate) fn reply(&self) -> Result<EmbeddingsReply<'_>, Failure> {
        read(&self.candidate, &self.batches).map(|(reply, _)| reply)
    }

    /// The model as it was reported, else as it was asked for.
    pub(crate) fn model<'a>(&'a self, request: &'a EmbeddingsRequest) -> &'a str {
        reported(self.model.as_deref(), request)
    }

    /// What this request has used.
    pub(crate) fn usage(&self, request: &EmbeddingsRequest) -> Usage {
        usage(&self.counted, request)
    }

    /// The same, and the tokens of each input: their batch's, divided by their length.
    pub(crate) fn tokens(&self, request: &EmbeddingsRequest) -> (Usage, Vec<u64>) {
        let usage = self.usage(request);
        let lengths: Vec<u64> = (0..request.inputs.len()).map(|place| request.input_bytes(place)).collect();
        let part = |whole: u64, lengths: &[u64]| -> Vec<u64> {
            divide(whole.into(), lengths)
                .into_iter()
                .map(|part| u64::try_from(part).unwrap_or(u64::MAX))
                .collect()
        };
        if self.counted.iter().any(Option::is_none) {
            return (usage, part(usage.prompt, &lengths));
        }
        let mut rest = lengths.as_slice();
        let mut tokens = Vec::with_capacity(lengths.len());
        for ((_, count), counted) in self.batches.iter().zip(&self.counted) {
            let (lengths, others) = rest.split_at_checked(*count).unwrap_or((rest, &[]));
            tokens.extend(part(counted.unwrap_or_default(), lengths));
            rest = others;
        }
        (usage, tokens)
    }
}

/// Puts the batches together, and writes the whole answer; of a request that is shared, hands it over.
pub(crate) fn complete(
    call: &mut Call,
    candidate: &Candidate,
    started: Instant,
    batches: Vec<Batch>,
) -> Result<Vec<u8>, Failure> {
    let Ask::Embeddings(request) = &call.job.ask else {
        return Err(Failure::new(FailureKind::BadRequest, "Not an embeddings request."));
    };
    let (merged, counted) = read(candidate, &batches)?;
    check_lengths(&merged, request.dimensions)?;
    if call.is_shared {
        let dimensions = merged.vectors.first().map_or(0, Vector::dimensions);
        let model = merged.model.as_deref().map(str::to_owned);
        let candidate = candidate.clone();
        call.record_ok(&candidate, started);
        call.brought = Some(Box::new(Brought { candidate, started, dimensions, batches, model, counted }));
        return Ok(Vec::new());
    }
    let usage = usage(&counted, request);
    let cost = candidate.model.cost(&usage);
    let model = reported(merged.model.as_deref(), request).to_owned();
    let out = gw_wire::embeddings::write_embeddings(&merged, request.encoding, &model, &usage);
    call.record_ok(candidate, started);
    call.served(candidate, &usage, cost);
    Ok(out)
}

/// The vectors of all batches, and what was counted for each.
fn read<'a>(
    candidate: &Candidate,
    batches: &'a [Batch],
) -> Result<(EmbeddingsReply<'a>, Vec<Option<u64>>), Failure> {
    let mut merged = EmbeddingsReply::default();
    let mut counted = Vec::with_capacity(batches.len());
    for (body, expected) in batches {
        let part = candidate.provider.adapter().decode_embeddings(body, *expected)?;
        merged.model = merged.model.or(part.model);
        merged.vectors.extend(part.vectors);
        counted.push(part.usage.map(|usage| usage.prompt));
    }
    Ok((merged, counted))
}

/// What all batches have used: as it was reported, or estimated as soon as one was not.
fn usage(counted: &[Option<u64>], request: &EmbeddingsRequest) -> Usage {
    let add = |sum: Option<u64>, part: &Option<u64>| Some(sum?.saturating_add((*part)?));
    match counted.iter().fold(Some(0), add) {
        Some(prompt) => Usage { prompt, ..Usage::default() },
        None => Usage::estimate(request.prompt_bytes, 0),
    }
}

fn reported<'a>(model: Option<&'a str>, request: &'a EmbeddingsRequest) -> &'a str {
    model.filter(|name| !name.is_empty()).unwrap_or(&request.model)
}

async fn one(
    job: &Job,
    candidate: &Candidate,
    request: &EmbeddingsRequest,
    range: Range<usize>,
) -> Result<Batch, Failure> {
    let clocks = job.clocks(candidate);
    let expected = range.len();
    let adapter = candidate.provider.adapter();
    let encode = || adapter.embeddings(request, range, &target(candidate));
    let http = job.step(&clocks, encode).await?;
    let response = candidate.provider.send(http, &clocks).await?;
    Ok((job.body_of(candidate, response, &clocks).await?, expected))
}

/// Every vector has the asked-for length, and all have one length.
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
