//! Edits the members of messages that some upstreams of OpenAI's dialect refuse. Everything else stays byte for byte.
//! Two substring searches find messages that need no edit.

use std::ops::Range;

use gw_wire::conversation::{THOUGHT_MARK, split_thought};
use gw_wire::json::{Kind, View, write_str};
use gw_wire::reply::order::is_order;
use memchr::memmem;

use crate::adapters::replay::{DETAILS, own_entries, own_id};
use crate::presets::Quirks;
use crate::seal::ReplayTarget;

/// The messages (JSON text of the array) for this upstream; None when they need no edit. The second value is true if
/// reasoning or a signature was left out.
///
/// - The role `developer` exists at OpenAI only. For others it becomes `system`.
/// - A call id with another target's signature is longer than OpenAI allows, so the signature is removed.
/// - Signed entries of other targets are left out, with the text of their reasoning, and all reasoning where the provider
///   refuses it. Text that nobody signed stays: models that think in a loop of tools ask for it, also where another model has thought it.
/// - Reasoning that the gateway sealed without a signature goes back as `reasoning_content`.
pub(super) fn messages(text: &str, quirks: &Quirks, target: &ReplayTarget) -> (Option<String>, bool) {
    let (thoughts, lost) = thoughts(text, quirks.replayed_thoughts, target);
    let (edited, cut) = edited(thoughts.as_deref().unwrap_or(text), quirks, target);
    (edited.or(thoughts), lost || cut)
}

/// The member that marks the end of a prompt's cached part, in Anthropic's dialect.
const CACHE_CONTROL: &str = "cache_control";

/// Messages or tools (JSON text of the array) without `cache_control`; None when they have none. A client of the Messages
/// API sends it always, and most upstreams refuse it.
pub(super) fn without_cache_control(text: &str) -> Option<String> {
    memmem::find(text.as_bytes(), CACHE_CONTROL.as_bytes())?;
    let mut out = String::with_capacity(text.len());
    put_elements(View::new(text), &mut out);
    Some(out)
}

/// Writes the objects of an array without the member, and the parts of their `content`.
fn put_elements(array: View<'_>, out: &mut String) {
    out.push('[');
    for (at, element) in array.elements().enumerate() {
        if at > 0 {
            out.push(',');
        }
        if element.kind() != Kind::Object {
            out.push_str(element.text());
            continue;
        }
        let mut mark = '{';
        for (name, value) in element.members() {
            match name.string().as_deref() {
                Some(CACHE_CONTROL) => {}
                Some("content") if value.kind() == Kind::Array => {
                    push_member(out, &mut mark, name.text(), "");
                    put_elements(value, out);
                }
                _ => push_member(out, &mut mark, name.text(), value.text()),
            }
        }
        out.push_str(if mark == '{' { "{}" } else { "}" });
    }
    out.push(']');
}

/// Members of an assistant's message that hold reasoning.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning_details"];

/// Members that hold the text of reasoning.
const TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The messages with this model's own reasoning, or without any; None when there is no reasoning.
fn thoughts(text: &str, are_taken: bool, target: &ReplayTarget) -> (Option<String>, bool) {
    let names: &[&str] = if are_taken { &[DETAILS] } else { &THOUGHTS };
    if !names.iter().any(|name| memmem::find(text.as_bytes(), name.as_bytes()).is_some()) {
        return (None, false);
    }
    let mut lost = false;
    let mut out = String::with_capacity(text.len());
    for message in View::new(text).elements() {
        out.push(if out.is_empty() { '[' } else { ',' });
        let [first, second] = TEXTS;
        let [details, first, second] = message.pick([DETAILS, first, second]);
        let has_text = [first, second].into_iter().flatten().any(|text| !is_empty(text));
        let details = details.filter(|details| are_taken && details.kind() == Kind::Array);
        let own = details.map(|details| own_entries(details, has_text, target)).unwrap_or_default();
        lost |= own.has_lost;
        let replaced = own.text.as_deref().map(literal);
        let (mut mark, mut is_replaced) = ('{', false);
        for (name, value) in message.members() {
            let member = name.string().unwrap_or_default();
            let kept = match (&*member, &replaced) {
                (DETAILS, _) if are_taken && value.kind() == Kind::Array => own.details.as_str(),
                // Both members have the same text, so that one of them is enough.
                (text, Some(literal)) if TEXTS.contains(&text) => {
                    let is_place = !is_replaced && !is_empty(value);
                    is_replaced |= is_place;
                    if is_place { literal.as_str() } else { "" }
                }
                (left_out, _) if !are_taken && names.contains(&left_out) => {
                    lost |= is_reasoning(value);
                    ""
                }
                _ => value.text(),
            };
            if !kept.is_empty() {
                push_member(&mut out, &mut mark, name.text(), kept);
            }
        }
        if let Some(literal) = replaced.filter(|literal| !is_replaced && !literal.is_empty()) {
            push_member(&mut out, &mut mark, "\"reasoning_content\"", &literal);
        }
        out.push_str(if mark == '{' { "{}" } else { "}" });
    }
    out.push(']');
    ((out.len() > 1).then_some(out), lost)
}

/// Whether a value holds reasoning. An order holds lengths only.
fn is_reasoning(value: View<'_>) -> bool {
    match value.kind() {
        Kind::Array => value.elements().any(|entry| !is_order(entry)),
        _ => !is_empty(value),
    }
}

/// Whether a value has no text.
fn is_empty(value: View<'_>) -> bool {
    matches!(value.text(), "null" | "\"\"")
}

/// A text as JSON; "" for an empty one.
fn literal(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut literal = Vec::with_capacity(text.len() + 2);
    write_str(&mut literal, text);
    String::from_utf8_lossy(&literal).into_owned()
}

/// Writes one member of an object. `mark` is the separator before it.
fn push_member(out: &mut String, mark: &mut char, name: &str, value: &str) {
    out.push(std::mem::replace(mark, ','));
    out.push_str(name);
    out.push(':');
    out.push_str(value);
}

fn edited(text: &str, quirks: &Quirks, target: &ReplayTarget) -> (Option<String>, bool) {
    let has = |word: &str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    let roles = !quirks.developer && has("developer");
    let ids = has(THOUGHT_MARK);
    if !roles && !ids {
        return (None, false);
    }
    let mut edits = Edits { text, made: Vec::new(), target, has_lost: false };
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
    let lost = edits.has_lost;
    (edits.apply(), lost)
}

/// Replacements in a text, in order.
struct Edits<'a> {
    text: &'a str,
    made: Vec<(Range<usize>, Vec<u8>)>,
    target: &'a ReplayTarget,
    /// A signature was removed.
    has_lost: bool,
}

impl Edits<'_> {
    fn replace(&mut self, value: View<'_>, with: &str) {
        // A view is a slice of the text it was made from, so its position is the difference of the addresses.
        let start = (value.text().as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let mut literal = Vec::with_capacity(with.len() + 2);
        write_str(&mut literal, with);
        self.made.push((start..start.wrapping_add(value.text().len()), literal));
    }

    fn cut(&mut self, id: View<'_>) {
        let Some(id_text) = id.string() else { return };
        if let Some(own) = own_id(&id_text, self.target) {
            return self.replace(id, &own);
        }
        let (proper, _) = split_thought(&id_text);
        if proper.len() < id_text.len() {
            self.has_lost = true;
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
    use crate::seal::{Issuer, ReplayTarget, Sealer};

    fn target() -> ReplayTarget {
        Issuer::new(Sealer::random(), "p".into(), [1; 8]).target("m")
    }

    fn rewritten(provider: &str, text: &str) -> Option<String> {
        messages(text, &presets::find(provider).unwrap().quirks, &target()).0
    }

    #[test]
    fn cache_control_is_removed_from_messages_parts_and_tools_alone() {
        let text = r#"[{"role":"user","content":[{"type":"text","text":"cache_control","cache_control":{"type":"ephemeral"}},"x"],"cache_control":{}},{"role":"tool","content":"a"}]"#;
        let sent = r#"[{"role":"user","content":[{"type":"text","text":"cache_control"},"x"]},{"role":"tool","content":"a"}]"#;
        assert_eq!(super::without_cache_control(text).as_deref(), Some(sent));
        assert_eq!(super::without_cache_control(sent).as_deref(), Some(sent));
        assert_eq!(super::without_cache_control(r#"[{"role":"user","content":"a"}]"#), None);
        let tools = r#"[{"type":"function","cache_control":{},"function":{"parameters":{"properties":{"cache_control":{}}}}}]"#;
        let kept = r#"[{"type":"function","function":{"parameters":{"properties":{"cache_control":{}}}}}]"#;
        assert_eq!(super::without_cache_control(tools).as_deref(), Some(kept));
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
    fn thoughts_of_other_providers_are_not_sent_to_openai() {
        let text = r#"[{"role":"user","content":"reasoning_details"}, {"reasoning_content":"hm","role":"assistant","content":"a","reasoning_details":[{"text":"x"}],"tool_calls":[{"id":"c1__thought__QUJD","type":"function","function":{"name":"f","arguments":"{}"}}]}]"#;
        let sent = r#"[{"role":"user","content":"reasoning_details"},{"role":"assistant","content":"a","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}]"#;
        assert_eq!(rewritten("openai", text).as_deref(), Some(sent));
        let kept = rewritten("openrouter", text).unwrap();
        assert!(kept.contains("reasoning_details\":[") && !kept.contains("__thought__"));
    }

    #[test]
    fn each_model_gets_back_only_its_own_entries() {
        let quirks = &presets::find("openrouter").unwrap().quirks;
        let message = |details: &str, id: &str| {
            format!(
                r#"[{{"role":"assistant","content":"a","reasoning_content":"hm"{details},"tool_calls":[{{"id":"{id}","type":"function"}}]}},{{"role":"tool","tool_call_id":"{id}","content":"1"}}]"#
            )
        };
        let target = target();
        let entry = target.seal_entry(r#"{"type":"reasoning.text","signature":"c2ln","index":0}"#).unwrap();
        let stamped = message(
            &format!(
                r#","reasoning_details":[{{"type":"reasoning.text","text":"hm","signature":"{entry}","index":0,"origin":"p/m"}},{{"type":"reasoning.encrypted","data":"x","index":1,"origin":"p/m"}},{{"type":"reasoning.summary","summary":"s","index":2,"origin":"anthropic/c"}}]"#
            ),
            &format!("c1__thought__{}", target.seal_signature("QUJD").unwrap()),
        );
        let sent = message(
            r#","reasoning_details":[{"type":"reasoning.text","signature":"c2ln","index":0,"text":"hm"}]"#,
            "c1__thought__QUJD",
        );
        assert_eq!(messages(&stamped, quirks, &target), (Some(sent), true));
        let other = Issuer::new(Sealer::random(), "p".into(), [1; 8]).target("other");
        // The text of the reasoning goes with its entries.
        let without = message("", "c1").replace(r#","reasoning_content":"hm""#, "");
        assert_eq!(messages(&stamped, quirks, &other), (Some(without), true));
        let none = message("", "c1");
        assert_eq!(messages(&none, quirks, &target), (None, false));
    }

    #[test]
    fn reasoning_that_was_sealed_without_a_signature_goes_back_as_text() {
        let quirks = &presets::find("openrouter").unwrap().quirks;
        let target = target();
        let plain = target.seal_plain("hm \"1\"").unwrap();
        let message = |details: &str| format!(r#"[{{"role":"assistant","content":"a"{details}}}]"#);
        let sealed = format!(r#","reasoning_details":[{{"type":"reasoning.encrypted","data":"{plain}"}}]"#);
        let (sent, lost) = messages(&message(&sealed), quirks, &target);
        assert_eq!((sent.unwrap(), lost), (message(r#","reasoning_content":"hm \"1\"""#), false));
        let both = format!(r#","reasoning_content":"mine"{sealed}"#);
        let (sent, lost) = messages(&message(&both), quirks, &target);
        assert_eq!((sent.unwrap(), lost), (message(r#","reasoning_content":"mine""#), false));
        let other = Issuer::new(Sealer::random(), "p".into(), [1; 8]).target("m");
        // It is not known of a seal with another key what it holds.
        for name in ["reasoning_content", "reasoning"] {
            let shown = format!(r#","{name}":"hm \"1\""{sealed}"#);
            assert_eq!(messages(&message(&shown), quirks, &other), (Some(message("")), true), "{name}");
        }
        assert_eq!(messages(&message(&sealed), quirks, &other), (Some(message("")), true));
    }

    #[test]
    fn unsigned_reasoning_that_another_target_has_thought_keeps_its_text() {
        let quirks = &presets::find("openrouter").unwrap().quirks;
        let sealer = Sealer::random();
        let [one, two] = ["a", "b"]
            .map(|name| Issuer::new(sealer.clone(), name.into(), [1; 8]).target("kimi-k2-thinking"));
        let entry = format!(
            r#","reasoning_details":[{{"type":"reasoning.encrypted","data":"{}"}}]"#,
            one.seal_plain("hm").unwrap()
        );
        let message = |details: &str| format!(r#"[{{"role":"assistant","content":null{details}}}]"#);
        let shown = r#","reasoning_content":"hm""#;
        let (sent, lost) = messages(&message(&format!("{shown}{entry}")), quirks, &two);
        assert_eq!((sent.unwrap(), lost), (message(shown), false));
        // Without the text beside it, nothing is left to send.
        assert_eq!(messages(&message(&entry), quirks, &two), (Some(message("")), true));
    }

    #[test]
    fn text_that_nobody_signed_stays_where_signed_text_beside_it_is_left_out() {
        let quirks = &presets::find("openrouter").unwrap().quirks;
        let sealer = Sealer::random();
        let [one, two] = ["a", "b"].map(|name| Issuer::new(sealer.clone(), name.into(), [1; 8]).target("m"));
        let entries = format!(
            r#","reasoning_details":[{{"type":"reasoning.text","text":"secret, ","signature":"{}"}},{{"type":"reasoning.encrypted","data":"{}"}}]"#,
            one.seal_entry(r#"{"type":"reasoning.text","signature":"c2ln"}"#).unwrap(),
            one.seal_plain("open").unwrap()
        );
        let message = |more: &str| format!(r#"[{{"role":"assistant","content":"a"{more}}}]"#);
        for (shown, sent) in [
            (r#","reasoning_content":"secret, open""#, r#","reasoning_content":"open""#),
            (r#","reasoning":"secret, open""#, r#","reasoning":"open""#),
            (r#","reasoning":"secret, open","reasoning_content":"secret, open""#, r#","reasoning":"open""#),
            (r#","reasoning":"""#, r#","reasoning":"""#),
        ] {
            let answered = messages(&message(&format!("{shown}{entries}")), quirks, &two);
            assert_eq!(answered, (Some(message(sent)), true), "{shown}");
        }
    }

    #[test]
    fn a_signature_in_a_call_id_is_cut_off() {
        let text = r#"[{"role":"user","content":"x__thought__y"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c1__thought__QUJD","type":"function","function":{"name":"f","arguments":"{\"id\":\"a__thought__b\"}"}},{"type":"function","id":"c2","function":{"name":"g","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c1__thought__QUJD","content":"1"},{"role":"tool","tool_call_id":"c2","content":"2"}]"#;
        let sent = rewritten("openai", text).unwrap();
        assert_eq!(sent, text.replace("c1__thought__QUJD", "c1"));
        assert_eq!(rewritten("openai", r#"[{"role":"user","content":"x__thought__y"}]"#), None);
    }
}
