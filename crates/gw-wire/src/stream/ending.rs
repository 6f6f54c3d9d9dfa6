//! The end of a stream: the last chunks of a complete answer, or an error.

use super::{CHOICE_OPEN, ChoiceState, Closing, DONE, Normaliser, Shape};
use crate::dialects::{AnswerEncoder, StreamError};
use crate::failure::{Failure, FailureKind};
use crate::render::{gateway, put, put_int, text_finish, usage};
use crate::reply::Finish;

/// Ends a stream with an error in the dialect of the encoder, or else in OpenAI's.
pub fn close_with_error(encoder: Option<Box<dyn AnswerEncoder>>, out: &mut Vec<u8>, error: &StreamError<'_>) {
    match encoder {
        Some(mut encoder) => encoder.fail(error, out),
        None => write_error(out, error.message, error.kind, error.code),
    }
}

/// Writes the error event and the end of the stream.
fn write_error(out: &mut Vec<u8>, message: &str, kind: &str, code: &str) {
    put(out, "data: ");
    out.extend_from_slice(&crate::error_body::error_body(message, kind, code));
    put(out, "\n\n");
    out.extend_from_slice(DONE);
}

impl Normaliser {
    /// Records the end of the upstream's body. Without an end marker, every requested choice must have finished.
    pub fn eof(&mut self) {
        if self.is_complete || self.failure.is_some() {
            return;
        }
        let finished = self.choices.iter().filter(|choice| choice.finish.is_some()).count();
        if finished == self.opening.choices as usize {
            self.complete();
        } else {
            self.failure = Some(Failure::new(
                FailureKind::StreamBroken,
                "The upstream's stream ended before the answer was complete.",
            ));
        }
    }

    /// Records the upstream's end marker. Every choice that the upstream has begun must have finished. Some servers ignore `n`, so that
    /// choices may be missing, but each of several prompts must have one.
    pub(super) fn end_of_stream(&mut self) {
        let is_finished = self.choices.iter().all(|choice| choice.finish.is_some() || !choice.is_begun);
        self.failure = Some(if is_finished && !self.is_each_prompt_answered() {
            let message = "The upstream sent no choice for one of the prompts.";
            Failure::new(FailureKind::InvalidResponse, message)
        } else if is_finished && !self.choices.is_empty() {
            return self.complete();
        } else {
            let message = "The upstream ended its stream without a finish reason.";
            Failure::new(FailureKind::StreamBroken, message)
        });
    }

    /// Whether each of several prompts has a finished choice. The choices of a prompt follow each other.
    fn is_each_prompt_answered(&self) -> bool {
        if self.prompts < 2 {
            return true;
        }
        let each = self.opening.choices.checked_div(self.prompts).unwrap_or(1).max(1);
        let is_answered = |of_prompt: &&[ChoiceState]| of_prompt.iter().any(|choice| choice.finish.is_some());
        let answered = self.choices.chunks(each as usize).filter(is_answered).count();
        answered >= self.prompts as usize
    }

    /// Notes that the upstream has ended the answer. An answer that its client could not read has failed.
    fn complete(&mut self) {
        let finish = self.choices.first().and_then(|choice| choice.finish);
        match self.encoder.as_ref().and_then(|encoder| encoder.fault(finish)) {
            Some(message) => {
                self.failure = Some(Failure::new(FailureKind::StreamBroken, message));
                self.is_answer_unreadable = true;
            }
            None => self.is_complete = true,
        }
    }

    /// Finishes the stream: writes the finish chunks, the usage chunk if the client asked for it, and the end marker.
    pub fn finish(&mut self, closing: &Closing<'_>, out: &mut Vec<u8>) {
        if let Some(encoder) = &mut self.encoder {
            let finish = self.choices.first().and_then(|choice| choice.finish);
            return encoder.finish(finish, closing, out);
        }
        self.complete_tools(out);
        let last = self.choices.len().saturating_sub(1);
        // A choice that the upstream never sent has no finish. The last choice is never such a choice.
        for (index, choice) in self.choices.iter().enumerate().filter(|(_, choice)| choice.is_begun) {
            let reason = choice.finish.unwrap_or(Finish::Stop);
            out.extend_from_slice(&self.head);
            put_int(out, index as u64);
            let reason = match self.opening.shape {
                Shape::Chat => {
                    put(out, ",\"delta\":{},\"finish_reason\":\"");
                    reason
                }
                Shape::Text => {
                    put(out, ",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"");
                    text_finish(reason)
                }
            };
            put(out, reason.as_str());
            out.push(b'"');
            if index == last && !self.opening.include_usage {
                put(out, "}]");
                self.write_members(out);
                put(out, ",\"gateway\":");
                gateway(out, closing.gateway);
                put(out, "}\n\n");
            } else {
                out.extend_from_slice(self.tail);
            }
        }
        self.write_usage(closing, out);
        out.extend_from_slice(DONE);
    }

    /// Writes the usage chunk if the client asked for it.
    pub fn write_usage(&self, closing: &Closing<'_>, out: &mut Vec<u8>) {
        if !self.opening.include_usage || self.encoder.is_some() {
            return;
        }
        let shared = self.head.len().saturating_sub(CHOICE_OPEN.len());
        out.extend_from_slice(self.head.get(..shared).unwrap_or_default());
        put(out, "\"choices\":[],\"usage\":");
        // SPEC.md wants a number in a chat. `gateway.warnings` has `price_unknown` if it is not known.
        let chat_cost = (self.opening.shape == Shape::Chat).then(|| closing.cost.unwrap_or_default());
        usage(out, &closing.usage, chat_cost.or(closing.cost));
        self.write_members(out);
        put(out, ",\"gateway\":");
        gateway(out, closing.gateway);
        put(out, "}\n\n");
    }
}
