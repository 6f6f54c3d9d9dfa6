//! `[server]`.

use gw_engine::settings::ImageFetchSettings;
use gw_server::TlsSettings;
use gw_server::client_address::{AddressRange, ForwardedHeader};
use gw_server::settings::ServerSettings;
use gw_wire::request::RequestLimits;

use super::super::binding::{Form, field, list, texts, words};
use super::super::formats::{LISTEN, NAMED_ORIGIN, ORIGIN, RANGE};
use super::super::schema::{Kind, Section, key, required_setting, setting, setting_or, words_of};
use super::super::settings::Config;
use super::kinds::MILLISECONDS;

const NAMED_ORIGINS: Kind = Kind::List { of: &Kind::Text(&NAMED_ORIGIN), min: 0 };
const ORIGINS: Kind = Kind::List { of: &Kind::Text(&ORIGIN), min: 0 };

const RANGES: Kind = Kind::List { of: &Kind::Text(&RANGE), min: 0 };

/// A list of address ranges, which [`RANGE`] has checked.
const ADDRESSES: Form<Vec<AddressRange>> = Form {
    read: |value| Some(texts(value)?.iter().filter_map(|range| range.parse().ok()).collect()),
    write: |ranges| list(&ranges.iter().map(ToString::to_string).collect::<Vec<_>>()),
};

pub(super) static SERVER: Section = Section {
    doc: "The listeners and their limits.",
    keys: &[
        setting(
            "listen",
            Kind::Text(&LISTEN),
            field!(ServerSettings, listen, Form::TEXT),
            "The address of `/v1`, the probes and the metrics. An address that other machines can reach needs a key.",
        ),
        setting(
            "admin_listen",
            Kind::Text(&LISTEN),
            field!(ServerSettings, admin_listen, Form::OPTIONAL_TEXT),
            "The address of a second listener. It serves everything except `/v1`; the first one then serves only `/v1` and the probes.",
        ),
        setting_or(
            "data_dir",
            Kind::Path,
            field!(Config, data_dir, Form::OPTIONAL_FILE),
            "`$MODEL_GATEWAY_DATA_DIR`, `/data`, or `$XDG_DATA_HOME/model-gateway`",
            "The directory of the keys, the usage, the request log, the journal and the key that seals reasoning. Each start logs its path, and a warning when another running gateway uses it.",
        ),
        setting(
            "body_limit_mib",
            Kind::Int { min: 1, max: 1024 },
            field!(ServerSettings, body_limit, Form::MIB),
            "The largest request body in MiB, before and after decompression.",
        ),
        setting(
            "upload_limit_mib",
            Kind::Int { min: 1, max: 1_048_576 },
            field!(ServerSettings, upload_limit, Form::MIB),
            "The largest upload in MiB: a form with a recording or with images, or a request body that is not JSON on a pass-through route.",
        ),
        setting_or(
            "body_memory_mib",
            Kind::Int { min: 1, max: 1_048_576 },
            field!(ServerSettings, body_memory, Form::OPTIONAL_MIB),
            "`192`, or four times `body_limit_mib` if that is more; in a container at most an eighth of its memory",
            "The most memory in MiB of all request bodies over 64 KiB together. Further bodies get 503 at once, and so do bodies beyond the share of their key. The process takes about four times this for them.",
        ),
        setting(
            "max_connections",
            Kind::Int { min: 1, max: 1_000_000 },
            field!(ServerSettings, max_connections, Form::INT),
            "The most open client connections of each listener. Further ones get 503 at once, and over TLS they are closed.",
        ),
        setting(
            "max_connections_per_address",
            Kind::Int { min: 1, max: 1_000_000 },
            field!(ServerSettings, max_connections_per_address, Form::OPTIONAL_INT),
            "The most open connections of one client; without it there is no limit. A client is an IPv4 address or the first 64 bits of an IPv6 address. Further ones are closed at once. Trusted proxies have no such limit.",
        ),
        setting(
            "bad_keys_per_minute",
            Kind::Int { min: 0, max: 1_000_000_000 },
            field!(ServerSettings, bad_keys_per_minute, Form::INT_OR_NONE),
            "The most requests without a correct key from one client address in a minute. Further ones get 429 with `retry-after` instead of 401. Requests with a correct key are always served. 0 = no limit.",
        ),
        setting(
            "max_websockets",
            Kind::Int { min: 1, max: 1_000_000 },
            field!(ServerSettings, max_sockets, Form::INT),
            "The most open WebSockets. A key may have half of the places that other keys leave. Further handshakes get 429 or 503.",
        ),
        setting(
            "websocket_idle_seconds",
            Kind::Int { min: 1, max: 86_400 },
            field!(ServerSettings, socket_idle, Form::SECONDS),
            "The longest time that a WebSocket may have no turn; then it is closed.",
        ),
        setting(
            "realtime_session_seconds",
            Kind::Int { min: 1, max: 86_400 },
            field!(ServerSettings, realtime_session, Form::SECONDS),
            "The longest time of a realtime session; then it is closed.",
        ),
        setting(
            "trusted_proxies",
            RANGES,
            field!(ServerSettings, trusted_proxies.ranges, ADDRESSES),
            "The addresses of proxies that may tell the address of their clients, such as `[\"10.0.0.0/8\"]`. The client is the last address in their header that is no trusted proxy.",
        ),
        words_of(
            "forwarded_header",
            words!(
                ServerSettings,
                trusted_proxies.header,
                "x-forwarded-for" => ForwardedHeader::XForwardedFor,
                "forwarded" => ForwardedHeader::Forwarded
            ),
            "The header of trusted proxies that tells the client's address. Only its last line counts, and other headers are ignored. The proxy must write this header itself.",
        ),
        setting(
            "proxy_protocol",
            Kind::Bool,
            field!(ServerSettings, proxy_protocol, Form::BOOL),
            "Whether connections of trusted proxies begin with a header of the PROXY protocol, version 1 or 2. Those without it are closed.",
        ),
        setting(
            "max_in_flight",
            Kind::Int { min: 1, max: 1_000_000 },
            field!(ServerSettings, max_in_flight, Form::INT),
            "The most requests in flight. Further requests get 503 at once.",
        ),
        setting(
            "shed_after_ms",
            Kind::Int { min: 0, max: 60_000 },
            field!(ServerSettings, shed_after, Form::MILLIS),
            "A generation request that has waited longer for its worker gets 503. No forecast is made: a request is held until it has really waited this long. 0 = never.",
        ),
        setting(
            "keepalive_seconds",
            Kind::Int { min: 0, max: 3600 },
            field!(ServerSettings, keepalive, Form::SECONDS_OR_NONE),
            "The time between two SSE comments while the upstream of a stream is silent. 0 = no comments.",
        ),
        setting(
            "head_timeout_ms",
            MILLISECONDS,
            field!(ServerSettings, head_timeout, Form::MILLIS),
            "The longest time for a request head, and from accept to the first byte.",
        ),
        setting(
            "body_timeout_ms",
            MILLISECONDS,
            field!(ServerSettings, body_timeout, Form::MILLIS),
            "The longest pause in a request body; then the answer is 408. After four times this, the body must also have arrived at 16 KiB per second.",
        ),
        setting(
            "send_timeout_ms",
            MILLISECONDS,
            field!(ServerSettings, send_timeout, Form::MILLIS),
            "The longest time that a client may read nothing while bytes wait for it; then its connection is closed. It must take a whole answer within this time plus one second for each 16 KiB.",
        ),
        setting(
            "fetch_images",
            Kind::Bool,
            field!(ImageFetchSettings, is_on, Form::BOOL),
            "Whether the gateway fetches http(s) image URLs for providers that take only bytes (Bedrock, Ollama, Claude on Vertex AI), from public addresses only. Other providers get the URL.",
        ),
        setting(
            "fetch_images_networks",
            RANGES,
            field!(ImageFetchSettings, networks, ADDRESSES),
            "The networks with private image servers, such as `[\"10.1.0.0/16\"]`: images are fetched from their addresses, too. Link-local addresses and metadata services are never called.",
        ),
        setting(
            "fetch_images_max_mib",
            Kind::Int { min: 1, max: 1024 },
            field!(ImageFetchSettings, max_bytes, Form::MIB),
            "The largest image in MiB. All images of a request together may have as many bytes in base64 as a body.",
        ),
        setting(
            "fetch_images_timeout_ms",
            MILLISECONDS,
            field!(ImageFetchSettings, timeout, Form::MILLIS),
            "The longest time for all images of a request.",
        ),
        setting(
            "drain_seconds",
            Kind::Int { min: 0, max: 3600 },
            field!(ServerSettings, drain, Form::SECONDS),
            "The longest time for live streams and responses in the background to finish after SIGTERM.",
        ),
        setting(
            "shutdown_delay_seconds",
            Kind::Int { min: 0, max: 3600 },
            field!(ServerSettings, drain_delay, Form::SECONDS),
            "The time after SIGTERM in which `/readyz` fails and everything is still served, so that load balancers go elsewhere first. `drain_seconds` begin after it.",
        ),
        setting(
            "cors_origins",
            ORIGINS,
            field!(ServerSettings, cors_origins, Form::TEXTS),
            "The web pages that may call `/v1`, the probes, `/openapi.json` and `/docs`. `[]` = none.",
        ),
        setting(
            "admin_cors_origins",
            NAMED_ORIGINS,
            field!(ServerSettings, admin_cors_origins, Form::TEXTS),
            "The web pages of other origins that may call `/admin/v1` and `/metrics`.",
        ),
        setting(
            "console_origins",
            NAMED_ORIGINS,
            field!(ServerSettings, console_origins, Form::TEXTS),
            "Further addresses at which browsers reach the console, such as `[\"https://gateway.lan:8443\"]`. Loopback names, the host of `listen` and `identity.public_url` need no entry. Sign-ins and sessions under another host are refused, so that no DNS name of a stranger leads to the gateway.",
        ),
        setting(
            "reload_on_change",
            Kind::Bool,
            field!(Config, reload_on_change, Form::BOOL),
            "Whether the gateway loads this file again when it changes. SIGHUP and `POST /admin/v1/reload` always load it.",
        ),
        setting(
            "tls",
            Kind::Table(&TLS),
            field!(ServerSettings, tls, Form::OPTIONAL_TABLE),
            "The certificate for HTTPS.",
        ),
        key("request_limits", Kind::Table(&REQUEST_LIMITS), "", "Limits on the structure of one request."),
    ],
};

/// A count of something in a request.
const COUNT: Kind = Kind::Int { min: 1, max: 100_000_000 };

static REQUEST_LIMITS: Section = Section {
    doc: "Limits on the structure of one request. A request beyond a limit gets 400. The limits bound the work that a small body \
          can cause. Raise one when an honest request reaches it.",
    keys: &[
        setting("max_messages", COUNT, field!(RequestLimits, max_messages, Form::INT), "Messages of a chat."),
        setting(
            "max_content_parts",
            COUNT,
            field!(RequestLimits, max_content_parts, Form::INT),
            "Content parts of all messages together.",
        ),
        setting(
            "max_tool_calls",
            COUNT,
            field!(RequestLimits, max_tool_calls, Form::INT),
            "Tool calls of all messages together.",
        ),
        setting(
            "max_tools",
            COUNT,
            field!(RequestLimits, max_tools, Form::INT),
            "Tools. Some providers take fewer ([providers.md](providers.md)).",
        ),
        setting(
            "max_schema_nodes",
            COUNT,
            field!(RequestLimits, max_schema_nodes, Form::INT),
            "JSON values in all JSON Schemas together: the parameters of the tools and `response_format`.",
        ),
        setting(
            "max_schema_depth",
            Kind::Int { min: 1, max: 128 },
            field!(RequestLimits, max_schema_depth, Form::INT),
            "Nested arrays and objects in one JSON Schema.",
        ),
        setting(
            "max_members",
            COUNT,
            field!(RequestLimits, max_members, Form::INT),
            "Members of the body's outermost object.",
        ),
        setting(
            "max_values",
            COUNT,
            field!(RequestLimits, max_values, Form::INT),
            "JSON values in the body. Numbers in arrays, such as token ids, do not count.",
        ),
    ],
};

static TLS: Section = Section {
    doc: "The certificate for HTTPS, as PEM files. The gateway reads the files again at each reload, and looks at them every 30 seconds.",
    keys: &[
        required_setting("cert", Kind::Path, field!(TlsSettings, cert, Form::FILE), "The certificate chain."),
        required_setting("key", Kind::Path, field!(TlsSettings, key, Form::FILE), "The private key."),
        setting(
            "client_ca",
            Kind::Path,
            field!(TlsSettings, client_ca, Form::OPTIONAL_FILE),
            "The certificates of the authorities that sign the certificates of clients. Without it clients are asked for no certificate.",
        ),
        words_of(
            "client_certificate",
            words!(TlsSettings, is_client_certificate_optional, "required" => false, "optional" => true),
            "Whether a client must have a certificate of `client_ca`. A client with any other certificate is never served. Gateway keys are checked as well.",
        ),
    ],
};
