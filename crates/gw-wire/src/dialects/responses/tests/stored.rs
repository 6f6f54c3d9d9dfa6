//! Stored responses: their lists of items, their replay, and the small answers.

use super::*;
use crate::dialects::responses::documents::{
    Compaction, compaction, deleted, input_tokens, translate_compaction,
};
use crate::dialects::responses::input_items::{input_items, output_items};
use crate::dialects::responses::item_page::ItemPage;
use crate::dialects::responses::request::EarlierItems;

#[test]
fn items_are_listed_with_ids_of_their_content() {
    let request = json!({"model": "m", "input": [
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "status": null},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"role": "user", "content": [{"type": "input_text", "text": "three"}], "id": "msg_own"},
        {"role": "user", "content": "one"}]});
    let items = input_items(request.to_string().as_bytes(), &[], 0);
    assert_eq!(items, input_items(request.to_string().as_bytes(), &[], 0));
    let values: Vec<Value> = serde_json::from_slice(&items).unwrap();
    let mut shown = values.clone();
    for item in &mut shown {
        assert!(item.as_object_mut().unwrap().remove("id").is_some_and(|id| id.is_string()));
    }
    insta::assert_json_snapshot!("listed_items", shown);
    assert_eq!(values[4]["id"], "msg_own");
    assert_ne!(values[0]["id"], values[5]["id"]);
    let pieces = |limit, is_descending, after: Option<&str>| {
        ItemPage { limit, is_descending, after }.of(Bytes::from(items.clone()))
    };
    let page = |limit, is_descending, after: Option<&str>| -> Value {
        let bytes = pieces(limit, is_descending, after).unwrap().flatten().collect::<Vec<u8>>();
        serde_json::from_slice(&bytes).unwrap()
    };
    assert!(pieces(20, true, Some("msg_unknown")).is_none(), "an unknown item has no page behind it");
    let first = page(2, true, None);
    assert_eq!((&first["first_id"], &first["has_more"]), (&values[5]["id"], &json!(true)));
    let next = page(20, true, first["last_id"].as_str());
    assert_eq!((next["data"].as_array().unwrap().len(), &next["has_more"]), (4, &json!(false)));
    assert_eq!(page(20, false, None)["first_id"], values[0]["id"]);
    let listed = input_items(br#"{"input":[{"role":"user","content":"hi"}]}"#, &[], 7);
    let text = input_items(br#"{"input":"hi"}"#, &[], 7);
    assert_eq!(text, listed, "a text is the item of a user, with the same id");
    let again = input_items(br#"{"input":"hi"}"#, &[], 9);
    assert_ne!(again, text, "the same words in a later turn are another item");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(r#""content":[{"type":"input_text","text":"hi"}]"#), "{text}");
}

#[test]
fn a_replay_has_the_events_of_the_stream() {
    let events = [reasoning("h"), text("Oslo."), refusal("no"), call(0, "a", "f"), arguments(0, "{}")];
    let (stream, document) = encoded(&plain_context(), &events, Finish::Stop);
    let document = document.to_string();
    let all = replayed(&document, None);
    let kinds =
        |stream: &str| -> Vec<Value> { frames(stream).iter().map(|frame| frame["type"].clone()).collect() };
    assert_eq!(kinds(&all), kinds(&stream));
    let rest = replayed(&document, Some(3));
    assert_eq!(frames(&rest), frames(&all)[4..]);
    let pending = plain_context().write_pending(&opening(), "in_progress");
    let pending = replayed(std::str::from_utf8(&pending).unwrap(), None);
    assert_eq!(frames(&pending).len(), 2);
    assert!(!pending.contains("[DONE]"));
    assert_eq!(output_items(&document).count(), 4 - 1);
}

#[test]
fn the_small_answers() {
    assert_eq!(deleted("resp_1"), br#"{"id":"resp_1","object":"response","deleted":true}"#);
    assert_eq!(input_tokens(7), br#"{"object":"response.input_tokens","input_tokens":7}"#);
    let request = json!({"model": "m", "input": [{"role": "user", "content": "long"}]});
    let request =
        translate_compaction(body(&request), &RequestLimits::default(), &EarlierItems::default()).unwrap();
    let messages = &chat(&request)["messages"];
    assert_eq!(messages.as_array().unwrap().len(), 2);
    let gateway = meta();
    let parts = Compaction {
        id: "resp_1",
        created: 5,
        kept: &[],
        encrypted: "gw1.s",
        closing: &Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway },
        is_plain: true,
    };
    let answer: Value = serde_json::from_slice(&compaction(&parts)).unwrap();
    assert_eq!(
        answer["output"],
        json!([{"id": "cmp_1", "type": "compaction", "encrypted_content": "gw1.s"}])
    );
    assert_eq!(answer["usage"]["total_tokens"], 15);
}
