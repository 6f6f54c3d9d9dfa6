//! Units other than tokens that a provider charges for.

/// A unit with a price of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A query with up to 100 documents to rank.
    Search,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 1] = [Self::Search];

    /// The name in the ledger and in `official_per_<name>`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Search => "search_unit",
        }
    }

    /// The unit of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }
}

/// The units of a call, which has one kind of them at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units(Option<(Unit, u32)>);

impl Units {
    /// So many units. Zero units are none.
    #[must_use]
    pub fn new(unit: Unit, count: u64) -> Self {
        Self((count > 0).then(|| (unit, super::small(count))))
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// The unit and its count.
    #[must_use]
    pub const fn get(self) -> Option<(Unit, u32)> {
        self.0
    }

    /// The count of a unit.
    #[must_use]
    pub fn of(self, unit: Unit) -> u32 {
        self.0.map_or(0, |(own, count)| if own == unit { count } else { 0 })
    }

    /// Whether it has more units of a kind than `most`.
    #[must_use]
    pub fn exceeds(self, most: Self) -> bool {
        self.0.is_some_and(|(unit, count)| count > most.of(unit))
    }

    /// The sum of both. All calls of a request have the same kind of units.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some((unit, count)), Some((same, more))) if unit == same => {
                Self(Some((unit, count.saturating_add(more))))
            }
            (own, more) => Self(own.or(more)),
        }
    }
}
