//! The prices of units other than tokens: requests, search units, images, seconds, characters, pages and pixels.

use gw_wire::money::{Price, UnitPrice};
use gw_wire::usage::{ImageForm, Unit};

/// The price of each unit; None = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitPrices {
    query: Option<UnitPrice>,
    search: Option<UnitPrice>,
    image: Option<UnitPrice>,
    second: Option<UnitPrice>,
    character: Option<UnitPrice>,
    page: Option<UnitPrice>,
    pixel: Option<UnitPrice>,
}

impl UnitPrices {
    /// The prices that `price` returns for each unit.
    pub fn of_each(mut price: impl FnMut(Unit) -> Option<UnitPrice>) -> Self {
        let mut prices = Self::default();
        for unit in Unit::ALL {
            *prices.place(unit) = price(unit);
        }
        prices
    }

    /// The price of a unit.
    #[must_use]
    pub fn of(&self, unit: Unit) -> Option<UnitPrice> {
        match unit {
            Unit::Query => self.query,
            Unit::Search => self.search,
            Unit::Image => self.image,
            Unit::Second => self.second,
            Unit::Character => self.character,
            Unit::Page => self.page,
            Unit::Pixel => self.pixel,
        }
    }

    fn place(&mut self, unit: Unit) -> &mut Option<UnitPrice> {
        match unit {
            Unit::Query => &mut self.query,
            Unit::Search => &mut self.search,
            Unit::Image => &mut self.image,
            Unit::Second => &mut self.second,
            Unit::Character => &mut self.character,
            Unit::Page => &mut self.page,
            Unit::Pixel => &mut self.pixel,
        }
    }

    /// Sets the price of a unit.
    pub fn set(&mut self, unit: Unit, price: UnitPrice) {
        *self.place(unit) = Some(price);
    }

    /// These prices, with those of `below` where one is missing.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        Self::of_each(|unit| self.of(unit).or(below.of(unit)))
    }

    /// The prices times the multiplier of a provider.
    #[must_use]
    pub fn times(self, multiplier: Price) -> Self {
        Self::of_each(|unit| self.of(unit).map(|price| price.times(multiplier)))
    }

    /// Whether no price is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The price of an image of one form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImagePrice {
    /// The size and the quality; a part that is None is any.
    pub form: ImageForm,
    /// The provider's own price.
    pub official: Option<UnitPrice>,
    /// The price that is shown and charged. Before the prices are final: the one that the operator set.
    pub gateway: Option<UnitPrice>,
}
