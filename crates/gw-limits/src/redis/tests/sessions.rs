//! Sessions that two replicas share.

use super::{Redis, clock, ledger, replica_at, settings};
use crate::session::{SessionId, SessionLimit, SessionLimits, SessionRequest, ToolCall};

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_calls_cost_time_and_tool_calls() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (one, _) = replica_at(settings(&redis), &clock, &ledger).await;
    let (other, _) = replica_at(settings(&redis), &clock, &ledger).await;
    let id = |name: &str| SessionId { key_id: "k".into(), name: name.into() };
    let request = |id, newest_calls, stop| SessionRequest { id, newest_calls, equal_calls: 0, stop };

    let stop = SessionLimits { max_calls: Some(2), ..SessionLimits::default() };
    let run = id("calls");
    assert_eq!(one.enter_session(&request(&run, &[], stop)).await.map(|used| used.calls), Ok(1));
    assert_eq!(other.enter_session(&request(&run, &[], stop)).await.map(|used| used.calls), Ok(2));
    assert_eq!(one.enter_session(&request(&run, &[], stop)).await, Err(SessionLimit::Calls));
    let another = id("calls 2");
    assert!(one.enter_session(&request(&another, &[], stop)).await.is_ok());

    let stop = SessionLimits { max_cost_femtos: Some(5_000_000), ..SessionLimits::default() };
    let run = id("cost");
    assert!(one.enter_session(&request(&run, &[], stop)).await.is_ok());
    one.charge_session(&run, 3_000_000);
    // The next request of the replica carries the cost along, if it is not delivered yet.
    assert_eq!(
        one.enter_session(&request(&run, &[], stop)).await.map(|used| used.cost_femtos),
        Ok(3_000_000)
    );
    other.charge_session(&run, 2_000_000);
    assert_eq!(other.enter_session(&request(&run, &[], stop)).await, Err(SessionLimit::Cost));

    let stop =
        SessionLimits { max_age: Some(std::time::Duration::from_secs(60)), ..SessionLimits::default() };
    let run = id("age");
    assert!(one.enter_session(&request(&run, &[], stop)).await.is_ok());
    clock.advance(std::time::Duration::from_secs(59));
    assert!(other.enter_session(&request(&run, &[], stop)).await.is_ok());
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(other.enter_session(&request(&run, &[], stop)).await, Err(SessionLimit::Age));

    let stop = SessionLimits { max_repeats: Some(2), ..SessionLimits::default() };
    let run = id("repeats");
    let [first, second, third] = [1, 2, 3].map(|n| [ToolCall { occurrence: n, call: u64::MAX }]);
    assert_eq!(one.enter_session(&request(&run, &first, stop)).await.map(|used| used.repeats), Ok(1));
    assert_eq!(other.enter_session(&request(&run, &first, stop)).await.map(|used| used.repeats), Ok(1));
    // A look counts nothing.
    for _ in 0..2 {
        assert_eq!(one.look_at_session(&request(&run, &second, stop)).await.map(|used| used.repeats), Ok(2));
        assert_eq!(one.look_at_session(&request(&run, &second, stop)).await.map(|used| used.calls), Ok(3));
    }
    assert_eq!(other.enter_session(&request(&run, &second, stop)).await.map(|used| used.repeats), Ok(2));
    assert_eq!(one.look_at_session(&request(&run, &third, stop)).await, Err(SessionLimit::Repeats));
    assert_eq!(one.enter_session(&request(&run, &third, stop)).await, Err(SessionLimit::Repeats));
    let known = redis.command(&["DBSIZE"]).await;
    let unknown = id("unknown");
    assert!(one.look_at_session(&request(&unknown, &first, stop)).await.is_ok());
    assert_eq!(redis.command(&["DBSIZE"]).await, known, "a look at an unknown session leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_counted_by_the_process_while_redis_is_away() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _) = replica_at(settings(&redis), &clock, &ledger).await;
    let id = SessionId { key_id: "k".into(), name: "run".into() };
    let stop = SessionLimits { max_calls: Some(2), ..SessionLimits::default() };
    let request = SessionRequest { id: &id, newest_calls: &[], equal_calls: 0, stop };
    assert_eq!(limiter.enter_session(&request).await.map(|used| used.calls), Ok(1));
    drop(redis);
    assert_eq!(limiter.enter_session(&request).await.map(|used| used.calls), Ok(1));
    assert_eq!(limiter.enter_session(&request).await.map(|used| used.calls), Ok(2));
    assert_eq!(limiter.enter_session(&request).await, Err(SessionLimit::Calls));
}

#[tokio::test(flavor = "multi_thread")]
async fn c36_redis_keeps_a_bounded_number_of_sessions_of_each_key() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _) = replica_at(settings(&redis), &clock, &ledger).await;
    let stop = SessionLimits { max_calls: Some(1), ..SessionLimits::default() };
    let call_in = async |key: &str, name: usize| {
        clock.advance(std::time::Duration::from_micros(1));
        let id = SessionId { key_id: key.into(), name: name.to_string().into() };
        let request = SessionRequest { id: &id, newest_calls: &[], equal_calls: 0, stop };
        limiter.enter_session(&request).await.map(|used| used.calls)
    };
    assert_eq!(call_in("victim", 0).await, Ok(1));
    let most = crate::session::MAX_SESSIONS_OF_KEY;
    for name in 0..=most {
        assert_eq!(call_in("greedy", name).await, Ok(1));
    }
    assert_eq!(call_in("greedy", 1).await, Err(SessionLimit::Calls), "the second is remembered");
    assert_eq!(call_in("greedy", 0).await, Ok(1), "the first is forgotten");
    assert_eq!(call_in("victim", 0).await, Err(SessionLimit::Calls));
}
