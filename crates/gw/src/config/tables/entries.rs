//! The tables of which there can be many: providers, models, keys.

use super::super::formats::{
    ANY, BASE_URL, CREDENTIAL, CURRENCY, HEADER, HEADER_VALUE, LABEL, MODEL_ID, PATTERN, PROVIDER, WORD,
};
use super::super::schema::{Key, Kind, Section, Word, key, required};
use super::{PERCENT, TIMEOUTS};

const CATEGORIES: Kind = Kind::List { of: &Kind::Text(&WORD), min: 0 };
const FEATURES: Kind = Kind::List { of: &Kind::Choice(&FEATURE_NAMES), min: 0 };
const MODALITIES: Kind = Kind::List { of: &Kind::Choice(&MODALITY_NAMES), min: 1 };
const DIMENSIONS: Kind = Kind::List { of: &Kind::Int { min: 1, max: 65_536 }, min: 1 };
const MEMBERS: Kind = Kind::List { of: &Kind::Text(&WORD), min: 0 };
const PATTERNS: Kind = Kind::List { of: &Kind::Text(&PATTERN), min: 1 };
const UPSTREAM_KEYS: Kind =
    Kind::List { of: &Kind::Either(&Kind::Secret(&CREDENTIAL), &Kind::Table(&UPSTREAM_KEY)), min: 1 };
/// Tokens that a model can see or say.
const TOKENS: Kind = Kind::Int { min: 1, max: 1_000_000_000 };
/// Milliseconds that were measured.
const LATENCY: Kind = Kind::Number { min: 0.0, max: 86_400_000.0 };

/// Feature names of a model.
static FEATURE_NAMES: [Word; 11] = [
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
pub(in super::super) static APIS: [Word; 10] = [
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

pub(super) static PROVIDER_ENTRY: Section = Section {
    doc: "A provider that the gateway can call.",
    keys: &[
        required("name", Kind::Text(&PROVIDER), "The part of its model ids before the first slash."),
        key(
            "api",
            Kind::Choice(&APIS),
            "that of the provider, where it is known by its name",
            "The dialect it speaks; `docs/providers.md` lists the providers known by name and what each dialect can carry.",
        ),
        key(
            "base_url",
            Kind::Text(&BASE_URL),
            "the provider's own, where it is known by its name",
            "Where it is, version included, as `https://api.openai.com/v1`. No user, query or fragment.",
        ),
        key("api_key", Kind::Secret(&CREDENTIAL), "no key is sent", "Its key."),
        key("api_keys", UPSTREAM_KEYS, "", "Several keys, used in turn; instead of `api_key`."),
        key(
            "headers",
            Kind::Map { key: &HEADER, of: &Kind::Secret(&HEADER_VALUE) },
            "",
            "Headers added to every call.",
        ),
        key("price_multiplier", Kind::Price, "1.0", "The gateway's price is the official price times this."),
        key("discover", Kind::Bool, "false", "Take the models from the provider's own list."),
        key("timeouts", Kind::Table(&TIMEOUTS), "`[timeouts]`", "Any of the clocks."),
        key(
            "embedding_batch",
            Kind::Int { min: 1, max: 2048 },
            "as the provider allows",
            "Inputs of one upstream embeddings call.",
        ),
        key(
            "allow_private_network",
            Kind::Bool,
            "true",
            "Whether `base_url` may lead to private and loopback addresses. Link-local addresses are always refused.",
        ),
        key(
            "file_ids",
            Kind::Bool,
            "false",
            "Whether clients may name what is stored at the provider or lies in its network: file ids, `gs://` and the like, \
             addresses of its own file host. The provider reads them with your credentials for every client.",
        ),
        key(
            "allow_members",
            MEMBERS,
            "",
            "`openai`, `azure`: members of requests that are forwarded although they choose a model, an upstream or a price, \
             as `[\"plugins\"]`. `docs/providers.md` lists them. `mistral` takes `guardrails` here, `ollama` takes `keep_alive`.",
        ),
        key("num_ctx_max", TOKENS, "", "`ollama`: the largest `num_ctx`."),
        key(
            "region",
            Kind::Text(&WORD),
            "",
            "`bedrock`, `vertex`: the region. `vertex` without one is called at `global`.",
        ),
        key("project", Kind::Text(&WORD), "that of the credentials file", "`vertex`: the project."),
        key(
            "credentials_file",
            Kind::Path,
            "`$GOOGLE_APPLICATION_CREDENTIALS`, else the metadata server",
            "`vertex`: a service account's key, or the file of `gcloud auth application-default login`.",
        ),
        key("api_version", Kind::Text(&WORD), "", "`azure`: the version of its API."),
        key(
            "deployments",
            Kind::Map { key: &WORD, of: &Kind::Text(&WORD) },
            "",
            "`azure`: model = deployment.",
        ),
        key(
            "auth",
            Kind::Choice(&[("bearer", &[])]),
            "the key in the header `api-key`",
            "`azure`: `bearer` sends `api_key` as an Entra token.",
        ),
        key(
            "tenant_id",
            Kind::Text(&WORD),
            "",
            "`azure`: with `client_id`, and the client's secret as `api_key`, tokens are fetched from Entra.",
        ),
        key("client_id", Kind::Text(&WORD), "", "`azure`: the application of `tenant_id`."),
        key(
            "authority",
            Kind::Text(&BASE_URL),
            "`https://login.microsoftonline.com`",
            "`azure`: where Entra is, for other clouds.",
        ),
        key(
            "profile",
            Kind::Text(&WORD),
            "`$AWS_PROFILE`, else `default`",
            "`bedrock`: the profile of the shared credentials file, where no `api_key` is given.",
        ),
    ],
};

static UPSTREAM_KEY: Section = Section {
    doc: "One of several keys.",
    keys: &[
        required("key", Kind::Secret(&CREDENTIAL), "The key."),
        key("weight", Kind::Int { min: 1, max: 1000 }, "1", "Its share of the calls."),
    ],
};

pub(super) static MODEL: Section = Section {
    doc: "A model: adds to the shipped catalogue, or overrides it field by field.",
    keys: &[
        required("id", Kind::Text(&MODEL_ID), "`<provider>/<model_name>`."),
        key(
            "upstream_model",
            Kind::Text(&WORD),
            "the part after the first slash",
            "What the provider calls it.",
        ),
        key("name", Kind::Text(&LABEL), "", "What people call it."),
        key("description", Kind::Text(&ANY), "", "A sentence about it."),
        key("category", CATEGORIES, "", "As `chat`, `vision`, `embedding`, `image`; any word goes."),
        key("context_length", TOKENS, "", "Tokens it can see."),
        key("max_output_tokens", TOKENS, "", "Tokens it can say."),
        key("modalities", Kind::Table(&MODALITY), "nothing is refused", "What goes in and comes out."),
        key("features", FEATURES, "nothing is refused", "What it can do."),
        key("license", Kind::Text(&LABEL), "", "As `proprietary` or `Apache-2.0`."),
        key(
            "pricing",
            Kind::Table(&PRICING),
            "unknown, and said so in each answer",
            "Prices per million tokens.",
        ),
        key("quality_scores", Kind::Table(&SCORES), "", "0 to 100, more is better."),
        key("performance", Kind::Table(&PERFORMANCE), "", "What to expect until it has been measured."),
        key("embedding_dimensions", DIMENSIONS, "", "The lengths of vectors it can make."),
        key("timeouts", Kind::Table(&TIMEOUTS), "those of the provider", "Any of the clocks."),
        key(
            "weight",
            Kind::Int { min: 0, max: 10_000 },
            "1",
            "Its share of the requests in `round_robin`, beside the others of the same name; 0 = only when those fail.",
        ),
    ],
};

static MODALITY: Section = Section {
    doc: "What goes in and what comes out.",
    keys: &[key("input", MODALITIES, "", "What it reads."), key("output", MODALITIES, "", "What it makes.")],
};

const OFFICIAL_INPUT: Key = key("official_input_per_m", Kind::Price, "", "The provider's price of input.");
const OFFICIAL_OUTPUT: Key = key("official_output_per_m", Kind::Price, "", "The provider's price of output.");
const GATEWAY_INPUT: Key =
    key("gateway_input_per_m", Kind::Price, "official × `price_multiplier`", "What is charged for input.");
const GATEWAY_OUTPUT: Key =
    key("gateway_output_per_m", Kind::Price, "official × `price_multiplier`", "What is charged for output.");
const CACHED_INPUT: Key =
    key("cached_input_per_m", Kind::Price, "", "Input that the provider found in its cache.");
const CACHE_WRITE: Key =
    key("cache_write_per_m", Kind::Price, "", "Input that the provider put into its cache.");

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
        key(
            "tiers",
            Kind::Tables(&TIER),
            "",
            "Other prices for long prompts, rising by `above_input_tokens`.",
        ),
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

pub(super) static KEY: Section = Section {
    doc: "A key with which clients call the gateway. Only its hash is kept.",
    keys: &[
        key("name", Kind::Text(&LABEL), "`key-1`, `key-2`, … by position", "What people call it."),
        required("key", Kind::Secret(&CREDENTIAL), "The key: any text that is not blank."),
        key(
            "role",
            Kind::Choice(&[("inference", &[]), ("admin", &[])]),
            "\"inference\"",
            "`admin` may also see metrics and manage.",
        ),
        key("models", PATTERNS, "all", "The models it may use, as `[\"acme/*\"]`."),
        key(
            "rpm",
            Kind::Int { min: 1, max: 10_000_000 },
            "no limit",
            "Generation requests in any 60 seconds.",
        ),
        key(
            "burst",
            Kind::Int { min: 1, max: 10_000_000 },
            "all of `rpm`, in any 60 seconds",
            "Of `rpm`, how many may come at once; they come back evenly, so that a minute has at most both together. More than `rpm` counts as `rpm`.",
        ),
        key(
            "tpm",
            Kind::Int { min: 1, max: 1_000_000_000_000 },
            "no limit",
            "Tokens per minute, prompt and answer.",
        ),
        key("max_in_flight", Kind::Int { min: 1, max: 1_000_000 }, "no limit", "Requests at one time."),
        key("budget_usd", Kind::Price, "no limit", "What it may spend in a period."),
        key(
            "budget_period",
            Kind::Choice(&[("day", &[]), ("week", &[]), ("month", &[]), ("total", &[])]),
            "\"month\"",
            "The period of the budget, in UTC: from midnight, from Monday, from the first, or for ever.",
        ),
        key(
            "on_budget",
            Kind::Choice(&[("finish", &[]), ("cut", &[])]),
            "\"finish\"",
            "`finish`: a request begins only if the budget holds the whole of its worst case. `cut`: it begins with what is left, and its answer is cut where that ends.",
        ),
        key(
            "log_payloads",
            Kind::Bool,
            "false",
            "Whether what its requests and answers say is stored, as `[store.payloads]` has it.",
        ),
        key("expires_at", Kind::Time, "never", "When it stops to be valid."),
    ],
};
