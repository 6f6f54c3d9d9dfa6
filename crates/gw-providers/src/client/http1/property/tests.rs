//! The seeds of the fuzz target, as they are and changed at random.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// Bytes that often break readers.
const TOKENS: [&[u8]; 14] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b";",
    b" ",
    b"\t",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.0 ",
    b"content-length: 3\r\n",
    b"transfer-encoding: chunked\r\n",
    b"connection: close\r\n",
];

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/http1_response");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn seeds_are_read_the_same_however_they_are_cut() {
    let ends: Vec<_> = seeds()
        .iter()
        .map(|seed| {
            holds(seed);
            read(iter::once(&**seed), &Method::POST, false).ended
        })
        .collect();
    assert!(ends.contains(&Ended::Body { is_over: true, rest: Vec::new() }), "{ends:?}");
    assert!(ends.contains(&Ended::InHead) && ends.contains(&Ended::BeforeBody), "{ends:?}");
    assert!(ends.iter().any(|end| matches!(end, Ended::InBody(_))), "{ends:?}");
}

proptest! {
    #[test]
    fn changed_seeds_are_read_the_same_however_they_are_cut(
        seed in select(seeds()),
        changes in prop::collection::vec((any::<Index>(), 0..4_usize, select(TOKENS.to_vec())), 1..4),
        end in prop::option::of(any::<Index>()),
    ) {
        let mut bytes = seed;
        for (place, removed, token) in changes {
            let from = place.index(bytes.len() + 1);
            let to = (from + removed).min(bytes.len());
            bytes.splice(from..to, token.iter().copied());
        }
        bytes.truncate(end.map_or(usize::MAX, |end| end.index(bytes.len() + 1)));
        holds(&bytes);
    }
}
