//! Joins the texts of a message into one string, for upstreams that refuse a list of parts.
//!
//! The blocks of the Messages API and the parts of the Responses API become parts of a chat message. Many chat upstreams
//! take a list of parts only if they take images.

use gw_wire::json::{Kind, ObjectWriter, View, write_str};
use memchr::memmem;

/// Between the texts of a message.
const BLANK_LINE: &str = "\n\n";

/// Messages (JSON text of the array) in which every content that has texts only is one string; None if there is no such
/// list. Contents with images or files stay lists.
pub(super) fn joined(messages: &str) -> Option<String> {
    // A translation writes the type of a part first.
    memmem::find(messages.as_bytes(), b"\"content\":[{\"type\":\"text\"")?;
    let mut out = Vec::with_capacity(messages.len());
    out.push(b'[');
    for (at, message) in View::new(messages).elements().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match joined_text(message) {
            Some(text) => write_message(message, &text, &mut out),
            None => out.extend_from_slice(message.text().as_bytes()),
        }
    }
    out.push(b']');
    // The texts are UTF-8, and so is what is written of them.
    String::from_utf8(out).ok()
}

/// The texts of a message whose content is a list of texts. The texts of an assistant are one text in pieces.
fn joined_text(message: View<'_>) -> Option<String> {
    let [role, content] = message.pick(["role", "content"]);
    let content = content.filter(|content| content.kind() == Kind::Array)?;
    let is_assistant = role.and_then(View::string).is_some_and(|role| role == "assistant");
    let mut joined = String::with_capacity(content.text().len());
    for (at, part) in content.elements().enumerate() {
        let [kind, text] = part.pick(["type", "text"]);
        kind.and_then(View::string).filter(|kind| kind == "text")?;
        if at > 0 && !is_assistant {
            joined.push_str(BLANK_LINE);
        }
        joined.push_str(&text?.string()?);
    }
    Some(joined)
}

fn write_message(message: View<'_>, text: &str, out: &mut Vec<u8>) {
    let mut object = ObjectWriter::begin(out);
    for (name, value) in message.members() {
        let name = name.string().unwrap_or_default();
        match &*name {
            "content" => write_str(object.member("content"), text),
            _ => object.raw(&name, value.text()),
        }
    }
    object.finish();
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn lists_of_texts_become_one_string_and_other_lists_stay() {
        let text = r#"[{"role":"system","content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]},{"role":"user","name":"x","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]},{"role":"user","content":[{"type":"text","text":"1"},{"type":"image_url","image_url":{"url":"https://a/b"}}]},{"role":"assistant","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}],"tool_calls":[]},{"role":"user","content":"as it is"}]"#;
        let sent = r#"[{"role":"system","content":"a\n\n\nb"},{"role":"user","name":"x","content":"1\n\n2"},{"role":"user","content":[{"type":"text","text":"1"},{"type":"image_url","image_url":{"url":"https://a/b"}}]},{"role":"assistant","content":"12","tool_calls":[]},{"role":"user","content":"as it is"}]"#;
        assert_eq!(joined(text).as_deref(), Some(sent));
        assert_eq!(joined(r#"[{"role":"user","content":"a"}]"#), None);
        assert_eq!(joined(r#"[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]"#), None);
    }
}
