//! Joins the frames of a stream into a message, as the API's clients do, and checks the rules of streams on the way.

use serde_json::{Value, json};

use super::frames;

/// The message of a stream. Panics where a client would fail.
pub(super) fn fold(stream: &str) -> Value {
    let mut message = Value::Null;
    let mut open: Option<usize> = None;
    let mut input = String::new();
    let (mut deltas, mut stops) = (0, 0);
    for (name, data) in frames(stream) {
        assert_eq!(data["type"], name.as_str());
        assert_eq!(stops, 0, "nothing follows message_stop");
        let index = data["index"].as_u64().map(|index| usize::try_from(index).unwrap());
        match name.as_str() {
            "message_start" => {
                assert!(message.is_null(), "one message_start");
                message = data["message"].clone();
            }
            "ping" => {}
            "content_block_start" => {
                assert_eq!((open, deltas), (None, 0), "one block at a time, before message_delta");
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!(index, Some(content.len()), "indexes are contiguous");
                content.push(data["content_block"].clone());
                open = index;
                input.clear();
            }
            "content_block_delta" => {
                assert!(open.is_some() && open == index, "a delta belongs to the open block");
                apply(&mut message["content"][index.unwrap()], &data["delta"], &mut input);
            }
            "content_block_stop" => {
                assert!(open.is_some() && open == index, "a stop belongs to the open block");
                if !input.is_empty() {
                    message["content"][index.unwrap()]["input"] = serde_json::from_str(&input).unwrap();
                }
                open = None;
            }
            "message_delta" => {
                assert_eq!(open, None, "all blocks are closed");
                deltas += 1;
                for (name, value) in data["delta"].as_object().unwrap() {
                    message[name] = value.clone();
                }
                for (name, value) in data["usage"].as_object().unwrap() {
                    message["usage"][name] = value.clone();
                }
            }
            "message_stop" => stops += 1,
            other => panic!("unknown frame {other}"),
        }
    }
    assert_eq!((deltas, stops), (1, 1));
    message
}

fn apply(block: &mut Value, delta: &Value, input: &mut String) {
    let append = |block: &mut Value, name: &str| {
        let text = format!("{}{}", block[name].as_str().unwrap(), delta[name].as_str().unwrap());
        block[name] = json!(text);
    };
    let kind = block["type"].as_str().unwrap().to_owned();
    match (delta["type"].as_str().unwrap(), kind.as_str()) {
        ("text_delta", "text") => append(block, "text"),
        ("thinking_delta", "thinking") => {
            assert_eq!(block["signature"], "", "the signature is the last delta");
            append(block, "thinking");
        }
        ("signature_delta", "thinking") => {
            assert_eq!(block["signature"], "", "one signature");
            block["signature"] = delta["signature"].clone();
        }
        ("input_json_delta", "tool_use") => input.push_str(delta["partial_json"].as_str().unwrap()),
        ("citations_delta", "text") => match block.get_mut("citations") {
            Some(citations) => citations.as_array_mut().unwrap().push(delta["citation"].clone()),
            None => block["citations"] = json!([delta["citation"]]),
        },
        (delta, block) => panic!("a {delta} in a {block}"),
    }
}
