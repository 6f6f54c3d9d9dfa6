//! The few places of a client's messages that not every OpenAI-type upstream takes as they are. The rest stays byte for
//! byte, and messages without such a place are not touched at all: two vector searches tell.

use std::ops::Range;

use gw_wire::conversation::{THOUGHT_MARK, split_thought};
use gw_wire::json::{View, write_str};
use memchr::memmem;

use crate::presets::Quirks;

/// The messages (JSON text of the array) as this upstream takes them; None when it takes them as they are.
///
/// - `developer` is an invention of OpenAI; elsewhere it is called `system`.
/// - A tool call id that carries a signature of Gemini's is longer than OpenAI allows: the signature is cut off.
pub(super) fn messages(text: &str, quirks: &Quirks) -> Option<String> {
    let has = |word: &str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    let roles = !quirks.developer && has("developer");
    let ids = has(THOUGHT_MARK);
    if !roles && !ids {
        return None;
    }
    let mut edits = Edits { text, made: Vec::new() };
    for message in View::new(text).elements() {
        for (name, value) in message.members() {
            match name.string().as_deref() {
                Some("role") if roles && value.string().as_deref() == Some("developer") => {
                    edits.replace(value, "system");
                }
                Some("tool_call_id") if ids => edits.cut(value),
                Some("tool_calls") if ids => {
                    let members = value.elements().flat_map(View::members);
                    members
                        .filter(|(name, _)| name.string().as_deref() == Some("id"))
                        .for_each(|(_, id)| edits.cut(id));
                }
                _ => {}
            }
        }
    }
    edits.apply()
}

/// Replacements in a text, in the order of their places.
struct Edits<'a> {
    text: &'a str,
    made: Vec<(Range<usize>, Vec<u8>)>,
}

impl Edits<'_> {
    fn replace(&mut self, value: View<'_>, with: &str) {
        // A view is a slice of the text it was made from.
        let start = (value.text().as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let mut literal = Vec::with_capacity(with.len() + 2);
        write_str(&mut literal, with);
        self.made.push((start..start.wrapping_add(value.text().len()), literal));
    }

    fn cut(&mut self, id: View<'_>) {
        let Some(id_text) = id.string() else { return };
        let (proper, _) = split_thought(&id_text);
        if proper.len() < id_text.len() {
            self.replace(id, proper);
        }
    }

    fn apply(self) -> Option<String> {
        if self.made.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(self.text.len());
        let mut from = 0;
        for (place, literal) in self.made {
            out.push_str(self.text.get(from..place.start)?);
            out.push_str(std::str::from_utf8(&literal).ok()?);
            from = place.end;
        }
        out.push_str(self.text.get(from..)?);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::messages;
    use crate::presets;

    fn rewritten(provider: &str, text: &str) -> Option<String> {
        messages(text, &presets::find(provider).unwrap().quirks)
    }

    #[test]
    fn developer_is_system_everywhere_but_at_openai() {
        let text = r#"[ {"role" : "developer","content":"a \"developer\""}, {"content":"developer","role":"user"} ]"#;
        let system =
            r#"[ {"role" : "system","content":"a \"developer\""}, {"content":"developer","role":"user"} ]"#;
        assert_eq!(rewritten("groq", text).as_deref(), Some(system));
        assert_eq!(rewritten("openai", text), None);
        assert_eq!(rewritten("groq", r#"[{"role":"user","content":"developer"}]"#), None);
        assert_eq!(rewritten("groq", r#"[{"role":"user","content":"hi"}]"#), None);
    }

    #[test]
    fn trap_07_a_signature_in_a_call_id_is_cut_off() {
        let text = r#"[{"role":"user","content":"x__thought__y"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c1__thought__QUJD","type":"function","function":{"name":"f","arguments":"{\"id\":\"a__thought__b\"}"}},{"type":"function","id":"c2","function":{"name":"g","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c1__thought__QUJD","content":"1"},{"role":"tool","tool_call_id":"c2","content":"2"}]"#;
        let sent = rewritten("openai", text).unwrap();
        assert_eq!(sent, text.replace("c1__thought__QUJD", "c1"));
        assert_eq!(rewritten("openai", r#"[{"role":"user","content":"x__thought__y"}]"#), None);
    }
}
