//! The question that budgets ask the ledger: how much was spent in a period?

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use crate::subject_kind::SubjectKind;

/// How long the ledger may take to answer.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(5);

/// The spending of a subject in a period, as the ledger knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// The sum of the costs, in femto-USD.
    pub cost_femtos: i128,
    /// Those of the requests in question that the sum includes.
    pub counted_requests: Vec<String>,
}

/// The ledger cannot answer now. The implementation of [`SpendingLedger`] logs the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ledger cannot say what was spent")]
pub struct LedgerUnavailable;

/// The ledger's answer, later.
pub type SpendingFuture<'a> = Pin<Box<dyn Future<Output = Result<Spending, LedgerUnavailable>> + Send + 'a>>;

/// The ledger, as budgets see it.
pub trait SpendingLedger: Debug + Send + Sync {
    /// The spending of a key or a team in a period (begin and end in unix seconds, the end excluded; `i64::MIN` and
    /// `i64::MAX` for all time). Also says which of `requests` the sum includes. The sum and the list are of the same
    /// moment.
    fn spending<'a>(
        &'a self,
        kind: SubjectKind,
        id: &'a str,
        period: (i64, i64),
        requests: &'a [String],
    ) -> SpendingFuture<'a>;
}

/// Asks the ledger, with a time limit. A negative sum counts as zero.
///
/// # Errors
/// The ledger cannot answer, or not in time.
pub(crate) async fn ask(
    ledger: &dyn SpendingLedger,
    (kind, id): (SubjectKind, &str),
    period: (i64, i64),
    requests: &[String],
) -> Result<Spending, LedgerUnavailable> {
    let answer = tokio::time::timeout(LEDGER_TIMEOUT, ledger.spending(kind, id, period, requests)).await;
    let mut spending = answer.map_err(|_| LedgerUnavailable)??;
    spending.cost_femtos = spending.cost_femtos.max(0);
    Ok(spending)
}
