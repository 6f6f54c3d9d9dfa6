//! Complete responses.

use gw_wire::failure::FailureKind;
use gw_wire::reply::{ChatReply, Finish};
use gw_wire::usage::Usage;
use serde_json::{Value, json};

use super::fixture;
use crate::adapter::Reading;
use crate::adapters::anthropic::adapter;
use crate::adapters::trial::names;

fn decode(body: &str) -> Result<ChatReply<'_>, gw_wire::failure::Failure> {
    adapter().decode_chat(body.as_bytes(), &Reading::default())
}

#[test]
fn every_block_of_an_answer_is_read() {
    let body = std::fs::read_to_string(fixture("full.response.json")).unwrap();
    let reply = decode(&body).unwrap();
    assert_eq!(reply.model.as_deref(), Some("claude-sonnet-4-5-20250929"));
    let [choice] = &reply.choices[..] else { panic!() };
    assert_eq!(choice.content.as_deref(), Some("I look it up. 漢字 😀"));
    assert_eq!(choice.reasoning.as_deref(), Some("Two towns.\n"));
    assert_eq!(choice.finish, Some(Finish::ToolCalls));
    let calls: Vec<_> =
        choice.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    let expected = [
        ("toolu_01A09q90qw90lq917835lq9", "get_weather", r#"{"city": "Oslo", "n": 1.0}"#),
        ("toolu_02", "get_time", "{}"),
    ];
    assert_eq!(calls, expected);
    let [(name, details)] = &choice.extras[..] else { panic!() };
    let details: Value = serde_json::from_str(details.get()).unwrap();
    assert_eq!(
        (&**name, details),
        (
            "reasoning_details",
            json!([
                {"type": "reasoning.text", "text": "Two towns.\n", "signature": "EqQBCkYIARgC", "format": "anthropic-claude-v1", "index": 0},
                {"type": "reasoning.encrypted", "data": "EmwKAhgBEgy3va3", "format": "anthropic-claude-v1", "index": 1},
                {"type": "gateway.order", "order": "d d t7 t18 c c", "index": 7},
            ])
        )
    );
    let usage = Usage {
        prompt: 1209,
        completion: 393,
        cached: Some(1000),
        cache_write: Some(188),
        reasoning: Some(120),
        ..Usage::default()
    };
    assert_eq!(reply.usage, Some(usage));
}

#[test]
fn every_stop_reason_has_a_finish_reason() {
    for (reason, finish) in [
        ("end_turn", Some(Finish::Stop)),
        ("stop_sequence", Some(Finish::Stop)),
        ("pause_turn", Some(Finish::Stop)),
        ("max_tokens", Some(Finish::Length)),
        ("model_context_window_exceeded", Some(Finish::Length)),
        ("tool_use", Some(Finish::ToolCalls)),
        ("refusal", Some(Finish::ContentFilter)),
        ("something_new", None),
    ] {
        let body = format!(r#"{{"type":"message","content":[],"stop_reason":"{reason}"}}"#);
        let reply = decode(&body).unwrap();
        assert_eq!(reply.choices[0].finish, finish, "{reason}");
        assert_eq!((reply.choices.len(), reply.usage), (1, None));
    }
    let reply =
        decode(r#"{"content":[{"type":"text","text":null}],"stop_reason":null,"model":null,"usage":null}"#)
            .unwrap();
    assert_eq!((reply.choices[0].finish, reply.choices[0].content.as_deref()), (None, None));
}

#[test]
fn sources_and_refusals_are_reported() {
    let reply = decode(
        r#"{"content":[{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"https://a.example","title":"A","encrypted_content":"x"}]},
        {"type":"text","text":"Größe: "},{"type":"text","text":"7 m","citations":[
            {"type":"web_search_result_location","url":"https://b.example","title":"B","cited_text":"7 metres","encrypted_index":"y"},
            {"type":"char_location","document_index":1,"document_title":"Plan","cited_text":"7","start_char_index":0,"end_char_index":1}]}],
        "stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"Not that."}}"#,
    )
    .unwrap();
    let choice = &reply.choices[0];
    assert_eq!((choice.refusal.as_deref(), choice.finish), (Some("Not that."), Some(Finish::ContentFilter)));
    let (name, value) = choice.extras.iter().find(|(name, _)| name == "annotations").unwrap();
    let annotations: Value = serde_json::from_str(value.get()).unwrap();
    let citation = |url: &str, title: &str, start: u64, end: u64| json!({"url": url, "title": title, "start_index": start, "end_index": end});
    let mut cited = citation("https://b.example", "B", 7, 10);
    cited["content"] = json!("7 metres");
    let mut document = citation("", "Plan", 7, 10);
    (document["content"], document["id"]) = (json!("7"), json!("1"));
    let expected = [citation("https://a.example", "A", 0, 0), cited, document];
    let expected = expected.map(|citation| json!({"type": "url_citation", "url_citation": citation}));
    assert_eq!((&**name, annotations), ("annotations", json!(expected)));
    let odd = decode(
        r#"{"content":[{"type":"text","text":"x","citations":{"enabled":true}},{"type":"web_search_tool_result","content":{"type":"web_search_tool_result_error"}}],"stop_reason":"end_turn"}"#,
    );
    assert!(odd.unwrap().choices[0].extras.is_empty(), "what is no list of sources is none");
}

#[test]
fn an_answer_that_failed_is_a_failure() {
    let failure = decode(r#"{"content":[{"type":"text","text":"x"}],"stop_reason":"error"}"#).unwrap_err();
    assert_eq!(failure.kind, FailureKind::StreamBroken);
}

#[test]
fn an_answer_of_thoughts_only_is_a_choice_that_was_cut() {
    let body = r#"{"content":[{"type":"thinking","thinking":"hm","signature":"s"}],"stop_reason":"max_tokens","usage":{"input_tokens":1,"output_tokens":9}}"#;
    let reply = decode(body).unwrap();
    assert_eq!((reply.choices.len(), reply.choices[0].finish), (1, Some(Finish::Length)));
    assert_eq!(reply.choices[0].reasoning.as_deref(), Some("hm"));
}

#[test]
fn an_answer_by_the_json_tool_is_text() {
    let body = br#"{"content":[{"type":"text","text":"Sure."},{"type":"tool_use","id":"t","name":"structured_answer","input":{"a":1}}],"stop_reason":"tool_use"}"#;
    let reading = Reading { json_tool: Some("structured_answer".into()), ..Reading::default() };
    let reply = adapter().decode_chat(body, &reading).unwrap();
    let choice = &reply.choices[0];
    assert_eq!((choice.content.as_deref(), choice.finish), (Some(r#"{"a":1}"#), Some(Finish::Stop)));
    assert!(choice.tool_calls.is_empty());
}

#[test]
fn a_body_without_an_answer_is_a_failure() {
    for body in
        ["", "<html>", "[]", "5", "{}", "null", r#"{"content":5}"#, r#"{"content":[5]}"#, r#"{"choices":[]}"#]
    {
        assert_eq!(decode(body).unwrap_err().kind, FailureKind::InvalidResponse, "{body}");
    }
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(decode(error).unwrap_err().kind, FailureKind::Overloaded);
    assert_eq!(decode(r#"{"type":"error"}"#).unwrap_err().kind, FailureKind::Server);
}

#[test]
fn a_lone_surrogate_does_not_lose_the_answer() {
    let body = r#"{"content":[{"type":"text","text":"a\ud83db"}],"stop_reason":"end_turn"}"#;
    let content = decode(body).unwrap().choices[0].content.as_deref().unwrap().to_owned();
    assert!(content.starts_with('a') && content.ends_with('b') && content.contains('\u{fffd}'));
}

#[test]
fn the_model_list_is_read() {
    let body = br#"{"data":[{"type":"model","id":"claude-opus-5-5","display_name":"x"},{"id":"claude-opus-5-5"},{"id":""},{},{"id":"b"}],"has_more":false}"#;
    assert_eq!(names((adapter().traits().models.unwrap().read)(body)), ["claude-opus-5-5", "b"]);
    for body in ["", "{}", "[]", r#"{"data":5}"#] {
        assert_eq!(
            (adapter().traits().models.unwrap().read)(body.as_bytes()).unwrap_err().kind,
            FailureKind::InvalidResponse
        );
    }
    let call = (adapter().traits().models.unwrap().call)();
    assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", "/v1/models?limit=1000"));
    assert_eq!(call.headers["anthropic-version"], "2023-06-01");
}
