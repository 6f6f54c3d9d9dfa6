//! Complete responses, embeddings, the list of models and errors.

use std::time::Duration;

use gw_wire::failure::FailureKind;
use gw_wire::reply::{ChatReply, Finish, Vector};
use http::HeaderMap;

use super::adapter;
use crate::adapter::{Reading, Scheme};
use crate::adapters::trial::names;

fn read(body: &str) -> ChatReply<'_> {
    adapter().decode_chat(body.as_bytes(), &Reading::default()).unwrap()
}

#[test]
fn a_complete_answer_is_read() {
    let reply = read(include_str!("../../../../fixtures/gemini/full.response.json"));
    assert_eq!(reply.model.as_deref(), Some("gemini-3-flash-preview"));
    let [choice] = reply.choices.as_slice() else { panic!("one choice") };
    assert_eq!(choice.reasoning.as_deref(), Some("I should look it up."));
    assert_eq!(choice.content.as_deref(), Some("Let me look."));
    assert_eq!(choice.finish, Some(Finish::ToolCalls));
    let calls: Vec<_> =
        choice.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    let [(signed, "get_weather", arguments), ("fc-2", "now", "{}"), ("", "bare", "")] = calls.as_slice()
    else {
        panic!("{calls:?}")
    };
    assert_eq!(*arguments, r#"{"city":"Tokyo, \"Japan\"","days":2}"#);
    assert!(signed.starts_with("call_") && signed.ends_with("__thought__c2ln"), "{signed}");
    let details = choice.extras.first().map(|(name, value)| (&**name, value.get())).unwrap();
    assert_eq!(details.0, "reasoning_details");
    assert!(details.1.contains("dGV4dA==") && details.1.contains("google-gemini-v1"), "{}", details.1);
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.total()), (20, 20, 40));
    assert_eq!((usage.cached, usage.reasoning, usage.estimated), (Some(4), Some(8), false));
}

#[test]
fn a_refused_prompt_is_one_filtered_choice() {
    let reply = read(include_str!("../../../../fixtures/gemini/blocked.response.json"));
    assert_eq!(reply.choices.len(), 1);
    assert_eq!(
        (reply.choices[0].content.as_deref(), reply.choices[0].finish),
        (Some(""), Some(Finish::ContentFilter))
    );
    assert_eq!(reply.usage.map(|usage| (usage.prompt, usage.completion)), Some((7, 0)));
}

#[test]
fn a_model_that_gives_up_is_a_failure() {
    let body = |reason: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"x"}}]}},"finishReason":"{reason}"}}]}}"#)
    };
    for reason in [
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    ] {
        let body = body(reason);
        let failure = adapter().decode_chat(body.as_bytes(), &Reading::default()).unwrap_err();
        assert_eq!((failure.kind, failure.detail.as_deref()), (FailureKind::StreamBroken, Some(reason)));
    }
}

/// Grounding metadata of the text "Größe: 7 m".
const GROUNDING: &str = r#"{"webSearchQueries":["x"],"groundingChunks":[{"web":{"uri":"https://a.example","title":"A"}},{"web":{"uri":"https://b.example","title":"B"}}],
    "groundingSupports":[{"segment":{"startIndex":9,"endIndex":12,"text":"7 m"},"groundingChunkIndices":[1,7]}]}"#;

#[test]
fn sources_are_annotations_whole_and_streamed() {
    let body = format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"Größe: "}},{{"text":"7 m"}}]}},"finishReason":"STOP","groundingMetadata":{GROUNDING}}}]}}"#
    );
    let expected = concat!(
        r#"[{"type":"url_citation","url_citation":{"end_index":10,"start_index":7,"title":"B","url":"https://b.example"}},"#,
        r#"{"type":"url_citation","url_citation":{"end_index":0,"start_index":0,"title":"A","url":"https://a.example"}}]"#
    );
    let reply = read(&body);
    let (name, value) = reply.choices[0].extras.last().unwrap();
    assert_eq!((&**name, value.get()), ("annotations", expected));
    let mut extras = Vec::new();
    let mut decoder = adapter().stream(&Reading::default());
    let mut sink = |event: gw_wire::event::Event<'_>| {
        if let gw_wire::event::Event::Extra { name, value, .. } = event {
            extras.push(format!("{name} {}", value.get()));
        }
    };
    decoder.feed(format!("data: {}\n\n", body.replace('\n', "")).as_bytes(), &mut sink);
    decoder.eof(&mut sink);
    assert_eq!(extras, [format!("annotations {expected}")]);
}

#[test]
fn a_200_without_a_candidate_or_a_reason_for_it_is_a_failure() {
    for silent in [
        r#"{"usageMetadata":{"promptTokenCount":7},"modelVersion":"m"}"#,
        r#"{"candidates":[],"promptFeedback":{}}"#,
    ] {
        let failure = adapter().decode_chat(silent.as_bytes(), &Reading::default()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::StreamBroken, "{silent}");
    }
}

#[test]
fn images_are_read_and_drafts_are_skipped() {
    let reply = read(
        r#"{"candidates":[{"content":{"parts":[{"thought":true,"inlineData":{"mimeType":"image/png","data":"ZHJhZnQ="}},
        {"text":"A cat:","thoughtSignature":"dGV4dA=="},{"inlineData":{"mimeType":"image/png","data":"Y2F0"},"thoughtSignature":"cGlj"},
        {"inlineData":{"mimeType":"audio/wav","data":"bWVvdw=="}},{"inlineData":{"mimeType":"IMAGE/JPEG","data":"ZG9n"}}]},"finishReason":"STOP"}]}"#,
    );
    let [choice] = reply.choices.as_slice() else { panic!("one choice") };
    let images: Vec<_> =
        choice.images.iter().map(|image| (&*image.media_type, &*image.base64, image.tokens)).collect();
    assert_eq!(images, [("image/png", "Y2F0", 1290), ("IMAGE/JPEG", "ZG9n", 1290)]);
    assert_eq!((choice.content.as_deref(), choice.finish), (Some("A cat:"), Some(Finish::Stop)));
    let details: serde_json::Value = serde_json::from_str(choice.extras[0].1.get()).unwrap();
    assert_eq!((&details[0]["data"], &details[0]["id"]), (&"dGV4dA==".into(), &"text_6".into()));
    assert_eq!((&details[1]["data"], &details[1]["id"]), (&"cGlj".into(), &"image_0".into()));
}

#[test]
fn cached_tokens_are_within_the_prompt() {
    let usage = read(include_str!("../../../../fixtures/gemini/full.response.json")).usage.unwrap();
    assert!(usage.cached.unwrap() <= usage.prompt);
}

#[test]
fn a_call_ends_with_stop() {
    let reply = read(include_str!("../../../../fixtures/gemini/full.response.json"));
    assert_eq!(reply.choices[0].finish, Some(Finish::ToolCalls));
}

#[test]
fn an_answer_of_thoughts_only_has_no_content() {
    let reply = read(include_str!("../../../../fixtures/gemini/thoughts_only.response.json"));
    assert_eq!(
        (reply.choices[0].content.as_deref(), reply.choices[0].finish),
        (Some(""), Some(Finish::Length))
    );
    assert_eq!(reply.usage.map(|usage| (usage.completion, usage.reasoning)), Some((100, Some(100))));
}

#[test]
fn logprobs_come_in_openais_shape() {
    let reply = read(include_str!("../../../../fixtures/gemini/logprobs.response.json"));
    let written: serde_json::Value =
        serde_json::from_str(reply.choices[0].logprobs.as_ref().unwrap().get()).unwrap();
    let h = serde_json::json!({"token": "H", "logprob": -0.25, "bytes": [72]});
    let i = serde_json::json!({"token": "I", "logprob": -2.5, "bytes": [73]});
    let e = serde_json::json!({"token": "é", "logprob": 0.0, "bytes": [195, 169]});
    let with = |token: &serde_json::Value, top: Vec<&serde_json::Value>| {
        let mut token = token.clone();
        token["top_logprobs"] = serde_json::json!(top);
        token
    };
    assert_eq!(
        written,
        serde_json::json!({"content": [with(&h, vec![&h, &i]), with(&e, vec![&e])], "refusal": null})
    );
}

#[test]
fn every_finish_reason_has_its_meaning() {
    use Finish::{ContentFilter, Length, Stop, ToolCalls};
    for (reason, plain, called) in [
        ("STOP", Stop, ToolCalls),
        ("OTHER", Stop, ToolCalls),
        ("FINISH_REASON_UNSPECIFIED", Stop, ToolCalls),
        ("SOMETHING_NEW", Stop, ToolCalls),
        ("MAX_TOKENS", Length, Length),
        ("SAFETY", ContentFilter, ContentFilter),
        ("RECITATION", ContentFilter, ContentFilter),
        ("BLOCKLIST", ContentFilter, ContentFilter),
        ("PROHIBITED_CONTENT", ContentFilter, ContentFilter),
        ("SPII", ContentFilter, ContentFilter),
        ("LANGUAGE", ContentFilter, ContentFilter),
        ("IMAGE_SAFETY", ContentFilter, ContentFilter),
        ("IMAGE_PROHIBITED_CONTENT", ContentFilter, ContentFilter),
    ] {
        let body = |parts: &str| {
            format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},"finishReason":"{reason}"}}]}}"#)
        };
        assert_eq!(read(&body("")).choices[0].finish, Some(plain), "{reason}");
        assert_eq!(
            read(&body(r#"{"functionCall":{"name":"f"}}"#)).choices[0].finish,
            Some(called),
            "{reason}"
        );
    }
}

#[test]
fn several_candidates_are_choices_in_order() {
    let reply = read(
        r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"},
        {"index":0,"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}],"unknown":[1]}"#,
    );
    let read: Vec<_> =
        reply.choices.iter().map(|choice| (choice.index, choice.content.as_deref(), choice.finish)).collect();
    assert_eq!(read, [(0, Some("a"), Some(Finish::Length)), (1, Some("b"), Some(Finish::Stop))]);
}

#[test]
fn a_body_without_an_answer_is_an_invalid_response_or_its_error() {
    let kind = |body: &str| adapter().decode_chat(body.as_bytes(), &Reading::default()).unwrap_err().kind;
    for body in ["", "{}", "[]", "[{}]", "null", "<html>", r#"{"candidates":5}"#, "\u{0}"] {
        assert_eq!(kind(body), FailureKind::InvalidResponse, "{body}");
    }
    let error = r#"{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}"#;
    assert_eq!(kind(error), FailureKind::RateLimited);
    assert_eq!(kind(&format!("[{error}]")), FailureKind::RateLimited);
}

#[test]
fn embeddings_are_read_in_order() {
    let body = include_bytes!("../../../../fixtures/gemini/embeddings.response.json");
    let reply = adapter().decode_embeddings(body, 2).unwrap();
    let texts = reply.vectors.iter().map(|vector| match vector {
        Vector::Json { text, .. } => *text,
        Vector::Floats(_) | Vector::Packed(_) => panic!("text is kept"),
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["[0.5, -1e-3]", "[1, 2]"]);
    for (body, expected) in [
        (r#"{"embeddings":[{"values":[1]}]}"#, 2),
        (r#"{"embeddings":[{"values":[1]},{"values":[1,2]}]}"#, 2),
        (r#"{"embeddings":[{"values":[]}]}"#, 1),
        (r#"{"embeddings":[{}]}"#, 1),
        ("{}", 1),
        ("<", 1),
    ] {
        let failure = adapter().decode_embeddings(body.as_bytes(), expected).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse, "{body}");
    }
}

#[test]
fn listed_models_have_no_resource_prefix() {
    let call = (adapter().traits().models.unwrap().call)();
    assert_eq!((call.method.as_str(), &*call.path), ("GET", "/v1beta/models?pageSize=1000"));
    let body = include_bytes!("../../../../fixtures/gemini/models.response.json");
    assert_eq!(
        names((adapter().traits().models.unwrap().read)(body)),
        ["gemini-2.5-pro", "gemini-embedding-001"]
    );
    assert_eq!(
        (adapter().traits().models.unwrap().read)(b"[").unwrap_err().kind,
        FailureKind::InvalidResponse
    );
    assert_eq!(adapter().traits().scheme, Scheme::Header("x-goog-api-key"));
}

#[test]
fn every_documented_error_has_its_kind() {
    use FailureKind::*;
    let info = |reason: &str| {
        format!(
            r#","details":[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"{reason}","domain":"googleapis.com"}}]"#
        )
    };
    for (status, class, message, details, kind) in [
        (400, "INVALID_ARGUMENT", "Invalid value at 'contents'", String::new(), BadRequest),
        (
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            info("API_KEY_INVALID"),
            Auth,
        ),
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", String::new(), Auth),
        (
            400,
            "INVALID_ARGUMENT",
            "API key expired. Please renew the API key.",
            info("API_KEY_INVALID"),
            Auth,
        ),
        (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            String::new(),
            ContextLength,
        ),
        (400, "FAILED_PRECONDITION", "User location is not supported for the API use.", String::new(), Auth),
        (400, "FAILED_PRECONDITION", "Please enable billing on project 1.", String::new(), Billing),
        (401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", String::new(), Auth),
        (403, "PERMISSION_DENIED", "Permission denied", String::new(), Auth),
        (
            403,
            "PERMISSION_DENIED",
            "This API method requires billing to be enabled.",
            info("BILLING_DISABLED"),
            Billing,
        ),
        (404, "NOT_FOUND", "models/x is not found", String::new(), ModelMissing),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
            String::new(),
            RateLimited,
        ),
        (499, "CANCELLED", "The operation was cancelled.", String::new(), Server),
        (500, "INTERNAL", "An internal error has occurred.", String::new(), Server),
        (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", String::new(), Overloaded),
        (504, "DEADLINE_EXCEEDED", "The request timed out.", String::new(), Timeout),
    ] {
        let body =
            format!(r#"{{"error":{{"code":{status},"message":"{message}","status":"{class}"{details}}}}}"#);
        for body in [body.clone(), format!("[{body}\n]")] {
            let failure = adapter().classify(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!((failure.kind, failure.status), (kind, Some(status)), "{body}");
            assert_eq!(
                failure.message.contains(message),
                matches!(kind, BadRequest | ContextLength),
                "{}",
                failure.message
            );
        }
    }
    for body in ["", "<html>", "[]", "[5]"] {
        assert_eq!(adapter().classify(502, &HeaderMap::new(), body.as_bytes()).kind, Server);
    }
}

#[test]
fn retry_info_is_read() {
    let wait = |delay: &str, header: Option<&str>| {
        let body = format!(
            r#"{{"error":{{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[
            {{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[]}},
            {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":{delay}}}]}}}}"#
        );
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert("retry-after", header.parse().unwrap());
        }
        adapter().classify(429, &headers, body.as_bytes()).retry_after
    };
    assert_eq!(wait(r#""34s""#, None), Some(Duration::from_secs(34)));
    assert_eq!(wait(r#""34.5s""#, None), Some(Duration::from_millis(34_500)));
    assert_eq!(wait(r#""34s""#, Some("7")), Some(Duration::from_secs(7)));
    assert_eq!(wait(r#""86400s""#, None), Some(Duration::from_secs(300)));
    assert_eq!(wait(r#""0s""#, None), Some(Duration::from_secs(1)));
    for odd in [r#""s""#, r#""-1s""#, r#""infs""#, "5", "null"] {
        assert_eq!(wait(odd, None), None, "{odd}");
    }
}

#[test]
fn a_segment_without_bounds_is_accepted() {
    let support =
        format!(r#"{{"segment":{{"startIndex":{},"text":"7 m"}},"groundingChunkIndices":[0]}}"#, u64::MAX);
    let body = format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"Größe"}}]}},"finishReason":"STOP","groundingMetadata":{{"groundingChunks":[{{"web":{{"uri":"https://a.example"}}}}],"groundingSupports":[{support}]}}}}]}}"#
    );
    let reply = read(&body);
    let (_, value) = reply.choices[0].extras.last().unwrap();
    let value: serde_json::Value = serde_json::from_str(value.get()).unwrap();
    let place = &value[0]["url_citation"];
    assert_eq!((&place["start_index"], &place["end_index"]), (&5.into(), &5.into()), "the end of the text");
}
