//! Options of a chat: several choices, stop sequences, the token limit, the system prompt and an image.

use gw_wire::reply::Finish;
use serde_json::json;

use super::ProbeRun;
use crate::finding::Finding;

/// A red square of 64 × 64 pixels.
const RED_PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC";
/// The limit of the check of token limits. Some providers refuse a smaller one.
const SHORT_ANSWER_TOKENS: u64 = 16;
/// A longer text has more than the short answer's tokens.
const SHORT_ANSWER_BYTES: usize = 192;

impl ProbeRun<'_> {
    pub(super) async fn choices(&mut self) {
        if self.endpoint.provider().adapter().capabilities().choices < 2 {
            let why = "the API has no such option; the gateway makes one call for each choice";
            self.findings.add("choices", Finding::NotOffered(why.to_owned()));
            return;
        }
        let request = self.request("Reply with one word.", json!({ "n": 2 }));
        let exchange = self.endpoint.chat("choices", &request).await;
        let finding = match exchange.reply {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(reply) if reply.choices.len() == 2 => Finding::passed(),
            Ok(reply) => Finding::failed(
                "2 choices with different indexes",
                format!("{} of them", reply.choices.len()),
            ),
        };
        self.findings.add("choices", finding);
    }

    pub(super) async fn stop_sequence(&mut self) {
        let prompt = "Repeat exactly these words: alpha bravo charlie delta";
        let request = self.request(prompt, json!({ "stop": ["charlie"] }));
        let exchange = self.endpoint.chat("stop", &request).await;
        let is_dropped = exchange.warnings.iter().any(|warning| warning == "parameter_dropped:stop");
        let finding = match exchange.reply {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(_) if is_dropped => Finding::NotOffered("the model has no stop sequences".to_owned()),
            Ok(reply) => {
                let first = reply.first();
                let text = first.text.to_lowercase();
                if text.contains("charlie") {
                    Finding::failed("an answer that ends before 'charlie'", first.text)
                } else if text.contains("bravo") {
                    Finding::passed()
                } else {
                    let too_short = self.was_too_short(&text, first.finish);
                    too_short.unwrap_or_else(|| not_followed(&first.text))
                }
            }
        };
        self.findings.add("stop", finding);
    }

    pub(super) async fn token_limit(&mut self) {
        let prompt = "Count from 1 to 100, separated by commas.";
        let request = self.request(prompt, json!({ "max_tokens": SHORT_ANSWER_TOKENS }));
        let exchange = self.endpoint.chat("max_tokens", &request).await;
        let finding = match exchange.reply {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(reply) => {
                let first = reply.first();
                let tokens = reply.usage.map(|usage| usage.completion).filter(|tokens| *tokens > 0);
                let is_long = first.text.len() > SHORT_ANSWER_BYTES
                    || tokens.is_some_and(|tokens| tokens > SHORT_ANSWER_TOKENS + 1);
                let seen = tokens.map_or_else(
                    || format!("{} bytes", first.text.len()),
                    |tokens| format!("{tokens} tokens"),
                );
                match first.finish {
                    _ if is_long => Finding::failed(format!("at most {SHORT_ANSWER_TOKENS} tokens"), seen),
                    Some(Finish::Length) => Finding::Passed(seen),
                    _ if tokens.is_some_and(|tokens| tokens >= SHORT_ANSWER_TOKENS) => {
                        let reason = first.finish.map_or("none", Finish::as_str);
                        Finding::failed("finish_reason length", format!("{reason} after {seen}"))
                    }
                    _ => Finding::Skipped(format!("the answer ended before the limit, after {seen}")),
                }
            }
        };
        self.findings.add("max_tokens", finding);
    }

    pub(super) async fn system_prompt(&mut self) {
        let system = "You are a test fixture of a zoo. Whatever the user says, answer with one word, and this word is \
                      always: zebra. Never answer with another word.";
        let mut request = self.request("Reply with this single word: ready", json!({}));
        if let Some(messages) = request.get_mut("messages").and_then(|messages| messages.as_array_mut()) {
            messages.insert(0, json!({ "role": "system", "content": system }));
        }
        let exchange = self.endpoint.chat("system", &request).await;
        let finding = match exchange.reply {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(reply) => {
                let first = reply.first();
                let prompt = reply.usage.map(|usage| usage.prompt);
                let is_lost =
                    self.plain_prompt_tokens.zip(prompt).filter(|(plain, own)| own <= plain && *own > 0);
                if first.text.to_lowercase().contains("zebra") {
                    Finding::passed()
                } else if let Some((plain, own)) = is_lost {
                    let expected = format!("more than {plain} prompt tokens, as without a system prompt");
                    Finding::failed(expected, format!("{own}"))
                } else {
                    let too_short = self.was_too_short(&first.text, first.finish);
                    too_short.unwrap_or_else(|| not_followed(&first.text))
                }
            }
        };
        self.findings.add("system", finding);
    }

    pub(super) async fn image(&mut self) {
        let content = json!([
            { "type": "text", "text": "Which colour is this square? Answer with one word." },
            { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{RED_PNG}") } }
        ]);
        let request = self.request("", json!({ "messages": [{ "role": "user", "content": content }] }));
        let exchange = self.endpoint.chat("images", &request).await;
        let finding = match exchange.reply {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(reply) => {
                let first = reply.first();
                if first.text.to_lowercase().contains("red") {
                    Finding::passed()
                } else {
                    let too_short = self.was_too_short(&first.text, first.finish);
                    too_short.unwrap_or_else(|| not_followed(&first.text))
                }
            }
        };
        self.findings.add("images", finding);
    }
}

/// The model wrote something else, so the answer proves nothing about the endpoint.
fn not_followed(text: &str) -> Finding {
    Finding::Skipped(format!("the answer proves nothing, because the model did not do its task: {text}"))
}
