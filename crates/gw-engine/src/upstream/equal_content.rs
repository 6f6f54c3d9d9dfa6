//! Compares two forms of an answer in a client's dialect.

use serde_json::Value;

/// The members that hold the content of an answer and the reason of its end, in all dialects of clients.
const CONTENT: [&str; 8] = [
    "content",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "output",
    "status",
    "incomplete_details",
    "candidates",
];

/// Whether two documents have equal contents. Ids may differ, texts in a row may be one text, and an absent member equals one that is null
/// or empty.
pub(super) fn has_equal_content(one: &[u8], other: &[u8]) -> bool {
    let (Some(one), Some(other)) = (content(one), content(other)) else { return false };
    one == other
}

fn content(document: &[u8]) -> Option<[Value; CONTENT.len()]> {
    let document: Value = serde_json::from_slice(document).ok()?;
    Some(CONTENT.map(|name| {
        let mut content = document.get(name).cloned().unwrap_or_default();
        strip(&mut content);
        content
    }))
}

/// Removes the ids and the states of items, and the members without a value. Providers write them differently, and the state of the
/// answer tells how it ended.
fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(strip);
            members.retain(|name, value| name != "id" && name != "status" && !is_empty(value));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(strip);
            join_texts(items);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Joins texts in a row. The chat form holds them as one text, and a client reads the same answer.
fn join_texts(items: &mut Vec<Value>) {
    let mut joined: Vec<Value> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if let (Some(last), Some((kind, text))) = (joined.last_mut(), plain_text(&item))
            && plain_text(last).is_some_and(|(last, _)| last == kind)
            && let Some(Value::String(before)) = last.get_mut("text")
        {
            before.push_str(text);
        } else {
            joined.push(item);
        }
    }
    *items = joined;
}

/// The type and the text of a block that has nothing else.
fn plain_text(item: &Value) -> Option<(&str, &str)> {
    let members = item.as_object().filter(|members| members.len() == 2)?;
    let kind = members.get("type")?.as_str().filter(|kind| matches!(*kind, "text" | "output_text"))?;
    Some((kind, members.get("text")?.as_str()?))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::has_equal_content;

    #[track_caller]
    fn check(one: &str, other: &str, expected: bool) {
        assert_eq!(has_equal_content(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
    }

    #[test]
    fn ids_and_members_without_a_value_make_no_difference() {
        let native = r#"{"id":"a","content":[{"type":"text","text":"x","citations":null}],"stop_reason":"end_turn","stop_sequence":null}"#;
        check(
            native,
            r#"{"content":[{"text":"x","type":"text"}],"stop_reason":"end_turn","usage":{"input_tokens":1}}"#,
            true,
        );
        check(
            r#"{"output":[{"id":"m","content":[{"text":"x","annotations":[]}]}]}"#,
            r#"{"output":[{"id":"n","status":"completed","content":[{"text":"x"}]}]}"#,
            true,
        );
    }

    #[test]
    fn texts_in_a_row_may_be_one_text() {
        let two = r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"tool_use","name":"f"}]}"#;
        check(two, r#"{"content":[{"type":"text","text":"ab"},{"type":"tool_use","name":"f"}]}"#, true);
        check(
            two,
            r#"{"content":[{"type":"text","text":"a"},{"type":"tool_use","name":"f"},{"type":"text","text":"b"}]}"#,
            false,
        );
        check(
            r#"{"content":[{"type":"text","text":"a","citations":[1]},{"type":"text","text":"b"}]}"#,
            r#"{"content":[{"type":"text","text":"ab"}]}"#,
            false,
        );
    }

    #[test]
    fn a_lost_part_makes_a_difference() {
        check(
            r#"{"content":[],"stop_reason":"stop_sequence","stop_sequence":"END"}"#,
            r#"{"content":[],"stop_reason":"end_turn"}"#,
            false,
        );
        check(
            r#"{"content":[{"text":"x","citations":[{"cited_text":"x"}]}]}"#,
            r#"{"content":[{"text":"x"}]}"#,
            false,
        );
        check(r#"{"output":[{"text":"a"},{"text":"b"}]}"#, r#"{"output":[{"text":"ab"}]}"#, false);
        check(r#"{"output":[],"status":"completed"}"#, r#"{"output":[],"status":"incomplete"}"#, false);
        check("{", "{", false);
    }
}
