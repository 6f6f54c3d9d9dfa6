//! The size and the quality of generated images, by which some providers charge.

use std::fmt;

/// The size and the quality of an image. None: it is unknown, or any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageForm {
    /// The size.
    pub size: Option<ImageSize>,
    /// The quality.
    pub quality: Option<ImageQuality>,
}

/// The size of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSize {
    /// Width and height in pixels.
    Pixels(u16, u16),
    /// The side of a square with about as many pixels, such as 1024 for `1K`.
    Class(u16),
}

/// The quality of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageQuality {
    /// `low`.
    Low,
    /// `medium`.
    Medium,
    /// `high`.
    High,
    /// `standard`.
    Standard,
    /// `hd`.
    Hd,
}

impl ImageForm {
    /// The form that these texts name. `auto` and unknown texts are unknown.
    #[must_use]
    pub fn of(size: Option<&str>, quality: Option<&str>) -> Self {
        Self { size: size.and_then(ImageSize::parse), quality: quality.and_then(ImageQuality::parse) }
    }

    /// This form, with the parts of `below` that it lacks.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        Self { size: self.size.or(below.size), quality: self.quality.or(below.quality) }
    }

    /// Whether an image of the form `made` has every part that this form states.
    #[must_use]
    pub fn covers(self, made: Self) -> bool {
        self.size.is_none_or(|size| made.size.is_some_and(|made| size.covers(made)))
            && self.quality.is_none_or(|quality| made.quality == Some(quality))
    }

    /// Whether an image of which `asked` is known may have this form.
    #[must_use]
    pub fn may_be(self, asked: Self) -> bool {
        let size = self.size.zip(asked.size).is_none_or(|(size, asked)| size.covers(asked));
        let quality = self.quality.zip(asked.quality).is_none_or(|(quality, asked)| quality == asked);
        size && quality
    }

    /// How many parts it states.
    #[must_use]
    pub fn precision(self) -> u8 {
        u8::from(self.size.is_some()) + u8::from(self.quality.is_some())
    }
}

impl ImageSize {
    /// `1024x1536`, `1K` or `512`, with sides of up to four digits; None for other texts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let side = |digits: &str| {
            let is_plain = (1..=4).contains(&digits.len()) && !digits.starts_with('0');
            let is_plain = is_plain && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u16>().ok().filter(|_| is_plain)
        };
        if let Some((width, height)) = text.split_once(['x', 'X']) {
            return Some(Self::Pixels(side(width)?, side(height)?));
        }
        match text.strip_suffix(['k', 'K']) {
            Some(thousands) => Some(Self::Class(side(thousands).filter(|side| *side < 10)? * 1024)),
            None => side(text).map(Self::Class),
        }
    }

    /// The ratio of width and height that is next to that of this size, as `3:2`. A class has none.
    #[must_use]
    pub fn nearest_ratio(self, ratios: &[(u16, u16)]) -> Option<String> {
        let Self::Pixels(width, height) = self else { return None };
        let wanted = f64::from(width) / f64::from(height);
        let off = |(one, other): &(u16, u16)| (f64::from(*one) / f64::from(*other) / wanted).ln().abs();
        let nearest = ratios.iter().min_by(|one, other| off(one).total_cmp(&off(other)));
        nearest.map(|(one, other)| format!("{one}:{other}"))
    }

    /// The pixels of an image of exactly this size.
    #[must_use]
    pub fn pixels(self) -> Option<u64> {
        match self {
            Self::Pixels(width, height) => Some(u64::from(width) * u64::from(height)),
            Self::Class(_) => None,
        }
    }

    /// Whether an image of the size `made` has this size. The images of a class have about as many pixels as its square,
    /// whatever their shape is.
    fn covers(self, made: Self) -> bool {
        match (self, made) {
            (Self::Class(side), Self::Pixels(width, height)) => {
                let (square, pixels) = (u64::from(side).pow(2), u64::from(width) * u64::from(height));
                pixels * 4 >= square * 3 && pixels * 2 < square * 3
            }
            (own, made) => own == made,
        }
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pixels(width, height) => write!(f, "{width}x{height}"),
            Self::Class(side) if side % 1024 == 0 => write!(f, "{}K", side / 1024),
            Self::Class(side) => write!(f, "{side}"),
        }
    }
}

impl ImageQuality {
    /// All qualities.
    pub const ALL: [Self; 5] = [Self::Low, Self::Medium, Self::High, Self::Standard, Self::Hd];

    /// The quality of this name; None for `auto` and other names.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quality| quality.name() == name)
    }

    /// The name in requests and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Standard => "standard",
            Self::Hd => "hd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for text in ["1024x1024", "1024x1536", "1K", "4K", "512"] {
            assert_eq!(ImageSize::parse(text).unwrap().to_string(), text);
        }
        for text in ["auto", "", "x", "0x5", "1024x", "99999x1", "10K", "-1x2", "+1x2", "01x2"] {
            assert_eq!(ImageSize::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_nearest_ratio_is_found() {
        let of = |text| ImageSize::parse(text).unwrap().nearest_ratio(&[(1, 1), (2, 3), (16, 9)]);
        assert_eq!(of("1024x1536").as_deref(), Some("2:3"));
        assert_eq!(of("1000x1024").as_deref(), Some("1:1"));
        assert_eq!(of("1920x1080").as_deref(), Some("16:9"));
        assert_eq!(of("2K"), None);
    }

    #[test]
    fn a_form_covers_images_that_have_all_that_it_states() {
        let form = |size, quality| ImageForm::of(Some(size), Some(quality));
        let made = form("1024x1024", "high");
        assert!(form("1024x1024", "high").covers(made) && form("auto", "high").covers(made));
        assert!(form("1K", "").covers(made) && ImageForm::default().covers(made));
        assert!(!form("1024x1024", "low").covers(made) && !form("2K", "").covers(made));
        assert!(form("1K", "").covers(form("1376x768", "")) && form("1K", "").covers(form("1584x672", "")));
        assert!(!form("1024x1024", "high").covers(form("auto", "high")));
        assert!(form("1024x1024", "high").may_be(form("auto", "auto")));
        assert!(!form("1024x1024", "high").may_be(form("auto", "low")));
    }
}
