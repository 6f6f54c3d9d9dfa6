//! Seals, origins and orders: they are read back as they were written, unless the message was changed.

use bytes::Bytes;
use gw_wire::conversation::Conversation;
use gw_wire::json::View;
use gw_wire::request::{ChatRequest, RequestLimits, chat::parse_chat};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::order::{Block, Order, ReplayedBlock, arrange, joined};
use super::{keep_own, opened_entries, own_entries, sealed_details, sealed_id};
use crate::seal::{EncryptionKey, Issuer, ReplayTarget, Sealer};

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

/// A target of one gateway.
fn target(provider: &str, account: u8, model: &str) -> ReplayTarget {
    let sealer = Sealer::new(&EncryptionKey::from_bytes(&[1; 32]));
    Issuer::new(sealer, provider.into(), [account; 8]).target(model)
}

fn own() -> ReplayTarget {
    target("p", 1, "m")
}

fn sealed(details: &Value, target: &ReplayTarget) -> Value {
    value(&sealed_details(&raw(details), target).unwrap())
}

/// The entries that go back to a provider of OpenAI's dialect, and whether some were left out.
fn returned(details: &Value, target: &ReplayTarget) -> (Value, bool) {
    let text = details.to_string();
    let own = own_entries(View::new(&text), false, target);
    let details =
        if own.details.is_empty() { json!([]) } else { serde_json::from_str(&own.details).unwrap() };
    (details, own.has_lost)
}

#[test]
fn unsigned_entries_are_marked_once_and_go_back_as_they_came() {
    let came = json!([{"type": "reasoning.text", "text": "a", "index": 0}, {}, 5, {"text": "b", "index": 0}]);
    let stamped = sealed(&came, &own());
    assert_eq!(
        stamped,
        json!([{"type": "reasoning.text", "text": "a", "index": 0, "origin": "p/m"}, {"origin": "p/m"}, 5, {"text": "b", "index": 0}])
    );
    assert_eq!(returned(&stamped, &own()), (came, false));
    // Another model gets only entries without an origin.
    assert_eq!(returned(&stamped, &target("p", 1, "other")), (json!([5]), true));
    assert_eq!(returned(&stamped, &target("p", 1, "m2")).0, json!([5]));
    assert!(sealed_details(&raw(&json!([])), &own()).is_none());
    assert!(sealed_details(&raw(&json!({"a": 1})), &own()).is_none());
}

#[test]
fn signed_entries_are_sealed_and_go_back_only_to_the_target_that_gave_them() {
    let came = json!([
        {"type": "reasoning.text", "text": "ä\n\"", "signature": "Eq+/=", "format": "f", "index": 0, "vendor": [1.50]},
        {"type": "reasoning.encrypted", "data": "Em8=", "id": "image_0", "index": 1},
    ]);
    let shown = sealed(&came, &own());
    assert_eq!(shown, sealed(&came, &own()), "equal answers are equal bytes");
    assert_eq!(shown[0]["text"], came[0]["text"]);
    let (signature, data) = (shown[0]["signature"].as_str().unwrap(), shown[1]["data"].as_str().unwrap());
    assert!(signature.starts_with("gw1.") && data.starts_with("gw1."), "{shown}");
    assert!(!shown.to_string().contains("Eq+/="));
    assert_eq!(returned(&shown, &own()), (came.clone(), false));
    for other in [target("q", 1, "m"), target("p", 2, "m"), target("p", 1, "n")] {
        assert_eq!(returned(&shown, &other), (json!([]), true), "{}", other.name());
    }
    let mut tampered = shown.clone();
    tampered[0]["signature"] = json!(signature.replacen("gw1.", "gw1.A", 1));
    assert_eq!(returned(&tampered, &own()), (json!([came[1]]), true));
}

#[test]
fn a_sealed_string_restores_its_entry_from_any_other_form() {
    let came = json!([{"type": "reasoning.text", "text": "hm", "signature": "s", "format": "f", "index": 3}]);
    let shown = sealed(&came, &own());
    let seal = &shown[0]["signature"];
    // The Responses API gives back only the encrypted content, and a client may have changed the text.
    for form in [
        json!([{"type": "reasoning.encrypted", "data": seal, "index": 3}]),
        json!([{"type": "reasoning.encrypted", "data": seal}]),
        json!([{"type": "reasoning.text", "text": "changed", "signature": seal, "format": "g", "index": 3}]),
    ] {
        assert_eq!(returned(&form, &own()), (came.clone(), false), "{form}");
    }
    let (moved, _) = returned(&json!([{"type": "reasoning.encrypted", "data": seal, "index": 0}]), &own());
    assert_eq!(moved[0]["index"], 0, "the client's place counts");
}

#[test]
fn a_signature_that_no_gateway_sealed_is_left_out() {
    let foreign = json!([
        {"type": "reasoning.text", "text": "hm", "signature": "c2ln", "format": "f"},
        {"type": "reasoning.encrypted", "data": "c2ln", "origin": "p/m"},
    ]);
    assert_eq!(returned(&foreign, &own()), (json!([]), true));
    // Outside of a gateway every signature is the target's own.
    assert_eq!(returned(&json!([foreign[0]]), &ReplayTarget::unsealed("p/m")), (json!([foreign[0]]), false));
}

#[test]
fn a_gateway_behind_a_gateway_gets_its_own_seals_back() {
    let inner = json!([
        {"type": "reasoning.text", "text": "a", "origin": "anthropic/c", "index": 0},
        {"type": "reasoning.text", "text": "b", "signature": "gw1.inner", "origin": "anthropic/c", "index": 1},
    ]);
    let outer = target("inner", 1, "c");
    let shown = sealed(&inner, &outer);
    assert_eq!(shown[0]["origin"], "inner/c anthropic/c");
    assert_eq!(shown[1]["origin"], "inner/c");
    assert_eq!(returned(&shown, &outer), (inner, false));
}

#[test]
fn a_conversation_keeps_what_its_target_gave() {
    let id = sealed_id("fc__thought__c2ln", &own()).unwrap();
    assert_eq!(sealed_id("fc", &own()), None);
    let encrypted = |data: &str, target: &ReplayTarget| {
        let entry = json!({"type": "reasoning.encrypted", "data": data, "format": "f"});
        sealed(&json!([entry]), target)[0].clone()
    };
    let message = json!({"role": "assistant", "content": "a", "reasoning_details": [
        encrypted("1", &own()),
        encrypted("2", &target("q", 1, "m")),
        {"type": "reasoning.encrypted", "data": "3", "format": "f"},
        {"type": "reasoning.encrypted", "data": "gw1.AAAA", "format": "f"},
        {"type": "reasoning.text", "text": "5", "format": "f"},
        {"type": "reasoning.text", "text": "6", "format": "g"},
        {"type": "reasoning.text", "text": "7", "origin": "p/m"},
        {"type": "reasoning.text", "text": "8", "origin": "q/m"},
    ], "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let request = request(&message);
    for (target, format, kept, id) in [
        (own(), "f", "157", "fc__thought__c2ln"),
        (target("q", 1, "m"), "", "28", "fc"),
        (target("q", 1, "m"), "g", "268", "fc"),
        (target("p", 2, "m"), "", "7", "fc"),
    ] {
        let mut conversation = Conversation::of_chat(&request, 1);
        let uses = opened_entries(&conversation, &target, format);
        assert!(keep_own(&mut conversation, &uses, &target, |_| false), "{} {format}", target.name());
        let message = &conversation.messages[1];
        let said = |entry: &View<'_>| {
            let [data, text] = entry.pick(["data", "text"]);
            data.or(text).unwrap().string().unwrap().into_owned()
        };
        assert_eq!(message.reasoning_details.iter().map(said).collect::<String>(), kept);
        assert_eq!(message.tool_calls[0].id, id);
    }
}

#[test]
fn sealed_plain_reasoning_becomes_the_reasoning_of_its_message() {
    let message = |own_text: Value| {
        json!({"role": "assistant", "content": "a", "reasoning_content": own_text, "reasoning_details": [
            {"type": "reasoning.text", "text": "hm", "signature": own().seal_plain("hm").unwrap()},
        ]})
    };
    for (own_text, target, is_sent, expected, lost) in [
        (Value::Null, own(), true, Some("hm"), false),
        (Value::Null, own(), false, Some("hm"), false),
        (json!("mine"), own(), true, Some("mine"), false),
        (Value::Null, target("q", 1, "m"), true, None, true),
        // The text has no signature of a provider, so models that take plain reasoning still get it.
        (json!("hm"), target("q", 1, "m"), true, Some("hm"), false),
        (json!("hm"), target("q", 1, "m"), false, None, true),
    ] {
        let request = request(&message(own_text));
        let mut conversation = Conversation::of_chat(&request, 1);
        let uses = opened_entries(&conversation, &target, "f");
        assert_eq!(keep_own(&mut conversation, &uses, &target, |_| is_sent), lost, "{expected:?}");
        assert_eq!(conversation.messages[1].reasoning.as_deref(), expected);
        assert!(conversation.messages[1].reasoning_details.is_empty());
    }
}

#[test]
fn reasoning_without_entries_is_lost_if_the_dialect_does_not_send_it() {
    for (text, is_sent, lost) in [("hm", true, false), ("hm", false, true), ("", false, false)] {
        let request = request(&json!({"role": "assistant", "content": "a", "reasoning_content": text}));
        let mut conversation = Conversation::of_chat(&request, 1);
        let uses = opened_entries(&conversation, &own(), "");
        assert_eq!(keep_own(&mut conversation, &uses, &own(), |_| is_sent), lost, "'{text}' {is_sent}");
    }
}

/// An entry of a provider that signs its reasoning, and one of a provider that does not.
fn signed_and_unsigned(signer: &ReplayTarget, text: &str, other: &ReplayTarget, open: &str) -> [Value; 2] {
    let signed = sealed(&json!([{"type": "reasoning.text", "text": text, "signature": "s"}]), signer);
    let seal = other.seal_plain(open).unwrap();
    [signed[0].clone(), json!({"type": "reasoning.text", "text": open, "signature": seal})]
}

#[test]
fn text_of_an_entry_that_is_left_out_is_not_sent_beside_text_that_stays() {
    let (foreign, third) = (target("q", 1, "m"), target("r", 1, "m"));
    for (signer, other, text, lost) in [
        (&foreign, &third, "open", true),
        (&foreign, &own(), "open", true),
        (&own(), &third, "secret, open", false),
    ] {
        let entries = json!(signed_and_unsigned(signer, "secret, ", other, "open"));
        let message = json!({"role": "assistant", "content": "a", "reasoning_content": "secret, open", "reasoning_details": entries});
        let request = request(&message);
        let mut conversation = Conversation::of_chat(&request, 1);
        let uses = opened_entries(&conversation, &own(), "");
        let label = format!("{} {}", signer.name(), other.name());
        assert_eq!(keep_own(&mut conversation, &uses, &own(), |_| true), lost, "{label}");
        assert_eq!(conversation.messages[1].reasoning.as_deref(), Some(text), "{label}");
        let entries = entries.to_string();
        let sent = own_entries(View::new(&entries), true, &own());
        assert_eq!((sent.text.as_deref(), sent.has_lost), (lost.then_some(text), lost), "{label}");
    }
    // Text of the target's own signed entries stays, too.
    let [own_signed, _] = signed_and_unsigned(&own(), "mine", &third, "");
    let [left_out, _] = signed_and_unsigned(&foreign, "secret", &third, "");
    let entries = json!([left_out, own_signed]).to_string();
    assert_eq!(own_entries(View::new(&entries), true, &own()).text.as_deref(), Some("mine"));
}

#[test]
fn text_that_stays_keeps_its_place_when_other_text_is_left_out() {
    let [signed, unsigned] =
        signed_and_unsigned(&target("q", 1, "m"), "secret", &target("r", 1, "m"), "open");
    let order = json!({"type": "gateway.order", "order": "r6 s t1 r4 s t1"});
    let message = json!({"role": "assistant", "content": "ab", "reasoning_content": "secretopen",
        "reasoning_details": [signed, unsigned, order]});
    let request = request(&message);
    for is_sent in [true, false] {
        let mut conversation = Conversation::of_chat(&request, 1);
        let uses = opened_entries(&conversation, &own(), "");
        assert!(keep_own(&mut conversation, &uses, &own(), |_| is_sent));
        let pieces = arrange(&conversation.messages[1]).unwrap();
        let is_ordered = match pieces[..] {
            [ReplayedBlock::Text("a"), ReplayedBlock::Thought("open"), ReplayedBlock::Text("b")] => is_sent,
            [ReplayedBlock::Text("a"), ReplayedBlock::Text("b")] => !is_sent,
            _ => false,
        };
        assert!(is_ordered, "{is_sent}: {pieces:?}");
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
fn a_message_that_was_not_changed_is_arranged_as_it_came() {
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
fn the_other_blocks_keep_their_order_when_reasoning_is_left_out() {
    let thought = json!([{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]);
    let details = json!([sealed(&thought, &target("q", 1, "m"))[0], {"type": "gateway.order", "order": "t1 r2 s c t1"}]);
    let message = json!({"role": "assistant", "content": "ab", "reasoning_content": "hm", "reasoning_details": details,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let request = request(&message);
    let mut conversation = Conversation::of_chat(&request, 1);
    let uses = opened_entries(&conversation, &own(), "f");
    assert!(keep_own(&mut conversation, &uses, &own(), |_| false));
    let pieces = arrange(&conversation.messages[1]).unwrap();
    let is_ordered =
        matches!(pieces[..], [ReplayedBlock::Text("a"), ReplayedBlock::Call(_), ReplayedBlock::Text("b")]);
    assert!(is_ordered, "{pieces:?}");
}

#[test]
fn a_later_piece_belongs_to_the_entry_of_its_index() {
    let signed = |data: &str, target: &ReplayTarget| {
        sealed(&json!([{"type": "reasoning.text", "signature": data, "index": 1}]), target)[0]["signature"]
            .clone()
    };
    let message = json!({"role": "assistant", "content": "a", "reasoning_details": [
        {"type": "reasoning.text", "text": "1", "origin": "q/m", "format": "f", "index": 0},
        {"type": "reasoning.text", "text": "2", "format": "f", "index": 0},
        {"type": "reasoning.text", "text": "3", "origin": "p/m", "format": "f", "index": 1},
        {"type": "reasoning.text", "signature": signed("4", &own()), "index": 1},
        {"type": "reasoning.text", "text": "5", "format": "f", "index": 2},
        {"type": "reasoning.text", "text": "6", "format": "f"},
    ]});
    let request = request(&message);
    for (target, kept) in [(own(), "3456"), (target("q", 1, "m"), "1256"), (target("r", 1, "m"), "56")] {
        let mut conversation = Conversation::of_chat(&request, 1);
        let uses = opened_entries(&conversation, &target, "f");
        let name = target.name();
        assert!(
            keep_own(&mut conversation, &uses, &target, |_| false),
            "{name}: something of another model is left out"
        );
        let said = |entry: &View<'_>| {
            let [text, signature] = entry.pick(["text", "signature"]);
            text.or(signature).and_then(View::string).unwrap().into_owned()
        };
        let left: String = conversation.messages[1].reasoning_details.iter().map(said).collect();
        assert_eq!(left, kept, "{name}");
    }
}

#[test]
fn orders_of_a_request_have_a_bound_together() {
    let order = |index: usize| json!({"type": "gateway.order", "order": vec!["c"; 4000].join(" "), "index": index, "origin": "p/m"});
    let message = |at| json!({"role": "assistant", "content": "a", "reasoning_details": [order(at)]});
    let messages: Vec<_> = (0..7).map(message).collect();
    let body = json!({"model": "m", "messages": messages});
    let request = parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap();
    let mut conversation = Conversation::of_chat(&request, 1);
    // Leaving out an order loses nothing: the message is sent in the usual order.
    let uses = opened_entries(&conversation, &own(), "");
    assert!(!keep_own(&mut conversation, &uses, &own(), |_| false));
    let kept: Vec<_> = conversation.messages.iter().map(|message| message.reasoning_details.len()).collect();
    assert_eq!(kept, [1, 1, 1, 1, 1, 0, 0], "20,000 blocks are five orders of 4,000");
}

#[test]
fn an_order_whose_call_lost_its_signature_is_left_out() {
    let order = json!({"type": "gateway.order", "order": "c t1", "index": 0, "origin": "p/m"});
    let first_key = sealed_id("fc__thought__c2ln", &own()).unwrap();
    let message = json!({"role": "assistant", "content": "a", "reasoning_details": [order],
        "tool_calls": [{"id": first_key, "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let request = request(&message);
    // The account with another key has the same name.
    for (target, kept) in [(own(), 1), (target("p", 2, "m"), 0)] {
        let mut conversation = Conversation::of_chat(&request, 1);
        let uses = opened_entries(&conversation, &target, "f");
        assert_eq!(keep_own(&mut conversation, &uses, &target, |_| false), kept == 0);
        assert_eq!(conversation.messages[1].reasoning_details.len(), kept);
    }
}
