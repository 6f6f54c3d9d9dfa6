//! Where the steps of a hosted future run, and what is left of it when it is dropped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;

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
    assert_eq!(pool.lateness(), Duration::ZERO);
}

/// Keeps the only thread of a pool busy until the sender is dropped or used.
fn busy(pool: &CpuPool) -> (Hosted<impl Future<Output = bool> + use<>>, std::sync::mpsc::Sender<()>) {
    let (finish, may_finish) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let mut hosted = pool.host(offload(move || {
        begun.send(()).unwrap();
        may_finish.recv().is_ok()
    }));
    assert!((&mut hosted).now_or_never().is_none());
    has_begun.recv().unwrap();
    (hosted, finish)
}

#[tokio::test]
async fn a_future_that_is_dropped_while_its_step_waits_is_gone_at_once() {
    let pool = CpuPool::new(1).unwrap();
    let (first, finish) = busy(&pool);
    let dropped = Arc::new(AtomicBool::new(false));
    let held = Dropped(Arc::clone(&dropped));
    let mut waiting = pool.host(async move {
        let _held = held;
        offload(|| ()).await;
    });
    assert!((&mut waiting).now_or_never().is_none());
    assert!(!dropped.load(Ordering::Acquire));
    drop(waiting);
    assert!(dropped.load(Ordering::Acquire), "what it held is free, and the thread is still busy");
    finish.send(()).unwrap();
    assert!(first.await);
}

#[tokio::test(start_paused = true)]
async fn the_clocks_of_a_future_run_while_its_step_waits() {
    let pool = CpuPool::new(1).unwrap();
    let (first, finish) = busy(&pool);
    let limited = tokio::time::timeout(Duration::from_secs(5), offload(|| ()));
    assert!(pool.host(limited).await.is_err());
    finish.send(()).unwrap();
    assert!(first.await);
}

#[tokio::test]
async fn tenants_take_turns() {
    let pool = CpuPool::new(1).unwrap();
    let (first, finish) = busy(&pool);
    let (many, few) = (pool.of(&"many".into()), pool.of(&"few".into()));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut steps = Vec::new();
    for (tenant, name) in [(&many, 'm'), (&many, 'm'), (&many, 'm'), (&many, 'm'), (&few, 'f'), (&few, 'f')] {
        let order = Arc::clone(&order);
        let mut step = tenant.host(offload(move || order.lock().push(name)));
        assert!((&mut step).now_or_never().is_none());
        steps.push(step);
    }
    assert!(many.lateness() > Duration::ZERO && few.lateness() > Duration::ZERO);
    assert_eq!(pool.of(&"none".into()).lateness(), Duration::ZERO);
    finish.send(()).unwrap();
    assert!(first.await);
    join_all(steps).await;
    assert_eq!(order.lock().iter().collect::<String>(), "mfmfmm");
}

#[tokio::test]
async fn a_poll_in_the_pool_runs_one_step() {
    let pool = CpuPool::new(1).unwrap();
    let (first, finish) = busy(&pool);
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let mut hosted = pool.host(async move {
        let parts = (0..8).map(|_| {
            offload(|| {
                count.fetch_add(1, Ordering::AcqRel);
                begun.send(()).unwrap();
                may_go_on.lock().recv().unwrap();
            })
        });
        join_all(parts).await;
    });
    assert!((&mut hosted).now_or_never().is_none());
    finish.send(()).unwrap();
    assert!(first.await);
    has_begun.recv().unwrap();
    drop(hosted);
    go_on.send(()).unwrap();
    // The thread is free again, so the poll is over.
    assert_eq!(pool.host(offload(|| 1)).await, 1);
    assert_eq!(ran.load(Ordering::Acquire), 1, "the other seven steps of a request that left never run");
}

#[test]
fn a_body_is_heavy_by_its_values_and_not_by_its_text() {
    let text = |bytes: usize| [b"{\"a\":\"".as_slice(), &vec![b'x'; bytes], b"\"}"].concat();
    let values = |bytes: usize| [b"[".as_slice(), &b"1,".repeat(bytes / 2), b"1]"].concat();
    assert!(!is_heavy(&text(400 << 10)));
    assert!(is_heavy(&text(600 << 10)));
    assert!(is_heavy(&values(20 << 10)));
    assert!(!is_heavy(&values(10 << 10)));
    let mut blanked = values(400 << 10);
    let stride = blanked.len() / 64;
    blanked.chunks_mut(stride).for_each(|chunk| chunk.iter_mut().take(64).for_each(|byte| *byte = b' '));
    let found = (0..100).filter(|_| is_heavy(&blanked)).count();
    assert!(found > 50, "blanks at known places hide little: {found}");
    let reference = [br#"{"$ref":""#.as_slice(), &[b'x'; 1 << 10], br#""}"#].concat();
    assert!(is_heavy(&reference), "it may be followed often");
    let mut half = text(200 << 10);
    half.extend(values(50 << 10));
    assert!(is_heavy(&half));
}
