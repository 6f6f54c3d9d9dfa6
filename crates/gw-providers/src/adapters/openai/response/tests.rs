//! Whole answers: what is tolerated, what is refused.

use gw_wire::failure::FailureKind;

use super::{chat, completion};

fn content(json: &str) -> String {
    chat(json.as_bytes()).unwrap().choices.remove(0).content.unwrap_or_default().into_owned()
}

#[test]
fn a_full_reply_is_read_with_all_its_parts() {
    let reply = chat(include_bytes!("../../../../fixtures/openai/replies/full.json")).unwrap();
    insta::assert_snapshot!("full", format!("{reply:#?}"));
}

#[test]
fn members_of_the_answer_are_kept() {
    let body = r#"{"choices":[{"message":{"content":"a"}}],"service_tier":"priority","metadata":{"a":"b"},"moderation":{"flagged":false},"provider":"x"}"#;
    let reply = chat(body.as_bytes()).unwrap();
    let members: Vec<_> = reply.members.iter().map(|(name, value)| (&**name, value.get())).collect();
    assert_eq!(
        members,
        [
            ("service_tier", "\"priority\""),
            ("metadata", r#"{"a":"b"}"#),
            ("moderation", r#"{"flagged":false}"#)
        ]
    );
    let other = chat(br#"{"choices":[{"message":{"content":"a"}}],"service_tier":"on_demand"}"#).unwrap();
    assert!(other.members.is_empty(), "strict clients refuse another vendor's tier");
}

#[test]
fn an_answer_that_the_provider_abandoned_is_a_failure() {
    for reason in
        ["error", "abort", "insufficient_system_resource", "function_call_filter: MALFORMED_FUNCTION_CALL"]
    {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"a"}},"finish_reason":"{reason}"}}]}}"#);
        let failure = chat(body.as_bytes()).unwrap_err();
        assert_eq!((failure.kind, failure.detail.as_deref()), (FailureKind::StreamBroken, Some(reason)));
    }
}

#[test]
fn u10_a_body_without_an_answer_is_an_invalid_response() {
    for body in [
        "",
        " ",
        "<html></html>",
        "null",
        "[]",
        "{}",
        "5",
        "\"x\"",
        "1e999",
        "{\"choices\":null}",
        "{\"choices\":{}}",
        "{\"choices\":[5]}",
        "{\"choices\":[{\"message\":5}]}",
        "{\"choices\":[{\"message\":{\"content\":1e999}}]}",
        "{\"choices\":[{\"message\":{\"content\":{}}}]}",
        "{\"choices\":[]",
        "{\"choices\":[]}{}",
        "{\"choices\":[1e999]}",
    ] {
        assert_eq!(chat(body.as_bytes()).unwrap_err().kind, FailureKind::InvalidResponse, "{body}");
        assert_eq!(completion(body.as_bytes()).unwrap_err().kind, FailureKind::InvalidResponse, "{body}");
    }
    let latin1 = b"{\"choices\":[{\"message\":{\"content\":\"\xe4\"}}]}";
    assert_eq!(chat(latin1).unwrap_err().kind, FailureKind::InvalidResponse);
}

#[test]
fn u10_the_failure_does_not_quote_the_body() {
    let failure = chat(b"{\"choices\":\"secret words of the model\"}").unwrap_err();
    assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
}

#[test]
fn errors_inside_a_200_are_failures() {
    for (body, kind) in [
        (r#"{"error":{"message":"x","code":429},"choices":[]}"#, FailureKind::RateLimited),
        (r#"{"error":{"message":"x","code":402}}"#, FailureKind::Billing),
        (r#"{"error":{"message":"x","type":"server_error","code":null}}"#, FailureKind::Server),
        (r#"{"error":"x"}"#, FailureKind::Server),
        (r#"{"object":"error","message":"x","code":400}"#, FailureKind::BadRequest),
        (r#"{"choices":[{"message":{"content":"x"},"finish_reason":"error"}]}"#, FailureKind::StreamBroken),
    ] {
        assert_eq!(chat(body.as_bytes()).unwrap_err().kind, kind, "{body}");
        assert_eq!(completion(body.as_bytes()).unwrap_err().kind, kind, "{body}");
    }
}

#[test]
fn empty_choices_and_sparse_choices_are_answers() {
    assert!(chat(b"{\"choices\":[]}").unwrap().choices.is_empty());
    let reply = chat("\u{feff}{\"choices\":[{},{\"index\":0},{\"index\":-4}]}".as_bytes()).unwrap();
    let indices: Vec<u32> = reply.choices.iter().map(|choice| choice.index).collect();
    assert_eq!(indices, [0, 1, 2]);
    assert_eq!(content(r#"{"choices":[{"text":"completion style"}]}"#), "completion style");
}

#[test]
fn u24_invalid_usage_does_not_lose_the_answer() {
    for odd in ["-1", "NaN", "Infinity", "9223372036854775808", "\"7\"", "null", "[]", "1e999", "{\"a\":NaN}"]
    {
        for usage in [odd.to_owned(), format!("{{\"prompt_tokens\":{odd},\"completion_tokens\":1}}")] {
            let body =
                format!(r#"{{"choices":[{{"message":{{"content":"a"}}}}],"usage":{usage},"usage":{usage}}}"#);
            let reply = chat(body.as_bytes()).unwrap();
            assert!(reply.usage.is_none_or(|usage| usage.estimated && usage.prompt <= 1 << 32), "{usage}");
            assert_eq!(content(&body), "a");
        }
    }
}

#[test]
fn u25_unusual_characters_are_kept_or_replaced() {
    assert_eq!(
        content(r#"{"id":"\ud800","choices":[{"message":{"content":"\u0000\n\u2028\udfff"}}]}"#),
        "\0\n\u{2028}\u{fffd}"
    );
}

#[test]
fn text_completions_are_read() {
    let body = r#"{"id":"cmpl","object":"text_completion","model":"m","choices":[
        {"text":"a","index":1,"logprobs":{"tokens":[]},"finish_reason":"length"},{"text":null,"index":0,"finish_reason":"stop"}],
        "usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    let reply = completion(body.as_bytes()).unwrap();
    let seen: Vec<_> =
        reply.choices.iter().map(|choice| (choice.index, &*choice.text, choice.logprobs.is_some())).collect();
    assert_eq!(seen, [(1, "a", true), (0, "", false)]);
    assert_eq!(reply.model.as_deref(), Some("m"));
}
