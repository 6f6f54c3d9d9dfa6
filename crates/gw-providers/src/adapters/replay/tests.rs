//! Origins and orders: they are read back as they were written, unless the message was changed.

use bytes::Bytes;
use gw_wire::conversation::Conversation;
use gw_wire::json::View;
use gw_wire::request::{ChatRequest, RequestLimits, chat::parse_chat};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::order::{Block, Order, ReplayedBlock, arrange, joined};
use super::{Stamps, keep_own, own_entries, stamped_id};

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

fn request(message: &Value) -> ChatRequest {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}, message]});
    parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap()
}

#[test]
fn every_entry_is_stamped_once_and_sent_back_unchanged() {
    let came = json!([{"type": "reasoning.text", "text": "a", "index": 0}, {}, 5, {"text": "b", "index": 0}]);
    let mut stamps = Stamps::default();
    let stamped = stamps.stamp(0, &raw(&came), "p/m").unwrap();
    assert_eq!(
        value(&stamped),
        json!([{"type": "reasoning.text", "text": "a", "index": 0, "origin": "p/m"}, {"origin": "p/m"}, 5, {"text": "b", "index": 0}])
    );
    // A later chunk continues the entry.
    let more = raw(&json!([{"text": "c", "index": 0}]));
    assert_eq!(stamps.stamp(0, &more, "p/m").unwrap().get(), more.get());
    assert!(stamps.stamp(1, &more, "p/m").unwrap().get().contains("origin"));
    assert_eq!(own_entries(View::new(stamped.get()), "p/m"), (came.to_string(), false));
    // Another model gets only entries without an origin.
    assert_eq!(own_entries(View::new(stamped.get()), "p/other"), ("[5]".to_owned(), true));
    assert_eq!(own_entries(View::new(stamped.get()), "p/m2").0, "[5]");
    assert!(stamps.stamp(0, &raw(&json!([])), "p/m").is_none());
    assert!(stamps.stamp(0, &raw(&json!({"a": 1})), "p/m").is_none());
}

#[test]
fn a_gateway_behind_a_gateway_gets_its_own_stamp_back() {
    let inner = raw(&json!([{"type": "reasoning.text", "origin": "anthropic/c", "index": 0}]));
    let outer = Stamps::default().stamp(0, &inner, "inner/c").unwrap();
    assert_eq!(value(&outer)[0]["origin"], "inner/c anthropic/c");
    let (back, lost) = own_entries(View::new(outer.get()), "inner/c");
    let back: Value = serde_json::from_str(&back).unwrap();
    assert_eq!((back[0]["origin"].as_str(), lost), (Some("anthropic/c"), false));
}

#[test]
fn a_conversation_keeps_only_entries_of_its_own_model() {
    let id = stamped_id("fc__thought__c2ln", "p/m").unwrap();
    assert_eq!(stamped_id("fc", "p/m"), None);
    let message = json!({"role": "assistant", "content": "a", "reasoning_details": [
        {"type": "reasoning.encrypted", "data": "1", "origin": "p/m"},
        {"type": "reasoning.encrypted", "data": "2", "origin": "q/m"},
        {"type": "reasoning.encrypted", "data": "3", "format": "f"},
        {"type": "reasoning.encrypted", "data": "4", "format": "g"},
        {"type": "reasoning.encrypted", "data": "5"},
    ], "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let request = request(&message);
    for (origin, format, kept, lost, id) in [
        ("p/m", "f", "13", true, "fc__thought__c2ln"),
        ("q/m", "", "2", true, "fc"),
        ("q/m", "g", "24", true, "fc"),
    ] {
        let mut conversation = Conversation::of_chat(&request, 1);
        assert_eq!(keep_own(&mut conversation, origin, format), lost, "{origin} {format}");
        let message = &conversation.messages[1];
        let data = |entry: &View<'_>| entry.pick(["data"])[0].unwrap().string().unwrap().into_owned();
        assert_eq!(message.reasoning_details.iter().map(data).collect::<String>(), kept);
        assert_eq!(message.tool_calls[0].id, id);
    }
}

const USUAL: &[(char, usize)] = &[('d', usize::MAX), ('t', 1), ('c', usize::MAX)];

fn order(blocks: &[Block]) -> Order {
    let mut order = Order::default();
    for block in blocks {
        order.add(*block);
        order.close();
    }
    order
}

#[test]
fn the_usual_order_needs_no_entry() {
    use Block::{Call, Detail, Text};
    for usual in [&[][..], &[Text(1)], &[Detail, Detail, Text(1), Call, Call], &[Call], &[Detail, Call]] {
        assert!(order(usual).entry(&[USUAL], 0).is_none(), "{usual:?}");
    }
    for other in [&[Text(1), Text(1)][..], &[Text(1), Detail], &[Call, Text(1)], &[Detail, Text(1), Detail]] {
        assert!(order(other).entry(&[USUAL], 0).is_some(), "{other:?}");
    }
    // Pieces of one block are joined.
    let mut pieces = Order::default();
    pieces.add(Text(2));
    pieces.add(Text(3));
    assert!(pieces.entry(&[USUAL], 0).is_none());
    assert!(order(&vec![Text(1); 5000]).entry(&[USUAL], 0).is_none());
}

#[test]
fn an_unchanged_message_gets_its_original_order() {
    use Block::{Call, Detail, Text};
    let entry = order(&[Detail, Text(4), Text(3), Detail, Call, Text(1), Call]).entry(&[USUAL], 7).unwrap();
    assert_eq!(entry.get(), r#"[{"index":7,"order":"d t4 t3 d c t1 c","type":"gateway.order"}]"#);
    let details = joined(Some(raw(&json!([{"n": 1}, {"n": 2}]))), Some(entry)).unwrap();
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "ä漢x!", "reasoning_details": value(&details), "tool_calls": [call("a"), call("b")]});
    let shown = |message: &Value| {
        let request = request(message);
        let conversation = Conversation::of_chat(&request, 1);
        let pieces = arrange(&conversation.messages[1])?;
        let piece = |piece: &ReplayedBlock<'_, '_>| match piece {
            ReplayedBlock::Text(text) | ReplayedBlock::Thought(text) | ReplayedBlock::Plan(text) => {
                (*text).to_owned()
            }
            ReplayedBlock::Detail(entry) | ReplayedBlock::Signature(entry) => entry.text().to_owned(),
            ReplayedBlock::Image(image) => format!("{image:?}"),
            ReplayedBlock::Call(call) => call.id.to_string(),
        };
        Some(pieces.iter().map(piece).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(shown(&message), None, "a length inside a letter");
    let with = |name: &str, value: Value| {
        let mut changed = message.clone();
        changed[name] = value;
        changed
    };
    let same = with("content", json!("abcdäx!"));
    assert_eq!(shown(&same).as_deref(), Some(r#"{"n":1} abcd äx {"n":2} a ! b"#));
    let mut shorter = same.clone();
    shorter["tool_calls"] = json!([call("a")]);
    assert_eq!(shown(&shorter), None, "a call is gone");
    assert_eq!(shown(&with("content", json!("abcdäx!?"))), None, "a longer text");
    let parts = json!([{"type": "text", "text": "abcdäx!"}]);
    assert_eq!(shown(&with("content", parts)), shown(&same), "text as a part");
    assert_eq!(shown(&with("content", json!([{"type": "refusal", "refusal": "abcdäx!"}]))), None);
    let mut fewer = same;
    fewer["reasoning_details"] = json!([value(&details)[0], value(&details)[2]]);
    assert_eq!(shown(&fewer), None, "an entry is gone");
}

#[test]
fn a_later_piece_belongs_to_the_entry_of_its_index() {
    let message = json!({"role": "assistant", "content": "a", "reasoning_details": [
        {"type": "reasoning.text", "text": "1", "origin": "q/m", "format": "f", "index": 0},
        {"type": "reasoning.text", "signature": "2", "format": "f", "index": 0},
        {"type": "reasoning.text", "text": "3", "origin": "p/m", "format": "f", "index": 1},
        {"type": "reasoning.text", "signature": "4", "index": 1},
        {"type": "reasoning.text", "text": "5", "format": "f", "index": 2},
        {"type": "reasoning.text", "text": "6", "format": "f"},
    ]});
    let request = request(&message);
    for (origin, kept) in [("p/m", "3456"), ("q/m", "1256"), ("r/m", "56")] {
        let mut conversation = Conversation::of_chat(&request, 1);
        assert!(keep_own(&mut conversation, origin, "f"), "{origin}: something of another model is left out");
        let said = |entry: &View<'_>| {
            let [text, signature] = entry.pick(["text", "signature"]);
            text.or(signature).and_then(View::string).unwrap().into_owned()
        };
        let left: String = conversation.messages[1].reasoning_details.iter().map(said).collect();
        assert_eq!(left, kept, "{origin}");
    }
}

#[test]
fn all_orders_of_a_request_share_one_bound() {
    let order = |index: usize| json!({"type": "gateway.order", "order": vec!["c"; 4000].join(" "), "index": index, "origin": "p/m"});
    let message = |at| json!({"role": "assistant", "content": "a", "reasoning_details": [order(at)]});
    let messages: Vec<_> = (0..7).map(message).collect();
    let body = json!({"model": "m", "messages": messages});
    let request = parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap();
    let mut conversation = Conversation::of_chat(&request, 1);
    // Leaving out an order loses nothing: the message is sent in the usual order.
    assert!(!keep_own(&mut conversation, "p/m", ""));
    let kept: Vec<_> = conversation.messages.iter().map(|message| message.reasoning_details.len()).collect();
    assert_eq!(kept, [1, 1, 1, 1, 1, 0, 0], "20,000 blocks are five orders of 4,000");
}
