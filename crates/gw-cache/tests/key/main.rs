//! The property of the fuzz target `cache_key`, checked on randomly changed seeds.
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod property;

use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = ["request", "cache_key"].into_iter().flat_map(|name| {
        std::fs::read_dir(root.join(name)).expect("seeds").map(|entry| entry.expect("a file").path())
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).expect("a seed")).collect()
}

/// Texts that are inserted at random places.
const PIECES: [&str; 22] = [
    "\"a\":1,",
    ",\"a\":{\"b\":[null]}",
    "null",
    "true",
    "1e999",
    "-0.0",
    "10000000000000000000000",
    "\"\\ud83d\\ude00\"",
    "\"\\u0000\"",
    "{\"a\":1,\"a\":2}",
    "[]",
    "{}",
    "[[[]]]",
    "\"user\":\"x\"",
    "\"seed\":1,",
    "\"Seed\":1,",
    "\\",
    "\"",
    ",",
    " ",
    "1e-99999999999999999999",
    "é",
];

fn changed(seed: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..=bytes.len());
        let end = (at + rng.random_range(0..6)).min(bytes.len());
        let piece = PIECES.choose(rng).expect("pieces").as_bytes();
        match rng.random_range(0..4) {
            0 => drop(bytes.drain(at..end)),
            1 => drop(bytes.splice(at..at, piece.iter().copied())),
            2 => drop(bytes.splice(at..end, piece.iter().copied())),
            _ => bytes[at..end].iter_mut().for_each(|byte| *byte = rng.random()),
        }
    }
    bytes
}

/// `PROPTEST_CASES=100000` checks more cases.
#[test]
fn t01_every_body_has_one_key_however_it_is_spelled_and_no_other_body_has_it() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let (seeds, mut rng) = (seeds(), StdRng::seed_from_u64(6));
    let chats = seeds.iter().filter(|seed| property::holds(seed)).count();
    assert!(chats > 5, "{chats} of {} seeds are chats", seeds.len());
    let accepted = (0..cases)
        .filter(|_| property::holds(&changed(seeds.choose(&mut rng).expect("seeds"), &mut rng)))
        .count();
    assert!(accepted > cases / 20, "{accepted} of {cases} were accepted");
}
