//! CPU time of pieces of work, and bounds on it as a multiple of a smaller piece's.
//!
//! Time during which other programs run does not count, so a busy machine does not fail these tests.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Rounds before a comparison may succeed. The first round also fills caches.
const MIN_ROUNDS: usize = 2;
/// Rounds after which a comparison fails.
const MAX_ROUNDS: usize = 10;

/// The CPU time that the calling thread has used so far.
fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}

/// The CPU time that `work` takes on the calling thread.
pub fn cpu_time(work: impl FnOnce()) -> Duration {
    let before = thread_time();
    work();
    thread_time() - before
}

/// Asserts that `large` takes no more CPU time than `bound` gives for the CPU time of `small`. Both run several times in
/// turn, and the shortest run of each counts.
#[track_caller]
pub fn assert_cpu_time(
    what: &str,
    mut small: impl FnMut(),
    mut large: impl FnMut(),
    bound: impl Fn(Duration) -> Duration,
) {
    let (mut least_small, mut least_large) = (Duration::MAX, Duration::MAX);
    for round in 1..=MAX_ROUNDS {
        least_small = least_small.min(cpu_time(&mut small));
        least_large = least_large.min(cpu_time(&mut large));
        if round >= MIN_ROUNDS && least_large <= bound(least_small) {
            return;
        }
    }
    panic!("{what}: {least_large:?}, and at most {:?} beside {least_small:?}", bound(least_small));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_up(count: u64) {
        (0..count).for_each(|number| {
            std::hint::black_box(number);
        });
    }

    #[test]
    fn a_sleep_takes_no_cpu_time_and_work_does() {
        assert_cpu_time(
            "asleep",
            || add_up(100_000),
            || std::thread::sleep(Duration::from_millis(20)),
            |one| one * 20,
        );
    }

    #[test]
    #[should_panic(expected = "eight times")]
    fn more_work_than_the_bound_fails() {
        assert_cpu_time("eight times", || add_up(100_000), || add_up(800_000), |one| one * 2);
    }
}
