//! Measures a body that an upstream of the client's own dialect gets as the client wrote it.
//!
//! The translation of such a body into a chat leaves parts out that the upstream reads and bills. So all of the body's
//! text is measured, whatever its members are called.

use memchr::memchr;

use super::{FileClass, MediaSource, Medium, PromptExtras, start};
use crate::json::{Kind, View, string_end};

/// The prompt of a body in the client's own dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedPrompt {
    /// Bytes of the members that an upstream reads, without their media.
    pub bytes: u64,
    /// Images that the translation does not hold.
    pub images: u64,
    /// Documents and recordings that the translation does not hold.
    pub files: u64,
    /// The upstream runs tools itself, so it may call the model several times.
    pub runs_tools: bool,
    /// The body asks for reasoning.
    pub asks_for_reasoning: bool,
}

/// Top-level members that are no part of the prompt.
const SETTINGS: [&str; 18] = [
    "cache",
    "fallbacks",
    "include",
    "metadata",
    "model",
    "models",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "routing",
    "safety_identifier",
    "service_tier",
    "stop_sequences",
    "stream_options",
    "thinking",
    "tool_choice",
    "truncation",
    "user",
];

/// Members that hold a medium in base64, or a data URL.
const MEDIUM_MEMBERS: [&str; 5] = ["\"data\"", "\"file_data\"", "\"image_url\"", "\"result\"", "\"url\""];

/// The shortest string that is taken for a medium.
const MIN_MEDIUM_BYTES: usize = 256;

impl ForwardedPrompt {
    /// Measures a JSON body that was checked. `translated` has the media of its translation.
    #[must_use]
    pub fn of(body: &[u8], translated: &PromptExtras) -> Self {
        let mut found = Self::default();
        let body = View::new(std::str::from_utf8(body).unwrap_or("{}"));
        for (name, value) in body.members() {
            let name = name.string().unwrap_or_default();
            match &*name {
                "tools" => found.runs_tools |= value.elements().any(is_hosted),
                "mcp_servers" => found.runs_tools |= value.elements().next().is_some(),
                "thinking" | "reasoning" => found.asks_for_reasoning |= is_reasoning(value),
                _ => {}
            }
            let is_setting = SETTINGS.binary_search(&&*name).is_ok();
            if !is_setting && matches!(value.kind(), Kind::String | Kind::Array | Kind::Object) {
                found.add(value.text());
            }
        }
        let images = translated.media.iter().filter(|medium| matches!(medium, Medium::Image { .. })).count();
        found.images = found.images.saturating_sub(images as u64);
        found.files = found.files.saturating_sub((translated.media.len() - images) as u64);
        found
    }

    /// Adds the text of a value: its length, less the escapes and the media in it.
    fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let (mut at, mut name, mut saved) = (0, "", 0);
        while let Some(next) = bytes.get(at..).and_then(|rest| memchr(b'"', rest)) {
            let from = at + next;
            at = string_end(bytes, from);
            let literal = text.get(from..at).unwrap_or("\"\"");
            if bytes.get(at..).is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b':')) {
                name = literal;
                continue;
            }
            match medium_class(name, literal) {
                Some(class) => {
                    saved += literal.len();
                    *(if class == FileClass::Image { &mut self.images } else { &mut self.files }) += 1;
                }
                None => {
                    let decoded = View::exact(literal).string_len() + 2;
                    saved += literal.len().saturating_sub(decoded);
                }
            }
        }
        self.bytes += bytes.len().saturating_sub(saved) as u64;
    }
}

/// The beginnings of the types of tools that the client runs.
const CLIENT_TOOLS: [&str; 11] = [
    "apply_patch",
    "bash_",
    "computer",
    "custom",
    "function",
    "local_shell",
    "memory_",
    "namespace",
    "shell",
    "text_editor_",
    "tool_search",
];

/// Whether the upstream runs a tool itself. A tool without a type is the client's.
fn is_hosted(tool: View<'_>) -> bool {
    let [kind] = tool.pick(["type"]);
    let kind = kind.and_then(View::string);
    kind.is_some_and(|kind| !CLIENT_TOOLS.iter().any(|start| kind.starts_with(start)))
}

/// Whether a `thinking` or a `reasoning` asks for reasoning.
fn is_reasoning(value: View<'_>) -> bool {
    let [kind, effort] = value.pick(["type", "effort"]);
    let says =
        |word: Option<View<'_>>, off: &str| word.and_then(View::string).is_some_and(|word| word == off);
    value.kind() == Kind::Object && !says(kind, "disabled") && !says(effort, "none")
}

/// The class of the medium in a string of this member; None if the string is text. All of a medium is base64, so no text
/// passes for one.
fn medium_class(name: &str, literal: &str) -> Option<FileClass> {
    if literal.len() < MIN_MEDIUM_BYTES || !MEDIUM_MEMBERS.contains(&name) {
        return None;
    }
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let MediaSource::Inline { media_type, data } = MediaSource::of(inner) else { return None };
    let is_base64 =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_' | b'\\');
    if !data.bytes().all(is_base64) {
        return None;
    }
    let class = FileClass::of_magic(&start::<16>(data)).or_else(|| FileClass::of_type(media_type))?;
    (class != FileClass::Text).then_some(class)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn measured(body: &Value) -> ForwardedPrompt {
        ForwardedPrompt::of(body.to_string().as_bytes(), &PromptExtras::default())
    }

    #[test]
    fn text_counts_decoded_wherever_it_stands_and_settings_do_not() {
        let text = "\"a\"\n\u{e9}".repeat(1000);
        let plain = measured(&json!({"messages": ""}));
        assert_eq!(plain.bytes, 2);
        let settings =
            json!({"messages": "", "metadata": {"a": text}, "model": text, "max_tokens": 5, "stream": true});
        assert_eq!(measured(&settings), plain);
        assert_eq!(measured(&json!({"messages": text})).bytes, 2 + text.len() as u64);
        let nested = json!({"x": [{"y": {"z": text}}]});
        assert_eq!(measured(&nested).bytes, text.len() as u64 + r#"[{"y":{"z":""}}]"#.len() as u64);
    }

    #[test]
    fn only_base64_of_a_known_kind_is_a_medium() {
        let image = format!("iVBORw0KGgo{}", "A".repeat(4000));
        let pdf = format!("JVBERi0xLjQ{}", "A".repeat(4000));
        let body = json!({"input": [{"result": image}, {"image_url": format!("data:image/png;base64,{image}")},
            {"source": {"data": pdf}}]});
        let found = measured(&body);
        assert_eq!((found.images, found.files), (2, 1));
        assert!(found.bytes < 100, "{found:?}");
        let prose = format!("iVBORw0KGgo {}", "tell me ".repeat(1000));
        for body in [
            json!({"input": [{"result": prose}]}),
            json!({"input": [{"text": image}]}),
            json!({"input": [{"data": "A".repeat(4000)}]}),
            json!({"input": [{"data": format!("data:text/plain;base64,{}", "A".repeat(4000))}]}),
        ] {
            let found = measured(&body);
            assert_eq!((found.images, found.files), (0, 0));
            assert!(found.bytes > 4000, "{found:?}");
        }
    }

    #[test]
    fn media_of_the_translation_are_not_counted_twice() {
        let image = format!("iVBORw0KGgo{}", "A".repeat(4000));
        let body = json!({"input": [{"result": image}, {"image_url": image}]}).to_string();
        let known = Medium::Image { width: 1, height: 1, detail: super::super::Detail::Auto };
        let translated = PromptExtras { media: vec![known, Medium::Pages(3)], ..PromptExtras::default() };
        let found = ForwardedPrompt::of(body.as_bytes(), &translated);
        assert_eq!((found.images, found.files), (1, 0));
    }
}
