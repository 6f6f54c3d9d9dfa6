//! Sums of spending, read from rows.

use super::{Period, PeriodLength};

/// 2026-11-21T09:38:16Z, a Saturday.
const NOW: i64 = 1_795_253_896;

#[test]
fn periods_begin_and_end_at_midnight_utc() {
    let day = 86_400;
    let midnight = NOW - NOW % day;
    assert_eq!(Period::Day.around(NOW), (midnight, midnight + day));
    assert_eq!(Period::Week.around(NOW), (midnight - 5 * day, midnight + 2 * day));
    assert_eq!(Period::Month.around(NOW), (midnight - 20 * day, midnight + 10 * day));
    assert_eq!(Period::Total.around(NOW), (i64::MIN, i64::MAX));
}

#[test]
fn quarters_begin_in_january_april_july_and_october() {
    let second = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
    for (at, start, end) in [
        ("2026-12-31T23:59:59Z", "2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-04-01T00:00:00Z"),
        ("2027-06-30T23:59:59Z", "2027-04-01T00:00:00Z", "2027-07-01T00:00:00Z"),
        ("2027-07-01T00:00:00Z", "2027-07-01T00:00:00Z", "2027-10-01T00:00:00Z"),
        // The first quarter of a leap year has 91 days.
        ("2028-02-29T12:00:00Z", "2028-01-01T00:00:00Z", "2028-04-01T00:00:00Z"),
        ("1969-12-31T23:59:59Z", "1969-10-01T00:00:00Z", "1970-01-01T00:00:00Z"),
    ] {
        assert_eq!(Period::Quarter.around(second(at)), (second(start), second(end)), "{at}");
    }
}

#[test]
fn a_rolling_period_holds_its_days_and_at_most_a_step_more() {
    let day = 86_400;
    for (name, days) in [("1d", 1), ("7d", 7), ("30d", 30), ("90d", 90), ("366d", 366)] {
        let period = Period::parse(name).unwrap();
        assert_eq!(period.as_str(), name);
        let step = days * 3600;
        let mut at = NOW - 3 * step;
        while at < NOW {
            let (start, end) = period.around(at);
            assert!(start <= at - days * day && at - days * day - start < step, "{name} at {at}");
            assert!(at < end && end - at <= step && start % 3600 == 0, "{name} at {at}");
            assert_eq!(period.around(end), (start + step, end + step), "{name} at {at}");
            at += 1_800;
        }
    }
    for name in ["0d", "367d", "030d", "+3d", "d", "30", "-1d", "1.5d", "30D", "99999d", ""] {
        assert_eq!(Period::parse(name), None, "{name}");
    }
    for days in 1..=366 {
        let name = format!("{days}d");
        assert_eq!(Period::parse(&name).map(Period::as_str), Some(name.as_str()));
    }
}

#[test]
fn a_short_window_leaves_at_most_a_tenth_late() {
    for name in ["10s", "11s", "25s", "47s", "49s", "90s", "1m", "9999s", "45m", "1h", "36h", "8784h"] {
        assert_eq!(Period::parse(name), None, "a key has no window of {name}");
        let period = Period::parse_any(name).unwrap();
        assert_eq!(period.as_str(), name);
        let Period::Rolling(window) = period else { panic!("{name}") };
        let (length, step) = (window.seconds(), period.step().unwrap());
        for at in (NOW - 3 * step..NOW).step_by((step / 7).max(1) as usize) {
            let (start, end) = period.around(at);
            // Spending of the moment `start` leaves at `end`.
            assert!(end - start - length <= length / 10 + step, "{name} at {at}");
            assert!(start <= at - length && at < end && end - at <= step, "{name} at {at}");
            // What was spent in the first step of the window is at most so old.
            assert!(at - start <= length + length / 10, "{name} at {at}: {start}");
            assert_eq!(period.around(end), (start + step, end + step), "{name} at {at}");
        }
    }
    for name in ["9s", "0m", "8785h", "010s", "10S", "10", "s", "1.5h", "99999s", "10 s", "ü"] {
        assert_eq!(Period::parse_any(name), None, "{name}");
    }
}

#[test]
fn a_period_includes_its_first_moment() {
    for period in Period::ALL.into_iter().filter(|period| period.length() != PeriodLength::Endless) {
        let (start, end) = period.around(NOW);
        assert_eq!(period.around(start), (start, end), "{period:?}");
        assert_eq!(period.around(end - 1), (start, end), "{period:?}");
        assert_eq!(period.around(end).0, end, "{period:?}");
        assert_eq!(period.around(start - 1).1, start, "{period:?}");
    }
    // A leap day: 2028-02-29T12:00:00Z.
    let (start, end) = Period::Month.around(1_835_438_400);
    assert_eq!((end - start) / 86_400, 29);
}

#[test]
fn a_window_of_more_than_four_digits_has_the_name_of_a_larger_unit() {
    for (name, window) in [
        ("86400s", "1d"),
        ("90000s", "25h"),
        ("10020s", "167m"),
        ("43200m", "30d"),
        ("31622400s", "366d"),
        ("527040m", "366d"),
    ] {
        assert_eq!(Period::parse_any(name).map(Period::as_str), Some(window), "{name}");
    }
    for name in
        ["86401s", "31622460s", "086400s", "+86400s", "99999h", "10000d", "4294967296s", "8641000001s"]
    {
        assert_eq!(Period::parse_any(name), None, "{name}");
    }
}
