//! How far the limits of a key or a team are used up, for the holder of the key.

use gw_store::Limits;

use crate::limit_state::{RateState, TokenState};
use crate::subject_kind::SubjectKind;

/// The use of a subject's limits at one moment. Each part is None if there is no such limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectUse {
    /// Whether this is a key or a team.
    pub kind: SubjectKind,
    /// The id of the key or the team.
    pub id: String,
    /// The limits.
    pub limits: Limits,
    /// Requests per minute.
    pub requests: Option<RateState>,
    /// Tokens per minute.
    pub tokens: Option<TokenState>,
    /// Requests in flight.
    pub in_flight: Option<u32>,
    /// Money. Also None while the spending is unknown.
    pub budget: Option<BudgetUse>,
}

impl SubjectUse {
    /// The money that is neither spent nor reserved, in femto-USD. None: there is no budget, or its spending is not known.
    #[must_use]
    pub fn left_femtos(&self) -> Option<i128> {
        let (budget, spending) = self.limits.budget.zip(self.budget)?;
        Some((budget.femtos() - spending.spent_femtos - spending.reserved_femtos).max(0))
    }
}

/// The use of a budget in its current period, in femto-USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// The cost of requests that are over.
    pub spent_femtos: i128,
    /// The amount that requests in flight hold.
    pub reserved_femtos: i128,
}

impl From<(i128, i128)> for BudgetUse {
    fn from((spent_femtos, reserved_femtos): (i128, i128)) -> Self {
        Self { spent_femtos, reserved_femtos }
    }
}
