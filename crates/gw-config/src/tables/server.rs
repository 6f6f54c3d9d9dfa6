//! `[server]`.

use super::super::formats::{LISTEN, NAMED_ORIGIN, ORIGIN, RANGE};
use super::super::schema::{Kind, Section, key, required};
use super::kinds::MILLISECONDS;

const NAMED_ORIGINS: Kind = Kind::List { of: &Kind::Text(&NAMED_ORIGIN), min: 0 };
const ORIGINS: Kind = Kind::List { of: &Kind::Text(&ORIGIN), min: 0 };

const RANGES: Kind = Kind::List { of: &Kind::Text(&RANGE), min: 0 };

pub(super) static SERVER: Section = Section {
    doc: "The listeners and their limits.",
    keys: &[
        key(
            "listen",
            Kind::Text(&LISTEN),
            "\"127.0.0.1:4000\"",
            "The address of `/v1`, the probes and the metrics. An address that other machines can reach needs a key.",
        ),
        key(
            "admin_listen",
            Kind::Text(&LISTEN),
            "",
            "The address of a second listener. It serves everything except `/v1`; the first one then serves only `/v1` and the probes.",
        ),
        key(
            "data_dir",
            Kind::Path,
            "`$MODEL_GATEWAY_DATA_DIR`, `/data`, or `$XDG_DATA_HOME/model-gateway`",
            "The directory of the keys, the usage, the request log, the journal and the key that seals reasoning. Each start logs its path, and a warning when another running gateway uses it.",
        ),
        key(
            "body_limit_mib",
            Kind::Int { min: 1, max: 1024 },
            "32",
            "The largest request body in MiB, before and after decompression.",
        ),
        key(
            "body_memory_mib",
            Kind::Int { min: 1, max: 1_048_576 },
            "`192`, or four times `body_limit_mib` if that is more; in a container at most an eighth of its memory",
            "The most memory in MiB of all request bodies over 64 KiB together. Further bodies get 503 at once, and so do bodies beyond the share of their key. The process takes about four times this for them.",
        ),
        key(
            "max_connections",
            Kind::Int { min: 1, max: 1_000_000 },
            "65536",
            "The most open client connections of each listener. Further ones get 503 at once, and over TLS they are closed.",
        ),
        key(
            "max_connections_per_address",
            Kind::Int { min: 1, max: 1_000_000 },
            "",
            "The most open connections of one client; without it there is no limit. A client is an IPv4 address or the first 64 bits of an IPv6 address. Further ones are closed at once. Trusted proxies have no such limit.",
        ),
        key(
            "bad_keys_per_minute",
            Kind::Int { min: 0, max: 1_000_000_000 },
            "1000",
            "The most requests without a correct key from one client address in a minute. Further ones get 429 with `retry-after` instead of 401. Requests with a correct key are always served. 0 = no limit.",
        ),
        key(
            "trusted_proxies",
            RANGES,
            "[]",
            "The addresses of proxies that may tell the address of their clients, such as `[\"10.0.0.0/8\"]`. The client is the last address in their header that is no trusted proxy.",
        ),
        key(
            "forwarded_header",
            Kind::Choice(&[("x-forwarded-for", &[]), ("forwarded", &[])]),
            "\"x-forwarded-for\"",
            "The header of trusted proxies that tells the client's address. Only its last line counts, and other headers are ignored. The proxy must write this header itself.",
        ),
        key(
            "proxy_protocol",
            Kind::Bool,
            "false",
            "Whether connections of trusted proxies begin with a header of the PROXY protocol, version 1 or 2. Those without it are closed.",
        ),
        key(
            "max_in_flight",
            Kind::Int { min: 1, max: 1_000_000 },
            "4096",
            "The most requests in flight. Further requests get 503 at once.",
        ),
        key(
            "shed_after_ms",
            Kind::Int { min: 0, max: 60_000 },
            "1000",
            "A generation request that has waited longer for its worker gets 503. No forecast is made: a request is held until it has really waited this long. 0 = never.",
        ),
        key(
            "keepalive_seconds",
            Kind::Int { min: 0, max: 3600 },
            "15",
            "The time between two SSE comments while the upstream of a stream is silent. 0 = no comments.",
        ),
        key(
            "head_timeout_ms",
            MILLISECONDS,
            "10000",
            "The longest time for a request head, and from accept to the first byte.",
        ),
        key(
            "body_timeout_ms",
            MILLISECONDS,
            "30000",
            "The longest pause in a request body; then the answer is 408. After four times this, the body must also have arrived at 16 KiB per second. A client must take a whole answer within 60 seconds plus one second for each 16 KiB.",
        ),
        key(
            "fetch_images",
            Kind::Bool,
            "false",
            "Whether the gateway fetches http(s) image URLs for providers that take only bytes.",
        )
        .later_unless("false", "this version does not fetch images for providers"),
        key(
            "drain_seconds",
            Kind::Int { min: 0, max: 3600 },
            "30",
            "The longest time for live streams and responses in the background to finish after SIGTERM.",
        ),
        key(
            "shutdown_delay_seconds",
            Kind::Int { min: 0, max: 3600 },
            "0",
            "The time after SIGTERM in which `/readyz` fails and everything is still served, so that load balancers go elsewhere first. `drain_seconds` begin after it.",
        ),
        key(
            "cors_origins",
            ORIGINS,
            "[\"*\"]",
            "The web pages that may call `/v1`, the probes, `/openapi.json` and `/docs`. `[]` = none.",
        ),
        key(
            "admin_cors_origins",
            NAMED_ORIGINS,
            "[]",
            "The web pages of other origins that may call `/admin/v1` and `/metrics`.",
        ),
        key(
            "reload_on_change",
            Kind::Bool,
            "true",
            "Whether the gateway loads this file again when it changes. SIGHUP and `POST /admin/v1/reload` always load it.",
        ),
        key("tls", Kind::Table(&TLS), "", "The certificate for HTTPS."),
        key("request_limits", Kind::Table(&REQUEST_LIMITS), "", "Limits on the structure of one request."),
    ],
};

/// A count of something in a request.
const COUNT: Kind = Kind::Int { min: 1, max: 100_000_000 };

static REQUEST_LIMITS: Section = Section {
    doc: "Limits on the structure of one request. A request beyond a limit gets 400. The limits bound the work that a small body \
          can cause. Raise one when an honest request reaches it.",
    keys: &[
        key("max_messages", COUNT, "20000", "Messages of a chat."),
        key("max_content_parts", COUNT, "20000", "Content parts of all messages together."),
        key("max_tool_calls", COUNT, "10000", "Tool calls of all messages together."),
        key("max_tools", COUNT, "4096", "Tools. Some providers take fewer ([providers.md](providers.md))."),
        key(
            "max_schema_nodes",
            COUNT,
            "100000",
            "JSON values in all JSON Schemas together: the parameters of the tools and `response_format`.",
        ),
        key(
            "max_schema_depth",
            Kind::Int { min: 1, max: 128 },
            "64",
            "Nested arrays and objects in one JSON Schema.",
        ),
        key("max_members", COUNT, "1024", "Members of the body's outermost object."),
        key(
            "max_values",
            COUNT,
            "1000000",
            "JSON values in the body. Numbers in arrays, such as token ids, do not count.",
        ),
    ],
};

static TLS: Section = Section {
    doc: "The certificate for HTTPS, as PEM files. The gateway reads the files again at each reload, and looks at them every 30 seconds.",
    keys: &[
        required("cert", Kind::Path, "The certificate chain."),
        required("key", Kind::Path, "The private key."),
        key(
            "client_ca",
            Kind::Path,
            "",
            "The certificates of the authorities that sign the certificates of clients. Without it clients are asked for no certificate.",
        ),
        key(
            "client_certificate",
            Kind::Choice(&[("required", &[]), ("optional", &[])]),
            "\"required\"",
            "Whether a client must have a certificate of `client_ca`. A client with any other certificate is never served. Gateway keys are checked as well.",
        ),
    ],
};
