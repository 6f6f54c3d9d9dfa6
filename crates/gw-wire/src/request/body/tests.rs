//! Tests of reading a body: JSON, Unicode, names.

use bytes::Bytes;
use proptest::prelude::*;

use super::{KNOWN, known, known_names};
use crate::request::{Body, Invalid, RequestLimits, parse_chat, parse_completion, parse_embeddings};

fn parse(body: impl Into<Vec<u8>>) -> Result<Body, Invalid> {
    Body::parse(Bytes::from(body.into()), &RequestLimits::default())
}

fn refused(body: impl Into<Vec<u8>>) -> String {
    let invalid = parse(body).unwrap_err();
    assert_eq!(invalid.code, "invalid_json");
    invalid.message
}

#[test]
fn a_body_that_is_no_json_object_in_utf8_is_refused() {
    for body in [
        &b""[..],
        b" ",
        b"{",
        b"null",
        b"[]",
        b"1",
        b"\"a\"",
        b"{} {}",
        b"{'a':1}",
        b"{\"a\":NaN}",
        b"{\"a\":01}",
        b"\xef\xbb\xbf{}",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":\"\xc0\x80\"}",
        b"{\"a\":\"\xed\xa0\x80\"}",
        b"{\"\xf5\":1}",
        b"\xff\xfe{\0}\0",
        b"\xfe\xff\0{\0}",
        b"{\0}\0",
        b"{\"a\":\"\n\"}",
        b"{\"a\":1,}",
        b"a=1&b=2",
    ] {
        refused(body);
    }
    assert!(refused("\u{feff}{}").contains("byte order mark"));
    assert!(refused("[]").contains("must be a JSON object"));
    assert!(refused("{").contains("ends too early"));
    assert_eq!(
        refused(&b"{\"a\":\"\xff\"}"[..]),
        "The request body is not UTF-8: byte 6 is not part of a character."
    );
    assert_eq!(refused("{\"a\":x}"), "The request body is not valid JSON: unexpected byte at offset 5.");
}

#[test]
fn members_come_in_order_unescaped_and_without_nulls() {
    let body = parse(" { \"\\u006dodel\" : \"x\" , \"gone\":null,\"b\":[ 1, null ] , \"\":{} }\n").unwrap();
    let members: Vec<_> = body.members().collect();
    assert_eq!(members, [("model", "\"x\""), ("b", "[ 1, null ]"), ("", "{}")]);
    assert_eq!(body.get("gone"), None);
    assert_eq!(body.view("b").unwrap().elements().count(), 2);
}

#[test]
fn known_and_unknown_members_may_nest_128_levels_deep() {
    for name in ["messages", "unheard_of"] {
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
            format!("{{\"{name}\":{open}{close}}}")
        };
        assert!(parse(nested(128)).is_ok());
        for depth in [129, 100_000, 1_000_000] {
            assert!(refused(nested(depth)).contains("deeper than 128 levels"));
        }
        refused(format!("{{\"{name}\":{}", "[".repeat(1_000_000)));
        refused("{\"a\":".repeat(1_000_000));
    }
}

#[test]
fn a_name_given_twice_is_refused_however_it_is_spelled() {
    for body in [
        r#"{"model":"a","model":"b"}"#,
        r#"{"model":"a","\u006dodel":"b"}"#,
        r#"{"model":null,"model":"b"}"#,
        r#"{"model":"b","model":null}"#,
    ] {
        assert_eq!(refused(body), "Invalid 'model': the member is given more than once.");
    }
    let many: String = (0..1000).map(|at| format!("\"k{at}\":0,")).collect();
    assert!(parse(format!("{{{many}\"k1000\":0}}")).is_ok());
    assert_eq!(refused(format!("{{{many}\"k7\":0}}")), "Invalid 'k7': the member is given more than once.");
    assert!(refused(format!("{{\"{0}\":1,\"{0}\":1}}", "n".repeat(9000))).len() < 200);
}

#[test]
fn a_lone_surrogate_is_refused_with_the_name_of_its_member() {
    assert!(refused(r#"{"a":1,"user":"\ud83d"}"#).starts_with("Invalid 'user': "));
    assert!(refused(r#"{"messages":[{"content":"x\udc00y"}]}"#).starts_with("Invalid 'messages': "));
    assert!(refused(r#"{"anything":{"\ud800":1}}"#).starts_with("Invalid 'anything': "));
    assert!(refused(r#"{"\ud800":1}"#).contains("member name"));
    assert!(parse(r#"{"user":"\ud83d\ude00 \u0000"}"#).is_ok());
}

#[test]
fn names_that_differ_from_known_ones_only_in_case_are_dropped() {
    for (len, names) in KNOWN.iter().enumerate() {
        assert!(names.iter().all(|name| name.len() == len && known(name) == Some(*name)), "{len}");
    }
    assert_eq!(known_names().count(), 49);
    let body = r#"{"Model":"evil","MODEL":"evil","model":"good","Mode_l":1,"meſſages":1,"to\u212a":1,"prompt_cache_\u212aey":1,
        "ROUTING":{},"x":1}"#;
    let body = parse(body).unwrap();
    let names: Vec<_> = body.members().map(|(name, _)| name).collect();
    assert_eq!(names, ["model", "Mode_l", "to\u{212a}", "x"]);
    for name in known_names() {
        let body = parse(format!("{{\"{}\":1,\"{name}\":2}}", name.to_uppercase())).unwrap();
        assert_eq!(body.members().collect::<Vec<_>>(), [(name, "2")]);
    }
    let missing = parse_chat(
        Bytes::from_static(br#"{"Model":"m","messages":[{"role":"user","content":"x"}]}"#),
        &RequestLimits::default(),
    );
    assert_eq!(missing.unwrap_err().code, "missing_required_parameter");
}

fn any_answer(bytes: Vec<u8>) {
    let bytes = Bytes::from(bytes);
    for invalid in [
        parse_chat(bytes.clone(), &RequestLimits::default()).err(),
        parse_completion(bytes.clone(), &RequestLimits::default()).err(),
        parse_embeddings(bytes, &RequestLimits::default()).err(),
    ]
    .into_iter()
    .flatten()
    {
        assert!(invalid.message.len() < 1000 && !invalid.code.is_empty());
    }
}

proptest! {
    #[test]
    fn parsing_a_body_never_panics(bytes in any::<Vec<u8>>()) {
        any_answer(bytes);
    }

    #[test]
    fn parsing_any_value_in_any_member_never_panics(
        picks in prop::collection::vec((0..known_names().count(), value()), 0..6)
    ) {
        let members: String = picks.iter().map(|(at, value)| format!(",\"{}\":{value}", known_names().nth(*at).unwrap())).collect();
        any_answer(format!("{{\"model\":\"m\"{members}}}").into_bytes());
        any_answer(format!("{{\"prompt\":1{members}}}").into_bytes());
    }
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1".to_owned()),
        Just("1.0".to_owned()),
        Just("1e999".to_owned()),
        Just("\"function\"".to_owned()),
        Just("\"user\"".to_owned()),
        Just("\"\"".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("\"\\ud83d\\ude00\"".to_owned()),
        Just("\"text\"".to_owned()),
    ];
    let names = [
        "type",
        "role",
        "content",
        "function",
        "name",
        "text",
        "json_schema",
        "tool_calls",
        "fallback",
        "ttl",
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((0..names.len(), inner), 0..4).prop_map(move |members| {
                let members: Vec<_> =
                    members.iter().map(|(at, value)| format!("\"{}\":{value}", names[*at])).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
