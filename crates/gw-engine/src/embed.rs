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

/// Puts the batches together and writes the whole answer.
pub(crate) fn complete(
    call: &mut Call,
    candidate: &Candidate,
    started: Instant,
    batches: &[Batch],
) -> Result<Vec<u8>, Failure> {
    let Ask::Embeddings(request) = &call.job.ask else {
        return Err(Failure::new(FailureKind::BadRequest, "Not an embeddings request."));
    };
    let mut merged = EmbeddingsReply::default();
    let mut usage = Some(Usage::default());
    for (body, expected) in batches {
        let part = candidate.provider.adapter().decode_embeddings(body, *expected)?;
        merged.model = merged.model.or(part.model);
        merged.vectors.extend(part.vectors);
        usage = match (usage, part.usage) {
            (Some(sum), Some(part)) => Some(Usage { prompt: sum.prompt.saturating_add(part.prompt), ..sum }),
            _ => None,
        };
    }
    check_lengths(&merged, request.dimensions)?;
    let usage = usage.unwrap_or_else(|| Usage::estimate(request.prompt_bytes, 0));
    let cost = candidate.model.cost(&usage);
    let model = merged.model.as_deref().filter(|name| !name.is_empty()).unwrap_or(&request.model).to_owned();
    let out = gw_wire::embeddings::write_embeddings(&merged, request.encoding, &model, &usage);
    call.record_ok(candidate, started);
    call.served(candidate, &usage, cost);
    Ok(out)
}

async fn one(
    job: &Job,
    candidate: &Candidate,
    request: &EmbeddingsRequest,
    range: Range<usize>,
) -> Result<Batch, Failure> {
    let clocks = job.clocks(candidate);
    let expected = range.len();
    let http = candidate.provider.adapter().embeddings(request, range, &target(candidate))?;
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
