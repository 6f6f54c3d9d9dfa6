//! Units other than tokens that a provider charges for.

use std::fmt;

use super::image_form::ImageForm;
use crate::money::{Money, UnitPrice};

/// A unit with a price of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A request.
    Query,
    /// A query with up to 100 documents to rank.
    Search,
    /// A generated image.
    Image,
    /// A second of audio or video.
    Second,
    /// A code point of a text.
    Character,
    /// A page of a document.
    Page,
    /// A pixel of a generated image.
    Pixel,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 7] =
        [Self::Query, Self::Search, Self::Image, Self::Second, Self::Character, Self::Page, Self::Pixel];

    /// The name in the ledger.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Search => "search_unit",
            Self::Image => "image",
            Self::Second => "second",
            Self::Character => "character",
            Self::Page => "page",
            Self::Pixel => "pixel",
        }
    }

    /// The name of the provider's own price.
    #[must_use]
    pub const fn official_price_name(self) -> &'static str {
        match self {
            Self::Query => "official_per_query",
            Self::Search => "official_per_search_unit",
            Self::Image => "official_per_image",
            Self::Second => "official_per_second",
            Self::Character => "official_per_character",
            Self::Page => "official_per_page",
            Self::Pixel => "official_per_pixel",
        }
    }

    /// The name of the price that is charged.
    #[must_use]
    pub const fn gateway_price_name(self) -> &'static str {
        match self {
            Self::Query => "gateway_per_query",
            Self::Search => "gateway_per_search_unit",
            Self::Image => "gateway_per_image",
            Self::Second => "gateway_per_second",
            Self::Character => "gateway_per_character",
            Self::Page => "gateway_per_page",
            Self::Pixel => "gateway_per_pixel",
        }
    }

    /// The unit of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }
}

/// The millionths of one unit.
const MILLIONTHS: u64 = 1_000_000;

/// The largest count that is read from a number. A larger one would not be exact.
const MAX_EXACT_COUNT: f64 = 5e9;

/// A count of units, exact to a millionth: a recording has fractions of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitCount(u64);

impl UnitCount {
    /// Whole units.
    #[must_use]
    pub const fn whole(count: u64) -> Self {
        Self(count.saturating_mul(MILLIONTHS))
    }

    /// Millionths of a unit.
    #[must_use]
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// The count that a number tells, rounded to a millionth. None: the number is negative, no number, or above five billions.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    pub fn of_number(count: f64) -> Option<Self> {
        (0.0..=MAX_EXACT_COUNT).contains(&count).then(|| Self((count * 1e6).round() as u64))
    }

    /// The count in millionths of a unit.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// The whole units, a fraction cut off.
    #[must_use]
    pub const fn floor(self) -> u64 {
        self.0 / MILLIONTHS
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This count so many times.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// The cost of so many units.
    #[must_use]
    pub fn cost(self, price: UnitPrice) -> Money {
        price.cost_of_millionths(self.0)
    }
}

impl fmt::Display for UnitCount {
    /// A decimal number without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / MILLIONTHS, self.0 % MILLIONTHS);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{fraction:06}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// The units of a call, which has one kind of them at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    counted: Option<(Unit, UnitCount)>,
    form: ImageForm,
}

impl Units {
    /// So many units. Zero units are none.
    #[must_use]
    pub fn new(unit: Unit, count: u64) -> Self {
        Self::counted(unit, UnitCount::whole(u64::from(super::small(count))))
    }

    /// So many units, with a fraction. Zero units are none.
    #[must_use]
    pub fn counted(unit: Unit, count: UnitCount) -> Self {
        let counted = (count > UnitCount::default()).then_some((unit, count));
        Self { counted, form: ImageForm::default() }
    }

    /// So many images of one form.
    #[must_use]
    pub fn images(count: u64, form: ImageForm) -> Self {
        Self { form, ..Self::new(Unit::Image, count) }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.counted.is_none()
    }

    /// The unit and its count.
    #[must_use]
    pub const fn get(self) -> Option<(Unit, UnitCount)> {
        self.counted
    }

    /// The size and the quality of the images, as far as they are known.
    #[must_use]
    pub const fn form(self) -> ImageForm {
        self.form
    }

    /// These images in another form.
    #[must_use]
    pub const fn with_form(self, form: ImageForm) -> Self {
        Self { form, ..self }
    }

    /// The count of a unit.
    #[must_use]
    pub fn of(self, unit: Unit) -> UnitCount {
        self.counted.filter(|(own, _)| *own == unit).map(|(_, count)| count).unwrap_or_default()
    }

    /// The units of the request's own work. Images are made by the answer, so a call without one has none.
    #[must_use]
    pub fn before_answer(self) -> Self {
        match self.counted {
            Some((Unit::Image | Unit::Pixel, _)) => Self::default(),
            _ => self,
        }
    }

    /// These units so many times.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        Self { counted: self.counted.map(|(unit, count)| (unit, count.times(factor))), ..self }
    }

    /// Whether it has more units of a kind than `most`.
    #[must_use]
    pub fn exceeds(self, most: Self) -> bool {
        self.counted.is_some_and(|(unit, count)| count > most.of(unit))
    }

    /// The sum of both. All calls of a request have the same kind of units. The form of different images is unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self.counted, other.counted) {
            (Some((unit, count)), Some((same, more))) if unit == same => {
                let form = if self.form == other.form { self.form } else { ImageForm::default() };
                Self { counted: Some((unit, count.plus(more))), form }
            }
            (Some(_), _) => self,
            (None, _) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_written_without_trailing_zeros() {
        for (millionths, shown) in
            [(0, "0"), (2_000_000, "2"), (12_500_000, "12.5"), (8_470_001, "8.470001"), (1, "0.000001")]
        {
            assert_eq!(UnitCount::from_millionths(millionths).to_string(), shown);
        }
    }

    #[test]
    fn a_number_is_read_exactly() {
        for (number, shown) in
            [(0.0, "0"), (12.5, "12.5"), (8.470_000_267, "8.47"), (4_294_967_295.0, "4294967295")]
        {
            assert_eq!(UnitCount::of_number(number).unwrap().to_string(), shown);
        }
        for odd in [-1.0, f64::NAN, f64::INFINITY, 1e10] {
            assert_eq!(UnitCount::of_number(odd), None);
        }
    }

    #[test]
    fn a_cost_is_exact_to_the_last_digit() {
        let price = |text: &str| UnitPrice::parse(text).unwrap();
        let cost = |count: UnitCount, text: &str| count.cost(price(text)).to_string();
        assert_eq!(cost(UnitCount::whole(2), "0.002"), "0.004");
        assert_eq!(cost(UnitCount::from_millionths(12_345_678), "0.0001"), "0.0012345678");
        assert_eq!(cost(UnitCount::whole(1_048_576), "0.00000003751"), "0.03933208576");
        assert_eq!(cost(UnitCount::from_millionths(1), "0.000000001"), "0.000000000000001");
    }

    #[test]
    fn every_unit_has_names_of_its_own() {
        for unit in Unit::ALL {
            assert_eq!(Unit::named(unit.name()), Some(unit));
            assert_eq!(unit.official_price_name(), format!("official_per_{}", unit.name()));
            assert_eq!(unit.gateway_price_name(), format!("gateway_per_{}", unit.name()));
        }
    }

    #[test]
    fn sums_of_different_forms_have_none() {
        let form = |text: &str| ImageForm::of(Some(text), None);
        let two = Units::images(1, form("1024x1024")).plus(Units::images(1, form("1024x1024")));
        assert_eq!((two.of(Unit::Image), two.form()), (UnitCount::whole(2), form("1024x1024")));
        let mixed = two.plus(Units::images(1, form("512x512")));
        assert_eq!((mixed.of(Unit::Image), mixed.form()), (UnitCount::whole(3), ImageForm::default()));
        assert!(Units::new(Unit::Page, 0).is_none());
        assert!(two.before_answer().is_none());
        assert_eq!(Units::new(Unit::Search, 2).before_answer(), Units::new(Unit::Search, 2));
    }
}
