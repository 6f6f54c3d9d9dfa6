//! How far the limits of a key and its team are used up, for the holder of the key.

pub use gw_limits::{BudgetUse, RateState, SubjectKind, SubjectUse, TokenState};
