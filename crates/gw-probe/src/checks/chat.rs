//! The plain chat: the answer, its head, its finish reason, its usage, and reasoning in its text.

use serde_json::{Value, json};

use super::{ProbeRun, head, usage};
use crate::answer::ReplyFacts;
use crate::endpoint::RawAnswer;
use crate::finding::{Finding, failure_text};

/// The prompt of the plain chat.
const PROMPT: &str = "Reply with this single word: ready";

impl ProbeRun<'_> {
    pub(super) async fn plain_chat(&mut self) {
        let request = self.request(PROMPT, json!({}));
        let exchange = self.endpoint.chat("chat", &request).await;
        if let Some(raw) = exchange.raw.as_ref().filter(|raw| (200..300).contains(&raw.status)) {
            self.findings.add("chat.content_type", head::plain_type(&raw.headers));
            self.findings.add("chat.encoding", head::encoding(&raw.headers));
        }
        let reply = match exchange.reply {
            Ok(reply) => reply,
            Err(failure) => {
                self.findings.add("chat.answer", Finding::failed("a chat answer", failure_text(&failure)));
                self.stop_after(failure.kind);
                return;
            }
        };
        let Some(raw) = exchange.raw else { return };
        self.findings.add("chat.answer", answer(&reply, &raw));
        let json = raw.json().filter(|_| self.endpoint.is_openai());
        self.findings.add("chat.finish_reason", finish_reason(&reply, json.as_ref()));
        let counts = json.as_ref().and_then(|body| body.get("usage"));
        let finding = usage::plausible(&reply, counts, PROMPT.len() as u64, self.max_tokens);
        self.findings.add("chat.usage", finding);
        self.plain_prompt_tokens = reply.usage.map(|usage| usage.prompt);
        self.findings.add("limits.headers", head::limits(&raw.headers));
        self.reasoning(&reply);
    }

    /// Reasoning must be a member of its own.
    fn reasoning(&mut self, reply: &ReplyFacts) {
        let first = reply.first();
        let tokens = reply.usage.and_then(|usage| usage.reasoning).filter(|tokens| *tokens > 0);
        let finding = if first.text.trim_start().starts_with("<think>") {
            Finding::failed("reasoning in a member of its own", "<think> in the text of the answer")
        } else if !first.reasoning.is_empty() {
            Finding::Passed(format!("{} characters", first.reasoning.chars().count()))
        } else if let Some(tokens) = tokens {
            Finding::Passed(format!("{tokens} tokens, whose text is not shown"))
        } else {
            Finding::NotOffered("the answer has no reasoning".to_owned())
        };
        self.findings.add("reasoning", finding);
    }
}

fn answer(reply: &ReplyFacts, raw: &RawAnswer) -> Finding {
    let first = reply.first();
    if first.text.is_empty()
        && first.reasoning.is_empty()
        && first.finish != Some(gw_wire::reply::Finish::Length)
    {
        return Finding::failed("a text", "an empty answer");
    }
    Finding::Passed(format!("{} ms", raw.took.as_millis()))
}

fn finish_reason(reply: &ReplyFacts, json: Option<&Value>) -> Finding {
    let own = json.and_then(|body| body.pointer("/choices/0/finish_reason")?.as_str());
    let read = reply.first().finish;
    match (json, own, read) {
        (Some(_), None, _) | (None, _, None) => Finding::failed("a finish_reason", "none"),
        (_, Some(own), None) => Finding::failed("a finish_reason of the API", own),
        (_, _, Some(read)) => Finding::Passed(read.as_str().to_owned()),
    }
}
