//! The lines of a request's charge, for rows whose counts of tokens do not tell them.

use std::sync::Arc;

use gw_wire::charges::Charges;
use gw_wire::usage::{Unit, Usage};

use super::{AttemptState, Records, UpstreamCall, UpstreamCalls};
use crate::catalog::Model;

impl UpstreamCalls {
    /// The lines of the charge. None: the tokens of the row tell the lines, as for most requests. `is_merged` says that the row has other
    /// tokens than those of the calls.
    pub(crate) fn charges(&self, is_merged: bool) -> Option<Box<Charges>> {
        let Records { attempts, calls, .. } = &mut *self.records.lock();
        if let [only] = calls.as_mut_slice()
            && !is_merged
            && only.has_only_tokens(attempts)
        {
            return None;
        }
        let last = calls.last()?.attempt;
        let has_answer = calls.iter().any(|call| super::contributes(attempts, call.attempt));
        let mut charges = Charges::default();
        for call in calls {
            let is_shown = match has_answer {
                true => super::contributes(attempts, call.attempt),
                false => call.attempt == last,
            };
            match (call.usage().zip(call.model.prices.as_ref()), is_shown) {
                (Some((usage, prices)), true) => {
                    prices.itemised(&usage).1.into_iter().for_each(|line| charges.add(line));
                    charges.price_as_of.clone_from(&call.model.priced_as_of);
                }
                _ => charges.other += call.billed().map(|billed| billed.cost).unwrap_or_default(),
            }
        }
        Some(Box::new(charges))
    }
}

impl UpstreamCall {
    /// Whether the tokens of the row, at the prices of the row's model, give the cost of the call.
    fn has_only_tokens(&mut self, attempts: &[AttemptState]) -> bool {
        let is_plain =
            |model: &Model| model.prices.as_ref().is_none_or(|prices| prices.units.of(Unit::Query).is_none());
        let is_of_the_row = attempts
            .get(self.attempt)
            .is_some_and(|attempt| Arc::ptr_eq(&attempt.candidate.model, &self.model));
        is_of_the_row && is_plain(&self.model) && self.billed().is_none_or(|billed| is_of_text(&billed.usage))
    }
}

/// Whether a usage has no tokens of sounds and images, no other units and no calls of hosted tools.
fn is_of_text(usage: &Usage) -> bool {
    let others = [usage.audio_prompt, usage.image_prompt, usage.audio_completion, usage.image_completion];
    others.iter().all(|count| count.unwrap_or(0) == 0) && usage.hosted.is_none() && usage.units.is_none()
}
