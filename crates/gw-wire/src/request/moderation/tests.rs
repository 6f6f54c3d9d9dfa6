//! The inputs of a moderation, their faults, and the answer.

use super::*;

fn parse(body: &str) -> Result<ModerationRequest, Invalid> {
    parse_moderation(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default())
}

#[test]
fn texts_have_a_result_each_and_parts_have_one() {
    let image = r#"{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}"#;
    for (input, model, expected) in [
        (r#""abc""#.to_owned(), r#","model":"a/m""#, (1, 3)),
        (r#"["abc","de"]"#.to_owned(), r#","models":["a/m"]"#, (2, 5)),
        (format!(r#"[{{"type":"text","text":"abc"}},{image}]"#), r#","model":"a/m""#, (1, 3)),
    ] {
        let request = parse(&format!(r#"{{"input":{input}{model}}}"#)).unwrap();
        assert_eq!((request.inputs, request.prompt_bytes), expected, "{input}");
        assert_eq!((request.input(), &*request.model), (&*input, "a/m"));
    }
    assert_eq!(parse(r#"{"input":"x","model":null}"#).unwrap().model, "");
}

#[test]
fn each_fault_has_its_code() {
    for (body, expected) in [
        (r#"{"model":"a/m"}"#, "missing_required_parameter"),
        (r#"{"model":"","input":"x"}"#, "empty_string"),
        (r#"{"model":"a/m","input":[]}"#, "empty_array"),
        (r#"{"model":"a/m","input":1}"#, "invalid_type"),
        (r#"{"model":"a/m","input":["x",1]}"#, "invalid_type"),
        (r#"{"model":"a/m","input":["x",{"type":"text","text":"y"}]}"#, "invalid_type"),
        (r#"{"model":"a/m","input":[{"type":"text","text":"y"},"x"]}"#, "invalid_type"),
        (r#"{"model":"a/m","input":[{"text":"y"}]}"#, "missing_required_parameter"),
        (r#"{"model":"a/m","input":[{"type":"text"}]}"#, "missing_required_parameter"),
        (r#"{"model":"a/m","input":[{"type":"image_url","image_url":{}}]}"#, "missing_required_parameter"),
        (r#"{"model":"a/m","input":[{"type":"audio"}]}"#, "invalid_value"),
        (r#"{"model":"a/m","input":"x","stream":true}"#, "unsupported_value"),
    ] {
        assert_eq!(parse(body).unwrap_err().code, expected, "{body}");
    }
}

#[test]
fn the_answer_has_openais_shape() {
    let request = parse(r#"{"model":"a/m","input":"x"}"#).unwrap();
    let raw = |json: &'static str| -> &'static RawValue { serde_json::from_str(json).unwrap() };
    let result = ModerationResult {
        flagged: true,
        categories: raw(r#"{"violence":true}"#),
        scores: raw(r#"{"violence":0.90}"#),
        input_types: Some(raw(r#"{"violence":["text"]}"#)),
    };
    let reply = ModerationReply { model: Some("m-1".to_owned()), results: vec![result], usage: None };
    let usage = Usage { prompt: 7, ..Usage::default() };
    assert_eq!(
        String::from_utf8(request.write(&reply, "modr-1", &usage)).unwrap(),
        r#"{"id":"modr-1","model":"m-1","results":[{"flagged":true,"categories":{"violence":true},"category_scores":{"violence":0.90},"category_applied_input_types":{"violence":["text"]}}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#
    );
}
