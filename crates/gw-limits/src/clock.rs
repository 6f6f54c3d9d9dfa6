//! The two clocks of limits: a monotonic clock for rates, and the calendar for the periods of budgets.

use std::fmt::Debug;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The current time. Tests set it. Everything else uses [`SystemClock`].
pub trait Clock: Debug + Send + Sync {
    /// Microseconds since an arbitrary moment. Never goes back.
    fn monotonic_micros(&self) -> f64;
    /// Seconds since 1970, UTC. May jump.
    fn unix_seconds(&self) -> i64;
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
    fn monotonic_micros(&self) -> f64 {
        let elapsed = self.0.elapsed();
        // A number of 128 bits takes longer to convert.
        elapsed.as_secs() as f64 * 1_000_000.0 + f64::from(elapsed.subsec_nanos()) / 1000.0
    }

    fn unix_seconds(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }
}
