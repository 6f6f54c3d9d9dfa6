//! The end of a stream: the last chunks of a complete answer, or an error.

use super::{CHOICE_OPEN, Closing, DONE, Normaliser, Shape};
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

    pub(super) fn end_of_stream(&mut self) {
        if !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some()) {
            self.complete();
        } else {
            self.failure = Some(Failure::new(
                FailureKind::StreamBroken,
                "The upstream ended its stream without a finish reason.",
            ));
        }
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
        for index in 0..self.choices.len() {
            let reason = self.choices.get(index).and_then(|choice| choice.finish).unwrap_or(Finish::Stop);
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
