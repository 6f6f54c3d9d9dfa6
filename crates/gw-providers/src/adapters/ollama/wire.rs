//! The JSON of answers. A complete answer is one document, and a stream has one document of the same form per line.

use gw_wire::failure::Failure;
use gw_wire::reply::Finish;
use gw_wire::usage::Usage;
use serde_json::value::RawValue;

use crate::adapters::counts::count;
use crate::adapters::failure::gave_up;
use crate::adapters::openai::lenient::{LenientText, TextOrJson, lenient_members};

lenient_members! {
    /// `ChatResponse` and `GenerateResponse` together.
    OllamaLine<'de> {
        model: LenientText<'de> = "model",
        message: OllamaMessage<'de> = "message",
        /// The text of `/api/generate`.
        response: LenientText<'de> = "response",
        /// The reasoning of `/api/generate`.
        thinking: LenientText<'de> = "thinking",
        logprobs: &'de RawValue = "logprobs",
        done: &'de RawValue = "done",
        done_reason: LenientText<'de> = "done_reason",
        prompt_eval_count: &'de RawValue = "prompt_eval_count",
        eval_count: &'de RawValue = "eval_count",
        error: &'de RawValue = "error",
    }
}

lenient_members! {
    /// The assistant's message, or a part of it.
    OllamaMessage<'de> {
        content: LenientText<'de> = "content",
        thinking: LenientText<'de> = "thinking",
        tool_calls: Vec<OllamaCall<'de>> = "tool_calls",
    }
}

lenient_members! {
    /// A complete call. Its index (`function.index`) is ignored, because many servers always send 0.
    OllamaCall<'de> {
        id: LenientText<'de> = "id",
        function: OllamaFunction<'de> = "function",
    }
}

lenient_members! {
    /// The name and the arguments of a call. The arguments are an object, which is kept as text.
    OllamaFunction<'de> {
        name: LenientText<'de> = "name",
        arguments: TextOrJson<'de> = "arguments",
    }
}

impl OllamaLine<'_> {
    /// Whether this is a complete answer, or the last line of a stream.
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some_and(|done| done.get() == "true")
    }

    /// The finish reason. Old servers give none. `load` and `unload` answer requests without a prompt.
    ///
    /// # Errors
    /// The server gave up. Other servers with this dialect report that as a reason. Ollama itself sends an error.
    pub(super) fn finish(&self, has_calls: bool) -> Result<Finish, Failure> {
        Ok(match self.done_reason.as_ref().map_or("", |reason| &reason.0) {
            reason @ ("error" | "abort") => return Err(gave_up(reason)),
            "length" => Finish::Length,
            _ if has_calls => Finish::ToolCalls,
            _ => Finish::Stop,
        })
    }

    /// The usage. The prompt's count is missing when the whole prompt was cached by the previous call.
    pub(super) fn usage(&self) -> Option<Usage> {
        let mut estimated = false;
        let prompt = count(self.prompt_eval_count, &mut estimated);
        let completion = count(self.eval_count, &mut estimated);
        if prompt.is_none() && completion.is_none() {
            return None;
        }
        estimated |= prompt.is_none() || completion.is_none();
        Some(Usage {
            prompt: prompt.unwrap_or(0),
            completion: completion.unwrap_or(0),
            estimated,
            ..Usage::default()
        })
    }
}
