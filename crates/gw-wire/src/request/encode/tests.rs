//! Tests of the bodies for OpenAI-type upstreams.

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    EmbeddingsOptions, EncodeOptions, MaxTokensName, encode_chat, encode_completion, encode_embeddings,
};
use crate::request::{RequestLimits, parse_chat, parse_completion, parse_embeddings};

const PLAIN: EncodeOptions<'_> = EncodeOptions::plain("up", MaxTokensName::MaxTokens);

const USER: &str = r#""messages":[ {"role":"user", "content":"h\u0069"} ]"#;

fn chat(members: &str, options: &EncodeOptions<'_>) -> String {
    let body = format!(r#"{{"model":"m",{USER}{members}}}"#);
    String::from_utf8(encode_chat(
        &parse_chat(Bytes::from(body), &RequestLimits::default()).unwrap(),
        options,
    ))
    .unwrap()
}

fn check_chat(members: &str, expected: &str) {
    assert_eq!(chat(members, &PLAIN), format!(r#"{{"model":"up",{USER}{expected}}}"#), "{members}");
}

#[test]
fn other_members_are_copied_byte_for_byte() {
    let same = concat!(
        r#","temperature":1.50,"x":{"a" : [1e2, null,"\u0041"]},"stop":[ "a" ],"n":1,"stream":false,"user":"a\/b""#,
        r#","tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","metadata":{"k":"v"}"#
    );
    check_chat(same, same);
    check_chat(r#", "a\"\u2028b" :  1 "#, r#","a\"\u2028b":1"#);
}

#[test]
fn gateway_members_and_empty_members_are_removed() {
    check_chat(r#","routing":{"strategy":"cost"},"cache":{"enabled":false},"seed":null,"Model":"x""#, "");
    check_chat(
        r#","stop":[ ],"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"x":1"#,
        r#","x":1"#,
    );
    check_chat(r#","tool_choice":"none""#, r#","tool_choice":"none""#);
    check_chat(r#","functions":[],"function_call":"auto""#, "");
    let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
    check_chat(&format!(r#"{tools},"functions":[{{"name":"f"}}],"function_call":"auto""#), tools);
    let functions = r#","functions":[{"name":"f"}],"function_call":{"name":"f"}"#;
    check_chat(functions, functions);
    check_chat(&format!(r#","tools":[]{functions}"#), functions);
}

#[test]
fn streams_always_ask_for_usage() {
    let usage = r#","stream":true,"stream_options":{"include_usage":true}"#;
    check_chat(r#","stream":true"#, usage);
    check_chat(
        r#","stream":true,"stream_options":{"include_usage":false,"include_obfuscation":true}"#,
        usage,
    );
    check_chat(r#","stream":false,"stream_options":{"include_usage":true}"#, r#","stream":false"#);
    let silent = EncodeOptions { ask_stream_usage: false, ..PLAIN };
    let members = r#","stream_options":{"include_usage":true},"stream":true"#;
    assert_eq!(chat(members, &silent), format!(r#"{{"model":"up",{USER},"stream":true}}"#));
}

#[test]
fn one_token_limit_is_sent_under_the_upstreams_name() {
    let both = r#","max_tokens":5,"x":1,"max_completion_tokens":7"#;
    check_chat(both, r#","max_tokens":7,"x":1"#);
    check_chat(r#","max_tokens":0"#, r#","max_tokens":0"#);
    let reasoning = EncodeOptions { max_tokens_name: MaxTokensName::MaxCompletionTokens, ..PLAIN };
    assert_eq!(chat(both, &reasoning), format!(r#"{{"model":"up",{USER},"max_completion_tokens":7,"x":1}}"#));
    let clamped = EncodeOptions { clamp_max_tokens: Some(6), ..PLAIN };
    assert_eq!(chat(both, &clamped), format!(r#"{{"model":"up",{USER},"max_tokens":6,"x":1}}"#));
    assert_eq!(chat(r#","max_tokens":5"#, &clamped), format!(r#"{{"model":"up",{USER},"max_tokens":5}}"#));
    assert_eq!(chat("", &clamped), format!(r#"{{"model":"up",{USER}}}"#));
}

#[test]
fn completions_are_encoded_like_chats() {
    let body = concat!(
        r#"{"prompt":[ "a", "b" ],"model":"m","max_tokens":9,"stop":[],"logprobs":null,"stream":true,"routing":{},"#,
        r#""cache":{},"stream_options":{},"best_of":2,"max_completion_tokens":30}"#
    );
    let request = parse_completion(Bytes::from(body), &RequestLimits::default()).unwrap();
    let options = EncodeOptions {
        clamp_max_tokens: Some(4),
        ..EncodeOptions::plain("a\"b\n", MaxTokensName::MaxCompletionTokens)
    };
    assert_eq!(
        String::from_utf8(encode_completion(&request, &options)).unwrap(),
        concat!(
            r#"{"prompt":[ "a", "b" ],"model":"a\"b\n","max_tokens":4,"best_of":2,"#,
            r#""stream":true,"stream_options":{"include_usage":true}}"#
        )
    );
}

#[test]
fn embeddings_ask_for_floats_and_carry_the_inputs_of_their_batch() {
    let encode = |input: &str, range| {
        let members = r#""encoding_format":"base64","dimensions":4,"user":"u","routing":1,"cache":1,"x":[1]"#;
        let request = parse_embeddings(
            Bytes::from(format!(r#"{{"model":"m","input":{input},{members}}}"#)),
            &RequestLimits::default(),
        )
        .unwrap();
        let options = EmbeddingsOptions {
            upstream_model: Some("up"),
            dimensions: "dimensions",
            encoding_format: true,
            withheld: &[],
        };
        String::from_utf8(encode_embeddings(&request, range, &options)).unwrap()
    };
    let rest = r#""dimensions":4,"user":"u","x":[1],"encoding_format":"float""#;
    for (input, range, sent) in [
        ("\"a\\n\"", 0..1, "\"a\\n\""),
        ("[\"a\" ,\"b\"]", 0..2, "[\"a\" ,\"b\"]"),
        ("[\"a\" ,\"b\\n\",\"c\"]", 1..3, "[\"b\\n\",\"c\"]"),
        ("[\"a\" ,\"b\"]", 1..2, "[\"b\"]"),
        ("[1, 2]", 0..1, "[1, 2]"),
        ("[[1, 2],[3]]", 0..1, "[[1,2]]"),
        ("[[1],[2],[3]]", 1..3, "[[2],[3]]"),
    ] {
        assert_eq!(encode(input, range), format!(r#"{{"model":"up","input":{sent},{rest}}}"#), "{input}");
    }
}

#[test]
fn a_batch_keeps_all_members_of_its_embeddings_request() {
    let members = r#""encoding_format":"base64","dimensions":4,"user":"u","x":[1, 2]"#;
    let parse = |input: &str| {
        parse_embeddings(
            Bytes::from(format!(r#"{{"model":"m","input":{input},{members}}}"#)),
            &RequestLimits::default(),
        )
        .unwrap()
    };
    for (input, places, left, bytes) in [
        (r#"["a","b\u00e9","c\n"]"#, &[2, 1][..], r#"["c\n","b\u00e9"]"#, [2, 3]),
        (r#"["a","bb"]"#, &[1], r#"["bb"]"#, [2, 0]),
        (r#""alone""#, &[0], r#"["alone"]"#, [5, 0]),
        ("[[1, 2],[3],[4]]", &[0, 2], "[[1,2],[4]]", [8, 4]),
        ("[1, 2]", &[0], "[[1,2]]", [8, 0]),
    ] {
        let whole = parse(input);
        let part = whole.subset(places).unwrap();
        assert_eq!(part.body.get("input"), Some(left), "{input}");
        assert_eq!(
            (part.inputs.len(), part.encoding, part.dimensions),
            (places.len(), whole.encoding, Some(4))
        );
        assert_eq!(part.body.members().filter(|(name, _)| *name != "input").count(), 5);
        assert_eq!((part.body.get("x"), part.model.as_str()), (Some("[1, 2]"), "m"));
        for (at, place) in places.iter().enumerate() {
            assert_eq!(part.input(at), whole.input(*place));
            assert_eq!((part.input_bytes(at), whole.input_bytes(*place)), (bytes[at], bytes[at]), "{input}");
        }
        assert_eq!(part.prompt_bytes, bytes.iter().sum::<u64>());
    }
    assert!(parse(r#"["a"]"#).subset(&[]).is_none() && parse(r#"["a"]"#).subset(&[1]).is_none());
}

proptest! {
    #[test]
    fn unknown_members_survive(members in prop::collection::vec(("x_[a-z\u{e9}\"\\\\\n]{0,6}", "[ -~é\n]{0,12}"), 0..8)) {
        let mut unique = std::collections::BTreeMap::new();
        unique.extend(members);
        let text: String = unique.iter().map(|(name, value)| {
            format!(" ,\t{} :\n[ {} , 1.50e+01 ]", serde_json::to_string(name).unwrap(), serde_json::to_string(value).unwrap())
        }).collect();
        let sent = chat(&text, &PLAIN);
        let values: Vec<_> = unique.values().map(|value| {
            format!("[ {} , 1.50e+01 ]", serde_json::to_string(value).unwrap())
        }).collect();
        let read: std::collections::BTreeMap<String, &serde_json::value::RawValue> = serde_json::from_str(&sent).unwrap();
        for (name, value) in unique.keys().zip(values) {
            prop_assert_eq!(read[name].get(), value);
        }
        prop_assert_eq!(read.len(), unique.len() + 2);
        // The gateway would accept its own upstream bodies.
        prop_assert!(parse_chat(Bytes::from(sent), &RequestLimits::default()).is_ok());
    }
}

#[test]
fn a_call_for_later_choices_has_a_seed_of_its_own() {
    for (from, sent) in [(0, 7), (1, 8), (3, 10)] {
        let options = EncodeOptions { choices: Some(1), from, ..PLAIN };
        let body = chat(r#","n":4,"seed":7"#, &options);
        assert!(body.contains(&format!(r#""n":1,"seed":{sent}"#)), "{body}");
    }
}

#[test]
fn unsupported_members_are_dropped_and_renamed_ones_renamed() {
    let options = EncodeOptions {
        send_model: false,
        unsupported: &["logprobs", "seed"],
        choices: Some(1),
        messages: Some("[]"),
        ..PLAIN
    };
    assert_eq!(
        chat(r#","n":3,"seed":1,"logprobs":true,"user":"u""#, &options),
        r#"{"messages":[],"n":1,"user":"u"}"#
    );
    let request = Bytes::from(r#"{"model":"m","input":"a","dimensions":4,"encoding_format":"base64"}"#);
    let options = EmbeddingsOptions {
        upstream_model: None,
        dimensions: "output_dimension",
        encoding_format: false,
        withheld: &[],
    };
    let sent =
        encode_embeddings(&parse_embeddings(request, &RequestLimits::default()).unwrap(), 0..1, &options);
    assert_eq!(String::from_utf8(sent).unwrap(), r#"{"input":"a","output_dimension":4}"#);
}
