//! The deepest bodies that the gateway accepts fit into a small part of a worker's stack, in every dialect.
//!
//! The walks over a client's data are bounded by the 128 levels of a body, and the walks over the references of a schema
//! by a number of references.

use bytes::Bytes;
use gw_providers::adapter::{ChoiceRange, Target};
use gw_providers::settings::Api;
use gw_wire::request::{RequestLimits, parse_chat};

use crate::dialects::property;

/// Half of the stack of a worker of tokio. The frames of a release build are smaller than those of a test.
const STACK_BYTES: usize = 1 << 20;

/// Levels that a body may have below its tools and messages.
const LEVELS: usize = 118;

/// References that lead from one definition to the next.
const CHAIN: usize = 500;

fn nested(open: &str, core: &str, close: &str, levels: usize) -> String {
    format!("{}{core}{}", open.repeat(levels), close.repeat(levels))
}

fn with_schema(schema: &str) -> String {
    let tool = format!(r#"{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}"#);
    let format =
        format!(r#"{{"type":"json_schema","json_schema":{{"name":"s","strict":true,"schema":{schema}}}}}"#);
    format!(
        r#"{{"model":"any/m","messages":[{{"role":"user","content":"x"}}],"tools":[{tool}],"response_format":{format}}}"#
    )
}

fn bodies() -> Vec<(&'static str, String)> {
    let object = nested(r#"{"type":"object","properties":{"a":"#, r#"{"type":"string"}"#, "}}", LEVELS / 2);
    let list = nested(r#"{"type":"array","items":"#, r#"{"type":"string"}"#, "}", LEVELS);
    let any = nested(r#"{"anyOf":["#, r#"{"type":"string"}"#, "]}", LEVELS / 2);
    let all = nested(r#"{"allOf":["#, r#"{"type":"string"}"#, "]}", LEVELS / 2);
    let chain: Vec<String> = (0..CHAIN)
        .map(|n| {
            format!(r##""d{n}":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d{}"}}}}}}"##, n + 1)
        })
        .chain([format!(r#""d{CHAIN}":{{"type":"string"}}"#)])
        .collect();
    let chain = format!(r##"{{"type":"object","$ref":"#/$defs/d0","$defs":{{{}}}}}"##, chain.join(","));
    let own = r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##;
    let deep = nested("[", "", "]", 4_000);
    let calls = format!(
        r#"{{"model":"any/m","messages":[{{"role":"user","content":"x"}},
            {{"role":"assistant","content":null,"tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":"{deep}"}}}}]}},
            {{"role":"tool","tool_call_id":"a","content":"{deep}"}}]}}"#
    );
    let member = nested(r#"{"content":["#, "1", "]}", LEVELS / 2);
    let member = format!(
        r#"{{"model":"any/m","messages":[{{"role":"user","content":"x","other":[{member}]}}],"other":{member}}}"#
    );
    vec![
        ("objects", with_schema(&object)),
        ("lists", with_schema(&list)),
        ("anyOf", with_schema(&any)),
        ("allOf", with_schema(&all)),
        ("a chain of references", with_schema(&chain)),
        ("a schema in itself", with_schema(own)),
        ("texts of calls", calls),
        ("unknown members", member),
    ]
}

#[test]
fn the_deepest_bodies_need_no_deep_stack() {
    let work = || {
        for (name, body) in bodies() {
            let request = parse_chat(Bytes::from(body), &RequestLimits::NONE);
            let request = request.unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
            for api in Api::ALL {
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
                // A refusal is an answer, too. A stack that is too small ends the process.
                let _ = property::adapter(api).chat(
                    &request,
                    &ChoiceRange { n: 1, prompts: 0..1, from: 0 },
                    &target,
                );
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread").join().expect("every body is encoded or refused");
}
