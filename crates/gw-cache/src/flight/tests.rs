//! Who joins, who leaves, who is slow: nobody sees less than all as all, and nobody pays for nobody.

mod bounds;
mod model;
mod storm;

use std::future::ready;
use std::sync::atomic::AtomicUsize;

use gw_testkit::{eventually, within};
use tokio::sync::watch;

use super::*;
use crate::doubles::key;

type Test = Flights<Arc<str>, &'static str>;

/// Says how often it was dropped.
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
) -> (Lead<T, E>, Follower<T, E>) {
    match role {
        Role::Leader(lead, follower) => (lead, follower),
        Role::Follower(follower) => panic!("{follower:?}"),
    }
}

fn follower<T, E>(role: Role<T, E>) -> Follower<T, E> {
    match role {
        Role::Leader(..) => panic!("nobody leads yet"),
        Role::Follower(follower) => follower,
    }
}

fn piece(n: usize) -> Bytes {
    Bytes::from(format!("piece {n};"))
}

/// All pieces, and how it ended.
async fn read(mut follower: Follower<Arc<str>, &'static str>) -> (String, End<Arc<str>, &'static str>) {
    let mut text = String::new();
    loop {
        match within("a piece or the end", follower.next()).await {
            Next::Piece(piece) => text.push_str(std::str::from_utf8(&piece).unwrap()),
            Next::End(end) => return (text, end),
        }
    }
}

/// Work that gives as many pieces as it is told, and then all of them as the answer.
fn work(
    lead: Lead<Arc<str>, &'static str>,
    mut told: watch::Receiver<usize>,
    last: usize,
    drops: &Drops,
) -> tokio::task::JoinHandle<()> {
    let guard = drops.guard();
    tokio::spawn(lead.drive(ready(()), async move |pieces| {
        let _guard = guard;
        let mut text = String::new();
        for n in 0..last {
            let _told = told.wait_for(|told| *told > n).await;
            text.push_str(std::str::from_utf8(&piece(n)).unwrap());
            pieces.push(piece(n));
        }
        let _told = told.wait_for(|told| *told > last).await;
        Ok(Arc::from(text))
    }))
}

fn whole(pieces: usize) -> String {
    (0..pieces).map(|n| String::from_utf8(piece(n).to_vec()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t03_a_hundred_followers_get_all_of_it_though_the_leader_goes_half_way() {
    let flights = Test::default();
    let (tell, told) = watch::channel(0);
    let drops = Drops::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Pieces));
    assert!(led.is_leader());
    let work = work(lead, told, 40, &drops);
    let join = |n: usize| {
        let wants = if n.is_multiple_of(2) { Wants::Pieces } else { Wants::End };
        let follower = follower(flights.join(key("a"), wants));
        assert!(!follower.is_leader());
        (wants, tokio::spawn(read(follower)))
    };
    let mut followers: Vec<_> = (0..50).map(join).collect();
    tell.send_replace(20);
    let reads = tokio::spawn(async move {
        let mut led = led;
        while within("a piece", led.next()).await != Next::Piece(piece(15)) {}
        // It goes away here.
    });
    reads.await.unwrap();
    // These come late, and find what was sent.
    followers.extend((50..100).map(join));
    assert_eq!((drops.count(), flights.len()), (0, 1));
    tell.send_replace(41);
    for (wants, follower) in followers {
        let (text, end) = within("a follower", follower).await.unwrap();
        assert_eq!(end, End::Complete(Arc::from(whole(40))));
        assert_eq!(text, if wants == Wants::Pieces { whole(40) } else { String::new() });
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
async fn the_work_is_dropped_when_the_last_one_has_gone_and_not_before() {
    let flights = Test::default();
    let (tell, told) = watch::channel(0);
    let drops = Drops::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Pieces));
    let work = work(lead, told, 2, &drops);
    let second = follower(flights.join(key("a"), Wants::End));
    drop(led);
    tell.send_replace(1);
    let third = follower(flights.join(key("a"), Wants::Pieces));
    drop(second);
    tokio::task::yield_now().await;
    assert_eq!(drops.count(), 0);
    drop(third);
    // From this moment on nobody can join what is being given up.
    assert!(flights.is_empty());
    let (_lead, mut next) = leader(flights.join(key("a"), Wants::End));
    within("the work's end", work).await.unwrap();
    assert_eq!(drops.count(), 1);
    assert_eq!(flights.len(), 1, "the new flight is not the old one");
    drop(_lead);
    assert_eq!(next.end().await, End::Gone);
}

#[tokio::test]
async fn nobody_who_goes_before_the_work_begins_leaves_it_to_run() {
    let flights = Test::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Pieces));
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
async fn a_failure_half_way_is_a_failure_for_all() {
    let flights = Test::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Pieces));
    let other = follower(flights.join(key("a"), Wants::End));
    lead.drive(ready(()), async |pieces| {
        pieces.push(piece(0));
        Err("broken")
    })
    .await;
    assert_eq!(read(led).await, (whole(1), End::Failed("broken")));
    assert_eq!(read(other).await, (String::new(), End::Failed("broken")));
    // It is not kept: the next one tries again.
    let _next = leader(flights.join(key("a"), Wants::End));
}

#[tokio::test]
async fn work_that_vanishes_is_a_failure_for_all() {
    let flights = Test::default();
    let (lead, led) = leader(flights.join(key("a"), Wants::Pieces));
    let panicking = tokio::spawn(lead.drive(ready(()), async |pieces| {
        pieces.push(piece(0));
        panic!("as it may")
    }));
    assert_eq!(read(led).await, (whole(1), End::Gone));
    assert!(panicking.await.is_err());
    let (lead, led) = leader(flights.join(key("a"), Wants::Pieces));
    drop(lead);
    assert_eq!(read(led).await, (String::new(), End::Gone));
}

#[tokio::test]
async fn a_log_that_is_full_takes_nobody_and_forgets_what_was_read() {
    let flights = Test::new(Bounds { log: 1000, ahead: 100, ..Bounds::default() });
    let (lead, mut led) = leader(flights.join(key("a"), Wants::Pieces));
    let idle = follower(flights.join(key("a"), Wants::Pieces));
    let driven = tokio::spawn(lead.drive(ready(()), async |pieces| {
        for _ in 0..100 {
            pieces.push(Bytes::from(vec![b'x'; 60]));
            pieces.room().await;
        }
        Ok(Arc::from("all"))
    }));
    let mut read_bytes = 0;
    let end = loop {
        match within("a piece", led.next()).await {
            Next::Piece(piece) => read_bytes += piece.len(),
            Next::End(end) => break end,
        }
        let log = led.flight.log.lock();
        assert!(log.kept() <= 1060, "{}", log.kept());
    };
    assert_eq!((read_bytes, end), (6000, End::Complete(Arc::from("all"))));
    driven.await.unwrap();
    assert_eq!(read(idle).await, (String::new(), End::TooSlow), "it could not have all");
}

#[tokio::test]
async fn a_full_flight_goes_on_beside_the_one_that_takes_its_place() {
    let flights = Test::new(Bounds { log: 100, ahead: 50, ..Bounds::default() });
    let (lead, led) = leader(flights.join(key("a"), Wants::End));
    let (tell, mut told) = watch::channel(false);
    let (pushed, full) = tokio::sync::oneshot::channel();
    let driven = tokio::spawn(lead.drive(ready(()), async move |pieces| {
        pieces.push(Bytes::from(vec![b'x'; 101]));
        pushed.send(()).unwrap();
        let _told = told.wait_for(|told| *told).await;
        Ok(Arc::from("first"))
    }));
    within("the flight is full", full).await.unwrap();
    // Who wants no pieces needs none that are gone.
    let joined = follower(flights.join(key("a"), Wants::End));
    let (lead, second) = leader(flights.join(key("a"), Wants::Pieces));
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
async fn who_waits_for_the_end_alone_is_not_held_up_by_who_does_not_read() {
    let flights = Test::new(Bounds { log: 1000, ahead: 100, ..Bounds::default() });
    let (lead, idle) = leader(flights.join(key("a"), Wants::Pieces));
    let end_only = follower(flights.join(key("a"), Wants::End));
    let driven = tokio::spawn(lead.drive(ready(()), async |pieces| {
        for _ in 0..100 {
            pieces.push(Bytes::from(vec![b'x'; 60]));
            pieces.room().await;
        }
        Ok(Arc::from("all"))
    }));
    assert_eq!(read(end_only).await.1, End::Complete(Arc::from("all")));
    assert_eq!(read(idle).await.1, End::TooSlow);
    driven.await.unwrap();
}

#[tokio::test]
async fn the_work_waits_for_the_fastest_reader_and_for_nobody_else() {
    let flights = Test::new(Bounds { log: 10_000, ahead: 100, ..Bounds::default() });
    let (lead, mut fast) = leader(flights.join(key("a"), Wants::Pieces));
    let idle = follower(flights.join(key("a"), Wants::Pieces));
    let pushed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&pushed);
    let driven = tokio::spawn(lead.drive(ready(()), async move |pieces| {
        for _ in 0..50 {
            pieces.room().await;
            pieces.push(Bytes::from(vec![b'x'; 60]));
            counter.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Arc::from("all"))
    }));
    eventually("two pieces", || (pushed.load(Ordering::SeqCst) == 2).then_some(())).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pushed.load(Ordering::SeqCst), 2, "nobody has read");
    for _ in 0..10 {
        within("a piece", fast.next()).await;
    }
    eventually("as many more", || (pushed.load(Ordering::SeqCst) == 12).then_some(())).await;
    // When the fast one goes, the idle one is the fastest; when it reads, all goes on.
    drop(fast);
    let (text, end) = read(idle).await;
    assert_eq!((text.len(), end), (3000, End::Complete(Arc::from("all"))));
    driven.await.unwrap();
}
