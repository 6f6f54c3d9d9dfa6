//! What is asked of the ledger.

use std::fmt::Debug;
use std::pin::Pin;

use crate::subject::Whose;

/// Tells what was spent so far.
pub trait Spending: Debug + Send + Sync {
    /// The femto-USD that the ledger knows this key or team to have spent since a moment (unix seconds; `i64::MIN` for
    /// all time). `Err` when the ledger cannot tell now; why is for the ledger to log.
    fn spent<'a>(
        &'a self,
        whose: Whose,
        id: &'a str,
        since: i64,
    ) -> Pin<Box<dyn Future<Output = Result<i128, ()>> + Send + 'a>>;
}
