//! The seam to the part that puts a changed configuration into force without a restart.

use std::fmt::Debug;
use std::pin::Pin;

/// The result of an application, in the future: the settings that only a restart applies, as paths such as `cache.backend`.
pub type ApplyFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, ApplyError>> + Send + 'a>>;

/// The reason why a configuration is not in force.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ApplyError(pub String);

/// Puts the configuration of the file and the store into force.
pub trait ApplyConfiguration: Debug + Send + Sync {
    /// Applies the configuration as it is stored now, whole or not at all.
    fn apply(&self) -> ApplyFuture<'_>;
}
