//! The two clocks of limits: one that only goes forward, for rates, and the calendar's, for the periods of budgets.

use std::fmt::Debug;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What time it is. Tests set it; everything else uses [`SystemClock`].
pub trait Clock: Debug + Send + Sync {
    /// Microseconds since some moment, never going back.
    fn micros(&self) -> f64;
    /// Seconds since 1970, UTC. May jump.
    fn unix(&self) -> i64;
}

/// The clocks of this machine.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn micros(&self) -> f64 {
        self.0.elapsed().as_nanos() as f64 / 1000.0
    }

    fn unix(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }
}
