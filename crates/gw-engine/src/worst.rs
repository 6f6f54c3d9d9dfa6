//! What a request can take at the worst: set aside before its upstream is called.
//!
//! The prompt is estimated, because its tokens are the provider's: a token for every three bytes (English has four to
//! a token, code and most other scripts about three), eight more for the frame of each choice's prompt, and 2,000 where
//! there are images. The answer is taken as long as it may become, once for every choice, and all of it at the dearest
//! candidate that the plan can reach. What an upstream uses beyond it is counted when the request is over.

use gw_wire::money::Money;
use gw_wire::usage::Usage;

use crate::ask::Ask;
use crate::plan::{Candidate, Plan};

const BYTES_PER_TOKEN: u64 = 3;
/// Roles, separators and what a chat template puts around the messages.
const FRAME: u64 = 8;
const IMAGES: u64 = 2_000;
/// Tokens of an answer whose request and model set no bound.
const UNBOUNDED_ANSWER: u64 = 4_096;

/// Tokens and cost.
pub(crate) fn worst_case(ask: &Ask, plan: &Plan) -> (u64, Money) {
    let one = |candidate: &Candidate| at(ask, candidate);
    let most =
        |(tokens, cost): (u64, Money), (more, dearer): (u64, Money)| (tokens.max(more), cost.max(dearer));
    plan.candidates.iter().map(one).fold((0, Money::ZERO), most)
}

fn at(ask: &Ask, candidate: &Candidate) -> (u64, Money) {
    let model = &candidate.model;
    let calls = ask.parts(candidate).len().max(1) as u64;
    let images = if ask.has_images() { IMAGES } else { 0 };
    let prompt = ask.prompt_bytes().div_ceil(BYTES_PER_TOKEN).saturating_add(FRAME + images);
    let prompt = prompt.saturating_mul(calls);
    let bound = || model.max_output_tokens.unwrap_or(UNBOUNDED_ANSWER);
    let longest = ask.max_tokens().unwrap_or_else(bound);
    // No answer is longer than what the model can see.
    let longest = model.context_length.map_or(longest, |most| longest.min(most));
    let usage = Usage { prompt, completion: ask.answers().saturating_mul(longest), ..Usage::default() };
    // A provider may put all of the prompt into its cache, which can cost more than reading it.
    let written = Usage { cache_write: Some(prompt), ..usage };
    let cost = |usage| model.cost(usage).unwrap_or_default();
    (usage.total(), cost(&usage).max(cost(&written)))
}
