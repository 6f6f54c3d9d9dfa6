//! OpenAI's models. Older models bill tiles of 512 pixels. Newer and smaller models bill patches of 32 pixels.
//!
//! "Images and vision" describes both methods, their figures, and the meaning of `detail` for each family of models.

use gw_wire::request::Detail;

use super::{fitted, grid, version};

/// The method by which a model bills images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenAiImages {
    /// `base` tokens, plus `tile` tokens for each tile.
    Tiles {
        /// The base tokens of an image. At the detail `low` there are no others.
        base: u64,
        /// The tokens of a tile.
        tile: u64,
    },
    /// One token per patch, times `percent`/100.
    Patches {
        /// The model's factor.
        percent: u64,
        /// The bound at the detail `high`.
        high: Bound,
        /// The bound at the default detail.
        auto: Bound,
        /// The bound at the detail `original`.
        original: Bound,
    },
}

/// The bound to which an image is scaled down: patches, and pixels of the longest side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    patches: u64,
    edge: u64,
}

const SMALL: Bound = Bound { patches: 1_536, edge: 2_048 };
const HIGH: Bound = Bound { patches: 2_500, edge: 2_048 };
/// GPT-5.6 and later have no effective limit of the longest side.
const HIGH_LONG: Bound = Bound { patches: 2_500, edge: 65_535 };
const ORIGINAL: Bound = Bound { patches: 10_000, edge: 6_000 };
/// The API refuses images with more patches.
const ALL: Bound = Bound { patches: 30_000, edge: 65_535 };
/// The detail `low` of patch models: 512 x 512 pixels.
const LOW: Bound = Bound { patches: 256, edge: 512 };

/// The most patches of an image of unknown size: a photo of 14 megapixels. Models without scaling allow twice as many,
/// which hardly any image has.
const MAX_UNKNOWN_PATCHES: u64 = 12_500;

impl OpenAiImages {
    /// The figures of GPT-4o and GPT-4.1.
    pub(super) const USUAL: Self = Self::Tiles { base: 85, tile: 170 };

    /// The method of a model by its name in lower case; None when the name is not OpenAI's.
    pub(super) fn named(name: &str) -> Option<Self> {
        let has = |part: &str| name.contains(part);
        let small = |percent| Self::Patches { percent, high: SMALL, auto: SMALL, original: SMALL };
        if has("gpt-4o-mini") {
            return Some(Self::Tiles { base: 2_833, tile: 5_667 });
        }
        if has("o4-mini") || has("codex-mini-latest") {
            return Some(small(172));
        }
        let starts = |start: &str| name.rsplit('/').next().is_some_and(|last| last.starts_with(start));
        if ["o1", "o3"].into_iter().any(starts) {
            return Some(Self::Tiles { base: 75, tile: 150 });
        }
        let (_, model) = name.split_once("gpt-")?;
        if has("gpt-oss") {
            return None;
        }
        // Only the first word can be a version. `4o` is not one, and later numbers are dates.
        let Some(version) = model.split('-').next().and_then(version) else { return Some(Self::USUAL) };
        let (is_mini, is_nano) = (has("-mini"), has("-nano"));
        Some(match version {
            // Azure writes `gpt-35` for GPT-3.5.
            (..=3 | 35, _) | (4, 0) => Self::USUAL,
            (4, _) | (5, ..=4) if is_nano => small(246),
            (4, _) | (5, ..=4) if is_mini => small(162),
            (4, _) => Self::USUAL,
            (5, 0 | 1) if has("codex") => small(120),
            (5, 0 | 1) => Self::Tiles { base: 70, tile: 140 },
            (5, 2 | 3) => small(120),
            (5, 4) => Self::Patches { percent: 120, high: HIGH, auto: HIGH, original: ORIGINAL },
            (5, 5) => Self::Patches { percent: 120, high: HIGH, auto: ORIGINAL, original: ORIGINAL },
            _ => Self::Patches { percent: 120, high: HIGH_LONG, auto: ALL, original: ALL },
        })
    }

    /// The tokens of an image. An image of unknown size counts as a large one.
    pub(super) fn image(self, width: u32, height: u32, detail: Detail) -> u64 {
        let size = (u64::from(width), u64::from(height));
        let is_known = width > 0 && height > 0;
        match self {
            Self::Tiles { base, .. } if detail == Detail::Low => base,
            Self::Tiles { base, tile } => base + tile * if is_known { tiles(size) } else { MAX_TILES },
            Self::Patches { percent, high, auto, original } => {
                let bound = match detail {
                    Detail::Low => LOW,
                    Detail::High => high,
                    Detail::Auto => auto,
                    Detail::Original => original,
                };
                let patches =
                    if is_known { bound.patches(size) } else { bound.patches.min(MAX_UNKNOWN_PATCHES) };
                (patches * percent).div_ceil(100)
            }
        }
    }
}

/// The most tiles of an image within 2048 x 768 pixels.
const MAX_TILES: u64 = 8;

/// The tiles of an image, which is scaled into 2048 x 2048 and then to a shorter side of 768.
fn tiles(size: (u64, u64)) -> u64 {
    let (width, height) = fitted(size, 2_048);
    let shortest = width.min(height);
    let (width, height) = if shortest > 768 {
        ((width * 768).div_ceil(shortest), (height * 768).div_ceil(shortest))
    } else {
        (width, height)
    };
    let (columns, rows) = grid((width, height), 512);
    (columns * rows).clamp(1, MAX_TILES)
}

impl Bound {
    /// The patches that cover an image. For a scaled image the bound is the result, although the image has slightly
    /// fewer patches.
    fn patches(self, size: (u64, u64)) -> u64 {
        let (columns, rows) = grid(fitted(size, self.edge), 32);
        columns.saturating_mul(rows).clamp(1, self.patches)
    }
}
