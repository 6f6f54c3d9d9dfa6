//! Traces: finished requests become spans, and one task sends the spans to an OpenTelemetry collector.
//!
//! A request never waits for a collector. Finished requests go into a bounded queue ([`queue`]). [`exporter`] takes them out, `spans` builds
//! their spans, and `collector` sends them. Spans that do not fit or cannot be sent are dropped and counted.

mod attributes;
pub mod collector;
mod content;
pub mod exporter;
pub mod queue;
pub mod settings;
mod spans;

pub use collector::CollectorError;
pub use exporter::Exporter;
pub use queue::TraceQueue;
pub use settings::{OtlpProtocol, OtlpSettings, SemanticGeneration};
