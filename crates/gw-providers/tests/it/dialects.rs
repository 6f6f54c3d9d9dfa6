//! Every dialect against a corpus that is mutated and cut at random. Each run does what the targets in `fuzz/` do.

use std::fs;
use std::iter;
use std::path::Path;

use gw_providers::adapter::Adapter;
use gw_providers::settings::Api;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

pub(crate) mod property;
mod surfaces;

const FIXTURES: &str = "crates/gw-providers/fixtures";

/// The files of a folder that match, in a fixed order.
fn files(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    paths.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted));
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// The seeds of a fuzz target, and the fixtures of the dialect's streams.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let mut seeds = files(&format!("fuzz/seeds/{target}"), |_| true);
    assert!(!seeds.is_empty(), "fuzz/seeds/{target} is empty");
    seeds.extend(files(&format!("{FIXTURES}/{target}"), |name| {
        // A `.json` file beside a stream holds its expected events.
        name.contains(".stream.") && !name.ends_with(".json")
    }));
    seeds.extend(files(&format!("{FIXTURES}/{target}/streams"), |name| name.ends_with(".sse")));
    seeds
}

/// The seeds of requests, and the fixtures of all dialects' requests.
fn requests_of_clients() -> Vec<Vec<u8>> {
    let mut seeds = corpus("request");
    for api in Api::ALL {
        seeds.extend(files(&format!("{FIXTURES}/{}", api.as_str()), |name| name.ends_with(".request.json")));
    }
    seeds
}

/// The bytes of a seed as the upstream would send them.
fn wire(api: Api, seed: &[u8]) -> Vec<u8> {
    if api == Api::BEDROCK { property::frames(seed) } else { seed.to_vec() }
}

/// Reads the seeds of a dialect, cut at every byte and into pieces of one size.
fn cut(api: Api, target: &str) {
    let adapter = property::adapter(api);
    for seed in corpus(target) {
        let bytes = wire(api, &seed);
        property::cut_at_every_byte(&*adapter, &bytes);
        for size in [1, 2, 3, 7, 64] {
            property::stream(&*adapter, &bytes, iter::repeat(size));
        }
        property::stream(&*adapter, &bytes, property::sizes(&bytes));
        property::answer(&*adapter, &bytes);
    }
}

#[test]
fn example_requests_reach_every_adapter() {
    let adapters = adapters();
    for seed in requests_of_clients() {
        property::request(&adapters, &seed);
    }
}

fn adapters() -> Vec<(Api, Box<dyn Adapter>)> {
    Api::ALL.into_iter().map(|api| (api, property::adapter(api))).collect()
}

/// One change to a seed.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(Index, u8),
    Insert(Index, &'static str),
    Delete(Index, usize),
    Repeat(Index, usize),
    Truncate(Index),
    Splice(Index, Index, Index),
}

/// Bytes that often break parsers.
const TOKENS: [&str; 32] = [
    "null",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "{}",
    "[]",
    "[[",
    "}}",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "\u{2028}",
    "é",
    "👍",
    "\n",
    "\r\n",
    "\n\n",
    "\r",
    "data: ",
    "event: error\n",
    ": x\n",
    "[DONE]",
    "true",
    "\"index\":4294967295,",
    "\"error\":{\"message\":\"m\"},",
    "\"type\":\"error\",",
    "\0",
    "\u{7f}",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Flip(at, byte)),
        (at(), select(&TOKENS[..])).prop_map(|(at, token)| Mutation::Insert(at, token)),
        (at(), 1..40_usize).prop_map(|(at, length)| Mutation::Delete(at, length)),
        (at(), 1..200_usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        at().prop_map(Mutation::Truncate),
        (at(), at(), at()).prop_map(|(seed, from, at)| Mutation::Splice(seed, from, at)),
    ]
}

/// A seed with these changes applied.
fn mutated(seeds: &[Vec<u8>], seed: Index, mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = seeds[seed.index(seeds.len())].clone();
    for mutation in mutations {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match mutation {
            Mutation::Flip(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Mutation::Flip(..) => {}
            Mutation::Insert(at, token) => {
                let at = place(at);
                bytes.splice(at..at, token.bytes());
            }
            Mutation::Delete(at, length) => {
                let at = place(at);
                bytes.drain(at..bytes.len().min(at + length));
            }
            Mutation::Repeat(at, length) => {
                let at = place(at);
                let end = bytes.len().min(at + length);
                let again = bytes[at..end].to_vec();
                bytes.splice(end..end, again);
            }
            Mutation::Truncate(at) => bytes.truncate(place(at)),
            Mutation::Splice(seed, from, at) => {
                let other = &seeds[seed.index(seeds.len())];
                let at = place(at);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from.index(other.len() + 1)..]);
            }
        }
    }
    bytes
}

fn config() -> ProptestConfig {
    // The failure message holds the input, so no file is written into the tree.
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// Mutates the seeds of a dialect and reads them, cut at random.
fn mutate(api: Api, target: &str) {
    let adapter = property::adapter(api);
    let seeds = corpus(target);
    let changes = proptest::collection::vec(mutation(), 0..4);
    let sizes = proptest::collection::vec(1..80_usize, 0..60);
    proptest!(config(), |(seed: Index, changes in changes, sizes in sizes)| {
        let bytes = wire(api, &mutated(&seeds, seed, &changes));
        property::stream(&*adapter, &bytes, sizes.iter().copied());
        property::answer(&*adapter, &bytes);
    });
}

/// The stream dialects, by the names of their fuzz targets.
macro_rules! dialects {
    ($($name:ident: $api:ident,)+) => {
        $(mod $name {
            use super::{Api, cut, mutate};

            #[test]
            fn u11_cuts_at_every_byte_give_equal_events() {
                cut(Api::$api, stringify!($name));
            }

            #[test]
            fn u11_mutated_streams_give_equal_events_for_random_cuts() {
                mutate(Api::$api, stringify!($name));
            }
        })+
    };
}

dialects! {
    openai: OPENAI,
    anthropic: ANTHROPIC,
    gemini: GEMINI,
    bedrock: BEDROCK,
    cohere: COHERE,
    ollama: OLLAMA,
    mistral: MISTRAL,
}

#[test]
fn requests() {
    let adapters = adapters();
    let seeds = requests_of_clients();
    proptest!(config(), |(seed: Index, changes in proptest::collection::vec(mutation(), 0..4))| {
        property::request(&adapters, &mutated(&seeds, seed, &changes));
    });
}

/// The requests of the other client dialects, by the names of their fuzz targets.
macro_rules! surfaces {
    ($($name:ident: $check:expr,)+) => {
        $(mod $name {
            use super::{adapters, any, config, corpus, mutated, mutation, proptest, surfaces, Index};

            #[test]
            fn seeds_hold() {
                let adapters = adapters();
                corpus(stringify!($name)).iter().for_each(|seed| $check(&adapters, seed));
            }

            #[test]
            fn mutated_seeds_hold() {
                let (adapters, seeds) = (adapters(), corpus(stringify!($name)));
                let changes = proptest::collection::vec(mutation(), 0..4);
                proptest!(config(), |(seed in any::<Index>(), changes in changes)| {
                    $check(&adapters, &mutated(&seeds, seed, &changes));
                });
            }
        })+
    };
}

surfaces! {
    messages: surfaces::messages,
    responses: surfaces::responses,
    items: surfaces::items,
    native: surfaces::native,
}

/// Replacements for a member or an element.
fn odd_values() -> Vec<Value> {
    let mut values: Vec<Value> =
        ["", " \n", "\0", "👍é", "{", "a.b-c:d/e f", "data:image/png;base64,AAAA", "data:,", "null"]
            .map(Value::from)
            .into();
    values.extend([json!(null), json!(true), json!(0), json!(-1), json!(1e300), json!(u64::MAX)]);
    values.extend([
        json!({}),
        json!([]),
        json!([null]),
        json!([[]]),
        json!({"": {"$ref": "#"}}),
        json!("x".repeat(300)),
    ]);
    values.extend([
        json!({"type": "text", "text": ""}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}),
    ]);
    values
}

/// The value at this position in reading order. The document itself is the first.
fn place<'v>(value: &'v mut Value, at: &mut usize) -> Option<&'v mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| place(item, at)),
        Value::Object(members) => members.values_mut().find_map(|member| place(member, at)),
        _ => None,
    }
}

fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(places).sum(),
        Value::Object(members) => members.values().map(places).sum(),
        _ => 0_usize,
    }
}

#[test]
fn requests_with_odd_values() {
    let adapters = adapters();
    let seeds = requests_of_clients();
    let odd = odd_values();
    let changes = proptest::collection::vec((any::<Index>(), any::<Index>(), 0..3_u8), 0..4);
    proptest!(config(), |(seed: Index, changes in changes)| {
        let mut request: Value = serde_json::from_slice(&seeds[seed.index(seeds.len())]).unwrap();
        for (at, other, change) in changes {
            let count = places(&request);
            let replacement = if change == 0 {
                // A value from another position of the request.
                place(&mut request, &mut other.index(count)).map(|value| value.clone())
            } else {
                Some(odd[other.index(odd.len())].clone())
            };
            if let (Some(value), Some(replacement)) = (place(&mut request, &mut at.index(count)), replacement) {
                *value = replacement;
            }
        }
        property::request(&adapters, request.to_string().as_bytes());
    });
}
