//! Measures a body that an upstream of the client's own dialect gets as the client wrote it.
//!
//! The translation of such a body into a chat leaves parts out that the upstream reads and bills. So all of the body's
//! text is measured, whatever its members are called.

use memchr::memchr;

use super::media_places::MediaPlaces;
use super::{FileClass, Medium, PromptExtras};
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
const MEDIUM_MEMBERS: [&str; 4] = ["\"data\"", "\"file_data\"", "\"image_url\"", "\"result\""];

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
            if matches!(&*name, "thinking" | "reasoning") {
                found.asks_for_reasoning |= is_reasoning(value);
            }
            let is_setting = SETTINGS.binary_search(&&*name).is_ok();
            if !is_setting && matches!(value.kind(), Kind::String | Kind::Array | Kind::Object) {
                found.add(&name, value);
            }
        }
        let images = translated.media.iter().filter(|medium| matches!(medium, Medium::Image { .. })).count();
        found.images = found.images.saturating_sub(images as u64);
        found.files = found.files.saturating_sub((translated.media.len() - images) as u64);
        found
    }

    /// Adds the text of a value: its length, less the escapes and the media in it.
    fn add(&mut self, member: &str, value: View<'_>) {
        let text = value.text();
        let bytes = text.as_bytes();
        let (mut at, mut name, mut saved) = (0, "", 0);
        // Most members hold no medium, and only a string that may be one asks for the places.
        let mut places = None;
        while let Some(next) = bytes.get(at..).and_then(|rest| memchr(b'"', rest)) {
            let from = at + next;
            at = string_end(bytes, from);
            let literal = text.get(from..at).unwrap_or("\"\"");
            if bytes.get(at..).is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b':')) {
                name = literal;
                continue;
            }
            let may_be_medium = literal.len() >= MIN_MEDIUM_BYTES && MEDIUM_MEMBERS.contains(&name);
            let class = may_be_medium
                .then(|| places.get_or_insert_with(|| MediaPlaces::of(member, value)).at(from))
                .flatten();
            match class {
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

/// Whether a `thinking` or a `reasoning` asks for reasoning.
fn is_reasoning(value: View<'_>) -> bool {
    let [kind, effort] = value.pick(["type", "effort"]);
    let says =
        |word: Option<View<'_>>, off: &str| word.and_then(View::string).is_some_and(|word| word == off);
    value.kind() == Kind::Object && !says(kind, "disabled") && !says(effort, "none")
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

    fn image() -> String {
        format!("iVBORw0KGgo{}", "A".repeat(4000))
    }

    fn pdf() -> String {
        format!("JVBERi0xLjQ{}", "A".repeat(4000))
    }

    #[test]
    fn a_medium_in_its_place_counts_as_one() {
        let (image, pdf) = (image(), pdf());
        let url = format!("data:image/png;base64,{image}");
        let source = |kind: &str, data: &str| json!({"type": "base64", "media_type": kind, "data": data});
        let document = json!({"type": "document", "source": source("application/pdf", &pdf)});
        let picture = json!({"type": "image", "source": source("image/png", &image)});
        for (body, images, files) in [
            (
                json!({"input": [{"type": "image_generation_call", "result": image}, {"role": "user", "content": [
                    {"type": "input_image", "image_url": url}, {"type": "input_file", "filename": "a.pdf", "file_data": pdf},
                    {"type": "input_audio", "input_audio": {"data": image, "format": "mp3"}}]}]}),
                2,
                2,
            ),
            (
                json!({"input": [{"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": url}},
                    {"type": "function_call_output", "output": [{"type": "input_image", "image_url": url}]}]}),
                2,
                0,
            ),
            (
                json!({"messages": [{"role": "user", "content": [picture, document, {"type": "tool_result", "content": [picture]},
                    {"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result", "content": document}},
                    {"type": "document", "source": {"type": "content", "content": [picture]}}]}]}),
                3,
                2,
            ),
        ] {
            let found = measured(&body);
            assert_eq!((found.images, found.files), (images, files), "{found:?}");
            assert!(found.bytes < 1500, "{found:?}");
        }
    }

    #[test]
    fn letters_of_a_medium_in_any_other_place_are_text() {
        let (image, pdf) = (image(), pdf());
        let url = format!("data:image/png;base64,{image}");
        let source = json!({"type": "base64", "media_type": "image/png", "data": image});
        let prose = format!("iVBORw0KGgo {}", "tell me ".repeat(1000));
        let part = |part: Value| json!({"input": [{"role": "user", "content": [part]}]});
        let block = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
        for body in [
            json!({"input": [{"type": "image_generation_call", "result": prose}]}),
            json!({"input": [{"type": "image_generation_call", "result": pdf}]}),
            json!({"input": [{"type": "program_output", "result": image}]}),
            json!({"input": [{"type": "web_search_call", "action": {"url": url}}]}),
            json!({"input": [{"type": "web_search_call", "action": {"image_url": url}}]}),
            json!({"tools": [{"type": "function", "parameters": {"image_url": url}}]}),
            part(json!({"type": "input_text", "text": image})),
            part(json!({"type": "input_text", "image_url": url})),
            part(json!({"type": "input_image", "image_url": image})),
            part(json!({"type": "input_file", "filename": "a.txt", "file_data": pdf})),
            part(json!({"type": "input_file", "file_data": format!("data:text/plain;base64,{pdf}")})),
            part(json!({"type": "input_file", "file_data": "A".repeat(4000)})),
            block(json!({"type": "server_tool_use", "input": {"data": image}})),
            block(json!({"type": "tool_use", "input": source})),
            block(json!({"type": "tool_use", "input": {"type": "image", "source": source}})),
            block(
                json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": image}}),
            ),
            block(
                json!({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": image}}),
            ),
            block(json!({"type": "document", "source": {"type": "base64", "data": image}})),
        ] {
            let found = measured(&body);
            assert_eq!((found.images, found.files), (0, 0), "{body}");
            assert!(found.bytes >= 4000, "{found:?}");
        }
    }

    #[test]
    fn media_of_the_translation_are_not_counted_twice() {
        let item = json!({"type": "image_generation_call", "result": image()});
        let body = json!({"input": [item, item]}).to_string();
        let known = Medium::Image { width: 1, height: 1, detail: super::super::Detail::Auto };
        let translated = PromptExtras { media: vec![known, Medium::Pages(3)], ..PromptExtras::default() };
        let found = ForwardedPrompt::of(body.as_bytes(), &translated);
        assert_eq!((found.images, found.files), (1, 0));
    }
}
