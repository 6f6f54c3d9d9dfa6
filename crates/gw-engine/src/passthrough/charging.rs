//! The price of a request that passes through: by the tokens that its answer reports, by the route's cost of a request, or
//! unknown.

use std::sync::Arc;

use gw_providers::usage_scan::UsageShape;
use gw_wire::money::Money;
use gw_wire::usage::{BYTES_PER_TOKEN, LEAST_BYTES_PER_SECOND, Unit, Units, Usage};

use super::request_facts::RequestFacts;
use crate::call::upstream_call::{BilledUsage, UpstreamCallId, UpstreamCalls};
use crate::catalog::Model;
use crate::passthrough_routes::PassthroughRoute;
use crate::plan::call_size::CallSize;
use crate::upstream::dispatch::PROGRESS_NOTES;

/// Tokens of an answer that neither the request nor the model bounds.
const UNBOUNDED_ANSWER_TOKENS: u64 = 4_096;

/// The most pages of a document (docs.mistral.ai, "OCR processor": 1,000 pages, November 2026).
const MOST_PAGES: u64 = 1_000;

/// How the call of a request is charged.
#[derive(Debug)]
pub(super) struct Charging {
    /// The model in the records.
    model: Arc<Model>,
    /// Has the prices of the tokens; None: no tokens are read, or their prices are unknown.
    by_tokens: Option<Arc<Model>>,
    /// The request names a model that has prices of texts alone, so the texts of its answer tell the cost.
    is_of_texts: bool,
    /// Has the cost of the request as its fee.
    flat: Option<Arc<Model>>,
    /// The request in tokens, if they matter.
    size: CallSize,
    /// The most tokens of the body, which may be sent before it is complete.
    most_prompt: u64,
    /// The most seconds of a recording in the body.
    most_seconds: u64,
    /// The longest answers together, in tokens.
    most_answer: u64,
    /// The same where the client sets no bound: such a limit is about the pace.
    usual_answer: u64,
}

/// The facts about an answer when it is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerFacts {
    /// The usage that the upstream reported.
    pub(super) reported: Option<Usage>,
    /// The bytes of its texts.
    pub(super) text_bytes: u64,
    /// Usage may have been reported later, or was left out of a stream.
    pub(super) may_lack_usage: bool,
    /// The answer to a `POST` that has texts, or is a stream.
    pub(super) may_be_generated: bool,
}

impl Charging {
    /// `recognised` says whether the request names the model. `body_bytes` are those of a body that was read, and `most_bytes` the most
    /// that any body can have.
    pub(super) fn of(
        route: &PassthroughRoute,
        (model, is_recognised): (&Arc<Model>, bool),
        facts: &RequestFacts,
        (body_bytes, most_bytes): (u64, u64),
    ) -> Self {
        let by_tokens = || {
            let own = Some(model).filter(|model| is_recognised && model.prices.is_some());
            route.priced.as_ref().or(own).cloned()
        };
        let reads = route.reads_usage();
        let (context, answers) = (model.context_length.unwrap_or(u64::MAX), facts.answers.max(1));
        let longest = facts.max_tokens.or(model.max_output_tokens).unwrap_or(UNBOUNDED_ANSWER_TOKENS);
        let longest = if reads { longest.min(context) } else { 0 };
        let usual = if facts.max_tokens.is_some() { longest } else { longest.min(UNBOUNDED_ANSWER_TOKENS) };
        let prompt_tokens = if reads { body_bytes.div_ceil(BYTES_PER_TOKEN) } else { 0 };
        // A file is read whole at most once into the model's context.
        let most_prompt = if reads { most_bytes.div_ceil(BYTES_PER_TOKEN).min(context) } else { 0 };
        Self {
            model: Arc::clone(model),
            most_prompt: most_prompt.max(prompt_tokens),
            most_seconds: if reads { most_bytes.div_ceil(LEAST_BYTES_PER_SECOND) } else { 0 },
            is_of_texts: is_recognised && by_tokens().is_some_and(|model| has_prices_of_texts_alone(&model)),
            by_tokens: reads.then(by_tokens).flatten(),
            flat: route.flat.clone(),
            size: CallSize {
                prompt_tokens,
                // A batch names no model of its own. It reads many prompts, and the request does not say how many.
                prompts: if is_recognised { 1 } else { u64::MAX },
                answers,
                has_inner_calls: true,
                is_limited_to_one_call: true,
                is_unpriced: facts.has_unmetered_work && route.usage == Some(UsageShape::OpenAi),
                ..CallSize::default()
            },
            most_answer: longest.saturating_mul(answers),
            usual_answer: usual.saturating_mul(answers),
        }
    }

    /// Whether the cost of a request can be known.
    pub(super) fn has_price(&self) -> bool {
        self.by_tokens.is_some() && !self.size.is_unpriced || self.flat.is_some()
    }

    /// Tokens of a stream between two notes of its progress in the journal, of which `most` are allowed.
    pub(super) fn progress_tokens(&self, most: u64) -> u64 {
        most.min(self.most_answer / PROGRESS_NOTES).max(1)
    }

    /// Whether every answer costs the same.
    pub(super) fn is_flat(&self) -> bool {
        self.by_tokens.is_none() && self.flat.is_some()
    }

    /// The tokens and the cost of the worst case.
    pub(super) fn worst_case(&self) -> (u64, Money) {
        let prompt = self.size.prompt_tokens;
        let usage = Usage { prompt: self.most_prompt, completion: self.most_answer, ..Usage::default() };
        let units = [(Unit::Second, self.most_seconds), (Unit::Page, MOST_PAGES)];
        let cost = |model: &Arc<Model>| {
            let has_price =
                |unit| model.prices.as_ref().is_some_and(|prices| prices.units.of(unit).is_some());
            let of_units = units.into_iter().filter(|(unit, _)| has_price(*unit)).map(|(unit, most)| {
                model.charge(&Usage { units: Units::new(unit, most), ..Usage::default() }).known
            });
            of_units.fold(model.charge(&usage).known, Money::max)
        };
        let most = self.by_tokens.iter().chain(&self.flat).map(cost).max();
        (prompt.saturating_add(self.usual_answer), most.unwrap_or_default())
    }

    /// The model and the size by which a call is charged.
    pub(super) fn basis(&self, answer: &AnswerFacts) -> (&Arc<Model>, CallSize) {
        let without_tokens = CallSize::default();
        let unknown = CallSize { is_unpriced: true, ..without_tokens };
        match (answer.reported, &self.by_tokens, &self.flat) {
            (Some(_), Some(model), _) => (model, self.size),
            (_, _, Some(flat)) => (flat, without_tokens),
            (None, Some(model), None)
                if answer.may_lack_usage || answer.may_be_generated && self.is_of_texts =>
            {
                (model, self.size)
            }
            _ => (&self.model, unknown),
        }
    }

    /// Charges a call by what is known of its answer.
    pub(super) fn charge(&self, calls: &UpstreamCalls, call: UpstreamCallId, answer: &AnswerFacts) {
        calls.charge_as(call, self.basis(answer), answer.reported, answer.text_bytes);
    }

    /// The charge for a call of which nothing is known but that it was sent.
    pub(super) fn of_sent(&self) -> BilledUsage {
        let (model, size) = self.basis(&AnswerFacts::SENT);
        let mut billed = BilledUsage::default();
        billed.add_usage(model, &size.usage(None, 0, model));
        billed
    }
}

/// Whether a model has a price of texts, and none of images, sound or other units. Their number is not in the texts of an answer.
fn has_prices_of_texts_alone(model: &Model) -> bool {
    let Some(prices) = &model.prices else { return false };
    let rates = &prices.gateway;
    let others = [rates.audio_input, rates.audio_output, rates.image_input, rates.image_output];
    rates.input.is_some() && others.iter().all(Option::is_none) && prices.units.is_empty()
}

impl AnswerFacts {
    /// A request that was sent, and may have been served.
    pub(super) const SENT: Self =
        Self { reported: None, text_bytes: 0, may_lack_usage: true, may_be_generated: false };
}
