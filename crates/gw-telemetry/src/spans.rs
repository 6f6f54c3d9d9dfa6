//! The spans of a finished request: a SERVER span for itself, and a CLIENT span for each attempt.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gw_engine::payloads::Redactor;
use gw_engine::request::trace::{AttemptTrace, CallTrace, ServerRecord, TraceIds, TracedRequest};
use gw_engine::semantic_names as names;
use gw_wire::attribution::{Attribution, Dimension};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use crate::attributes::Attributes;
use crate::content::Messages;
use crate::settings::{OtlpSettings, SemanticGeneration};

/// The bit of a span's flags that says that the trace is sampled.
const SAMPLED: u32 = 1;
/// The status of an attempt that answered.
const OK: &str = "ok";
/// The status of an attempt that lost against a faster one.
const CANCELLED: &str = "cancelled";

/// Builds the spans of finished requests.
#[derive(Debug)]
pub(crate) struct SpanBuilder {
    resource: Resource,
    scope: InstrumentationScope,
    generation: SemanticGeneration,
    langfuse: bool,
    masks: Redactor,
}

impl SpanBuilder {
    pub(crate) fn new(settings: &OtlpSettings, masks: Redactor) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let mut about = Attributes::default();
        about.text("service.name", settings.service_name.as_str());
        about.text("service.version", version);
        Self {
            resource: Resource { attributes: about.0, ..Resource::default() },
            scope: InstrumentationScope {
                name: "model-gateway".to_owned(),
                version: version.to_owned(),
                ..InstrumentationScope::default()
            },
            generation: settings.generation,
            langfuse: settings.langfuse,
            masks,
        }
    }

    /// The spans of some requests, as the collector takes them.
    pub(crate) fn request(&self, requests: Vec<TracedRequest>) -> ExportTraceServiceRequest {
        let spans = requests.into_iter().flat_map(|request| self.spans(&request)).collect();
        let scope_spans = ScopeSpans { scope: Some(self.scope.clone()), spans, ..ScopeSpans::default() };
        let resource_spans = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
    }

    fn spans(&self, request: &TracedRequest) -> Vec<Span> {
        let TracedRequest { ids, server, call } = request;
        let mut messages = server.content.as_ref().map(|content| Messages::read(content, &self.masks));
        let mut spans = vec![self.server(ids, server, call.as_deref())];
        let attempts = call.as_deref().map_or(&[][..], |call| &call.attempts);
        let last_answer =
            attempts.iter().rev().find(|attempt| attempt.is_answer).map(|attempt| attempt.number);
        for attempt in attempts {
            let Some(call) = call.as_deref() else { continue };
            let mut span = self.client(ids, call, attempt);
            // The content stands once: in the span that answered, or in that of the request.
            if last_answer == Some(attempt.number)
                && let Some(messages) = messages.take()
            {
                messages.write(&mut span.attributes, self.langfuse);
            }
            spans.push(span);
        }
        if let Some((messages, span)) = messages.zip(spans.first_mut()) {
            messages.write(&mut span.attributes, self.langfuse);
        }
        spans
    }

    fn server(&self, ids: &TraceIds, server: &ServerRecord, call: Option<&CallTrace>) -> Span {
        let mut about = Attributes::default();
        about.text("http.request.method", server.method.as_str());
        about.text("http.route", server.route);
        about.count("http.response.status_code", server.status.into());
        about.text("gateway.request_id", &*server.request_id);
        about.maybe_text("gateway.key", server.key.as_deref());
        if server.code != OK {
            about.text("error.type", server.code.as_str());
        }
        if let Some(call) = call {
            about.text("gateway.operation", call.operation);
            about.text("gateway.requested_model", call.requested_model.as_str());
            about.text("gateway.strategy", call.strategy);
            about.maybe_text("gateway.team", call.team.as_deref());
            about.maybe_text("gen_ai.conversation.id", call.session.as_deref());
            if let Some(attribution) = &call.attribution {
                names_of(&mut about, attribution);
            }
            // Clients and the request log know this id. Providers have ids of their own, which the gateway does not keep.
            about.maybe_text("gen_ai.response.id", call.response_id.as_deref());
        }
        if let Some(record) = &server.record {
            about.maybe_text("gateway.model", record.model.as_deref());
            about.maybe_text("gateway.provider", record.provider.as_deref());
            about.count("gateway.attempts", record.attempts.into());
            about.boolean("gateway.fallback", record.fallback);
            about.boolean("gateway.cache_hit", record.cache_hit);
            about
                .maybe_number("gateway.cost_usd", record.known_cost().map(gw_wire::money::Money::approx_usd));
            about.maybe_count("gateway.ttft_ms", record.ttft_ms);
        }
        let is_fault = server.status >= 500;
        Span {
            name: format!("{} {}", server.method, server.route),
            kind: SpanKind::Server as i32,
            parent_span_id: ids.parent.map(|parent| parent.bytes().to_vec()).unwrap_or_default(),
            attributes: about.0,
            events: call.map(|call| fallbacks(ids, call)).unwrap_or_default(),
            status: is_fault.then(|| failed(&server.code)),
            ..base(ids, ids.server.bytes(), server.accepted, server.ended)
        }
    }

    fn client(&self, ids: &TraceIds, call: &CallTrace, attempt: &AttemptTrace) -> Span {
        let operation = names::operation(call.operation);
        let mut about = Attributes::default();
        about.text("gen_ai.operation.name", operation);
        let provider = names::provider(attempt.api, &attempt.provider);
        about.text("gen_ai.provider.name", provider);
        about.text("gen_ai.request.model", attempt.upstream_model.as_str());
        about.maybe_text("server.address", attempt.host.as_deref());
        about.maybe_text("gen_ai.conversation.id", call.session.as_deref());
        self.parameters(&mut about, call);
        self.usage(&mut about, attempt);
        if let Some(answer) = &attempt.answer {
            about.maybe_text("gen_ai.response.model", answer.model.as_deref());
            about.texts("gen_ai.response.finish_reasons", &answer.finish_reasons);
        }
        about.maybe_number(
            "gen_ai.response.time_to_first_chunk",
            attempt.first_content.map(|after| after.as_secs_f64()),
        );
        about.count("gateway.attempt", attempt.number as u64 + 1);
        about.text("gateway.provider", &*attempt.provider);
        about.text("gateway.model", &*attempt.model);
        about.text("gateway.status", attempt.status);
        about.boolean("gateway.fallback", attempt.is_fallback);
        about.maybe_number("gateway.cost_usd", attempt.cost.map(|cost| cost.approx_usd()));
        let is_fault = attempt.status != OK && attempt.status != CANCELLED;
        if is_fault {
            about.text("error.type", attempt.status);
        }
        if self.langfuse {
            about.text("gen_ai.system", provider);
        }
        let first =
            attempt.first_content.map(|after| event(ids, attempt.began + after, "gateway.first_token"));
        Span {
            name: format!("{operation} {}", attempt.upstream_model),
            kind: SpanKind::Client as i32,
            parent_span_id: ids.server.bytes().to_vec(),
            attributes: about.0,
            events: first.into_iter().collect(),
            status: is_fault.then(|| failed(attempt.status)),
            ..base(ids, ids.attempt(attempt.number).bytes(), attempt.began, attempt.ended)
        }
    }

    fn parameters(&self, about: &mut Attributes, call: &CallTrace) {
        let given = call.parameters;
        if given.stream {
            about.boolean("gen_ai.request.stream", true);
        }
        about.maybe_count("gen_ai.request.choice.count", given.choices);
        about.maybe_count("gen_ai.request.max_tokens", given.max_tokens);
        about.maybe_number("gen_ai.request.temperature", given.temperature);
        about.maybe_number("gen_ai.request.top_p", given.top_p);
        about.maybe_number("gen_ai.request.frequency_penalty", given.frequency_penalty);
        about.maybe_number("gen_ai.request.presence_penalty", given.presence_penalty);
        about.maybe_integer("gen_ai.request.seed", given.seed);
        about.maybe_count("gen_ai.embeddings.dimension.count", given.dimensions);
    }

    fn usage(&self, about: &mut Attributes, attempt: &AttemptTrace) {
        let usage = attempt.usage;
        if usage.total() == 0 {
            return;
        }
        about.count("gen_ai.usage.input_tokens", usage.prompt);
        about.count("gen_ai.usage.output_tokens", usage.completion);
        about.maybe_count("gen_ai.usage.cache_read.input_tokens", usage.cached);
        let written = match self.generation {
            SemanticGeneration::V1_41 => "gen_ai.usage.cache_creation.input_tokens",
            SemanticGeneration::Next => "gen_ai.usage.cache_write.input_tokens",
        };
        about.maybe_count(written, usage.cache_write);
        about.maybe_count("gen_ai.usage.reasoning.output_tokens", usage.reasoning);
        about.boolean("gateway.usage_estimated", usage.estimated);
        if self.langfuse {
            about.count("gen_ai.usage.prompt_tokens", usage.prompt);
            about.count("gen_ai.usage.completion_tokens", usage.completion);
        }
    }
}

/// A request's end user, tags, repository, branch and pull request.
fn names_of(about: &mut Attributes, attribution: &Attribution) {
    for dimension in Dimension::ALL {
        let name = match dimension {
            Dimension::EndUser => "gateway.end_user",
            Dimension::Tag => {
                let tags: Vec<&str> = attribution.tags.iter().map(|tag| &**tag).collect();
                about.texts("gateway.tags", &tags);
                continue;
            }
            Dimension::Repository => "gateway.repository",
            Dimension::Branch => "gateway.branch",
            Dimension::PullRequest => "gateway.pull_request",
        };
        about.maybe_text(name, attribution.name(dimension));
    }
}

/// One event for each attempt that asks another model than the attempt before it.
fn fallbacks(ids: &TraceIds, call: &CallTrace) -> Vec<Event> {
    let pairs = call.attempts.iter().zip(call.attempts.iter().skip(1));
    let moved = pairs.filter(|(before, after)| before.model != after.model && before.status != OK);
    let told = moved.map(|(before, after)| {
        let mut about = Attributes::default();
        about.text("gateway.from", &*before.model);
        about.text("gateway.to", &*after.model);
        about.text("error.type", before.status);
        Event { attributes: about.0, ..event(ids, after.began, "gateway.fallback") }
    });
    told.collect()
}

fn event(ids: &TraceIds, at: Instant, name: &str) -> Event {
    Event { time_unix_nano: nanos(ids.time_of(at)), name: name.to_owned(), ..Event::default() }
}

/// The members that all spans have.
fn base(ids: &TraceIds, id: [u8; 8], began: Instant, ended: Instant) -> Span {
    Span {
        trace_id: ids.trace.bytes().to_vec(),
        span_id: id.to_vec(),
        trace_state: ids.state.as_deref().unwrap_or_default().to_owned(),
        flags: SAMPLED,
        start_time_unix_nano: nanos(ids.time_of(began)),
        end_time_unix_nano: nanos(ids.time_of(ended)),
        ..Span::default()
    }
}

/// The status of a span that failed. Its message is an error code, never a provider's words.
fn failed(code: &str) -> Status {
    Status { message: code.to_owned(), code: StatusCode::Error as i32 }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
