//! Keys take turns by CPU time, and the key with most waiting requests is refused first.

use super::*;

type Receiver = oneshot::Receiver<Verdict>;

fn key(name: &str) -> Arc<str> {
    name.into()
}

/// A key whose requests cost this many microseconds.
fn costly(queue: &mut FairQueue, name: &str, micros: u64) -> Arc<str> {
    let key = key(name);
    for _ in 0..100 {
        queue.learn(&key, Duration::from_nanos((micros * 1_000).saturating_sub(UNMETERED_COST)));
    }
    key
}

fn push(queue: &mut FairQueue, key: &Arc<str>, count: usize, since: Instant) -> Vec<Receiver> {
    (0..count).map(|_| queue.push(key, Stage::New, since).1).collect()
}

fn started(requests: &mut [Receiver]) -> usize {
    requests.iter_mut().map(oneshot::Receiver::try_recv).filter(Result::is_ok).count()
}

#[test]
fn one_turn_starts_as_many_requests_as_fit_into_its_time() {
    for (micros, count) in [(50, 20), (100, 10), (400, 3), (5_000, 1)] {
        let mut queue = FairQueue::default();
        let key = costly(&mut queue, "a", micros);
        let _waiting = push(&mut queue, &key, 100, Instant::now());
        let begun = queue.start(Duration::from_millis(1));
        assert!(begun.abs_diff(count) <= 1, "{begun} of {micros} µs each");
        assert_eq!(queue.len(), 100 - begun);
    }
}

#[test]
fn another_key_starts_within_two_turns_whatever_waits_before_it() {
    for micros in [50, 1_000, 20_000] {
        let mut queue = FairQueue::default();
        let flood = costly(&mut queue, "flood", micros);
        let _flood = push(&mut queue, &flood, 4_000, Instant::now());
        queue.start(Duration::from_millis(1));
        for _ in 0..20 {
            let mut other = push(&mut queue, &key("other"), 1, Instant::now());
            queue.start(Duration::from_millis(1));
            queue.start(Duration::from_millis(1));
            assert_eq!(started(&mut other), 1, "{micros} µs");
        }
    }
}

#[test]
fn keys_share_the_time_and_not_the_number_of_requests() {
    let mut queue = FairQueue::default();
    let (heavy, light) = (costly(&mut queue, "heavy", 5_000), costly(&mut queue, "light", 100));
    let mut many = push(&mut queue, &heavy, 2_000, Instant::now());
    let mut lights = push(&mut queue, &light, 20_000, Instant::now());
    for _ in 0..1_000 {
        queue.start(Duration::from_millis(1));
    }
    let (heavies, lights) = (started(&mut many) * 5_000, started(&mut lights) * 100);
    assert!(heavies.abs_diff(lights) < heavies / 5, "{heavies} µs and {lights} µs");
}

#[test]
fn a_key_keeps_its_debt_when_its_queue_is_empty_for_a_moment() {
    let mut queue = FairQueue::default();
    let (heavy, light) = (costly(&mut queue, "heavy", 20_000), costly(&mut queue, "light", 100));
    let mut lights = push(&mut queue, &light, 20_000, Instant::now());
    let mut heavies = 0;
    let mut waiting = push(&mut queue, &heavy, 1, Instant::now());
    for _ in 0..1_000 {
        queue.start(Duration::from_millis(1));
        if started(&mut waiting) == 1 {
            heavies += 1;
            waiting = push(&mut queue, &heavy, 1, Instant::now());
        }
    }
    let lights = started(&mut lights) * 100;
    assert!(heavies * 20_000 < lights * 3 / 2, "{heavies} heavy ones beside {lights} µs");
}

#[test]
fn requests_of_a_key_start_in_their_order_and_those_that_go_on_before_new_ones() {
    let mut queue = FairQueue::default();
    let key = costly(&mut queue, "a", 1_100);
    let mut new = push(&mut queue, &key, 2, Instant::now());
    let (_, mut continued) = queue.push(&key, Stage::Continued, Instant::now());
    queue.start(Duration::from_millis(1));
    assert!(continued.try_recv().is_ok() && started(&mut new) == 0);
    queue.start(Duration::from_millis(1));
    assert!(new[0].try_recv().is_ok() && new[1].try_recv().is_err());
}

#[test]
fn only_requests_that_are_too_old_are_refused_and_first_those_of_the_largest_key() {
    let mut queue = FairQueue::default();
    let now = Instant::now();
    let (limit, later) = (now + Duration::from_millis(1), now + Duration::from_millis(2));
    let _receivers = [("few", 3, now), ("many", 9, now), ("young", 50, later)]
        .map(|(name, count, since)| push(&mut queue, &key(name), count, since));
    let (_, _continued) = queue.push(&key("few"), Stage::Continued, now);
    assert_eq!(queue.oldest_new(), Some(now));
    assert_eq!(queue.take_older(limit, 5).len(), 5);
    assert_eq!((queue.keys["many"].new.len(), queue.keys["few"].new.len()), (4, 3));
    assert_eq!(queue.take_older(limit, 100).len(), 7, "of both keys");
    assert_eq!(queue.len(), 51, "the young ones and the one that has started wait");
    assert_eq!((queue.oldest_new(), queue.oldest()), (Some(later), Some(now)));
    assert!(queue.take_older(limit, 100).is_empty());
}

#[test]
fn a_request_that_leaves_takes_its_place_along_and_nothing_grows_without_bound() {
    let mut queue = FairQueue::default();
    for number in 0..MAX_REMEMBERED * 3 {
        let key = key(&number.to_string());
        let (id, _receiver) = queue.push(&key, Stage::New, Instant::now());
        queue.remove(&key, id);
        queue.remove(&key, id);
    }
    assert_eq!((queue.len(), queue.keys.len(), queue.ring.len()), (0, 0, 0));
    assert!(queue.memory.len() <= MAX_REMEMBERED);
}

#[test]
fn requests_beyond_a_number_are_the_newest_of_the_largest_key() {
    let mut queue = FairQueue::default();
    let mut many = push(&mut queue, &key("many"), 9, Instant::now());
    let mut few = push(&mut queue, &key("few"), 3, Instant::now());
    assert!(queue.take_beyond(12, 5).is_empty(), "there are not more");
    for request in queue.take_beyond(8, 2) {
        request.decide(Verdict::Refused);
    }
    assert_eq!((started(&mut many[..7]), started(&mut many[7..]), started(&mut few)), (0, 2, 0));
    assert_eq!((queue.take_beyond(4, 100).len(), queue.len()), (6, 4));
    assert_eq!((queue.keys["many"].new.len(), queue.keys["few"].new.len()), (2, 2));
}

#[test]
fn one_of_eight_requests_of_each_key_is_measured() {
    let mut queue = FairQueue::default();
    let mut measured = [0, 0];
    // Seven of one key and one of the other, again and again.
    for round in 0..800 {
        let of_rare = round % 8 == 7;
        let mut waiting = push(&mut queue, &key(if of_rare { "rare" } else { "many" }), 1, Instant::now());
        while queue.len() > 0 {
            queue.start(Duration::from_millis(1));
        }
        let is_metered = waiting[0].try_recv() == Ok(Verdict::Started { is_metered: true });
        measured[usize::from(of_rare)] += usize::from(is_metered);
    }
    assert_eq!(measured, [88, 13], "of 700 and of 100");
}

#[test]
fn a_new_key_makes_one_other_forgotten_and_not_all() {
    let mut queue = FairQueue::default();
    for number in 0..MAX_REMEMBERED {
        costly(&mut queue, &number.to_string(), 5_000);
        queue.end_turn();
    }
    costly(&mut queue, "new", 5_000);
    let unknown: Vec<_> =
        (0..MAX_REMEMBERED).filter(|number| queue.cost(&key(&number.to_string())) == FIRST_COST).collect();
    assert_eq!(unknown, [0], "the one whose turn was longest ago");
}

#[test]
fn a_request_that_has_not_ended_makes_no_cost_lower() {
    let mut queue = FairQueue::default();
    let key = costly(&mut queue, "a", 1_000);
    let before = queue.cost(&key);
    queue.learn_at_least(&key, Duration::from_micros(10));
    assert_eq!(queue.cost(&key), before);
    queue.learn_at_least(&key, Duration::from_millis(20));
    assert_eq!(queue.cost(&key), (before * 3 + 20_000_000 + UNMETERED_COST) / 4);
}
