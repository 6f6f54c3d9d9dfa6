//! The last comparison of the ledger with each provider's bill. One process makes the comparison of a day.

use crate::db::{Result, Store};
use crate::sql::Sql;

/// The totals of a provider's day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedTotals {
    /// The provider.
    pub provider: String,
    /// The day, as days since 1970.
    pub day: i64,
    /// The ledger's cost in femto-USD.
    pub ours: i128,
    /// The provider's cost in femto-USD.
    pub theirs: i128,
}

impl Store {
    /// Takes the comparison of a provider's day for this process until `until`. False: the day is compared, or another process compares it.
    /// Times are unix seconds.
    pub async fn lease_reconciliation(&self, provider: &str, day: i64, now: i64, until: i64) -> Result<bool> {
        let insert = "INSERT INTO gateway_reconciliations AS known (provider, leased_until, day, ours, theirs) \
            VALUES ($1, $2, -1, '0', '0') ON CONFLICT (provider) DO UPDATE SET leased_until = excluded.leased_until \
            WHERE known.leased_until <= $3 AND known.day < $4";
        let sql = Sql::new(insert).text(provider).int(until).int(now).int(day);
        self.run(sql).await.map(|changed| changed > 0)
    }

    /// Keeps the result of a comparison, unless a later day is known.
    pub async fn keep_reconciliation(&self, totals: &ComparedTotals) -> Result<()> {
        let ComparedTotals { provider, day, ours, theirs } = totals;
        let update = "UPDATE gateway_reconciliations SET day = $1, ours = $2, theirs = $3, leased_until = 0 \
            WHERE provider = $4 AND day < $5";
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        let sql = Sql::new(update).int(*day).text(&*ours).text(&*theirs).text(&**provider).int(*day);
        self.run(sql).await.map(drop)
    }

    /// The last results, by provider.
    pub async fn reconciliations(&self) -> Result<Vec<ComparedTotals>> {
        let select = "SELECT provider, day, ours, theirs FROM gateway_reconciliations WHERE day >= 0 ORDER BY provider";
        self.list(Sql::new(select), |row| {
            let amount = |text: String| text.parse().unwrap_or(0);
            Ok(ComparedTotals {
                provider: row.get("provider")?,
                day: row.get("day")?,
                ours: amount(row.get("ours")?),
                theirs: amount(row.get("theirs")?),
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::ComparedTotals;
    use crate::testing::on_both;

    #[tokio::test]
    async fn one_process_compares_a_day_and_the_result_stays() {
        on_both(async |place| {
            let (one, other) = (place.open().await, place.open().await);
            assert!(one.lease_reconciliation("openai", 7, 100, 200).await.unwrap());
            assert!(!other.lease_reconciliation("openai", 7, 150, 250).await.unwrap(), "it is under way");
            assert!(other.lease_reconciliation("claude", 7, 150, 250).await.unwrap(), "another provider");
            assert!(
                other.lease_reconciliation("openai", 7, 200, 300).await.unwrap(),
                "the first one gave up"
            );
            assert_eq!(one.reconciliations().await.unwrap(), []);
            let totals =
                ComparedTotals { provider: "openai".to_owned(), day: 7, ours: i128::MAX, theirs: -1 };
            other.keep_reconciliation(&totals).await.unwrap();
            assert_eq!(one.reconciliations().await.unwrap(), std::slice::from_ref(&totals));
            assert!(!one.lease_reconciliation("openai", 7, 900, 999).await.unwrap(), "the day is done");
            assert!(one.lease_reconciliation("openai", 8, 900, 999).await.unwrap(), "the next day");
            one.keep_reconciliation(&ComparedTotals { day: 6, ..totals.clone() }).await.unwrap();
            assert_eq!(one.reconciliations().await.unwrap(), [totals], "an older day changes nothing");
        })
        .await;
    }
}
