//! The gateway's own response headers.

use bytes::Bytes;
use gw_wire::money::Money;
use http::{HeaderName, HeaderValue};

use crate::catalog::Model;
use crate::plan::candidate::Candidate;

const MODEL: HeaderName = HeaderName::from_static("x-gateway-model");
const PROVIDER: HeaderName = HeaderName::from_static("x-gateway-provider");

/// The header with a cost, for an answer whose body may have no member for it. None: a price is unknown.
pub(crate) fn cost_header(cost: Option<Money>) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_static("x-gateway-cost-usd"), HeaderValue::from_str(&cost?.to_string()).ok()?))
}

/// Nearly all amounts in USD fit into this many bytes.
const USUAL_AMOUNT_BYTES: usize = 24;
/// The header with the money that a budget has left.
pub(crate) const BUDGET_LEFT: HeaderName = HeaderName::from_static("x-gateway-budget-left-usd");

/// The header with the money that a budget has left, in femto-USD.
pub(crate) fn left_header(femtos: i128) -> Option<(HeaderName, HeaderValue)> {
    let mut left = Vec::with_capacity(USUAL_AMOUNT_BYTES);
    Money::from_femtos(femtos).write(&mut left);
    let left = HeaderValue::from_maybe_shared(Bytes::from(left)).ok()?;
    Some((BUDGET_LEFT, left))
}

/// The headers that name the candidate that answered.
pub(crate) fn reply_headers(candidate: Option<&Candidate>) -> Vec<(HeaderName, HeaderValue)> {
    candidate.map_or_else(Vec::new, |candidate| names_of(&candidate.model))
}

/// The headers that name a model and its provider, made once for each model.
pub(crate) fn names_of(model: &Model) -> Vec<(HeaderName, HeaderValue)> {
    with_names(model.answer_names().clone())
}

/// The headers that name a model and its provider.
pub(crate) fn named(model: &str, provider: &str) -> Vec<(HeaderName, HeaderValue)> {
    with_names([model, provider].map(|name| HeaderValue::from_str(name).ok()))
}

fn with_names(values: [Option<HeaderValue>; 2]) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::with_capacity(values.len() + 4);
    let named = [MODEL, PROVIDER].into_iter().zip(values);
    headers.extend(named.filter_map(|(name, value)| Some((name, value?))));
    headers
}

const CACHE: HeaderName = HeaderName::from_static("x-gateway-cache");
pub(crate) const AGE: HeaderName = HeaderName::from_static("age");

/// The header with the cache status.
pub(crate) fn cache_status(what: &'static str) -> (HeaderName, HeaderValue) {
    (CACHE, HeaderValue::from_static(what))
}

/// The digits of all numbers below 1,000, three for each.
#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
static SMALL_NUMBERS: [u8; 3_000] = {
    let (mut text, mut number) = ([0; 3_000], 0);
    while number < 1_000 {
        // Each digit fits a byte.
        text[number * 3] = b'0' + (number / 100) as u8;
        text[number * 3 + 1] = b'0' + (number / 10 % 10) as u8;
        text[number * 3 + 2] = b'0' + (number % 10) as u8;
        number += 1;
    }
    text
};

/// A number as the value of a header. Small ones need no memory.
#[must_use]
pub fn number(value: u64) -> HeaderValue {
    let digits = match value {
        0..10 => 1,
        10..100 => 2,
        100..1_000 => 3,
        _ => return HeaderValue::from(value),
    };
    let end = usize::try_from(value).unwrap_or(0) * 3 + 3;
    let text = SMALL_NUMBERS.get(end - digits..end).and_then(|text| std::str::from_utf8(text).ok());
    text.map_or_else(|| HeaderValue::from(value), HeaderValue::from_static)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_is_written_in_decimal() {
        for value in (0..1_100).chain([u64::MAX]) {
            assert_eq!(number(value), value.to_string().as_str());
        }
    }
}
