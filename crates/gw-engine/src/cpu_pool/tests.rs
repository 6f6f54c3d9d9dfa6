//! Where the steps of a hosted future run, and what is left of it when it is dropped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::*;

fn pool() -> CpuPool {
    CpuPool::new(2).unwrap()
}

fn here() -> Option<String> {
    thread::current().name().map(str::to_owned)
}

#[tokio::test]
async fn a_marked_step_runs_in_the_pool_and_the_rest_on_the_worker() {
    let worker = here();
    let seen = pool().host(async { (here(), offload(here).await, here()) }).await;
    assert_eq!(seen, (worker.clone(), Some("cpu-pool".to_owned()), worker));
}

#[tokio::test]
async fn without_a_pool_or_a_host_a_step_runs_in_place() {
    let worker = here();
    assert_eq!(offload(here).await, worker);
    assert_eq!(CpuPool::default().host(offload(here)).await, worker);
    assert_eq!(pool().host(offload_if(false, here)).await, worker);
}

#[tokio::test]
async fn steps_of_parallel_parts_all_run_in_the_pool() {
    let parts = (0..100).map(|_| async {
        let step = offload(here).await;
        tokio::task::yield_now().await;
        (step, offload(here).await, here())
    });
    let worker = here();
    let pooled = Some("cpu-pool".to_owned());
    for seen in pool().host(async { join_all(parts).await }).await {
        assert_eq!(seen, (pooled.clone(), pooled.clone(), worker.clone()));
    }
}

#[tokio::test]
async fn a_hosted_future_may_hold_another() {
    let (outer, inner) = (pool(), pool());
    let seen = outer.host(async move {
        let first = offload(here).await;
        (first, inner.host(async { (offload(here).await, here()) }).await, offload(here).await)
    });
    let pooled = Some("cpu-pool".to_owned());
    assert_eq!(seen.await, (pooled.clone(), (pooled.clone(), here()), pooled));
}

#[tokio::test]
async fn timers_of_a_step_belong_to_the_worker() {
    let slept = pool().host(async {
        let sleep = offload(|| tokio::time::sleep(Duration::from_millis(1))).await;
        sleep.await;
        true
    });
    assert!(slept.await);
}

#[tokio::test]
async fn a_panic_in_a_step_is_the_futures_own() {
    let pool = pool();
    let panicked = AssertUnwindSafe(pool.host(offload(|| panic!("on purpose")))).catch_unwind().await;
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
    assert_eq!(pool.host(offload(|| 1)).await, 1, "the pool goes on");
}

/// Says when it is dropped, and on which side of the runtime.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        assert!(Handle::try_current().is_ok(), "a drop may start a task");
        self.0.store(true, Ordering::Release);
    }
}

#[tokio::test]
async fn a_future_that_is_dropped_ends_with_its_step_and_does_nothing_more() {
    let (dropped, went_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (finish, may_finish) = std::sync::mpsc::channel::<()>();
    let (held, after) = (Dropped(Arc::clone(&dropped)), Arc::clone(&went_on));
    let pool = pool();
    let mut hosted = pool.host(async move {
        let _held = held;
        offload(move || {
            begun.send(()).unwrap();
            may_finish.recv().unwrap();
        })
        .await;
        after.store(true, Ordering::Release);
    });
    assert!((&mut hosted).now_or_never().is_none());
    has_begun.recv().unwrap();
    drop(hosted);
    assert!(!dropped.load(Ordering::Acquire), "its step still runs");
    finish.send(()).unwrap();
    while !dropped.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
    assert!(!went_on.load(Ordering::Acquire));
}

#[tokio::test]
async fn steps_of_dropped_requests_that_still_wait_never_run() {
    let pool = CpuPool::new(1).unwrap();
    let (finish, may_finish) = std::sync::mpsc::channel::<()>();
    let mut first = pool.host(offload(move || may_finish.recv().is_ok()));
    assert!((&mut first).now_or_never().is_none());
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let ran = Arc::clone(&ran);
        let mut waiting = pool.host(offload(move || ran.fetch_add(1, Ordering::AcqRel)));
        assert!((&mut waiting).now_or_never().is_none());
    }
    finish.send(()).unwrap();
    assert!(first.await);
    assert_eq!(pool.host(offload(|| 2)).await, 2, "behind all of them");
    assert_eq!(ran.load(Ordering::Acquire), 0);
    assert_eq!(pool.queue().0, 0);
}

#[test]
fn a_body_is_heavy_by_its_values_and_not_by_its_text() {
    let text = |bytes: usize| [b"{\"a\":\"".as_slice(), &vec![b'x'; bytes], b"\"}"].concat();
    let values = |bytes: usize| [b"[".as_slice(), &b"1,".repeat(bytes / 2), b"1]"].concat();
    assert!(!is_heavy(&text(400 << 10)));
    assert!(is_heavy(&text(600 << 10)));
    assert!(is_heavy(&values(20 << 10)));
    assert!(!is_heavy(&values(10 << 10)));
    let mut half = text(200 << 10);
    half.extend(values(50 << 10));
    assert!(is_heavy(&half));
}
