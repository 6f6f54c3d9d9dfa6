//! How a request for embeddings uses the response cache: a key for each input.

use std::collections::HashMap;
use std::time::Duration;

use gw_cache::{CacheDirectives, Key};
use gw_wire::request::EmbeddingsRequest;

use crate::call::Call;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::question::{CandidateIdentities, question};

/// A request's cache directives, and the keys of its inputs.
#[derive(Debug)]
pub(crate) struct EmbeddingsCacheRequest {
    /// The keys of the inputs, each once.
    pub(crate) keys: Vec<Key>,
    /// The first input of each key.
    pub(crate) firsts: Vec<usize>,
    /// The key number of each input.
    pub(crate) at: Vec<usize>,
    pub(crate) directives: CacheDirectives,
    /// The lifetime of its vectors.
    pub(crate) ttl: Duration,
}

impl EmbeddingsCacheRequest {
    /// The keys of a request; None if it has no key.
    pub(crate) fn of(
        caching: &ResponseCache,
        call: &Call,
        request: &EmbeddingsRequest,
        directives: CacheDirectives,
        ttl: Duration,
    ) -> Option<Self> {
        let named = CandidateIdentities::of(call);
        let asked = named.asked();
        if asked.is_empty() {
            // As for chats: an alias serves in the place of the requested model.
            return None;
        }
        let count = request.inputs.len();
        let inputs = (0..count).map(|place| request.input(place));
        let all =
            Key::of_inputs(&caching.scope(&call.context.client.caller), &question(call, &asked), inputs)?;
        let mut known = HashMap::with_capacity(count);
        let (mut keys, mut firsts, mut at) = (Vec::new(), Vec::new(), Vec::with_capacity(count));
        for (place, key) in all.into_iter().enumerate() {
            let number = *known.entry(key).or_insert(keys.len());
            if number == keys.len() {
                keys.push(key);
                firsts.push(place);
            }
            at.push(number);
        }
        Some(Self { keys, firsts, at, directives, ttl })
    }
}
