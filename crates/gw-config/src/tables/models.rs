//! `[[models]]`.

use gw_engine::settings::ModelSettings;

use super::super::binding::{Form, field};
use super::super::formats::{ANY, LABEL, MODEL_ID, WORD};
use super::super::schema::{Kind, Section, Word, key, required_setting, setting, setting_or};
use super::super::tree::Checked;
use super::kinds::{PERCENT, TOKENS};
use super::prices::PRICING;
use super::prompt_cache::{OWN_PROMPT_CACHE, PROMPT_CACHE};
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
            "prompt_cache",
            PROMPT_CACHE,
            field!(ModelSettings, prompt_cache, OWN_PROMPT_CACHE),
            "as the provider has it",
            "Breakpoints of prompt caches in requests to this model, instead of those of the provider.",
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
