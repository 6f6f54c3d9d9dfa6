//! Leases end exactly once: by a settlement, by a release, or by their expiry.

use super::*;
use crate::redis::message::{Message, MessageKind, Settlement};
use crate::redis::outbox::SendOnDrop;
use crate::{Refusal, Reservation};

/// Ends like a killed process: Redis hears nothing.
fn leak(reserved: Reservation) {
    std::mem::forget(reserved);
}

const LEASE: Duration = Duration::from_secs(20 * 60);

#[tokio::test]
async fn r02_what_a_killed_replica_held_is_released_when_its_leases_expire() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (dying, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let (other, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let limits = Limits { max_in_flight: Some(4), ..budget(1_000, Period::Month) };
    for n in 0..4 {
        let (id, subjects) = (format!("req_{n}"), key(&dying, limits));
        std::mem::forget(dying.admit(&id, &subjects).await.unwrap());
        leak(dying.reserve(&id, &subjects, 0, nano(250)).await.unwrap());
    }
    let subjects = key(&other, limits);
    assert!(other.admit("x", &subjects).await.is_err());
    assert!(other.reserve("x", &subjects, 0, nano(1)).await.is_err());
    clock.advance(LEASE - Duration::from_secs(1));
    let why = other.admit("x", &subjects).await.unwrap_err().refusal;
    assert_eq!(why, Refusal::InFlight { subject: SubjectKind::Key, limit: 4 });
    assert!(other.reserve("x", &subjects, 0, nano(1)).await.is_err());
    clock.advance(Duration::from_secs(1));
    let _entered = other.admit("x", &subjects).await.unwrap();
    drop(other.reserve("x", &subjects, 0, nano(1_000)).await.unwrap());
    drain(&other).await;
    assert_eq!((figures(&redis, &subjects[0]).await, leases(&redis, &subjects[0]).await), ((0, 0), 0));
}

#[tokio::test]
async fn r02_a_request_that_outlives_its_lease_keeps_its_reservation_and_its_place() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, core) = replica_at(settings(&redis), &clock, &ledger).await;
    let (other, _other) = replica_at(settings(&redis), &clock, &ledger).await;
    let limits = Limits { max_in_flight: Some(2), ..budget(1_000, Period::Month) };
    let (subjects, others) = (key(&limiter, limits), key(&other, limits));
    let permit = limiter.admit("long", &subjects).await.unwrap();
    let mut long = limiter.reserve("long", &subjects, 0, nano(900)).await.unwrap();
    let short = limiter.admit("short", &subjects).await.unwrap();
    let connection = core.supervisor.connection().unwrap();
    clock.advance(LEASE / 2);
    // The report of a request that ends meanwhile begins nothing.
    let reports = core.holdings.leased_for(Duration::ZERO);
    drop(short);
    drain(&limiter).await;
    assert_eq!(reports.len(), 3);
    core.send_reports(&connection, reports).await.unwrap();
    clock.advance(LEASE / 2);
    assert!(other.reserve("x", &others, 0, nano(101)).await.is_err(), "900 are reserved");
    let second = other.admit("second", &others).await.unwrap();
    assert!(other.admit("third", &others).await.is_err(), "two are in flight");
    long.settle("r", 0, nano(300));
    drop((permit, second));
    drain(&limiter).await;
    drain(&other).await;
    assert_eq!((figures(&redis, &others[0]).await, leases(&redis, &others[0]).await), ((300, 0), 0));
    assert_eq!(redis.command(&["ZCARD", "gw:{key:k}:flying"]).await, ["0"]);
}

/// The process that takes the place of a killed one knows its requests from the journal.
#[tokio::test]
async fn r02_a_replayed_request_frees_its_place() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (dying, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let limits = Limits { max_in_flight: Some(1), ..budget(1_000, Period::Month) };
    let subjects = key(&dying, limits);
    std::mem::forget(dying.admit("killed", &subjects).await.unwrap());
    leak(dying.reserve("killed", &subjects, 0, nano(250)).await.unwrap());
    drop(dying);
    let (next, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&next, limits);
    assert!(next.admit("x", &subjects).await.is_err());
    next.charge("killed", &[(SubjectKind::Key, "k")], nano(20), NOW);
    drain(&next).await;
    drop(next.admit("y", &subjects).await.unwrap());
    assert_eq!(figures(&redis, &subjects[0]).await, (20, 0));
}

#[tokio::test]
async fn r02_a_settlement_after_its_lease_counts_once_and_frees_nothing_twice() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    let mut late = limiter.reserve("late", &subjects, 0, nano(300)).await.unwrap();
    clock.advance(LEASE);
    let mut other = limiter.reserve("other", &subjects, 0, nano(900)).await.unwrap();
    late.settle("r", 0, nano(200));
    drain(&limiter).await;
    assert_eq!(
        figures(&redis, &subjects[0]).await,
        (200, 900),
        "the sum exceeds the budget, and all of it counts"
    );
    other.settle("r", 0, nano(50));
    drain(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (250, 0));
}

#[tokio::test]
async fn r05_what_is_delivered_twice_counts_once() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, Limits { tpm: Some(1_000), ..budget(1_000, Period::Month) });
    let settle = |id: &str, epochs: &str| {
        let epochs = epochs.to_owned();
        let work = MessageKind::Settle(Settlement {
            reserved_tokens: 500,
            reserved_nano: Some(300),
            used_tokens: 100,
            cost_nano: 200,
            epochs,
        });
        drop(SendOnDrop::new(&core, Message::new(id, subjects.to_vec(), work)));
    };
    let epoch = async || redis.command(&["HGET", "gw:{key:k}", "epoch"]).await.concat();
    // The settlement comes in time, after the expiry of the lease, and after the loss of the state.
    leak(limiter.reserve("a", &subjects, 500, nano(300)).await.unwrap());
    let first = epoch().await;
    for _ in 0..3 {
        settle("a", &first);
        drain(&limiter).await;
        assert_eq!(figures(&redis, &subjects[0]).await, (200, 0));
    }
    assert_eq!(limiter.admit("x", &subjects).await.unwrap().limits.tokens.unwrap().remaining, 900);
    leak(limiter.reserve("b", &subjects, 500, nano(300)).await.unwrap());
    clock.advance(LEASE);
    limiter.admit("x", &subjects).await.unwrap();
    for _ in 0..3 {
        settle("b", &first);
        drain(&limiter).await;
        assert_eq!(figures(&redis, &subjects[0]).await, (400, 0));
    }
    leak(limiter.reserve("c", &subjects, 500, nano(300)).await.unwrap());
    redis.flush().await;
    *ledger.spent.lock() = nano(400);
    *ledger.counted.lock() = vec!["a".to_owned(), "b".to_owned()];
    limiter.admit("x", &subjects).await.unwrap();
    assert_ne!(epoch().await, first);
    for _ in 0..3 {
        settle("c", &first);
        drain(&limiter).await;
        assert_eq!(figures(&redis, &subjects[0]).await, (600, 0));
    }
}

#[tokio::test]
async fn p01_a_replayed_journal_ends_leases_and_counts_nothing_twice() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    leak(limiter.reserve("lost", &subjects, 0, nano(300)).await.unwrap());
    limiter.reserve("settled", &subjects, 0, nano(300)).await.unwrap().settle("settled", 0, nano(100));
    drain(&limiter).await;
    for id in ["lost", "settled", "lost"] {
        limiter.charge(id, &names(&subjects), nano(100), NOW);
        drain(&limiter).await;
    }
    assert_eq!(figures(&redis, &subjects[0]).await, (200, 0));
    // The lease expired before the process came back.
    leak(limiter.reserve("long lost", &subjects, 0, nano(300)).await.unwrap());
    clock.advance(LEASE);
    limiter.admit("x", &subjects).await.unwrap();
    for _ in 0..2 {
        limiter.charge("long lost", &names(&subjects), nano(50), NOW);
        drain(&limiter).await;
    }
    assert_eq!(figures(&redis, &subjects[0]).await, (250, 0));
}

#[tokio::test]
async fn one_call_removes_a_bounded_number_of_expired_leases() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    for n in 0..250 {
        leak(limiter.reserve(&format!("req_{n}"), &subjects, 0, nano(4)).await.unwrap());
    }
    clock.advance(LEASE);
    for (left, reserved) in [(150, 600), (50, 200), (0, 0)] {
        limiter.admit("x", &subjects).await.unwrap();
        let seen = (leases(&redis, &subjects[0]).await, figures(&redis, &subjects[0]).await);
        assert_eq!(seen, (left, (0, reserved)));
    }
}

#[tokio::test]
async fn a_request_that_is_cancelled_while_it_waits_for_redis_holds_nothing() {
    let redis = Redis::start().await;
    let limiter = replica(settings(&redis), &ledger()).await;
    let subjects = key(&limiter, Limits { max_in_flight: Some(1_000), ..budget(1_000_000, Period::Month) });
    limiter.admit("first", &subjects).await.unwrap();
    for n in 0..50 {
        let id = format!("req_{n}");
        // Polled once: the request is sent, and its answer is not awaited.
        let asked = async {
            tokio::select! {
                biased;
                permit = limiter.admit(&id, &subjects) => drop(permit),
                () = tokio::task::yield_now() => {}
            }
            tokio::select! {
                biased;
                reserved = limiter.reserve(&id, &subjects, 0, nano(1)) => drop(reserved),
                () = tokio::task::yield_now() => {}
            }
        };
        asked.await;
    }
    drain(&limiter).await;
    assert_eq!((figures(&redis, &subjects[0]).await, leases(&redis, &subjects[0]).await), ((0, 0), 0));
    assert_eq!(redis.command(&["ZCARD", "gw:{key:k}:flying"]).await, ["0"]);
    assert_eq!(subjects[0].state().in_flight.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn amounts_are_rounded_up_and_never_wrap() {
    let redis = Redis::start().await;
    let limiter = replica(settings(&redis), &ledger()).await;
    let subjects = key(&limiter, budget(u64::MAX, Period::Total));
    let mut one = limiter.reserve("a", &subjects, u64::MAX, 1).await.unwrap();
    assert_eq!(figures(&redis, &subjects[0]).await, (0, 1), "a nano-USD is the smallest amount");
    assert!(limiter.reserve("b", &subjects, 0, i128::MAX).await.is_err());
    one.settle("r", u64::MAX, i128::MAX);
    drain(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (crate::redis::amount::MAX_EXACT_INTEGER, 0));
    assert!(limiter.admit("c", &subjects).await.is_err());
    let nothing = [limiter.subject(SubjectKind::Key, "none", budget(0, Period::Total))];
    assert!(limiter.admit("d", &nothing).await.is_err(), "a budget of zero");
}

/// The process that replays the journal of a killed one knows neither the identity nor the team of that time.
#[tokio::test]
async fn p01_a_replayed_journal_charges_subjects_that_the_process_does_not_know() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (dying, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let (next, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let both = |limiter: &Limiter| {
        [("oidc-1", SubjectKind::Key), ("t", SubjectKind::Team)]
            .map(|(id, kind)| limiter.subject(kind, id, budget(1_000, Period::Month)))
    };
    let of_dying = both(&dying);
    for id in ["known", "unknown", "late"] {
        leak(dying.reserve(id, &of_dying, 0, nano(300)).await.unwrap());
    }
    next.charge("known", &names(&of_dying), nano(200), NOW);
    drain(&next).await;
    for subject in &of_dying {
        assert_eq!(figures(&redis, subject).await, (200, 600));
    }
    // The spending becomes unknown, and a request is charged before the ledger is asked. The row of another is in the ledger.
    let of_next = both(&next);
    clock.set_both(NOW + 1);
    let other =
        both(&next).map(|subject| next.subject(subject.kind(), subject.id(), budget(1_000, Period::Total)));
    redis.command(&["HDEL", "gw:{key:oidc-1}", "start"]).await;
    next.charge("unknown", &names(&of_next), nano(100), NOW);
    drain(&next).await;
    ledger.rows.lock().extend([(NOW, nano(200)), (NOW, nano(100)), (NOW, nano(50))]);
    ledger.counted.lock().extend(["known", "unknown", "late"].map(str::to_owned));
    ledger.costs.lock().insert("unknown".to_owned(), (nano(100), NOW));
    ledger.costs.lock().insert("late".to_owned(), (nano(50), NOW));
    next.admit("x", &other).await.unwrap();
    for _ in 0..2 {
        next.charge("late", &names(&of_next), nano(50), NOW);
        drain(&next).await;
        for subject in &other {
            assert_eq!(figures(&redis, subject).await, (350, 0));
        }
    }
}
