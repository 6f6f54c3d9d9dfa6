//! Sessions of one process.

use std::sync::Arc;
use std::time::Duration;

use super::{
    MAX_SESSIONS, SESSION_TTL, SessionId, SessionLimit, SessionLimits, SessionRequest, SessionTable, ToolCall,
};

fn id(name: &str) -> SessionId {
    SessionId { key_id: "k".into(), name: name.into() }
}

fn request<'r>(id: &'r SessionId, newest_calls: &'r [ToolCall], stop: SessionLimits) -> SessionRequest<'r> {
    SessionRequest { id, newest_calls, equal_calls: 0, stop }
}

fn seconds(seconds: u64) -> f64 {
    Duration::from_secs(seconds).as_micros() as f64
}

#[test]
fn each_limit_refuses_what_goes_beyond_it() {
    let table = SessionTable::default();
    let calls = SessionLimits { max_calls: Some(2), ..SessionLimits::default() };
    let run = id("calls");
    assert_eq!(table.admit(&request(&run, &[], calls), 0.0).map(|used| used.calls), Ok(1));
    assert_eq!(table.admit(&request(&run, &[], calls), 0.0).map(|used| used.calls), Ok(2));
    assert_eq!(table.admit(&request(&run, &[], calls), 0.0), Err(SessionLimit::Calls));
    assert!(table.admit(&request(&id("other"), &[], calls), 0.0).is_ok());

    let cost = SessionLimits { max_cost_femtos: Some(10), ..SessionLimits::default() };
    let run = id("cost");
    assert!(table.admit(&request(&run, &[], cost), 0.0).is_ok());
    table.charge(&run, 9);
    assert_eq!(table.admit(&request(&run, &[], cost), 0.0).map(|used| used.cost_femtos), Ok(9));
    table.charge(&run, 1);
    assert_eq!(table.admit(&request(&run, &[], cost), 0.0), Err(SessionLimit::Cost));

    let age = SessionLimits { max_age: Some(Duration::from_secs(60)), ..SessionLimits::default() };
    let run = id("age");
    assert!(table.admit(&request(&run, &[], age), seconds(5)).is_ok());
    assert!(table.admit(&request(&run, &[], age), seconds(64)).is_ok());
    assert_eq!(table.admit(&request(&run, &[], age), seconds(65)), Err(SessionLimit::Age));
    let after = seconds(65 + SESSION_TTL.as_secs() + 1);
    assert!(table.admit(&request(&run, &[], age), after).is_ok(), "an idle session begins anew");
}

#[test]
fn a_call_that_is_sent_again_is_no_repeat() {
    let table = SessionTable::default();
    let stop = SessionLimits { max_repeats: Some(2), ..SessionLimits::default() };
    let run = id("run");
    let turn =
        |n: u64| [ToolCall { occurrence: n, call: 7 }, ToolCall { occurrence: 100 + n, call: 100 + n }];
    for _ in 0..5 {
        assert_eq!(table.admit(&request(&run, &turn(1), stop), 0.0).map(|used| used.repeats), Ok(1));
    }
    assert_eq!(table.admit(&request(&run, &turn(2), stop), 0.0).map(|used| used.repeats), Ok(2));
    assert_eq!(table.admit(&request(&run, &turn(3), stop), 0.0), Err(SessionLimit::Repeats));
    assert_eq!(table.admit(&request(&run, &turn(3), stop), 0.0), Err(SessionLimit::Repeats));
    assert!(table.admit(&request(&run, &[], stop), 0.0).is_ok(), "a turn without tool calls");
    let own = SessionRequest { equal_calls: 3, ..request(&run, &[], stop) };
    assert_eq!(table.admit(&own, 0.0), Err(SessionLimit::Repeats), "repeats within the conversation");
}

/// A call in a session of a key that may make one call.
fn call_in(table: &SessionTable, key: &str, name: usize, at: u64) -> Result<u64, SessionLimit> {
    let id = SessionId { key_id: key.into(), name: name.to_string().into() };
    let stop = SessionLimits { max_calls: Some(1), ..SessionLimits::default() };
    table.admit(&request(&id, &[], stop), seconds(at)).map(|used| used.calls)
}

#[test]
fn c36_a_key_with_too_many_sessions_forgets_its_own_least_recently_used_ones() {
    let table = SessionTable::default();
    for name in 0..2 * MAX_SESSIONS {
        assert_eq!(call_in(&table, "greedy", name, name as u64 + 1), Ok(1));
        assert!(table.len() <= MAX_SESSIONS / 2, "{} sessions", table.len());
    }
    let now = 2 * MAX_SESSIONS as u64 + 1;
    assert_eq!(call_in(&table, "greedy", 0, now), Ok(1), "the oldest is forgotten");
    assert_eq!(call_in(&table, "greedy", 2 * MAX_SESSIONS - 1, now), Err(SessionLimit::Calls));
}

#[test]
fn c36_the_sessions_of_one_key_never_push_out_those_of_another() {
    let table = SessionTable::default();
    for name in 0..50 {
        assert_eq!(call_in(&table, "victim", name, 1), Ok(1));
    }
    for name in 0..2 * MAX_SESSIONS {
        assert_eq!(call_in(&table, "greedy", name, name as u64 + 2), Ok(1));
    }
    let now = 2 * MAX_SESSIONS as u64 + 2;
    for name in 0..50 {
        assert_eq!(call_in(&table, "victim", name, now), Err(SessionLimit::Calls), "session {name}");
    }
}

#[test]
fn c36_among_many_keys_the_one_with_the_most_sessions_forgets_first() {
    let table = SessionTable::default();
    for name in 0..100 {
        assert_eq!(call_in(&table, "large", name, 1), Ok(1));
    }
    for key in 0..MAX_SESSIONS {
        assert_eq!(call_in(&table, &format!("key {key}"), 0, 2 + key as u64), Ok(1));
        assert!(table.len() <= MAX_SESSIONS);
    }
    let now = MAX_SESSIONS as u64 + 2;
    assert_eq!(call_in(&table, "key 0", 0, now), Err(SessionLimit::Calls), "a small key keeps its session");
    assert_eq!(call_in(&table, "large", 0, now), Ok(1), "the large one has lost some");
}

#[test]
fn parallel_requests_do_not_overshoot() {
    let table = Arc::new(SessionTable::default());
    let stop = SessionLimits { max_calls: Some(10), ..SessionLimits::default() };
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let table = Arc::clone(&table);
            let admit =
                move || (0..25).filter(|_| table.admit(&request(&id("run"), &[], stop), 0.0).is_ok()).count();
            std::thread::spawn(admit)
        })
        .collect();
    let entered: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(entered, 10);
}

#[test]
fn the_stricter_limits_count() {
    let one = SessionLimits { max_calls: Some(3), max_repeats: Some(9), ..SessionLimits::default() };
    let other = SessionLimits { max_calls: Some(5), max_cost_femtos: Some(1), ..SessionLimits::default() };
    let both =
        SessionLimits { max_calls: Some(3), max_repeats: Some(9), max_cost_femtos: Some(1), max_age: None };
    assert_eq!(one.stricter(other), both);
}

#[test]
fn a_look_says_what_a_request_would_get_and_counts_nothing() {
    let table = SessionTable::default();
    let stop = SessionLimits { max_calls: Some(2), max_repeats: Some(2), ..SessionLimits::default() };
    let run = id("run");
    let turn = |n: u64| [ToolCall { occurrence: n, call: 7 }];
    for n in 0..2 {
        for _ in 0..3 {
            assert_eq!(table.look(&request(&run, &turn(n), stop), 0.0).map(|used| used.calls), Ok(n + 1));
        }
        assert_eq!(table.len(), usize::from(n > 0), "a look remembers no session");
        assert_eq!(
            table.admit(&request(&run, &turn(n), stop), 0.0).map(|used| used.repeats),
            Ok(n as u32 + 1)
        );
    }
    assert_eq!(table.look(&request(&run, &turn(2), stop), 0.0), Err(SessionLimit::Calls));
    let repeats = SessionLimits { max_calls: None, ..stop };
    assert_eq!(table.look(&request(&run, &turn(2), repeats), 0.0), Err(SessionLimit::Repeats));
    assert_eq!(table.look(&request(&run, &turn(1), repeats), 0.0).map(|used| used.repeats), Ok(2));
}
