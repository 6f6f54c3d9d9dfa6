//! Which requests may be compared, and which may not.

use gw_wire::operation::PlainOperation;
use std::sync::Arc;

use bytes::Bytes;
use gw_wire::request::{Body, RequestLimits};

use super::*;

fn of(body: &str) -> Option<Context> {
    by(&Scope::Key(Arc::from("key_1")), body, "embedder")
}

fn question(body: &Body) -> Question<'_> {
    Question {
        route: PlainOperation::Chat,
        model: "m",
        candidates: &["p/m"],
        config: 1,
        body,
        native: None,
        input: None,
    }
}

fn by(scope: &Scope, body: &str, embedder: &str) -> Option<Context> {
    let body = Body::parse(Bytes::from(body.to_owned()), &RequestLimits::default()).unwrap();
    Context::of(scope, &question(&body), embedder)
}

const ASKED: &str = r#"{"model":"m","temperature":0.5,"messages":[{"role":"system","content":"Be brief."},
    {"role":"user","content":"What is a cache?"}]}"#;

#[test]
fn only_the_words_of_the_last_turn_may_differ() {
    let asked = of(ASKED).unwrap();
    assert_eq!(asked.text, "What is a cache?");
    let same = of(&ASKED.replace("What is a cache?", "Tell me what a cache is")).unwrap();
    assert_eq!(asked.key, same.key);
    assert_eq!(same.text, "Tell me what a cache is");
    let respelled = r#"{"messages":[{"content":"Be brief.","role":"system"},{"content":"?","role":"user"}],
        "stream":true,"temperature":5e-1,"user":"u","model":"m"}"#;
    assert_eq!(asked.key, of(respelled).unwrap().key);
    for (from, to) in [
        ("Be brief.", "Be long."),
        ("0.5", "0.6"),
        ("\"temperature\"", "\"tools\":[{}],\"temperature\""),
        ("\"role\":\"user\"", "\"role\":\"user\",\"name\":\"n\""),
        ("{\"role\":\"user\"", "{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"user\""),
        ("\"system\"", "\"developer\""),
    ] {
        let other = ASKED.replacen(from, to, 1);
        assert_ne!(other, ASKED, "{from}");
        assert_ne!(asked.key, of(&other).unwrap().key, "{to}");
    }
}

#[test]
fn a_context_depends_on_scope_and_embedding_model_and_is_not_the_key_of_an_answer() {
    let scope = |id: &str| Scope::Key(Arc::from(id));
    let asked = of(ASKED).unwrap().key;
    assert_ne!(asked, by(&scope("key_2"), ASKED, "embedder").unwrap().key);
    assert_ne!(asked, by(&Scope::Team(Arc::from("key_1")), ASKED, "embedder").unwrap().key);
    assert_ne!(asked, by(&scope("key_1"), ASKED, "another").unwrap().key);
    let body = Body::parse(Bytes::from_static(ASKED.as_bytes()), &RequestLimits::default()).unwrap();
    assert_ne!(Some(asked), Key::of(&scope("key_1"), &question(&body)));
}

#[test]
fn other_members_of_the_last_turn_must_be_equal() {
    let with = |more: &str| {
        of(&ASKED.replace("\"role\":\"user\"", &format!("\"role\":\"user\",{more}"))).unwrap().key
    };
    let ann = with(r#""name":"ann","weight":1"#);
    assert_eq!(ann, with(r#""weight":1.0,"name":"ann""#));
    for other in [r#""name":"bob","weight":1"#, r#""nick":"ann","weight":1"#, r#""name":"ann""#] {
        assert_ne!(ann, with(other), "{other}");
    }
}

#[test]
fn every_field_of_the_question_is_part_of_a_context() {
    let body = Body::parse(Bytes::from_static(ASKED.as_bytes()), &RequestLimits::default()).unwrap();
    let (scope, candidates) = (Scope::Key(Arc::from("key_1")), ["p/m", "q/m"]);
    let question = Question {
        route: PlainOperation::Chat,
        model: "m",
        candidates: &candidates,
        config: 1,
        body: &body,
        native: None,
        input: None,
    };
    let key = |question: Question<'_>| Context::of(&scope, &question, "embedder").unwrap().key;
    for other in [
        Question { route: PlainOperation::Completion, ..question },
        Question { model: "M", ..question },
        Question { candidates: &candidates[..1], ..question },
        Question { config: 2, ..question },
    ] {
        assert_ne!(key(question), key(other), "{other:?}");
    }
}

#[test]
fn questions_with_different_figures_are_not_compared() {
    let about = |words: &str| of(&ASKED.replace("What is a cache?", words)).unwrap().key;
    assert_eq!(about("Refund order 4711, please"), about("Please refund the order 4711!"));
    for other in
        ["Refund order 4712, please", "Refund order, please", "Refund order 47 11, please", "4711 4711"]
    {
        assert_ne!(about("Refund order 4711, please"), about(other), "{other}");
    }
    assert_ne!(about("from 3 to 5"), about("from 5 to 3"));
    for (one, other) in [
        ("Is 3 > 2 ?", "Is 3 < 2 ?"),
        ("-5 plus 3", "5 plus 3"),
        ("order AB12", "order CD12"),
        ("1.5 dollars", "1, 5 dollars"),
        ("take 5mg", "take 5g"),
        ("mail a@example.org", "mail b@example.org"),
        ("read /etc/hosts", "read /etc/passwd"),
        ("a costs $x", "a costs €x"),
        ("第三章のページ３は", "第四章のページ３は"),
    ] {
        assert_ne!(about(one), about(other), "{one} / {other}");
    }
    assert_eq!(about("(see AB12)."), about("look at 'ab12', please"));
    assert_ne!(about("Refund order ४७११"), about("Refund order ४७१२"));
}

#[test]
fn a_last_turn_with_more_than_text_is_not_compared() {
    let last = |message: &str| of(&format!("{{\"messages\":[{message}]}}")).map(|context| context.text);
    assert_eq!(last(r#"{"role":"user","content":"a"}"#).as_deref(), Some("a"));
    let parts = r#"{"role":"user","content":[{"type":"text","text":"a"},{"text":"b","type":"text"}]}"#;
    assert_eq!(last(parts).as_deref(), Some("a\nb"));
    for message in [
        r#"{"role":"assistant","content":"a"}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"a"}"#,
        r#"{"role":"user","content":"  "}"#,
        r#"{"role":"user","content":null}"#,
        r#"{"role":"user","content":[]}"#,
        r#"{"role":"user","content":"a","content":"b"}"#,
        r#"{"role":"user"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]}"#,
        r#"{"role":"user","content":[{"type":"refusal","text":"a"}]}"#,
        r#"{"role":"user","content":[7]}"#,
    ] {
        assert_eq!(last(message), None, "{message}");
    }
    assert_eq!(of(r#"{"messages":[]}"#), None);
    assert_eq!(of("{}"), None);
}
