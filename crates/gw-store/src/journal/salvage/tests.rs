//! Whatever bytes of a segment are damaged, the records beside them are found.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::super::INTERRUPTED;
use super::{BAD_BLOCK, Damage, Requests, read};
use crate::ledger::{Attempt, Entry, Line};

fn entry(n: u64) -> Entry {
    Entry {
        request_id: format!("req_{n:05}").into(),
        key_name: "a key".into(),
        status: "ok".into(),
        cost: 77,
        attempts: vec![Attempt {
            provider: "acme".into(),
            model: "acme/fast".into(),
            status: "ok".into(),
            latency_ms: 7,
            cost: Some(77),
            started_ms: 0,
            image_fetch_ms: 0,
            known_part: 0,
            reason: Some("a [\"reason\"] E[\"".to_owned()),
        }],
        ..Entry::default()
    }
}

/// The outcome line of a request, without its line break.
fn line(n: u64) -> String {
    Line::new(entry(n)).journal_line().trim_start().to_owned()
}

fn lines(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(|n| format!("\n{}", line(n))).collect()
}

/// The ids of the found records, and the damage.
fn found(bytes: &[u8]) -> (BTreeMap<Arc<str>, Entry>, (u64, u64)) {
    let mut requests = Requests::default();
    let Damage { regions, bytes, .. } = read(Cursor::new(bytes), bytes.len() as u64, &mut requests);
    let entries = requests.into_entries().map(|entry| (entry.request_id.clone(), entry)).collect();
    (entries, (regions, bytes))
}

#[track_caller]
fn assert_found(bytes: &[u8], numbers: impl IntoIterator<Item = u64>, damage: (u64, u64)) {
    let wanted: BTreeMap<_, _> =
        numbers.into_iter().map(|n| (entry(n).request_id, Line::new(entry(n)))).collect();
    let (entries, counted) = found(bytes);
    assert!(entries.keys().eq(wanted.keys()), "{entries:?}");
    assert!(entries.values().all(|entry| entry.cost == 77 && entry.status == "ok"), "{entries:?}");
    assert_eq!(counted, damage);
}

#[test]
fn a_damaged_byte_harms_only_its_own_line() {
    let text = lines(1..4).into_bytes();
    let length = line(1).len() + 1;
    for at in 0..text.len() {
        for byte in [0, b'\n', b'\r', b' ', b'"', b']', b'[', b'E', b'x', 0xff] {
            let mut bytes = text.clone();
            bytes[at] = byte;
            let (entries, (regions, _)) = found(&bytes);
            for n in (0..3).filter(|n| *n != at / length) {
                assert_eq!(
                    entries.get(&entry(n as u64 + 1).request_id),
                    Some(&entry(n as u64 + 1)),
                    "{at} {byte}"
                );
            }
            if byte == 0 && at > 0 {
                assert_eq!(regions, 1, "{at}");
            }
            // Half a record is not a record.
            assert!(entries.values().all(|entry| entry.key_name.len() >= 4), "{at} {byte}: {entries:?}");
        }
        // Also when a byte is missing or was added.
        let without = [&text[..at], &text[at + 1..]].concat();
        let with = [&text[..at], b"~", &text[at..]].concat();
        for bytes in [without, with] {
            let (entries, _) = found(&bytes);
            for n in (0..3).filter(|n| *n != at / length) {
                assert!(entries.contains_key(&entry(n as u64 + 1).request_id), "{at}: {entries:?}");
            }
        }
    }
}

#[test]
fn unreadable_bytes_are_counted_by_places_and_bytes() {
    let text = lines(1..5);
    assert_found(text.as_bytes(), 1..5, (0, 0));
    assert_found(format!("{text}\n\n\n").as_bytes(), 1..5, (0, 0));
    assert_found(b"", [], (0, 0));
    assert_found(&[0; 5_000], [], (1, 5_000));
    // Garbage after a record and before one.
    assert_found(format!("{text}garbage").as_bytes(), 1..5, (1, 7));
    assert_found(format!("gar\nbage{}", line(7)).as_bytes(), [7], (1, 7));
    // A truncated last line, and a missing line break.
    assert_found(&text.as_bytes()[..text.len() - 5], 1..4, (1, line(4).len() as u64 - 5));
    assert_found(format!("{}{}", line(1), line(2)).as_bytes(), 1..3, (1, 0));
    // Two damaged regions.
    let torn = format!("{}\nxx\n{}yyy{}", line(1), line(2), line(3));
    assert_found(torn.as_bytes(), 1..4, (2, 5));
}

#[test]
fn records_of_the_older_format_are_salvaged() {
    let old = "B{\"request_id\":\"req_00009\",\"at\":5,\"key_id\":\"k\",\"cost\":3}";
    let (entries, damage) = found(format!("\n{old}\nxx{old}xx").as_bytes());
    let entry = &entries["req_00009"];
    assert_eq!((entry.at, entry.cost, &*entry.status), (5, 3, INTERRUPTED));
    assert_eq!((entries.len(), damage), (1, (2, 4)));
}

#[test]
fn lookalikes_of_records_are_rejected_cheaply() {
    let hostile = [
        "E[\"".repeat(1 << 16),
        "E[\"req_1\",1,".repeat(1 << 16),
        "E[\"req_1\",1]".repeat(1 << 16),
        format!("E[\"{}", "E[\\\"".repeat(1 << 16)),
        format!("E[\"req_1\",1{}", " ".repeat(1 << 20)),
        format!("E[\"req_1\",1,{}", "[".repeat(1 << 20)),
    ];
    for text in hostile {
        let bytes = format!("{}\n{text}\n{}", line(1), line(2));
        assert_found(bytes.as_bytes(), 1..3, (1, text.len() as u64));
    }
}

/// A disk with blocks that cannot be read.
struct BadDisk {
    bytes: Vec<u8>,
    at: usize,
    bad: Vec<usize>,
}

impl Read for BadDisk {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = (self.at + buffer.len()).min(self.bytes.len());
        let block = BAD_BLOCK as usize;
        if self.bad.iter().any(|bad| bad * block < end && self.at < (bad + 1) * block) {
            return Err(io::Error::other("a bad block"));
        }
        let count = end - self.at;
        buffer[..count].copy_from_slice(&self.bytes[self.at..end]);
        self.at = end;
        Ok(count)
    }
}

impl Seek for BadDisk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(to) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        self.at = usize::try_from(to).unwrap().min(self.bytes.len());
        Ok(to)
    }
}

#[test]
fn unreadable_blocks_cost_only_their_own_lines() {
    let bytes = lines(0..2_000).into_bytes();
    let (length, block) = (line(1).len() + 1, BAD_BLOCK as usize);
    let last = bytes.len() / block;
    let bad = vec![0, 7, 8, 40, last];
    let is_whole = |n: &u64| {
        let (start, end) = (*n as usize * length, (*n as usize + 1) * length);
        !bad.iter().any(|bad| bad * block < end && start < (bad + 1) * block)
    };
    let whole: Vec<u64> = (0..2_000).filter(is_whole).collect();
    assert!(whole.len() > 1_800);
    let mut requests = Requests::default();
    let disk = BadDisk { at: 0, bytes: bytes.clone(), bad: bad.clone() };
    let damage = read(disk, bytes.len() as u64, &mut requests);
    let mut ids: Vec<Arc<str>> = requests.into_entries().map(|entry| entry.request_id).collect();
    ids.sort();
    assert!(ids.into_iter().eq(whole.iter().map(|n| entry(*n).request_id)), "{damage:?}");
    assert_eq!(damage.regions, 4);
}

#[test]
fn the_call_that_was_open_has_the_unknown_price_if_no_ended_call_has_it() {
    let open_call = |cost| {
        let line = Line::new(Entry { cost, unpriced: true, ..entry(1) }).journal_line().replacen('E', "P", 1);
        let (mut entries, _) = found(line.as_bytes());
        let attempts = entries.pop_first().unwrap().1.attempts;
        assert_eq!((attempts.len(), attempts[0].cost), (2, Some(77)));
        (attempts[1].cost, attempts[1].known_part)
    };
    assert_eq!([open_call(100), open_call(77)], [(None, 23), (None, 0)]);
}
