//! Breakpoints of the prompt cache for a body of the Messages API that has none. Every other byte stays as it is.
//!
//! Up to four parts get a marker: the last tool, the last block of the system prompt, and the last blocks of the two newest messages of
//! the user. The newest one writes the prompt of this request into the cache. The one before it is where the request before ended, so
//! the cache is read even if more than the 20 blocks lie in between that the API looks back by itself.

use super::native::edits::Edits;
use crate::json::{Kind, View};

/// The messages of the user that get a marker.
const MARKED_MESSAGES: usize = 2;

/// The kinds of blocks that take a marker.
const MARKABLE: [&str; 6] = ["text", "image", "document", "tool_use", "tool_result", "search_result"];

/// The body with breakpoints. None: no part of it takes one.
#[must_use]
pub fn add(body: &str, is_hour: bool) -> Option<Vec<u8>> {
    let marker = if is_hour {
        r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#
    } else {
        r#""cache_control":{"type":"ephemeral"}"#
    };
    let [tools, system, messages] = View::new(body).pick(["tools", "system", "messages"]);
    let mut marking = Marking { edits: Edits::new(body), marker, count: 0 };
    let tools = tools.into_iter().flat_map(View::elements);
    if let Some(tool) = tools.filter(|tool| is_loaded(*tool)).last() {
        marking.mark(tool);
    }
    if let Some(system) = system {
        marking.content(system);
    }
    let users: Vec<View<'_>> = messages?.elements().filter(|message| is_of_user(*message)).collect();
    for message in users.iter().rev().take(MARKED_MESSAGES) {
        if let [Some(content)] = message.pick(["content"]) {
            marking.content(content);
        }
    }
    (marking.count > 0).then(|| marking.edits.apply())
}

/// Whether a tool takes a marker: the API refuses one on a tool whose loading is deferred.
fn is_loaded(tool: View<'_>) -> bool {
    let [deferred] = tool.pick(["defer_loading"]);
    deferred.is_none_or(|value| value.text() != "true")
}

fn is_of_user(message: View<'_>) -> bool {
    let [role] = message.pick(["role"]);
    role.and_then(View::string).is_some_and(|role| role == "user")
}

struct Marking<'t> {
    edits: Edits<'t>,
    marker: &'static str,
    count: usize,
}

impl<'t> Marking<'t> {
    /// Marks an object, which has members.
    fn mark(&mut self, object: View<'t>) {
        self.edits.append(object, 1, self.marker.as_bytes());
        self.count += 1;
    }

    /// Marks the last block that takes a marker. A text becomes a block.
    fn content(&mut self, content: View<'t>) {
        match content.kind() {
            Kind::String if content.string().is_some_and(|text| !text.trim().is_empty()) => {
                let block = format!(r#"[{{"type":"text","text":{},{}}}]"#, content.text(), self.marker);
                self.edits.replace(content, block.into_bytes());
                self.count += 1;
            }
            Kind::Array => {
                if let Some(block) = content.elements().filter(|block| is_markable(*block)).last() {
                    self.mark(block);
                }
            }
            _ => {}
        }
    }
}

/// Whether a block takes a marker. The API refuses one on blank text and on thinking.
fn is_markable(block: View<'_>) -> bool {
    let [kind, text] = block.pick(["type", "text"]);
    let Some(kind) = kind.and_then(View::string) else { return false };
    let is_blank = || text.and_then(View::string).is_none_or(|text| text.trim().is_empty());
    MARKABLE.contains(&&*kind) && !(kind == "text" && is_blank())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn added(body: &str) -> Value {
        serde_json::from_slice(&add(body, false).expect("a marker")).expect("JSON")
    }

    #[test]
    fn four_parts_are_marked_and_all_other_bytes_stay() {
        let body = r#"{ "model":"m" , "tools":[{"name":"a"},{"name":"b"},{"name":"c","defer_loading":true}],"system":"Be \u00e9",
            "messages":[{"role":"user","content":"1"},{"role":"assistant","content":[{"type":"text","text":"2"}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t"},{"type":"text","text":" "}]},
            {"role":"assistant","content":"3"}, {"role":"user","content":"4"}]}"#;
        let marked = String::from_utf8(add(body, true).expect("a marker")).expect("text");
        let marker = r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#;
        assert_eq!(marked.matches(marker).count(), 4, "{marked}");
        let bare = marked.replace(&format!(",{marker}"), "");
        let bare = bare.replace(r#"[{"type":"text","text":"4"}]"#, r#""4""#);
        let bare = bare.replace(r#"[{"type":"text","text":"Be \u00e9"}]"#, r#""Be \u00e9""#);
        assert_eq!(bare, body);
        let value: Value = serde_json::from_str(&marked).expect("JSON");
        assert!(value["tools"][1]["cache_control"].is_object(), "{value}");
        assert!(value["messages"][2]["content"][0]["cache_control"].is_object(), "{value}");
        assert!(value["messages"][4]["content"][0]["cache_control"].is_object(), "{value}");
    }

    #[test]
    fn a_part_that_takes_no_marker_gets_none() {
        let body = r#"{"system":" ","messages":[{"role":"user","content":"1"},{"role":"assistant","content":"prefill"}]}"#;
        let value = added(body);
        assert_eq!(value["system"], json!(" "));
        assert_eq!(value["messages"][1]["content"], json!("prefill"));
        assert!(value["messages"][0]["content"][0]["cache_control"].is_object());
        for body in
            [r#"{"messages":[]}"#, r#"{"messages":[{"role":"user","content":""}]}"#, "{}", "[]", "", "x"]
        {
            assert_eq!(add(body, false), None, "{body}");
        }
    }
}
