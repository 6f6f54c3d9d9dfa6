//! What a request can take at the worst: set aside before its upstream is called.
//!
//! The prompt is measured (`size.rs`). The answer is taken as long as it may become, once for every choice, and all of it at the dearest
//! candidate that the plan can reach. A divided request is the sum of its calls, each in its own price tier. What an upstream uses beyond it
//! is counted when the request is over.
//!
//! For tokens per minute an answer whose length nobody has bounded is taken for 4,096 tokens: a limit of that kind is about
//! the pace, and models that could say 128,000 tokens hardly ever do.

use gw_wire::money::Money;
use gw_wire::usage::Usage;

use crate::plan::call_size::CallSize;
use crate::plan::candidate::{Candidate, Plan};
use crate::request::ValidatedRequest;
use crate::settings::RoutingSettings;

/// Tokens of an answer whose request and model set no bound; and, for the pace, whose request sets none.
const UNBOUNDED_ANSWER: u64 = 4_096;

/// Tokens of an answer that is worth beginning.
const FEW_WORDS: u64 = 64;
/// No answer is longer.
const LONGEST_ANSWER: u64 = 1 << 24;

/// Tokens and cost.
pub(crate) fn worst_case(request: &ValidatedRequest, plan: &Plan, routing: &RoutingSettings) -> (u64, Money) {
    let one = |candidate: &Candidate| at(request, candidate);
    let most =
        |(tokens, cost): (u64, Money), (more, dearer): (u64, Money)| (tokens.max(more), cost.max(dearer));
    let (tokens, cost) = plan.candidates.iter().map(one).fold((0, Money::ZERO), most);
    if plan.candidates.len() == 1 {
        return (tokens, cost);
    }
    if routing.continue_mid_stream && request.wants_stream() {
        // Whoever goes on with an answer reads the prompt again, and what was said.
        let times = plan.candidates.len().min(routing.max_attempts as usize).max(1);
        let all = (0..times).fold(Money::ZERO, |sum, _| sum + cost);
        return (tokens.saturating_mul(times as u64), all);
    }
    // A hedge asks two at the same time, and both providers bill the prompt.
    let beside = plan.candidates.iter().map(|candidate| request.prompt_cost(candidate)).max();
    (tokens, cost + beside.filter(|_| routing.hedge.is_some()).unwrap_or_default())
}

/// What the request will probably cost at a candidate: the estimated prompt, and an answer as long as the client allows or,
/// where it sets no bound, 4,096 tokens at the most. None = no price.
pub(crate) fn likely_cost(request: &ValidatedRequest, candidate: &Candidate) -> Option<Money> {
    let model = &candidate.model;
    let longest = model.max_output_tokens.unwrap_or(UNBOUNDED_ANSWER).min(UNBOUNDED_ANSWER);
    let completion = request.answers().saturating_mul(request.max_tokens().unwrap_or(longest));
    model.cost(&Usage { prompt: request.prompt_tokens(candidate), completion, ..Usage::default() })
}

/// The least that a request needs where a part of the worst case will do: its prompts and a few words of each answer.
pub(crate) fn least_case(request: &ValidatedRequest, plan: &Plan) -> Money {
    let one = |candidate: &Candidate| costs(request, candidate, FEW_WORDS);
    plan.candidates.iter().map(one).max().unwrap_or_default()
}

/// The longest answers of a candidate that so much money can pay, in tokens; None = it has no price.
pub(crate) fn affordable(request: &ValidatedRequest, candidate: &Candidate, money: Money) -> Option<u64> {
    candidate.model.prices.as_ref()?;
    let (mut least, mut most) = (1, LONGEST_ANSWER);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if costs(request, candidate, middle) <= money { least = middle } else { most = middle - 1 }
    }
    // Of a model that charges nothing for answers no bound is needed.
    (least < LONGEST_ANSWER).then_some(least)
}

/// Tokens of the longest answer that is set aside for.
pub(crate) fn longest_answer(request: &ValidatedRequest, candidate: &Candidate) -> u64 {
    let model = &candidate.model;
    let longest = request.max_tokens().or(model.max_output_tokens).unwrap_or(UNBOUNDED_ANSWER);
    // No answer is longer than what the model can see.
    model.context_length.map_or(longest, |most| longest.min(most))
}

fn at(request: &ValidatedRequest, candidate: &Candidate) -> (u64, Money) {
    let bound = longest_answer(request, candidate);
    let likely = if request.max_tokens().is_some() { bound } else { bound.min(UNBOUNDED_ANSWER) };
    let tokens = |size: &CallSize| size.prompt_tokens.saturating_add(size.answers.saturating_mul(likely));
    let tokens = request.sizes(candidate).iter().map(tokens).fold(0, u64::saturating_add);
    (tokens, costs(request, candidate, bound))
}

/// What all calls cost with answers of so many tokens.
pub(crate) fn costs(request: &ValidatedRequest, candidate: &Candidate, answer: u64) -> Money {
    let one = |size: CallSize| {
        let CallSize { prompt_tokens: prompt, answers, .. } = size;
        let usage = Usage { prompt, completion: answers.saturating_mul(answer), ..Usage::default() };
        // A provider may put all of the prompt into its cache, which can cost more than reading it.
        let written = Usage { cache_write: Some(prompt), ..usage };
        let cost = |usage| candidate.model.cost(usage).unwrap_or_default();
        cost(&usage).max(cost(&written))
    };
    request.sizes(candidate).into_iter().map(one).sum()
}
