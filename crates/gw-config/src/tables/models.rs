//! `[[models]]`.

use gw_engine::settings::{ModelSettings, PricingSettings, TierSettings};
use gw_wire::hosted_tools::HostedTool;

use super::super::binding::{Change, Form, field};
use super::super::formats::{ANY, CURRENCY, LABEL, MODEL_ID, WORD};
use super::super::schema::{Kind, Section, Word, key, required_setting, setting, setting_or};
use super::super::tree::Checked;
use super::kinds::{PERCENT, TOKENS};
use super::timeouts::{OWN_TIMEOUTS, TIMEOUTS};

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

/// A list of integers that may be missing.
const INTEGERS: Form<Option<Vec<u32>>> = Form {
    read: |value| match value {
        Checked::List(nodes) => Some(Some(nodes.iter().filter_map(|node| node.value.int()).collect())),
        _ => None,
    },
    write: |_| String::new(),
};

pub(super) static MODEL: Section = Section {
    doc: "A model. The entry adds a model to the shipped catalogue, or overrides single fields of a shipped model.",
    keys: &[
        required_setting(
            "id",
            Kind::Text(&MODEL_ID),
            field!(ModelSettings, id, Form::TEXT),
            "`<provider>/<model_name>`.",
        ),
        setting_or(
            "upstream_model",
            Kind::Text(&WORD),
            field!(ModelSettings, upstream_model, Form::OPTIONAL_TEXT),
            "the part after the first slash",
            "The provider's name of the model.",
        ),
        setting(
            "name",
            Kind::Text(&LABEL),
            field!(ModelSettings, name, Form::OPTIONAL_TEXT),
            "The name shown in lists.",
        ),
        setting(
            "description",
            Kind::Text(&ANY),
            field!(ModelSettings, description, Form::OPTIONAL_TEXT),
            "A sentence about the model.",
        ),
        setting(
            "category",
            CATEGORIES,
            field!(ModelSettings, category, Form::OPTIONAL_TEXTS),
            "Any words, such as `chat`, `vision`, `embedding`, `rerank` or `image`.",
        ),
        setting(
            "context_length",
            TOKENS,
            field!(ModelSettings, context_length, Form::OPTIONAL_INT),
            "The most tokens of prompt and answer together.",
        ),
        setting(
            "max_output_tokens",
            TOKENS,
            field!(ModelSettings, max_output_tokens, Form::OPTIONAL_INT),
            "The most tokens of an answer.",
        ),
        setting_or(
            "max_tools",
            Kind::Int { min: 0, max: 100_000_000 },
            field!(ModelSettings, max_tools, Form::OPTIONAL_INT),
            "the limit of the provider ([providers.md](providers.md))",
            "The most tools of a request. More get 400, or another model of the route.",
        ),
        key("modalities", Kind::Table(&MODALITY), "nothing is refused", "The kinds of input and output."),
        setting_or(
            "features",
            FEATURES,
            field!(ModelSettings, features, Form::OPTIONAL_TEXTS),
            "nothing is refused",
            "The features of the model.",
        ),
        setting(
            "license",
            Kind::Text(&LABEL),
            field!(ModelSettings, license, Form::OPTIONAL_TEXT),
            "The license, such as `proprietary` or `Apache-2.0`.",
        ),
        setting_or(
            "pricing",
            Kind::Table(&PRICING),
            field!(ModelSettings, pricing, Form::TABLE),
            "unknown; each answer says so",
            "Prices per million tokens.",
        ),
        key("quality_scores", Kind::Table(&SCORES), "", "Scores from 0 to 100; higher is better."),
        key(
            "performance",
            Kind::Table(&PERFORMANCE),
            "",
            "The expected performance until there are measurements.",
        ),
        setting(
            "embedding_dimensions",
            DIMENSIONS,
            field!(ModelSettings, embedding_dimensions, INTEGERS),
            "The lengths of vectors that the model can make.",
        ),
        setting_or(
            "timeouts",
            Kind::Table(&TIMEOUTS),
            field!(ModelSettings, timeouts, OWN_TIMEOUTS),
            "the timeouts of the provider",
            "The model's own timeouts.",
        ),
        setting_or(
            "weight",
            Kind::Int { min: 0, max: 10_000 },
            field!(ModelSettings, weight, Form::OPTIONAL_INT),
            "1",
            "The model's share of the requests in `round_robin`, among the models of one name. 0 = only when the others fail.",
        ),
    ],
};

static MODALITY: Section = Section {
    doc: "The kinds of input and output.",
    keys: &[
        setting(
            "input",
            MODALITIES,
            field!(ModelSettings, modalities_input, Form::OPTIONAL_TEXTS),
            "The kinds of input that the model reads.",
        ),
        setting(
            "output",
            MODALITIES,
            field!(ModelSettings, modalities_output, Form::OPTIONAL_TEXTS),
            "The kinds of output that the model makes.",
        ),
    ],
};

/// The keys of a table with prices per million tokens, with other keys before and after them.
macro_rules! with_token_prices {
    ($settings:ty, [$($before:expr),*], [$($after:expr),*]) => {
        &[
            $($before,)*
            setting(
                "official_input_per_m",
                Kind::Price,
                field!($settings, official_input_per_m, Form::OPTIONAL_PRICE),
                "The provider's price of input.",
            ),
            setting(
                "official_output_per_m",
                Kind::Price,
                field!($settings, official_output_per_m, Form::OPTIONAL_PRICE),
                "The provider's price of output.",
            ),
            setting_or(
                "gateway_input_per_m",
                Kind::Price,
                field!($settings, gateway_input_per_m, Form::OPTIONAL_PRICE),
                "official × `price_multiplier`",
                "The price of input that is charged.",
            ),
            setting_or(
                "gateway_output_per_m",
                Kind::Price,
                field!($settings, gateway_output_per_m, Form::OPTIONAL_PRICE),
                "official × `price_multiplier`",
                "The price of output that is charged.",
            ),
            setting(
                "cached_input_per_m",
                Kind::Price,
                field!($settings, cached_input_per_m, Form::OPTIONAL_PRICE),
                "The price of input that the provider read from its cache.",
            ),
            setting(
                "cache_write_per_m",
                Kind::Price,
                field!($settings, cache_write_per_m, Form::OPTIONAL_PRICE),
                "The price of input that the provider wrote to its cache.",
            ),
            setting_or(
                "cache_write_1h_per_m",
                Kind::Price,
                field!($settings, cache_write_1h_per_m, Form::OPTIONAL_PRICE),
                "2 × input",
                "The price of input that the provider wrote to its cache for an hour.",
            ),
            setting(
                "official_audio_input_per_m",
                Kind::Price,
                field!($settings, official_audio_input_per_m, Form::OPTIONAL_PRICE),
                "The provider's price of audio tokens in a prompt. Without it, a request with such tokens is unpriced.",
            ),
            setting(
                "official_audio_output_per_m",
                Kind::Price,
                field!($settings, official_audio_output_per_m, Form::OPTIONAL_PRICE),
                "The provider's price of audio tokens in an answer. Without it, an answer with such tokens is unpriced.",
            ),
            setting(
                "official_image_output_per_m",
                Kind::Price,
                field!($settings, official_image_output_per_m, Form::OPTIONAL_PRICE),
                "The provider's price of image tokens in an answer. Without it, an answer with such tokens is unpriced.",
            ),
            $($after,)*
        ]
    };
}

pub(super) static PRICING: Section = Section {
    doc: "Prices per million tokens, as exact decimals.",
    keys: with_token_prices!(
        PricingSettings,
        [],
        [
            setting(
                "official_per_query",
                Kind::Price,
                field!(PricingSettings, official_per_query, Form::OPTIONAL_PRICE),
                "The provider's fee for each request, not for a million tokens."
            ),
            setting(
                "official_per_search_unit",
                Kind::Price,
                field!(PricingSettings, official_per_search_unit, Form::OPTIONAL_PRICE),
                "The provider's price of one search unit: a rerank of up to 100 documents."
            ),
            setting_or(
                "currency",
                Kind::Text(&CURRENCY),
                field!(PricingSettings, currency, Form::OPTIONAL_TEXT),
                "\"USD\"",
                "The currency of these prices."
            ),
            setting(
                "tiers",
                Kind::Tables(&TIER),
                field!(PricingSettings, tiers, Form::OPTIONAL_TABLES),
                "Other prices for long prompts, rising by `above_input_tokens`.",
            ),
            key(
                "tools",
                Kind::Table(&TOOLS),
                "the provider's published prices; a tool without a price is refused",
                "Prices of one call of the tools that the provider runs itself.",
            )
        ]
    ),
};

/// The row with the price of one call of a hosted tool.
macro_rules! price_of {
    ($tool:expr, $doc:literal $(,)?) => {
        setting(
            $tool.price_name(),
            Kind::Price,
            &Change {
                form: Form::PRICE,
                apply: |pricing: &mut PricingSettings, price| pricing.tools.set($tool, price),
                default: |_| None,
            },
            $doc,
        )
    };
}

static TOOLS: Section = Section {
    doc: "Prices of tools that the provider runs itself, by the call. They are charged by the calls that the provider counts, \
          times `price_multiplier`.",
    keys: &[
        price_of!(HostedTool::WebSearch, "The provider's price of one web search."),
        price_of!(HostedTool::WebFetch, "The provider's price of one web page that the model reads.",),
        price_of!(HostedTool::FileSearch, "The provider's price of one search in stored files."),
        price_of!(
            HostedTool::CodeInterpreter,
            "The provider's price of one container of the code interpreter, with the usual memory.",
        ),
        price_of!(
            HostedTool::CodeRun,
            "The provider's price of one run of code, if the provider does not bill by the container (xAI).",
        ),
        price_of!(
            HostedTool::SearchAnswer,
            "The provider's price of an answer with web searches, however many they are (Gemini 2.5).",
        ),
        price_of!(
            HostedTool::SearchLow,
            "The provider's fee of one request to a model that always searches the web, with a small search context (Perplexity).",
        ),
        price_of!(HostedTool::SearchMedium, "The fee with a medium search context."),
        price_of!(HostedTool::SearchHigh, "The fee with a large search context."),
    ],
};

static TIER: Section = Section {
    doc: "The prices of requests with long prompts.",
    keys: with_token_prices!(
        TierSettings,
        [required_setting(
            "above_input_tokens",
            TOKENS,
            field!(TierSettings, above_input_tokens, Form::INT),
            "These prices apply to prompts with more tokens than this."
        )],
        []
    ),
};

static SCORES: Section = Section {
    doc: "Scores from 0 to 100.",
    keys: &[
        setting(
            "overall",
            PERCENT,
            field!(ModelSettings, quality_scores[0], Form::OPTIONAL_NUMBER),
            "Overall.",
        ),
        setting(
            "code",
            PERCENT,
            field!(ModelSettings, quality_scores[1], Form::OPTIONAL_NUMBER),
            "Programming.",
        ),
        setting(
            "math",
            PERCENT,
            field!(ModelSettings, quality_scores[2], Form::OPTIONAL_NUMBER),
            "Mathematics.",
        ),
        setting(
            "reasoning",
            PERCENT,
            field!(ModelSettings, quality_scores[3], Form::OPTIONAL_NUMBER),
            "Reasoning.",
        ),
    ],
};

static PERFORMANCE: Section = Section {
    doc: "The expected performance. Measurements replace it.",
    keys: &[
        setting(
            "latency_p50_ms",
            LATENCY,
            field!(ModelSettings, latency_p50_ms, Form::OPTIONAL_NUMBER),
            "The median latency.",
        ),
        setting(
            "latency_p99_ms",
            LATENCY,
            field!(ModelSettings, latency_p99_ms, Form::OPTIONAL_NUMBER),
            "The latency that 99 of 100 calls do not exceed.",
        ),
        setting(
            "availability",
            PERCENT,
            field!(ModelSettings, availability, Form::OPTIONAL_NUMBER),
            "The percentage of calls that succeed.",
        ),
    ],
};
