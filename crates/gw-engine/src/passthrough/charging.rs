//! The price of a request that passes through: by the tokens that its answer reports, by the route's cost of a request, or
//! unknown.

use std::sync::Arc;

use gw_providers::usage_scan::UsageShape;
use gw_wire::money::{Money, Price};
use gw_wire::usage::{BYTES_PER_TOKEN, LEAST_BYTES_PER_SECOND, Unit, UnitCount, Units, Usage};
use http::Method;

use super::request_facts::RequestFacts;
use crate::call::upstream_call::{BilledUsage, UpstreamCallId, UpstreamCalls};
use crate::catalog::Model;
use crate::passthrough_routes::PassthroughRoute;
use crate::plan::call_size::{CallSize, credible_units};
use crate::upstream::dispatch::PROGRESS_NOTES;

/// Tokens of an answer that neither the request nor the model bounds.
const UNBOUNDED_ANSWER_TOKENS: u64 = 4_096;

/// The most pages of a document (docs.mistral.ai, "OCR processor": 1,000 pages, November 2026).
const MOST_PAGES: u64 = 1_000;

/// The seconds of a recording that are believed whatever the body is: it may only name a recording that is elsewhere.
const BELIEVED_SECONDS: u64 = 86_400;

/// How the call of a request is charged.
#[derive(Debug)]
pub(super) struct Charging {
    /// The model in the records.
    model: Arc<Model>,
    /// Has the prices of what answers report; None: nothing is read, or the answers do not tell the cost.
    by_tokens: Option<Arc<Model>>,
    /// The request names a model that has prices of texts alone, so the texts of its answer tell the cost.
    is_of_texts: bool,
    /// Has the cost of the request as its fee: the model, if a fee is its only price, else the route.
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
        (method, facts): (&Method, &RequestFacts),
        (body_bytes, most_bytes): (u64, u64),
    ) -> Self {
        let reads = route.reads_usage();
        let own = Some(model).filter(|_| is_recognised);
        let priced = route.priced.as_ref().or(own).filter(|_| reads);
        let by_tokens = priced.filter(|model| tells_cost(model, route.usage)).cloned();
        let is_unpriced = facts.has_unmetered_work && route.usage == Some(UsageShape::OpenAi);
        // A model is asked by a `POST`. The prices of the route hold for all its methods.
        let has_fee = !is_unpriced && (route.priced.is_some() || *method == Method::POST);
        let fee = priced.filter(|model| has_fee && has_fee_alone(model)).cloned();
        // A batch names no model of its own. It reads many prompts, and the request does not say how many.
        let may_be_batch = facts.models.is_empty();
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
            is_of_texts: is_recognised && by_tokens.as_deref().is_some_and(has_prices_of_texts_alone),
            by_tokens,
            flat: fee.or_else(|| route.flat.clone()),
            size: CallSize {
                prompt_tokens,
                prompts: if may_be_batch { u64::MAX } else { 1 },
                answers,
                has_inner_calls: facts.has_unmetered_work || may_be_batch,
                is_limited_to_one_call: true,
                is_unpriced,
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
            (Some(usage), Some(model), _) => {
                // The provider has run tools, though the request may not have been read.
                let shows_tools = usage.unread_calls > 0 || !usage.hosted.is_none();
                (model, CallSize { has_inner_calls: self.size.has_inner_calls || shows_tools, ..self.size })
            }
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
        let reported = answer.reported.map(|usage| self.credible(usage));
        calls.charge_as(call, self.basis(answer), reported, answer.text_bytes);
    }

    /// The reported usage, with no more pages and seconds than the request can have.
    fn credible(&self, usage: Usage) -> Usage {
        let most = match usage.units.get() {
            Some((Unit::Page, _)) => Units::new(Unit::Page, MOST_PAGES),
            Some((Unit::Second, count)) if count > UnitCount::whole(BELIEVED_SECONDS) => {
                Units::new(Unit::Second, self.most_seconds)
            }
            _ => return usage,
        };
        let units = credible_units(usage.units, most);
        Usage { units, estimated: usage.estimated || units != usage.units, ..usage }
    }

    /// The charge for a call of which nothing is known but that it was sent.
    pub(super) fn of_sent(&self) -> BilledUsage {
        let (model, size) = self.basis(&AnswerFacts::SENT);
        let mut billed = BilledUsage::default();
        billed.add_usage(model, &size.usage(None, 0, model));
        billed
    }
}

/// Whether answers of this shape can tell the cost at the prices of a model. They count tokens, and in OpenAI's shape seconds and pages,
/// but no images, pixels, characters and search units. At such a price, the tokens of the prompt are not the whole cost.
fn tells_cost(model: &Model, shape: Option<UsageShape>) -> bool {
    let Some(prices) = model.prices.as_ref().filter(|prices| prices.is_usd()) else { return false };
    let has = |unit: &Unit| prices.units.of(*unit).is_some();
    if shape == Some(UsageShape::OpenAi) && [Unit::Second, Unit::Page].iter().any(has) {
        return true;
    }
    let rates = &prices.gateway;
    // Price lists have zeros for tokens that a model does not write.
    let costs = |price: &Option<Price>| price.is_some_and(|price| price != Price::default());
    if [rates.output, rates.audio_output, rates.image_output].iter().any(costs) {
        return true;
    }
    let untold = [Unit::Search, Unit::Image, Unit::Second, Unit::Character, Unit::Page, Unit::Pixel];
    let has_untold = !prices.images.is_empty() || untold.iter().any(has);
    (!rates.is_empty() || !prices.tiers.is_empty()) && !has_untold
}

/// Whether a fee for each request is the only price of a model, so that every answer costs the same.
fn has_fee_alone(model: &Model) -> bool {
    let Some(prices) = model.prices.as_ref().filter(|prices| prices.is_usd()) else { return false };
    prices.gateway.is_empty()
        && prices.tiers.is_empty()
        && prices.images.is_empty()
        && Unit::ALL.iter().all(|unit| prices.units.of(*unit).is_some() == (*unit == Unit::Query))
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
