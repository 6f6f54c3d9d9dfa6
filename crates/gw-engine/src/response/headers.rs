//! The gateway's own response headers.

use bytes::Bytes;
use gw_wire::money::Money;
use http::{HeaderName, HeaderValue};

use crate::plan::candidate::Candidate;

const MODEL: HeaderName = HeaderName::from_static("x-gateway-model");
const PROVIDER: HeaderName = HeaderName::from_static("x-gateway-provider");

/// The header with a cost, for an answer whose body may have no member for it. None: a price is unknown.
pub(crate) fn cost_header(cost: Option<Money>) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_static("x-gateway-cost-usd"), HeaderValue::from_str(&cost?.to_string()).ok()?))
}

/// Nearly all amounts in USD fit into this many bytes.
const USUAL_AMOUNT_BYTES: usize = 24;
const BUDGET_LEFT: HeaderName = HeaderName::from_static("x-gateway-budget-left-usd");

/// The header with the money that a budget has left, in femto-USD.
pub(crate) fn left_header(femtos: i128) -> Option<(HeaderName, HeaderValue)> {
    let mut left = Vec::with_capacity(USUAL_AMOUNT_BYTES);
    Money::from_femtos(femtos).write(&mut left);
    let left = HeaderValue::from_maybe_shared(Bytes::from(left)).ok()?;
    Some((BUDGET_LEFT, left))
}

/// The headers that name the candidate that answered.
pub(crate) fn reply_headers(candidate: Option<&Candidate>) -> Vec<(HeaderName, HeaderValue)> {
    let Some(candidate) = candidate else { return Vec::new() };
    with_names(candidate.model.answer_names().clone())
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
