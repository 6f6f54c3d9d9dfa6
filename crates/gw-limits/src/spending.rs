//! What is asked of the ledger.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use crate::subject::{Subject, Whose};

/// How long the ledger may take to tell what was spent.
const PATIENCE: Duration = Duration::from_secs(5);

/// The femto-USD that were spent, and the requests that they count.
pub type Counted<'a> = Pin<Box<dyn Future<Output = Result<(i128, Vec<String>), ()>> + Send + 'a>>;

/// The ledger, as budgets ask it.
pub trait Spending: Debug + Send + Sync {
    /// The femto-USD that the ledger knows this key or team to have spent from a moment on and before another one (unix
    /// seconds; `i64::MIN` and `i64::MAX` for all time), and which of these requests that sum counts: both of one moment. `Err` when the
    /// ledger cannot tell now; it logs the reason itself.
    fn spent<'a>(
        &'a self,
        whose: Whose,
        id: &'a str,
        period: (i64, i64),
        requests: &'a [String],
    ) -> Counted<'a>;
}

/// The sum of the ledger for a period. The ledger has a limited time to answer.
///
/// # Errors
/// It cannot tell.
pub(crate) async fn spent(
    spending: &dyn Spending,
    subject: &Subject,
    period: (i64, i64),
) -> Result<i128, ()> {
    spent_with(spending, subject, period, &[]).await.map(|(femtos, _)| femtos)
}

/// The sum of the ledger for a period, and which of these requests it counts. The ledger has a limited time to answer.
///
/// # Errors
/// It cannot tell.
pub(crate) async fn spent_with(
    spending: &dyn Spending,
    subject: &Subject,
    period: (i64, i64),
    requests: &[String],
) -> Result<(i128, Vec<String>), ()> {
    let asked = spending.spent(subject.whose(), subject.id(), period, requests);
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.map_err(|_| ())?.map(|(femtos, counted)| (femtos.max(0), counted))
}
