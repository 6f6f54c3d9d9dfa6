//! When a message that was not delivered is sent again.

use std::time::Duration;

/// The longest time between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// How long a message is tried.
pub(crate) const LIFETIME: Duration = Duration::from_secs(86_400);

/// The time from an attempt to the next one. `attempts` is the number of attempts so far.
pub(crate) fn delay(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1).clamp(0, 16)).unwrap_or_default();
    Duration::from_secs(1 << doublings).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::{LIFETIME, delay};

    #[test]
    fn delays_double_from_a_second_to_five_minutes_for_a_day() {
        let seconds: Vec<u64> = (1..=11).map(|attempts| delay(attempts).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!((delay(0).as_secs(), delay(i64::MAX).as_secs(), LIFETIME.as_secs()), (1, 300, 24 * 3600));
    }
}
