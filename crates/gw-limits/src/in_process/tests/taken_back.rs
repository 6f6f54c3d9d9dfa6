//! Requests that rules have counted and that another target serves: each leaves the moment at which it was counted.

use super::*;

/// A rule with a limit of requests per minute.
fn rule(world: &World, rpm: u32) -> [Arc<Subject>; 1] {
    let limits = Limits { rpm: Some(rpm), ..Limits::default() };
    [world.limiter.subject(SubjectKind::Rule, "r", limits)]
}

async fn requests_left(world: &World, rule: &[Arc<Subject>]) -> u32 {
    world.limiter.inspect(rule).await.unwrap()[0].requests.unwrap().remaining
}

#[tokio::test]
async fn two_requests_that_fail_leave_the_whole_limit_in_any_order() {
    for newer_first in [true, false] {
        let world = world();
        let counters = [rule(&world, 5), rule(&world, 5)];
        world.limiter.admit_rates("older", &counters[0]).await.unwrap();
        world.clock.advance(Duration::from_millis(500));
        world.limiter.admit_rates("newer", &counters[1]).await.unwrap();
        assert_eq!(requests_left(&world, &counters[0]).await, 3);
        let mut ends = [("newer", &counters[1]), ("older", &counters[0])];
        if !newer_first {
            ends.reverse();
        }
        for (id, counter) in ends {
            world.limiter.take_back(id, counter);
        }
        assert_eq!(requests_left(&world, &counters[0]).await, 5, "newer first: {newer_first}");
    }
}

#[tokio::test]
async fn an_old_request_that_fails_makes_no_room_for_longer_than_it_counted() {
    let world = world();
    let rule = rule(&world, 2);
    world.limiter.admit_rates("r1", &rule).await.unwrap();
    world.clock.advance(Duration::from_secs(48));
    world.limiter.admit_rates("r2", &rule).await.unwrap();
    world.clock.advance(Duration::from_secs(2));
    world.limiter.take_back("r1", &rule);
    assert_eq!(requests_left(&world, &rule).await, 1);
    world.clock.advance(Duration::from_secs(11));
    world.limiter.admit_rates("r3", &rule).await.unwrap();
    let refused = world.limiter.admit_rates("r4", &rule).await.unwrap_err().refusal;
    let retry_after = Duration::from_secs(47);
    assert_eq!(refused, Refusal::Requests { subject: SubjectKind::Rule, limit: 2, retry_after });
}

#[tokio::test]
async fn a_request_is_taken_back_once_and_only_while_it_counts() {
    let world = world();
    let rule = rule(&world, 3);
    for id in ["a", "b"] {
        world.limiter.admit_rates(id, &rule).await.unwrap();
    }
    for _ in 0..3 {
        world.limiter.take_back("a", &rule);
        world.limiter.take_back("unknown", &rule);
    }
    assert_eq!(requests_left(&world, &rule).await, 2);
    world.clock.advance(Duration::from_secs(60));
    world.limiter.admit_rates("c", &rule).await.unwrap();
    world.limiter.take_back("b", &rule);
    assert_eq!(requests_left(&world, &rule).await, 2, "b has left the window, and c stays");
}

#[tokio::test]
async fn a_rule_that_refuses_leaves_the_other_rules_as_they_were() {
    let world = world();
    let [wide] = rule(&world, 5);
    let narrow = Limits { rpm: Some(1), max_in_flight: Some(1), ..Limits::default() };
    let both = [wide.clone(), world.limiter.subject(SubjectKind::Rule, "narrow", narrow)];
    let _permit = world.limiter.admit_rates("a", &both).await.unwrap();
    for seconds in [1, 59] {
        world.clock.advance(Duration::from_secs(seconds));
        world.limiter.admit_rates("b", &both[..1]).await.unwrap();
        let before = requests_left(&world, &both[..1]).await;
        assert!(world.limiter.admit_rates("c", &both).await.is_err());
        assert_eq!(requests_left(&world, &both[..1]).await, before);
    }
    assert_eq!(requests_left(&world, &both[1..]).await, 1, "the place in flight was refused");
}
