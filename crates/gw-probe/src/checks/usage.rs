//! The plausibility of reported usage, against an estimate from the bytes of the prompt and of the answer.

use gw_wire::usage::Usage;
use serde_json::Value;

use crate::answer::ReplyFacts;
use crate::finding::Finding;

/// The most bytes of text that a token stands for, in any ordinary text.
const MAX_BYTES_PER_TOKEN: u64 = 12;
/// The most tokens that a chat template or a provider's own system prompt adds.
const MAX_TEMPLATE_TOKENS: u64 = 1024;

/// Checks the usage of an answer to a prompt of `prompt_bytes` with a limit of `max_tokens`. `raw` is the usage as it
/// was received, if the answer has OpenAI's format.
pub(super) fn plausible(
    reply: &ReplyFacts,
    raw: Option<&Value>,
    prompt_bytes: u64,
    max_tokens: u64,
) -> Finding {
    if let Some(finding) = raw.and_then(impossible) {
        return finding;
    }
    // The decoder reads nothing after a broken event, but the usage may follow it.
    let Some(usage) = reply.usage.or_else(|| counted(raw?)) else {
        return Finding::failed("usage", "no usage");
    };
    let text: u64 = reply.choices.values().map(|choice| choice.text.len() as u64).sum();
    let prompt = prompt_bytes / MAX_BYTES_PER_TOKEN..=prompt_bytes.saturating_add(MAX_TEMPLATE_TOKENS);
    let prompt = (*prompt.start()).max(1)..=*prompt.end();
    // Some providers count the end of the answer, too.
    let least = (text / MAX_BYTES_PER_TOKEN).max(u64::from(text > 0));
    let completion = least..=max_tokens.saturating_add(MAX_TEMPLATE_TOKENS);
    for (name, count, range) in [("prompt", usage.prompt, prompt), ("answer", usage.completion, completion)] {
        if !range.contains(&count) {
            let expected = format!("{} to {} {name} tokens", range.start(), range.end());
            return Finding::failed(expected, format!("{count} {name} tokens"));
        }
    }
    Finding::Passed(counts(&usage))
}

/// The counts of a usage object.
fn counted(raw: &Value) -> Option<Usage> {
    let count = |name: &str| raw.get(name).and_then(Value::as_u64);
    let (prompt, completion) = (count("prompt_tokens")?, count("completion_tokens")?);
    Some(Usage { prompt, completion, ..Usage::default() })
}

fn counts(usage: &Usage) -> String {
    let reasoning = usage.reasoning.filter(|tokens| *tokens > 0);
    let reasoning = reasoning.map(|tokens| format!(", {tokens} of them reasoning")).unwrap_or_default();
    format!("{} prompt tokens, {} answer tokens{reasoning}", usage.prompt, usage.completion)
}

/// A usage object whose own counts cannot be true.
fn impossible(raw: &Value) -> Option<Finding> {
    let count = |name: &str| raw.get(name).and_then(Value::as_u64);
    let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
    let total = count("total_tokens");
    match (prompt, completion, total) {
        (Some(0), Some(0), _) => {
            Some(Finding::failed("counts of tokens", "0 prompt tokens, 0 answer tokens"))
        }
        (Some(prompt), Some(completion), Some(total)) if prompt.saturating_add(completion) > total => {
            let sum = prompt.saturating_add(completion);
            Some(Finding::failed(format!("total_tokens {sum}"), format!("total_tokens {total}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gw_wire::usage::Usage;
    use serde_json::json;

    use super::*;

    fn reply(prompt: u64, completion: u64, text: &str) -> ReplyFacts {
        let mut reply = ReplyFacts {
            usage: Some(Usage { prompt, completion, ..Usage::default() }),
            ..ReplyFacts::default()
        };
        reply.choices.entry(0).or_default().text = text.to_owned();
        reply
    }

    #[test]
    fn counts_are_compared_with_the_bytes() {
        for (prompt, completion, result) in [
            (12, 2, "passed"),
            (12, 0, "failed"),
            (0, 2, "failed"),
            (90_000, 2, "failed"),
            (12, 90_000, "failed"),
        ] {
            let finding = plausible(&reply(prompt, completion, "ready"), None, 40, 256);
            assert_eq!(finding.as_str(), result, "{prompt} {completion}: {finding:?}");
        }
    }

    #[test]
    fn counts_that_contradict_each_other_are_failures() {
        let finding = |usage: Value| plausible(&reply(12, 2, "ready"), Some(&usage), 40, 256);
        let counts = |total: u64| json!({"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": total});
        assert_eq!(finding(counts(14)).as_str(), "passed");
        assert_eq!(finding(counts(3)), Finding::failed("total_tokens 14", "total_tokens 3"));
        let zero = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
        assert_eq!(finding(zero).as_str(), "failed");
        let none = ReplyFacts { usage: None, ..reply(1, 1, "") };
        assert_eq!(plausible(&none, None, 40, 256), Finding::failed("usage", "no usage"));
    }
}
