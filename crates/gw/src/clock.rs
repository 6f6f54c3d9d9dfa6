//! Decides whether this machine's clock may be used to purge old data. The clock is doubted when it differs by more than a
//! day from the time at which the store was last in use. Nothing is purged while the clock is doubted, until it is right or an
//! operator confirms it (`model-gateway clock --confirm`).
//!
//! The times of log rows count only while no time was noted in the store, because a wrong clock may have written them.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use gw_admin::time::format_millis;
use gw_command::{CommandError, Common, print};
use gw_config::setup;
use gw_store::Store;
use gw_store::clock::ClockRecord;
use gw_wire::calendar;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::{admin_client, store};

/// The milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// The time between two purges of old data whose amount is not bounded otherwise.
pub(crate) const PURGE_INTERVAL: Duration = Duration::from_secs(3600);
/// The time between two notes in the store that it is in use.
const NOTE_INTERVAL: Duration = Duration::from_millis(NOTE_MS);
/// [`NOTE_INTERVAL`] in milliseconds.
const NOTE_MS: u64 = 60_000;
/// The time between two checks of a doubted clock, which an operator may confirm at any time.
const DOUBTED_INTERVAL: Duration = Duration::from_secs(5);

/// The clock by which old rows and payloads are purged.
#[derive(Debug)]
pub struct TrustedClock {
    store: Store,
    is_doubted: watch::Sender<bool>,
}

impl TrustedClock {
    /// Checks the clock for the first time, and registers its metric. Also returns the time, in unix milliseconds, at which
    /// the store was last in use, unless the clock is doubted.
    ///
    /// # Errors
    /// Exit code 1 when the store does not answer.
    pub async fn open(
        store: &Store,
        registry: &mut Registry,
    ) -> Result<(Arc<Self>, Option<i64>), CommandError> {
        let trusted = Arc::new(Self { store: store.clone(), is_doubted: watch::Sender::new(false) });
        let before = trusted.last_use().await.map_err(CommandError::runtime)?;
        // The gateway can serve although the store cannot be written now.
        let now = trusted.now().await;
        let is_trusted = now.is_ok_and(|now| now.is_some());
        registry.register_collector(Box::new(ClockMetrics(Arc::clone(&trusted))));
        Ok((trusted, before.filter(|_| is_trusted)))
    }

    async fn last_use(&self) -> gw_store::Result<Option<i64>> {
        let (noted, row) = facts(&self.store, calendar::unix_millis()).await?;
        Ok(noted.seen.or(row))
    }

    /// The current time in unix milliseconds, for purging old data. `None` while the clock is doubted.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn now(&self) -> gw_store::Result<Option<i64>> {
        let wall = calendar::unix_millis();
        let (noted, row) = facts(&self.store, wall).await?;
        match judge(wall, noted, row) {
            Verdict::Trusted(now) => {
                // The note is rare, because a store that another program has locked makes it wait.
                if noted.seen.is_none_or(|seen| wall.abs_diff(seen) >= NOTE_MS) {
                    self.store.record_use(wall).await?;
                }
                if self.is_doubted.send_replace(false) {
                    tracing::info!("the clock is trusted again; old data is purged again");
                }
                Ok(Some(now))
            }
            Verdict::Doubted(seen) => {
                if noted.seen.is_none() {
                    // Rows from now on have times of the doubted clock, so the earlier time is noted.
                    self.store.record_use(seen).await?;
                }
                if !self.is_doubted.send_replace(true) {
                    tracing::warn!("{}", doubt_message(wall, seen));
                }
                Ok(None)
            }
        }
    }

    /// Notes regularly that the store is in use, and notices a clock that jumps.
    pub async fn run(self: Arc<Self>) {
        loop {
            let pause = if self.is_doubted() { DOUBTED_INTERVAL } else { NOTE_INTERVAL };
            tokio::time::sleep(pause).await;
            if let Err(error) = self.now().await {
                tracing::debug!("the clock cannot be checked: {error}");
            }
        }
    }

    /// Waits for the next purge, or until the clock is no longer doubted.
    async fn next_purge(&self, every: Duration) {
        let mut doubted = self.is_doubted.subscribe();
        if *doubted.borrow_and_update() {
            let _ = tokio::time::timeout(every, doubted.wait_for(|doubted| !doubted)).await;
        } else {
            tokio::time::sleep(every).await;
        }
    }

    /// Calls `purge` with the current time in unix milliseconds, at once and then at this interval while the clock is trusted.
    /// Runs as long as the program. `purge` returns the number of purged items; `kind` names them in the log.
    pub async fn purge_regularly<F>(
        self: Arc<Self>,
        kind: &'static str,
        every: Duration,
        purge: impl Fn(i64) -> F,
    ) where
        F: Future<Output = gw_store::Result<u64>>,
    {
        loop {
            let purged = match self.now().await {
                Ok(Some(now)) => purge(now).await,
                Ok(None) => Ok(0),
                Err(error) => Err(error),
            };
            match purged {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "purged old {kind}"),
                Err(error) => tracing::warn!("old {kind} cannot be purged now: {error}"),
            }
            self.next_purge(every).await;
        }
    }

    fn is_doubted(&self) -> bool {
        *self.is_doubted.borrow()
    }
}

/// The times that the store knows: the notes, and the newest row that is at most a day ahead of now.
async fn facts(store: &Store, wall: i64) -> gw_store::Result<(ClockRecord, Option<i64>)> {
    Ok((store.clock_record().await?, store.newest_row(wall.saturating_add(DAY_MS)).await?))
}

/// The judgement about the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The clock is trusted. The current time, in unix milliseconds.
    Trusted(i64),
    /// The clock is doubted. The time at which the store was last in use, in unix milliseconds.
    Doubted(i64),
}

fn judge(wall: i64, noted: ClockRecord, row: Option<i64>) -> Verdict {
    let is_near = |time: i64| wall.abs_diff(time) <= DAY_MS.unsigned_abs();
    match noted.seen.or(row) {
        Some(seen) if !is_near(seen) && !noted.confirmed.is_some_and(is_near) => Verdict::Doubted(seen),
        // Another replica wrote a row that is a little ahead.
        _ => Verdict::Trusted(row.map_or(wall, |row| row.max(wall))),
    }
}

/// The reason why the gateway doubts the clock of this machine; None: it trusts the clock.
///
/// # Errors
/// When the store does not answer.
pub(crate) async fn doubt(store: &Store) -> gw_store::Result<Option<String>> {
    let wall = calendar::unix_millis();
    let (noted, row) = facts(store, wall).await?;
    Ok(match judge(wall, noted, row) {
        Verdict::Trusted(_) => None,
        Verdict::Doubted(seen) => Some(doubt_message(wall, seen)),
    })
}

fn doubt_message(wall: i64, seen: i64) -> String {
    let days = wall.abs_diff(seen) / DAY_MS.unsigned_abs();
    let days = if days == 1 { "a day".to_owned() } else { format!("{days} days") };
    let side = if wall > seen { "ahead of" } else { "behind" };
    let seen = format_millis(seen);
    format!(
        "the clock is {days} {side} the time at which this store was last in use ({seen}); nothing is purged until the clock \
         is corrected, or confirmed with `model-gateway clock --confirm`"
    )
}

/// The options of `clock`.
#[derive(Debug, Args)]
pub struct ClockArgs {
    /// Confirm that the time of this machine is right, so that old rows and payloads are purged again
    #[arg(long)]
    confirm: bool,
}

/// Shows or confirms the clock.
///
/// # Errors
/// Exit code 2 for a configuration that cannot be used, 1 when the store does not answer.
pub fn run(common: &Common, args: &ClockArgs) -> Result<(), CommandError> {
    gw_command::runtime()?.block_on(async {
        let setup = setup::load(common)?;
        let store = store::open_shared(&setup).await?;
        let text = show(&store, args.confirm).await;
        store.close().await;
        print(&text.map_err(CommandError::runtime)?)
    })
}

async fn show(store: &Store, confirm: bool) -> gw_store::Result<String> {
    let wall = calendar::unix_millis();
    let (noted, row) = facts(store, wall).await?;
    let time = |time: Option<i64>| time.map_or_else(|| "never".to_owned(), format_millis);
    let mut text = format!(
        "time of this machine  {}\nstore last in use     {}\nlast confirmed        {}\n",
        format_millis(wall),
        time(noted.seen.or(row)),
        time(noted.confirmed)
    );
    text.push_str(&match judge(wall, noted, row) {
        Verdict::Trusted(_) => "the clock is trusted; there is nothing to confirm\n".to_owned(),
        Verdict::Doubted(_) if confirm => {
            store.record_change(&admin_client::this_user().record("clock.confirm", "clock")).await?;
            store.record_confirmed_time(wall).await?;
            "confirmed: a gateway with this time purges old data, at most a tenth of the log in an hour\n"
                .to_owned()
        }
        Verdict::Doubted(seen) => format!("{}\n", doubt_message(wall, seen)),
    });
    Ok(text)
}

/// The metric of the clock.
#[derive(Debug)]
struct ClockMetrics(Arc<TrustedClock>);

impl Collector for ClockMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let doubted = ConstGauge::new(i64::from(self.0.is_doubted()));
        let help = "1 while the clock is doubted and nothing is purged";
        doubted.encode(encoder.encode_descriptor("gateway_clock_held", help, None, doubted.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 20_000 * DAY_MS;

    fn noted(seen: i64, confirmed: Option<i64>) -> ClockRecord {
        ClockRecord { seen: Some(seen), confirmed }
    }

    #[test]
    fn a_jump_of_more_than_a_day_is_doubted() {
        let year = 365 * DAY_MS;
        assert_eq!(judge(NOW, ClockRecord::default(), None), Verdict::Trusted(NOW), "an empty store");
        for (wall, is_trusted) in [
            (NOW, true),
            (NOW + DAY_MS, true),
            (NOW - DAY_MS, true),
            (NOW + DAY_MS + 1, false),
            (NOW - year, false),
        ] {
            let wanted = if is_trusted { Verdict::Trusted(wall) } else { Verdict::Doubted(NOW) };
            assert_eq!(judge(wall, noted(NOW, None), None), wanted, "{wall}");
            // The store of an older version has rows alone.
            let row = Some(NOW).filter(|row| *row <= wall);
            if row.is_some() {
                assert_eq!(judge(wall, ClockRecord::default(), row), wanted, "{wall}");
            }
        }
    }

    #[test]
    fn a_confirmed_time_is_trusted_by_clocks_that_show_it() {
        let year = 365 * DAY_MS;
        let confirmed = noted(NOW, Some(NOW + year));
        assert_eq!(judge(NOW + year + 5, confirmed, None), Verdict::Trusted(NOW + year + 5));
        assert_eq!(judge(NOW + 2 * year, confirmed, None), Verdict::Doubted(NOW));
        assert_eq!(judge(NOW - year, confirmed, None), Verdict::Doubted(NOW));
    }

    #[test]
    fn rows_of_a_doubted_clock_prove_nothing_and_a_row_a_little_ahead_counts() {
        let wall = NOW + 365 * DAY_MS;
        assert_eq!(judge(wall, noted(NOW, None), Some(wall)), Verdict::Doubted(NOW));
        assert_eq!(judge(NOW, noted(NOW, None), Some(NOW + 7)), Verdict::Trusted(NOW + 7));
        assert_eq!(judge(NOW, noted(NOW, None), Some(NOW - 7)), Verdict::Trusted(NOW));
    }

    #[test]
    fn the_line_says_how_far_and_what_to_do() {
        let line = doubt_message(NOW + 365 * DAY_MS, NOW);
        assert!(line.starts_with("the clock is 365 days ahead of "), "{line}");
        assert!(line.contains("(2024-10-04T00:00:00.000Z)"), "{line}");
        assert!(
            line.contains("nothing is purged") && line.contains("`model-gateway clock --confirm`"),
            "{line}"
        );
        assert!(doubt_message(NOW, NOW + DAY_MS + 5).starts_with("the clock is a day behind "), "{line}");
    }

    #[tokio::test]
    async fn a_doubted_clock_stays_doubted_through_rows_and_starts_until_it_is_confirmed() {
        let store = Store::in_memory().await.unwrap();
        let row = |id: &str, at: i64| gw_store::ledger::Entry {
            request_id: id.to_owned().into(),
            at,
            ..Default::default()
        };
        store.record(&[row("req_old", NOW)]).await.unwrap();
        for _ in 0..2 {
            let (clock, before) = TrustedClock::open(&store, &mut Registry::default()).await.unwrap();
            assert_eq!((clock.is_doubted(), before), (true, None));
            assert_eq!(clock.now().await.unwrap(), None);
            store.record(&[row("req_new", calendar::unix_millis())]).await.unwrap();
        }
        assert_eq!(store.clock_record().await.unwrap(), noted(NOW, None));
        assert!(show(&store, false).await.unwrap().contains(" days ahead of "));
        assert!(show(&store, true).await.unwrap().contains("\nconfirmed: "));
        let changes = store.audit(&gw_store::audit::AuditFilter::default(), 9).await.unwrap();
        assert_eq!((changes.len(), changes[0].action.as_str()), (1, "clock.confirm"));
        let (clock, before) = TrustedClock::open(&store, &mut Registry::default()).await.unwrap();
        assert_eq!((clock.is_doubted(), before), (false, Some(NOW)));
        assert!(
            store
                .clock_record()
                .await
                .unwrap()
                .seen
                .is_some_and(|seen| calendar::unix_millis() - seen < DAY_MS)
        );
        assert!(show(&store, true).await.unwrap().contains("nothing to confirm"));
    }
}
