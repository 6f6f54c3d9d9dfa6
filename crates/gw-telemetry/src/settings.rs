//! `[telemetry.otlp]`.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// The way of the spans to the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP: `POST {endpoint}/v1/traces`.
    Http,
    /// gRPC.
    Grpc,
}

/// The names of the `gen_ai.*` attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SemanticGeneration {
    /// Those of OpenTelemetry's semantic conventions 1.41.1.
    V1_41,
    /// Those with the renames that are not released yet.
    Next,
}

/// The collector, and the content of the spans.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    /// The collector's address, without `/v1/traces`.
    pub endpoint: String,
    /// The protocol.
    pub protocol: OtlpProtocol,
    /// Headers of every call, such as `authorization`.
    pub headers: Vec<(String, SecretString)>,
    /// A PEM file with certificates that are trusted besides those of the machine.
    pub ca_file: Option<PathBuf>,
    /// The part of the requests that are traced, 0 to 1, unless the caller decided.
    pub sample_ratio: f64,
    /// Spans have prompts and answers, masked.
    pub content: bool,
    /// Attributes with the names that Langfuse reads are added.
    pub langfuse: bool,
    /// The names of the attributes.
    pub generation: SemanticGeneration,
    /// `service.name`.
    pub service_name: String,
    /// The longest time of a call to the collector.
    pub timeout: Duration,
}

impl OtlpSettings {
    /// The settings for a collector at this address.
    #[must_use]
    pub fn new(endpoint: String) -> Self {
        Self {
            endpoint,
            protocol: OtlpProtocol::Http,
            headers: Vec::new(),
            ca_file: None,
            sample_ratio: 1.0,
            content: false,
            langfuse: false,
            generation: SemanticGeneration::V1_41,
            service_name: "model-gateway".to_owned(),
            timeout: Duration::from_secs(10),
        }
    }
}
