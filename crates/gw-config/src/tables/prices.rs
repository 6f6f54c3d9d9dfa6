//! `pricing` of `[[models]]`.

use gw_engine::catalog::prices::ImagePrice;
use gw_engine::settings::{PricingSettings, TierSettings};
use gw_wire::hosted_tools::HostedTool;
use gw_wire::usage::{ImageQuality, ImageSize, Unit};

use super::super::binding::{Change, Form, field, quoted};
use super::super::formats::CURRENCY;
use super::super::schema::{Kind, Section, TextFormat, Word, key, required_setting, setting, setting_or};
use super::super::tree::Checked;
use super::kinds::TOKENS;

static QUALITIES: [Word; 5] = [("low", &[]), ("medium", &[]), ("high", &[]), ("standard", &[]), ("hd", &[])];

static IMAGE_SIZE: TextFormat = TextFormat {
    shape: "width and height in pixels, such as 1024x1536, or a class such as 1K",
    check: |text| match ImageSize::parse(text) {
        Some(_) => Ok(()),
        None => Err("it is no size such as 1024x1536, 1K or 512"),
    },
};

/// The size of an image.
const SIZE: Form<Option<ImageSize>> = Form {
    read: |value| value.text().map(ImageSize::parse),
    write: |size| size.map(|size| quoted(&size.to_string())).unwrap_or_default(),
};

/// The quality of an image.
const QUALITY: Form<Option<ImageQuality>> = Form {
    read: |value: &Checked| value.text().map(ImageQuality::parse),
    write: |quality| quality.map(|quality| quoted(quality.name())).unwrap_or_default(),
};

static IMAGE: Section = Section {
    doc: "The price of images of one size and quality. Of several fitting rows, the one with the most of both counts, and then the \
          first one. An image that fits none costs `official_per_image`.",
    keys: &[
        setting_or(
            "size",
            Kind::Text(&IMAGE_SIZE),
            field!(ImagePrice, form.size, SIZE),
            "any",
            "The size of the image that was made: `1024x1536`, or `1K` for all images with about as many pixels as 1024x1024.",
        ),
        setting_or(
            "quality",
            Kind::Choice(&QUALITIES),
            field!(ImagePrice, form.quality, QUALITY),
            "any",
            "The quality of the image that was made.",
        ),
        required_setting(
            "official_per_image",
            Kind::UnitPrice,
            field!(ImagePrice, official, Form::OPTIONAL_UNIT_PRICE),
            "The provider's price of one image.",
        ),
        setting_or(
            "gateway_per_image",
            Kind::UnitPrice,
            field!(ImagePrice, gateway, Form::OPTIONAL_UNIT_PRICE),
            "official × `price_multiplier`",
            "The price of one image that is charged.",
        ),
    ],
};

/// The row with the provider's price of one unit.
macro_rules! official_of {
    ($unit:expr, $doc:literal) => {
        setting(
            $unit.official_price_name(),
            Kind::UnitPrice,
            &Change {
                form: Form::UNIT_PRICE,
                apply: |pricing: &mut PricingSettings, price| pricing.official_units.set($unit, price),
                default: |_| None,
            },
            $doc,
        )
    };
}

/// The row with the price of one unit that is charged.
macro_rules! gateway_of {
    ($unit:expr, $doc:literal) => {
        setting_or(
            $unit.gateway_price_name(),
            Kind::UnitPrice,
            &Change {
                form: Form::UNIT_PRICE,
                apply: |pricing: &mut PricingSettings, price| pricing.gateway_units.set($unit, price),
                default: |_| None,
            },
            "official × `price_multiplier`",
            $doc,
        )
    };
}

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
    doc: "Prices as exact decimals: per million tokens (`…_per_m`), or of one unit.",
    keys: with_token_prices!(
        PricingSettings,
        [],
        [
            setting(
                "official_image_input_per_m",
                Kind::Price,
                field!(PricingSettings, official_image_input_per_m, Form::OPTIONAL_PRICE),
                "The provider's price of image tokens in a prompt. Without it, a request whose usage has such tokens is unpriced."
            ),
            setting_or(
                "gateway_audio_input_per_m",
                Kind::Price,
                field!(PricingSettings, gateway_audio_input_per_m, Form::OPTIONAL_PRICE),
                "official × `price_multiplier`",
                "The price of audio tokens in a prompt that is charged."
            ),
            setting_or(
                "gateway_audio_output_per_m",
                Kind::Price,
                field!(PricingSettings, gateway_audio_output_per_m, Form::OPTIONAL_PRICE),
                "official × `price_multiplier`",
                "The price of audio tokens in an answer that is charged."
            ),
            setting_or(
                "gateway_image_input_per_m",
                Kind::Price,
                field!(PricingSettings, gateway_image_input_per_m, Form::OPTIONAL_PRICE),
                "official × `price_multiplier`",
                "The price of image tokens in a prompt that is charged."
            ),
            setting_or(
                "gateway_image_output_per_m",
                Kind::Price,
                field!(PricingSettings, gateway_image_output_per_m, Form::OPTIONAL_PRICE),
                "official × `price_multiplier`",
                "The price of image tokens in an answer that is charged."
            ),
            official_of!(Unit::Query, "The provider's fee for each request."),
            gateway_of!(Unit::Query, "The fee for each request that is charged."),
            official_of!(
                Unit::Search,
                "The provider's price of one search unit: a rerank of up to 100 documents."
            ),
            gateway_of!(Unit::Search, "The price of one search unit that is charged."),
            official_of!(
                Unit::Image,
                "The provider's price of one generated image, unless `images` has its size and quality."
            ),
            gateway_of!(Unit::Image, "The price of one generated image that is charged."),
            official_of!(Unit::Second, "The provider's price of one second of audio or video."),
            gateway_of!(Unit::Second, "The price of one second that is charged."),
            official_of!(
                Unit::Character,
                "The provider's price of one character (a code point) of a text that becomes speech."
            ),
            gateway_of!(Unit::Character, "The price of one character that is charged."),
            official_of!(Unit::Page, "The provider's price of one page of a document."),
            gateway_of!(Unit::Page, "The price of one page that is charged."),
            official_of!(Unit::Pixel, "The provider's price of one pixel of a generated image."),
            gateway_of!(Unit::Pixel, "The price of one pixel that is charged."),
            setting(
                "images",
                Kind::Tables(&IMAGE),
                field!(PricingSettings, images, Form::OPTIONAL_TABLES),
                "The prices of generated images by size and quality."
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
