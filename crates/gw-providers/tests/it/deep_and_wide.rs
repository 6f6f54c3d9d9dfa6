//! Deep and wide bodies cost memory in proportion to their size, in every dialect.
//!
//! The tests count allocations and allocated bytes, so a busy machine changes nothing.

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use gw_providers::adapter::{Adapter, ChoiceRange, Target};
use gw_providers::settings::Api;
use gw_wire::request::{ChatRequest, RequestLimits, parse_chat};

use crate::dialects::property;

/// The large body has so many times the things of the small one.
const GROWTH: u64 = 8;

/// Room for buffers that double when they are full, in percent of the growth.
const SLACK_PERCENT: u64 = 125;

/// A body of `n` things.
type Shape = fn(usize) -> String;

const SHAPES: [(&str, Shape); 9] = [
    ("arrays in arrays", |n| body(&format!(r#","ignored":[{}]"#, list(n / 100, &nested("[", "", "]"))))),
    ("objects in objects", |n| {
        body(&format!(r#","ignored":[{}]"#, list(n / 100, &nested(r#"{"a":"#, "1", "}"))))
    }),
    ("deep arguments of a call", |n| {
        let arguments = format!("[{}]", list(n / 100, &nested("[", "", "]")));
        messages(&format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}]}}"#
        ))
    }),
    ("wide array", |n| body(&format!(r#","ignored":[{}]"#, list(n, "1")))),
    ("wide object", |n| body(&format!(r#","ignored":{{{}}}"#, members(n)))),
    ("wide metadata", |n| body(&format!(r#","metadata":{{{}}}"#, members(n)))),
    ("wide message", |n| messages(&format!(r#"{{"role":"user","content":"x",{}}}"#, members(n)))),
    ("wide content", |n| {
        messages(&format!(r#"{{"role":"user","content":[{}]}}"#, list(n, r#"{"type":"text","text":"x"}"#)))
    }),
    ("wide schema", |n| {
        let properties: Vec<_> = (0..n).map(|at| format!(r#""p{at:06}":{{"type":"string"}}"#)).collect();
        let schema = format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","));
        body(&format!(r#","tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#))
    }),
];

/// One hundred levels.
fn nested(open: &str, core: &str, close: &str) -> String {
    format!("{}{core}{}", open.repeat(100), close.repeat(100))
}

fn list(n: usize, one: &str) -> String {
    vec![one; n].join(",")
}

fn members(n: usize) -> String {
    (0..n).map(|at| format!(r#""k{at:06}":1"#)).collect::<Vec<_>>().join(",")
}

fn messages(more: &str) -> String {
    format!(r#"{{"model":"any/m","messages":[{{"role":"user","content":"x"}},{more}]}}"#)
}

fn body(members: &str) -> String {
    format!(r#"{{"model":"any/m","messages":[{{"role":"user","content":"x"}}]{members}}}"#)
}

fn parse(body: &Bytes) -> ChatRequest {
    parse_chat(body.clone(), &RequestLimits::NONE).unwrap()
}

fn encode(api: Api, adapter: &dyn Adapter, request: &ChatRequest) {
    let target = Target {
        upstream_model: "m",
        id: "any/m",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: Some(8192),
        context_length: Some(128_000),
        rules: gw_providers::model_rules::ModelRules::of(api.rules, "m", "any/m"),
        issuer: None,
        breakpoints: None,
    };
    // A refusal counts, too: it must not cost more than an acceptance.
    let _ = adapter.chat(request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target);
}

/// Checks that the large body costs at most as much more as it is larger.
fn assert_proportional(label: &str, bodies: [usize; 2], used: [AllocationInfo; 2]) {
    let [small, large] = used;
    let figures = [
        ("allocations", small.count_total, large.count_total),
        ("allocated bytes", small.bytes_total, large.bytes_total),
        ("bytes at one time", small.bytes_max, large.bytes_max),
    ];
    for (what, small, large) in figures {
        // A few allocations more or less of a fixed size say nothing.
        let bound = (small + 1024) * GROWTH * SLACK_PERCENT / 100;
        assert!(large <= bound, "{label}: {small} and {large} {what} for bodies of {bodies:?} bytes");
    }
    let most = bodies[1] as u64 * MAX_BYTES_PER_BYTE;
    assert!(
        large.bytes_total <= most,
        "{label}: {} bytes allocated for {} bytes",
        large.bytes_total,
        bodies[1]
    );
}

/// The bytes that the gateway may allocate for each byte of a body, freed ones counted again.
const MAX_BYTES_PER_BYTE: u64 = 40;

/// The bodies with which the gateway is attacked: deeper and wider than it takes. (That of the whole program is
/// `c07_deep_and_wide_json`.)
fn hostile_bodies() -> Vec<(&'static str, String)> {
    const MANY: usize = 1_000_000;
    let keys: String = (0..300_000).map(|index| format!(",\"k{index}\":1")).collect();
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(MANY), close.repeat(MANY));
    let mut bodies = vec![
        ("never closed", "[".repeat(MANY)),
        ("1,000,001 numbers", body(&format!(",\"ignored\":[{}1]", "1,".repeat(MANY)))),
        ("1,000,001 objects", body(&format!(",\"ignored\":[{}1]", "{},".repeat(MANY)))),
        ("300,000 members of an object", body(&format!(",\"ignored\":{{\"first\":1{keys}}}"))),
        ("300,000 members of the request", body(&keys)),
    ];
    for member in ["ignored", "metadata", "tools", "messages", "routing", "response_format"] {
        for (shape, open, close) in [("arrays", "[", "]"), ("objects", "{\"a\":", "}")] {
            bodies.push((shape, body(&format!(",\"{member}\":{}", deep(open, close)))));
        }
    }
    bodies
}

/// The most bytes that the gateway may hold at one time for each byte of such a body, the body itself not counted.
const MAX_HELD_PER_BYTE: u64 = 16;

#[test]
fn c07_hostile_bodies_leave_no_byte_behind() {
    for (name, text) in hostile_bodies() {
        let body = Bytes::from(text);
        // The first copy of the handle allocates its counter, so it is made here.
        let parsed = body.clone();
        let used = measure(|| drop(parse_chat(parsed, &RequestLimits::default())));
        assert_eq!((used.count_current, used.bytes_current), (0, 0), "{name}: {used:?}");
        let most = body.len() as u64 * MAX_HELD_PER_BYTE;
        assert!(used.bytes_max <= most, "{name}: {} bytes held for {} bytes", used.bytes_max, body.len());
    }
}

#[test]
fn c07_deep_and_wide_bodies_allocate_in_proportion_to_their_size() {
    const SMALL: usize = 2_000;
    let adapters = Api::ALL.map(|api| (api, property::adapter(api)));
    for (name, shape) in SHAPES {
        let bodies = [SMALL, SMALL * GROWTH as usize].map(|n| Bytes::from(shape(n)));
        let sizes = bodies.each_ref().map(Bytes::len);
        let read = bodies.each_ref().map(|body| measure(|| drop(parse(body))));
        assert_proportional(&format!("{name}, read"), sizes, read);
        let requests = bodies.each_ref().map(parse);
        for (api, adapter) in &adapters {
            let written = requests.each_ref().map(|request| measure(|| encode(*api, &**adapter, request)));
            assert_proportional(&format!("{name}, {}", api.as_str()), sizes, written);
        }
    }
}
