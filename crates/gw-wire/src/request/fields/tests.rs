//! Tests of the exact error messages.

use bytes::Bytes;

use crate::request::{RequestLimits, parse_chat};

#[test]
fn messages_begin_with_the_field_as_openai_writes_them() {
    let user = r#""messages":[{"role":"user","content":"hi"}]"#;
    for (body, message) in [
        (r#"{}"#.to_owned(), "Missing required parameter: 'model'."),
        (r#"{"model":"m"}"#.to_owned(), "Missing required parameter: 'messages'."),
        (
            r#"{"model":7}"#.to_owned(),
            "Invalid type for 'model': expected a string, but got an integer instead.",
        ),
        (
            r#"{"model":""}"#.to_owned(),
            "Invalid 'model': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        ),
        (
            r#"{"model":"m","messages":[]}"#.to_owned(),
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":4}]}"#.to_owned(),
            "Invalid type for 'messages[0].content': expected one of a string or an array of objects, but got an integer \
             instead.",
        ),
        (
            r#"{"model":"m","messages":[{"role":"boss","content":"x"}]}"#.to_owned(),
            "Invalid 'messages[0].role': expected one of 'system', 'developer', 'user', 'assistant', 'tool', 'function', \
             but got 'boss' instead.",
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}"#
                .to_owned(),
            "Missing required parameter: 'messages[0].content[0].image_url.url'.",
        ),
        (
            format!(r#"{{"model":"m",{user},"temperature":3}}"#),
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
        ),
        (
            format!(r#"{{"model":"m",{user},"frequency_penalty":-2.5}}"#),
            "Invalid 'frequency_penalty': decimal below minimum value. Expected a value >= -2, but got -2.5 instead.",
        ),
        (
            format!(r#"{{"model":"m",{user},"n":0}}"#),
            "Invalid 'n': integer below minimum value. Expected a value >= 1, but got 0 instead.",
        ),
        (
            format!(r#"{{"model":"m",{user},"n":1.5}}"#),
            "Invalid type for 'n': expected an integer, but got a decimal number instead.",
        ),
        (
            format!(r#"{{"model":"m",{user},"stop":["a","b","c","d","e"]}}"#),
            "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5 \
             instead.",
        ),
        (
            format!(r#"{{"model":"m",{user},"logit_bias":{{"50256":101}}}}"#),
            "Invalid 'logit_bias.50256': decimal above maximum value. Expected a value <= 100, but got 101 instead.",
        ),
    ] {
        assert_eq!(
            parse_chat(Bytes::from(body.clone()), &RequestLimits::default()).unwrap_err().message,
            message,
            "{body}"
        );
    }
}

#[test]
fn messages_quote_the_clients_text_only_in_part() {
    let long = "é".repeat(5000);
    let body = format!(r#"{{"model":"m","messages":[{{"role":"{long}"}}]}}"#);
    let invalid = parse_chat(Bytes::from(body), &RequestLimits::default()).unwrap_err();
    assert!(invalid.message.contains(&format!("'{}…'", "é".repeat(64))), "{}", invalid.message);
}
