//! The most that a request can use and cost. It is reserved before an upstream is called.
//!
//! The prompt is measured (`call_size.rs`), with the results of the tools that the provider may run. The answer is taken at its longest, once for each choice, at the most
//! expensive candidate of the plan. A divided request is the sum of its calls, each in its own price tier. Usage beyond
//! the reservation is counted when the request ends.
//!
//! Tokens per minute count an answer without a bound as 4,096 tokens, and one reading of the prompt by each upstream: such
//! a limit is about the pace, and models that could write 128,000 tokens rarely do. The further readings of an upstream that
//! runs tools count when the request ends.

use gw_wire::dialects::ClientDialect;
use gw_wire::hosted_tools::HostedCalls;
use gw_wire::money::Money;
use gw_wire::request::CONTINUE_PROMPT;
use gw_wire::usage::{BYTES_PER_TOKEN, Units, Usage, small};

use crate::catalog::prices::Prices;
use crate::error::{Error, Kind, Result};
use crate::plan::call_size::CallSize;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::hedge_pair::may_hedge;
use crate::request::ValidatedRequest;
use crate::request::one_shot::FRAME_TOKENS;
use crate::settings::RoutingSettings;

/// Tokens of an answer that neither the request nor the model bounds.
const UNBOUNDED_ANSWER_TOKENS: u64 = 4_096;

/// Tokens of the shortest answer that is worth beginning.
const SHORT_ANSWER_TOKENS: u64 = 64;
/// Tokens of the instruction to continue an answer, with the frames of its message and of that of the answer so far.
const CONTINUATION_TOKENS: u64 = (CONTINUE_PROMPT.len() as u64).div_ceil(BYTES_PER_TOKEN) + 2 * FRAME_TOKENS;
/// Tokens that no answer exceeds.
const MAX_ANSWER_TOKENS: u64 = 1 << 24;

/// The tokens and the cost that are reserved for the worst case.
pub(crate) fn worst_case(request: &ValidatedRequest, plan: &Plan, routing: &RoutingSettings) -> (u64, Money) {
    let bound = |longest: u64| match request.max_tokens() {
        Some(_) => longest,
        None => longest.min(UNBOUNDED_ANSWER_TOKENS),
    };
    sum_of_calls(request, plan, routing, |candidate| at(request, candidate, bound))
}

/// As [`worst_case`], if this candidate serves the request.
pub(crate) fn worst_case_at(
    request: &ValidatedRequest,
    plan: &Plan,
    candidate: &Candidate,
    routing: &RoutingSettings,
) -> (u64, Money) {
    let bound = |longest: u64| match request.max_tokens() {
        Some(_) => longest,
        None => longest.min(UNBOUNDED_ANSWER_TOKENS),
    };
    let (tokens, cost) = at(request, candidate, bound);
    // The slower one of a pair is paid, too.
    let pairs = plan.candidates.iter().zip(plan.candidates.iter().skip(1));
    let beside = pairs.filter(|(first, _)| first.model.id == candidate.model.id);
    let beside = beside.filter(|(first, second)| may_hedge(request, routing, first, second));
    let (more, dearer) = beside
        .map(|(_, second)| (request.prompt_tokens(second), request.prompt_cost(second)))
        .fold((0, Money::ZERO), |(tokens, cost), (more, dearer)| (tokens.max(more), cost.max(dearer)));
    (tokens.saturating_add(more), cost + dearer)
}

/// The worst case in which tokens and cost both assume the longest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// Tokens of each answer, at the candidate that writes most.
    pub answer_tokens: u64,
    /// Tokens of all prompts and answers.
    pub tokens: u64,
    /// The cost, which is the amount that budgets reserve; None = a candidate needs a price that is unknown.
    pub cost: Option<Money>,
}

/// The worst case for an explanation.
pub(crate) fn explained_worst_case(
    request: &ValidatedRequest,
    plan: &Plan,
    routing: &RoutingSettings,
) -> WorstCase {
    let longest = plan.candidates.iter().map(|candidate| longest_answer(request, candidate)).max();
    let (tokens, cost) =
        sum_of_calls(request, plan, routing, |candidate| at(request, candidate, |longest| longest));
    let is_known = plan.candidates.iter().all(|candidate| is_priced(request, candidate));
    WorstCase { answer_tokens: longest.unwrap_or_default(), tokens, cost: is_known.then_some(cost) }
}

/// The tokens and the cost of all calls that the request makes at most, where `one` gives those of one call.
fn sum_of_calls(
    request: &ValidatedRequest,
    plan: &Plan,
    routing: &RoutingSettings,
    one: impl Fn(&Candidate) -> (u64, Money),
) -> (u64, Money) {
    let most =
        |(tokens, cost): (u64, Money), (more, dearer): (u64, Money)| (tokens.max(more), cost.max(dearer));
    let (tokens, cost) = plan.candidates.iter().map(one).fold((0, Money::ZERO), most);
    if plan.candidates.len() == 1 {
        return (tokens, cost);
    }
    if pays_for_all_attempts(request, plan, routing) {
        let further = plan.candidates.len().min(routing.max_attempts as usize).saturating_sub(1);
        let (more, dearer) = continued(request, plan, (tokens, cost));
        let all = (0..further).fold(cost, |sum, _| sum + dearer);
        return (tokens.saturating_add(more.saturating_mul(further as u64)), all);
    }
    // A hedge calls two upstreams, and both read the prompt and run tools.
    let pairs = plan.candidates.iter().zip(plan.candidates.iter().skip(1));
    let pairs = pairs.filter(|(first, second)| may_hedge(request, routing, first, second));
    let read = |candidate: &Candidate| (request.prompt_tokens(candidate), request.prompt_cost(candidate));
    let read = pairs.flat_map(|(first, second)| [read(first), read(second)]);
    let (beside, dearer) = read.fold((0, Money::ZERO), most);
    (tokens.saturating_add(beside), cost + dearer)
}

/// The tokens and the cost of a call that continues an answer, where `first` are those of the call that begins it. An upstream that
/// continues an answer reads the prompt again, the answer so far, and the instruction to continue it. All calls together write one
/// answer, so that a limit of tokens counts the answer so far as that of the call before.
fn continued(request: &ValidatedRequest, plan: &Plan, first: (u64, Money)) -> (u64, Money) {
    let ValidatedRequest::Chat(chat) = request else { return first };
    if !chat.wants_plain_text() {
        return first;
    }
    let longest = plan.candidates.iter().map(|candidate| longest_answer(request, candidate)).max();
    let more = longest.unwrap_or_default().saturating_add(CONTINUATION_TOKENS);
    let cost_at = |candidate: &Candidate| {
        let (kinds, answer) = (CostlyTokens::of(request, candidate), longest_answer(request, candidate));
        let mut sum = Money::ZERO;
        request.each_size(candidate, |size| {
            let prompt_tokens = size.prompt_tokens.saturating_add(more);
            sum += kinds.cost_of(request, candidate, &CallSize { prompt_tokens, ..size }, answer);
        });
        sum
    };
    let (tokens, cost) = first;
    let dearest = plan.candidates.iter().map(cost_at).fold(cost, Ord::max);
    (tokens.saturating_add(CONTINUATION_TOKENS), dearest)
}

/// Whether the worst case is that of all attempts together: one after the other they may write a part of the answer.
pub(crate) fn pays_for_all_attempts(
    request: &ValidatedRequest,
    plan: &Plan,
    routing: &RoutingSettings,
) -> bool {
    routing.continue_mid_stream && request.wants_stream() && plan.candidates.len() > 1
}

/// The expected cost at a candidate: the estimated prompt, and an answer of the client's bound or of 4,096 tokens. None
/// if the model has no price.
pub(crate) fn likely_cost(request: &ValidatedRequest, candidate: &Candidate) -> Option<Money> {
    let model = &candidate.model;
    let longest = model.max_output_tokens.unwrap_or(UNBOUNDED_ANSWER_TOKENS).min(UNBOUNDED_ANSWER_TOKENS);
    let completion = request.answers().saturating_mul(request.max_tokens().unwrap_or(longest));
    let prompt = request.prompt_tokens(candidate);
    let is_drawn = !request.writes_text() && request.wants_images();
    let image_completion = is_drawn.then(|| small(completion));
    let audio_completion = (!request.writes_text() && request.wants_audio()).then(|| small(completion));
    let units = units(request, candidate);
    model.cost(&Usage { prompt, completion, image_completion, audio_completion, units, ..Usage::default() })
}

/// The units other than tokens of all calls to a candidate.
fn units(request: &ValidatedRequest, candidate: &Candidate) -> Units {
    let mut units = Units::default();
    if !request.writes_text() {
        request.each_size(candidate, |size| units = units.plus(size.likely_units()));
    }
    units
}

/// Whether every price that the request surely needs at a candidate is known.
pub(crate) fn is_priced(request: &ValidatedRequest, candidate: &Candidate) -> bool {
    let has_answer = request.wants_images() || request.wants_audio();
    let completion = if request.writes_text() { 2 } else { u64::from(has_answer) };
    let usage = Usage {
        prompt: 2,
        completion,
        audio_prompt: request.has_audio().then_some(1),
        audio_completion: request.wants_audio().then_some(1),
        image_completion: request.wants_images().then_some(1),
        ..Usage::default()
    };
    let (mut hosted, mut has_unpriced, mut units) = (HostedCalls::default(), false, Units::default());
    request.each_size(candidate, |size| {
        hosted = hosted.plus(&request.most_hosted(candidate, &size));
        has_unpriced |= size.is_unpriced;
        units = units.plus(size.likely_units());
    });
    candidate.model.charge(&Usage { hosted, has_unpriced, units, ..usage }).is_complete
}

/// Leaves out the candidates that may cost more than `most` or have no price.
///
/// # Errors
/// `max_cost_exceeded`: no candidate is left.
pub(crate) fn keep_within(request: &ValidatedRequest, plan: &mut Plan, most: Money) -> Result<()> {
    let cost = |candidate: &Candidate| costs(request, candidate, longest_answer(request, candidate));
    let cheapest = plan.candidates.iter().filter(|candidate| is_priced(request, candidate)).map(cost).min();
    plan.candidates.retain(|candidate| is_priced(request, candidate) && cost(candidate) <= most);
    if !plan.candidates.is_empty() {
        return Ok(());
    }
    let reason = match cheapest {
        Some(cheapest) => {
            format!("the request may cost {cheapest} USD at the cheapest model that could serve it")
        }
        None => "no model that could serve the request has a price".to_owned(),
    };
    let message = format!("'x-gateway-max-cost-usd' allows {most} USD, and {reason}.");
    Err(Error::new(Kind::MaxCostExceeded, message))
}

/// The least that a request needs if a part of the worst case is enough: its prompts and a few words of each answer.
pub(crate) fn least_case(request: &ValidatedRequest, plan: &Plan) -> Money {
    let one = |candidate: &Candidate| costs(request, candidate, SHORT_ANSWER_TOKENS);
    plan.candidates.iter().map(one).max().unwrap_or_default()
}

/// The least that one candidate needs: its prompts, and a few words of each answer or the whole of a shorter one.
pub(crate) fn least_case_at(request: &ValidatedRequest, candidate: &Candidate) -> Money {
    costs(request, candidate, longest_answer(request, candidate).min(SHORT_ANSWER_TOKENS))
}

/// The longest answer in tokens that an amount of money can pay at a candidate; None if the model has no price.
pub(crate) fn affordable(request: &ValidatedRequest, candidate: &Candidate, money: Money) -> Option<u64> {
    candidate.model.prices.as_ref()?;
    let kinds = CostlyTokens::of(request, candidate);
    let (mut least, mut most) = (1, MAX_ANSWER_TOKENS);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if kinds.costs(request, candidate, middle) <= money { least = middle } else { most = middle - 1 }
    }
    // A model with free answers needs no bound.
    (least < MAX_ANSWER_TOKENS).then_some(least)
}

/// The longest answer of a candidate, in tokens.
pub(crate) fn longest_answer(request: &ValidatedRequest, candidate: &Candidate) -> u64 {
    let model = &candidate.model;
    let longest = request.max_tokens().or(model.max_output_tokens).unwrap_or(UNBOUNDED_ANSWER_TOKENS);
    // No answer exceeds the model's context.
    model.context_length.map_or(longest, |most| longest.min(most))
}

/// The tokens and the cost at a candidate. The cost is that of the longest answer, and `counted` gives the tokens that
/// count for an answer of this length.
fn at(request: &ValidatedRequest, candidate: &Candidate, counted: impl Fn(u64) -> u64) -> (u64, Money) {
    let longest = longest_answer(request, candidate);
    let answer = counted(longest);
    let kinds = CostlyTokens::of(request, candidate);
    let (mut tokens, mut cost) = (0_u64, Money::ZERO);
    request.each_size(candidate, |size| {
        let of_call = size.prompt_tokens.saturating_add(size.answers.saturating_mul(answer));
        tokens = tokens.saturating_add(of_call);
        cost += kinds.cost_of(request, candidate, &size, longest);
    });
    (tokens, cost)
}

/// The cost of all upstream calls if each answer has this many tokens.
pub(crate) fn costs(request: &ValidatedRequest, candidate: &Candidate, answer: u64) -> Money {
    CostlyTokens::of(request, candidate).costs(request, candidate, answer)
}

/// Whether the model may be a Claude, the only one whose provider keeps cache writes for an hour.
fn may_be_claude(request: &ValidatedRequest, candidate: &Candidate) -> bool {
    candidate.model.upstream_model.contains("claude")
        || request.client().is_some_and(|client| client.native.dialect == ClientDialect::Messages)
        || !candidate.provider.adapter().capabilities().openai_fields
}

/// The kinds of tokens that a request may use besides text, at a model that has prices for them.
struct CostlyTokens {
    /// The prompt may be written into the provider's cache for an hour.
    hour_writes: bool,
    /// The prompt has audio.
    audio_input: bool,
    /// The answer has audio.
    audio_output: bool,
}

impl CostlyTokens {
    fn of(request: &ValidatedRequest, candidate: &Candidate) -> Self {
        let rates = candidate.model.prices.as_ref().map(|prices| prices.gateway).unwrap_or_default();
        let has_write_price = rates.cache_write.is_some() || rates.cache_write_1h.is_some();
        // A price that is not stated follows from the input's.
        let has_price = has_write_price || rates.input.is_some() && may_be_claude(request, candidate);
        Self {
            hour_writes: has_price && (candidate.may_ask_for_an_hour() || request.may_name_an_hour()),
            audio_input: rates.audio_input.is_some() && request.has_audio(),
            audio_output: rates.audio_output.is_some() && request.wants_audio(),
        }
    }

    /// The cost of all upstream calls if each answer has this many tokens.
    fn costs(&self, request: &ValidatedRequest, candidate: &Candidate, answer: u64) -> Money {
        let mut sum = Money::ZERO;
        if candidate.model.prices.is_some() {
            request.each_size(candidate, |size| sum += self.cost_of(request, candidate, &size, answer));
        }
        sum
    }

    /// As [`CostlyTokens::costs`], for one call of this size.
    fn cost_of(
        &self,
        request: &ValidatedRequest,
        candidate: &Candidate,
        size: &CallSize,
        answer: u64,
    ) -> Money {
        let Some(prices) = &candidate.model.prices else { return Money::ZERO };
        let (prompt, answers) = request.reserved(candidate, size);
        let completion = answers.saturating_mul(answer);
        let hosted = request.most_hosted(candidate, size);
        let usage = Usage { prompt, completion, hosted, units: size.reserved_units(), ..Usage::default() };
        self.dearest_use(prices, &usage)
    }

    /// The cost of the dearest use of this many tokens. A use without a price of its own costs as much as text, so it is not
    /// computed.
    fn dearest_use(&self, prices: &Prices, text: &Usage) -> Money {
        let (rates, answer) = (prices.rates(text.prompt), Some(small(text.completion)));
        let cost = |usage: &Usage| {
            let mut most = prices.charge(usage).known;
            for form in prices.possible_forms(text.units.form()) {
                let units = text.units.with_form(form);
                most = most.max(prices.charge(&Usage { units, ..*usage }).known);
            }
            if rates.image_output.is_some() {
                // A model that makes images may make nothing else.
                let drawn = Usage { image_completion: answer, ..*usage };
                most = most.max(prices.cost(&drawn).unwrap_or_default());
            }
            if self.audio_output {
                most = most.max(prices.charge(&Usage { audio_completion: answer, ..*usage }).known);
            }
            most
        };
        let mut most = cost(text);
        if rates.cache_write.is_some() || self.hour_writes {
            // A provider may write the whole prompt into its cache, which can cost more than reading it.
            let cache_write_1h = self.hour_writes.then(|| small(text.prompt));
            most = most.max(cost(&Usage { cache_write: Some(text.prompt), cache_write_1h, ..*text }));
        }
        if self.audio_input {
            most = most.max(cost(&Usage { audio_prompt: Some(small(text.prompt)), ..*text }));
        }
        most
    }
}
