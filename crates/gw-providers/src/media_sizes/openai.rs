//! OpenAI's models: the older ones bill tiles of 512 pixels, the newer ones and the small ones patches of 32.
//!
//! "Images and vision" has both ways, their figures, and what `detail` means to each family of models.

use gw_wire::request::Detail;

use super::{fitted, grid, version};

/// How a model bills pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenAiImages {
    /// `base` tokens, and `tile` more for each tile.
    Tiles {
        /// Tokens of a picture; all of them at the detail `low`.
        base: u64,
        /// Tokens of a tile.
        tile: u64,
    },
    /// A token for each patch, times `percent`/100.
    Patches {
        /// The model's factor.
        percent: u64,
        /// Patches at the detail `high`, and pixels of the longest side.
        high: Bound,
        /// The same where the client asks for nothing.
        auto: Bound,
        /// The same at the detail `original`.
        original: Bound,
    },
}

/// Patches and pixels that a picture is brought down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    patches: u64,
    edge: u64,
}

const SMALL: Bound = Bound { patches: 1_536, edge: 2_048 };
const HIGH: Bound = Bound { patches: 2_500, edge: 2_048 };
/// GPT-5.6 and later have no limit on the edge that matters.
const HIGH_LONG: Bound = Bound { patches: 2_500, edge: 65_535 };
const ORIGINAL: Bound = Bound { patches: 10_000, edge: 6_000 };
/// A picture of more patches is refused.
const ALL: Bound = Bound { patches: 30_000, edge: 65_535 };
/// "low" of a patch model: fits into 512 x 512.
const LOW: Bound = Bound { patches: 256, edge: 512 };

/// Patches that a picture of unknown size is taken for at the most: a photo of 14 megapixels. The bound of those that are seen
/// whole is twice as much, and hardly any picture has it.
const MAX_UNKNOWN_PATCHES: u64 = 12_500;

impl OpenAiImages {
    /// GPT-4o and GPT-4.1.
    pub(super) const USUAL: Self = Self::Tiles { base: 85, tile: 170 };

    /// Of a lower-case name; None when it is none of OpenAI's.
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
        // Only the first word can be a version: `4o` is none, and later ones are dates.
        let Some(version) = model.split('-').next().and_then(version) else { return Some(Self::USUAL) };
        let (is_mini, is_nano) = (has("-mini"), has("-nano"));
        Some(match version {
            // Azure writes GPT-3.5 without the point.
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

    /// Tokens of a picture; of one of unknown size the most.
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

/// A picture within 2048 x 768 pixels.
const MAX_TILES: u64 = 8;

/// Fits into 2048 x 2048, then the shorter side is brought down to 768.
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
    /// The patches that cover a picture. Brought down to the bound it has a few less than the bound, which stands for them.
    fn patches(self, size: (u64, u64)) -> u64 {
        let (columns, rows) = grid(fitted(size, self.edge), 32);
        columns.saturating_mul(rows).clamp(1, self.patches)
    }
}
