//! A clock that is set, and a ledger that says what it is told to.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Clock, Counted, Spending, Whose};

/// 2026-11-21T09:38:16Z, a Saturday.
pub(crate) const NOW: i64 = 1_795_253_896;
/// Seconds.
pub(crate) const DAY: i64 = 86_400;
/// 2025, where Redis's count of microseconds begins.
const EPOCH: i64 = 1_735_689_600;

/// A clock that stands until it is set; the two hands are set apart.
#[derive(Debug)]
pub(crate) struct Hands {
    /// Microseconds since 2025.
    pub(crate) micros: AtomicI64,
    /// Microseconds since 1970.
    pub(crate) unix: AtomicI64,
}

impl Hands {
    /// Both at this moment.
    pub(crate) fn at(unix: i64) -> Self {
        let micros = (unix - EPOCH) * 1_000_000;
        Self { micros: micros.into(), unix: (unix * 1_000_000).into() }
    }

    /// Sets the calendar's.
    pub(crate) fn set_unix(&self, seconds: i64) {
        self.unix.store(seconds.saturating_mul(1_000_000), Ordering::SeqCst);
    }

    /// Sets both: scripts go by the other one.
    pub(crate) fn set_both(&self, seconds: i64) {
        self.micros.store((seconds - EPOCH) * 1_000_000, Ordering::SeqCst);
        self.set_unix(seconds);
    }

    /// Moves the calendar's.
    pub(crate) fn jump(&self, seconds: i64) {
        self.unix.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }

    /// Moves both.
    pub(crate) fn pass(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.micros.fetch_add(micros, Ordering::SeqCst);
        self.unix.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Hands {
    /// Moves both back.
    pub(crate) fn go_back(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.micros.fetch_sub(micros, Ordering::SeqCst);
        self.unix.fetch_sub(micros, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn micros(&self) -> f64 {
        self.micros.load(Ordering::SeqCst) as f64
    }

    fn unix(&self) -> i64 {
        self.unix.load(Ordering::SeqCst).div_euclid(1_000_000)
    }
}

/// A ledger that notes what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// In every period.
    pub(crate) spent: Mutex<i128>,
    /// At which moment, and how much.
    pub(crate) dated: Mutex<Vec<(i64, i128)>>,
    pub(crate) away: AtomicBool,
    /// It answers when somebody lets it.
    pub(crate) held: Option<tokio::sync::Semaphore>,
    pub(crate) asked: Mutex<Vec<i64>>,
    /// Requests that it counts.
    pub(crate) counted: Mutex<Vec<String>>,
}

impl Spending for Ledger {
    fn spent<'a>(
        &'a self,
        _: Whose,
        _: &'a str,
        (from, until): (i64, i64),
        requests: &'a [String],
    ) -> Counted<'a> {
        self.asked.lock().push(from);
        let rows = self
            .dated
            .lock()
            .iter()
            .filter(|(at, _)| (from..until).contains(at))
            .map(|row| row.1)
            .sum::<i128>();
        Box::pin(async move {
            if let Some(held) = &self.held {
                held.acquire().await.map_err(|_| ())?.forget();
            }
            if self.away.load(Ordering::SeqCst) {
                return Err(());
            }
            let counted = self.counted.lock();
            let counts = requests.iter().filter(|id| counted.contains(id)).cloned().collect();
            Ok((rows + *self.spent.lock(), counts))
        })
    }
}
