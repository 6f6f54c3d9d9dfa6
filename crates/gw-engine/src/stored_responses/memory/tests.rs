//! The shares of keys, and turns that others continue.

use super::*;
use crate::stored_responses::stored_response::TurnFacts;

fn response(bytes: usize, parent: Option<&str>) -> Arc<StoredResponse> {
    let turn = TurnFacts { parent: parent.map(str::to_owned), ..TurnFacts::default() };
    let expires_at = unix_seconds() + 60;
    Arc::new(StoredResponse {
        document: vec![b' '; bytes].into(),
        turn,
        expires_at,
        ..StoredResponse::default()
    })
}

fn ids(memory: &MemoryResponses, owner: &str, all: &[&str]) -> Vec<String> {
    all.iter().filter(|id| memory.get(owner, id).is_some()).map(|id| (*id).to_owned()).collect()
}

impl MemoryResponses {
    fn keep(&self, owner: &str, id: &str, bytes: usize, parent: Option<&str>) -> Kept {
        self.put(owner, id, response(bytes, parent), vec![format!("item of {id}")], ResponseWrite::Save)
    }

    /// The bytes that the entries hold, which must be the ones that were counted.
    fn bytes(&self) -> u64 {
        let state = self.state.lock();
        let all: u64 = state.entries.values().map(|entry| entry.bytes).sum();
        assert_eq!(all, state.bytes);
        assert_eq!(all, state.owners.values().map(|own| own.bytes).sum::<u64>());
        assert_eq!(state.by_bytes.len(), state.owners.len());
        let running = state.entries.values().filter(|entry| entry.is_running);
        assert_eq!(running.map(|entry| entry.bytes).sum::<u64>(), state.running_bytes);
        assert_eq!(state.owners.values().map(|own| own.running_bytes).sum::<u64>(), state.running_bytes);
        let leaves: usize = state.owners.values().map(|own| own.leaves.len()).sum();
        assert_eq!(leaves, state.entries.values().filter(|entry| entry.children == 0).count());
        all
    }
}

#[test]
fn the_largest_holder_leaves_first() {
    let memory = MemoryResponses::new(64 << 20, u64::MAX);
    let small: Vec<String> = (0..50).map(|at| format!("resp_{at}")).collect();
    for id in &small {
        assert_eq!(memory.keep("b", id, 1000, None), Kept::Stored);
    }
    for at in 0..40 {
        assert_eq!(memory.keep("a", &format!("resp_{at}"), 3 << 20, None), Kept::Stored);
    }
    let small: Vec<&str> = small.iter().map(String::as_str).collect();
    assert_eq!(ids(&memory, "b", &small).len(), 50, "nobody else's responses leave");
    assert_eq!(ids(&memory, "a", &["resp_0", "resp_18", "resp_19", "resp_39"]), ["resp_19", "resp_39"]);
    assert!(memory.bytes() <= 64 << 20);
}

#[test]
fn a_response_as_large_as_the_store_is_kept_and_a_larger_one_is_told() {
    let memory = MemoryResponses::new(1 << 20, u64::MAX);
    assert_eq!(memory.keep("a", "resp_1", (1 << 20) - 1000, None), Kept::Stored);
    assert_eq!(memory.keep("b", "resp_2", 1 << 20, None), Kept::TooLarge);
    assert!(memory.get("a", "resp_1").is_some());
    // Together they are too large: the one of the largest holder leaves.
    assert_eq!(memory.keep("b", "resp_3", 1000, None), Kept::Stored);
    assert!(memory.get("a", "resp_1").is_none());
    let shared = MemoryResponses::new(1 << 20, 10_000);
    for id in ["resp_1", "resp_2", "resp_3"] {
        assert_eq!(shared.keep("a", id, 4000, None), Kept::Stored);
    }
    assert_eq!(
        ids(&shared, "a", &["resp_1", "resp_2", "resp_3"]),
        ["resp_2", "resp_3"],
        "a bound of its own"
    );
}

#[test]
fn a_conversation_leaves_from_its_end_and_a_response_that_runs_stays() {
    let memory = MemoryResponses::new(100_000, u64::MAX);
    let chain: [(&str, Option<&str>); 3] =
        [("resp_1", None), ("resp_2", Some("resp_1")), ("resp_3", Some("resp_2"))];
    for (id, parent) in chain {
        assert_eq!(memory.keep("a", id, 20_000, parent), Kept::Stored);
    }
    assert_eq!(memory.chain("a", "resp_3", 9).len(), 3);
    assert_eq!(
        memory.put("a", "resp_run", response(20_000, None), Vec::new(), ResponseWrite::Begin),
        Kept::Stored
    );
    // The conversation that was continued longest ago gives up its last turn first.
    assert_eq!(memory.keep("a", "resp_4", 20_000, None), Kept::Stored);
    assert_eq!(ids(&memory, "a", &["resp_1", "resp_2", "resp_3", "resp_run", "resp_4"]).len(), 4);
    assert!(memory.get("a", "resp_3").is_none());
    assert_eq!(memory.keep("a", "resp_5", 70_000, None), Kept::Stored);
    assert_eq!(
        ids(&memory, "a", &["resp_1", "resp_2", "resp_4", "resp_run", "resp_5"]),
        ["resp_run", "resp_5"]
    );
    assert_eq!(memory.keep("a", "resp_6", 90_000, None), Kept::TooLarge, "the running one stays");
    memory.bytes();
}

impl MemoryResponses {
    fn begin(&self, owner: &str, id: &str, bytes: usize, parent: Option<&str>) -> Kept {
        self.put(owner, id, response(bytes, parent), Vec::new(), ResponseWrite::Begin)
    }

    fn finish(&self, owner: &str, id: &str, bytes: usize, parent: Option<&str>) -> Kept {
        self.put(owner, id, response(bytes, parent), Vec::new(), ResponseWrite::Finish)
    }
}

#[test]
fn an_end_without_room_leaves_the_response_running_and_its_failure_finds_room() {
    let memory = MemoryResponses::new(100_000, u64::MAX);
    assert_eq!(memory.keep("a", "resp_1", 60_000, None), Kept::Stored);
    assert_eq!(memory.begin("a", "resp_2", 30_000, Some("resp_1")), Kept::Stored);
    // The end is too large beside the conversation that it continues, which must stay.
    assert_eq!(memory.finish("a", "resp_2", 60_000, Some("resp_1")), Kept::TooLarge);
    assert_eq!(memory.get("a", "resp_2").unwrap().bytes(), 30_000);
    assert_eq!(memory.finish("a", "resp_2", 32_000, Some("resp_1")), Kept::Stored, "the failure");
    assert_eq!(memory.finish("a", "resp_2", 1, Some("resp_1")), Kept::Ended);
    memory.bytes();
    // A beginning without room for its failure is refused.
    let memory = MemoryResponses::new(u64::MAX, 100_000);
    assert_eq!(memory.begin("a", "resp_3", 99_000, None), Kept::TooLarge);
    assert_eq!(memory.begin("a", "resp_3", 97_000, None), Kept::Stored);
    assert_eq!(memory.finish("a", "resp_3", 99_000, None), Kept::Stored);
    memory.bytes();
}

#[test]
fn running_responses_of_a_key_hold_half_of_what_those_of_others_leave() {
    let memory = MemoryResponses::new(100_000, u64::MAX);
    assert_eq!(memory.keep("b", "resp_0", 10_000, None), Kept::Stored);
    assert_eq!(memory.begin("a", "resp_1", 30_000, None), Kept::Stored);
    assert_eq!(memory.begin("a", "resp_2", 30_000, None), Kept::OverShare);
    assert_eq!(memory.begin("b", "resp_3", 20_000, None), Kept::Stored);
    assert_eq!(memory.begin("a", "resp_4", 10_000, None), Kept::OverShare, "others came");
    assert!(memory.get("b", "resp_0").is_some());
    assert_eq!(memory.finish("b", "resp_3", 20_000, None), Kept::Stored);
    assert_eq!(memory.begin("a", "resp_5", 10_000, None), Kept::Stored);
    assert!(memory.remove("a", "resp_1"));
    assert_eq!(memory.begin("a", "resp_6", 30_000, None), Kept::Stored);
    memory.bytes();
}

#[test]
fn the_only_running_response_of_a_key_may_be_larger_than_its_share() {
    let memory = MemoryResponses::new(100_000, u64::MAX);
    assert_eq!(memory.begin("a", "resp_1", 60_000, None), Kept::Stored);
    assert_eq!(memory.begin("a", "resp_2", 1000, None), Kept::OverShare);
    assert_eq!(memory.begin("b", "resp_3", 60_000, None), Kept::OverShare, "there is no room");
    assert_eq!(memory.begin("b", "resp_4", 30_000, None), Kept::Stored);
    memory.bytes();
}

#[test]
fn an_upstream_that_repeats_its_ids_makes_no_circle() {
    let memory = MemoryResponses::new(1 << 20, u64::MAX);
    for (id, parent) in [("resp_a", None), ("resp_b", Some("resp_a")), ("resp_c", Some("resp_b"))] {
        assert_eq!(memory.keep("a", id, 100, parent), Kept::Stored);
    }
    for parent in ["resp_a", "resp_b", "resp_c"] {
        assert_eq!(memory.keep("a", "resp_a", 100, Some(parent)), Kept::ParentGone);
    }
    assert_eq!(memory.keep("a", "resp_a", 100, None), Kept::Stored, "with its history");
    // The id of another conversation's response is none of this one.
    assert_eq!(memory.keep("a", "resp_d", 100, None), Kept::Stored);
    assert_eq!(memory.keep("a", "resp_d", 100, Some("resp_c")), Kept::Stored);
    memory.bytes();
    assert!(["resp_a", "resp_b", "resp_c", "resp_d"].iter().all(|id| memory.remove("a", id)));
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn a_parent_that_has_expired_is_gone_before_its_child_is_stored() {
    let memory = MemoryResponses::new(100_000, u64::MAX);
    let expired = Arc::new(StoredResponse { expires_at: 1, ..StoredResponse::clone(&response(10, None)) });
    assert_eq!(memory.put("a", "resp_1", expired, Vec::new(), ResponseWrite::Save), Kept::Stored);
    assert_eq!(memory.keep("a", "resp_2", 10, Some("resp_1")), Kept::ParentGone);
    memory.bytes();
}

#[test]
fn a_deleted_turn_is_kept_for_those_that_continue_it_alone() {
    let memory = MemoryResponses::new(1 << 20, u64::MAX);
    memory.keep("a", "resp_1", 100, None);
    memory.keep("a", "resp_2", 100, Some("resp_1"));
    assert!(memory.remove("a", "resp_1"));
    assert!(!memory.remove("a", "resp_1"));
    assert!(memory.get("a", "resp_1").is_none() && memory.chain("a", "resp_1", 9).is_empty());
    assert_eq!(memory.chain("a", "resp_2", 9).len(), 2);
    assert_eq!(memory.chain("a", "resp_2", 1).len(), 1);
    assert_eq!(memory.responses_of_items("a", &["item of resp_2".to_owned()]), ["resp_2"]);
    // The end of the background response replaces its beginning, and keeps those that continue it.
    assert_eq!(memory.keep("a", "resp_2", 300, Some("resp_1")), Kept::Stored);
    memory.bytes();
    assert!(memory.remove("a", "resp_2"));
    assert_eq!(memory.bytes(), 0);
    assert_eq!(memory.keep("a", "resp_3", 100, Some("resp_2")), Kept::ParentGone);
    assert!(memory.responses_of_items("a", &["item of resp_2".to_owned()]).is_empty());
}
