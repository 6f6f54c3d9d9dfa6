//! The question that budgets ask the ledger: how much was spent in a period?

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use gw_store::CountedTime;

use crate::subject_kind::SubjectKind;

/// How long the ledger may take to answer.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a request asks the ledger about one budget. The answer to a question is of no use if the period has moved on or the
/// budget has changed meanwhile.
pub(crate) const MAX_QUESTIONS: usize = 4;

/// The spending of a subject in a period, as the ledger knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// The sums of the costs in femto-USD, by the begin of each step of the period (unix seconds). A period that does not move
    /// on has one step. The last step of a rolling period has everything that is later, too.
    pub steps: Vec<(i64, i128)>,
    /// The sum of the time before.
    pub before_femtos: i128,
    /// Those of the requests in question that the sums include.
    pub counted_requests: Vec<CountedRequest>,
}

/// A request that the sums include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedRequest {
    /// Its id.
    pub id: String,
    /// Its cost. Zero if the question has no time before.
    pub cost_femtos: i128,
    /// The unix second in which it began. Zero if the question has no time before.
    pub begun: i64,
}

/// A budget's question.
#[derive(Clone, Copy, Debug)]
pub struct SpendingQuestion<'a> {
    /// The time that counts in its period.
    pub time: CountedTime,
    /// The begin and the end of the time whose spending was known before, in unix seconds.
    pub before: Option<(i64, i64)>,
    /// Requests that the ledger may or may not know.
    pub requests: &'a [String],
}

/// The ledger cannot answer now. The implementation of [`SpendingLedger`] logs the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ledger cannot say what was spent")]
pub struct LedgerUnavailable;

/// The ledger's answer, later.
pub type SpendingFuture<'a> = Pin<Box<dyn Future<Output = Result<Spending, LedgerUnavailable>> + Send + 'a>>;

/// The ledger, as budgets see it.
pub trait SpendingLedger: Debug + Send + Sync {
    /// The spending of a key or a team. Also says which of the requests the sums include. The sums and the list are of the same
    /// moment.
    fn spending<'a>(
        &'a self,
        kind: SubjectKind,
        id: &'a str,
        question: SpendingQuestion<'a>,
    ) -> SpendingFuture<'a>;
}

/// Asks the ledger, with a time limit. A negative sum counts as zero.
///
/// # Errors
/// The ledger cannot answer, or not in time.
pub(crate) async fn ask(
    ledger: &dyn SpendingLedger,
    (kind, id): (SubjectKind, &str),
    question: SpendingQuestion<'_>,
) -> Result<Spending, LedgerUnavailable> {
    let answer = tokio::time::timeout(LEDGER_TIMEOUT, ledger.spending(kind, id, question)).await;
    let mut spending = answer.map_err(|_| LedgerUnavailable)??;
    spending.steps.iter_mut().for_each(|(_, femtos)| *femtos = (*femtos).max(0));
    Ok(spending)
}
