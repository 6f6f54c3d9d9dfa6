//! The usage of some upstream calls, and its price.

use gw_wire::money::Money;
use gw_wire::usage::{StatedCost, Usage};

use crate::catalog::Model;
use crate::request::context::CallRecord;

/// The usage of some upstream calls, and its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BilledUsage {
    pub(crate) usage: Usage,
    /// The sum over the calls, each in its own price tier. Of a call with an unknown price it has the known part.
    pub(crate) cost: Money,
    /// The calls that use something without a price.
    unpriced: u32,
    /// The sum of the costs that upstreams stated; None: none stated one.
    pub(crate) stated_cost: Option<Money>,
}

impl BilledUsage {
    /// The cost; None if a call has no price.
    pub(crate) fn known_cost(&self) -> Option<Money> {
        (self.unpriced == 0).then_some(self.cost)
    }

    /// The known part of the cost, and whether it is the whole cost.
    pub(crate) fn known_part(&self) -> (Money, bool) {
        (self.cost, self.unpriced == 0)
    }

    /// The cost, beside the usage that it is shown with.
    pub(crate) fn with_usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// Notes the cost in the access log's record.
    pub(crate) fn note_cost(&self, record: &mut CallRecord) {
        (record.cost, record.unpriced) = (self.cost, self.unpriced > 0);
    }

    /// The usage of one call of a model.
    pub(crate) fn of_call(model: &Model, usage: Usage) -> Self {
        let charge = model.charge(&usage);
        let stated_cost = usage.stated_cost.map(StatedCost::amount);
        Self { usage, cost: charge.known, unpriced: u32::from(!charge.is_complete), stated_cost }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.usage = self.usage.plus(&other.usage);
        self.cost += other.cost;
        self.unpriced += other.unpriced;
        if let Some(stated) = other.stated_cost {
            self.stated_cost = Some(self.stated_cost.unwrap_or_default() + stated);
        }
    }

    /// Adds the usage of one call of a model.
    pub(crate) fn add_usage(&mut self, model: &Model, usage: &Usage) {
        self.add(&Self::of_call(model, *usage));
    }
}
