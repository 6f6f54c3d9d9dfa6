//! The seam to the part that puts a changed configuration into force without a restart.

use std::fmt::Debug;
use std::pin::Pin;

use crate::setup::Setup;

/// The result of an application, in the future. The error says in a sentence why the old configuration stays in force.
pub type ApplyFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ApplyError>> + Send + 'a>>;

/// The reason why a configuration is not in force.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ApplyError(pub String);

/// Puts a configuration into force.
pub trait ApplyConfiguration: Debug + Send + Sync {
    /// Applies a configuration that passed all checks.
    fn apply(&self, setup: Setup) -> ApplyFuture<'_>;
}
