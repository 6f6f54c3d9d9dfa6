//! The ledger as budgets ask it: how much was spent in a period.

use std::sync::Arc;
use std::time::Duration;

use gw_limits::{LedgerUnavailable, Spending, SpendingFuture, SpendingLedger, SubjectKind};
use gw_store::Store;
use gw_store::journal::Journal;
use gw_store::ledger::Spender;

/// How long rows that are on their way into the ledger are waited for.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// The ledger as the memory of budgets.
#[derive(Clone, Debug)]
pub struct LedgerSpending {
    store: Store,
    journal: Arc<Journal>,
}

impl LedgerSpending {
    /// Of this store, into which this journal is written.
    #[must_use]
    pub fn new(store: Store, journal: Arc<Journal>) -> Self {
        Self { store, journal }
    }

    async fn ask(
        &self,
        kind: SubjectKind,
        id: &str,
        (from, until): (i64, i64),
        requests: &[String],
    ) -> Result<Spending, LedgerUnavailable> {
        // A budget that is new to a key in use must know of the requests that are over but not in the ledger yet.
        if !self.journal.until_written(ON_THE_WAY).await {
            tracing::warn!("a budget cannot be looked up: the ledger is behind");
            return Err(LedgerUnavailable);
        }
        let who = match kind {
            SubjectKind::Key => Spender::Key(id),
            SubjectKind::Team => Spender::Team(id),
        };
        let spent = self.store.spent_with(who, from, until, requests).await;
        let spent = spent.map(|(cost_femtos, counted_requests)| Spending { cost_femtos, counted_requests });
        spent.map_err(|error| {
            tracing::warn!("a budget cannot be looked up: {error}");
            LedgerUnavailable
        })
    }
}

impl SpendingLedger for LedgerSpending {
    fn spending<'a>(
        &'a self,
        kind: SubjectKind,
        id: &'a str,
        period: (i64, i64),
        requests: &'a [String],
    ) -> SpendingFuture<'a> {
        Box::pin(self.ask(kind, id, period, requests))
    }
}

/// For an engine without a ledger.
#[derive(Clone, Copy, Debug)]
pub struct NothingSpent;

impl SpendingLedger for NothingSpent {
    fn spending<'a>(
        &'a self,
        _: SubjectKind,
        _: &'a str,
        _: (i64, i64),
        _: &'a [String],
    ) -> SpendingFuture<'a> {
        Box::pin(std::future::ready(Ok(Spending::default())))
    }
}
