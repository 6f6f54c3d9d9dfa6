//! JSON text of others, copied into an event stream: one value must stay on one line in every reader.

use crate::json::View;
use crate::render::put;

/// Appends a JSON text on one line. Line breaks between its tokens are left out, and those inside strings are escaped.
pub(super) fn put_one_line(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() && !text.bytes().any(|byte| byte == b'\n' || byte == b'\r') {
        return put(out, text);
    }
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => {}
            '\u{85}' => put(out, "\\u0085"),
            '\u{2028}' => put(out, "\\u2028"),
            '\u{2029}' => put(out, "\\u2029"),
            _ => put(out, letter.encode_utf8(&mut [0; 4])),
        }
    }
}

/// Appends a comma, if the list has an entry.
pub(super) fn separate(list: &mut Vec<u8>) {
    if !list.is_empty() {
        list.push(b',');
    }
}

/// The string of a member; None for another kind.
pub(super) fn text(value: Option<View<'_>>) -> Option<std::borrow::Cow<'_, str>> {
    value.and_then(View::string)
}
