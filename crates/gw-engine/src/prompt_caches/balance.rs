//! The balance of breakpoints for a key at one target: savings against surcharges.

use std::time::{Duration, Instant};

/// Requests after which the balance decides.
const REQUESTS: u32 = 20;
/// The time without breakpoints after they did not pay.
const HOLD: Duration = Duration::from_secs(3_600);

/// Savings and surcharges in femto-USD.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    requests: u32,
    saved: i128,
    surcharge: i128,
    held_until: Option<Instant>,
}

impl Balance {
    /// Whether breakpoints are held back.
    pub(super) fn is_held(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }

    /// Notes a request with breakpoints. Older requests count less and less, so that a good time long ago cannot hide that
    /// breakpoints no longer pay.
    pub(super) fn note(&mut self, saved: i128, surcharge: i128, now: Instant) {
        if self.is_held(now) {
            return;
        }
        if self.held_until.is_some() {
            *self = Self::default();
        }
        self.requests += 1;
        self.saved = self.saved.saturating_add(saved);
        self.surcharge = self.surcharge.saturating_add(surcharge);
        if self.requests >= REQUESTS && self.surcharge > self.saved {
            *self = Self { held_until: Some(now + HOLD), ..Self::default() };
        } else if self.requests >= 2 * REQUESTS {
            (self.requests, self.saved, self.surcharge) = (REQUESTS, self.saved / 2, self.surcharge / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_that_pay_are_never_held_and_a_good_past_fades() {
        let now = Instant::now();
        let mut balance = Balance::default();
        for _ in 0..100 {
            balance.note(6, 5, now);
            assert!(!balance.is_held(now));
        }
        let bad = (0..).take_while(|_| {
            balance.note(0, 5, now);
            !balance.is_held(now)
        });
        assert!(bad.count() < 40);
    }
}
