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

use crate::ask::Ask;
use crate::plan::{Candidate, Plan};
use crate::settings::RoutingSettings;
use crate::size::CallSize;

/// Tokens of an answer whose request and model set no bound; and, for the pace, whose request sets none.
const UNBOUNDED_ANSWER: u64 = 4_096;

/// Tokens and cost.
pub(crate) fn worst_case(ask: &Ask, plan: &Plan, routing: &RoutingSettings) -> (u64, Money) {
    let one = |candidate: &Candidate| at(ask, candidate);
    let most =
        |(tokens, cost): (u64, Money), (more, dearer): (u64, Money)| (tokens.max(more), cost.max(dearer));
    let (tokens, cost) = plan.candidates.iter().map(one).fold((0, Money::ZERO), most);
    if plan.candidates.len() == 1 {
        return (tokens, cost);
    }
    if routing.continue_mid_stream && ask.wants_stream() {
        // Whoever goes on with an answer reads the prompt again, and what was said.
        let times = plan.candidates.len().min(routing.max_attempts as usize).max(1);
        let all = (0..times).fold(Money::ZERO, |sum, _| sum + cost);
        return (tokens.saturating_mul(times as u64), all);
    }
    // A hedge asks two at the same time, and both providers bill the prompt.
    let beside = plan.candidates.iter().map(|candidate| ask.prompt_cost(candidate)).max();
    (tokens, cost + beside.filter(|_| routing.hedge.is_some()).unwrap_or_default())
}

/// What the request will probably cost at a candidate: the estimated prompt, and an answer as long as the client allows or,
/// where it sets no bound, 4,096 tokens at the most. None = no price.
pub(crate) fn likely_cost(ask: &Ask, candidate: &Candidate) -> Option<Money> {
    let model = &candidate.model;
    let longest = model.max_output_tokens.unwrap_or(UNBOUNDED_ANSWER).min(UNBOUNDED_ANSWER);
    let completion = ask.answers().saturating_mul(ask.max_tokens().unwrap_or(longest));
    model.cost(&Usage { prompt: ask.prompt_tokens(candidate), completion, ..Usage::default() })
}

fn at(ask: &Ask, candidate: &Candidate) -> (u64, Money) {
    let model = &candidate.model;
    // No answer is longer than what the model can see.
    let seen = |tokens: u64| model.context_length.map_or(tokens, |most| tokens.min(most));
    let longest = model.max_output_tokens.unwrap_or(UNBOUNDED_ANSWER);
    let bound = seen(ask.max_tokens().unwrap_or(longest));
    let likely = seen(ask.max_tokens().unwrap_or_else(|| longest.min(UNBOUNDED_ANSWER)));
    let one = |size: CallSize| {
        let CallSize { prompt_tokens: prompt, answers, .. } = size;
        let usage = Usage { prompt, completion: answers.saturating_mul(bound), ..Usage::default() };
        // A provider may put all of the prompt into its cache, which can cost more than reading it.
        let written = Usage { cache_write: Some(prompt), ..usage };
        let cost = |usage| model.cost(usage).unwrap_or_default();
        (prompt.saturating_add(answers.saturating_mul(likely)), cost(&usage).max(cost(&written)))
    };
    let sum = |(tokens, cost): (u64, Money), size| {
        let (more, dearer) = one(size);
        (tokens.saturating_add(more), cost + dearer)
    };
    ask.sizes(candidate).into_iter().fold((0, Money::ZERO), sum)
}
