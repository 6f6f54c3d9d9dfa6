//! Bounds, purges and ages. How much memory it really takes is measured in `tests/memory.rs`, in a process of its own.

use std::time::Duration;

use super::*;
use crate::doubles::{NOW, answer, key};
use crate::{Life, Scope};

const MIB: u64 = 1 << 20;

fn put(memory: &Memory, name: &str, stored: Stored) -> bool {
    memory.put(key(name), Arc::new(stored), memory.stamp())
}

fn said(memory: &Memory, name: &str, now_ms: u64) -> Option<String> {
    let stored = memory.get(&key(name), now_ms)?;
    Some(String::from_utf8(stored.body.to_vec()).unwrap())
}

#[test]
fn an_answer_is_found_under_its_key_until_it_is_too_old_to_keep() {
    let memory = Memory::new(MIB);
    assert!(put(&memory, "a", answer("A")));
    assert_eq!(said(&memory, "a", NOW).as_deref(), Some("A"));
    assert_eq!(said(&memory, "b", NOW), None);
    assert_eq!(said(&memory, "a", NOW + 60_000).as_deref(), Some("A"));
    assert_eq!(said(&memory, "a", NOW + 60_001), None);
    assert_eq!((memory.entries(), memory.bytes()), (0, 0), "found too old, it is gone");
    let life = Life::new(NOW, Duration::from_secs(60), Duration::from_secs(10));
    assert!(put(&memory, "a", Stored { life, ..answer("A") }));
    assert!(said(&memory, "a", NOW + 70_000).is_some(), "kept for when nothing else answers");
    assert!(said(&memory, "a", NOW + 70_001).is_none());
}

#[test]
fn a_later_answer_takes_the_earlier_ones_place() {
    let memory = Memory::new(MIB);
    put(&memory, "a", answer("A"));
    put(&memory, "a", answer("B"));
    assert_eq!(said(&memory, "a", NOW).as_deref(), Some("B"));
    assert_eq!(memory.entries(), 1);
}

#[test]
fn a_purge_voids_what_it_concerns_and_nothing_else() {
    let other = Scope::Key(Arc::from("key_2"));
    let team = Scope::Team(Arc::from("key_1"));
    let fill = |memory: &Memory| {
        put(memory, "plain", answer("plain"));
        put(memory, "scope", Stored { scope: other.clone(), ..answer("scope") });
        put(memory, "team", Stored { scope: team.clone(), ..answer("team") });
        put(memory, "asked", Stored { model: Arc::from("alias"), ..answer("asked") });
        put(memory, "used", Stored { model_used: Arc::from("q/m"), ..answer("used") });
    };
    let left = |memory: &Memory| {
        let all = ["plain", "scope", "team", "asked", "used"];
        all.into_iter().filter(|name| said(memory, name, NOW).is_some()).collect::<Vec<_>>()
    };
    for (purge, expected) in [
        (Purge::All, &[][..]),
        (Purge::Scope(other.clone()), &["plain", "team", "asked", "used"]),
        (Purge::Scope(team.clone()), &["plain", "scope", "asked", "used"]),
        (Purge::Scope(crate::doubles::scope()), &["scope", "team"]),
        (Purge::Model(Arc::from("alias")), &["plain", "scope", "team", "used"]),
        (Purge::Model(Arc::from("q/m")), &["plain", "scope", "team", "asked"]),
        (Purge::Model(Arc::from("nobody")), &["plain", "scope", "team", "asked", "used"]),
    ] {
        let memory = Memory::new(MIB);
        fill(&memory);
        memory.purge(&purge);
        assert_eq!(left(&memory), expected, "{purge:?}");
        assert_eq!(memory.entries(), expected.len() as u64, "{purge:?}");
        fill(&memory);
        assert_eq!(left(&memory).len(), 5, "stored after {purge:?}");
    }
}

#[test]
fn what_was_under_way_when_it_was_purged_is_not_stored() {
    let memory = Memory::new(MIB);
    let before = memory.stamp();
    memory.purge(&Purge::Model(Arc::from("m")));
    assert!(!memory.put(key("a"), Arc::new(answer("A")), before));
    let elsewhere = Stored { model: Arc::from("n"), ..answer("B") };
    assert!(memory.put(key("b"), Arc::new(elsewhere), before), "another model's is");
    assert!(memory.put(key("a"), Arc::new(answer("A")), memory.stamp()));
    assert!(said(&memory, "a", NOW).is_some());
}

#[test]
fn purges_of_more_names_than_are_remembered_purge_more_not_less() {
    let memory = Memory::new(MIB);
    put(&memory, "a", answer("A"));
    for n in 0..5000 {
        memory.purge(&Purge::Model(Arc::from(format!("other-{n}"))));
    }
    memory.purge(&Purge::Scope(crate::doubles::scope()));
    assert_eq!(said(&memory, "a", NOW), None);
    assert!(put(&memory, "a", answer("A")));
    assert!(said(&memory, "a", NOW).is_some());
}

#[test]
fn what_is_kept_is_bounded_whatever_its_size() {
    for max_bytes in [MIB, 16 * MIB] {
        let memory = Memory::new(max_bytes);
        let mut put_bytes = 0;
        for (n, size) in [0, 100, 5_000, 60_000].into_iter().cycle().enumerate().take(8_000) {
            let stored = answer(&"x".repeat(size));
            put_bytes += stored.size();
            put(&memory, &n.to_string(), stored);
            assert!(memory.bytes() <= max_bytes, "{} of {max_bytes}", memory.bytes());
        }
        assert!(put_bytes > 4 * max_bytes);
        assert!(memory.bytes() > max_bytes / 2, "{} of {max_bytes}", memory.bytes());
    }
}

#[test]
fn one_answer_does_not_drive_out_all_others() {
    let memory = Memory::new(8 * MIB);
    put(&memory, "a", answer("A"));
    assert!(!put(&memory, "large", answer(&"x".repeat(3 << 20))));
    assert!(said(&memory, "a", NOW).is_some() && said(&memory, "large", NOW).is_none());
}
