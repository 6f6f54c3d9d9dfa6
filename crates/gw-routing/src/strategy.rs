//! The nine strategies of CONTRACT 0.4. Their names and aliases are in `gw_wire::request::STRATEGIES`.

use gw_wire::request::STRATEGIES;

/// By what candidates are ordered; the formulas are in `formula.rs` and `docs/routing.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The given order.
    #[default]
    Default,
    /// Lowest price of this request.
    Cheapest,
    /// Shortest time to the first token.
    Fastest,
    /// Most tokens per second.
    Throughput,
    /// Highest benchmark score.
    BestQuality,
    /// Everything together, by configured [`crate::Weights`].
    Balanced,
    /// Fewest failures.
    Availability,
    /// Fewest requests under way.
    LeastBusy,
    /// Each in turn, by weight.
    RoundRobin,
}

impl Strategy {
    /// All of them, in the order of the table of names.
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

    /// The strategy of a canonical name or an alias; None when there is no such name.
    #[must_use]
    pub fn named(canonical_or_alias: &str) -> Option<Self> {
        let row = STRATEGIES.iter().position(|row| row.contains(&canonical_or_alias))?;
        Self::ALL.get(row).copied()
    }

    /// The canonical name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        STRATEGIES.get(self as usize).and_then(|row| row.first()).copied().unwrap_or("default")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_names_and_the_strategies_are_in_one_order() {
        for (strategy, row) in Strategy::ALL.into_iter().zip(STRATEGIES) {
            assert_eq!(strategy.as_str(), row[0]);
            for name in row {
                assert_eq!(Strategy::named(name), Some(strategy), "{name}");
            }
            let spelled = format!("{strategy:?}").to_lowercase();
            assert_eq!(strategy.as_str().replace('_', ""), spelled);
        }
        assert_eq!(Strategy::ALL.len(), STRATEGIES.len());
        assert_eq!(Strategy::named("Cheapest"), None);
        assert_eq!(Strategy::named(""), None);
    }
}
