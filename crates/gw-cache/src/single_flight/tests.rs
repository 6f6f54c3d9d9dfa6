//! Followers join, leave and fall behind. None takes a part for the whole answer, and work without followers ends.

mod bounds;
mod state_model;
mod storm;

use std::future::ready;
use std::sync::atomic::AtomicUsize;

use gw_testkit::{eventually, within};
use tokio::sync::watch;

use super::*;
use crate::doubles::key;

type Test = SingleFlight<Arc<str>, &'static str>;

/// Counts how often its guards were dropped.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Guard(Drops);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drops {
    fn guard(&self) -> Guard {
        Guard(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn leader<T: Clone + std::fmt::Debug, E: Clone + std::fmt::Debug>(
    role: Role<T, E>,
) -> (Leader<T, E>, Follower<T, E>) {
    match role {
        Role::Leader(lead, follower) => (lead, follower),
        Role::Follower(follower) => panic!("{follower:?}"),
    }
}

fn follower<T, E>(role: Role<T, E>) -> Follower<T, E> {
    match role {
        Role::Leader(..) => panic!("there was no leader"),
        Role::Follower(follower) => follower,
    }
}

fn chunk(n: usize) -> Bytes {
    Bytes::from(format!("chunk {n};"))
}

/// Reads all chunks and the end.
async fn read(mut follower: Follower<Arc<str>, &'static str>) -> (String, End<Arc<str>, &'static str>) {
    let mut text = String::new();
    loop {
        match within("a chunk or the end", follower.next()).await {
            Next::Chunk(chunk) => text.push_str(std::str::from_utf8(&chunk).unwrap()),
            Next::End(end) => return (text, end),
        }
    }
}

/// Work that publishes as many chunks as it is told to, and returns all of them as the answer.
fn work(
    lead: Leader<Arc<str>, &'static str>,
    mut told: watch::Receiver<usize>,
    last: usize,
    drops: &Drops,
) -> tokio::task::JoinHandle<()> {
    let guard = drops.guard();
    tokio::spawn(lead.drive(ready(()), async move |publisher| {
        let _guard = guard;
        let mut text = String::new();
        for n in 0..last {
            let _told = told.wait_for(|told| *told > n).await;
            text.push_str(std::str::from_utf8(&chunk(n)).unwrap());
            publisher.publish(chunk(n));
        }
        let _told = told.wait_for(|told| *told > last).await;
        Ok(Arc::from(text))
    }))
}

fn whole(chunks: usize) -> String {
    (0..chunks).map(|n| String::from_utf8(chunk(n).to_vec()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t03_a_hundred_followers_get_all_of_it_though_the_leader_goes_half_way() {
    let flights = Test::default();
    let (tell, told) = watch::channel(0);
    let drops = Drops::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Chunks));
    assert!(led.is_leader());
    let work = work(lead, told, 40, &drops);
    let join = |n: usize| {
        let wants = if n.is_multiple_of(2) { Wants::Chunks } else { Wants::End };
        let follower = follower(flights.join(key("a"), wants));
        assert!(!follower.is_leader());
        (wants, tokio::spawn(read(follower)))
    };
    let mut followers: Vec<_> = (0..50).map(join).collect();
    tell.send_replace(20);
    let reads = tokio::spawn(async move {
        let mut led = led;
        while within("a chunk", led.next()).await != Next::Chunk(chunk(15)) {}
        // The leader's client disconnects here.
    });
    reads.await.unwrap();
    // Late followers get the earlier chunks too.
    followers.extend((50..100).map(join));
    assert_eq!((drops.count(), flights.len()), (0, 1));
    tell.send_replace(41);
    for (wants, follower) in followers {
        let (text, end) = within("a follower", follower).await.unwrap();
        assert_eq!(end, End::Complete(Arc::from(whole(40))));
        assert_eq!(text, if wants == Wants::Chunks { whole(40) } else { String::new() });
    }
    work.await.unwrap();
    assert!(flights.is_empty());
}

#[tokio::test]
async fn t03_a_flight_is_of_one_key() {
    let flights = Test::default();
    let _one = leader(flights.join(key("a"), Wants::End));
    let _other = leader(flights.join(key("b"), Wants::End));
    assert_eq!(flights.len(), 2);
}

#[tokio::test]
async fn the_work_is_dropped_when_the_last_follower_has_left_and_not_before() {
    let flights = Test::default();
    let (tell, told) = watch::channel(0);
    let drops = Drops::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Chunks));
    let work = work(lead, told, 2, &drops);
    let second = follower(flights.join(key("a"), Wants::End));
    drop(led);
    tell.send_replace(1);
    let third = follower(flights.join(key("a"), Wants::Chunks));
    drop(second);
    tokio::task::yield_now().await;
    assert_eq!(drops.count(), 0);
    drop(third);
    // From now on no follower can join the flight.
    assert!(flights.is_empty());
    let (_lead, mut next) = leader(flights.join(key("a"), Wants::End));
    within("the work's end", work).await.unwrap();
    assert_eq!(drops.count(), 1);
    assert_eq!(flights.len(), 1, "only the new flight is listed");
    drop(_lead);
    assert_eq!(next.wait_for_end().await, End::WorkLost);
}

#[tokio::test]
async fn work_without_followers_is_dropped_before_it_begins() {
    let flights = Test::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Chunks));
    drop(led);
    let drops = Drops::default();
    let guard = drops.guard();
    within(
        "its end",
        lead.drive(ready(()), async move |_| {
            let _guard = guard;
            std::future::pending().await
        }),
    )
    .await;
    assert_eq!(drops.count(), 1);
}

#[tokio::test]
async fn a_failure_half_way_fails_all_followers() {
    let flights = Test::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Chunks));
    let other = follower(flights.join(key("a"), Wants::End));
    lead.drive(ready(()), async |publisher| {
        publisher.publish(chunk(0));
        Err("broken")
    })
    .await;
    assert_eq!(read(led).await, (whole(1), End::Failed("broken")));
    assert_eq!(read(other).await, (String::new(), End::Failed("broken")));
    // The failure is not stored, so the next request tries again.
    let _next = leader(flights.join(key("a"), Wants::End));
}

#[tokio::test]
async fn lost_work_fails_all_followers() {
    let flights = Test::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Chunks));
    let panicking = tokio::spawn(lead.drive(ready(()), async |publisher| {
        publisher.publish(chunk(0));
        panic!("as it may")
    }));
    assert_eq!(read(led).await, (whole(1), End::WorkLost));
    assert!(panicking.await.is_err());
    let (lead, led) = leader(flights.join(key("a"), Wants::Chunks));
    drop(lead);
    assert_eq!(read(led).await, (String::new(), End::WorkLost));
}

#[tokio::test]
async fn a_full_log_accepts_no_readers_and_drops_read_chunks() {
    let flights =
        Test::new(FlightBounds { max_log_bytes: 1000, max_ahead_bytes: 100, ..FlightBounds::default() });
    let (lead, mut led) = leader(flights.join(key("a"), Wants::Chunks));
    let idle = follower(flights.join(key("a"), Wants::Chunks));
    let driven = tokio::spawn(lead.drive(ready(()), async |publisher| {
        for _ in 0..100 {
            publisher.publish(Bytes::from(vec![b'x'; 60]));
            publisher.wait_for_room().await;
        }
        Ok(Arc::from("all"))
    }));
    let mut read_bytes = 0;
    let end = loop {
        match within("a chunk", led.next()).await {
            Next::Chunk(chunk) => read_bytes += chunk.len(),
            Next::End(end) => break end,
        }
        let log = led.flight.state.lock();
        assert!(log.kept_bytes() <= 1060, "{}", log.kept_bytes());
    };
    assert_eq!((read_bytes, end), (6000, End::Complete(Arc::from("all"))));
    driven.await.unwrap();
    assert_eq!(read(idle).await, (String::new(), End::TooSlow), "its chunks were dropped");
}

#[tokio::test]
async fn a_full_flight_goes_on_beside_its_successor() {
    let flights =
        Test::new(FlightBounds { max_log_bytes: 100, max_ahead_bytes: 50, ..FlightBounds::default() });
    let (lead, led) = leader(flights.join(key("a"), Wants::End));
    let (tell, mut told) = watch::channel(false);
    let (pushed, full) = tokio::sync::oneshot::channel();
    let driven = tokio::spawn(lead.drive(ready(()), async move |publisher| {
        publisher.publish(Bytes::from(vec![b'x'; 101]));
        pushed.send(()).unwrap();
        let _told = told.wait_for(|told| *told).await;
        Ok(Arc::from("first"))
    }));
    within("the flight is full", full).await.unwrap();
    // A follower that wants the end alone can still join.
    let joined = follower(flights.join(key("a"), Wants::End));
    let (lead, second) = leader(flights.join(key("a"), Wants::Chunks));
    tell.send_replace(true);
    assert_eq!(read(led).await.1, End::Complete(Arc::from("first")));
    assert_eq!(read(joined).await.1, End::Complete(Arc::from("first")));
    driven.await.unwrap();
    assert_eq!(flights.len(), 1);
    lead.drive(ready(()), async |_| Ok(Arc::from("second"))).await;
    assert_eq!(read(second).await.1, End::Complete(Arc::from("second")));
    assert!(flights.is_empty());
}

#[tokio::test]
async fn a_follower_that_wants_the_end_alone_does_not_wait_for_idle_readers() {
    let flights =
        Test::new(FlightBounds { max_log_bytes: 1000, max_ahead_bytes: 100, ..FlightBounds::default() });
    let (lead, idle) = leader(flights.join(key("a"), Wants::Chunks));
    let end_only = follower(flights.join(key("a"), Wants::End));
    let driven = tokio::spawn(lead.drive(ready(()), async |publisher| {
        for _ in 0..100 {
            publisher.publish(Bytes::from(vec![b'x'; 60]));
            publisher.wait_for_room().await;
        }
        Ok(Arc::from("all"))
    }));
    assert_eq!(read(end_only).await.1, End::Complete(Arc::from("all")));
    assert_eq!(read(idle).await.1, End::TooSlow);
    driven.await.unwrap();
}

#[tokio::test]
async fn the_work_waits_for_the_fastest_reader_only() {
    let flights =
        Test::new(FlightBounds { max_log_bytes: 10_000, max_ahead_bytes: 100, ..FlightBounds::default() });
    let (lead, mut fast) = leader(flights.join(key("a"), Wants::Chunks));
    let idle = follower(flights.join(key("a"), Wants::Chunks));
    let pushed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&pushed);
    let driven = tokio::spawn(lead.drive(ready(()), async move |publisher| {
        for _ in 0..50 {
            publisher.wait_for_room().await;
            publisher.publish(Bytes::from(vec![b'x'; 60]));
            counter.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Arc::from("all"))
    }));
    eventually("two chunks", || (pushed.load(Ordering::SeqCst) == 2).then_some(())).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pushed.load(Ordering::SeqCst), 2, "no follower has read");
    for _ in 0..10 {
        within("a chunk", fast.next()).await;
    }
    eventually("as many more", || (pushed.load(Ordering::SeqCst) == 12).then_some(())).await;
    // After the fast reader has left, the idle one is the fastest, and the work waits for it.
    drop(fast);
    let (text, end) = read(idle).await;
    assert_eq!((text.len(), end), (3000, End::Complete(Arc::from("all"))));
    driven.await.unwrap();
}
