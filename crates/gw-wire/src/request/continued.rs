//! A chat request that goes on where an answer to it broke off.

use bytes::Bytes;

use super::chat::parse_chat;
use super::{ChatRequest, RequestLimits};
use crate::json::{Kind, View, write_str};
use crate::usage::Usage;

/// What the next model is told. Not every provider takes a conversation that ends with the assistant's words.
const GO_ON: &str = "Your last message was cut off by a technical fault. Continue it exactly from where it stops, even in the \
                     middle of a word or sentence. Do not repeat anything of it, and do not say anything about the fault.";

impl ChatRequest {
    /// Whether an answer in plain text was asked for, one and of no given form: all that can be continued.
    #[must_use]
    pub fn wants_plain_text(&self) -> bool {
        let needs = &self.needs;
        let formed = needs.tools || needs.json_mode || needs.json_schema || needs.audio_output;
        let logprobs = self.body.view("logprobs").is_some_and(|value| value.text() == "true");
        self.n == 1 && self.stream && !formed && needs.openai_only.is_none() && !logprobs
    }

    /// The request for the rest of an answer of which this much has been said: the messages, what was said, and the wish to
    /// go on; a limit on the answer's tokens is made shorter by an estimate of what was said. None when nothing may
    /// follow.
    #[must_use]
    pub fn continued(&self, said: &str) -> Option<Self> {
        let spent = Usage::estimate(0, said.len() as u64).completion;
        let left = match self.max_tokens {
            Some(most) => Some(most.checked_sub(spent).filter(|left| *left > 0)?),
            None => None,
        };
        let mut out = Vec::with_capacity(self.body.bytes.len() + said.len() + GO_ON.len() + 128);
        for (name, range) in &self.body.members {
            out.push(if out.is_empty() { b'{' } else { b',' });
            write_str(&mut out, name);
            out.push(b':');
            let value = self.body.raw(range);
            match (&**name, left) {
                ("messages", _) => go_on(&mut out, value, said)?,
                ("max_tokens" | "max_completion_tokens", Some(left)) => {
                    out.extend_from_slice(left.to_string().as_bytes());
                }
                _ => out.extend_from_slice(value),
            }
        }
        out.push(b'}');
        // The body no longer holds `models` and `fallbacks`. The request itself was within the limits.
        let next = parse_chat(Bytes::from(out), &RequestLimits::NONE).ok()?;
        Some(Self { routing: self.routing.clone(), ..next })
    }
}

fn go_on(out: &mut Vec<u8>, messages: &[u8], said: &str) -> Option<()> {
    let text = std::str::from_utf8(messages).ok()?.trim_end();
    if View::new(text).kind() != Kind::Array {
        return None;
    }
    out.extend_from_slice(text.strip_suffix(']')?.as_bytes());
    out.extend_from_slice(b",{\"role\":\"assistant\",\"content\":");
    write_str(out, said);
    out.extend_from_slice(b"},{\"role\":\"user\",\"content\":");
    write_str(out, GO_ON);
    out.extend_from_slice(b"}]");
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
    fn what_was_said_stands_behind_the_messages_and_shortens_the_limit() {
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
    fn nothing_follows_what_has_used_up_its_limit() {
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
