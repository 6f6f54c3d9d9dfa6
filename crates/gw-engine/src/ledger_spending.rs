//! Answers the budgets' question to the ledger: the amount spent in a period.

use std::sync::Arc;
use std::time::Duration;

use gw_limits::{LedgerUnavailable, Spending, SpendingFuture, SpendingLedger, SubjectKind};
use gw_store::journal::Journal;
use gw_store::ledger::{Spender, Spent};
use gw_store::{CountedTime, Store};

/// The time to wait for rows that are not in the ledger yet.
const PENDING_ROWS_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks up spending in the ledger.
#[derive(Clone, Debug)]
pub struct LedgerSpending {
    store: Store,
    journal: Arc<Journal>,
}

impl LedgerSpending {
    /// Spending in this store, kind rows come from this journal.
    #[must_use]
    pub fn new(store: Store, journal: Arc<Journal>) -> Self {
        Self { store, journal }
    }

    async fn look_up(
        &self,
        kind: SubjectKind,
        id: &str,
        time: CountedTime,
        requests: &[String],
    ) -> Result<Spending, LedgerUnavailable> {
        // A new budget of a key in use must count the requests that ended and are not in the ledger yet.
        if !self.journal.wait_until_written(PENDING_ROWS_TIMEOUT).await {
            tracing::warn!("a budget cannot be looked up: the ledger is behind");
            return Err(LedgerUnavailable);
        }
        let who = match kind {
            SubjectKind::Key => Spender::Key(id),
            SubjectKind::Team => Spender::Team(id),
        };
        let spent = self.store.spent_with(who, time, requests).await;
        let spent = spent.map(|Spent { steps, requests }| Spending { steps, counted_requests: requests });
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
        time: CountedTime,
        requests: &'a [String],
    ) -> SpendingFuture<'a> {
        Box::pin(self.look_up(kind, id, time, requests))
    }
}

/// Spending without a ledger: always zero.
#[derive(Clone, Copy, Debug)]
pub struct NothingSpent;

impl SpendingLedger for NothingSpent {
    fn spending<'a>(
        &'a self,
        _: SubjectKind,
        _: &'a str,
        _: CountedTime,
        _: &'a [String],
    ) -> SpendingFuture<'a> {
        Box::pin(std::future::ready(Ok(Spending::default())))
    }
}
