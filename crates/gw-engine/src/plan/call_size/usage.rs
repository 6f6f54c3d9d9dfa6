//! The usage of a call: what its upstream reports, within what is possible, and an estimate of the rest.

use gw_wire::money::Price;
use gw_wire::request::native_policy::results_of;
use gw_wire::usage::{BYTES_PER_TOKEN, MAX_BELIEVABLE, Unit, UnitCount, Units, Usage, small};

use super::{CallSize, MAX_INNER_CALLS, UNKNOWN_CONTEXT_TOKENS};
use crate::catalog::Model;

/// An upstream is believed if it counts up to so many times the units that a call can have: it counts by rules of its own.
const MAX_UNITS_FACTOR: u64 = 1_000;
/// An upstream is believed if it counts up to so many calls of a hosted tool for an answer. More than the inner calls of a model would need.
const MAX_HOSTED_CALLS: u64 = 1_000;
/// A token count up to this one is believed, whatever the catalogue says of the model: the provider bills its own count, and a catalogue
/// may be older than the model.
const MAX_BELIEVED_TOKENS: u64 = 1 << 24;

/// The estimated tokens of a part of a prompt. Without a price of their own they cost the price of text.
fn priced_part(tokens: u64, price: Option<Price>) -> Option<u32> {
    price.filter(|_| tokens > 0).map(|_| small(tokens))
}

/// The units that an upstream reports for a call that can have `most` of them. A count that cannot be true becomes `most`.
pub(crate) fn credible_units(reported: Units, most: Units) -> Units {
    if reported.exceeds(most.times(MAX_UNITS_FACTOR)) { most } else { reported }
}

/// Limits the parts of a prompt and of an answer to the whole, which may have been corrected.
fn limit_parts(usage: &mut Usage) {
    let within = |part: Option<u64>, whole: u64| part.map(|part| part.min(whole));
    usage.cached = within(usage.cached, usage.prompt);
    usage.cache_write = within(usage.cache_write, usage.prompt);
    usage.reasoning = within(usage.reasoning, usage.completion);
    let small_within = |part: Option<u32>, whole: u64| part.map(|part| part.min(small(whole)));
    for part in [&mut usage.audio_prompt, &mut usage.image_prompt] {
        *part = small_within(*part, usage.prompt);
    }
    for part in [
        &mut usage.audio_completion,
        &mut usage.image_completion,
        &mut usage.accepted_prediction,
        &mut usage.rejected_prediction,
    ] {
        *part = small_within(*part, usage.completion);
    }
}

impl CallSize {
    /// The usage of the call: the reported counts, and an estimate for counts that were not reported.
    ///
    /// A count that no model can have becomes the limit of the model calls of which the call consists. No count of a text is zero if
    /// something was read or written.
    pub(crate) fn usage(&self, reported: Option<Usage>, answer_bytes: u64, model: &Model) -> Usage {
        let prices = model.prices.as_ref().map(|prices| &prices.gateway);
        let estimate = Usage {
            hosted: self.hosted,
            has_unpriced: self.is_unpriced,
            units: self.units.before_answer(),
            audio_prompt: priced_part(self.audio_tokens, prices.and_then(|it| it.audio_input)),
            image_prompt: priced_part(self.image_tokens, prices.and_then(|it| it.image_input)),
            ..Usage::estimate(self.prompt_tokens, self.written_bytes(answer_bytes))
        };
        let Some(mut usage) = reported else {
            return self.with_unknown_seconds(self.with_unseen_images(estimate, answer_bytes, model), model);
        };
        usage.has_unpriced |= self.is_unpriced;
        self.correct_units(&mut usage);
        let longest_prompt = model.context_length.unwrap_or(MAX_BELIEVED_TOKENS);
        let longest_answer = model.max_output_tokens.unwrap_or(longest_prompt);
        let inner_calls = if self.has_inner_calls { MAX_INNER_CALLS } else { 1 };
        // The limit of one model call, and that of all model calls of which the call may consist.
        let limits = |of_one: u64, count: u64, seen: u64| {
            let once = of_one.saturating_mul(count.max(1));
            [once, once.saturating_mul(inner_calls)].map(|most| most.min(MAX_BELIEVABLE).max(seen))
        };
        if std::mem::take(&mut usage.is_total) {
            let [_, longest] = limits(longest_answer, self.answers, estimate.completion);
            self.divide_total(&mut usage, &estimate, longest);
        }
        // An image has no tokens of a text, and a transcript may have none of its own.
        let has_told = self.most.is_some() && usage.total() > 0;
        let tells_prompt = usage.prompt > 0;
        let counts = [
            (&mut usage.prompt, estimate.prompt, limits(longest_prompt, self.prompts, estimate.prompt)),
            (
                &mut usage.completion,
                estimate.completion,
                limits(longest_answer, self.answers, estimate.completion),
            ),
        ];
        let mut are_unknown = [false; 2];
        for ((count, estimate, [once, most]), is_unknown) in counts.into_iter().zip(&mut are_unknown) {
            let is_credible = *count <= most.max(MAX_BELIEVED_TOKENS);
            // Nothing is known of the tokens of an image whose count no model can have.
            *is_unknown = !is_credible && self.most.is_some() && estimate == 0;
            let credible = match *count {
                0 if !has_told => estimate,
                count if is_credible => count,
                // The inputs of a one-shot request are known, so the estimate is close.
                _ if self.most.is_some() => estimate,
                _ if self.is_limited_to_one_call => once,
                _ => most,
            };
            usage.estimated |= credible != *count;
            *count = credible;
        }
        let [is_prompt_unknown, is_answer_unknown] = are_unknown;
        usage.has_unpriced |= is_prompt_unknown;
        if is_answer_unknown {
            self.estimate_unknown_answer(&mut usage, model);
        }
        if !tells_prompt && usage.prompt == estimate.prompt {
            usage.audio_prompt = usage.audio_prompt.or(estimate.audio_prompt);
            usage.image_prompt = usage.image_prompt.or(estimate.image_prompt);
        }
        if self.has_inner_calls && usage.unread_calls > 0 {
            self.add_further_readings(&mut usage, model);
        }
        limit_parts(&mut usage);
        self.with_unknown_seconds(usage, model)
    }

    /// Divides a total that the upstream reported alone in the proportion of the estimates. More than both together is hidden reasoning, and
    /// belongs to the answer, as far as the model writes such `longest` answers. Without a text of an answer the total is the prompt.
    fn divide_total(&self, usage: &mut Usage, estimate: &Usage, longest: u64) {
        let (total, both) = (usage.prompt, estimate.total());
        if self.most.is_some() || estimate.completion == 0 {
            return;
        }
        usage.completion = match total.checked_sub(both) {
            Some(hidden) => estimate.completion.saturating_add(hidden).min(longest),
            None => total.saturating_mul(estimate.completion) / both.max(1),
        };
        usage.prompt = total.saturating_sub(usage.completion);
        usage.estimated = true;
    }

    /// Corrects the reported calls of hosted tools and the reported units, and adds those that were not reported.
    fn correct_units(&self, usage: &mut Usage) {
        if usage.hosted.is_none() {
            usage.hosted = self.hosted;
        }
        if !usage.hosted.is_none() {
            let hosted = usage.hosted.capped(MAX_HOSTED_CALLS.saturating_mul(self.answers.max(1)));
            usage.estimated |= hosted != usage.hosted;
            usage.hosted = hosted;
        }
        if usage.units.is_none() {
            usage.units = self.units.before_answer();
        }
        if let Some(most) = self.most {
            let credible = credible_units(usage.units, most);
            usage.estimated |= credible != usage.units;
            usage.units = credible;
        }
    }

    /// Adds the seconds of a recording whose duration nobody tells: the most that it may have, which a budget has reserved. The client
    /// chooses the format of its file, so a price by the second would bind nobody otherwise. Reported tokens with prices tell the cost.
    fn with_unknown_seconds(&self, usage: Usage, model: &Model) -> Usage {
        let is_recording = |most: &Units| most.of(Unit::Second) > UnitCount::default();
        let Some(most) = self.most.filter(|most| usage.units.is_none() && is_recording(most)) else {
            return usage;
        };
        let Some(prices) = &model.prices else { return usage };
        let is_told = !usage.estimated && prices.charge(&usage).is_complete;
        if is_told || prices.units.of(Unit::Second).is_none() {
            return usage;
        }
        Usage { units: most, estimated: true, ..usage }
    }

    /// Estimates an answer whose count of tokens no model can have. Images cost their own price, if there is one, or else the longest
    /// answers of the model.
    fn estimate_unknown_answer(&self, usage: &mut Usage, model: &Model) {
        let prices = model.prices.as_ref().filter(|_| self.makes_images());
        let made = if usage.units.is_none() { self.units } else { usage.units };
        let longest = model.max_output_tokens.filter(|_| prices.is_some());
        if let Some(units) = prices.and_then(|prices| prices.priced_images(made)) {
            (usage.units, usage.image_completion) = (units, None);
        } else if let Some(longest) = longest {
            usage.completion = longest.saturating_mul(self.answers.max(1)).min(MAX_BELIEVABLE);
            usage.image_completion = Some(small(usage.completion));
        } else {
            usage.has_unpriced = true;
        }
    }

    /// The bytes of an answer that the model wrote as text. The usage counts complete images.
    fn written_bytes(&self, answer_bytes: u64) -> u64 {
        if self.makes_images() { 0 } else { answer_bytes.saturating_sub(self.echoed_bytes()) }
    }

    /// Adds the images of an answer that was not completed. The provider may have made and billed all of them, so they cost the price of an
    /// image, if there is one. Where only image tokens have a price, partial images have tokens.
    fn with_unseen_images(&self, usage: Usage, answer_bytes: u64, model: &Model) -> Usage {
        if !self.makes_images() {
            return usage;
        }
        let Some(prices) = &model.prices else { return Usage { has_unpriced: true, ..usage } };
        if let Some(units) = prices.priced_images(self.units) {
            return Usage { units, ..usage };
        }
        if prices.gateway.image_output.is_none() {
            return Usage { has_unpriced: true, ..usage };
        }
        let completion = answer_bytes.div_ceil(BYTES_PER_TOKEN);
        Usage { completion, image_completion: Some(small(completion)), ..usage }
    }

    fn makes_images(&self) -> bool {
        [Unit::Image, Unit::Pixel].into_iter().any(|unit| self.units.of(unit) > UnitCount::default())
    }

    /// Adds the prompts that the model read after the calls of the provider's tools, where the upstream has told the first
    /// reading only. They are bounded as in a reservation.
    ///
    /// The stream of an OpenAI-type chat shows no calls before its usage, so there is nothing to add. The one search of
    /// `web_search_options` adds no reading either: the search models of OpenAI and Perplexity report the prompt alone, also
    /// at the end of a complete answer, and a client that leaves must not pay more.
    fn add_further_readings(&self, usage: &mut Usage, model: &Model) {
        let calls = usage.unread_calls.min(MAX_INNER_CALLS as u32);
        let once = usage.prompt.div_ceil(self.prompts.max(1));
        let context = model.context_length.unwrap_or(UNKNOWN_CONTEXT_TOKENS).max(once);
        let times = u64::from(calls);
        let all = once.saturating_mul(times).saturating_add(results_of(calls, &usage.hosted));
        usage.prompt = usage.prompt.saturating_add(all.min(context.saturating_mul(times)));
        // The later readings find the tokens that the first reading found in the provider's cache or wrote to it.
        let kept = usage.cached.unwrap_or(0).saturating_add(usage.cache_write.unwrap_or(0)).min(once);
        if kept > 0 {
            usage.cached = Some(usage.cached.unwrap_or(0).saturating_add(kept.saturating_mul(times)));
        }
        usage.unread_calls = 0;
        usage.estimated = true;
    }
}
