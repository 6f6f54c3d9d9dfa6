//! Whether the time of day is to be believed before anything is forgotten by it. A clock that has jumped by more than a day
//! since the store was last in use is doubted: nothing is purged until somebody says that it is right
//! (`model-gateway clock --confirm`).
//!
//! Rows tell the time only where nothing was noted yet: those that a doubted clock has dated prove nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use gw_engine::manage::time_of_millis;
use gw_store::Store;
use gw_store::clock::ClockRecord;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::cli::{Common, Stop, print};
use crate::{operator, setup};

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Old rows are looked for so often.
const SWEEP: Duration = Duration::from_secs(3600);
/// It is noted so often that the store is in use.
const NOTE: Duration = Duration::from_millis(NOTE_MS);
/// The same in milliseconds.
const NOTE_MS: u64 = 60_000;
/// A clock that is doubted is looked at so often: somebody may have confirmed it.
const DOUBTED: Duration = Duration::from_secs(5);

/// The clock by which rows and payloads are forgotten.
#[derive(Debug)]
pub struct Trusted {
    store: Store,
    held: watch::Sender<bool>,
}

impl Trusted {
    /// Looks at the clock for the first time, and has metrics tell of it. Also says when the store was in use before, if
    /// the clock is not doubted.
    ///
    /// # Errors
    /// The store's, for an operator.
    pub async fn open(store: &Store, registry: &mut Registry) -> Result<(Arc<Self>, Option<i64>), Stop> {
        let failed = |error: gw_store::Error| Stop::Runtime(error.to_string());
        let trusted = Arc::new(Self { store: store.clone(), held: watch::Sender::new(false) });
        let before = trusted.last_use().await.map_err(failed)?;
        // A store that cannot be written now is no reason not to serve.
        let looked = trusted.look().await;
        let is_trusted = looked.is_ok_and(|now| now.is_some());
        registry.register_collector(Box::new(Figures(Arc::clone(&trusted))));
        Ok((trusted, before.filter(|_| is_trusted)))
    }

    async fn last_use(&self) -> gw_store::Result<Option<i64>> {
        let (noted, row) = facts(&self.store, wall()).await?;
        Ok(noted.seen.or(row))
    }

    /// The time by which what is old is forgotten; `None` while the clock is doubted.
    ///
    /// # Errors
    /// The store's.
    pub async fn look(&self) -> gw_store::Result<Option<i64>> {
        let wall = wall();
        let (noted, row) = facts(&self.store, wall).await?;
        match judge(wall, noted, row) {
            Verdict::Trusted(now) => {
                // Seldom: a store that is locked by another program has to be waited for.
                if noted.seen.is_none_or(|seen| wall.abs_diff(seen) >= NOTE_MS) {
                    self.store.record_use(wall).await?;
                }
                if self.held.send_replace(false) {
                    tracing::info!("the clock is not doubted any more: what is old is purged again");
                }
                Ok(Some(now))
            }
            Verdict::Doubted(seen) => {
                if noted.seen.is_none() {
                    // From now on rows have times of the doubted clock.
                    self.store.record_use(seen).await?;
                }
                if !self.held.send_replace(true) {
                    tracing::warn!("{}", in_words(wall, seen));
                }
                Ok(None)
            }
        }
    }

    /// Notes again and again that the store is in use, and notices a clock that jumps meanwhile.
    pub async fn keep(self: Arc<Self>) {
        loop {
            let pause = if self.is_held() { DOUBTED } else { NOTE };
            tokio::time::sleep(pause).await;
            if let Err(error) = self.look().await {
                tracing::debug!("nobody knows whether the clock is right: {error}");
            }
        }
    }

    /// Waits until it is time to look for old rows: for an hour, or until the clock is not doubted any more.
    pub async fn next_sweep(&self) {
        let mut held = self.held.subscribe();
        if *held.borrow_and_update() {
            let _ = tokio::time::timeout(SWEEP, held.wait_for(|held| !held)).await;
        } else {
            tokio::time::sleep(SWEEP).await;
        }
    }

    fn is_held(&self) -> bool {
        *self.held.borrow()
    }
}

/// The time of day in unix milliseconds.
fn wall() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// What the store knows of time: what was noted, and of when its newest row is that may be of now.
async fn facts(store: &Store, wall: i64) -> gw_store::Result<(ClockRecord, Option<i64>)> {
    Ok((store.clock_record().await?, store.newest_row(wall.saturating_add(DAY_MS)).await?))
}

/// What is thought of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is this time.
    Trusted(i64),
    /// Nobody knows whether it is right: the store was last in use at this time.
    Doubted(i64),
}

fn judge(wall: i64, noted: ClockRecord, row: Option<i64>) -> Verdict {
    let is_near = |time: i64| wall.abs_diff(time) <= DAY_MS.unsigned_abs();
    match noted.seen.or(row) {
        Some(seen) if !is_near(seen) && !noted.confirmed.is_some_and(is_near) => Verdict::Doubted(seen),
        // A row that is a little ahead is of another replica.
        _ => Verdict::Trusted(row.map_or(wall, |row| row.max(wall))),
    }
}

fn in_words(wall: i64, seen: i64) -> String {
    let days = wall.abs_diff(seen) / DAY_MS.unsigned_abs();
    let days = if days == 1 { "a day".to_owned() } else { format!("{days} days") };
    let side = if wall > seen { "ahead of" } else { "behind" };
    let seen = time_of_millis(seen);
    format!(
        "the clock is {days} {side} the time at which this store was last in use ({seen}): nothing is purged until the clock \
         is right, or `model-gateway clock --confirm` says that it is"
    )
}

/// Shows what the store knows of time.
#[derive(Debug, Args)]
pub struct ClockArgs {
    /// Say that the time of this machine is right, so that old rows and payloads are purged again
    #[arg(long)]
    confirm: bool,
}

/// Does what is asked for.
///
/// # Errors
/// Exit code 2 for a configuration that cannot be used, 1 when the store does not answer.
pub fn run(common: &Common, args: &ClockArgs) -> Result<(), Stop> {
    operator::runtime()?.block_on(async {
        let setup = setup::load(common)?;
        let store = operator::open_store(&setup).await?;
        let said = show(&store, args.confirm).await;
        store.close().await;
        print(&said.map_err(|error| Stop::Runtime(error.to_string()))?)
    })
}

async fn show(store: &Store, confirm: bool) -> gw_store::Result<String> {
    let wall = wall();
    let (noted, row) = facts(store, wall).await?;
    let time = |time: Option<i64>| time.map_or_else(|| "never".to_owned(), time_of_millis);
    let mut said = format!(
        "time of this machine  {}\nstore last in use     {}\nlast confirmed        {}\n",
        time_of_millis(wall),
        time(noted.seen.or(row)),
        time(noted.confirmed)
    );
    said.push_str(&match judge(wall, noted, row) {
        Verdict::Trusted(_) => "the clock is not doubted: there is nothing to confirm\n".to_owned(),
        Verdict::Doubted(_) if confirm => {
            store.record_confirmed_time(wall).await?;
            "confirmed: a gateway with this time purges what is old, at most a tenth of the log in an hour\n"
                .to_owned()
        }
        Verdict::Doubted(seen) => format!("{}\n", in_words(wall, seen)),
    });
    Ok(said)
}

/// What metrics say of the clock.
#[derive(Debug)]
struct Figures(Arc<Trusted>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let held = ConstGauge::new(i64::from(self.0.is_held()));
        let help = "1 while the clock is doubted and nothing is purged";
        held.encode(encoder.encode_descriptor("gateway_clock_held", help, None, held.metric_type())?)
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
    fn what_was_confirmed_is_believed_by_clocks_that_show_it() {
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
        let line = in_words(NOW + 365 * DAY_MS, NOW);
        assert!(line.starts_with("the clock is 365 days ahead of "), "{line}");
        assert!(line.contains("(2024-10-04T00:00:00.000Z)"), "{line}");
        assert!(
            line.contains("nothing is purged") && line.contains("`model-gateway clock --confirm`"),
            "{line}"
        );
        assert!(in_words(NOW, NOW + DAY_MS + 5).starts_with("the clock is a day behind "), "{line}");
    }

    #[tokio::test]
    async fn a_doubted_clock_stays_doubted_through_rows_and_starts_until_it_is_confirmed() {
        let store = Store::in_memory().await.unwrap();
        let row = |id: &str, at: i64| gw_store::ledger::Entry {
            request_id: id.to_owned(),
            at,
            ..Default::default()
        };
        store.record(&[row("req_old", NOW)]).await.unwrap();
        for _ in 0..2 {
            let (clock, before) = Trusted::open(&store, &mut Registry::default()).await.unwrap();
            assert_eq!((clock.is_held(), before), (true, None));
            assert_eq!(clock.look().await.unwrap(), None);
            store.record(&[row("req_new", wall())]).await.unwrap();
        }
        assert_eq!(store.clock_record().await.unwrap(), noted(NOW, None));
        assert!(show(&store, false).await.unwrap().contains(" days ahead of "));
        assert!(show(&store, true).await.unwrap().contains("\nconfirmed: "));
        let (clock, before) = Trusted::open(&store, &mut Registry::default()).await.unwrap();
        assert_eq!((clock.is_held(), before), (false, Some(NOW)));
        assert!(store.clock_record().await.unwrap().seen.is_some_and(|seen| wall() - seen < DAY_MS));
        assert!(show(&store, true).await.unwrap().contains("nothing to confirm"));
    }
}
