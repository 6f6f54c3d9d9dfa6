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
    named(&candidate.model.id, &candidate.model.provider)
}

/// The headers that name a model and its provider.
pub(crate) fn named(model: &str, provider: &str) -> Vec<(HeaderName, HeaderValue)> {
    let named = [(MODEL, model), (PROVIDER, provider)];
    let mut headers = Vec::with_capacity(named.len() + 4);
    headers.extend(
        named.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?))),
    );
    headers
}

const CACHE: HeaderName = HeaderName::from_static("x-gateway-cache");
pub(crate) const AGE: HeaderName = HeaderName::from_static("age");

/// The header with the cache status.
pub(crate) fn cache_status(what: &'static str) -> (HeaderName, HeaderValue) {
    (CACHE, HeaderValue::from_static(what))
}
