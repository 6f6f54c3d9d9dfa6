//! A chat request that continues an answer which broke off.

use bytes::Bytes;

use super::chat::{ChatRequest, parse_chat};
use super::limits::RequestLimits;
use crate::dialects::ClientDialect;
use crate::json::{Kind, ObjectWriter, View};
use crate::usage::Usage;

/// The instruction to the next model. Not every provider accepts a conversation that ends with the assistant's message.
pub const CONTINUE_PROMPT: &str = "Your last message was cut off by a technical fault. Continue it exactly from where it stops, even in the \
     middle of a word or sentence. Do not repeat anything of it, and do not say anything about the fault.";

impl ChatRequest {
    /// Whether the request asks for one streamed answer in plain text without a given format: only such answers can be
    /// continued.
    #[must_use]
    pub fn wants_plain_text(&self) -> bool {
        let needs = &self.needs;
        let formed = needs.tools || needs.json_mode || needs.json_schema || needs.audio_output;
        let logprobs = self.body.view("logprobs").is_some_and(|value| value.text() == "true");
        self.n == 1 && self.stream && !formed && needs.openai_only.is_none() && !logprobs
    }

    /// The request for the rest of an answer that broke off after `sent`. Its messages end with that text and the
    /// instruction to continue it, and its token limit is reduced by an estimate of the text's tokens. None if the limit
    /// is used up.
    #[must_use]
    pub fn continued(&self, sent: &str) -> Option<Self> {
        let spent = Usage::estimate(0, sent.len() as u64).completion;
        let left = match self.max_tokens {
            Some(limit) => Some(limit.checked_sub(spent).filter(|left| *left > 0)?),
            None => None,
        };
        let mut out = Vec::with_capacity(self.body.bytes.len() + sent.len() + CONTINUE_PROMPT.len() + 128);
        let mut body = ObjectWriter::begin(&mut out);
        for (name, range) in &self.body.members {
            let value = self.body.raw(range);
            match (&**name, left) {
                ("messages", _) => write_continued(body.member(name), value, sent)?,
                ("max_tokens" | "max_completion_tokens", Some(left)) => body.raw(name, left.to_string()),
                _ => body.raw(name, value),
            }
        }
        body.finish();
        // The original request was within the limits, and its body no longer holds `models` and `fallbacks`.
        let next = parse_chat(Bytes::from(out), &RequestLimits::NONE).ok()?;
        // An upstream that speaks the client's dialect gets the translation, too: the client's own body asks for the whole
        // answer.
        let client = self.client.clone().map(|mut client| {
            client.native.dialect = ClientDialect::OpenAi;
            client
        });
        Some(Self { routing: self.routing.clone(), client, images: self.images.clone(), ..next })
    }
}

/// Writes the messages, followed by the sent text and the instruction to continue it.
fn write_continued(out: &mut Vec<u8>, messages: &[u8], sent: &str) -> Option<()> {
    let text = std::str::from_utf8(messages).ok()?.trim_end();
    if View::new(text).kind() != Kind::Array {
        return None;
    }
    out.extend_from_slice(text.strip_suffix(']')?.as_bytes());
    for (role, content) in [("assistant", sent), ("user", CONTINUE_PROMPT)] {
        out.push(b',');
        let mut message = ObjectWriter::begin(out);
        message.string("role", role);
        message.string("content", content);
        message.finish();
    }
    out.push(b']');
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(body: &Value) -> ChatRequest {
        parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap()
    }

    #[test]
    fn the_sent_text_follows_the_messages_and_reduces_the_limit() {
        let body = json!({"model": "a/b", "stream": true, "messages": [{"role": "user", "content": "Count \"up\"."}],
            "max_completion_tokens": 100, "temperature": 0.5, "routing": {"fallback": ["c/d"]}});
        let said = "one \u{1f600} \"two\"\n".repeat(8);
        let next = request(&body).continued(&said).unwrap();
        let sent: Value = serde_json::from_slice(&next.body.bytes).unwrap();
        assert_eq!(sent["messages"][0]["content"], "Count \"up\".");
        assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": said}));
        assert_eq!(
            (&sent["messages"][2]["role"], sent["messages"].as_array().unwrap().len()),
            (&json!("user"), 3)
        );
        assert!(next.max_tokens.unwrap() < 100 && next.max_tokens.unwrap() > 0);
        assert_eq!((&sent["temperature"], &*next.routing.fallback[0].model), (&json!(0.5), "c/d"));
    }

    #[test]
    fn nothing_is_continued_when_the_limit_is_used_up() {
        let body = json!({"model": "a/b", "messages": [{"role": "user", "content": "x"}], "max_tokens": 3});
        assert!(request(&body).continued(&"word ".repeat(50)).is_none());
    }

    #[test]
    fn only_one_answer_in_plain_text_can_be_continued() {
        let plain = json!({"model": "a/b", "stream": true, "messages": [{"role": "user", "content": "x"}]});
        assert!(request(&plain).wants_plain_text());
        for (name, value) in [
            ("n", json!(2)),
            ("response_format", json!({"type": "json_object"})),
            ("tools", json!([{"type": "function", "function": {"name": "f"}}])),
            ("logprobs", json!(true)),
            ("stream", json!(false)),
        ] {
            let mut body = plain.clone();
            body[name] = value;
            assert!(!request(&body).wants_plain_text(), "{name}");
        }
    }
}
