//! The directives of bodies and headers.

use proptest::prelude::*;

use super::*;

const TTL: Duration = Duration::from_secs(600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The effect of a header on a request that reads, writes and takes answers of ten minutes: whether it reads, whether
/// it writes, and the seconds.
fn asked(header: &str) -> (bool, bool, u64) {
    let directives = CacheDirectives::new(Mode::ReadWrite, TTL).with_cache_control(header.as_bytes());
    (directives.can_read, directives.can_write, directives.max_age.as_secs())
}

#[test]
fn reading_and_writing_are_separate() {
    for (name, reads, writes) in [("read_write", true, true), ("read", true, false), ("write", false, true)] {
        assert!(Mode::NAMES.contains(&name));
        let directives = CacheDirectives::new(Mode::parse(name).unwrap(), TTL);
        assert_eq!(
            (directives.can_read, directives.can_write, directives.is_bypass()),
            (reads, writes, false)
        );
    }
    for name in ["", "READ", "readwrite", "off"] {
        assert_eq!(Mode::parse(name), None);
    }
    assert_eq!(Mode::default(), Mode::ReadWrite);
}

#[test]
fn a_header_only_restricts() {
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
    let directives = CacheDirectives::new(Mode::Read, TTL).with_cache_control(b"no-cache");
    assert!(directives.is_bypass());
    let lines = CacheDirectives::new(Mode::ReadWrite, TTL)
        .with_cache_control(b"max-age=9")
        .with_cache_control(b"no-cache");
    assert_eq!((lines.can_read, lines.max_age), (false, seconds(9)));
}

#[test]
fn malformed_and_unknown_directives_are_ignored() {
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
fn a_stale_answer_needs_the_window_of_the_operator_and_of_the_request() {
    let lifetime = Lifetime::new(0, seconds(60), seconds(100));
    let directives = CacheDirectives::new(Mode::ReadWrite, TTL);
    let at = |directives: &CacheDirectives, second: u64| directives.can_use_stale(&lifetime, second * 1000);
    assert!(at(&directives, 61) && at(&directives, 160) && !at(&directives, 161));
    let narrow = directives.with_cache_control(b"stale-if-error=20");
    assert!(at(&narrow, 80) && !at(&narrow, 81));
    assert!(at(&directives.with_cache_control(b"stale-if-error=20, stale-if-error=500"), 80));
    let young = directives.with_cache_control(b"max-age=10, stale-if-error=20");
    assert!(at(&young, 30) && !at(&young, 31), "counted from the max_age of the request");
    assert!(!at(&directives.with_cache_control(b"stale-if-error=0"), 61));
    assert!(!at(&directives.with_cache_control(b"no-cache"), 61), "the request does not read");
    assert!(!at(&CacheDirectives::new(Mode::Write, TTL), 61));
    let no_window = Lifetime::new(0, seconds(60), Duration::ZERO);
    assert!(!directives.can_use_stale(&no_window, 61_000));
}

proptest! {
    #[test]
    fn arbitrary_headers_never_extend_the_max_age(value in prop::collection::vec(any::<u8>(), 0..60)) {
        let directives = CacheDirectives::new(Mode::ReadWrite, TTL).with_cache_control(&value);
        prop_assert!(directives.max_age <= TTL);
    }
}
