//! How far the limits of keys and teams are used up, for the holder of a key and for the metrics.

use std::sync::Arc;

pub use gw_limits::{BudgetUse, RateState, SubjectKind, SubjectUse, TokenState};

/// The use of the limits of a key or a team, with its name.
#[derive(Clone, Debug)]
pub struct NamedUse {
    /// The name of the key, or the id of the team.
    pub name: Arc<str>,
    /// The use.
    pub used: SubjectUse,
}
