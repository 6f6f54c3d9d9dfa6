//! Many tasks join, read, leave and fail at random. Each follower reads a prefix of the one text, and only a follower
//! that has read all of it gets a complete end.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

const TASKS: u64 = 64;
const ROUNDS: usize = 200;
const KEYS: usize = 3;

/// The state that all tasks share.
#[derive(Clone, Default)]
struct Storm {
    flights: Arc<Test>,
    works: Arc<AtomicUsize>,
    drops: Drops,
    completed: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
}

impl Storm {
    fn lead(&self, lead: Leader<Arc<str>, &'static str>, seed: u64) {
        self.works.fetch_add(1, Ordering::SeqCst);
        let guard = self.drops.guard();
        tokio::spawn(async move {
            // The guard also covers work that is dropped before it begins.
            let _guard = guard;
            lead.drive(ready(()), async |publisher| {
                let mut rng = StdRng::seed_from_u64(seed);
                let length = rng.random_range(0..12);
                for n in 0..length {
                    if rng.random_ratio(1, 40) {
                        return Err("broken");
                    }
                    publisher.publish(chunk(n));
                    publisher.wait_for_room().await;
                    if rng.random_bool(0.7) {
                        tokio::task::yield_now().await;
                    }
                }
                Ok(Arc::from(whole(length)))
            })
            .await;
        });
    }

    async fn follow(
        &self,
        mut follower: Follower<Arc<str>, &'static str>,
        wants: Wants,
        patience: Option<usize>,
    ) {
        let mut text = String::new();
        let mut seen = 0;
        while patience != Some(seen) {
            match within("a chunk or the end", follower.next()).await {
                Next::Chunk(chunk) => {
                    text.push_str(std::str::from_utf8(&chunk).unwrap());
                    seen += 1;
                    assert_eq!(text, whole(seen));
                }
                Next::End(End::Complete(all)) => {
                    assert!(wants == Wants::End || *text == *all, "{text:?} is not {all:?}");
                    self.completed.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Next::End(end) => {
                    assert_eq!(end, End::Failed("broken"));
                    self.failed.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
    }

    async fn participate(self, seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..ROUNDS {
            let key = key(&rng.random_range(0..KEYS).to_string());
            let wants = if rng.random_bool(0.6) { Wants::Chunks } else { Wants::End };
            let patience = rng.random_bool(0.4).then(|| rng.random_range(0..6));
            let follower = match self.flights.join(key, wants) {
                Role::Leader(lead, follower) => {
                    self.lead(lead, rng.random());
                    follower
                }
                Role::Follower(follower) => follower,
            };
            self.follow(follower, wants, patience).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t03_in_a_storm_of_joins_and_leaves_nobody_takes_a_part_for_the_whole() {
    let storm = Storm::default();
    let mut tasks = tokio::task::JoinSet::new();
    (0..TASKS).for_each(|seed| {
        tasks.spawn(storm.clone().participate(seed));
    });
    within("all participants", tasks.join_all()).await;
    let works = storm.works.load(Ordering::SeqCst);
    eventually("all work ends or is dropped", || (storm.drops.count() == works).then_some(())).await;
    let (completed, failed) = (storm.completed.load(Ordering::SeqCst), storm.failed.load(Ordering::SeqCst));
    assert!(completed > 1000 && failed > 100, "{completed} {failed}");
    assert!(works < usize::try_from(TASKS).unwrap() * ROUNDS / 2, "hardly anything was shared: {works}");
    assert!(storm.flights.is_empty());
}

/// Many threads join and leave while flights begin.
#[test]
fn nobody_ends_a_flight_before_its_leader_is_there() {
    let flights = Test::default();
    let join = || {
        for _ in 0..2_000 {
            if let Role::Leader(_lead, mut led) = flights.join(key("a"), Wants::End) {
                let next = led.poll_next(&mut Context::from_waker(std::task::Waker::noop()));
                assert_eq!(next, Poll::Pending, "its work is not even begun");
            }
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(join))));
}
