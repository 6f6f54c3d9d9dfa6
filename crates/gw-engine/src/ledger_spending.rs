//! Answers the budgets' question to the ledger: the amount spent in a period.

use std::sync::Arc;
use std::time::Duration;

use gw_limits::{
    CountedRequest, LedgerUnavailable, Spending, SpendingFuture, SpendingLedger, SpendingQuestion,
    SubjectKind,
};
use gw_store::Store;
use gw_store::journal::Journal;
use gw_store::ledger::{Spender, Spent};

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
        SpendingQuestion { time, before, requests }: SpendingQuestion<'_>,
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
        let spent = self.store.spent_with(who, time, before, requests).await;
        let failed = |error| {
            tracing::warn!("a budget cannot be looked up: {error}");
            LedgerUnavailable
        };
        let Spent { steps, before: before_femtos, requests } = spent.map_err(failed)?;
        let mut counted_requests = Vec::with_capacity(requests.len());
        for id in requests {
            // A row never changes, so it may be read after the sums.
            let row = if before.is_some() { self.store.request(&id).await.map_err(failed)? } else { None };
            let (cost_femtos, begun) = row.map(|row| (row.cost, row.at.div_euclid(1000))).unwrap_or_default();
            counted_requests.push(CountedRequest { id, cost_femtos, begun });
        }
        Ok(Spending { steps, before_femtos, counted_requests })
    }
}

impl SpendingLedger for LedgerSpending {
    fn spending<'a>(
        &'a self,
        kind: SubjectKind,
        id: &'a str,
        question: SpendingQuestion<'a>,
    ) -> SpendingFuture<'a> {
        Box::pin(self.look_up(kind, id, question))
    }
}

/// Spending without a ledger: always zero.
#[derive(Clone, Copy, Debug)]
pub struct NothingSpent;

impl SpendingLedger for NothingSpent {
    fn spending<'a>(&'a self, _: SubjectKind, _: &'a str, _: SpendingQuestion<'a>) -> SpendingFuture<'a> {
        Box::pin(std::future::ready(Ok(Spending::default())))
    }
}
