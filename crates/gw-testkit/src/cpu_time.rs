//! CPU time of pieces of work, and bounds on it as a multiple of a smaller piece's.

use std::time::Duration;

use crate::measured::{at_most, is_checked};
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

/// Prints the CPU times of `small` and `large`. In `./test long` it asserts that `large` takes no more than `bound` gives for
/// the CPU time of `small`; both then run several times in turn, and the shortest run of each counts. Even CPU time depends on
/// the machine: on its caches, its clock, and the other programs on its cores.
#[track_caller]
pub fn assert_cpu_time(
    what: &str,
    small: impl FnMut(),
    large: impl FnMut(),
    bound: impl Fn(Duration) -> Duration,
) {
    let rounds = if is_checked() { MAX_ROUNDS } else { 1 };
    let (least_small, least_large) = shortest(small, large, &bound, rounds);
    at_most(what, least_large, bound(least_small));
}

/// The shortest CPU times of both, in at most so many rounds.
fn shortest(
    mut small: impl FnMut(),
    mut large: impl FnMut(),
    bound: &impl Fn(Duration) -> Duration,
    rounds: usize,
) -> (Duration, Duration) {
    let (mut least_small, mut least_large) = (Duration::MAX, Duration::MAX);
    for round in 1..=rounds {
        least_small = least_small.min(cpu_time(&mut small));
        least_large = least_large.min(cpu_time(&mut large));
        if round >= MIN_ROUNDS && least_large <= bound(least_small) {
            break;
        }
    }
    (least_small, least_large)
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
        let asleep = || std::thread::sleep(Duration::from_millis(20));
        let (work, sleep) = shortest(|| add_up(100_000), asleep, &|one| one * 20, MAX_ROUNDS);
        println!("measured: {work:?} of work, {sleep:?} of sleep");
        assert!(work > Duration::ZERO);
    }
}
