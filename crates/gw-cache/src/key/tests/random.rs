//! A million random pairs of requests by two tenants, compared by key and by a slow oracle. The oracle compares trees,
//! each of which was written as text in a random spelling.

use gw_wire::operation::PlainOperation;
use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use serde_json::{Map, Number, Value, json};

use super::*;

const FAMILIES: usize = 2_000;
const MEMBERS_OF_A_FAMILY: usize = 10;
const PAIRS: usize = 1_000_000;

/// A random tree. It has few different leaves, so trees often differ in one place only.
fn tree(rng: &mut StdRng, depth: u32) -> Value {
    match rng.random_range(0..if depth == 0 { 6 } else { 9 }) {
        0 => json!(null),
        1 => json!(rng.random_bool(0.5)),
        2 => json!(rng.random_range(-3..1000)),
        3 => json!(*[0, 1 << 53, (1 << 53) + 1, u64::MAX, 10_000_000].choose(rng).unwrap()),
        // Fractions that differ as doubles exactly if they differ as decimals.
        4 => json!(f64::from(rng.random_range(-300..300)) / *[2.0, 100.0, 1e6].choose(rng).unwrap()),
        5 => json!(*["", "a", "A", "é", "\u{1f600}\n", "\"\\", "1", "null", "ab"].choose(rng).unwrap()),
        6 => Value::Array((0..rng.random_range(0..4)).map(|_| tree(rng, depth - 1)).collect()),
        _ => object(rng, depth - 1, &["a", "b", "ab", "é", "stream", "user", "x\ty"]),
    }
}

fn object(rng: &mut StdRng, depth: u32, names: &[&str]) -> Value {
    let count = rng.random_range(0..=names.len());
    let names = names.choose_multiple(rng, count);
    Value::Object(names.map(|name| ((*name).to_owned(), tree(rng, depth))).collect())
}

/// Writes a tree in a random spelling.
fn spell(value: &Value, rng: &mut StdRng, out: &mut String) {
    blank(rng, out);
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => out.push_str(&spell_number(number, rng)),
        Value::String(text) => spell_text(text, rng, out),
        Value::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                spell(element, rng, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.shuffle(rng);
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                spell_text(name, rng, out);
                blank(rng, out);
                out.push(':');
                spell(value, rng, out);
            }
            out.push('}');
        }
    }
    blank(rng, out);
}

fn blank(rng: &mut StdRng, out: &mut String) {
    out.push_str(["", "", "", " ", "\n", "\t \r"].choose(rng).unwrap());
}

fn spell_text(text: &str, rng: &mut StdRng, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        let must = matches!(c, '"' | '\\') || c.is_control();
        if must || rng.random_bool(0.2) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

fn spell_number(number: &Number, rng: &mut StdRng) -> String {
    // Splits `1.0e-6` into digits and a power, then moves the power and adds zeros.
    let text = number.to_string();
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let power = power.parse::<i32>().unwrap() - i32::try_from(fraction.len()).unwrap();
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let digits = format!("{digits}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return (*["0", "-0", "0.00", "0e7", "-0.0E-7"].choose(rng).unwrap()).to_owned();
    }
    match rng.random_range(0..4) {
        0 => text,
        1 => format!("{sign}{digits}e{power}"),
        2 => format!("{sign}{digits}00.0E{}", power - 2),
        _ => format!("{sign}0.0{digits}0e+{}", power + i32::try_from(digits.len()).unwrap() + 1)
            .replace("+-", "-"),
    }
}

/// The text by which the oracle compares requests: all fields, and the body as sorted text.
fn oracle(asked: &Asked, tree: &Map<String, Value>) -> String {
    let mut body = tree.clone();
    let ignored = ["stream", "stream_options", "user", "metadata", "cache", "routing", "model"];
    let is_empty =
        |name: &str, value: &Value| ["stop", "tools"].contains(&name) && *value == Value::Array(Vec::new());
    body.retain(|name, value| !value.is_null() && !ignored.contains(&&**name) && !is_empty(name, value));
    let Asked { scope, route, model, candidates, config, native, .. } = asked;
    let native = native.is_some();
    format!("{scope:?}|{route:?}|{model:?}|{candidates:?}|{config}|{native}|{}", plain(Value::Object(body)))
}

/// Writes whole numbers in one form.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap();
            let whole = float.fract() == 0.0 && float.abs() < 1e19;
            if whole { Value::String(format!("number {}", float as i128)) } else { Value::Number(number) }
        }
        Value::Number(number) => Value::String(format!("number {number}")),
        Value::Array(elements) => elements.into_iter().map(plain).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, plain(value))).collect(),
        other => other,
    }
}

/// A request, and requests that equal it or differ in few places.
fn family(rng: &mut StdRng, out: &mut Vec<(Asked, String)>) {
    const TOP: [&str; 12] = [
        "messages",
        "tools",
        "seed",
        "n",
        "temperature",
        "stream",
        "user",
        "metadata",
        "cache",
        "routing",
        "stream_options",
        "zz",
    ];
    let Value::Object(base) = object(rng, 3, &TOP) else { unreachable!() };
    for _ in 0..MEMBERS_OF_A_FAMILY {
        let mut tree_of_this = base.clone();
        if rng.random_bool(0.4) {
            tree_of_this.insert((*TOP.choose(rng).unwrap()).to_owned(), tree(rng, 2));
        }
        let mut body = String::new();
        spell(&Value::Object(tree_of_this.clone()), rng, &mut body);
        let mut asked = Asked::body(&body);
        if rng.random_bool(0.5) {
            asked.scope = Scope::Key(Arc::from("key_2"));
        }
        match rng.random_range(0..30) {
            0 => asked.scope = Scope::Team(Arc::from("key_1")),
            1 => asked.route = PlainOperation::Completion,
            2 => asked.model = "n".to_owned(),
            3 => asked.candidates = vec!["p/m"],
            4 => asked.config = 2,
            5 => asked.native = Some(NativeDigests::of(b"{\"top_k\":4}", std::iter::empty())),
            _ => {}
        }
        let name = oracle(&asked, &tree_of_this);
        out.push((asked, name));
    }
}

#[test]
fn t01_a_hit_is_the_same_scope_and_the_same_question_in_a_million_random_pairs() {
    let mut rng = StdRng::seed_from_u64(6);
    let mut all = Vec::new();
    (0..FAMILIES).for_each(|_| family(&mut rng, &mut all));
    let mut names = HashMap::new();
    let known: Vec<(Key, usize)> = all
        .iter()
        .map(|(asked, name)| {
            let next = names.len();
            (asked.key(), *names.entry(name).or_insert(next))
        })
        .collect();
    let (mut hits, mut near_misses) = (0, 0);
    for pair in 0..PAIRS {
        let one = rng.random_range(0..all.len());
        // Mostly pairs of the same family, because other requests have little in common.
        let relative =
            one / MEMBERS_OF_A_FAMILY * MEMBERS_OF_A_FAMILY + rng.random_range(0..MEMBERS_OF_A_FAMILY);
        let other = if pair % 4 == 0 { rng.random_range(0..all.len()) } else { relative };
        let (is_hit, is_same) = (known[one].0 == known[other].0, known[one].1 == known[other].1);
        assert_eq!(is_hit, is_same, "{:#?}\n{:#?}", all[one].0, all[other].0);
        hits += u32::from(is_hit && one != other);
        near_misses += u32::from(!is_hit && other == relative);
    }
    assert!(hits > 50_000 && near_misses > 200_000, "{hits} {near_misses}");
    forgotten_components_are_found_out(&all, &known);
}

/// Checks that without any single component some pairs would have been judged wrongly.
fn forgotten_components_are_found_out(all: &[(Asked, String)], known: &[(Key, usize)]) {
    for (component, _) in COMPONENTS {
        let mut seen: HashMap<Key, usize> = HashMap::new();
        let wrong = all.iter().zip(known).any(|((asked, _), (_, name))| {
            let first = *seen.entry(asked.key_without(component)).or_insert(*name);
            first != *name
        });
        assert!(wrong, "{component}: no pair depends on it");
    }
}
