//! What is asked of the ledger.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use crate::subject::{Subject, Whose};

/// How long the ledger may take to tell what was spent.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells what was spent so far.
pub trait Spending: Debug + Send + Sync {
    /// The femto-USD that the ledger knows this key or team to have spent from a moment on and before another one (unix
    /// seconds; `i64::MIN` and `i64::MAX` for all time). `Err` when the ledger cannot tell now; why is for the ledger to log.
    fn spent<'a>(
        &'a self,
        whose: Whose,
        id: &'a str,
        from: i64,
        until: i64,
    ) -> Pin<Box<dyn Future<Output = Result<i128, ()>> + Send + 'a>>;

    /// The same, and which of these requests it counts: both of one moment.
    fn spent_with<'a>(
        &'a self,
        whose: Whose,
        id: &'a str,
        period: (i64, i64),
        requests: &'a [String],
    ) -> Counted<'a>;
}

/// What was spent, and the requests that it counts.
type Counted<'a> = Pin<Box<dyn Future<Output = Result<(i128, Vec<String>), ()>> + Send + 'a>>;

/// What the ledger says of a period, in time.
///
/// # Errors
/// It cannot tell.
pub(crate) async fn spent(
    spending: &dyn Spending,
    subject: &Subject,
    (from, until): (i64, i64),
) -> Result<i128, ()> {
    let asked = spending.spent(subject.whose(), subject.id(), from, until);
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.map_err(|_| ())?.map(|femtos| femtos.max(0))
}

/// What the ledger says, and which of these requests it counts, in time.
///
/// # Errors
/// It cannot tell.
pub(crate) async fn spent_with(
    spending: &dyn Spending,
    subject: &Subject,
    period: (i64, i64),
    requests: &[String],
) -> Result<(i128, Vec<String>), ()> {
    let asked = spending.spent_with(subject.whose(), subject.id(), period, requests);
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.map_err(|_| ())?.map(|(femtos, counted)| (femtos.max(0), counted))
}
