//! How a request uses the response cache, and under which key.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use gw_cache::{CacheDirectives, Key, Mode, Outcome, Stamp};
use gw_wire::dialects::ClientDialect;
use gw_wire::request::ChatRequest;
use memchr::memmem;

use crate::call::Call;
use crate::plan::candidate::Candidate;
use crate::plan::tenant_policy::is_forwarded;
use crate::request::ValidatedRequest;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::embeddings::request::EmbeddingsCacheRequest;
use crate::response_cache::known_questions::KnownQuestion;
use crate::response_cache::question::{CandidateIdentities, native_of_fallbacks, question};
use crate::response_cache::settings::CachingSettings;

/// A request's cache directives and the key of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheRequest {
    pub(crate) key: Key,
    pub(crate) directives: CacheDirectives,
    /// The lifetime of its answer.
    pub(crate) ttl: Duration,
    /// The cache has answered this body before, and knows it.
    pub(crate) is_known: bool,
}

/// How a request uses the response cache.
pub(crate) enum CacheUse {
    /// The request does not ask for the cache.
    None,
    /// The request asks for the cache, and its content or its own directives rule it out.
    Bypass,
    /// A chat or a text completion.
    Answer(CacheRequest),
    /// Embeddings, each input by itself.
    Vectors(Box<EmbeddingsCacheRequest>),
}

impl CacheUse {
    /// Decides how a call uses the cache. `known` is its body, if the cache has answered it before.
    pub(crate) fn of(cache: &ResponseCache, call: &Call, known: Option<&KnownQuestion>) -> Self {
        let Some((directives, ttl)) = cache.directives(call) else { return Self::None };
        let planned = match &call.context.request {
            _ if directives.is_bypass() => None,
            // The chat form lacks a part of the request, so equal chats may have different answers.
            ValidatedRequest::Chat(request)
                if request.client.as_ref().is_some_and(|client| client.native.only_native) =>
            {
                None
            }
            ValidatedRequest::Chat(request) if may_stream_more_than_events(call, request) => None,
            ValidatedRequest::OneShot(request) => request
                .embeddings()
                .and_then(|request| EmbeddingsCacheRequest::of(cache, call, request, directives, ttl))
                .map(|wanted| Self::Vectors(Box::new(wanted))),
            ValidatedRequest::Chat(_) | ValidatedRequest::Completion(_) => {
                let is_known = known.is_some();
                cache
                    .key(call, known)
                    .map(|key| Self::Answer(CacheRequest { key, directives, ttl, is_known }))
            }
        };
        planned.unwrap_or_else(|| {
            cache.cache.count(Outcome::Bypass);
            Self::Bypass
        })
    }
}

/// Whether the client's own dialect may stream parts that the events of a shared stream do not hold. The answer does not depend on the
/// cache, so such a request has a stream of its own.
fn may_stream_more_than_events(call: &Call, request: &ChatRequest) -> bool {
    let Some(client) = request.client.as_ref().filter(|_| request.stream) else { return false };
    let asks_with = |member: &[u8]| memmem::find(&client.native.bytes, member).is_some();
    match client.form.dialect() {
        ClientDialect::Messages => asks_with(b"\"citations\""),
        ClientDialect::Responses => {
            let has_phases = |candidate: &Candidate| {
                candidate.model.rules.is_some_and(|rules| rules.answers_in_phases)
                    && is_forwarded(candidate, client)
            };
            asks_with(b"logprobs") || call.plan.candidates.iter().any(has_phases)
        }
        ClientDialect::OpenAi | ClientDialect::Gemini => false,
    }
}

impl ResponseCache {
    /// The cache directives of a call and the lifetime of its answer: a chat states them itself; other operations
    /// follow the configuration. None = no cache.
    pub(crate) fn directives(&self, call: &Call) -> Option<(CacheDirectives, Duration)> {
        let CachingSettings { default_ttl, completions, embeddings, .. } = self.settings;
        let (mode, ttl) = match &call.context.request {
            ValidatedRequest::Chat(request) => {
                let asked = request.cache.filter(|asked| asked.enabled)?;
                let ttl = asked.ttl.map_or(default_ttl, |seconds| Duration::from_secs(seconds.into()));
                (Mode::parse(asked.mode).unwrap_or_default(), ttl)
            }
            ValidatedRequest::Completion(_) if completions => (Mode::ReadWrite, default_ttl),
            ValidatedRequest::OneShot(request) if embeddings && request.embeddings().is_some() => {
                (Mode::ReadWrite, default_ttl)
            }
            ValidatedRequest::Completion(_) | ValidatedRequest::OneShot(_) => return None,
        };
        let directives = CacheDirectives::new(mode, ttl);
        let lines = call.context.client.cache_control.as_deref();
        Some((lines.map_or(directives, |lines| directives.with_cache_control(lines)), ttl))
    }

    /// The key of the answer. Only an answer of a requested model is kept, so its key ignores fallbacks.
    pub(crate) fn key(&self, call: &Call, known: Option<&KnownQuestion>) -> Option<Key> {
        let scope = self.scope(&call.context.client.caller);
        if let Some(key) = known.and_then(|known| known.key_in_order(&scope, &call.plan.candidates)) {
            return Some(key);
        }
        let named = CandidateIdentities::of(call);
        let asked = named.asked();
        if asked.is_empty() {
            // An alias serves in the place of the requested model, which may still serve after all. No answer of the alias is kept.
            return None;
        }
        if let Some(key) = known.and_then(|known| known.key(&scope, &named, call)) {
            return Some(key);
        }
        let key = Key::of(&scope, &question(call, &asked))?;
        if let Some(known) = known {
            known.note(scope, named, call, key);
        }
        Some(key)
    }

    /// The key of the shared call. Such a call is answered by whatever its plan reaches, and fails if its plan fails, so its
    /// key includes fallbacks. Only requests with the same routing options and cache directives share a call.
    /// `stamp` is that of the request.
    pub(crate) fn flight(call: &Call, wanted: &CacheRequest, stamp: Stamp) -> Key {
        let CacheRequest { key, directives, ttl, .. } = wanted;
        let named = CandidateIdentities::of(call);
        let mut hasher = DefaultHasher::new();
        (directives.can_read, directives.can_write, directives.max_age, directives.stale_if_error, ttl)
            .hash(&mut hasher);
        named.0.iter().for_each(|(group, up, _)| (group, up).hash(&mut hasher));
        // A fallback may get the client's own body, which has more than the translated request.
        native_of_fallbacks(call).hash(&mut hasher);
        // A request after a purge does not wait for a call from before it.
        stamp.hash(&mut hasher);
        let everybody: Vec<&str> = named.0.iter().map(|(_, _, who)| who.as_str()).collect();
        key.of_call(&everybody, hasher.finish())
    }
}
