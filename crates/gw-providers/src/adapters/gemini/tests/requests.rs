//! Encoded requests.

use gw_wire::failure::FailureKind;
use http::Method;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{adapter, body_of, chat, completion, embeddings, encode, target};
use crate::adapter::ChoiceRange;
use crate::adapters::gemini::candidate::on_one_line;
use crate::adapters::gemini::request::fold;

#[derive(Deserialize)]
struct Upstream<'a> {
    path: String,
    warnings: Vec<String>,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Compares two JSON texts byte by byte, except for white space between tokens.
fn check(request: &str, upstream: &str) {
    let encoded = encode(request).unwrap();
    let upstream: Upstream<'_> = serde_json::from_str(upstream).unwrap();
    assert_eq!(encoded.call.path, upstream.path);
    assert_eq!(encoded.call.method, Method::POST);
    assert_eq!(encoded.call.headers.get("content-type").unwrap(), "application/json");
    assert_eq!(encoded.warnings, upstream.warnings);
    let sent = on_one_line(std::str::from_utf8(&encoded.call.body).unwrap());
    pretty_assert(&sent, &on_one_line(upstream.body.get()));
}

fn pretty_assert(sent: &str, expected: &str) {
    assert!(sent == expected, "sent\n{sent}\nexpected\n{expected}");
}

macro_rules! golden {
    ($($name:ident,)+) => {
        $(#[test]
        fn $name() {
            check(
                include_str!(concat!("../../../../fixtures/gemini/", stringify!($name), ".request.json")),
                include_str!(concat!("../../../../fixtures/gemini/", stringify!($name), ".upstream.json")),
            );
        })+
    };
}

golden! {
    conversation, parameters, tools_json_schema, tools_open_api, choice_none, choice_required, format_object, format_text,
    format_schema, format_schema_open_api, format_tools_three, format_tools_none, format_tools_words, thinking_level,
    thinking_level_clamped, thinking_budget, thinking_off, thinking_never, media, signatures, penalties,
}

fn refused(json: &str) -> String {
    let failure = encode(json).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert_eq!(failure.code.as_deref(), Some("unsupported_value"));
    failure.message
}

#[test]
fn unsupported_content_is_refused_with_its_field() {
    let file = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-abc"}}]}]}"#;
    assert!(refused(file).starts_with("Invalid 'messages'"));
    let unnamed = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,AAAA"}}]}]}"#;
    assert!(refused(unnamed).starts_with("Invalid 'messages'"));
    let both = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":"x"}],
        "tools":[{"type":"function","function":{"name":"f"}}],
        "response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}}"#;
    let weakened = encode(both).unwrap();
    assert!(
        weakened.reading.fenced && weakened.warnings.contains(&"parameter_weakened:response_format".into())
    );
}

#[test]
fn json_by_instruction_is_read_without_its_fence() {
    let json = include_str!("../../../../fixtures/gemini/format_tools_words.request.json");
    assert!(encode(json).unwrap().reading.fenced);
    let json = include_str!("../../../../fixtures/gemini/format_object.request.json");
    assert!(!encode(json).unwrap().reading.fenced);
}

#[test]
fn seeds_are_folded_only_when_they_do_not_fit() {
    for (seed, folded) in [
        (0, 0),
        (-5, -5),
        (i64::from(i32::MIN), i32::MIN),
        (1 << 32, 1),
        (i64::MIN, i32::MIN),
        (i64::MAX, i32::MIN),
    ] {
        assert_eq!(fold(seed), folded, "{seed}");
    }
}

#[test]
fn a_fallbacks_token_limit_is_clamped_and_an_absurd_one_fits() {
    let json = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":"x"}],"max_tokens":900000000000}"#;
    let encoded = encode(json).unwrap();
    assert_eq!(body_of(&encoded)["generationConfig"]["maxOutputTokens"], i32::MAX);
    assert_eq!(encoded.warnings, ["parameter_clamped:max_tokens"]);
    let request = chat(json);
    let mut target = target("gemini-2.5-pro");
    target.clamp_max_tokens = Some(8);
    let encoded = adapter().chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target).unwrap();
    assert_eq!(body_of(&encoded)["generationConfig"], json!({"maxOutputTokens": 8}));
}

#[test]
fn contents_are_never_empty() {
    let contents = |messages: serde_json::Value| {
        let json = json!({"model": "google/gemini-2.5-pro", "messages": messages}).to_string();
        body_of(&encode(&json).unwrap())["contents"].clone()
    };
    assert_eq!(
        contents(json!([{"role": "system", "content": "Say hi."}])),
        json!([{"role": "user", "parts": [{"text": "Say hi."}]}])
    );
    assert_eq!(
        contents(json!([{"role": "user", "content": ""}])),
        json!([{"role": "user", "parts": [{"text": " "}]}])
    );
    let silent = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "b"}]);
    assert_eq!(
        contents(silent),
        json!([{"role": "user", "parts": [{"text": "a"}]}, {"role": "user", "parts": [{"text": "b"}]}])
    );
    assert_eq!(
        contents(json!([{"role": "system", "content": ""}])),
        json!([{"role": "user", "parts": [{"text": " "}]}])
    );
}

#[test]
fn gemma_gets_the_system_text_in_a_user_turn() {
    let messages = |first: &str| {
        format!(
            r#"{{"model":"google/gemma-3-27b-it","messages":[{{"role":"system","content":"s"}},{{"role":"{first}","content":"x"}}]}}"#
        )
    };
    let user = body_of(&encode(&messages("user")).unwrap());
    assert_eq!(user, json!({"contents": [{"role": "user", "parts": [{"text": "s"}, {"text": "x"}]}]}));
    let assistant = body_of(&encode(&messages("assistant")).unwrap());
    assert_eq!(assistant["contents"][0], json!({"role": "user", "parts": [{"text": "s"}]}));
}

#[test]
fn logprobs_are_requested_only_from_models_that_support_them() {
    for (model, told) in
        [("gemini-2.0-flash", true), ("gemini-2.5-flash", false), ("gemini-3-flash-preview", false)]
    {
        let json = format!(
            r#"{{"model":"google/{model}","messages":[{{"role":"user","content":"x"}}],"logprobs":true}}"#
        );
        let encoded = encode(&json).unwrap();
        let config = told.then(|| json!({"responseLogprobs": true}));
        assert_eq!(body_of(&encoded).get("generationConfig").cloned(), config, "{model}");
        assert_eq!(encoded.warnings == ["parameter_dropped:logprobs"], !told);
    }
}

#[test]
fn a_refusal_is_sent_as_assistant_text() {
    let json = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":"x"},{"role":"assistant","refusal":"No."},{"role":"user","content":"y"}]}"#;
    assert_eq!(
        body_of(&encode(json).unwrap())["contents"][1],
        json!({"role": "model", "parts": [{"text": "No."}]})
    );
}

#[test]
fn a_text_completion_is_a_chat_of_its_prompt() {
    let request = completion(
        r#"{"model":"google/gemini-2.5-flash","prompt":["a","b"],"echo":true,"max_tokens":3,"logprobs":2}"#,
    );
    let encoded = adapter()
        .completion(&request, &ChoiceRange { n: 1, prompts: 1..2, from: 0 }, &target("gemini-2.5-flash"))
        .unwrap();
    let expected = json!({"contents": [{"role": "user", "parts": [{"text": "b"}]}], "generationConfig": {"maxOutputTokens": 3}});
    assert_eq!(body_of(&encoded), expected);
    assert_eq!(encoded.reading.echo.as_deref(), Some("b"));
    assert_eq!(encoded.warnings, ["parameter_dropped:logprobs"]);
}

#[test]
fn legacy_functions_are_tools_and_their_messages_calls() {
    let json = r#"{"model":"google/gemini-2.5-pro","functions":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}],
        "function_call":{"name":"f"},
        "messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
        {"role":"function","name":"f","content":"done"}]}"#;
    let encoded = encode(json).unwrap();
    assert!(encoded.reading.function_call && encoded.warnings.is_empty(), "{:?}", encoded.warnings);
    let body = body_of(&encoded);
    assert_eq!(body["contents"][1]["parts"][0]["functionCall"], json!({"name": "f", "args": {}}));
    assert_eq!(
        body["contents"][2]["parts"][0]["functionResponse"],
        json!({"name": "f", "response": {"result": "done"}})
    );
    assert_eq!(body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"], json!(["f"]));
}

#[test]
fn signatures_come_back_and_stay_with_the_provider() {
    // The fixture `signatures` shows both. Older models get no placeholder, but the signatures that they made.
    let json = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[
        {"id":"a__thought__c2ln","type":"function","function":{"name":"f","arguments":"{}"}}]}]}"#;
    let body = body_of(&encode(json).unwrap());
    assert_eq!(
        body["contents"][1]["parts"][0],
        json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"})
    );
    let unsigned = json.replace("__thought__c2ln", "");
    let body = body_of(&encode(&unsigned).unwrap());
    assert_eq!(body["contents"][1]["parts"][0], json!({"functionCall": {"name": "f", "args": {}}}));
    // The call without a result gets an empty one.
    assert_eq!(
        body["contents"][2]["parts"][0]["functionResponse"],
        json!({"name": "f", "response": {"result": ""}})
    );
}

#[test]
fn results_are_one_turn_in_the_order_of_the_calls() {
    let body =
        body_of(&encode(include_str!("../../../../fixtures/gemini/conversation.request.json")).unwrap());
    let names: Vec<_> = body["contents"][2]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["functionResponse"]["name"].clone())
        .collect();
    assert_eq!(names, ["get_weather", "get_time"]);
}

#[test]
fn members_that_the_provider_does_not_know_are_not_sent() {
    let json = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","name":"bob","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}],
        "stream_options":{"include_usage":true},"store":true,"metadata":{"a":"b"},"service_tier":"auto","min_p":0.1,"routing":{},"user":"u"}"#;
    let encoded = encode(json).unwrap();
    assert_eq!(body_of(&encoded), json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}));
    assert_eq!(encoded.warnings, ["parameter_dropped:messages.name"]);
}

#[test]
fn images_of_an_answer_are_sent_back_with_their_signatures() {
    let json = r#"{"model":"google/gemini-3-pro-image-preview","messages":[{"role":"user","content":"A cat"},
        {"role":"assistant","content":"Here:","images":[
            {"type":"image_url","image_url":{"url":"https://example.com/a.png"}},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,Y2F0"},"index":1}],
         "reasoning_details":[{"type":"reasoning.encrypted","data":"dGV4dA==","format":"google-gemini-v1","index":0},
            {"type":"reasoning.encrypted","data":"cGlj","format":"google-gemini-v1","index":1,"id":"image_1"}]},
        {"role":"user","content":"Now blue","images":[{"image_url":{"url":"data:image/png;base64,eA=="}}]}]}"#;
    let encoded = encode(json).unwrap();
    assert_eq!(
        body_of(&encoded)["contents"],
        json!([
            {"role": "user", "parts": [{"text": "A cat"}]},
            {"role": "model", "parts": [
                {"text": "Here:"},
                {"text": "", "thoughtSignature": "dGV4dA=="},
                {"inlineData": {"mimeType": "image/png", "data": "Y2F0"}, "thoughtSignature": "cGlj"},
            ]},
            {"role": "user", "parts": [{"text": "Now blue"}]},
        ])
    );
    // An image by URL cannot be sent back.
    assert_eq!(encoded.warnings, ["parameter_dropped:images"]);
    let without = encode(&json.replace("https://example.com/a.png", "data:image/webp;base64,eA==")).unwrap();
    assert!(without.warnings.is_empty(), "{:?}", without.warnings);
}

#[test]
fn the_media_type_jpg_is_sent_as_jpeg() {
    let json = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/JPG;base64,AAAA"}}]}]}"#;
    let part = body_of(&encode(json).unwrap())["contents"][0]["parts"][0].clone();
    assert_eq!(part, json!({"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}}));
}

#[test]
fn the_bytes_of_an_image_tell_its_type_and_not_the_client() {
    for (declared, base64, sent) in [
        ("image/png", "/9j/4AAQ", "image/jpeg"),
        ("", "iVBORw0KGgo=", "image/png"),
        ("text/plain", "R0lGODlh", "image/gif"),
        ("image/jpeg", "UklGRhoAAABXRUJQVlA4IA==", "image/webp"),
        ("image/heic", "AAAA", "image/heic"),
        ("audio/wav", "UklGRhoAAABXQVZFZm10IA==", "audio/wav"),
    ] {
        let json = format!(
            r#"{{"model":"google/gemini-2.5-pro","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:{declared};base64,{base64}"}}}}]}}]}}"#
        );
        let part = body_of(&encode(&json).unwrap())["contents"][0]["parts"][0].clone();
        assert_eq!(part, json!({"inlineData": {"mimeType": sent, "data": base64}}), "{declared}");
    }
}

#[test]
fn all_text_parts_are_sent() {
    let json = r#"{"model":"google/gemini-2.5-pro","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}"#;
    assert_eq!(
        body_of(&encode(json).unwrap())["contents"][0]["parts"],
        json!([{"text": "a"}, {"text": "b"}])
    );
}

#[test]
fn floats_are_requested_for_every_encoding() {
    let json = r#"{"model":"google/gemini-embedding-001","input":"a","encoding_format":"base64"}"#;
    let call = adapter().embeddings(&embeddings(json), 0..1, &target("gemini-embedding-001")).unwrap();
    assert!(!String::from_utf8_lossy(&call.body).contains("base64"));
}

#[test]
fn token_arrays_are_refused() {
    assert!(!adapter().traits().capabilities.token_prompts);
    let tokens = embeddings(r#"{"model":"google/gemini-embedding-001","input":[1,2]}"#);
    let failure = adapter().embeddings(&tokens, 0..1, &target("gemini-embedding-001")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);
}

#[test]
fn embeddings_go_in_one_batch_and_resources_keep_their_kind() {
    let request = embeddings(
        r#"{"model":"google/gemini-embedding-001","input":["a","é\n"],"dimensions":256,"encoding_format":"base64"}"#,
    );
    let call = adapter().embeddings(&request, 0..2, &target("gemini-embedding-001")).unwrap();
    assert_eq!(call.path, "/v1beta/models/gemini-embedding-001:batchEmbedContents");
    let one = |text: &str| json!({"model": "models/gemini-embedding-001", "content": {"parts": [{"text": text}]}, "outputDimensionality": 256});
    let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body, json!({"requests": [one("a"), one("é\n")]}));

    let tokens = embeddings(r#"{"model":"google/gemini-embedding-001","input":[1,2]}"#);
    let failure = adapter().embeddings(&tokens, 0..1, &target("gemini-embedding-001")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);

    let request = chat(r#"{"model":"google/x","messages":[{"role":"user","content":"x"}]}"#);
    for (name, path) in [
        ("models/gemini-2.5-pro", "/v1beta/models/gemini-2.5-pro:generateContent"),
        ("tunedModels/mine-1", "/v1beta/tunedModels/mine-1:generateContent"),
        ("odd name?", "/v1beta/models/odd%20name%3F:generateContent"),
    ] {
        let encoded =
            adapter().chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target(name)).unwrap();
        assert_eq!(encoded.call.path, path);
    }
}
