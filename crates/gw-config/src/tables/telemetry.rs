//! `[telemetry.otlp]`.

use gw_telemetry::{OtlpProtocol, OtlpSettings, SemanticGeneration};

use super::super::binding::{Form, field, words};
use super::super::formats::{BASE_URL, HEADER, HEADER_VALUE, LABEL};
use super::super::schema::{Kind, Section, key, required_setting, setting, words_of};

pub(super) static TELEMETRY: Section = Section {
    doc: "Traces of requests, which the gateway sends to a collector.",
    keys: &[key(
        "otlp",
        Kind::Table(&OTLP),
        "",
        "The collector of traces. Without this section no traces are written.",
    )],
};

static OTLP: Section = Section {
    doc: "An OpenTelemetry collector that gets the spans of requests. A collector that does not answer costs spans, never requests.",
    keys: &[
        required_setting(
            "endpoint",
            Kind::Text(&BASE_URL),
            field!(OtlpSettings, endpoint, Form::TEXT),
            "The collector's address, such as `http://127.0.0.1:4318` (HTTP) or `http://127.0.0.1:4317` (gRPC). HTTP calls go to `/v1/traces` behind it.",
        ),
        words_of(
            "protocol",
            words!(OtlpSettings, protocol, "http" | "http/protobuf" => OtlpProtocol::Http, "grpc" => OtlpProtocol::Grpc),
            "`http` sends protobuf over HTTP.",
        ),
        setting(
            "headers",
            Kind::Map { key: &HEADER, of: &Kind::Secret(&HEADER_VALUE) },
            field!(OtlpSettings, headers, Form::HEADERS),
            "Headers of every call to the collector, such as `authorization`.",
        ),
        setting(
            "ca_file",
            Kind::Path,
            field!(OtlpSettings, ca_file, Form::OPTIONAL_FILE),
            "A PEM file with certificates for `https://`, trusted besides those of the machine.",
        ),
        setting(
            "sample_ratio",
            Kind::Number { min: 0.0, max: 1.0 },
            field!(OtlpSettings, sample_ratio, Form::RATIO),
            "The part of the requests that are traced. A request with a `traceparent` follows the decision of its caller.",
        ),
        setting(
            "content",
            Kind::Bool,
            field!(OtlpSettings, content, Form::BOOL),
            "Whether spans have prompts and answers. Emails, phone numbers, card numbers and secrets are masked, and media are cut.",
        ),
        words_of(
            "compat",
            words!(OtlpSettings, langfuse, "none" => false, "langfuse" => true),
            "`langfuse` adds attributes with the names that Langfuse reads.",
        ),
        words_of(
            "semantic_conventions",
            words!(OtlpSettings, generation, "1.41" => SemanticGeneration::V1_41, "next" => SemanticGeneration::Next),
            "The release of OpenTelemetry's semantic conventions that names the `gen_ai.*` attributes. `next` has the renames that are not released yet.",
        ),
        setting(
            "service_name",
            Kind::Text(&LABEL),
            field!(OtlpSettings, service_name, Form::TEXT),
            "The attribute `service.name`.",
        ),
        setting(
            "timeout_ms",
            Kind::Int { min: 100, max: 60_000 },
            field!(OtlpSettings, timeout, Form::MILLIS),
            "The longest time of a call to the collector.",
        ),
    ],
};
