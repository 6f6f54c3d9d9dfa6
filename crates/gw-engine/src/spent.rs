//! The ledger as budgets ask it: how much was spent in a period.

use std::sync::Arc;
use std::time::Duration;

use gw_limits::{Counted, Spending, Whose};
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
        whose: Whose,
        id: &str,
        (from, until): (i64, i64),
        requests: &[String],
    ) -> Result<(i128, Vec<String>), ()> {
        // A budget that is new to a key in use must know of the requests that are over but not in the ledger yet.
        if !self.journal.wait_until_written(ON_THE_WAY).await {
            tracing::warn!("a budget cannot be looked up: the ledger is behind");
            return Err(());
        }
        let who = match whose {
            Whose::Key => Spender::Key(id),
            Whose::Team => Spender::Team(id),
        };
        let spent = self.store.spent_with(who, from, until, requests).await;
        spent.map_err(|error| tracing::warn!("a budget cannot be looked up: {error}"))
    }
}

impl Spending for LedgerSpending {
    fn spent<'a>(
        &'a self,
        whose: Whose,
        id: &'a str,
        period: (i64, i64),
        requests: &'a [String],
    ) -> Counted<'a> {
        Box::pin(self.ask(whose, id, period, requests))
    }
}

/// For an engine without a ledger.
#[derive(Clone, Copy, Debug)]
pub struct NothingSpent;

impl Spending for NothingSpent {
    fn spent<'a>(&'a self, _: Whose, _: &'a str, _: (i64, i64), _: &'a [String]) -> Counted<'a> {
        Box::pin(std::future::ready(Ok((0, Vec::new()))))
    }
}
