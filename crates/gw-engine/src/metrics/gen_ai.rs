//! The `gen_ai_*` metrics of OpenTelemetry's semantic conventions 1.41, with the names that Prometheus gives them. A model keeps its handles.

use std::sync::OnceLock;
use std::time::Duration;

use gw_wire::trace_context::TraceId;
use gw_wire::usage::Usage;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::registration::{registered_metric, registered_seconds};
use crate::semantic_names;

/// Buckets of durations in seconds: 0.01, 0.02, … 81.92.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Buckets of the seconds to the first token.
const FIRST_TOKEN: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// Buckets of the seconds for each further token.
const PER_TOKEN: [f64; 12] = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0];
/// Buckets of tokens: 1, 4, 16, … 67,108,864.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The label of an exemplar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TraceLabel {
    trace_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenUsageLabels {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: String,
    gen_ai_request_model: String,
    gen_ai_token_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: String,
    gen_ai_request_model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: String,
    gen_ai_request_model: String,
    error_type: &'static str,
}

type Traced = HistogramWithExemplars<TraceLabel>;
type TracedFamily = Family<EndedLabels, Traced, fn() -> Traced>;
type PlainFamily = Family<CallLabels, Histogram, fn() -> Histogram>;

/// All `gen_ai_*` metrics.
#[derive(Debug)]
pub(super) struct GenAiMetrics {
    tokens: Family<TokenUsageLabels, Histogram, fn() -> Histogram>,
    client_duration: TracedFamily,
    first_chunk: PlainFamily,
    server_duration: TracedFamily,
    first_token: PlainFamily,
    per_token: PlainFamily,
}

/// The handles of one model and one operation.
#[derive(Debug)]
pub(super) struct OperationHandles {
    input: Histogram,
    output: Histogram,
    client_duration: Traced,
    first_chunk: Histogram,
    server_duration: Traced,
    first_token: Histogram,
    per_token: Histogram,
}

/// The handles of one model, by operation.
pub(super) type ModelHandles = [OnceLock<(&'static str, OperationHandles)>; 3];

/// The model that a measurement belongs to.
#[derive(Clone, Copy)]
pub(super) struct MeasuredModel<'a> {
    /// `gen_ai.provider.name`.
    pub(super) provider: &'a str,
    /// The catalogue id.
    pub(super) model: &'a str,
    pub(super) handles: &'a ModelHandles,
}

fn traced() -> Traced {
    Traced::new(SECONDS.into_iter())
}

impl GenAiMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            tokens: registered_metric(
                registry,
                "gen_ai_client_token_usage",
                "Tokens of an attempt by type",
                Family::new_with_constructor(|| Histogram::new(TOKENS)),
            ),
            client_duration: registered_seconds(
                registry,
                "gen_ai_client_operation_duration",
                "Duration of an attempt at a provider",
                Family::new_with_constructor(traced as fn() -> Traced),
            ),
            first_chunk: registered_seconds(
                registry,
                "gen_ai_client_operation_time_to_first_chunk",
                "From the begin of an attempt to the first content of its stream",
                Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN)),
            ),
            server_duration: registered_seconds(
                registry,
                "gen_ai_server_request_duration",
                "From the acceptance of a generation request to its settlement",
                Family::new_with_constructor(traced as fn() -> Traced),
            ),
            first_token: registered_seconds(
                registry,
                "gen_ai_server_time_to_first_token",
                "From the acceptance of a streamed request to its first content",
                Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN)),
            ),
            per_token: registered_seconds(
                registry,
                "gen_ai_server_time_per_output_token",
                "Time for each token of a stream after the first",
                Family::new_with_constructor(|| Histogram::new(PER_TOKEN)),
            ),
        }
    }

    /// Measures an attempt that has ended. `error` is an error code; None: it answered.
    pub(super) fn attempt(
        &self,
        operation: &'static str,
        of: MeasuredModel<'_>,
        usage: &Usage,
        duration: Duration,
        (error, trace): (Option<&'static str>, Option<TraceId>),
    ) {
        let operation = semantic_names::operation(operation);
        let Some(handles) = self.handles(operation, of) else { return };
        if usage.total() > 0 {
            handles.input.observe(amount(usage.prompt));
            handles.output.observe(amount(usage.completion));
        }
        let seconds = duration.as_secs_f64();
        match error {
            None => handles.client_duration.observe(seconds, trace.map(label), None),
            Some(error) => {
                let labels = ended(operation, of, error);
                self.client_duration.get_or_create(&labels).observe(seconds, trace.map(label), None);
            }
        }
    }

    /// Measures the time from the start of an attempt to the first content of its stream.
    pub(super) fn first_chunk(&self, operation: &'static str, of: MeasuredModel<'_>, after: Duration) {
        if let Some(handles) = self.handles(semantic_names::operation(operation), of) {
            handles.first_chunk.observe(after.as_secs_f64());
        }
    }

    /// Measures a request that is settled. `first_token` is that of a stream, and `tokens` are those of its answer.
    pub(super) fn request(
        &self,
        operation: &'static str,
        of: MeasuredModel<'_>,
        duration: Duration,
        (first_token, tokens): (Option<Duration>, u64),
        (error, trace): (Option<&'static str>, Option<TraceId>),
    ) {
        let operation = semantic_names::operation(operation);
        let Some(handles) = self.handles(operation, of) else { return };
        let seconds = duration.as_secs_f64();
        match error {
            None => handles.server_duration.observe(seconds, trace.map(label), None),
            Some(error) => {
                let labels = ended(operation, of, error);
                self.server_duration.get_or_create(&labels).observe(seconds, trace.map(label), None);
            }
        }
        if let Some(first_token) = first_token {
            handles.first_token.observe(first_token.as_secs_f64());
            if tokens > 1 {
                let rest = duration.saturating_sub(first_token);
                handles.per_token.observe(rest.as_secs_f64() / amount(tokens - 1));
            }
        }
    }

    /// The handles of a model and an operation. The first call creates them.
    fn handles<'a>(&self, operation: &'static str, of: MeasuredModel<'a>) -> Option<&'a OperationHandles> {
        let make = || (operation, self.make(operation, of));
        let mut kept = of.handles.iter().map(|place| place.get_or_init(make));
        kept.find(|(known, _)| *known == operation).map(|(_, handles)| handles)
    }

    fn make(&self, operation: &'static str, of: MeasuredModel<'_>) -> OperationHandles {
        let labels = CallLabels {
            gen_ai_operation_name: operation,
            gen_ai_provider_name: of.provider.to_owned(),
            gen_ai_request_model: of.model.to_owned(),
        };
        let tokens = |kind| {
            let CallLabels { gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model } =
                labels.clone();
            let labels = TokenUsageLabels {
                gen_ai_operation_name,
                gen_ai_provider_name,
                gen_ai_request_model,
                gen_ai_token_type: kind,
            };
            self.tokens.get_or_create(&labels).clone()
        };
        let answered = ended(operation, of, "");
        OperationHandles {
            input: tokens("input"),
            output: tokens("output"),
            client_duration: self.client_duration.get_or_create(&answered).clone(),
            first_chunk: self.first_chunk.get_or_create(&labels).clone(),
            server_duration: self.server_duration.get_or_create(&answered).clone(),
            first_token: self.first_token.get_or_create(&labels).clone(),
            per_token: self.per_token.get_or_create(&labels).clone(),
        }
    }
}

fn ended(operation: &'static str, of: MeasuredModel<'_>, error: &'static str) -> EndedLabels {
    EndedLabels {
        gen_ai_operation_name: operation,
        gen_ai_provider_name: of.provider.to_owned(),
        gen_ai_request_model: of.model.to_owned(),
        error_type: error,
    }
}

fn label(trace: TraceId) -> TraceLabel {
    TraceLabel { trace_id: trace.to_string() }
}

/// A count as a histogram takes it.
#[expect(clippy::cast_precision_loss, reason = "a histogram needs no exact counts beyond 2^53")]
fn amount(count: u64) -> f64 {
    count as f64
}
