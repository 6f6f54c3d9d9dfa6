//! One choice of an answer.

use serde_json::Value;

use super::text::words;
use super::tools::DemoToolCall;

/// One choice.
#[derive(Debug, Default)]
pub(super) struct DemoChoice {
    pub(super) text: String,
    /// The bytes of the prompt at the begin of the text.
    pub(super) echoed_bytes: usize,
    pub(super) called: Vec<DemoToolCall>,
    /// The tools were offered as legacy functions.
    pub(super) is_legacy: bool,
    /// The token limit cut the text.
    pub(super) is_cut: bool,
}

impl DemoChoice {
    /// The words of the text behind its prompt, and of the arguments.
    pub(super) fn tokens(&self) -> u64 {
        let written = self.text.get(self.echoed_bytes..).unwrap_or_default();
        words(written) + self.called.iter().map(|called| words(&called.arguments) + 1).sum::<u64>()
    }

    pub(super) fn finish(&self) -> &'static str {
        match (self.called.is_empty(), self.is_legacy, self.is_cut) {
            (false, false, _) => "tool_calls",
            (false, true, _) => "function_call",
            (true, _, true) => "length",
            (true, _, false) => "stop",
        }
    }

    /// A choice whose text ends at the first stop sequence or at the token limit.
    pub(super) fn limited(mut text: String, request: &Value) -> Self {
        let stops = match request.get("stop") {
            Some(Value::String(stop)) => vec![stop.as_str()],
            Some(Value::Array(stops)) => stops.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let stop = stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop)).min();
        if let Some(at) = stop {
            text.truncate(at);
        }
        let limit =
            ["max_completion_tokens", "max_tokens"].iter().find_map(|name| request.get(name)?.as_u64());
        let is_cut = limit.is_some_and(|limit| words(&text) > limit);
        if let Some(limit) = limit.filter(|_| is_cut) {
            let kept: Vec<&str> =
                text.split_inclusive(' ').take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
            text = kept.concat().trim_end().to_owned();
        }
        Self { text, is_cut, ..Self::default() }
    }
}
