//! The tokens that a provider bills for images, pages, audio and video.
//!
//! The figures are the vendors' own as of November 2026. Where these are vague, the larger reading counts, because an
//! estimate should not be below the bill. A model is recognised by its name at any provider, because its maker decides
//! how it counts media. An unrecognised name gets the sizes that are usual for the provider's dialect.
//!
//! - OpenAI: "Images and vision" (developers.openai.com/api/docs/guides/images-vision), "Calculating costs".
//! - Anthropic: "Vision" and "PDF support" (platform.claude.com/docs/en/build-with-claude).
//! - Google: "Understand and count tokens", "Image understanding", "Media resolution" (ai.google.dev/gemini-api/docs).
//! - Mistral: "Images" of mistral-common (mistralai.github.io/mistral-common), and the models' `processor_config.json`.

mod openai;

use gw_wire::request::{Detail, Medium, image_size};
use gw_wire::usage::IMAGE_TOKENS;

use self::openai::OpenAiImages;

/// Text tokens of a densely printed page.
const PAGE_TEXT_TOKENS: u64 = 1_500;

/// The least tokens of a page whose text and image are both billed: the upper end of Anthropic's range.
const MIN_PAGE_TOKENS: u64 = 3_000;

/// An A4 page as an image with 200 dots per inch.
const PAGE_PIXELS: (u32, u32) = (1_654, 2_339);

/// An image for a model without known sizes.
const UNKNOWN_IMAGE_TOKENS: u64 = 2_000;

/// A second of video: a frame and its audio. Gemini bills 258 and 32, Gemini 3 at its highest resolution 280 and 32.
const VIDEO_TOKENS_PER_SECOND: u64 = 332;

/// The tokens that a model bills for media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaSizes(Rule);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rule {
    OpenAi(OpenAiImages),
    /// A patch of 28 pixels is one token.
    Claude {
        /// Version 4.7 or later, which sees images at a higher resolution.
        is_sharp: bool,
    },
    Gemini {
        /// Version 3 or later.
        is_third: bool,
    },
    Mistral {
        /// Pixtral 12B.
        is_pixtral: bool,
    },
    #[default]
    Any,
}

impl MediaSizes {
    /// The sizes of the first recognised name, or else those of the dialect. `names` are the model's name at the
    /// provider and its catalogue id.
    pub(crate) fn of(names: [&str; 2], usual: Self) -> Self {
        names.into_iter().find_map(Self::named).unwrap_or(usual)
    }

    /// The sizes of a dialect that says nothing about them.
    pub(crate) const ANY: Self = Self(Rule::Any);

    /// The usual sizes of OpenAI's dialect.
    pub(crate) const fn openai() -> Self {
        Self(Rule::OpenAi(OpenAiImages::USUAL))
    }

    /// The usual sizes of Anthropic's dialect.
    pub(crate) const fn claude() -> Self {
        Self(Rule::Claude { is_sharp: true })
    }

    /// The usual sizes of Google's dialect. Older models bill more for a large image, newer ones bill more for a page.
    pub(crate) const fn gemini() -> Self {
        Self(Rule::Gemini { is_third: true })
    }

    /// The usual sizes of Mistral's dialect.
    pub(crate) const fn mistral() -> Self {
        Self(Rule::Mistral { is_pixtral: false })
    }

    /// The sizes of a model by its name in any spelling; None when the name is not recognised.
    fn named(name: &str) -> Option<Self> {
        const MISTRALS: [&str; 6] = ["mistral", "pixtral", "magistral", "ministral", "devstral", "voxtral"];
        let name = name.to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        Some(Self(if let Some((_, model)) = name.split_once("claude-") {
            // A name without a version means the newest version.
            Rule::Claude { is_sharp: version(model).is_none_or(|version| version >= (4, 7)) }
        } else if let Some((_, model)) = name.split_once("gemini-") {
            Rule::Gemini { is_third: version(model).is_none_or(|version| version >= (3, 0)) }
        } else if MISTRALS.into_iter().any(has) {
            Rule::Mistral { is_pixtral: has("pixtral") }
        } else {
            Rule::OpenAi(OpenAiImages::named(&name)?)
        }))
    }

    /// The tokens of a medium.
    #[must_use]
    pub fn tokens(&self, medium: &Medium) -> u64 {
        match *medium {
            Medium::Image { width, height, detail } => self.image(width, height, detail),
            Medium::Pages(pages) => u64::from(pages).saturating_mul(self.page()),
            Medium::Audio { milliseconds } => milliseconds.saturating_mul(self.second()).div_ceil(1000),
            Medium::Video { milliseconds } => {
                milliseconds.saturating_mul(VIDEO_TOKENS_PER_SECOND).div_ceil(1000)
            }
        }
    }

    fn image(self, width: u32, height: u32, detail: Detail) -> u64 {
        if let Rule::OpenAi(rule) = self.0 {
            return rule.image(width, height, detail);
        }
        let is_known = width > 0 && height > 0;
        let size = (u64::from(width), u64::from(height));
        match self.0 {
            // "Vision": at most 1,568 tokens within 1568 pixels, or 4,784 within 2576. The older rule (w * h / 750)
            // gives 1,600.
            Rule::Claude { is_sharp } => {
                let (edge, most) = if is_sharp { (2_576, 4_784) } else { (1_568, 1_600) };
                let (columns, rows) = grid(fitted(size, edge), 28);
                if is_known { columns.saturating_mul(rows).min(most) } else { most }
            }
            // "Media resolution": 1,120 by default.
            Rule::Gemini { is_third: true } => 1_120,
            Rule::Gemini { is_third: false } => {
                let tiles = if is_known { gemini_tiles(size) } else { MAX_GEMINI_TILES };
                tiles * GEMINI_TILE_TOKENS
            }
            // One token per patch, and one at the end of each row.
            Rule::Mistral { is_pixtral } => {
                let (edge, patch, most) = if is_pixtral { (1_024, 16, 4_160) } else { (1_540, 28, 3_080) };
                let (columns, rows) = grid(fitted(size, edge), patch);
                if is_known { (columns + 1).saturating_mul(rows).min(most) } else { most }
            }
            Rule::Any | Rule::OpenAi(_) => UNKNOWN_IMAGE_TOKENS,
        }
    }

    /// The tokens of a page of a PDF.
    fn page(self) -> u64 {
        let (width, height) = PAGE_PIXELS;
        match self.0 {
            // The text and the image of each page are billed.
            Rule::OpenAi(_) | Rule::Claude { .. } => {
                MIN_PAGE_TOKENS.max(PAGE_TEXT_TOKENS + self.image(width, height, Detail::High))
            }
            // "Media resolution": 560. The text of the page is not billed.
            Rule::Gemini { is_third: true } => 560,
            Rule::Gemini { is_third: false } => GEMINI_TILE_TOKENS,
            Rule::Mistral { .. } => 3_080,
            Rule::Any => MIN_PAGE_TOKENS,
        }
    }

    /// The tokens of a second of audio.
    fn second(self) -> u64 {
        match self.0 {
            // "Cost" of the Realtime API: one token per 100 ms of the user's audio.
            Rule::OpenAi(_) => 10,
            // Voxtral has 12.5 frames a second.
            Rule::Mistral { .. } => 13,
            // "Understand and count tokens": 32 tokens.
            Rule::Claude { .. } | Rule::Gemini { .. } | Rule::Any => 32,
        }
    }
}

/// The tokens of an image that a model generated, by its size. The figure is that of the model which bills most for the
/// size, of those with published figures. "Pricing" at ai.google.dev/gemini-api/docs/pricing, November 2026: 1,290 for
/// 1024 x 1024 (2.5 Flash Image), 1,680 for 2048 x 2048 and 2,520 for 4096 x 4096 (3.1 Flash Image). Other shapes have
/// as many pixels.
pub(crate) fn made_image(base64: &str) -> u64 {
    const MEGAPIXEL: u64 = 1 << 20;
    let Some((width, height)) = image_size(base64) else { return IMAGE_TOKENS };
    // Sides are rounded to a grid, so some shapes have slightly more pixels.
    match u64::from(width).saturating_mul(height.into()) / (MEGAPIXEL * 5 / 4) {
        0 => IMAGE_TOKENS,
        1..4 => 1_680,
        _ => 2_520,
    }
}

/// The tokens of a Gemini tile, and the most tiles of an image.
const GEMINI_TILE_TOKENS: u64 = 258;
const MAX_GEMINI_TILES: u64 = 16;

/// "Image understanding": one tile when both sides are at most 384 pixels. Otherwise the edge of a tile is two thirds
/// of the shorter side, between 256 and 768. Large images are first scaled down to 3072 pixels.
fn gemini_tiles(size: (u64, u64)) -> u64 {
    let (width, height) = fitted(size, 3_072);
    if width.max(height) <= 384 {
        return 1;
    }
    let edge = (width.min(height) * 2 / 3).clamp(256, 768);
    let (columns, rows) = grid((width, height), edge);
    columns.saturating_mul(rows).min(MAX_GEMINI_TILES)
}

/// The size, scaled down so that no side is longer than `edge`. A side has at least one pixel.
fn fitted((width, height): (u64, u64), edge: u64) -> (u64, u64) {
    let longest = width.max(height);
    if longest <= edge {
        return (width, height);
    }
    let scaled = |side: u64| (side * edge).div_ceil(longest).max(1);
    (scaled(width), scaled(height))
}

/// The columns and rows of squares that cover the size.
fn grid((width, height): (u64, u64), square: u64) -> (u64, u64) {
    (width.div_ceil(square), height.div_ceil(square))
}

/// The version in a model's name: `3-5-sonnet-20241022`, `opus-4-7`, `2.5-flash`, `4-argon`. Dates and revisions of
/// clouds (`v1`) are not versions.
fn version(model: &str) -> Option<(u32, u32)> {
    let number = |word: &str| (word.len() <= 2).then(|| word.parse::<u32>().ok()).flatten();
    let words = model.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut numbers = words.skip_while(|word| number(word).is_none()).map_while(number);
    let major = numbers.next()?;
    Some((major, numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests;
