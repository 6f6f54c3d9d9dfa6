//! Items that refer to one another, or to themselves, in any graph.

use proptest::prelude::*;

use super::*;
use crate::dialects::NativeBody;
use crate::dialects::responses::input_items::{input_items, listed_items};
use crate::dialects::responses::native::{EncryptedContent, Forwarding, for_upstream};
use crate::dialects::responses::request::{EarlierItems, translate_with, wanted_items};

/// An item of a few members, each of a few values, so that most graphs have references, circles and doubles.
fn item() -> impl Strategy<Value = Value> {
    let id = prop_oneof![
        2 => Just(None), 6 => (0..3_u8).prop_map(|id| Some(json!(format!("msg_{id}")))),
        1 => Just(Some(json!(7))), 1 => Just(Some(Value::Null)),
    ];
    let kind = prop_oneof![
        4 => Just(None), 4 => Just(Some(json!("item_reference"))), 3 => Just(Some(json!("message"))),
        1 => Just(Some(json!("reasoning"))), 1 => Just(Some(Value::Null)), 1 => Just(Some(json!(["item_reference"]))),
    ];
    let role = prop_oneof![2 => Just(None), 1 => Just(Some(json!("user"))), 1 => Just(Some(Value::Null))];
    (id, kind, role).prop_map(|(id, kind, role)| {
        let mut item = json!({"content": "x", "summary": []});
        for (name, value) in [("id", id), ("type", kind), ("role", role)] {
            item.as_object_mut().unwrap().extend(value.map(|value| (name.to_owned(), value)));
        }
        item
    })
}

proptest! {
    #[test]
    fn any_graph_of_items_is_read_without_a_circle(
        stored in prop::collection::vec(item(), 0..6), sent in prop::collection::vec(item(), 0..6), follows in any::<bool>()
    ) {
        let stored: Vec<String> = stored.iter().map(Value::to_string).collect();
        let history: Vec<&str> = stored.iter().map(String::as_str).collect();
        let mut request = json!({"model": "m", "input": sent});
        if follows {
            request["previous_response_id"] = json!("resp_1");
        }
        let bytes = body(&request);
        let wanted = wanted_items(&bytes, &RequestLimits::default());
        prop_assert!(wanted.items.len() <= sent.len());
        let limits = RequestLimits::default();
        if let Ok(read) = translate(bytes.clone(), &limits, &history) {
            prop_assert!(parse_chat(Bytes::from(read.chat), &limits).is_ok());
        }
        // The stored turn has the items of this request only.
        let kept = input_items(&bytes, &history, 0);
        prop_assert_eq!(listed_items(&kept).count(), sent.len());
        let native = NativeBody { policy: Arc::default(), bytes, dialect: crate::dialects::ClientDialect::Responses, only_native: false, is_kept_here: false };
        let forwarding = Forwarding { model: "m", history: &history, ..Forwarding::default() };
        let forwarded = for_upstream(&native, &forwarding, |_| EncryptedContent::Keep, |_| None);
        prop_assert!(serde_json::from_slice::<Value>(&forwarded).is_ok());
    }
}

#[test]
fn an_item_that_refers_to_itself_is_no_item_of_the_conversation() {
    // The upstream's answer held it, so the conversation does, too.
    let history = [r#"{"id":"x"}"#, r#"{"type":"item_reference","id":"x"}"#];
    let mut request = json!({"model": "m", "input": "hi", "previous_response_id": "resp_1"});
    let read = followed(&request, &history);
    assert_eq!(chat(&read)["messages"], json!([{"role": "user", "content": "hi"}]));
    assert_eq!(read.warnings, ["item_dropped:item_reference"]);
    request["input"] = json!([{"type": "item_reference", "id": "x"}]);
    let fault = translate(body(&request), &RequestLimits::default(), &history).unwrap_err();
    assert!(fault.message.contains("no stored item has the id 'x'"), "{fault}");
}

#[test]
fn a_candidate_of_a_reference_is_no_part_of_the_conversation() {
    let history = [
        r#"{"id":"msg_0","type":"message","role":"user","content":"other"}"#,
        r#"{"id":"msg_1","type":"message","role":"user","content":"unused"}"#,
        r#"{"id":"msg_2","type":"message","role":"user","content":"before"}"#,
        r#"{"id":"rs_1","type":"reasoning","summary":[]}"#,
    ];
    let request = json!({"model": "m", "store": false, "previous_response_id": "resp_1", "input": [
        {"id": "msg_0"}, {"role": "user", "content": "now"}]});
    let earlier = EarlierItems { items: &history, candidates: 2, ..EarlierItems::default() };
    let read = translate_with(body(&request), &RequestLimits::default(), &earlier).unwrap();
    let contents = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|item| item["content"].clone()).collect()
    };
    assert_eq!(contents(&chat(&read)["messages"]), ["before", "other", "now"]);
    let forwarding = Forwarding { model: "m", history: &history, candidates: 2, ..Forwarding::default() };
    let open = |sealed: Option<&str>| match sealed {
        Some(_) => EncryptedContent::Keep,
        None => EncryptedContent::DropItem,
    };
    let forwarded = for_upstream(&read.native, &forwarding, open, |_| None);
    let forwarded: Value = serde_json::from_slice(&forwarded).unwrap();
    assert_eq!(contents(&forwarded["input"]), ["before", "other", "now"], "no upstream knows the thought");
}

#[test]
fn a_large_replay_shares_the_stored_text() {
    let words = "é line ".repeat(200_000);
    let events = [text(&words)];
    let (_, document) = encoded(&plain_context(), &events, Finish::Stop);
    let document = Bytes::from(document.to_string());
    let inside = document.as_ptr() as usize..document.as_ptr() as usize + document.len();
    let (mut shared, mut own) = (0, 0);
    for piece in Replay::new(document.clone(), None) {
        assert!(piece.len() <= 2 * MAX_PIECE_BYTES, "{}", piece.len());
        match inside.contains(&(piece.as_ptr() as usize)) {
            true => shared += piece.len(),
            false => own += piece.len(),
        }
    }
    assert!(shared > 4 * document.len(), "{shared} of {}", document.len());
    assert!(own < 64 << 10, "{own} bytes of the replay are copies");
}

#[test]
fn metadata_have_the_bounds_of_the_api() {
    let with = |metadata: Value| json!({"model": "m", "input": "hi", "metadata": metadata});
    let pairs =
        |count: usize| (0..count).map(|at| (format!("k{at}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    translated(&with(Value::Object(pairs(16))));
    translated(&with(json!({"k".repeat(64): "é".repeat(512), "tags": ["a"]})));
    for (metadata, code) in [
        (Value::Object(pairs(17)), "object_above_max_properties"),
        (json!({"k".repeat(65): "v"}), "string_above_max_length"),
        (json!({"k": "v".repeat(513)}), "string_above_max_length"),
        (json!("v"), "invalid_type"),
    ] {
        assert_eq!(fault(&with(metadata)).code, code);
    }
}
