//! Cohere's token counts.

use gw_wire::usage::Usage;

use super::wire;
use crate::adapters::counts::count;

/// Reads the usage from `tokens`. `billed_units` leaves out the tokens that Cohere adds to the prompt, so it is an
/// estimate that serves only without `tokens`.
pub(super) fn read(usage: &wire::CohereUsage<'_>) -> Option<Usage> {
    let mut estimated = false;
    let counts = match (&usage.tokens, &usage.billed_units) {
        (Some(tokens), _) if tokens.input_tokens.is_some() || tokens.output_tokens.is_some() => tokens,
        (_, Some(billed)) => {
            estimated = true;
            billed
        }
        (_, None) => return None,
    };
    let prompt = count(counts.input_tokens, &mut estimated);
    let completion = count(counts.output_tokens, &mut estimated);
    if prompt.is_none() && completion.is_none() {
        return None;
    }
    estimated |= prompt.is_none() || completion.is_none();
    let prompt = prompt.unwrap_or(0);
    let cached = count(usage.cached_tokens, &mut estimated);
    estimated |= cached > Some(prompt);
    Some(Usage {
        prompt,
        completion: completion.unwrap_or(0),
        cached: cached.map(|cached| cached.min(prompt)),
        estimated,
        ..Usage::default()
    })
}
