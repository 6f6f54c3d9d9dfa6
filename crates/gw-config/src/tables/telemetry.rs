//! `[telemetry.otlp]`.

use super::super::formats::{BASE_URL, HEADER, HEADER_VALUE, LABEL};
use super::super::schema::{Kind, Section, key, required};

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
        required(
            "endpoint",
            Kind::Text(&BASE_URL),
            "The collector's address, such as `http://127.0.0.1:4318` (HTTP) or `http://127.0.0.1:4317` (gRPC). HTTP calls go to `/v1/traces` behind it.",
        ),
        key(
            "protocol",
            Kind::Choice(&[("http", &["http/protobuf"]), ("grpc", &[])]),
            "\"http\"",
            "`http` sends protobuf over HTTP.",
        ),
        key(
            "headers",
            Kind::Map { key: &HEADER, of: &Kind::Secret(&HEADER_VALUE) },
            "",
            "Headers of every call to the collector, such as `authorization`.",
        ),
        key(
            "ca_file",
            Kind::Path,
            "",
            "A PEM file with certificates for `https://`, trusted besides those of the machine.",
        ),
        key(
            "sample_ratio",
            Kind::Number { min: 0.0, max: 1.0 },
            "1.0",
            "The part of the requests that are traced. A request with a `traceparent` follows the decision of its caller.",
        ),
        key(
            "content",
            Kind::Bool,
            "false",
            "Whether spans have prompts and answers. Emails, phone numbers, card numbers and secrets are masked, and media are cut.",
        ),
        key(
            "compat",
            Kind::Choice(&[("none", &[]), ("langfuse", &[])]),
            "\"none\"",
            "`langfuse` adds attributes with the names that Langfuse reads.",
        ),
        key(
            "semantic_conventions",
            Kind::Choice(&[("1.41", &[]), ("next", &[])]),
            "\"1.41\"",
            "The release of OpenTelemetry's semantic conventions that names the `gen_ai.*` attributes. `next` has the renames that are not released yet.",
        ),
        key("service_name", Kind::Text(&LABEL), "\"model-gateway\"", "The attribute `service.name`."),
        key(
            "timeout_ms",
            Kind::Int { min: 100, max: 60_000 },
            "10000",
            "The longest time of a call to the collector.",
        ),
    ],
};
