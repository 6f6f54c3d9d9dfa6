//! Requests that rules have counted in Redis and that another target serves.

use super::*;
use crate::Refusal;

fn rule(limiter: &Limiter, rpm: u32) -> [Arc<Subject>; 1] {
    [limiter.subject(SubjectKind::Rule, "r", Limits { rpm: Some(rpm), ..Limits::default() })]
}

async fn requests_left(limiter: &Limiter, rule: &[Arc<Subject>]) -> u32 {
    limiter.inspect(rule).await.unwrap()[0].requests.unwrap().remaining
}

#[tokio::test]
async fn two_requests_that_fail_leave_the_whole_limit_at_any_replica() {
    let redis = Redis::start().await;
    let clock = clock();
    let (one, _one) = replica_at(settings(&redis), &clock, &ledger()).await;
    let (other, _other) = replica_at(settings(&redis), &clock, &ledger()).await;
    let (older, newer) = (rule(&one, 5), rule(&other, 5));
    one.admit_rates("older", &older).await.unwrap();
    clock.advance(Duration::from_millis(500));
    other.admit_rates("newer", &newer).await.unwrap();
    assert_eq!(requests_left(&one, &older).await, 3);
    other.take_back("newer", &newer);
    drain(&other).await;
    one.take_back("older", &older);
    drain(&one).await;
    assert_eq!(requests_left(&one, &older).await, 5);
}

#[tokio::test]
async fn an_old_request_that_fails_makes_no_room_in_redis_for_longer_than_it_counted() {
    let redis = Redis::start().await;
    let clock = clock();
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger()).await;
    let rule = rule(&limiter, 2);
    limiter.admit_rates("r1", &rule).await.unwrap();
    clock.advance(Duration::from_secs(48));
    limiter.admit_rates("r2", &rule).await.unwrap();
    clock.advance(Duration::from_secs(2));
    limiter.take_back("r1", &rule);
    drain(&limiter).await;
    assert_eq!(requests_left(&limiter, &rule).await, 1);
    clock.advance(Duration::from_secs(11));
    limiter.admit_rates("r3", &rule).await.unwrap();
    let refused = limiter.admit_rates("r4", &rule).await.unwrap_err().refusal;
    let retry_after = Duration::from_secs(47);
    assert_eq!(refused, Refusal::Requests { subject: SubjectKind::Rule, limit: 2, retry_after });
}

#[tokio::test]
async fn a_request_that_this_process_counted_without_redis_is_taken_back_here() {
    let limiter = replica(settings_of("redis://127.0.0.1:1/0".to_owned()), &ledger()).await;
    let rule = rule(&limiter, 1);
    for id in ["a", "b"] {
        limiter.admit_rates(id, &rule).await.unwrap();
        assert!(limiter.admit_rates("c", &rule).await.is_err());
        limiter.take_back(id, &rule);
    }
}
