//! The result of a comparison, and the names of models on both sides.

use gw_engine::catalog::Catalog;
use gw_wire::money::Money;

use super::args::DayRange;
use super::bill::BilledDay;
use super::causes::{Cause, CauseKind, ComparedDay};

/// A day and a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayRow {
    /// The day since 1970.
    pub day: i64,
    /// The id of the model, or the provider's name of a model that the catalogue does not have. None: the provider names none.
    pub model: Option<String>,
    /// The ledger's cost.
    pub ours: Money,
    /// The provider's cost.
    pub theirs: Money,
    /// The causes of the difference.
    pub causes: Vec<Cause>,
}

impl DayRow {
    pub(crate) fn new(day: i64, model: &str, compared: &ComparedDay<'_>) -> Self {
        Self {
            day,
            model: Some(model.to_owned()),
            ours: compared.own.cost,
            theirs: compared.bill.map(BilledDay::cost).unwrap_or_default(),
            causes: compared.causes(),
        }
    }

    /// An entry of the provider without a model.
    pub(crate) fn without_model(day: i64, bill: &BilledDay) -> Self {
        let compared = ComparedDay {
            own: super::causes::OwnDay::default(),
            bill: Some(bill),
            rates: None,
            shifted_hours: None,
        };
        let mut causes = compared.causes();
        for cause in causes.iter_mut().filter(|cause| cause.kind == CauseKind::MissingHere) {
            cause.kind = CauseKind::Unexplained;
            "the report names no model for this cost".clone_into(&mut cause.detail);
        }
        Self { day, model: None, ours: Money::ZERO, theirs: bill.cost(), causes }
    }

    /// The provider's cost minus ours.
    #[must_use]
    pub fn difference(&self) -> Money {
        self.theirs - self.ours
    }
}

/// A comparison of a provider's bill with the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciliation {
    /// The provider.
    pub provider: String,
    /// The days.
    pub range: DayRange,
    /// The rows by day and model.
    pub rows: Vec<DayRow>,
}

impl Reconciliation {
    pub(crate) fn new(provider: &str, range: DayRange, mut rows: Vec<DayRow>) -> Self {
        rows.sort_by(|one, other| (one.day, &one.model).cmp(&(other.day, &other.model)));
        Self { provider: provider.to_owned(), range, rows }
    }

    /// The ledger's cost.
    #[must_use]
    pub fn ours(&self) -> Money {
        self.rows.iter().map(|row| row.ours).sum()
    }

    /// The provider's cost.
    #[must_use]
    pub fn theirs(&self) -> Money {
        self.rows.iter().map(|row| row.theirs).sum()
    }

    /// Whether the totals differ by more than so many per cent of the provider's total, or a part of the bill is in another currency.
    #[must_use]
    pub fn is_above(&self, percent: Money) -> bool {
        // An amount in another currency is not compared, so it may be large.
        let mut causes = self.rows.iter().flat_map(|row| &row.causes);
        if causes.any(|cause| cause.kind == CauseKind::Currency) {
            return true;
        }
        let difference = (self.theirs() - self.ours()).femtos().unsigned_abs();
        // Both sides are 100 × 10^9 times the ratio, with room for a billion USD.
        let nano_percent = percent.femtos().unsigned_abs() / 1_000_000;
        let allowed = self.theirs().femtos().unsigned_abs().saturating_mul(nano_percent);
        difference.saturating_mul(100_000_000_000) > allowed
    }
}

/// The provider's names of the catalogue's models.
pub(crate) struct ModelNames<'c> {
    names: Vec<(&'c str, &'c str)>,
}

impl<'c> ModelNames<'c> {
    pub(crate) fn new(catalog: &'c Catalog, provider: &str) -> Self {
        let own = catalog.models().iter().filter(|model| &*model.provider == provider);
        Self { names: own.map(|model| (&*model.upstream_model, &*model.id)).collect() }
    }

    /// The catalogue's id of a model. A name with a date stands for the model without it, if the catalogue has that one alone.
    pub(crate) fn id_of(&self, name: &str, provider: &str) -> String {
        let find = |wanted: &str| self.names.iter().find(|(known, _)| known.eq_ignore_ascii_case(wanted));
        let found =
            find(name).or_else(|| find(without_date(name)?)).or_else(|| find(name.split_once(':')?.0));
        let found = found.or_else(|| self.names.iter().find(|(known, _)| without_date(known) == Some(name)));
        found.map_or_else(|| format!("{provider}/{name}"), |(_, id)| (*id).to_owned())
    }
}

impl ModelNames<'_> {
    /// The id that stands for all models of the catalogue that have one name at the provider.
    pub(crate) fn shared_id(&self, id: &str) -> String {
        let name = self.names.iter().find(|(_, known)| *known == id).map(|(name, _)| *name);
        let first =
            self.names.iter().find(|(known, _)| name.is_some_and(|name| known.eq_ignore_ascii_case(name)));
        first.map_or(id, |(_, id)| *id).to_owned()
    }
}

/// A name without `-2024-08-06` or `-20240806` at its end. None: it has no date.
fn without_date(name: &str) -> Option<&str> {
    let start = name.len().checked_sub("-2024-08-06".len())?;
    let is_date = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if let Some((base, date)) = name.split_at_checked(start)
        && let Some(date) = date.strip_prefix('-')
        && is_date(date)
        && date.bytes().filter(u8::is_ascii_digit).count() == 8
    {
        return Some(base);
    }
    let (base, date) = name.rsplit_once('-')?;
    (date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())).then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_its_date() {
        for (name, expected) in [
            ("gpt-4o-2024-08-06", Some("gpt-4o")),
            ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
            ("gpt-4o", None),
            ("o3", None),
            ("ü-2024-08-06", Some("ü")),
        ] {
            assert_eq!(without_date(name), expected, "{name}");
        }
    }

    fn reconciliation(ours: i128, theirs: i128) -> Reconciliation {
        let row = DayRow {
            day: 20_000,
            model: None,
            ours: Money::from_femtos(ours),
            theirs: Money::from_femtos(theirs),
            causes: Vec::new(),
        };
        Reconciliation::new("acme", DayRange { first: 20_000, last: 20_000 }, vec![row])
    }

    #[test]
    fn the_threshold_is_a_part_of_the_providers_total() {
        let one = Money::parse_rounded("1", 0).unwrap();
        for (ours, theirs, is_above) in [
            (99, 100, false),
            (98, 100, true),
            (101, 100, false),
            (102, 100, true),
            (0, 0, false),
            (1, 0, true),
        ] {
            assert_eq!(reconciliation(ours, theirs).is_above(one), is_above, "{ours} {theirs}");
        }
        assert!(reconciliation(99, 100).is_above(Money::ZERO));
    }
}
