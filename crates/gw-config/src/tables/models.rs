//! `[[models]]`.

use super::super::formats::{ANY, CURRENCY, LABEL, MODEL_ID, WORD};
use super::super::schema::{Key, Kind, Section, Word, key, required};
use super::kinds::{PERCENT, TOKENS};
use super::timeouts::TIMEOUTS;

const CATEGORIES: Kind = Kind::List { of: &Kind::Text(&WORD), min: 0 };
const FEATURES: Kind = Kind::List { of: &Kind::Choice(&FEATURE_NAMES), min: 0 };
const MODALITIES: Kind = Kind::List { of: &Kind::Choice(&MODALITY_NAMES), min: 1 };
const DIMENSIONS: Kind = Kind::List { of: &Kind::Int { min: 1, max: 65_536 }, min: 1 };
/// Milliseconds of a measurement.
const LATENCY: Kind = Kind::Number { min: 0.0, max: 86_400_000.0 };

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

pub(super) static MODEL: Section = Section {
    doc: "A model. The entry adds a model to the shipped catalogue, or overrides single fields of a shipped model.",
    keys: &[
        required("id", Kind::Text(&MODEL_ID), "`<provider>/<model_name>`."),
        key(
            "upstream_model",
            Kind::Text(&WORD),
            "the part after the first slash",
            "The provider's name of the model.",
        ),
        key("name", Kind::Text(&LABEL), "", "The name shown in lists."),
        key("description", Kind::Text(&ANY), "", "A sentence about the model."),
        key("category", CATEGORIES, "", "Any words, such as `chat`, `vision`, `embedding` or `image`."),
        key("context_length", TOKENS, "", "The most tokens of prompt and answer together."),
        key("max_output_tokens", TOKENS, "", "The most tokens of an answer."),
        key(
            "max_tools",
            Kind::Int { min: 0, max: 100_000_000 },
            "the limit of the provider ([providers.md](providers.md))",
            "The most tools of a request. More get 400, or another model of the route.",
        ),
        key("modalities", Kind::Table(&MODALITY), "nothing is refused", "The kinds of input and output."),
        key("features", FEATURES, "nothing is refused", "The features of the model."),
        key("license", Kind::Text(&LABEL), "", "The license, such as `proprietary` or `Apache-2.0`."),
        key("pricing", Kind::Table(&PRICING), "unknown; each answer says so", "Prices per million tokens."),
        key("quality_scores", Kind::Table(&SCORES), "", "Scores from 0 to 100; higher is better."),
        key(
            "performance",
            Kind::Table(&PERFORMANCE),
            "",
            "The expected performance until there are measurements.",
        ),
        key("embedding_dimensions", DIMENSIONS, "", "The lengths of vectors that the model can make."),
        key("timeouts", Kind::Table(&TIMEOUTS), "the timeouts of the provider", "The model's own timeouts."),
        key(
            "weight",
            Kind::Int { min: 0, max: 10_000 },
            "1",
            "The model's share of the requests in `round_robin`, among the models of one name. 0 = only when the others fail.",
        ),
    ],
};

static MODALITY: Section = Section {
    doc: "The kinds of input and output.",
    keys: &[
        key("input", MODALITIES, "", "The kinds of input that the model reads."),
        key("output", MODALITIES, "", "The kinds of output that the model makes."),
    ],
};

const OFFICIAL_INPUT: Key = key("official_input_per_m", Kind::Price, "", "The provider's price of input.");
const OFFICIAL_OUTPUT: Key = key("official_output_per_m", Kind::Price, "", "The provider's price of output.");
const GATEWAY_INPUT: Key = key(
    "gateway_input_per_m",
    Kind::Price,
    "official × `price_multiplier`",
    "The price of input that is charged.",
);
const GATEWAY_OUTPUT: Key = key(
    "gateway_output_per_m",
    Kind::Price,
    "official × `price_multiplier`",
    "The price of output that is charged.",
);
const CACHED_INPUT: Key =
    key("cached_input_per_m", Kind::Price, "", "The price of input that the provider read from its cache.");
const CACHE_WRITE: Key =
    key("cache_write_per_m", Kind::Price, "", "The price of input that the provider wrote to its cache.");
const CACHE_WRITE_1H: Key = key(
    "cache_write_1h_per_m",
    Kind::Price,
    "2 × input",
    "The price of input that the provider wrote to its cache for an hour.",
);
const AUDIO_INPUT: Key = key(
    "official_audio_input_per_m",
    Kind::Price,
    "",
    "The provider's price of audio tokens in a prompt. Without it, a request with such tokens is unpriced.",
);
const AUDIO_OUTPUT: Key = key(
    "official_audio_output_per_m",
    Kind::Price,
    "",
    "The provider's price of audio tokens in an answer. Without it, an answer with such tokens is unpriced.",
);
const IMAGE_OUTPUT: Key = key(
    "official_image_output_per_m",
    Kind::Price,
    "",
    "The provider's price of image tokens in an answer. Without it, an answer with such tokens is unpriced.",
);

static PRICING: Section = Section {
    doc: "Prices per million tokens, as exact decimals.",
    keys: &[
        OFFICIAL_INPUT,
        OFFICIAL_OUTPUT,
        GATEWAY_INPUT,
        GATEWAY_OUTPUT,
        CACHED_INPUT,
        CACHE_WRITE,
        CACHE_WRITE_1H,
        AUDIO_INPUT,
        AUDIO_OUTPUT,
        IMAGE_OUTPUT,
        key(
            "official_per_query",
            Kind::Price,
            "",
            "The provider's fee for each request, not for a million tokens.",
        ),
        key("currency", Kind::Text(&CURRENCY), "\"USD\"", "The currency of these prices."),
        key(
            "tiers",
            Kind::Tables(&TIER),
            "",
            "Other prices for long prompts, rising by `above_input_tokens`.",
        ),
        key(
            "tools",
            Kind::Table(&TOOLS),
            "the provider's published prices; a tool without a price is refused",
            "Prices of one call of the tools that the provider runs itself.",
        ),
    ],
};

static TOOLS: Section = Section {
    doc: "Prices of tools that the provider runs itself, by the call. They are charged by the calls that the provider counts, \
          times `price_multiplier`.",
    keys: &[
        key("web_search_per_call", Kind::Price, "", "The provider's price of one web search."),
        key(
            "web_fetch_per_call",
            Kind::Price,
            "",
            "The provider's price of one web page that the model reads.",
        ),
        key("file_search_per_call", Kind::Price, "", "The provider's price of one search in stored files."),
        key(
            "code_interpreter_per_container",
            Kind::Price,
            "",
            "The provider's price of one container of the code interpreter, with the usual memory.",
        ),
        key(
            "code_interpreter_per_call",
            Kind::Price,
            "",
            "The provider's price of one run of code, if the provider does not bill by the container (xAI).",
        ),
        key(
            "web_search_per_answer",
            Kind::Price,
            "",
            "The provider's price of an answer with web searches, however many they are (Gemini 2.5).",
        ),
        key(
            "search_request_low",
            Kind::Price,
            "",
            "The provider's fee of one request to a model that always searches the web, with a small search context (Perplexity).",
        ),
        key("search_request_medium", Kind::Price, "", "The fee with a medium search context."),
        key("search_request_high", Kind::Price, "", "The fee with a large search context."),
    ],
};

static TIER: Section = Section {
    doc: "The prices of requests with long prompts.",
    keys: &[
        required("above_input_tokens", TOKENS, "These prices apply to prompts with more tokens than this."),
        OFFICIAL_INPUT,
        OFFICIAL_OUTPUT,
        GATEWAY_INPUT,
        GATEWAY_OUTPUT,
        CACHED_INPUT,
        CACHE_WRITE,
        CACHE_WRITE_1H,
        AUDIO_INPUT,
        AUDIO_OUTPUT,
        IMAGE_OUTPUT,
    ],
};

static SCORES: Section = Section {
    doc: "Scores from 0 to 100.",
    keys: &[
        key("overall", PERCENT, "", "Overall."),
        key("code", PERCENT, "", "Programming."),
        key("math", PERCENT, "", "Mathematics."),
        key("reasoning", PERCENT, "", "Reasoning."),
    ],
};

static PERFORMANCE: Section = Section {
    doc: "The expected performance. Measurements replace it.",
    keys: &[
        key("latency_p50_ms", LATENCY, "", "The median latency."),
        key("latency_p99_ms", LATENCY, "", "The latency that 99 of 100 calls do not exceed."),
        key("availability", PERCENT, "", "The percentage of calls that succeed."),
    ],
};
