//! The memory bounds of one flight and of all flights, and the patience of work without followers.

use super::*;

const CHUNK_BYTES: usize = 60;

fn bytes() -> Bytes {
    Bytes::from(vec![b'x'; CHUNK_BYTES])
}

/// Work that publishes a chunk whenever the test tells it to.
struct Pushing {
    told: tokio::sync::mpsc::UnboundedSender<()>,
    gave: watch::Receiver<usize>,
    driven: tokio::task::JoinHandle<()>,
}

impl Pushing {
    fn start(lead: Leader<Arc<str>, &'static str>) -> Self {
        let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
        let (give, gave) = watch::channel(0);
        let driven = tokio::spawn(lead.drive(ready(()), async move |publisher| {
            while telling.recv().await == Some(()) {
                publisher.publish(bytes());
                give.send_modify(|count| *count += 1);
                publisher.wait_for_room().await;
            }
            Ok(Arc::from("all"))
        }));
        Self { told, gave, driven }
    }

    async fn give(&mut self) {
        let count = *self.gave.borrow() + 1;
        self.told.send(()).unwrap();
        within("a chunk is given", self.gave.wait_for(|gave| *gave == count)).await.unwrap();
    }

    async fn end(self) {
        drop(self.told);
        within("the work ends", self.driven).await.unwrap();
    }
}

async fn next(follower: &mut Follower<Arc<str>, &'static str>) {
    assert_eq!(within("a chunk", follower.next()).await, Next::Chunk(bytes()));
}

#[tokio::test]
async fn all_flights_together_stay_within_their_bound_and_no_follower_fails() {
    // All flights together may hold as many chunks as each of them alone.
    let bounds = FlightBounds {
        max_log_bytes: 20 * CHUNK_BYTES,
        max_ahead_bytes: 2 * CHUNK_BYTES,
        max_total_bytes: 20 * CHUNK_BYTES,
    };
    let flights = Test::new(bounds);
    let mut all = Vec::new();
    for n in 0..8 {
        let (lead, led) = leader(flights.join(key(&n.to_string()), Wants::Chunks));
        let beside = follower(flights.join(key(&n.to_string()), Wants::Chunks));
        all.push((Pushing::start(lead), led, beside));
    }
    let mut most = 0;
    for _ in 0..10 {
        for (work, led, beside) in &mut all {
            work.give().await;
            most = most.max(flights.held_bytes());
            next(led).await;
            next(beside).await;
        }
    }
    assert!(most <= bounds.max_total_bytes + CHUNK_BYTES, "{most}");
    // A flight that has dropped its beginning accepts followers that want the end alone.
    let late = |n: usize, wants| flights.join(key(&n.to_string()), wants);
    let _joined = follower(late(0, Wants::End));
    let _own = leader(late(0, Wants::Chunks));
    for (work, led, beside) in all {
        work.end().await;
        assert_eq!(read(led).await, (String::new(), End::Complete(Arc::from("all"))));
        assert_eq!(read(beside).await, (String::new(), End::Complete(Arc::from("all"))));
    }
    assert_eq!(flights.held_bytes(), 0);
}

#[tokio::test]
async fn idle_followers_keep_at_most_twice_the_total_bound() {
    let bounds = FlightBounds {
        max_log_bytes: 20 * CHUNK_BYTES,
        max_ahead_bytes: 2 * CHUNK_BYTES,
        max_total_bytes: 10 * CHUNK_BYTES,
    };
    let flights = Test::new(bounds);
    let mut all = Vec::new();
    for n in 0..8 {
        let (lead, led) = leader(flights.join(key(&n.to_string()), Wants::Chunks));
        let idle = follower(flights.join(key(&n.to_string()), Wants::Chunks));
        let mut work = Pushing::start(lead);
        let mut led = led;
        for _ in 0..15 {
            work.give().await;
            next(&mut led).await;
        }
        assert!(
            flights.held_bytes()
                <= 2 * bounds.max_total_bytes + (n + 1) * (bounds.max_ahead_bytes + CHUNK_BYTES),
            "{}",
            flights.held_bytes()
        );
        all.push((work, led, idle));
    }
    for (n, (work, led, idle)) in all.into_iter().enumerate() {
        work.end().await;
        // Followers that read along are not affected.
        assert_eq!(read(led).await.1, End::Complete(Arc::from("all")));
        let (text, end) = read(idle).await;
        match n {
            0 => assert_eq!((text.len(), end), (15 * CHUNK_BYTES, End::Complete(Arc::from("all")))),
            _ => {
                assert!(end == End::TooSlow || text.len() == 15 * CHUNK_BYTES, "{n}: {end:?} {}", text.len())
            }
        }
    }
    assert_eq!(flights.held_bytes(), 0);
}

#[tokio::test]
async fn a_flight_that_nobody_can_join_drops_read_chunks() {
    let flights = Test::default();
    let (lead, mut led) = leader(flights.lead_alone(key("a"), Wants::Chunks));
    assert!(flights.is_empty() && led.is_leader());
    let _another = leader(flights.join(key("a"), Wants::Chunks));
    let mut work = Pushing::start(lead);
    work.give().await;
    assert_eq!(flights.held_bytes(), CHUNK_BYTES);
    next(&mut led).await;
    assert_eq!(flights.held_bytes(), 0);
    work.end().await;
    assert_eq!(led.wait_for_end().await, End::Complete(Arc::from("all")));
    assert_eq!(flights.len(), 1, "the other flight goes on");
}

#[tokio::test]
async fn followers_that_were_given_up_do_not_keep_the_work_alive() {
    let flights = Test::new(FlightBounds {
        max_log_bytes: 10 * CHUNK_BYTES,
        max_ahead_bytes: 2 * CHUNK_BYTES,
        ..FlightBounds::default()
    });
    let (lead, mut led) = leader(flights.join(key("a"), Wants::Chunks));
    let idle: Vec<_> = (0..3).map(|_| follower(flights.join(key("a"), Wants::Chunks))).collect();
    let mut work = Pushing::start(lead);
    for _ in 0..12 {
        work.give().await;
        next(&mut led).await;
    }
    // Three followers were given up. Only the leader can still get the whole answer.
    drop(led);
    assert!(flights.is_empty());
    within("the work is dropped", work.driven).await.unwrap();
    for idle in idle {
        assert_eq!(read(idle).await, (String::new(), End::TooSlow));
    }
    assert_eq!(flights.held_bytes(), 0);
}

#[tokio::test]
async fn work_without_followers_goes_on_until_the_patience_ends() {
    for is_patient in [true, false] {
        let flights = Test::default();
        let drops = Drops::default();
        let (lead, led) = leader(flights.join(key("a"), Wants::Chunks));
        let guard = drops.guard();
        let (lose, lost) = tokio::sync::oneshot::channel::<()>();
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let (done, is_done) = tokio::sync::oneshot::channel();
        let patience = async { drop(lost.await) };
        let driven = tokio::spawn(lead.drive(patience, async move |publisher| {
            let _guard = guard;
            finished.await.unwrap();
            publisher.publish(bytes());
            publisher.wait_for_room().await;
            done.send(()).unwrap();
            Ok(Arc::from("all"))
        }));
        drop(led);
        let _another = leader(flights.join(key("a"), Wants::End));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(drops.count(), 0, "the work goes on without followers");
        if is_patient {
            finish.send(()).unwrap();
            within("the work is done", is_done).await.unwrap();
        } else {
            lose.send(()).unwrap();
            within("the work is dropped", is_done).await.unwrap_err();
        }
        within("its end", driven).await.unwrap();
        assert_eq!((drops.count(), flights.held_bytes()), (1, 0));
    }
}

#[tokio::test]
async fn a_single_chunk_makes_no_follower_too_slow() {
    let flights = Test::new(FlightBounds {
        max_log_bytes: 10 * CHUNK_BYTES,
        max_ahead_bytes: 2 * CHUNK_BYTES,
        ..FlightBounds::default()
    });
    let (lead, mut led) = leader(flights.join(key("a"), Wants::Chunks));
    let other = follower(flights.join(key("a"), Wants::Chunks));
    let large = "x".repeat(100 * CHUNK_BYTES);
    let pushed = large.clone();
    let driven = tokio::spawn(lead.drive(ready(()), async move |publisher| {
        publisher.publish(pushed.into());
        publisher.wait_for_room().await;
        publisher.publish(bytes());
        Ok(Arc::from("all"))
    }));
    assert_eq!(within("the large one", led.next()).await, Next::Chunk(large.clone().into()));
    next(&mut led).await;
    within("the work ends", driven).await.unwrap();
    let (text, end) = read(other).await;
    assert_eq!((text.len(), end), (101 * CHUNK_BYTES, End::Complete(Arc::from("all"))));
}
