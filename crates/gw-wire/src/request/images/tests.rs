//! Requests for images, and the answers to them.

use serde_json::{Value, json};

use super::*;

fn parse(more: &str) -> Result<ImagesRequest, &'static str> {
    let body = format!(r#"{{"model":"m","prompt":"a cat"{more}}}"#);
    parse_images(Bytes::from(body), &RequestLimits::default()).map_err(|fault| fault.code)
}

#[test]
fn each_member_is_checked() {
    for (more, code) in [
        (r#","n":0"#, "integer_below_min_value"),
        (r#","n":11"#, "integer_above_max_value"),
        (r#","n":"2""#, "invalid_type"),
        (r#","size":"big""#, "invalid_value"),
        (r#","size":7"#, "invalid_type"),
        (r#","quality":"best""#, "invalid_value"),
        (r#","background":"red""#, "invalid_value"),
        (r#","output_format":"gif""#, "invalid_value"),
        (r#","response_format":"text""#, "invalid_value"),
        (r#","moderation":"off""#, "invalid_value"),
        (r#","style":"flat""#, "invalid_value"),
        (r#","output_compression":101"#, "integer_above_max_value"),
        (r#","stream":1"#, "invalid_type"),
        (r#","partial_images":4"#, "integer_above_max_value"),
        (r#","user":1"#, "invalid_type"),
        (r#","safety_identifier":1"#, "invalid_type"),
    ] {
        assert_eq!(parse(more).map(drop), Err(code), "{more}");
    }
    let parsed = |body: &'static str| parse_images(Bytes::from(body), &RequestLimits::default());
    assert_eq!(parsed(r#"{"model":"m"}"#).unwrap_err().code, "missing_required_parameter");
    assert_eq!(parsed(r#"{"prompt":"x"}"#).unwrap().model, "");
    let whole =
        parse(r#","n":2,"size":"1024x1536","quality":"high","stream":true,"partial_images":2"#).unwrap();
    assert_eq!((whole.n, whole.partial_images, whole.stream), (2, 2, true));
    assert_eq!(whole.form, ImageForm::of(Some("1024x1536"), Some("high")));
    assert_eq!(parse(r#","size":"auto","quality":null"#).unwrap().form, ImageForm::default());
}

#[test]
fn a_provider_gets_the_members_as_they_were_written() {
    let request = parse(r#","n":3,"size":"512x512","seed":1,"user":"u","quality":null"#).unwrap();
    let mut out = Vec::new();
    let mut body = ObjectWriter::begin(&mut out);
    request.write_members(&mut body, 2);
    body.finish();
    let sent: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(sent, json!({"prompt": "a cat", "n": 2, "size": "512x512", "user": "u"}));
}

#[test]
fn an_answer_has_all_images_and_the_usage() {
    let request = parse("").unwrap();
    let image =
        |text: &'static str| GeneratedImage { content: ImageContent::Url(text.into()), revised_prompt: None };
    let reply =
        |image| ImagesReply { images: vec![image], size: Some("512x512".into()), ..ImagesReply::default() };
    let replies = [reply(image("https://a/1")), reply(image("https://a/2"))];
    let usage = Usage { prompt: 5, completion: 272, image_completion: Some(272), ..Usage::default() };
    let out = request.write(&replies, 7, &usage, Some(Money::from_femtos(1_500_000_000_000)));
    let answer: Value = serde_json::from_slice(&out).unwrap();
    let expected = json!({
        "created": 7, "data": [{"url": "https://a/1"}, {"url": "https://a/2"}], "size": "512x512",
        "usage": {
            "input_tokens": 5, "output_tokens": 272, "total_tokens": 277, "cost_usd": 0.0015,
            "input_tokens_details": {"text_tokens": 5, "image_tokens": 0},
            "output_tokens_details": {"text_tokens": 0, "image_tokens": 272}
        }
    });
    assert_eq!(answer, expected);
    let form = replies[0].measured(request.form).units.form();
    assert_eq!(form, ImageForm::of(Some("512x512"), None));
}
