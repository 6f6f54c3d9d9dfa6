//! Folds the events of a stream as openai-python does (`ResponseStreamState.accumulate_event` in
//! `lib/streaming/responses/_responses.py`, openai-python 3.54.0, read 2026-11-22), with the events that it leaves out. Positions are list
//! positions, and a delta is appended to the text that its `added` event brought.

use serde_json::{Value, json};

fn append(target: &mut Value, delta: &Value) {
    let text = format!("{}{}", target.as_str().unwrap(), delta.as_str().unwrap());
    *target = text.into();
}

/// The output that the events make up.
pub(super) fn folded(events: &[Value]) -> Value {
    assert_eq!(events[0]["type"], "response.created");
    let mut output: Vec<Value> = events[0]["response"]["output"].as_array().unwrap().clone();
    for event in events {
        let kind = event["type"].as_str().unwrap();
        let at = |name: &str| usize::try_from(event[name].as_u64().unwrap()).unwrap();
        if kind == "response.output_item.added" {
            assert_eq!(at("output_index"), output.len());
            output.push(event["item"].clone());
            continue;
        }
        if event.get("output_index").is_none() {
            continue;
        }
        let item = &mut output[at("output_index")];
        if let Some(id) = event.get("item_id") {
            assert_eq!(*id, item["id"]);
        }
        match kind {
            "response.content_part.added" => push(&mut item["content"], at("content_index"), &event["part"]),
            "response.reasoning_summary_part.added" => {
                push(&mut item["summary"], at("summary_index"), &event["part"]);
            }
            "response.output_text.delta" => {
                let part = &mut item["content"][at("content_index")];
                append(&mut part["text"], &event["delta"]);
                let tokens = event["logprobs"].as_array().unwrap().clone();
                part["logprobs"].as_array_mut().unwrap().extend(tokens);
            }
            "response.reasoning_text.delta" => {
                append(&mut item["content"][at("content_index")]["text"], &event["delta"]);
            }
            "response.refusal.delta" => {
                append(&mut item["content"][at("content_index")]["refusal"], &event["delta"]);
            }
            "response.output_text.annotation.added" => {
                let part = &mut item["content"][at("content_index")];
                push(&mut part["annotations"], at("annotation_index"), &event["annotation"]);
            }
            "response.reasoning_summary_text.delta" => {
                append(&mut item["summary"][at("summary_index")]["text"], &event["delta"]);
            }
            "response.function_call_arguments.delta" => append(&mut item["arguments"], &event["delta"]),
            "response.custom_tool_call_input.delta" => append(&mut item["input"], &event["delta"]),
            "response.output_item.done" => {
                // These members are known only at the end of an item.
                for name in ["status", "encrypted_content", "result"] {
                    if let Some(value) = event["item"].get(name) {
                        item[name] = value.clone();
                    }
                }
                assert_eq!(*item, event["item"], "an item ends as its events made it");
            }
            _ => {}
        }
    }
    json!(output)
}

fn push(list: &mut Value, at: usize, entry: &Value) {
    let list = list.as_array_mut().unwrap();
    assert_eq!(at, list.len());
    list.push(entry.clone());
}

/// Checks the rules that hold for every stream that ends well, and returns its final object.
pub(super) fn checked(events: &[Value]) -> Value {
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("response.output_item.added"), count("response.output_item.done"));
    assert_eq!(count("response.content_part.added"), count("response.content_part.done"));
    let ends = ["response.completed", "response.incomplete", "response.failed"];
    assert_eq!(ends.iter().map(|kind| count(kind)).sum::<usize>(), 1);
    let mut open = None;
    for event in events {
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => assert!(open.replace(&event["output_index"]).is_none()),
            "response.output_item.done" => assert_eq!(open.take(), Some(&event["output_index"])),
            _ => {}
        }
    }
    let response = events.last().unwrap()["response"].clone();
    assert_eq!(folded(events), response["output"]);
    response
}
