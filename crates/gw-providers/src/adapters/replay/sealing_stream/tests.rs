//! Signatures of a stream are sealed once, when they are complete, before the text or the call that follows.

use std::borrow::Cow;
use std::sync::Arc;

use gw_wire::event::Event;
use gw_wire::json::View;
use gw_wire::reply::{ChatChoice, ChatReply, Finish};
use serde_json::{Value, json};

use super::{SealingStream, StreamSeals};
use crate::adapter::StreamDecoder;
use crate::adapters::replay::{DETAILS, own_entries, own_id, seal_reply, sealed_details};
use crate::seal::{EncryptionKey, Issuer, OpenedSeal, ReplayTarget, Sealer};

fn target() -> ReplayTarget {
    let sealer = Sealer::new(&EncryptionKey::from_bytes(&[1; 32]));
    Issuer::new(sealer, "p".into(), [1; 8]).target("m")
}

/// A decoder that gives the events of a script, one at each byte.
struct Script(Vec<Value>);

impl StreamDecoder for Script {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        for _ in chunk {
            let next = self.0.remove(0);
            let text = next.to_string();
            match &next {
                Value::Array(_) => {
                    let value = serde_json::from_str(&text).unwrap();
                    sink(Event::Extra { choice: 0, name: DETAILS, value });
                }
                Value::String(text) if text == "call" => {
                    sink(Event::ToolStart {
                        choice: 0,
                        call: 0,
                        id: "c__thought__c2ln".into(),
                        name: "f".into(),
                    });
                }
                Value::String(text) if text == "finish" => {
                    sink(Event::Finish { choice: 0, reason: Finish::Stop });
                }
                Value::String(text) if text == "end" => sink(Event::End),
                Value::String(text) => sink(Event::Text { choice: 0, text: text.into(), logprobs: None }),
                other => sink(Event::Reasoning { choice: 0, text: other.to_string().into() }),
            }
        }
    }

    fn eof(&mut self, _: &mut dyn FnMut(Event<'_>)) {}

    fn held_bytes(&self) -> usize {
        0
    }

    fn work_bytes(&self, _: Option<&[u8]>) -> usize {
        0
    }
}

/// The stream's events: a list of entries, or the kind of another event.
fn events(script: &[Value]) -> Vec<Value> {
    events_of(script, false)
}

fn events_of(script: &[Value], seals_plain: bool) -> Vec<Value> {
    let mut stream = SealingStream::new(Script(script.to_vec()), Arc::new(target()), seals_plain, false);
    let mut out = Vec::new();
    let mut sink = |event: Event<'_>| {
        out.push(match event {
            Event::Extra { value, .. } => serde_json::from_str(value.get()).unwrap(),
            Event::ToolStart { id, .. } => json!(id),
            Event::Finish { .. } => json!("finish"),
            Event::End => json!("end"),
            Event::Text { text, .. } => json!(text),
            other => json!(format!("{other:?}")),
        });
    };
    stream.feed(&vec![0; script.len()], &mut sink);
    stream.eof(&mut sink);
    out
}

/// The content of a sealed string.
fn opened(sealed: &Value) -> Value {
    match target().open(sealed.as_str().unwrap()).unwrap() {
        OpenedSeal::Entry(json) => serde_json::from_str(&json).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signature_in_pieces_is_sealed_once_with_its_whole_entry() {
    let out = events(&[
        json!([{"type": "reasoning.text", "text": "hm, ", "format": "f", "index": 0}]),
        json!([{"type": "reasoning.text", "text": "yes", "index": 0}]),
        json!([{"type": "reasoning.text", "signature": "AB", "index": 0}]),
        json!([{"type": "reasoning.text", "signature": "CD", "index": 0}]),
        json!("said"),
    ]);
    assert_eq!(out.len(), 4, "{out:?}");
    assert_eq!(out[0][0]["origin"], "p/m");
    assert_eq!(out[1], json!([{"type": "reasoning.text", "text": "yes", "index": 0}]));
    let seal = &out[2][0]["signature"];
    let whole =
        json!({"type": "reasoning.text", "text": "hm, yes", "format": "f", "signature": "ABCD", "index": 0});
    assert_eq!(opened(seal), whole);
    assert_eq!(out[2], json!([{"type": "reasoning.text", "signature": seal, "index": 0}]));
    assert_eq!(out[3], "said");
    // A complete answer with the same entry has the same sealed string.
    let complete = serde_json::value::to_raw_value(&json!([whole])).unwrap();
    let complete = sealed_details(&complete, &target()).unwrap();
    assert!(complete.get().contains(seal.as_str().unwrap()), "{complete}");
}

#[test]
fn an_entry_is_complete_when_another_entry_a_call_or_the_end_follows() {
    let entry = |index: u32| json!({"type": "reasoning.encrypted", "data": "QUJD", "index": index});
    let order = json!({"type": "gateway.order", "order": "d d c", "index": 2});
    for (last, sealed_at) in
        [(json!("call"), 1), (json!("finish"), 1), (json!("end"), 1), (json!([order]), 1)]
    {
        let out = events(&[json!([entry(0), entry(1)]), json!(1), last.clone()]);
        assert_eq!(out[0].as_array().unwrap().len(), 1, "{last}");
        assert!(out[1].as_str().is_some_and(|text| text.contains("Reasoning")), "{last}");
        let second = &out[1 + sealed_at][0];
        assert_eq!(opened(&second["data"])["data"], "QUJD", "{last}");
        assert_eq!(second["origin"], "p/m");
    }
    let out = events(&[json!([entry(0)])]);
    assert_eq!(opened(&out[0][0]["data"])["index"], 0, "the end of the body");
    let out = events(&[json!([{"type": "reasoning.encrypted", "data": "QUJD"}, 5, {"text": "x"}])]);
    assert_eq!(out[0].as_array().unwrap().len(), 3, "entries without an index are complete");
    let id = events(&[json!("call")])[0].as_str().unwrap().to_owned();
    assert!(id.starts_with("c__thought__gw1-"), "{id}");
    // Anthropic's pattern of ids.
    assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')), "{id}");
    assert_eq!(own_id(&id, &target()).as_deref(), Some("c__thought__c2ln"));
    // Ids that former versions made have a dot.
    assert_eq!(own_id(&id.replace("gw1-", "gw1."), &target()).as_deref(), Some("c__thought__c2ln"));
}

#[test]
fn a_signature_after_the_sealed_one_is_left_out() {
    let piece = |name: &str| json!([{"type": "reasoning.text", name: "AB", "index": 0}]);
    let out = events(&[piece("signature"), json!("said"), piece("signature"), piece("text")]);
    assert_eq!(out.len(), 3, "{out:?}");
    assert_eq!(out[2], piece("text"));
}

#[test]
fn pieces_that_are_joined_go_back_as_one_entry() {
    let out = events(&[
        json!([{"type": "reasoning.text", "text": "hm", "format": "f", "index": 0}]),
        json!([{"type": "reasoning.text", "signature": "AB", "index": 0}]),
        json!("end"),
    ]);
    let (mut joined, last) = (out[0][0].clone(), &out[1][0]);
    joined["signature"] = last["signature"].clone();
    let text = json!([joined]).to_string();
    let own = own_entries(View::new(&text), false, &target());
    let back: Value = serde_json::from_str(&own.details).unwrap();
    let came =
        json!([{"type": "reasoning.text", "text": "hm", "format": "f", "signature": "AB", "index": 0}]);
    assert_eq!((back, own.has_lost), (came, false));
}

#[test]
fn remembered_pieces_have_a_bound_and_are_forgotten_after_the_seal() {
    let long = "x".repeat(1 << 20);
    let mut script: Vec<Value> =
        (0..8).map(|_| json!([{"type": "reasoning.text", "text": long, "index": 0}])).collect();
    script.push(json!([{"type": "reasoning.text", "signature": "AB", "index": 0}]));
    let count = script.len();
    let mut stream = SealingStream::new(Script(script), Arc::new(target()), false, false);
    for _ in 0..count {
        stream.feed(&[0], &mut |_| {});
        assert!(stream.held_bytes() < 5 << 20, "{}", stream.held_bytes());
    }
    let StreamSeals { kept_bytes, .. } = stream.seals;
    assert!(kept_bytes < 1000, "{kept_bytes}");
    // The client's entry provides the text.
    let mut sealed = Value::Null;
    stream.eof(&mut |event| {
        if let Event::Extra { value, .. } = event {
            sealed = serde_json::from_str(value.get()).unwrap();
        }
    });
    assert_eq!(
        opened(&sealed[0]["signature"]),
        json!({"type": "reasoning.text", "index": 0, "signature": "AB"})
    );
    assert_eq!(stream.seals.kept_bytes, 0);
}

#[test]
fn reasoning_without_a_signature_is_sealed_on_request() {
    let plain = |out: &Value| target().open(out[0]["signature"].as_str().unwrap());
    // A number of the script is a piece of reasoning.
    let out = events_of(&[json!(1), json!(2), json!("said"), json!(3), json!("finish")], true);
    assert_eq!(out.len(), 7, "{out:?}");
    assert_eq!(plain(&out[2]), Some(OpenedSeal::Plain("12".to_owned())));
    assert_eq!((&out[3], &out[6]), (&json!("said"), &json!("finish")));
    assert_eq!(plain(&out[5]), Some(OpenedSeal::Plain("3".to_owned())));
    let signed = json!([{"type": "reasoning.text", "signature": "AB", "index": 0}]);
    let out = events_of(&[json!(1), signed, json!("said"), json!("end")], true);
    assert_eq!(opened(&out[1][0]["signature"])["signature"], "AB");
    assert_eq!(out.len(), 4, "the provider's own signature is enough: {out:?}");
    assert_eq!(events(&[json!(1), json!("said")]).len(), 2);
}

#[test]
fn a_complete_answer_without_a_signature_is_sealed_on_request() {
    let choice = |details: Option<&'static str>| {
        let value = details.map(|json| Cow::Borrowed(serde_json::from_str(json).unwrap()));
        let extras = value.map(|value| (Cow::Borrowed(DETAILS), value)).into_iter().collect();
        ChatChoice { reasoning: Some("hm".into()), extras, ..ChatChoice::default() }
    };
    let order = r#"[{"type":"gateway.order","order":"t1 r2","index":0}]"#;
    for (details, sealed) in [(None, true), (Some(order), true), (Some(r#"[{"signature":"AB"}]"#), false)] {
        let mut reply = ChatReply { choices: vec![choice(details)], ..ChatReply::default() };
        seal_reply(&mut reply, &target(), true);
        let (_, value) = reply.choices[0].extras.first().unwrap();
        let value: Value = serde_json::from_str(value.get()).unwrap();
        let opened = target().open(value[0]["signature"].as_str().unwrap()).unwrap();
        assert_eq!(opened == OpenedSeal::Plain("hm".to_owned()), sealed, "{value}");
        assert_eq!(value.as_array().unwrap().len(), if details == Some(order) { 2 } else { 1 });
    }
}
