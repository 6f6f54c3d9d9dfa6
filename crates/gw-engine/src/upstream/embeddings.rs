//! The vectors of an upstream for a request that also uses cached vectors.

use gw_wire::failure::Failure;
use gw_wire::money::Money;
use gw_wire::reply::{EmbeddingsReply, Vector};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::upstream_call::Attempt;
use crate::document_memory::DocumentPermit;
use crate::plan::candidate::Candidate;
use crate::proportional::divide;
use crate::request::operation::embeddings::{merge_vectors, read_vectors, reported_model};
use crate::upstream::one_shot::{Batch, Batches, take_permits};

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
    /// Reads the batches.
    ///
    /// # Errors
    /// A batch cannot be read.
    pub(crate) fn read(
        context: &AttemptContext,
        request: &EmbeddingsRequest,
        (candidate, attempt): (&Candidate, Attempt),
        mut batches: Vec<Batch>,
    ) -> Result<Self, Failure> {
        let calls = &*context.upstream_calls;
        let provider = &*candidate.provider;
        let answers = Batches { id: &context.id, batches: &mut batches, calls, provider, attempt };
        let merged = read_vectors(request, &candidate.provider, &answers)?;
        let dimensions = merged.vectors.first().map_or(0, Vector::dimensions);
        let model = merged.model.as_deref().map(str::to_owned);
        drop(merged);
        let used = batches.iter().map(|batch| calls.usage_of(batch.call)).collect();
        let cost = calls.of(attempt).known_cost();
        Ok(Self { candidate: candidate.clone(), attempt, dimensions, batches, model, used, cost })
    }

    /// The vectors of all batches.
    ///
    /// # Errors
    /// The vectors cannot be read, although they could be before.
    pub(crate) fn reply(&self) -> Result<EmbeddingsReply<'_>, Failure> {
        let answers = self.batches.iter().map(|batch| (&batch.body, batch.parts));
        merge_vectors(&self.candidate.provider, answers, |_, _| {})
    }

    /// Takes what counts the memory of the answer that is made of the vectors.
    pub(crate) fn take_permits(&mut self, call: &Call) -> Vec<DocumentPermit> {
        take_permits(&mut self.batches, &call.context)
    }

    /// The reported model, else the requested one.
    pub(crate) fn model<'a>(&'a self, request: &'a EmbeddingsRequest) -> &'a str {
        reported_model(self.model.as_deref(), request)
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
            let (lengths, others) = rest.split_at_checked(batch.parts).unwrap_or((rest, &[]));
            tokens.extend(part(used.prompt, lengths));
            rest = others;
        }
        (usage, tokens)
    }
}
