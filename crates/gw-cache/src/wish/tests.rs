//! Bodies and headers, and what they come to.

use proptest::prelude::*;

use super::*;

const TTL: Duration = Duration::from_secs(600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What a header makes of a request that reads and writes and takes what is ten minutes old: reads, writes, seconds.
fn asked(header: &str) -> (bool, bool, u64) {
    let wish = Wish::new(Mode::ReadWrite, TTL).with_cache_control(header.as_bytes());
    (wish.reads, wish.writes, wish.max_age.as_secs())
}

#[test]
fn reading_and_writing_are_switched_separately() {
    for (name, reads, writes) in [("read_write", true, true), ("read", true, false), ("write", false, true)] {
        assert!(Mode::NAMES.contains(&name));
        let wish = Wish::new(Mode::read(name).unwrap(), TTL);
        assert_eq!((wish.reads, wish.writes, wish.is_nothing()), (reads, writes, false));
    }
    for name in ["", "READ", "readwrite", "off"] {
        assert_eq!(Mode::read(name), None);
    }
    assert_eq!(Mode::default(), Mode::ReadWrite);
}

#[test]
fn a_header_asks_for_less_and_never_for_more() {
    for (header, expected) in [
        ("", (true, true, 600)),
        ("no-cache", (false, true, 600)),
        ("no-store", (false, false, 600)),
        ("No-Cache, NO-STORE", (false, false, 600)),
        ("max-age=60", (true, true, 60)),
        ("max-age=60, max-age=30", (true, true, 30)),
        ("max-age=6000", (true, true, 600)),
        ("max-age=0", (false, true, 0)),
        ("Max-Age=\"60\"", (true, true, 60)),
        (" , ,max-age=60 ,", (true, true, 60)),
        ("max-age=99999999999999999999999", (true, true, 600)),
    ] {
        assert_eq!(asked(header), expected, "{header}");
    }
    let wish = Wish::new(Mode::Read, TTL).with_cache_control(b"no-cache");
    assert!(wish.is_nothing());
    let lines =
        Wish::new(Mode::ReadWrite, TTL).with_cache_control(b"max-age=9").with_cache_control(b"no-cache");
    assert_eq!((lines.reads, lines.max_age), (false, seconds(9)));
}

#[test]
fn what_is_ill_formed_or_unknown_is_passed_over() {
    for header in [
        "max-age",
        "max-age=",
        "max-age=-1",
        "max-age=1.5",
        "max-age=x",
        "max-age =5",
        "max-age=\"5",
        "max-age= 5",
        "no-cachex",
        "xno-cache",
        "no_store",
        "only-if-cached, max-stale=5, min-fresh=7, no-transform",
        "private=\"no-store, max-age=1\"",
        "x=\"a\\\", no-store, \"",
        "\u{0}\u{ff}",
    ] {
        assert_eq!(asked(header), (true, true, 600), "{header:?}");
    }
    assert_eq!(asked("x=\"y\", no-store"), (false, false, 600));
}

#[test]
fn stale_answers_are_used_in_the_operators_window_and_in_the_requests() {
    let life = Life::new(0, seconds(60), seconds(100));
    let wish = Wish::new(Mode::ReadWrite, TTL);
    let at = |wish: &Wish, second: u64| wish.takes_stale(&life, second * 1000);
    assert!(at(&wish, 61) && at(&wish, 160) && !at(&wish, 161));
    let narrow = wish.with_cache_control(b"stale-if-error=20");
    assert!(at(&narrow, 80) && !at(&narrow, 81));
    assert!(at(&wish.with_cache_control(b"stale-if-error=20, stale-if-error=500"), 80));
    let young = wish.with_cache_control(b"max-age=10, stale-if-error=20");
    assert!(at(&young, 30) && !at(&young, 31), "counted from this reader's own bound");
    assert!(!at(&wish.with_cache_control(b"stale-if-error=0"), 61));
    assert!(!at(&wish.with_cache_control(b"no-cache"), 61), "who does not want to read does not");
    assert!(!at(&Wish::new(Mode::Write, TTL), 61));
    let no_window = Life::new(0, seconds(60), Duration::ZERO);
    assert!(!wish.takes_stale(&no_window, 61_000));
}

proptest! {
    #[test]
    fn any_header_is_read_and_asks_for_no_more(value in prop::collection::vec(any::<u8>(), 0..60)) {
        let wish = Wish::new(Mode::ReadWrite, TTL).with_cache_control(&value);
        prop_assert!(wish.max_age <= TTL);
    }
}
