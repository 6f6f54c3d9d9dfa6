//! The one table of everything gateway.toml can say: [`super::walk`] checks against it, docs/config.md is made of it.

use super::formats::{ALIAS, LABEL, LISTEN, MODEL_ID, NAMED_ORIGIN, ORIGIN, REDIS_URL, STORE_URL, WORD};
use super::schema::{Kind, Section, Word, key, required};
use gw_wire::strategy::Strategy;

mod entries;

#[cfg(test)]
pub(super) use entries::APIS;
use entries::{KEY, MODEL, PROVIDER_ENTRY};

/// The sections whose scalar keys an environment variable can set.
pub(super) const FROM_ENVIRONMENT: [&str; 6] = ["server", "timeouts", "store", "redis", "cache", "routing"];

/// Milliseconds of a clock; up to a day.
const MILLISECONDS: Kind = Kind::Int { min: 1, max: 86_400_000 };
/// A part of a hundred.
pub(super) const PERCENT: Kind = Kind::Number { min: 0.0, max: 100.0 };

const NAMED_ORIGINS: Kind = Kind::List { of: &Kind::Text(&NAMED_ORIGIN), min: 0 };
const ORIGINS: Kind = Kind::List { of: &Kind::Text(&ORIGIN), min: 0 };

/// The strategies, each with its aliases.
#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where a wrong index is an error")]
pub(super) static STRATEGIES: [Word; Strategy::ALL.len()] = {
    let mut words: [Word; Strategy::ALL.len()] = [("", &[]); Strategy::ALL.len()];
    let mut at = 0;
    while at < words.len() {
        if let [canonical, aliases @ ..] = Strategy::ALL[at].names() {
            words[at] = (canonical, aliases);
        }
        at += 1;
    }
    words
};

/// The whole file.
pub(super) static ROOT: Section = Section {
    doc: "",
    keys: &[
        key("server", Kind::Table(&SERVER), "", ""),
        key("timeouts", Kind::Table(&TIMEOUTS), "", ""),
        key("store", Kind::Table(&STORE), "", ""),
        key("redis", Kind::Table(&REDIS), "", ""),
        key("cache", Kind::Table(&CACHE), "", ""),
        key("routing", Kind::Table(&ROUTING), "", ""),
        key("providers", Kind::Tables(&PROVIDER_ENTRY), "", ""),
        key("models", Kind::Tables(&MODEL), "", ""),
        key(
            "aliases",
            Kind::Either(&Kind::Map { key: &ALIAS, of: &TARGETS }, &Kind::Tables(&ALIAS_ENTRY)),
            "",
            "Names that stand for models, as `\"gpt-4o\" = \"acme/fast\"` or `\"fast\" = [\"acme/fast\", \"beta/quick\"]`. Of several \
             models the strategy chooses, as for a bare name that several providers share.",
        ),
        key("keys", Kind::Tables(&KEY), "", ""),
    ],
};

/// What an alias stands for.
const TARGETS: Kind = Kind::Either(&Kind::Text(&WORD), &Kind::List { of: &Kind::Text(&WORD), min: 1 });

static ALIAS_ENTRY: Section = Section {
    doc: "Aliases as tables. A file has either `[aliases]` or `[[aliases]]`.",
    keys: &[
        required("name", Kind::Text(&ALIAS), "As clients write it; it may hold a `/`."),
        required(
            "targets",
            TARGETS,
            "The models that it stands for: ids, bare names, or other aliases of `[aliases]`.",
        ),
    ],
};

static SERVER: Section = Section {
    doc: "The listener and its limits.",
    keys: &[
        key(
            "listen",
            Kind::Text(&LISTEN),
            "\"127.0.0.1:4000\"",
            "The address of `/v1`, the probes and the metrics. An address that is not loopback needs a key.",
        ),
        key(
            "admin_listen",
            Kind::Text(&LISTEN),
            "",
            "Moves everything but `/v1` and the probes to a listener of its own.",
        ),
        key(
            "data_dir",
            Kind::Path,
            "`$MODEL_GATEWAY_DATA_DIR`, `/data`, or `$XDG_DATA_HOME/model-gateway`",
            "The directory with keys, usage, the request log and the journal. Each start logs its path, and a warning when another running gateway uses it.",
        ),
        key(
            "body_limit_mib",
            Kind::Int { min: 1, max: 1024 },
            "32",
            "The largest request body, as sent and decompressed.",
        ),
        key("max_connections", Kind::Int { min: 1, max: 1_000_000 }, "65536", "Open client connections."),
        key(
            "max_in_flight",
            Kind::Int { min: 1, max: 1_000_000 },
            "4096",
            "Requests being answered; one more gets 503 at once.",
        ),
        key(
            "shed_after_ms",
            Kind::Int { min: 0, max: 60_000 },
            "20",
            "A generation request whose expected wait for CPU time is longer gets 503 at once. In a burst of at most 100 ms the limit is five times as high. 0 = never.",
        ),
        key(
            "keepalive_seconds",
            Kind::Int { min: 0, max: 3600 },
            "15",
            "How often a stream whose upstream is silent gets an SSE comment; 0 = never.",
        ),
        key(
            "head_timeout_ms",
            MILLISECONDS,
            "10000",
            "For a request's head, and from accept to the first byte.",
        ),
        key(
            "body_timeout_ms",
            MILLISECONDS,
            "30000",
            "Without progress in a request's body: 408. Beyond four times this, a body must have come at 16 KiB a second. A whole answer must be taken within 60 seconds plus one second for each 16 KiB.",
        ),
        key(
            "fetch_images",
            Kind::Bool,
            "false",
            "Fetch http(s) image URLs for providers that take only bytes.",
        )
        .later_unless("false", "fetching images for providers is not in this version"),
        key(
            "drain_seconds",
            Kind::Int { min: 0, max: 3600 },
            "30",
            "How long live streams may go on after SIGTERM.",
        ),
        key(
            "cors_origins",
            ORIGINS,
            "[\"*\"]",
            "The web pages that may call `/v1`, the probes, `/openapi.json` and `/docs`; `[]` = none.",
        ),
        key(
            "admin_cors_origins",
            NAMED_ORIGINS,
            "[]",
            "The web pages of other origins that may call `/admin/v1` and `/metrics`.",
        ),
        key("tls", Kind::Table(&TLS), "", "Serve HTTPS with these PEM files."),
        key("request_limits", Kind::Table(&REQUEST_LIMITS), "", "How much structure one request may have."),
    ],
};

/// A count of something in a request.
const COUNT: Kind = Kind::Int { min: 1, max: 100_000_000 };

static REQUEST_LIMITS: Section = Section {
    doc: "How much structure one request may have. A request beyond a limit gets 400. The limits bound the work that a small \
          body can ask for; raise one when an honest request reaches it.",
    keys: &[
        key("max_messages", COUNT, "20000", "Messages of a chat."),
        key("max_content_parts", COUNT, "20000", "Content parts of all messages together."),
        key("max_tool_calls", COUNT, "10000", "Tool calls of all messages together."),
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
            "Levels of arrays and objects in one JSON Schema.",
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
    doc: "A certificate and its key.",
    keys: &[
        required("cert", Kind::Path, "The certificate chain."),
        required("key", Kind::Path, "The private key."),
    ],
};

pub(super) static TIMEOUTS: Section = Section {
    doc: "The clocks of an upstream call. Each can be set again on a provider or a model.",
    keys: &[
        key("connect_ms", MILLISECONDS, "5000", "TCP and TLS."),
        key(
            "first_token_ms",
            MILLISECONDS,
            "120000",
            "From the request sent to the first token, or to the head of an answer that is not streamed.",
        ),
        key("idle_ms", MILLISECONDS, "120000", "Between two pieces of a stream."),
        key("total_ms", MILLISECONDS, "600000", "The whole request with all its attempts."),
    ],
};

static STORE: Section = Section {
    doc: "Where keys and spending are kept.",
    keys: &[
        key(
            "url",
            Kind::Secret(&STORE_URL),
            "`gateway.db` in the data directory",
            "`sqlite:///path`, or `postgres://user:password@host/database` when several replicas share it.",
        ),
        key(
            "start_timeout_seconds",
            Kind::Int { min: 0, max: 86_400 },
            "60",
            "How long a start waits for a PostgreSQL server that cannot be reached.",
        ),
        key(
            "retention_days",
            Kind::Int { min: 0, max: 36_500 },
            "90",
            "How long the row of a request is kept; 0 = for ever. The sums of usage are always kept.",
        ),
        key(
            "progress_tokens",
            Kind::Int { min: 1, max: 1_000_000 },
            "256",
            "While a stream goes on, the gateway notes in the journal what it has used, every so many tokens and at least at \
             every twentieth of what was set aside. A killed process charges at most so much too little.",
        ),
        key("payloads", Kind::Table(&PAYLOADS), "", "What is done with payloads."),
    ],
};

static PAYLOADS: Section = Section {
    doc: "What requests and answers say is stored for keys with `log_payloads = true`, and for no others. Bytes in them \
          (images, sound, files) are replaced by their size whatever is set here.",
    keys: &[
        key(
            "redact",
            Kind::List { of: &Kind::Choice(&MASKS), min: 0 },
            "[\"email\", \"phone\", \"card\", \"secret\"]",
            "What is masked before anything is stored, as far as its form shows what it is; `[]` = nothing.",
        ),
        key(
            "retention_days",
            Kind::Int { min: 1, max: 36_500 },
            "30",
            "How long payloads are kept, and never longer than the row of their request.",
        ),
        key(
            "max_kib",
            Kind::Int { min: 1, max: 4096 },
            "256",
            "What is kept of each body; a longer one is cut and says so.",
        ),
    ],
};

const MASKS: [Word; 4] = [("email", &[]), ("phone", &[]), ("card", &[]), ("secret", &[])];

static REDIS: Section = Section {
    doc: "Limits and budgets shared by replicas over one Redis or Valkey (no cluster); without this section each process \
          keeps its own.",
    keys: &[
        key("url", Kind::Secret(&REDIS_URL), "", "As `redis://127.0.0.1:6379/0`, or `rediss://` with TLS."),
        key("ca_file", Kind::Path, "", "Certificates (PEM) to trust besides the machine's, for `rediss://`."),
        key("prefix", Kind::Text(&WORD), "\"gw:\"", "What all keys in Redis begin with."),
        key(
            "timeout_ms",
            Kind::Int { min: 1, max: 10_000 },
            "50",
            "How long a request waits for Redis. After a few without an answer it counts as away, and no request waits.",
        ),
        key(
            "when_away",
            Kind::Choice(&[("local", &[]), ("closed", &[])]),
            "\"local\"",
            "While Redis is away, a key or team with a budget is refused. Other limits are counted by each replica, its \
             part of them (`local`), or refuse, too (`closed`).",
        ),
    ],
};

static CACHE: Section = Section {
    doc: "Answers to chats that ask for it (`cache.enabled` in the request), and to others where it is switched on here, kept for \
          each API key alone unless its team is in `shared_by_teams`.",
    keys: &[
        key("enabled", Kind::Bool, "true", "Whether requests may ask for it."),
        key("completions", Kind::Bool, "false", "Whether every text completion uses it."),
        key(
            "embeddings",
            Kind::Bool,
            "false",
            "Whether every embedding uses it: each input is kept by itself, and only those are asked for that are not there.",
        ),
        key(
            "backend",
            Kind::Choice(&[("memory", &[]), ("redis", &[])]),
            "\"memory\"",
            "Where it lies: in this process, or in the Redis of `[redis]`, for all replicas.",
        ),
        key("max_mib", Kind::Int { min: 1, max: 1_048_576 }, "256", "Its size in memory."),
        key(
            "default_ttl_seconds",
            Kind::Int { min: 1, max: 31_536_000 },
            "3600",
            "How long an answer stays when the request does not say.",
        ),
        key(
            "stale_if_error_seconds",
            Kind::Int { min: 0, max: 31_536_000 },
            "0",
            "How long beyond its time an answer is used when no upstream answers (marked in `gateway.warnings`); 0 = never.",
        ),
        key(
            "shared_by_teams",
            Kind::List { of: &Kind::Text(&LABEL), min: 0 },
            "[]",
            "Teams whose keys get each other's answers; all other keys have their own.",
        ),
        key("semantic", Kind::Tables(&SEMANTIC), "", ""),
    ],
};

static SEMANTIC: Section = Section {
    doc: "An alias whose similar questions are compared (docs/cache.md). Each look is an embeddings request of the key that asks.",
    keys: &[
        required("alias", Kind::Text(&ALIAS), "One of `[aliases]`, as clients write it."),
        required(
            "embedding_model",
            Kind::Text(&MODEL_ID),
            "The model that makes vectors. A key that may not use it has no part in this.",
        ),
        key(
            "mode",
            Kind::Choice(&[("shadow", &[]), ("answer", &[])]),
            "\"shadow\"",
            "`shadow` only counts what it would have answered: `GET /admin/v1/cache`.",
        ),
        key(
            "threshold",
            Kind::Number { min: 0.5, max: 1.0 },
            "0.97",
            "The least cosine of two questions that count as one.",
        ),
        key(
            "timeout_ms",
            Kind::Int { min: 1, max: 60_000 },
            "1000",
            "How long a request waits for its vector, when it waits for it.",
        ),
        key("max_mib", Kind::Int { min: 1, max: 65_536 }, "64", "The size of all vectors in memory."),
    ],
};

static ROUTING: Section = Section {
    doc: "Which target serves, and what happens when it fails.",
    keys: &[
        key("strategy", Kind::Choice(&STRATEGIES), "\"default\"", "The strategy of requests that name none."),
        key(
            "max_attempts",
            Kind::Int { min: 1, max: 100 },
            "4",
            "Upstream calls of one request, retries included.",
        ),
        key(
            "retries",
            Kind::Int { min: 0, max: 10 },
            "1",
            "Again on the same target, before its first byte.",
        ),
        key(
            "fallback_on_4xx",
            Kind::Bool,
            "false",
            "Whether any upstream error moves on to the next candidate.",
        ),
        key(
            "on_disconnect",
            Kind::Choice(&[("cancel", &[]), ("drain", &[])]),
            "\"cancel\"",
            "What becomes of the upstream call when its client goes away: dropped at once, or read to its end (30 s and \
             256 calls at most) for what it really used.",
        ),
        key(
            "mid_stream",
            Kind::Choice(&[("fail", &[]), ("continue", &[])]),
            "\"fail\"",
            "What a stream does whose upstream breaks off: `fail` ends it with the error event; `continue` lets the next \
             candidate go on with a plain text answer, told what was said so far (never inside tool calls or JSON).",
        ),
        key(
            "upgrade_max_price_ratio",
            Kind::Number { min: 1.0, max: 1_000_000.0 },
            "",
            "With `allow_upgrade`: an upgrade may cost so many times what the requested model costs (input and output price \
             per million together); without it, any price. With this key set, a model without a price is never an upgrade.",
        ),
        key("breaker", Kind::Table(&BREAKER), "", ""),
        key("hedge", Kind::Table(&HEDGE), "", ""),
        key("balanced", Kind::Table(&BALANCED), "", ""),
    ],
};

static BREAKER: Section = Section {
    doc: "When a failing target is left alone.",
    keys: &[
        key("failures", Kind::Int { min: 1, max: 10_000 }, "5", "Failures in a row that open it."),
        key(
            "cooldown_ms",
            MILLISECONDS,
            "10000",
            "How long it stays open, at first: a failed probe doubles it, up to eight times.",
        ),
        key(
            "ramp_ms",
            Kind::Int { min: 0, max: 86_400_000 },
            "10000",
            "After its recovery a target gets its share of the requests back over this time.",
        ),
    ],
};

/// A weight of `balanced`.
const WEIGHT: Kind = Kind::Number { min: 0.0, max: 1000.0 };

static BALANCED: Section = Section {
    doc: "What counts how much in the strategy `balanced`; see docs/routing.md for the formula.",
    keys: &[
        key("price", WEIGHT, "1", "The expected cost of the request."),
        key("latency", WEIGHT, "1", "The time to the first token."),
        key("quality", WEIGHT, "1", "The overall quality score."),
        key("availability", WEIGHT, "1", "The share of calls that failed."),
        key("load", WEIGHT, "0.5", "The calls in flight."),
    ],
};

static HEDGE: Section = Section {
    doc: "A second candidate is asked when the first is slow to begin its stream (or its embeddings; the first token of a whole \
          answer is not seen, so it is never hedged); off unless the section is there.",
    keys: &[
        key(
            "after",
            Kind::Either(&MILLISECONDS, &Kind::Choice(&[("p95", &[])])),
            "\"p95\"",
            "Milliseconds, or what 95 of 100 calls of that model need for their first token (once 20 were seen).",
        ),
        key(
            "max_extra_cost_percent",
            PERCENT,
            "5",
            "How much dearer it may make the traffic, beside one US cent to begin with; 0 = no hedges.",
        ),
    ],
};
