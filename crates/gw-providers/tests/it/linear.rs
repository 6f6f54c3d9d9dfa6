//! The cost of reading and encoding a request is proportional to the size of its body, whatever its form.
//!
//! `cargo test --release -p gw-providers --test it -- --ignored --nocapture costs_of_large_bodies` prints the figures.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use gw_providers::adapter::{Adapter, ChoiceRange, Reading, Target};
use gw_providers::settings::Api;
use gw_testkit::cpu_time::{assert_cpu_time, cpu_time};
use gw_wire::event::Event;
use gw_wire::request::{ChatRequest, RequestLimits, parse_chat, parse_embeddings};

use crate::dialects::property;

/// The most CPU time per byte for a body of eight times the size, as a multiple. Quadratic work would need eight times
/// as much.
const FACTOR: f64 = 3.0;

/// A shorter time is too inexact to compare.
const LEAST: Duration = Duration::from_millis(2);

const GROWTH: usize = 8;

/// A request with `n` elements.
type Shape = fn(usize) -> String;

const SHAPES: [(&str, Shape); 18] = [
    ("calls of one id", |n| conversation(&calls(n, |_| "a".to_owned(), |_| "f".to_owned()), "")),
    ("calls of long ids", |n| conversation(&calls(n, |at| format!("call:{at}"), |_| "f".to_owned()), "")),
    ("calls of many functions", |n| conversation(&calls(n, id, |at| format!("f{at}")), "")),
    ("results in order", |n| results(n, |at| at)),
    ("results in reverse order", |n| results(n, |at| n - 1 - at)),
    ("results of one id", |n| {
        let answers = many(n, |_| r#"{"role":"tool","tool_call_id":"a","content":"r"}"#.to_owned());
        conversation(&format!("{},{answers}", calls(n, |_| "a".to_owned(), |_| "f".to_owned())), "")
    }),
    ("messages of one role", |n| {
        conversation(&many(n, |_| r#"{"role":"user","content":"hello"}"#.to_owned()), "")
    }),
    ("messages in turn", |n| {
        let role = |at| if at % 2 == 0 { "user" } else { "assistant" };
        conversation(&many(n, |at| format!(r#"{{"role":"{}","content":"hello"}}"#, role(at))), "")
    }),
    ("files of one name", |n| {
        let part = r#"{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}"#;
        conversation(&format!(r#"{{"role":"user","content":[{}]}}"#, many(n, |_| part.to_owned())), "")
    }),
    ("wide schema", |n| with_tool(&format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties(n)))),
    ("deep schema", |n| with_tool(&deep(100, n / 100))),
    ("references", |n| {
        let refs = many(n.min(512), |at| format!(r##""p{at}":{{"$ref":"#/$defs/d{at}"}}"##));
        let definitions = many(n, |at| format!(r#""d{at}":{{"type":"string"}}"#));
        with_tool(&format!(
            r#"{{"type":"object","properties":{{{refs}}},"$defs":{{{definitions}}},"additionalProperties":false}}"#
        ))
    }),
    ("strict tools", |n| {
        let schema = deep(40, n / 40 / 64);
        let tool = |at| {
            format!(
                r#"{{"type":"function","function":{{"name":"f{at}","strict":true,"parameters":{schema}}}}}"#
            )
        };
        conversation(USER, &format!(r#","tools":[{}]"#, many(64, tool)))
    }),
    ("tools that may be called", |n| {
        let tool = |at| format!(r#"{{"type":"function","function":{{"name":"f{at}"}}}}"#);
        let (tools, last_first) = (many(n, tool), many(n, |at| tool(n - 1 - at)));
        let choice =
            format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"auto","tools":[{last_first}]}}}}"#);
        conversation(USER, &format!(r#","tools":[{tools}],"tool_choice":{choice}"#))
    }),
    ("legacy functions", |n| {
        let schema = deep(40, n / 40 / 64);
        let function = |at| format!(r#"{{"name":"f{at}","parameters":{schema}}}"#);
        conversation(USER, &format!(r#","functions":[{}]"#, many(64, function)))
    }),
    ("response format", |n| {
        let schema = deep(100, n / 100);
        let format = format!(r#"{{"type":"json_schema","json_schema":{{"name":"a","schema":{schema}}}}}"#);
        conversation(USER, &format!(r#","response_format":{format}"#))
    }),
    ("members of the body", |n| conversation(USER, &format!(",{}", many(n, |at| format!(r#""x{at}":1"#))))),
    ("members of a message", |n| {
        let members = many(n, |at| format!(r#""x{at}":1"#));
        conversation(&format!(r#"{{"role":"user","content":"hello",{members}}}"#), "")
    }),
];

const USER: &str = r#"{"role":"user","content":"hello"}"#;

fn many(n: usize, each: impl Fn(usize) -> String) -> String {
    let mut out = String::new();
    for at in 0..n {
        let _ = write!(out, "{}{}", if at > 0 { "," } else { "" }, each(at));
    }
    out
}

fn id(at: usize) -> String {
    format!("call_{at}")
}

fn conversation(messages: &str, members: &str) -> String {
    format!(r#"{{"model":"any/m","messages":[{USER},{messages}]{members}}}"#)
}

fn calls(n: usize, id: impl Fn(usize) -> String, name: impl Fn(usize) -> String) -> String {
    let call = |at| {
        format!(
            r#"{{"id":"{}","type":"function","function":{{"name":"{}","arguments":"{{}}"}}}}"#,
            id(at),
            name(at)
        )
    };
    format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, many(n, call))
}

fn results(n: usize, place: impl Fn(usize) -> usize) -> String {
    let result = |at| format!(r#"{{"role":"tool","tool_call_id":"{}","content":"r{at}"}}"#, id(place(at)));
    conversation(&format!("{},{}", calls(n, id, |_| "f".to_owned()), many(n, result)), "")
}

fn properties(n: usize) -> String {
    many(n, |at| format!(r#""p{at}":{{"type":"string"}}"#))
}

/// A schema with so many levels and so many properties each.
fn deep(levels: usize, wide: usize) -> String {
    (0..levels / 2).fold(r#"{"type":"string"}"#.to_owned(), |inner, _| {
        let own = properties(wide);
        let comma = if own.is_empty() { "" } else { "," };
        format!(
            r#"{{"type":"object","properties":{{"inner":{inner}{comma}{own}}},"additionalProperties":false}}"#
        )
    })
}

fn with_tool(schema: &str) -> String {
    let tool =
        format!(r#"{{"type":"function","function":{{"name":"f","strict":true,"parameters":{schema}}}}}"#);
    conversation(USER, &format!(r#","tools":[{tool}]"#))
}

/// The model of each API whose requests need the most work.
fn model(api: Api) -> &'static str {
    match api.name {
        "anthropic" => "claude-sonnet-4-5",
        "gemini" | "vertex" => "gemini-2.0-flash",
        "bedrock" => "amazon.nova-lite-v1:0",
        "cohere" => "command-a-03-2025",
        "mistral" => "mistral-large-latest",
        "ollama" => "qwen3",
        _ => "gpt-5",
    }
}

fn encode(api: Api, adapter: &dyn Adapter, request: &ChatRequest) {
    let target = Target {
        upstream_model: model(api),
        id: "any/m",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: Some(8192),
        context_length: Some(128_000),
        rules: gw_providers::model_rules::ModelRules::of(api.rules, model(api), "any/m"),
        issuer: None,
        breakpoints: None,
    };
    // A refusal must not cost more than a success.
    let _ = adapter.chat(request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target);
}

fn parse(body: &Bytes) -> ChatRequest {
    parse_chat(body.clone(), &RequestLimits::NONE).unwrap()
}

#[test]
fn encoding_costs_grow_linearly_with_the_body() {
    const SMALL: usize = 600;
    let adapters = Api::ALL.map(|api| (api, property::adapter(api)));
    for (name, shape) in SHAPES {
        let [small, large] = [shape(SMALL), shape(SMALL * GROWTH)].map(Bytes::from);
        let factor = FACTOR * large.len() as f64 / small.len() as f64;
        let bound = |small: Duration| small.max(LEAST / 8).mul_f64(factor).max(LEAST);
        assert_cpu_time(&format!("{name}, read"), || drop(parse(&small)), || drop(parse(&large)), bound);
        let (small, large) = (parse(&small), parse(&large));
        for (api, adapter) in &adapters {
            let what = format!("{name}, {}", api.as_str());
            let encode = |request| encode(*api, &**adapter, request);
            assert_cpu_time(&what, || encode(&small), || encode(&large), bound);
        }
    }
}

#[test]
fn multiplying_references_have_a_bounded_cost() {
    // Each definition references the next one eight times, which makes 8 to the power of 16 places.
    let definition = |at: usize| {
        let next = many(8, |place| format!(r##""p{place}":{{"$ref":"#/$defs/d{}"}}"##, at + 1));
        format!(r#""d{at}":{{"type":"object","properties":{{{next}}}}}"#)
    };
    let schema = format!(
        r##"{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d0"}},"b":{{"$ref":"#"}}}},"$defs":{{{}}}}}"##,
        many(16, definition)
    );
    let tool = |at| format!(r#"{{"type":"function","function":{{"name":"f{at}","parameters":{schema}}}}}"#);
    let body =
        |count: usize| Bytes::from(conversation(USER, &format!(r#","tools":[{}]"#, many(count, tool))));
    let requests = [1, 128].map(|count| parse(&body(count)));
    for api in Api::ALL {
        let adapter = property::adapter(api);
        let adapter = &*adapter;
        let [one, all] = requests.each_ref().map(|request| move || encode(api, adapter, request));
        // The tools share one budget, so 128 of them cost little more than one.
        assert_cpu_time(api.as_str(), one, all, |one| one * 20 + Duration::from_millis(100));
    }
}

/// A schema with 13,300 references to `{"$ref": name}` and as many to a definition.
fn multiplying(name: &str, definition: &str) -> String {
    let refs = |count, to: &str| many(count, |_| format!(r##"{{"$ref":"#/$defs/{to}"}}"##));
    let (b, c, d) = (refs(133, "b"), refs(100, "c"), refs(100, "d"));
    format!(
        r##"{{"type":"object","properties":{{"p":{{"anyOf":[{b}]}}}},"$defs":{{"b":{{"anyOf":[{c},{d}]}},"c":{{"$ref":"{name}"}},"d":{definition}}}}}"##
    )
}

#[test]
fn targets_of_multiplying_references_have_a_bounded_cost() {
    let list = |count: usize, one: &str| vec![one; count].join(",");
    let shapes: [(&str, &dyn Fn(usize) -> String); 4] = [
        ("long names", &|n| multiplying(&format!("#/{}", "x".repeat(n * 12)), "{}")),
        ("values", &|n| multiplying("#", &format!(r#"{{"enum":[{}]}}"#, list(n, "true")))),
        ("types", &|n| multiplying("#", &format!(r#"{{"type":[{}]}}"#, list(n, "\"null\"")))),
        ("nulls", &|n| multiplying("#", &format!(r#"{{"anyOf":[{}]}}"#, list(n, r#"{"type":"null"}"#)))),
    ];
    for (name, shape) in shapes {
        for place in ["tools", "response_format"] {
            let requests = [1, 40_000].map(|n| {
                let schema = shape(n);
                let format = format!(
                    r#","response_format":{{"type":"json_schema","json_schema":{{"name":"a","schema":{schema}}}}}"#
                );
                let body = if place == "tools" { with_tool(&schema) } else { conversation(USER, &format) };
                parse(&Bytes::from(body))
            });
            for api in Api::ALL {
                let adapter = property::adapter(api);
                let adapter = &*adapter;
                let [small, large] = requests.each_ref().map(|request| move || encode(api, adapter, request));
                // A value that is read again may be larger, but not as often as a small one.
                let what = format!("{name} in {place}, {}", api.as_str());
                assert_cpu_time(&what, small, large, |small| small * 20 + Duration::from_millis(250));
            }
        }
    }
}

#[test]
fn call_arguments_are_not_parsed_into_a_tree() {
    let values = vec![r#"{\"a\":1}"#; 50_000].join(",");
    let call = |open: &str, close: &str| {
        let arguments = format!("{open}{values}{close}");
        let call =
            format!(r#"{{"id":"a","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}"#);
        let said = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
        parse(&Bytes::from(conversation(&said, "")))
    };
    for request in [call(r#"{\"list\":["#, "]}"), call("[", "]")] {
        for api in Api::ALL {
            let adapter = property::adapter(api);
            let size = request.body.get("messages").map_or(0, str::len) as u64;
            let used = allocation_counter::measure(|| encode(api, &*adapter, &request));
            assert!(used.bytes_max < size * 12, "{}: {} bytes of {size}", api.as_str(), used.bytes_max);
        }
    }
}

/// Reads a stream in pieces of a network's usual size, and writes the client's stream.
fn relay(stream: &[u8]) {
    let adapter = property::adapter(Api::GEMINI);
    let mut decoder = adapter.stream(&Reading::default());
    let (mut bytes, mut images) = (0, 0);
    let mut sink = |event: Event<'_>| {
        if let Event::Image { image, .. } = event {
            (bytes, images) = (bytes + image.base64.len(), images + 1);
        }
    };
    stream.chunks(16 << 10).for_each(|chunk| decoder.feed(chunk, &mut sink));
    decoder.eof(&mut sink);
    assert!(images == 1 && bytes > stream.len() / 2, "{images} images of {bytes} bytes");
}

#[test]
fn large_and_small_events_cost_the_same_per_byte() {
    for (open, close) in [("data: ", "\r\n\r\n"), ("[", "]")] {
        let [small, large] = [1, GROWTH].map(|growth| {
            let data = "iVBORw0KGgoAAAAN".repeat(growth << 16);
            format!(
                r#"{open}{{"candidates":[{{"content":{{"parts":[{{"inlineData":{{"mimeType":"image/png","data":"{data}"}}}}]}},"finishReason":"STOP"}}]}}{close}"#
            )
        });
        let bound = |small: Duration| small.max(LEAST).mul_f64(GROWTH as f64 * FACTOR);
        assert_cpu_time(open, || relay(small.as_bytes()), || relay(large.as_bytes()), bound);
    }
}

/// Prints the cost of each form at the sizes that clients may send. It needs `LARGE_BODIES=1` and a release build.
#[test]
fn every_shape_is_read_and_encoded_at_every_size() {
    let is_large = std::env::var_os("LARGE_BODIES").is_some();
    let sizes = if is_large { [1.0, 4.0, 16.0, 32.0] } else { [0.01, 0.02, 0.04, 0.08] };
    let adapters = Api::ALL.map(|api| (api, property::adapter(api)));
    println!("CPU ms per MiB at {sizes:?} MiB");
    for (name, shape) in SHAPES {
        let per_thing = shape(8000).len() as f64 / 8000.0;
        let bodies = sizes.map(|mib| {
            let bytes = mib * f64::from(1 << 20);
            Bytes::from(shape((bytes / per_thing) as usize))
        });
        let show = |what: &str, times: [Duration; 4]| {
            let per_mib = |(time, body): (&Duration, &Bytes)| {
                format!("{:8.1}", time.as_secs_f64() * 1e3 / (body.len() as f64 / f64::from(1 << 20)))
            };
            let row: Vec<String> = times.iter().zip(&bodies).map(per_mib).collect();
            println!("{name:26} {what:10} {}", row.join(" "));
        };
        show("read", bodies.each_ref().map(|body| cpu_time(|| drop(parse(body)))));
        for (api, adapter) in &adapters {
            let encoded = |body: &Bytes| {
                let request = parse(body);
                cpu_time(|| encode(*api, &**adapter, &request))
            };
            show(api.as_str(), bodies.each_ref().map(encoded));
        }
    }
    for (name, body) in [
        ("token ids", format!(r#"{{"model":"m","input":[{}]}}"#, vec!["1"; 8 << 20].join(","))),
        (
            "largest accepted objects",
            conversation(USER, &format!(r#","x":[{}]"#, vec!["{}"; 999_990].join(","))),
        ),
        ("largest accepted members", {
            let members = many(999_990, |at| format!(r#""x{at}":1"#));
            conversation(&format!(r#"{{"role":"user","content":"hello",{members}}}"#), "")
        }),
    ] {
        let body = Bytes::from(body);
        let time = cpu_time(|| {
            let limits = RequestLimits::default();
            let read =
                parse_chat(body.clone(), &limits).is_ok() || parse_embeddings(body.clone(), &limits).is_ok();
            assert!(read);
        });
        println!("{name}: {} bytes, {time:?}", body.len());
    }
}
