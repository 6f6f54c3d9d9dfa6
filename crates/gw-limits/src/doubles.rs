//! Test doubles: a clock that tests set, and a ledger whose answers tests set.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use gw_store::{CountedTime, Period};
use parking_lot::Mutex;

use crate::{
    Clock, CountedRequest, LedgerUnavailable, Spending, SpendingFuture, SpendingLedger, SpendingQuestion,
    SubjectKind,
};

/// 2026-11-21T09:38:16Z, a Saturday, in unix seconds.
pub(crate) const NOW: i64 = 1_795_253_896;
/// A day in seconds.
pub(crate) const DAY: i64 = 86_400;
/// The start of 2025, from which the scripts count microseconds, in unix seconds.
const SCRIPT_EPOCH: i64 = 1_735_689_600;

/// Every kind of period that ends.
pub(crate) fn ending() -> impl Iterator<Item = Period> {
    let calendar = Period::ALL.into_iter().filter(|period| *period != Period::Total);
    calendar.chain(["1d", "30d", "10s", "25s", "90s", "1h"].into_iter().filter_map(Period::parse_any))
}

/// A clock that stands still until it is set. The monotonic time and the calendar are set apart.
#[derive(Debug)]
pub(crate) struct TestClock {
    /// Microseconds since 2025.
    pub(crate) monotonic_micros: AtomicI64,
    /// Microseconds since 1970.
    pub(crate) unix_micros: AtomicI64,
}

impl TestClock {
    /// A clock that shows this unix second.
    pub(crate) fn at(unix: i64) -> Self {
        let micros = (unix - SCRIPT_EPOCH) * 1_000_000;
        Self { monotonic_micros: micros.into(), unix_micros: (unix * 1_000_000).into() }
    }

    /// Sets the calendar.
    pub(crate) fn set_calendar(&self, unix: i64) {
        self.unix_micros.store(unix.saturating_mul(1_000_000), Ordering::SeqCst);
    }

    /// Sets the calendar and the monotonic time, which scripts use.
    pub(crate) fn set_both(&self, unix: i64) {
        self.monotonic_micros.store((unix - SCRIPT_EPOCH) * 1_000_000, Ordering::SeqCst);
        self.set_calendar(unix);
    }

    /// Moves the calendar.
    pub(crate) fn move_calendar(&self, seconds: i64) {
        self.unix_micros.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }

    /// Moves both forward.
    pub(crate) fn advance(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.monotonic_micros.fetch_add(micros, Ordering::SeqCst);
        self.unix_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Moves both back.
    pub(crate) fn go_back(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.monotonic_micros.fetch_sub(micros, Ordering::SeqCst);
        self.unix_micros.fetch_sub(micros, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn monotonic_micros(&self) -> f64 {
        self.monotonic_micros.load(Ordering::SeqCst) as f64
    }

    fn unix_seconds(&self) -> i64 {
        self.unix_micros.load(Ordering::SeqCst).div_euclid(1_000_000)
    }
}

/// A ledger that records the questions.
#[derive(Debug, Default)]
pub(crate) struct TestLedger {
    /// The spending in every period, in femto-USD. It is spent at the begin.
    pub(crate) spent: Mutex<i128>,
    /// More spending: unix seconds and femto-USD.
    pub(crate) rows: Mutex<Vec<(i64, i128)>>,
    pub(crate) is_away: AtomicBool,
    /// If set, each answer takes a permit.
    pub(crate) answer_permits: Option<tokio::sync::Semaphore>,
    /// The start of the period of each question.
    pub(crate) questions: Mutex<Vec<i64>>,
    /// The requests that the spending includes.
    pub(crate) counted: Mutex<Vec<String>>,
    /// The costs of these requests in femto-USD, by id, and the unix seconds in which they began. Zero if a request is not here.
    pub(crate) costs: Mutex<BTreeMap<String, (i128, i64)>>,
}

impl SpendingLedger for TestLedger {
    fn spending<'a>(
        &'a self,
        _: SubjectKind,
        _: &'a str,
        SpendingQuestion { time, before, requests }: SpendingQuestion<'a>,
    ) -> SpendingFuture<'a> {
        let CountedTime { from, until, step } = time;
        self.questions.lock().push(from);
        let is_before = |at: &i64| before.is_some_and(|(from, until)| (from..until).contains(at));
        let before_femtos: i128 =
            self.rows.lock().iter().filter(|(at, _)| is_before(at)).map(|(_, femtos)| femtos).sum();
        let mut steps = BTreeMap::new();
        for (at, femtos) in self.rows.lock().iter().filter(|(at, _)| (from..until).contains(at)) {
            let begin = step.map_or(from, |step| from + step * ((at - from) / step));
            *steps.entry(begin).or_default() += femtos;
        }
        Box::pin(async move {
            if let Some(permits) = &self.answer_permits {
                permits.acquire().await.map_err(|_| LedgerUnavailable)?.forget();
            }
            if self.is_away.load(Ordering::SeqCst) {
                return Err(LedgerUnavailable);
            }
            let counted = self.counted.lock();
            let costs = self.costs.lock();
            let known = requests.iter().filter(|id| counted.contains(id)).cloned();
            let counted_requests = known.map(|id| {
                let (cost_femtos, begun) = costs.get(&id).copied().unwrap_or_default();
                CountedRequest { id, cost_femtos, begun }
            });
            let counted_requests = counted_requests.collect();
            let spent = *self.spent.lock();
            *steps.entry(from).or_default() += spent;
            let before_femtos = before_femtos + before.map_or(0, |_| spent);
            Ok(Spending { steps: steps.into_iter().collect(), before_femtos, counted_requests })
        })
    }
}
