//! The parts of a request that its answer is written with. They remain when a task owns the call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_cache::Stored;
use gw_wire::dialects::AnswerForm;
use gw_wire::gateway::{GatewayMeta, PresetUse, SemanticMatch};
use gw_wire::money::Money;
use gw_wire::stream::{Opening, Shape};
use http::{HeaderName, HeaderValue};

use crate::call::Call;
use crate::call::progress::Warnings;
use crate::catalog::Model;
use crate::clock::{self, millis};
use crate::cpu_pool::CpuPool;
use crate::request::context::CallLog;
use crate::response::headers::{cache_status, cost_header, named, names_of};
use crate::response_cache::shared_answer::SharedAnswer;
use crate::response_cache::stream_reader::{ReaderMemory, StreamReader};

/// The parts of a request that its answer is written with.
#[derive(Clone, Debug)]
pub(crate) struct ReplyContext {
    pub(crate) request_id: Arc<str>,
    pub(crate) accepted: Instant,
    /// The request's own deadline. A call that it follows may have more time.
    pub(crate) deadline: Instant,
    pub(crate) strategy: &'static str,
    /// The opening of the request's own stream, with the first candidate's model.
    opening: Opening,
    /// The model of the first candidate, which is mostly the one that answered.
    first: Option<Arc<Model>>,
    pub(crate) fallback_used: bool,
    /// The warnings about the request itself.
    warnings: Warnings,
    /// The similarity of the question whose answer the request gets, if it is not its own.
    pub(crate) similarity: Option<f32>,
    pub(crate) streams: bool,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) log: Arc<CallLog>,
    preset: Option<Arc<PresetUse>>,
    cpu: CpuPool,
    memory: ReaderMemory,
}

impl ReplyContext {
    pub(crate) fn new(call: &Call) -> Self {
        let first = call.plan.candidates.first();
        let prompt_tokens = first.map_or(0, |first| call.context.request.prompt_tokens(first));
        // `to_string` of an `Arc<str>` would go through a formatter.
        let model = first.map_or_else(String::new, |first| (*first.model.upstream_model).to_owned());
        let opening = call.context.opening(model, prompt_tokens);
        let context = &call.context.client;
        Self {
            request_id: Arc::clone(&context.request_id),
            accepted: context.accepted,
            deadline: context.accepted + call.plan.longest_total(),
            strategy: call.plan.strategy.as_str(),
            opening,
            fallback_used: false,
            warnings: call.progress.warnings.clone(),
            similarity: None,
            first: first.map(|first| Arc::clone(&first.model)),
            streams: call.context.request.wants_stream(),
            keepalive: context.keepalive,
            log: Arc::clone(&context.log),
            preset: context.preset.clone(),
            cpu: call.context.cpu.clone(),
            memory: ReaderMemory {
                events: call.context.snapshot.state.event_memory.clone(),
                key_id: Arc::clone(context.caller.key_id()),
            },
        }
    }

    /// The context for an answer that another request brought.
    pub(crate) fn of(&self, done: &SharedAnswer) -> Self {
        Self { fallback_used: done.fallback_used, similarity: done.similarity, ..self.clone() }
    }

    /// The headers of the leader's own answer.
    pub(crate) fn headers(&self, done: &SharedAnswer, what: &'static str) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = self.names(&done.answer.model_used, &done.answer.provider);
        headers.push(cache_status(what));
        headers.extend(self.cost_header(done.answer.cost));
        headers
    }

    /// The headers that name the model that answered and its provider.
    pub(crate) fn names(&self, model_used: &str, provider: &str) -> Vec<(HeaderName, HeaderValue)> {
        let is_named = |model: &&Arc<Model>| *model.id == *model_used && *model.provider == *provider;
        match self.first.as_ref().filter(is_named) {
            Some(model) => names_of(model),
            None => named(model_used, provider),
        }
    }

    /// The header with the cost of a complete answer in another dialect than OpenAI's, whose body may have no member for it.
    /// Like the cost in a body, it is that of the calls that served, and not of charged calls that failed before.
    pub(crate) fn cost_header(&self, served: Option<Money>) -> Option<(HeaderName, HeaderValue)> {
        (self.form().is_some() && !self.streams).then(|| cost_header(served)).flatten()
    }

    /// The kind of the answer.
    pub(crate) fn shape(&self) -> Shape {
        self.opening.shape
    }

    /// The id of the answer.
    pub(crate) fn id(&self) -> &str {
        &self.opening.id
    }

    /// Unix seconds of the answer.
    pub(crate) fn created(&self) -> u64 {
        self.opening.created
    }

    /// Writes the answer of a client that speaks another dialect than OpenAI's.
    pub(crate) fn form(&self) -> Option<&dyn AnswerForm> {
        self.opening.form.as_deref()
    }

    /// A reader of a shared call's events, which writes events of at most `max_event_bytes`.
    pub(crate) fn reader(&self, max_event_bytes: usize) -> StreamReader {
        let (cpu, memory) = (self.cpu.clone(), self.memory.clone());
        StreamReader::new(self.opening.clone(), max_event_bytes, cpu, memory)
    }

    /// The opening of the stream of a kept answer.
    pub(crate) fn opening(&self, stored: &Stored) -> Opening {
        let model = (*stored.model_used).to_owned();
        Opening { model, prompt_tokens: stored.usage.prompt, ..self.opening.clone() }
    }

    pub(crate) fn meta(&self, stored: &Stored, warnings: &[&'static str]) -> GatewayMeta {
        GatewayMeta {
            request_id: Arc::clone(&self.request_id),
            model_used: Arc::clone(&stored.model_used),
            provider: Arc::clone(&stored.provider),
            cache_hit: true,
            routing_strategy: self.strategy,
            fallback_used: self.fallback_used,
            latency_ms: millis(clock::since(self.accepted)),
            attempts: Vec::new(),
            warnings: self
                .warnings
                .iter()
                .cloned()
                .chain(warnings.iter().copied().map(Cow::Borrowed))
                .collect(),
            saved: stored.cost,
            preset: self.preset.clone(),
            prompt_cache: None,
            similar: self.similar(stored),
        }
    }

    pub(crate) fn similar(&self, stored: &Stored) -> Option<SemanticMatch> {
        self.similarity.map(|similarity| SemanticMatch { similarity, source: Arc::clone(&stored.source) })
    }
}
