//! The routing strategies and their names: the values of a request's `routing.strategy` and of the setting `strategy`.

/// How candidates are sorted. `gw-routing` has the formulas; `docs/routing.md` explains them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The given order.
    #[default]
    Default,
    /// The lowest price of this request.
    Cheapest,
    /// The shortest time to the first token.
    Fastest,
    /// The most tokens per second.
    Throughput,
    /// The highest benchmark score.
    BestQuality,
    /// Price, latency, quality, availability and load together, by configured weights.
    Balanced,
    /// The fewest failures.
    Availability,
    /// The fewest requests in flight.
    LeastBusy,
    /// Each candidate in turn, by weight.
    RoundRobin,
}

impl Strategy {
    /// All strategies, in the order in which documents list them.
    pub const ALL: [Self; 9] = [
        Self::Default,
        Self::Cheapest,
        Self::Fastest,
        Self::Throughput,
        Self::BestQuality,
        Self::Balanced,
        Self::Availability,
        Self::LeastBusy,
        Self::RoundRobin,
    ];

    /// The canonical name, then its aliases.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Default => &["default"],
            Self::Cheapest => &["cheapest", "cost", "price", "lowest_cost"],
            Self::Fastest => &["fastest", "latency", "lowest_latency"],
            Self::Throughput => &["throughput"],
            Self::BestQuality => &["best_quality", "quality"],
            Self::Balanced => &["balanced"],
            Self::Availability => &["availability"],
            Self::LeastBusy => &["least_busy"],
            Self::RoundRobin => &["round_robin", "weighted"],
        }
    }

    /// The strategy of a canonical name or an alias; None for any other name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.names().contains(&name))
    }

    /// The canonical name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.names() {
            [canonical, ..] => canonical,
            [] => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategy_names_are_unique_and_parse_back() {
        let mut names = Vec::new();
        for strategy in Strategy::ALL {
            let variant = format!("{strategy:?}").to_lowercase();
            assert_eq!(strategy.as_str().replace('_', ""), variant);
            for name in strategy.names() {
                assert_eq!(Strategy::named(name), Some(strategy), "{name}");
                names.push(name);
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(Strategy::named("Cheapest"), None);
        assert_eq!(Strategy::named(""), None);
    }
}
