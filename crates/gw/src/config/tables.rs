//! The one table of everything gateway.toml can say: [`super::walk`] checks against it, docs/config.md is made of it.

use super::formats::{
    ALIAS, ANY, BASE_URL, CREDENTIAL, CURRENCY, HEADER, HEADER_VALUE, LABEL, LISTEN, MODEL_ID, ORIGIN, PATTERN,
    PROVIDER, REDIS_URL, STORE_URL, WORD,
};
use super::schema::{Key, Kind, Section, key, required};

/// The sections whose scalar keys an environment variable can set.
pub(super) const FROM_ENVIRONMENT: [&str; 6] = ["server", "timeouts", "store", "redis", "cache", "routing"];

/// Milliseconds of a clock; up to a day.
const MILLISECONDS: Kind = Kind::Int { min: 1, max: 86_400_000 };
/// Tokens that a model can see or say.
const TOKENS: Kind = Kind::Int { min: 1, max: 1_000_000_000 };
/// A part of a hundred.
const PERCENT: Kind = Kind::Number { min: 0.0, max: 100.0 };
/// Milliseconds that were measured.
const LATENCY: Kind = Kind::Number { min: 0.0, max: 86_400_000.0 };

const ORIGINS: Kind = Kind::List { of: &Kind::Text(&ORIGIN), min: 0 };
const CATEGORIES: Kind = Kind::List { of: &Kind::Text(&WORD), min: 0 };
const FEATURES: Kind = Kind::List { of: &Kind::Choice(&FEATURE_NAMES), min: 0 };
const MODALITIES: Kind = Kind::List { of: &Kind::Choice(&MODALITY_NAMES), min: 1 };
const DIMENSIONS: Kind = Kind::List { of: &Kind::Int { min: 1, max: 65_536 }, min: 1 };
const PATTERNS: Kind = Kind::List { of: &Kind::Text(&PATTERN), min: 1 };
const UPSTREAM_KEYS: Kind =
    Kind::List { of: &Kind::Either(&Kind::Secret(&CREDENTIAL), &Kind::Table(&UPSTREAM_KEY)), min: 1 };

/// A word without other spellings.
type Word = (&'static str, &'static [&'static str]);

/// Feature names of a model.
pub(super) static FEATURE_NAMES: [Word; 11] = [
    ("streaming", &[]),
    ("function_calling", &[]),
    ("parallel_function_calling", &[]),
    ("json_mode", &[]),
    ("json_schema", &[]),
    ("vision", &[]),
    ("reasoning", &[]),
    ("prompt_caching", &[]),
    ("audio", &[]),
    ("pdf", &[]),
    ("web_search", &[]),
];

static MODALITY_NAMES: [Word; 6] =
    [("text", &[]), ("image", &[]), ("audio", &[]), ("video", &[]), ("pdf", &[]), ("embedding", &[])];

/// The dialects, as `gw_providers::settings::Api` spells them.
pub(super) static APIS: [Word; 10] = [
    ("openai", &[]),
    ("azure", &[]),
    ("anthropic", &[]),
    ("gemini", &[]),
    ("vertex", &[]),
    ("bedrock", &[]),
    ("cohere", &[]),
    ("mistral", &[]),
    ("ollama", &[]),
    ("demo", &[]),
];

/// The strategies and their other names.
pub(super) static STRATEGIES: [Word; 9] = [
    ("default", &[]),
    ("cheapest", &["cost", "price", "lowest_cost"]),
    ("fastest", &["latency", "lowest_latency"]),
    ("throughput", &[]),
    ("best_quality", &["quality"]),
    ("balanced", &[]),
    ("availability", &[]),
    ("least_busy", &[]),
    ("round_robin", &["weighted"]),
];

/// The whole file.
pub(super) static ROOT: Section = Section {
    doc: "",
    keys: &[
        key("server", Kind::Table(&SERVER), "", ""),
        key("timeouts", Kind::Table(&TIMEOUTS), "", ""),
        key("store", Kind::Table(&STORE), "", ""),
        key("redis", Kind::Table(&REDIS), "", "")
            .later("sharing limits, budgets and cache between replicas is not in this version"),
        key("cache", Kind::Table(&CACHE), "", ""),
        key("routing", Kind::Table(&ROUTING), "", ""),
        key("providers", Kind::Tables(&PROVIDER_ENTRY), "", ""),
        key("models", Kind::Tables(&MODEL), "", ""),
        key("aliases", Kind::Map { key: &ALIAS, of: &Kind::Text(&WORD) }, "", ""),
        key("keys", Kind::Tables(&KEY), "", ""),
    ],
};

static SERVER: Section = Section {
    doc: "The listener and its limits.",
    keys: &[
        key("listen", Kind::Text(&LISTEN), "\"127.0.0.1:4000\"", "The address of `/v1`, the probes and the metrics. An address that is not loopback needs a key."),
        key("admin_listen", Kind::Text(&LISTEN), "", "Moves everything but `/v1` and the probes to a listener of its own."),
        key("data_dir", Kind::Path, "`$MODEL_GATEWAY_DATA_DIR`, `/data`, or `$XDG_DATA_HOME/model-gateway`", "Where the gateway keeps what it must remember."),
        key("body_limit_mib", Kind::Int { min: 1, max: 1024 }, "32", "The largest request body, as sent and decompressed."),
        key("max_connections", Kind::Int { min: 1, max: 1_000_000 }, "65536", "Open client connections."),
        key("max_in_flight", Kind::Int { min: 1, max: 1_000_000 }, "4096", "Requests being answered; one more gets 503 at once."),
        key("keepalive_seconds", Kind::Int { min: 0, max: 3600 }, "15", "How often a stream whose upstream is silent gets an SSE comment; 0 = never."),
        key("head_timeout_ms", MILLISECONDS, "10000", "For a request's head, and from accept to the first byte."),
        key("body_timeout_ms", MILLISECONDS, "30000", "Without progress in a request's body: 408."),
        key("fetch_images", Kind::Bool, "false", "Fetch http(s) image URLs for providers that take only bytes.")
            .later_unless("false", "fetching images for providers is not in this version"),
        key("drain_seconds", Kind::Int { min: 0, max: 3600 }, "30", "How long live streams may go on after SIGTERM."),
        key("cors_origins", ORIGINS, "[\"*\"]", "The web pages that may call the gateway; `[]` = none."),
        key("tls", Kind::Table(&TLS), "", "Serve HTTPS with these PEM files."),
    ],
};

static TLS: Section = Section {
    doc: "A certificate and its key.",
    keys: &[
        required("cert", Kind::Path, "The certificate chain."),
        required("key", Kind::Path, "The private key."),
    ],
};

static TIMEOUTS: Section = Section {
    doc: "The clocks of an upstream call. Each can be set again on a provider or a model.",
    keys: &[
        key("connect_ms", MILLISECONDS, "5000", "TCP and TLS."),
        key("first_token_ms", MILLISECONDS, "120000", "From the request sent to the first token, or to the head of an answer that is not streamed."),
        key("idle_ms", MILLISECONDS, "120000", "Between two pieces of a stream."),
        key("total_ms", MILLISECONDS, "600000", "The whole request with all its attempts."),
    ],
};

static STORE: Section = Section {
    doc: "Where keys and spending are kept.",
    keys: &[key("url", Kind::Secret(&STORE_URL), "`gateway.db` in the data directory", "`sqlite:///path`, or `postgres://…` when several replicas share it (a later version).")],
};

static REDIS: Section = Section {
    doc: "Limits, budgets, breaker state and cache shared by replicas; without this section each process keeps its own.",
    keys: &[key("url", Kind::Secret(&REDIS_URL), "", "As `redis://127.0.0.1:6379/0`.")],
};

static CACHE: Section = Section {
    doc: "The response cache. Until it is built, `enabled = false` is all that `serve` takes.",
    keys: &[
        key("enabled", Kind::Bool, "true", "Whether requests may ask for it."),
        key("backend", Kind::Choice(&[("memory", &[]), ("redis", &[])]), "\"memory\"", "Where it lies."),
        key("max_mib", Kind::Int { min: 1, max: 1_048_576 }, "256", "Its size."),
        key("default_ttl_seconds", Kind::Int { min: 1, max: 31_536_000 }, "3600", "How long an answer stays when the request does not say."),
    ],
};

static ROUTING: Section = Section {
    doc: "Which target serves, and what happens when it fails.",
    keys: &[
        key("strategy", Kind::Choice(&STRATEGIES), "\"default\"", "The strategy of requests that name none.")
            .later_unless("default", "this version routes by the 'default' strategy only"),
        key("max_attempts", Kind::Int { min: 1, max: 100 }, "4", "Upstream calls of one request, retries included."),
        key("retries", Kind::Int { min: 0, max: 10 }, "1", "Again on the same target, before its first byte."),
        key("fallback_on_4xx", Kind::Bool, "false", "Whether any upstream error moves on to the next candidate."),
        key("mid_stream", Kind::Choice(&[("fail", &[]), ("continue", &[])]), "\"fail\"", "What a stream does whose upstream breaks off; `continue` is for plain text.")
            .later_unless("fail", "continuing a broken stream is not in this version"),
        key("breaker", Kind::Table(&BREAKER), "", "")
            .later("the circuit breaker is not in this version"),
        key("hedge", Kind::Table(&HEDGE), "", "").later("hedged requests are not in this version"),
    ],
};

static BREAKER: Section = Section {
    doc: "When a failing target is left alone.",
    keys: &[
        key("failures", Kind::Int { min: 1, max: 10_000 }, "5", "Failures in a row that open it."),
        key("cooldown_ms", MILLISECONDS, "10000", "How long it stays open."),
    ],
};

static HEDGE: Section = Section {
    doc: "A second call when the first is slow; off unless the section is there.",
    keys: &[
        key("after", Kind::Either(&MILLISECONDS, &Kind::Choice(&[("p50", &[]), ("p75", &[]), ("p90", &[]), ("p95", &[]), ("p99", &[])])), "\"p95\"", "Milliseconds, or a percentile of what is usual."),
        key("max_extra_cost_percent", PERCENT, "5", "How much dearer it may make the traffic."),
    ],
};

static PROVIDER_ENTRY: Section = Section {
    doc: "A provider that the gateway can call.",
    keys: &[
        required("name", Kind::Text(&PROVIDER), "The part of its model ids before the first slash."),
        required("api", Kind::Choice(&APIS), "The dialect it speaks. This version calls `openai` and `demo`."),
        key("base_url", Kind::Text(&BASE_URL), "the provider's own, where it is known by its name", "Where it is, version included, as `https://api.openai.com/v1`. No user, query or fragment."),
        key("api_key", Kind::Secret(&CREDENTIAL), "no key is sent", "Its key."),
        key("api_keys", UPSTREAM_KEYS, "", "Several keys, used in turn; instead of `api_key`."),
        key("headers", Kind::Map { key: &HEADER, of: &Kind::Secret(&HEADER_VALUE) }, "", "Headers added to every call."),
        key("price_multiplier", Kind::Price, "1.0", "The gateway's price is the official price times this."),
        key("discover", Kind::Bool, "false", "Take the models from the provider's own list."),
        key("timeouts", Kind::Table(&TIMEOUTS), "`[timeouts]`", "Any of the clocks."),
        key("embedding_batch", Kind::Int { min: 1, max: 2048 }, "as the provider allows", "Inputs of one upstream embeddings call."),
        key("allow_private_network", Kind::Bool, "true", "Whether `base_url` may lead to private and loopback addresses. Link-local addresses are always refused."),
        key("num_ctx_max", TOKENS, "", "`ollama`: the largest `num_ctx`."),
        key("region", Kind::Text(&WORD), "", "`bedrock`, `vertex`: the region."),
        key("project", Kind::Text(&WORD), "", "`vertex`: the project."),
        key("api_version", Kind::Text(&WORD), "", "`azure`: the version of its API."),
        key("deployments", Kind::Map { key: &WORD, of: &Kind::Text(&WORD) }, "", "`azure`: model = deployment."),
    ],
};

static UPSTREAM_KEY: Section = Section {
    doc: "One of several keys.",
    keys: &[
        required("key", Kind::Secret(&CREDENTIAL), "The key."),
        key("weight", Kind::Int { min: 1, max: 1000 }, "1", "Its share of the calls."),
    ],
};

static MODEL: Section = Section {
    doc: "A model: adds to the shipped catalogue, or overrides it field by field.",
    keys: &[
        required("id", Kind::Text(&MODEL_ID), "`<provider>/<model_name>`."),
        key("upstream_model", Kind::Text(&WORD), "the part after the first slash", "What the provider calls it."),
        key("name", Kind::Text(&LABEL), "", "What people call it."),
        key("description", Kind::Text(&ANY), "", "A sentence about it."),
        key("category", CATEGORIES, "", "As `chat`, `vision`, `embedding`, `image`; any word goes."),
        key("context_length", TOKENS, "", "Tokens it can see."),
        key("max_output_tokens", TOKENS, "", "Tokens it can say."),
        key("modalities", Kind::Table(&MODALITY), "nothing is refused", "What goes in and comes out."),
        key("features", FEATURES, "nothing is refused", "What it can do."),
        key("license", Kind::Text(&LABEL), "", "As `proprietary` or `Apache-2.0`."),
        key("pricing", Kind::Table(&PRICING), "unknown, and said so in each answer", "Prices per million tokens."),
        key("quality_scores", Kind::Table(&SCORES), "", "0 to 100, more is better."),
        key("performance", Kind::Table(&PERFORMANCE), "", "What to expect until it has been measured."),
        key("embedding_dimensions", DIMENSIONS, "", "The lengths of vectors it can make."),
        key("timeouts", Kind::Table(&TIMEOUTS), "those of the provider", "Any of the clocks."),
    ],
};

static MODALITY: Section = Section {
    doc: "What goes in and what comes out.",
    keys: &[key("input", MODALITIES, "", "What it reads."), key("output", MODALITIES, "", "What it makes.")],
};

const OFFICIAL_INPUT: Key = key("official_input_per_m", Kind::Price, "", "The provider's price of input.");
const OFFICIAL_OUTPUT: Key = key("official_output_per_m", Kind::Price, "", "The provider's price of output.");
const GATEWAY_INPUT: Key = key("gateway_input_per_m", Kind::Price, "official × `price_multiplier`", "What is charged for input.");
const GATEWAY_OUTPUT: Key = key("gateway_output_per_m", Kind::Price, "official × `price_multiplier`", "What is charged for output.");
const CACHED_INPUT: Key = key("cached_input_per_m", Kind::Price, "", "Input that the provider found in its cache.");
const CACHE_WRITE: Key = key("cache_write_per_m", Kind::Price, "", "Input that the provider put into its cache.");

static PRICING: Section = Section {
    doc: "Prices per million tokens; exact decimals.",
    keys: &[
        OFFICIAL_INPUT,
        OFFICIAL_OUTPUT,
        GATEWAY_INPUT,
        GATEWAY_OUTPUT,
        CACHED_INPUT,
        CACHE_WRITE,
        key("currency", Kind::Text(&CURRENCY), "\"USD\"", "The currency of these prices."),
        key("tiers", Kind::Tables(&TIER), "", "Other prices for long prompts, rising by `above_input_tokens`."),
    ],
};

static TIER: Section = Section {
    doc: "Prices of a request whose prompt has more tokens than this.",
    keys: &[
        required("above_input_tokens", TOKENS, "The prompt's length above which these prices hold."),
        OFFICIAL_INPUT,
        OFFICIAL_OUTPUT,
        GATEWAY_INPUT,
        GATEWAY_OUTPUT,
        CACHED_INPUT,
        CACHE_WRITE,
    ],
};

static SCORES: Section = Section {
    doc: "Scores of 0 to 100.",
    keys: &[
        key("overall", PERCENT, "", "All in all."),
        key("code", PERCENT, "", "Programming."),
        key("math", PERCENT, "", "Mathematics."),
        key("reasoning", PERCENT, "", "Reasoning."),
    ],
};

static PERFORMANCE: Section = Section {
    doc: "A prior; what is measured replaces it.",
    keys: &[
        key("latency_p50_ms", LATENCY, "", "The usual time."),
        key("latency_p99_ms", LATENCY, "", "The time of the slowest hundredth."),
        key("availability", PERCENT, "", "Percent of calls that succeed."),
    ],
};

static KEY: Section = Section {
    doc: "A key with which clients call the gateway. Only its hash is kept.",
    keys: &[
        key("name", Kind::Text(&LABEL), "`key-1`, `key-2`, … by position", "What people call it."),
        required("key", Kind::Secret(&CREDENTIAL), "The key: any text that is not blank."),
        key("role", Kind::Choice(&[("inference", &[]), ("admin", &[])]), "\"inference\"", "`admin` may also see metrics and manage."),
        key("models", PATTERNS, "all", "The models it may use, as `[\"acme/*\"]`."),
        key("rpm", Kind::Int { min: 1, max: 10_000_000 }, "no limit", "Generation requests per minute."),
        key("tpm", Kind::Int { min: 1, max: 1_000_000_000_000 }, "no limit", "Tokens per minute.")
            .later("limits of tokens per minute are not in this version"),
        key("max_in_flight", Kind::Int { min: 1, max: 1_000_000 }, "no limit", "Requests at one time.")
            .later("limits of requests at one time are not in this version"),
        key("budget_usd", Kind::Price, "no limit", "What it may spend in a period.")
            .later("budgets are not in this version"),
        key("budget_period", Kind::Choice(&[("day", &[]), ("week", &[]), ("month", &[]), ("total", &[])]), "", "The period of the budget.")
            .later("budgets are not in this version"),
        key("expires_at", Kind::Time, "never", "When it stops to be valid."),
    ],
};
