//! How many tokens a provider bills for a picture, a page, a second of sound or film.
//!
//! The figures are the vendors' own as of November 2026, and where these are vague, the larger reading: an estimate is meant
//! to be at or above the bill. A model is known by its name whoever serves it, because its maker decides how it sees; a
//! name that tells nothing is taken for what the provider's dialect usually serves.
//!
//! - OpenAI: "Images and vision" (developers.openai.com/api/docs/guides/images-vision), "Calculating costs".
//! - Anthropic: "Vision" and "PDF support" (platform.claude.com/docs/en/build-with-claude).
//! - Google: "Understand and count tokens", "Image understanding", "Media resolution" (ai.google.dev/gemini-api/docs).
//! - Mistral: "Images" of mistral-common (mistralai.github.io/mistral-common), and the models' `processor_config.json`.

mod openai;

use gw_wire::request::{Detail, Medium, image_size};
use gw_wire::usage::IMAGE_TOKENS;

use self::openai::OpenAiImages;

/// Tokens of the text of a densely printed page.
const PAGE_TEXT_TOKENS: u64 = 1_500;

/// The least that a page is taken for where its text and its picture are billed: the upper end of what Anthropic names.
const MIN_PAGE_TOKENS: u64 = 3_000;

/// A page of A4 as a picture of 200 dots per inch.
const PAGE_PIXELS: (u32, u32) = (1_654, 2_339);

/// A picture of whatever size, where nobody tells.
const UNKNOWN_IMAGE_TOKENS: u64 = 2_000;

/// A second of film: a frame and its sound. Gemini bills 258 and 32, Gemini 3 at its closest 280 and 32.
const VIDEO_TOKENS_PER_SECOND: u64 = 332;

/// What a model bills for media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaSizes(Rule);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rule {
    OpenAi(OpenAiImages),
    /// A patch of 28 pixels is a token.
    Claude {
        /// From 4.7 on pictures are seen more closely.
        is_sharp: bool,
    },
    Gemini {
        /// 3 and after.
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
    /// The sizes of the model that the first of these names tells of, else of the dialect's usual model. `names` are the
    /// model's name at the provider and its catalogue id.
    pub(crate) fn of(names: [&str; 2], usual: Self) -> Self {
        names.into_iter().find_map(Self::named).unwrap_or(usual)
    }

    /// What OpenAI's dialect usually serves.
    pub(crate) fn openai() -> Self {
        Self(Rule::OpenAi(OpenAiImages::USUAL))
    }

    /// What Anthropic's dialect usually serves.
    pub(crate) fn claude() -> Self {
        Self(Rule::Claude { is_sharp: true })
    }

    /// What Google's dialect usually serves. The older models bill more for a large picture, the newer ones more for a page.
    pub(crate) fn gemini() -> Self {
        Self(Rule::Gemini { is_third: true })
    }

    /// What Mistral's dialect usually serves.
    pub(crate) fn mistral() -> Self {
        Self(Rule::Mistral { is_pixtral: false })
    }

    /// Of a model by its name, however a cloud or a router spells it; None when it tells nothing.
    fn named(name: &str) -> Option<Self> {
        const MISTRALS: [&str; 6] = ["mistral", "pixtral", "magistral", "ministral", "devstral", "voxtral"];
        let name = name.to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        Some(Self(if let Some((_, model)) = name.split_once("claude-") {
            // A name without a version is that of the newest.
            Rule::Claude { is_sharp: version(model).is_none_or(|version| version >= (4, 7)) }
        } else if let Some((_, model)) = name.split_once("gemini-") {
            Rule::Gemini { is_third: version(model).is_none_or(|version| version >= (3, 0)) }
        } else if MISTRALS.into_iter().any(has) {
            Rule::Mistral { is_pixtral: has("pixtral") }
        } else {
            Rule::OpenAi(OpenAiImages::named(&name)?)
        }))
    }

    /// Tokens of this medium.
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
            // "Vision": at most 1,568 tokens within 1568 pixels, or 4,784 within 2576. 1,600 by the older rule (w * h / 750).
            Rule::Claude { is_sharp } => {
                let (edge, most) = if is_sharp { (2_576, 4_784) } else { (1_568, 1_600) };
                let (columns, rows) = grid(fitted(size, edge), 28);
                if is_known { columns.saturating_mul(rows).min(most) } else { most }
            }
            // "Media resolution": 1,120 unless the request says otherwise.
            Rule::Gemini { is_third: true } => 1_120,
            Rule::Gemini { is_third: false } => {
                let tiles = if is_known { gemini_tiles(size) } else { MAX_GEMINI_TILES };
                tiles * GEMINI_TILE_TOKENS
            }
            // A token for each patch and one for the end of each row.
            Rule::Mistral { is_pixtral } => {
                let (edge, patch, most) = if is_pixtral { (1_024, 16, 4_160) } else { (1_540, 28, 3_080) };
                let (columns, rows) = grid(fitted(size, edge), patch);
                if is_known { (columns + 1).saturating_mul(rows).min(most) } else { most }
            }
            Rule::Any | Rule::OpenAi(_) => UNKNOWN_IMAGE_TOKENS,
        }
    }

    /// A page of a PDF.
    fn page(self) -> u64 {
        let (width, height) = PAGE_PIXELS;
        match self.0 {
            // Text and picture of each page.
            Rule::OpenAi(_) | Rule::Claude { .. } => {
                MIN_PAGE_TOKENS.max(PAGE_TEXT_TOKENS + self.image(width, height, Detail::High))
            }
            // "Media resolution": 560, and the text of the page is not billed.
            Rule::Gemini { is_third: true } => 560,
            Rule::Gemini { is_third: false } => GEMINI_TILE_TOKENS,
            Rule::Mistral { .. } => 3_080,
            Rule::Any => MIN_PAGE_TOKENS,
        }
    }

    /// A second of sound.
    fn second(self) -> u64 {
        match self.0 {
            // "Cost" of the Realtime API: a token for every 100 ms of what the user says.
            Rule::OpenAi(_) => 10,
            // Voxtral: 12.5 frames a second.
            Rule::Mistral { .. } => 13,
            // "Understand and count tokens": 32.
            Rule::Claude { .. } | Rule::Gemini { .. } | Rule::Any => 32,
        }
    }
}

/// Tokens that a picture which a model made is billed as, by its size in pixels: of the models with published figures the one
/// that bills most for the size. "Pricing" at ai.google.dev/gemini-api/docs/pricing, November 2026: 1,290 for 1024 x 1024
/// (2.5 Flash Image), 1,680 for 2048 x 2048 and 2,520 for 4096 x 4096 (3.1 Flash Image); other shapes have as many pixels.
pub(crate) fn made_image(base64: &str) -> u64 {
    const MEGAPIXEL: u64 = 1 << 20;
    let Some((width, height)) = image_size(base64) else { return IMAGE_TOKENS };
    // Sides are rounded to a grid, so that some shapes have a little more.
    match u64::from(width).saturating_mul(height.into()) / (MEGAPIXEL * 5 / 4) {
        0 => IMAGE_TOKENS,
        1..4 => 1_680,
        _ => 2_520,
    }
}

/// Tokens of a tile of Gemini's, and the most tiles of a picture.
const GEMINI_TILE_TOKENS: u64 = 258;
const MAX_GEMINI_TILES: u64 = 16;

/// "Image understanding": a tile when both sides are at most 384; else the tiles' edge is two thirds of the shorter side,
/// between 256 and 768. Large pictures are brought to 3072 pixels before.
fn gemini_tiles(size: (u64, u64)) -> u64 {
    let (width, height) = fitted(size, 3_072);
    if width.max(height) <= 384 {
        return 1;
    }
    let edge = (width.min(height) * 2 / 3).clamp(256, 768);
    let (columns, rows) = grid((width, height), edge);
    columns.saturating_mul(rows).min(MAX_GEMINI_TILES)
}

/// The size scaled down until no side is longer than `edge`. Never smaller than a pixel.
fn fitted((width, height): (u64, u64), edge: u64) -> (u64, u64) {
    let longest = width.max(height);
    if longest <= edge {
        return (width, height);
    }
    let scaled = |side: u64| (side * edge).div_ceil(longest).max(1);
    (scaled(width), scaled(height))
}

/// Columns and rows of squares that cover the size.
fn grid((width, height): (u64, u64), square: u64) -> (u64, u64) {
    (width.div_ceil(square), height.div_ceil(square))
}

/// Version in a model's name: `3-5-sonnet-20241022`, `opus-4-7`, `2.5-flash`, `4-argon`. A date is none, and neither is a
/// cloud's own revision (`v1`).
fn version(model: &str) -> Option<(u32, u32)> {
    let number = |word: &str| (word.len() <= 2).then(|| word.parse::<u32>().ok()).flatten();
    let words = model.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut numbers = words.skip_while(|word| number(word).is_none()).map_while(number);
    let major = numbers.next()?;
    Some((major, numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests;
