//! A free worker starts requests at once, a busy one in turns; only waiting too long is refused.

use futures_util::FutureExt;
use tokio::task::JoinSet;

use super::*;

const LIMIT: Duration = Duration::from_millis(20);

fn admission(limit: Duration) -> Arc<Admission> {
    let metrics = AdmissionMetrics { refused: Counter::default(), wait: Gauge::default() };
    let mut admission = Admission::new(limit, Arc::default(), metrics);
    // A request can be as old as a test wants.
    admission.origin -= Duration::from_secs(60);
    Arc::new(admission)
}

/// An admission queue that runs on this test's thread.
fn running(limit: Duration) -> Arc<Admission> {
    let admission = admission(limit);
    let keeper = Arc::clone(&admission);
    tokio::spawn(async move { keeper.run().await });
    admission
}

/// Asks for `count` requests of a key that are this old, and tells the end of each wait.
fn ask(
    admission: &Arc<Admission>,
    key: &str,
    count: usize,
    age: Duration,
    told: &tokio::sync::mpsc::UnboundedSender<(Arc<str>, bool)>,
) {
    for _ in 0..count {
        let (admission, key, told) = (Arc::clone(admission), Arc::<str>::from(key), told.clone());
        tokio::spawn(async move {
            let waited = admission.wait(&key, Instant::now().checked_sub(age).unwrap()).await;
            told.send((key, waited.is_ok())).unwrap();
        });
    }
}

async fn waiting(admission: &Admission, count: usize) {
    while admission.queue.lock().len() != count {
        yield_now().await;
    }
}

#[test]
fn a_worker_without_other_tasks_starts_requests_at_once_and_only_a_bounded_number() {
    let admission = admission(LIMIT);
    let now = admission.origin + Duration::from_secs(1);
    assert_eq!((0..1_000).filter(|_| admission.is_free(now)).count(), 32);
    admission.free.parks.store(u64::MAX, Ordering::Relaxed);
    assert!(admission.is_free(now), "the run queue was empty");
    let late = now + FREE_TIME + Duration::from_nanos(1);
    assert_eq!((0..1_000).filter(|_| admission.is_free(late)).count(), 7, "heavy requests used the time");
}

#[tokio::test]
async fn a_burst_is_held_and_never_refused_however_large_it_is() {
    let admission = running(Duration::from_secs(3_600));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    ask(&admission, "a", 10_000, Duration::ZERO, &tell);
    for _ in 0..10_000 {
        assert!(told.recv().await.unwrap().1);
    }
    assert_eq!(admission.metrics.refused.get(), 0);
    while admission.is_queueing.load(Ordering::Relaxed) {
        yield_now().await;
    }
    assert_eq!((admission.queue.lock().len(), admission.shared.waiting.load(Ordering::Relaxed)), (0, 0));
    assert!(admission.is_free(Instant::now()), "the worker is free again");
}

#[tokio::test]
async fn another_key_is_served_beside_a_flood() {
    let admission = running(Duration::from_secs(3_600));
    admission.shared.is_held.store(true, Ordering::Relaxed);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    ask(&admission, "flood", 2_000, Duration::ZERO, &tell);
    waiting(&admission, 2_000).await;
    ask(&admission, "other", 5, Duration::ZERO, &tell);
    waiting(&admission, 2_005).await;
    admission.shared.is_held.store(false, Ordering::Relaxed);
    let mut before = 0;
    for _ in 0..5 {
        while told.recv().await.unwrap().0.as_ref() != "other" {
            before += 1;
        }
    }
    assert!(before <= 64, "{before} of the flood started before");
}

#[tokio::test]
async fn a_request_that_waited_too_long_is_refused_and_a_young_one_is_held() {
    let admission = running(LIMIT);
    admission.shared.is_held.store(true, Ordering::Relaxed);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    ask(&admission, "a", 3, Duration::from_secs(1), &tell);
    for _ in 0..3 {
        assert_eq!(told.recv().await.unwrap(), ("a".into(), false));
    }
    assert_eq!(admission.metrics.refused.get(), 3);
    admission.shared.is_held.store(false, Ordering::Relaxed);
    ask(&admission, "a", 1, Duration::ZERO, &tell);
    assert_eq!(told.recv().await.unwrap(), ("a".into(), true));
}

#[tokio::test]
async fn a_free_worker_starts_even_an_old_request_before_it_refuses() {
    let admission = running(LIMIT);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    ask(&admission, "a", 5, Duration::from_secs(30), &tell);
    for _ in 0..5 {
        assert_eq!(told.recv().await.unwrap(), ("a".into(), true), "one turn has room for all of them");
    }
}

#[tokio::test]
async fn nothing_is_refused_where_shedding_is_off() {
    let admission = running(Duration::ZERO);
    admission.shared.is_held.store(true, Ordering::Relaxed);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    ask(&admission, "a", 500, Duration::from_secs(30), &tell);
    waiting(&admission, 500).await;
    admission.shared.is_held.store(false, Ordering::Relaxed);
    for _ in 0..500 {
        assert!(told.recv().await.unwrap().1);
    }
}

/// Fills the queue with requests of one key.
fn fill(admission: &Admission, count: usize) -> Vec<tokio::sync::oneshot::Receiver<Verdict>> {
    let (mut queue, key) = (admission.queue.lock(), Arc::from("flood"));
    (0..count).map(|_| queue.push(&key, Stage::New, Instant::now()).1).collect()
}

#[tokio::test]
async fn a_key_that_fills_the_queue_is_refused_and_another_one_is_served() {
    let admission = running(Duration::from_secs(3_600));
    admission.shared.is_held.store(true, Ordering::Relaxed);
    let mut flood = fill(&admission, MAX_WAITING + 10);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    ask(&admission, "other", 1, Duration::ZERO, &tell);
    while admission.metrics.refused.get() < 11 {
        yield_now().await;
    }
    assert_eq!(admission.queue.lock().len(), MAX_WAITING, "the others are held");
    let newest = flood.split_off(MAX_WAITING - 1);
    for mut request in newest {
        assert_eq!(request.try_recv(), Ok(Verdict::Refused));
    }
    admission.shared.is_held.store(false, Ordering::Relaxed);
    assert_eq!(told.recv().await.unwrap(), ("other".into(), true));
}

#[tokio::test]
async fn far_too_many_requests_are_refused_at_once() {
    let admission = admission(LIMIT);
    let mut flood = fill(&admission, MAX_HELD + 1);
    let key = Arc::from("other");
    let mut other = Box::pin(admission.wait(&key, Instant::now()));
    assert!(other.as_mut().now_or_never().is_none(), "it waits");
    assert_eq!(flood.pop().unwrap().try_recv(), Ok(Verdict::Refused));
    assert_eq!((admission.queue.lock().len(), admission.metrics.refused.get()), (MAX_HELD + 1, 1));
}

#[tokio::test]
async fn a_client_that_leaves_gives_up_its_place() {
    let admission = admission(LIMIT);
    let key = Arc::from("a");
    let mut left = Box::pin(admission.wait(&key, Instant::now()));
    assert!(left.as_mut().now_or_never().is_none());
    assert_eq!(admission.queue.lock().len(), 1);
    drop(left);
    assert_eq!((admission.queue.lock().len(), admission.shared.waiting.load(Ordering::Relaxed)), (0, 0));
}

#[tokio::test]
async fn a_request_that_goes_on_shows_its_wait_and_counts_as_started() {
    let admission = running(LIMIT);
    admission.shared.is_held.store(true, Ordering::Relaxed);
    let key = Arc::from("a");
    let mut continued = Box::pin(admission.wait_again(&key));
    assert!(continued.as_mut().now_or_never().is_none());
    assert_eq!((admission.queue.lock().len(), admission.shared.waiting.load(Ordering::Relaxed)), (1, 0));
    while admission.metrics.wait.get() <= LIMIT.as_secs_f64() {
        yield_now().await;
    }
    assert_eq!(admission.metrics.refused.get(), 0, "it is never refused");
    admission.shared.is_held.store(false, Ordering::Relaxed);
    continued.await;
    assert_eq!(admission.shared.waiting.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_cost_of_a_measured_request_is_learnt() {
    let admission = running(LIMIT);
    let mut waiting = JoinSet::new();
    for _ in 0..METERED_SHARE {
        let admission = Arc::clone(&admission);
        waiting.spawn(async move { admission.wait(&Arc::from("a"), Instant::now()).await });
    }
    let metered = waiting.join_all().await.into_iter().filter_map(|waited| waited.unwrap());
    let mut metered: Vec<_> = metered.collect();
    assert_eq!(metered.len(), 1, "one of {METERED_SHARE}");
    assert_eq!(metered[0].measure(|| 7), 7);
}

#[test]
fn the_cost_of_a_request_is_learnt_when_it_begins_to_wait() {
    let admission = admission(LIMIT);
    let mut meter = Meter::new(&admission, &Arc::from("flood"));
    let _waiting = fill(&admission, 20);
    let waits: std::task::Poll<()> = meter.poll(|| {
        let begun = thread_time();
        while thread_time().saturating_sub(begun) < Duration::from_millis(20) {}
        std::task::Poll::Pending
    });
    assert!(waits.is_pending());
    assert_eq!(admission.queue.lock().start(TURN), 1, "ten of them if the cost were not known");
}
