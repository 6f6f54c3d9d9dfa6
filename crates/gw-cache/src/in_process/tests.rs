//! Bounds, purges and ages. `tests/memory.rs` measures the real memory in a process of its own.

use std::time::Duration;

use super::*;
use crate::doubles::{NOW, answer, key};
use crate::{Lifetime, Scope};

const MIB: u64 = 1 << 20;

fn put(store: &InProcessStore, name: &str, stored: Stored) -> bool {
    store.put(key(name), Arc::new(stored), store.stamp())
}

fn body_of(store: &InProcessStore, name: &str, now_ms: u64) -> Option<String> {
    let stored = store.get(&key(name), now_ms)?;
    Some(String::from_utf8(stored.body.to_vec()).unwrap())
}

#[test]
fn an_answer_is_found_under_its_key_until_it_expires() {
    let store = InProcessStore::new(MIB);
    assert!(put(&store, "a", answer("A")));
    assert_eq!(body_of(&store, "a", NOW).as_deref(), Some("A"));
    assert_eq!(body_of(&store, "b", NOW), None);
    assert_eq!(body_of(&store, "a", NOW + 60_000).as_deref(), Some("A"));
    assert_eq!(body_of(&store, "a", NOW + 60_001), None);
    assert_eq!((store.entries(), store.bytes()), (0, 0), "the lookup removed the expired answer");
    let lifetime = Lifetime::new(NOW, Duration::from_secs(60), Duration::from_secs(10));
    assert!(put(&store, "a", Stored { lifetime, ..answer("A") }));
    assert!(body_of(&store, "a", NOW + 70_000).is_some(), "kept to stand in for errors");
    assert!(body_of(&store, "a", NOW + 70_001).is_none());
}

#[test]
fn a_later_answer_replaces_an_earlier_one() {
    let store = InProcessStore::new(MIB);
    put(&store, "a", answer("A"));
    put(&store, "a", answer("B"));
    assert_eq!(body_of(&store, "a", NOW).as_deref(), Some("B"));
    assert_eq!(store.entries(), 1);
}

#[test]
fn a_purge_voids_what_it_concerns_and_nothing_else() {
    let other = Scope::Key(Arc::from("key_2"));
    let team = Scope::Team(Arc::from("key_1"));
    let fill = |store: &InProcessStore| {
        put(store, "plain", answer("plain"));
        put(store, "scope", Stored { scope: other.clone(), ..answer("scope") });
        put(store, "team", Stored { scope: team.clone(), ..answer("team") });
        put(store, "asked", Stored { model: Arc::from("alias"), ..answer("asked") });
        put(store, "used", Stored { model_used: Arc::from("q/m"), ..answer("used") });
    };
    let left = |store: &InProcessStore| {
        let all = ["plain", "scope", "team", "asked", "used"];
        all.into_iter().filter(|name| body_of(store, name, NOW).is_some()).collect::<Vec<_>>()
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
        let store = InProcessStore::new(MIB);
        fill(&store);
        store.purge(&purge);
        assert_eq!(left(&store), expected, "{purge:?}");
        assert_eq!(store.entries(), expected.len() as u64, "{purge:?}");
        fill(&store);
        assert_eq!(left(&store).len(), 5, "stored after {purge:?}");
    }
}

#[test]
fn an_answer_whose_call_began_before_a_purge_is_not_stored() {
    let store = InProcessStore::new(MIB);
    let before = store.stamp();
    store.purge(&Purge::Model(Arc::from("m")));
    assert!(!store.put(key("a"), Arc::new(answer("A")), before));
    let elsewhere = Stored { model: Arc::from("n"), ..answer("B") };
    assert!(store.put(key("b"), Arc::new(elsewhere), before), "the purge does not concern the other model");
    assert!(store.put(key("a"), Arc::new(answer("A")), store.stamp()));
    assert!(body_of(&store, "a", NOW).is_some());
}

#[test]
fn purges_of_too_many_names_purge_more_and_never_less() {
    let store = InProcessStore::new(MIB);
    put(&store, "a", answer("A"));
    for n in 0..5000 {
        store.purge(&Purge::Model(Arc::from(format!("other-{n}"))));
    }
    store.purge(&Purge::Scope(crate::doubles::scope()));
    assert_eq!(body_of(&store, "a", NOW), None);
    assert!(put(&store, "a", answer("A")));
    assert!(body_of(&store, "a", NOW).is_some());
}

#[test]
fn the_memory_is_bounded_for_answers_of_any_size() {
    for max_bytes in [MIB, 16 * MIB] {
        let store = InProcessStore::new(max_bytes);
        let mut put_bytes = 0;
        for (n, size) in [0, 100, 5_000, 60_000].into_iter().cycle().enumerate().take(8_000) {
            let stored = answer(&"x".repeat(size));
            put_bytes += stored.size_bytes();
            put(&store, &n.to_string(), stored);
            assert!(store.bytes() <= max_bytes, "{} of {max_bytes}", store.bytes());
        }
        assert!(put_bytes > 4 * max_bytes);
        assert!(store.bytes() > max_bytes / 2, "{} of {max_bytes}", store.bytes());
    }
}

#[test]
fn a_large_answer_does_not_evict_all_others() {
    let store = InProcessStore::new(8 * MIB);
    put(&store, "a", answer("A"));
    assert!(!put(&store, "large", answer(&"x".repeat(3 << 20))));
    assert!(body_of(&store, "a", NOW).is_some() && body_of(&store, "large", NOW).is_none());
}

fn scoped(name: &str, text: &str) -> Stored {
    Stored { scope: Scope::Key(Arc::from(name)), ..answer(text) }
}

#[test]
fn c36_one_scopes_flood_takes_no_answer_of_another_scope() {
    for max_bytes in [MIB, 16 * MIB] {
        let store = InProcessStore::new(max_bytes);
        let text = "x".repeat(1000);
        let flood = 4 * max_bytes / 1000;
        for n in 0..flood {
            put(&store, &format!("loud-{n}"), scoped("loud", &text));
        }
        assert!(store.bytes() > max_bytes * 9 / 10, "a scope alone has all: {}", store.bytes());
        for n in 0..100 {
            put(&store, &format!("quiet-{n}"), scoped("quiet", &text));
        }
        for n in 0..flood {
            put(&store, &format!("again-{n}"), scoped("loud", &text));
            assert!(store.bytes() <= max_bytes);
        }
        let left = (0..100).filter(|n| body_of(&store, &format!("quiet-{n}"), NOW).is_some()).count();
        assert_eq!((left, store.shares.lock().all()), (100, store.bytes()), "{max_bytes}");
        // Nor does a second flood take more than the share of the first.
        for n in 0..flood {
            put(&store, &format!("third-{n}"), scoped("third", &text));
        }
        let kept =
            (0..flood).filter(|n| body_of(&store, &format!("again-{n}"), NOW).is_some()).count() as u64;
        assert!(kept * 1000 > max_bytes / 8, "{kept} of {max_bytes}");
        let left = (0..100).filter(|n| body_of(&store, &format!("quiet-{n}"), NOW).is_some()).count();
        assert_eq!((left, store.shares.lock().all()), (100, store.bytes()), "{max_bytes}");
    }
}

#[test]
fn expired_answers_of_idle_scopes_make_room_first() {
    let store = InProcessStore::new(MIB);
    let text = "x".repeat(1000);
    for n in 0..1000 {
        put(&store, &format!("idle-{n}"), scoped(&format!("idle-{}", n % 50), &text));
    }
    let later = NOW + 3_600_000;
    assert_eq!(body_of(&store, "nothing", later), None);
    let lifetime = Lifetime::new(later, Duration::from_secs(60), Duration::ZERO);
    for n in 0..1000 {
        put(&store, &format!("busy-{n}"), Stored { lifetime, ..scoped("busy", &text) });
    }
    let kept = (0..1000).filter(|n| body_of(&store, &format!("busy-{n}"), later).is_some()).count() as u64;
    // Most of the memory, of which the text is a part. A share would be a fiftieth.
    assert!(kept * 1000 > MIB * 2 / 5, "{kept}");
    assert_eq!(store.shares.lock().all(), store.bytes());
}

#[test]
fn what_was_read_stays_longer_than_what_was_not() {
    let store = InProcessStore::new(MIB);
    let text = "x".repeat(1000);
    put(&store, "other", scoped("other", &text));
    for n in 0..400 {
        put(&store, &format!("a-{n}"), answer(&text));
    }
    let read: Vec<String> = (0..50).map(|n| format!("a-{n}")).collect();
    assert!(read.iter().all(|name| body_of(&store, name, NOW).is_some()));
    // Fewer new answers than unread old ones.
    for n in 400..700 {
        put(&store, &format!("a-{n}"), answer(&text));
    }
    let left = read.iter().filter(|name| body_of(&store, name, NOW).is_some()).count();
    assert_eq!(left, 50, "the unread ones leave");
}

#[test]
fn every_way_out_of_the_table_is_counted() {
    let store = InProcessStore::new(MIB);
    for round in 0..3_000_u64 {
        let (name, size) = (format!("{}", round % 700), (round * 37 % 5_000) as usize);
        put(&store, &name, scoped(&format!("s{}", round % 3), &"x".repeat(size)));
        if round % 5 == 0 {
            store.get(&key(&format!("{}", round % 311)), NOW + (round % 2) * 120_000);
        }
        if round == 2_000 {
            store.purge(&Purge::All);
        }
        assert_eq!(store.shares.lock().all(), store.bytes(), "{round}");
    }
}
