//! Tests of chat requests: every field, every code.

mod messages;
mod routing;
mod tools;

use bytes::Bytes;

use crate::request::{CacheOptions, ChatRequest, Fallback, Needs, RequestLimits, Routing, parse_chat};
use crate::strategy::Strategy;

const OK: &str = "";
const TYPE: &str = "invalid_type";
const VALUE: &str = "invalid_value";
const MISSING: &str = "missing_required_parameter";
const JSON: &str = "invalid_json";
const EMPTY_ARRAY: &str = "empty_array";
const EMPTY_STRING: &str = "empty_string";
const TOO_LONG: &str = "array_above_max_length";
const INT_LOW: &str = "integer_below_min_value";
const INT_HIGH: &str = "integer_above_max_value";
const DEC_LOW: &str = "decimal_below_min_value";
const DEC_HIGH: &str = "decimal_above_max_value";

fn code(body: &str) -> &'static str {
    parse_chat(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default())
        .err()
        .map_or(OK, |invalid| invalid.code)
}

/// A valid request with these members added.
fn with(members: &str) -> ChatRequest {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{members}}}"#);
    parse_chat(Bytes::from(body), &RequestLimits::default()).unwrap()
}

fn check_members(field: &str, cases: &[(&str, &str)]) {
    for (value, expected) in cases {
        let body =
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"{field}":{value}}}"#);
        assert_eq!(code(&body), *expected, "{field}: {value}");
    }
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"{field}":null}}"#);
    assert_eq!(code(&body), OK, "{field}: null is absent");
}

fn check_messages(cases: &[(&str, &str)]) {
    for (message, expected) in cases {
        assert_eq!(code(&format!(r#"{{"model":"m","messages":[{message}]}}"#)), *expected, "{message}");
    }
}

#[test]
fn model_and_messages_are_required() {
    for (body, expected) in [
        (r#"{}"#, MISSING),
        (r#"{"messages":[{"role":"user","content":"x"}]}"#, MISSING),
        (r#"{"model":null,"messages":[{"role":"user","content":"x"}]}"#, MISSING),
        (r#"{"model":"","messages":[{"role":"user","content":"x"}]}"#, EMPTY_STRING),
        (r#"{"model":1,"messages":[{"role":"user","content":"x"}]}"#, TYPE),
        (r#"{"model":["m"],"messages":[{"role":"user","content":"x"}]}"#, TYPE),
        (r#"{"model":"m"}"#, MISSING),
        (r#"{"model":"m","messages":null}"#, MISSING),
        (r#"{"model":"m","messages":[]}"#, EMPTY_ARRAY),
        (r#"{"model":"m","messages":"hi"}"#, TYPE),
        (r#"{"model":"m","messages":{}}"#, TYPE),
        (r#"{"model":"m","messages":["hi"]}"#, TYPE),
        (r#"{"model":"m","messages":[null]}"#, TYPE),
        (r#"{"model":"m","messages":[[]]}"#, TYPE),
    ] {
        assert_eq!(code(body), expected, "{body}");
    }
}

#[test]
fn decimal_fields_have_their_ranges() {
    for (field, low, high) in
        [("temperature", 0, 2), ("top_p", 0, 1), ("frequency_penalty", -2, 2), ("presence_penalty", -2, 2)]
    {
        let (low_ok, high_ok) = (low.to_string(), format!("{high}.0"));
        let (below, above) = (format!("{low}.0000001").replace("0.0", "-0.0"), format!("{high}.0000001"));
        check_members(
            field,
            &[
                (&low_ok, OK),
                (&high_ok, OK),
                ("0.5", OK),
                ("5e-1", OK),
                ("-0", OK),
                ("-0.0", OK),
                ("1e-999", OK),
                (&below, DEC_LOW),
                ("-3", DEC_LOW),
                ("-1e999", DEC_LOW),
                (&above, DEC_HIGH),
                ("3", DEC_HIGH),
                ("1e999", DEC_HIGH),
                ("18446744073709551616", DEC_HIGH),
                ("\"0.7\"", TYPE),
                ("true", TYPE),
                ("[]", TYPE),
                ("{}", TYPE),
                ("NaN", JSON),
            ],
        );
    }
}

#[test]
fn integer_fields_have_their_ranges_and_spelling() {
    let not_integers = [
        ("1.0", TYPE),
        ("1e2", TYPE),
        ("1.5", TYPE),
        ("\"1\"", TYPE),
        ("true", TYPE),
        ("[1]", TYPE),
        ("{}", TYPE),
    ];
    for field in ["n", "max_tokens", "max_completion_tokens", "seed", "top_logprobs"] {
        check_members(field, &not_integers);
        check_members(
            field,
            &[("1", OK), ("18446744073709551616", INT_HIGH), ("-18446744073709551616", INT_LOW)],
        );
        let huge = "9".repeat(100);
        check_members(field, &[(&huge, INT_HIGH), (&format!("-{huge}"), INT_LOW), ("1e999", TYPE)]);
    }
    check_members("n", &[("128", OK), ("129", INT_HIGH), ("0", INT_LOW), ("-1", INT_LOW), ("-0", INT_LOW)]);
    for field in ["max_tokens", "max_completion_tokens"] {
        check_members(field, &[("0", OK), ("-1", INT_LOW), ("9223372036854775807", OK)]);
    }
    check_members(
        "seed",
        &[("-9007199254740991", OK), ("-9223372036854775808", OK), ("9223372036854775807", OK)],
    );
    check_members("seed", &[("9223372036854775808", INT_HIGH), ("-9223372036854775809", INT_LOW)]);
    check_members("top_logprobs", &[("0", OK), ("20", OK), ("21", INT_HIGH), ("-1", INT_LOW)]);
}

#[test]
fn plain_fields_have_their_kinds() {
    for field in ["stream", "logprobs", "parallel_tool_calls", "store"] {
        check_members(field, &[("true", OK), ("false", OK), ("\"true\"", TYPE), ("1", TYPE), ("[]", TYPE)]);
    }
    for field in [
        "user",
        "reasoning_effort",
        "verbosity",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
    ] {
        check_members(
            field,
            &[("\"x\"", OK), ("\"\"", OK), ("\"\\u0000\\r\\n\"", OK), ("1", TYPE), ("{}", TYPE)],
        );
    }
    for field in ["audio", "prediction", "web_search_options", "metadata", "prompt_cache_options"] {
        check_members(field, &[("{}", OK), ("{\"a\":1}", OK), ("\"x\"", TYPE), ("[]", TYPE), ("true", TYPE)]);
    }
    check_members(
        "modalities",
        &[("[\"text\"]", OK), ("[]", OK), ("\"text\"", TYPE), ("[1]", TYPE), ("[null]", TYPE)],
    );
    check_members("moderation", &[("{}", OK), ("true", TYPE), ("\"auto\"", TYPE)]);
    check_members("top_k", &[("\"whatever\"", OK), ("{\"a\":[1e999]}", OK), ("-1", OK)]);
}

#[test]
fn stop_logit_bias_and_stream_options() {
    check_members(
        "stop",
        &[
            ("\"a\"", OK),
            ("\"\"", OK),
            ("[]", OK),
            ("[\"a\",\"b\",\"c\",\"d\"]", OK),
            ("[\"a\",\"b\",\"c\",\"d\",\"e\"]", TOO_LONG),
            ("[1]", TYPE),
            ("[\"a\",null]", TYPE),
            ("1", TYPE),
            ("{}", TYPE),
        ],
    );
    check_members(
        "logit_bias",
        &[
            ("{}", OK),
            ("{\"foo\":0}", OK),
            ("{\"1\":-100,\"2\":100,\"3\":0.5}", OK),
            ("{\"1\":100.0001}", DEC_HIGH),
            ("{\"1\":-101}", DEC_LOW),
            ("{\"1\":\"5\"}", TYPE),
            ("{\"1\":null}", TYPE),
            ("{\"1\":1e999}", DEC_HIGH),
            ("[]", TYPE),
            ("\"x\"", TYPE),
            ("{\"1\":0,\"\\u0031\":1}", JSON),
        ],
    );
    check_members(
        "stream_options",
        &[
            ("{}", OK),
            ("{\"include_usage\":true}", OK),
            ("{\"include_usage\":null}", OK),
            ("{\"include_obfuscation\":true}", OK),
            ("{\"include_usage\":1}", TYPE),
            ("true", TYPE),
            ("[]", TYPE),
            ("{\"include_usage\":true,\"include_usage\":false}", JSON),
        ],
    );
}

#[test]
fn parsed_fields_are_kept() {
    let request = with(r#""stream":true,"stream_options":{"include_usage":true},"n":3,"max_tokens":5"#);
    assert_eq!((&*request.model, request.stream, request.include_usage, request.n), ("m", true, true, 3));
    assert_eq!((request.max_tokens, request.prompt_bytes), (Some(5), 2));
    assert_eq!(with(r#""max_tokens":5,"max_completion_tokens":7"#).max_tokens, Some(7));
    let plain = with("\"x\":1");
    assert_eq!((plain.n, plain.max_tokens, plain.stream, plain.include_usage), (1, None, false, false));
    assert_eq!(plain.needs, Needs::default());
    let escaped = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\u00e9\n\ud83d\ude00"}]}]}"#;
    assert_eq!(
        parse_chat(Bytes::from(escaped), &RequestLimits::default()).unwrap().prompt_bytes,
        "é\n😀".len() as u64
    );
}

#[test]
fn needs_are_noted() {
    let needs = |members: &str| with(members).needs;
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
    assert_eq!(needs(tools), Needs { tools: true, tool_count: 1, ..Needs::default() });
    assert_eq!(with(tools).prompt_bytes, 2 + (tools.len() - "\"tools\":".len()) as u64);
    assert_eq!(needs(r#""tools":[],"functions":[]"#), Needs::default());
    assert!(needs(r#""functions":[{"name":"f"}]"#).tools);
    assert!(needs(r#""response_format":{"type":"json_object"}"#).json_mode);
    assert!(needs(r#""response_format":{"type":"json_schema","json_schema":{"name":"s"}}"#).json_schema);
    assert!(needs(r#""modalities":["text","audio"]"#).audio_output);
    assert_eq!(needs(r#""tools":[{"type":"web_search"}]"#).openai_only, Some(Needs::OTHER_TOOLS));
    let custom = r#""tools":[{"type":"custom","custom":{"name":"c"}}]"#;
    assert_eq!(needs(custom), Needs { tools: true, tool_count: 1, custom_tools: true, ..Needs::default() });
    // Tools in another form than OpenAI's are left to OpenAI to judge.
    for odd in [
        r#""tools":[{"type":"custom","custom":{}}]"#.to_owned(),
        r#""tools":[{"type":"custom","name":"d"}],"tool_choice":{"type":"custom","custom":{"name":"d"}}"#
            .to_owned(),
        format!(r#"{custom},"tool_choice":{{"type":"custom","name":"c"}}"#),
        format!(
            r#"{custom},"tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"auto","tools":[]}}}}"#
        ),
        format!(
            r#"{custom},"tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"x","tools":[{{"type":"custom","custom":{{"name":"c"}}}}]}}}}"#
        ),
    ] {
        assert_eq!(needs(&odd).openai_only, Some(Needs::OTHER_TOOLS), "{odd}");
    }
    let of = |part: &str| {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{part}]}}]}}"#);
        parse_chat(Bytes::from(body), &RequestLimits::default()).unwrap().needs
    };
    assert!(of(r#"{"type":"image_url","image_url":{"url":"https://x"}}"#).image);
    assert!(of(r#"{"type":"input_audio","input_audio":{"data":"","format":"wav"}}"#).audio_input);
    assert_eq!(of(r#"{"type":"video_url"}"#).openai_only, Some(Needs::OTHER_PARTS));
}

#[test]
fn large_bodies_take_linear_time() {
    let million = 1_000_000;
    let many_names: String = (0..million / 10).map(|at| format!(",\"k{at}\":0")).collect();
    let user = r#""model":"m","messages":[{"role":"user","content":"x""#;
    let bodies = [
        format!("{{{user}}}],\"x\":[{}0]}}", "0,".repeat(million)),
        format!("{{{user}}}],\"stop\":[{}0]}}", "0,".repeat(million)),
        format!("{{{user}}}]{many_names}}}"),
        format!("{{{user}{many_names}}}]}}"),
        format!("{{{user}}}],\"logit_bias\":{{\"k\":0{many_names}}}}}"),
        format!("{{{user},\"y\":\"{}\"}}]}}", "\\n".repeat(million)),
        format!("{{\"model\":\"m\",\"messages\":[{}0]}}", "{\"role\":\"assistant\"},".repeat(million / 20)),
    ];
    for body in bodies {
        let bytes = Bytes::from(body);
        // Without a clock: a quadratic step would take minutes, and the allocations are counted beside the adapters.
        let _ = parse_chat(bytes, &RequestLimits::default());
    }
}
