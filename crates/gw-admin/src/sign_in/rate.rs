//! A bound on the sign-ins of one key or person: each leaves a row in the audit log, which keeps all rows.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gw_engine::Result;
use gw_engine::error::{Error, Kind};
use parking_lot::Mutex;

/// Sign-ins and new links are counted for this long.
const WINDOW: Duration = Duration::from_secs(60);
/// The most sign-ins and new links of a key or a person in a window.
const MAX_SIGN_INS: u32 = 30;

/// Counts sign-ins by key and person. Only those who have signed in are counted, so the number of keys bounds the memory.
#[derive(Debug)]
pub(super) struct SignInRate {
    window: Mutex<(Instant, HashMap<String, u32>)>,
}

impl Default for SignInRate {
    fn default() -> Self {
        Self { window: Mutex::new((Instant::now(), HashMap::new())) }
    }
}

impl SignInRate {
    /// Counts a sign-in.
    ///
    /// # Errors
    /// `rate_limit_exceeded`.
    pub(super) fn count(&self, id: &str, now: Instant) -> Result<()> {
        let mut window = self.window.lock();
        if now.saturating_duration_since(window.0) >= WINDOW {
            *window = (now, HashMap::new());
        }
        let left = WINDOW.saturating_sub(now.saturating_duration_since(window.0));
        let count = window.1.entry(id.to_owned()).or_insert(0);
        *count = count.saturating_add(1);
        if *count <= MAX_SIGN_INS {
            return Ok(());
        }
        let message = format!("A key or a person may sign in at most {MAX_SIGN_INS} times a minute.");
        Err(Error::new(Kind::RateLimitExceeded, message).retry_after(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_signs_in_a_bounded_number_of_times_a_minute() {
        let (rate, start) = (SignInRate::default(), Instant::now());
        let count = |id: &str, after: u64| rate.count(id, start + Duration::from_secs(after));
        for _ in 0..MAX_SIGN_INS {
            count("a", 10).unwrap();
        }
        assert_eq!(count("a", 20).unwrap_err().code(), "rate_limit_exceeded");
        count("b", 20).unwrap();
        count("a", 61).unwrap();
    }
}
