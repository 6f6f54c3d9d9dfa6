//! What comes back: one document for a whole answer, one per line in a stream, of the same shape.

use gw_wire::failure::Failure;
use gw_wire::reply::Finish;
use gw_wire::usage::Usage;
use serde_json::value::RawValue;

use crate::adapters::counts::count;
use crate::adapters::failure::gave_up;
use crate::adapters::openai::lenient::{LenientText, TextOrJson, lenient_members};

lenient_members! {
    /// `ChatResponse` and `GenerateResponse` in one.
    OllamaLine<'de> {
        model: LenientText<'de> = "model",
        message: OllamaMessage<'de> = "message",
        /// The text of `/api/generate`.
        response: LenientText<'de> = "response",
        /// The thinking of `/api/generate`.
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
    /// The assistant's message, or what is added to it.
    OllamaMessage<'de> {
        content: LenientText<'de> = "content",
        thinking: LenientText<'de> = "thinking",
        tool_calls: Vec<OllamaCall<'de>> = "tool_calls",
    }
}

lenient_members! {
    /// A whole call. Its number (`function.index`) is not to be trusted: many servers say 0 each time.
    OllamaCall<'de> {
        id: LenientText<'de> = "id",
        function: OllamaFunction<'de> = "function",
    }
}

lenient_members! {
    /// What is called, and with what: an object, of which the text is kept.
    OllamaFunction<'de> {
        name: LenientText<'de> = "name",
        arguments: TextOrJson<'de> = "arguments",
    }
}

impl OllamaLine<'_> {
    /// Whether this is the whole of an answer, or the end of a stream.
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some_and(|done| done.get() == "true")
    }

    /// Why the answer ended. Old servers do not say; `load` and `unload` answer requests that asked for nothing.
    ///
    /// # Errors
    /// The server gave up: servers that speak this dialect say so in these words, Ollama itself sends an error.
    pub(super) fn finish(&self, has_calls: bool) -> Result<Finish, Failure> {
        Ok(match self.done_reason.as_ref().map_or("", |reason| &reason.0) {
            reason @ ("error" | "abort") => return Err(gave_up(reason)),
            "length" => Finish::Length,
            _ if has_calls => Finish::ToolCalls,
            _ => Finish::Stop,
        })
    }

    /// What it used. The prompt's count is missing where all of it was in the cache of the call before.
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
