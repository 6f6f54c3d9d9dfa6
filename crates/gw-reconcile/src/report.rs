//! The reconciliation as JSON and as a table.

use gw_command::table::{Align, clean, columns};
use gw_wire::money::Money;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::args::date;
use super::causes::Cause;
use super::reconciliation::{DayRow, Reconciliation};

/// An amount as an exact JSON number.
struct Usd(Money);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

#[derive(Serialize)]
struct Document<'r> {
    object: &'static str,
    provider: &'r str,
    from: String,
    to: String,
    days: Vec<DayObject<'r>>,
    total: Total,
}

#[derive(Serialize)]
struct DayObject<'r> {
    day: String,
    model: Option<&'r str>,
    ours: Usd,
    theirs: Usd,
    difference_usd: Usd,
    causes: Vec<CauseObject<'r>>,
}

#[derive(Serialize)]
struct CauseObject<'r> {
    cause: &'static str,
    usd: Usd,
    detail: &'r str,
}

#[derive(Serialize)]
struct Total {
    ours_usd: Usd,
    theirs_usd: Usd,
    difference_usd: Usd,
}

impl<'r> From<&'r DayRow> for DayObject<'r> {
    fn from(row: &'r DayRow) -> Self {
        let cause = |cause: &'r Cause| CauseObject {
            cause: cause.kind.as_str(),
            usd: Usd(cause.usd),
            detail: &cause.detail,
        };
        Self {
            day: date(row.day),
            model: row.model.as_deref(),
            ours: Usd(row.ours),
            theirs: Usd(row.theirs),
            difference_usd: Usd(row.difference()),
            causes: row.causes.iter().map(cause).collect(),
        }
    }
}

impl Reconciliation {
    /// The reconciliation as JSON.
    ///
    /// # Errors
    /// Never: all members are plain.
    pub fn json(&self) -> serde_json::Result<String> {
        let (ours, theirs) = (self.ours(), self.theirs());
        serde_json::to_string_pretty(&Document {
            object: "reconciliation",
            provider: &self.provider,
            from: date(self.range.first),
            to: date(self.range.last),
            days: self.rows.iter().map(DayObject::from).collect(),
            total: Total { ours_usd: Usd(ours), theirs_usd: Usd(theirs), difference_usd: Usd(theirs - ours) },
        })
    }

    /// The reconciliation as a table: a line for each day and model, and one for each cause.
    #[must_use]
    pub fn table(&self) -> String {
        const ALIGNS: [Align; 6] =
            [Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left];
        let header = ["DAY", "MODEL", "OURS USD", "THEIRS USD", "DIFFERENCE", "CAUSE"].map(str::to_owned);
        let mut rows = vec![header.to_vec()];
        for row in &self.rows {
            let model = row.model.as_deref().map(clean).unwrap_or_default();
            let amounts = [row.ours, row.theirs, row.difference()].map(|usd| usd.to_string());
            rows.push([date(row.day), model].into_iter().chain(amounts).chain([String::new()]).collect());
            rows.extend(row.causes.iter().map(|cause| {
                let text = format!("{}: {}", cause.kind.as_str(), clean(&cause.detail));
                let blank = std::iter::repeat_n(String::new(), 4);
                blank.chain([cause.usd.to_string(), text]).collect()
            }));
        }
        let (ours, theirs) = (self.ours(), self.theirs());
        let total = [ours, theirs, theirs - ours].map(|usd| usd.to_string());
        rows.push(
            ["total".to_owned(), String::new()].into_iter().chain(total).chain([String::new()]).collect(),
        );
        columns(&rows, &ALIGNS)
    }
}
