//! How large the upstream calls of a request are, in tokens: the base of what is set aside, and of what a call has cost when its
//! upstream does not tell.
//!
//! The prompt is estimated, because its tokens are the provider's: a token for every three bytes of text (English has
//! four to a token, code and most other scripts about three), of files and of a schema, eight more for the frame of each message,
//! prompt or input, and what the provider bills for pictures, pages and sounds (`gw_providers::media_sizes`).

use std::ops::Range;

use gw_wire::money::Money;
use gw_wire::request::{CompletionRequest, EmbeddingsRequest, Prompt};
use gw_wire::usage::{BYTES_PER_TOKEN, Usage, small};

use crate::ask::Ask;
use crate::catalog::Model;
use crate::plan::Candidate;
use crate::share::Part;

/// Roles, separators and what a chat template puts around a message.
const FRAME: u64 = 8;
/// The largest count of a prompt or an answer that is believed of a model whose limits are unknown.
const MOST_BELIEVABLE: u64 = 1 << 24;

/// The size of one upstream call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallSize {
    /// Tokens of its prompts or inputs, estimated.
    pub(crate) prompt_tokens: u64,
    /// How many prompts or inputs it has.
    pub(crate) prompts: u64,
    /// How many answers it asks for, those included that are made only to choose from.
    pub(crate) answers: u64,
}

impl CallSize {
    /// What the call has used: as the upstream has told, with an estimate for what it did not tell and a bound on what cannot be.
    ///
    /// No count is above the model's limits, and none is zero where something was read or written.
    pub(crate) fn sound(&self, told: Option<Usage>, answer_bytes: u64, model: &Model) -> Usage {
        let estimate = Usage::estimate(self.prompt_tokens, answer_bytes);
        let Some(mut usage) = told else { return estimate };
        let longest_prompt = model.context_length.unwrap_or(MOST_BELIEVABLE);
        let longest_answer = model.max_output_tokens.unwrap_or(longest_prompt);
        let most = |of_one: u64, count: u64, seen: u64| of_one.saturating_mul(count.max(1)).max(seen);
        let believed = [
            (&mut usage.prompt, estimate.prompt, most(longest_prompt, self.prompts, estimate.prompt)),
            (
                &mut usage.completion,
                estimate.completion,
                most(longest_answer, self.answers, estimate.completion),
            ),
        ];
        for (count, estimate, most) in believed {
            let sound = if *count == 0 { estimate } else { (*count).min(most) };
            usage.estimated |= sound != *count;
            *count = sound;
        }
        let within = |part: Option<u64>, whole: u64| part.map(|part| part.min(whole));
        usage.cached = within(usage.cached, usage.prompt);
        usage.cache_write = within(usage.cache_write, usage.prompt);
        usage.reasoning = within(usage.reasoning, usage.completion);
        let small_within = |part: Option<u32>, whole: u64| part.map(|part| part.min(small(whole)));
        usage.audio_prompt = small_within(usage.audio_prompt, usage.prompt);
        for part in
            [&mut usage.audio_completion, &mut usage.accepted_prediction, &mut usage.rejected_prediction]
        {
            *part = small_within(*part, usage.completion);
        }
        usage
    }
}

impl Ask {
    /// The sizes of all upstream calls that it becomes at a candidate.
    pub(crate) fn sizes(&self, candidate: &Candidate) -> Vec<CallSize> {
        match self {
            Self::Embeddings(request) => batches(request.inputs.len(), candidate)
                .into_iter()
                .map(|range| inputs_size(request, range))
                .collect(),
            _ => self.parts(candidate).iter().map(|part| self.size_of(candidate, part)).collect(),
        }
    }

    /// The size of the call for a part of a chat or a completion.
    pub(crate) fn size_of(&self, candidate: &Candidate, part: &Part) -> CallSize {
        match self {
            Self::Chat(_) => CallSize {
                prompt_tokens: self.prompt_tokens(candidate),
                prompts: 1,
                answers: u64::from(part.share.n),
            },
            Self::Completion(request) => completion_size(request, part),
            Self::Embeddings(request) => inputs_size(request, 0..request.inputs.len()),
        }
    }

    /// What a candidate charges for reading its prompts once, as far as that can be told.
    pub(crate) fn prompt_cost(&self, candidate: &Candidate) -> Money {
        candidate.model.cost(&Usage::estimate(self.prompt_tokens(candidate), 0)).unwrap_or_default()
    }

    /// The tokens of all its prompts together, read once by a candidate.
    pub(crate) fn prompt_tokens(&self, candidate: &Candidate) -> u64 {
        let beside = self.beside();
        let bytes = self.prompt_bytes().saturating_add(beside.bytes);
        let frames = beside.frames.saturating_mul(FRAME);
        let text = bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(frames);
        if beside.media.is_empty() {
            return text;
        }
        let Candidate { model, provider, .. } = candidate;
        let sizes = provider.media_sizes(&model.upstream_model, &model.id);
        beside.media.iter().map(|medium| sizes.tokens(medium)).fold(text, u64::saturating_add)
    }
}

fn completion_size(request: &CompletionRequest, part: &Part) -> CallSize {
    let share = &part.share;
    let count = share.prompts.len() as u64;
    // What stands beside the prompts goes with each of them.
    let beside = request.extras.bytes / (request.prompts.len() as u64).max(1);
    let tokens_of = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => (text.len() as u64).saturating_add(beside).div_ceil(BYTES_PER_TOKEN),
        Prompt::Tokens(tokens) => (tokens.len() as u64).saturating_add(beside.div_ceil(BYTES_PER_TOKEN)),
    };
    let prompts = request.prompts.get(share.prompts.clone()).unwrap_or_default();
    let text = prompts.iter().map(tokens_of).fold(0, u64::saturating_add);
    // Answers that are made only to choose from are made where all choices are.
    let made = if share.n == request.n { request.n.max(request.best_of) } else { share.n };
    CallSize {
        prompt_tokens: text.saturating_add(count.saturating_mul(FRAME)),
        prompts: count,
        answers: u64::from(made).saturating_mul(count),
    }
}

/// The size of the call for a batch of inputs.
pub(crate) fn inputs_size(request: &EmbeddingsRequest, range: Range<usize>) -> CallSize {
    let count = range.len() as u64;
    let bytes = if range.len() == request.inputs.len() {
        request.prompt_bytes
    } else {
        range.map(|place| request.input_bytes(place)).fold(0, u64::saturating_add)
    };
    let prompt_tokens = bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(count.saturating_mul(FRAME));
    CallSize { prompt_tokens, prompts: count, answers: 0 }
}

/// The inputs of an embeddings request, in batches that the candidate takes.
pub(crate) fn batches(count: usize, candidate: &Candidate) -> Vec<Range<usize>> {
    let batch = candidate.provider.embedding_batch().max(1);
    (0..count).step_by(batch).map(|from| from..count.min(from + batch)).collect()
}
