//! What flights may hold, each and all together, and for how long their work goes on for nobody.

use super::*;

const PIECE: usize = 60;

fn bytes() -> Bytes {
    Bytes::from(vec![b'x'; PIECE])
}

/// Work that gives a piece whenever it is told to, however often.
struct Pushing {
    told: tokio::sync::mpsc::UnboundedSender<()>,
    gave: watch::Receiver<usize>,
    driven: tokio::task::JoinHandle<()>,
}

impl Pushing {
    fn start(lead: Lead<Arc<str>, &'static str>) -> Self {
        let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
        let (give, gave) = watch::channel(0);
        let driven = tokio::spawn(lead.drive(ready(()), async move |pieces| {
            while telling.recv().await == Some(()) {
                pieces.push(bytes());
                give.send_modify(|count| *count += 1);
                pieces.room().await;
            }
            Ok(Arc::from("all"))
        }));
        Self { told, gave, driven }
    }

    async fn give(&mut self) {
        let count = *self.gave.borrow() + 1;
        self.told.send(()).unwrap();
        within("a piece is given", self.gave.wait_for(|gave| *gave == count)).await.unwrap();
    }

    async fn end(self) {
        drop(self.told);
        within("the work ends", self.driven).await.unwrap();
    }
}

async fn next(follower: &mut Follower<Arc<str>, &'static str>) {
    assert_eq!(within("a piece", follower.next()).await, Next::Piece(bytes()));
}

#[tokio::test]
async fn all_flights_together_hold_no_more_than_they_may_and_nobody_fails() {
    // Twenty pieces of all flights together, and each alone could hold as many.
    let bounds = Bounds { log: 20 * PIECE, ahead: 2 * PIECE, all: 20 * PIECE };
    let flights = Test::new(bounds);
    let mut all = Vec::new();
    for n in 0..8 {
        let (lead, led) = leader(flights.join(key(&n.to_string()), Wants::Pieces));
        let beside = follower(flights.join(key(&n.to_string()), Wants::Pieces));
        all.push((Pushing::start(lead), led, beside));
    }
    let mut most = 0;
    for _ in 0..10 {
        for (work, led, beside) in &mut all {
            work.give().await;
            most = most.max(flights.held());
            next(led).await;
            next(beside).await;
        }
    }
    assert!(most <= bounds.all + PIECE, "{most}");
    // What had begun takes nobody more who would need its beginning; who needs none of it is still welcome.
    let late = |n: usize, wants| flights.join(key(&n.to_string()), wants);
    let _joined = follower(late(0, Wants::End));
    let _own = leader(late(0, Wants::Pieces));
    for (work, led, beside) in all {
        work.end().await;
        assert_eq!(read(led).await, (String::new(), End::Complete(Arc::from("all"))));
        assert_eq!(read(beside).await, (String::new(), End::Complete(Arc::from("all"))));
    }
    assert_eq!(flights.held(), 0);
}

#[tokio::test]
async fn who_stands_still_keeps_no_more_than_twice_of_it() {
    let bounds = Bounds { log: 20 * PIECE, ahead: 2 * PIECE, all: 10 * PIECE };
    let flights = Test::new(bounds);
    let mut all = Vec::new();
    for n in 0..8 {
        let (lead, led) = leader(flights.join(key(&n.to_string()), Wants::Pieces));
        let idle = follower(flights.join(key(&n.to_string()), Wants::Pieces));
        let mut work = Pushing::start(lead);
        let mut led = led;
        for _ in 0..15 {
            work.give().await;
            next(&mut led).await;
        }
        assert!(flights.held() <= 2 * bounds.all + (n + 1) * (bounds.ahead + PIECE), "{}", flights.held());
        all.push((work, led, idle));
    }
    for (n, (work, led, idle)) in all.into_iter().enumerate() {
        work.end().await;
        // Who reads along is not touched by any of this.
        assert_eq!(read(led).await.1, End::Complete(Arc::from("all")));
        let (text, end) = read(idle).await;
        match n {
            0 => assert_eq!((text.len(), end), (15 * PIECE, End::Complete(Arc::from("all")))),
            _ => assert!(end == End::TooSlow || text.len() == 15 * PIECE, "{n}: {end:?} {}", text.len()),
        }
    }
    assert_eq!(flights.held(), 0);
}

#[tokio::test]
async fn nothing_is_kept_for_others_of_a_flight_that_nobody_joins() {
    let flights = Test::default();
    let (lead, mut led) = leader(flights.alone(key("a"), Wants::Pieces));
    assert!(flights.is_empty() && led.is_leader());
    let _another = leader(flights.join(key("a"), Wants::Pieces));
    let mut work = Pushing::start(lead);
    work.give().await;
    assert_eq!(flights.held(), PIECE);
    next(&mut led).await;
    assert_eq!(flights.held(), 0);
    work.end().await;
    assert_eq!(led.end().await, End::Complete(Arc::from("all")));
    assert_eq!(flights.len(), 1, "the other one goes on");
}

#[tokio::test]
async fn nothing_goes_on_for_those_who_were_left_behind() {
    let flights = Test::new(Bounds { log: 10 * PIECE, ahead: 2 * PIECE, ..Bounds::default() });
    let (lead, mut led) = leader(flights.join(key("a"), Wants::Pieces));
    let idle: Vec<_> = (0..3).map(|_| follower(flights.join(key("a"), Wants::Pieces))).collect();
    let mut work = Pushing::start(lead);
    for _ in 0..12 {
        work.give().await;
        next(&mut led).await;
    }
    // Three are there who cannot get the whole any more, and one who can.
    drop(led);
    assert!(flights.is_empty());
    within("the work is dropped", work.driven).await.unwrap();
    for idle in idle {
        assert_eq!(read(idle).await, (String::new(), End::TooSlow));
    }
    assert_eq!(flights.held(), 0);
}

#[tokio::test]
async fn work_goes_on_for_nobody_as_long_as_there_is_patience() {
    for is_patient in [true, false] {
        let flights = Test::default();
        let drops = Drops::default();
        let (lead, led) = leader(flights.join(key("a"), Wants::Pieces));
        let guard = drops.guard();
        let (lose, lost) = tokio::sync::oneshot::channel::<()>();
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let (done, is_done) = tokio::sync::oneshot::channel();
        let patience = async { drop(lost.await) };
        let driven = tokio::spawn(lead.drive(patience, async move |pieces| {
            let _guard = guard;
            finished.await.unwrap();
            pieces.push(bytes());
            pieces.room().await;
            done.send(()).unwrap();
            Ok(Arc::from("all"))
        }));
        drop(led);
        let _another = leader(flights.join(key("a"), Wants::End));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(drops.count(), 0, "nobody waits for it, and it goes on");
        if is_patient {
            finish.send(()).unwrap();
            within("the work is done", is_done).await.unwrap();
        } else {
            lose.send(()).unwrap();
            within("the work is dropped", is_done).await.unwrap_err();
        }
        within("its end", driven).await.unwrap();
        assert_eq!((drops.count(), flights.held()), (1, 0));
    }
}

#[tokio::test]
async fn nobody_is_too_slow_for_one_piece_however_large_it_is() {
    let flights = Test::new(Bounds { log: 10 * PIECE, ahead: 2 * PIECE, ..Bounds::default() });
    let (lead, mut led) = leader(flights.join(key("a"), Wants::Pieces));
    let other = follower(flights.join(key("a"), Wants::Pieces));
    let large = "x".repeat(100 * PIECE);
    let pushed = large.clone();
    let driven = tokio::spawn(lead.drive(ready(()), async move |pieces| {
        pieces.push(pushed.into());
        pieces.room().await;
        pieces.push(bytes());
        Ok(Arc::from("all"))
    }));
    assert_eq!(within("the large one", led.next()).await, Next::Piece(large.clone().into()));
    next(&mut led).await;
    within("the work ends", driven).await.unwrap();
    let (text, end) = read(other).await;
    assert_eq!((text.len(), end), (101 * PIECE, End::Complete(Arc::from("all"))));
}
