//! Streams of transcripts in OpenAI's events.

use std::fmt;

use super::speech::write_error;
use super::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening, StreamError};
use crate::event::{Event, TRANSCRIPT_DONE, TRANSCRIPT_SEGMENT};
use crate::json::{Kind, ObjectWriter, View, write_raw, write_str};
use crate::render::Envelope;
use crate::reply::{ChatReply, Finish};
use crate::request::transcription::write_stream_usage;
use crate::stream::{Closing, KEEPALIVE};

/// The members of a segment that clients get.
const SEGMENT: [&str; 5] = ["id", "start", "end", "text", "speaker"];

/// Writes streams of transcripts.
#[derive(Clone, Copy, Debug)]
pub struct TranscriptForm;

impl AnswerForm for TranscriptForm {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::OpenAi
    }

    fn encoder(&self, _: EncoderOpening) -> Box<dyn AnswerEncoder> {
        Box::new(TranscriptEncoder::default())
    }

    /// No chat becomes an answer of this form.
    fn write(&self, _: &ChatReply<'_>, _: &Envelope<'_>) -> Vec<u8> {
        Vec::new()
    }
}

/// Writes one stream. Its last event repeats the whole text.
#[derive(Clone, Default)]
struct TranscriptEncoder {
    /// The text so far.
    text: String,
    /// JSON of the tokens' probabilities.
    logprobs: Option<String>,
}

impl fmt::Debug for TranscriptEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TranscriptEncoder").field("held", &self.text.len()).finish_non_exhaustive()
    }
}

impl AnswerEncoder for TranscriptEncoder {
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match event {
            Event::Text { text, logprobs, .. } => {
                self.text.push_str(text);
                frame(out, "transcript.text.delta", |object| {
                    write_str(object.member("delta"), text);
                    if let Some(logprobs) = logprobs {
                        write_raw(object.member("logprobs"), logprobs);
                    }
                });
            }
            Event::Extra { name: TRANSCRIPT_SEGMENT, value, .. } => {
                let members = View::new(value.get()).pick(SEGMENT);
                frame(out, TRANSCRIPT_SEGMENT, |object| {
                    for (name, value) in SEGMENT.into_iter().zip(members) {
                        if let Some(value) = value.filter(|value| !is_nested(*value)) {
                            object.raw(name, value.text());
                        }
                    }
                });
            }
            Event::Extra { name: TRANSCRIPT_DONE, value, .. } => {
                let [text, logprobs] = View::new(value.get()).pick(["text", "logprobs"]);
                if let Some(text) = text.and_then(View::string) {
                    self.text = text.into_owned();
                }
                let logprobs = logprobs.filter(|value| value.kind() == Kind::Array);
                self.logprobs = logprobs.map(|value| value.text().replace(['\n', '\r'], " "));
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        frame(out, TRANSCRIPT_DONE, |object| {
            write_str(object.member("text"), &self.text);
            if let Some(logprobs) = &self.logprobs {
                object.raw("logprobs", logprobs);
            }
            object.object("usage", |usage| write_stream_usage(usage, &closing.usage, closing.cost));
        });
    }

    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>) {
        write_error(error, out);
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(KEEPALIVE);
    }

    fn closer(&self) -> Box<dyn AnswerEncoder> {
        Box::new(Self::default())
    }

    fn boxed_clone(&self) -> Box<dyn AnswerEncoder> {
        Box::new(self.clone())
    }

    fn held_bytes(&self) -> usize {
        self.text.capacity() + self.logprobs.as_ref().map_or(0, String::capacity)
    }
}

fn is_nested(value: View<'_>) -> bool {
    matches!(value.kind(), Kind::Object | Kind::Array)
}

fn frame(out: &mut Vec<u8>, name: &'static str, write: impl FnOnce(&mut ObjectWriter<'_>)) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    let mut object = ObjectWriter::begin_typed(out, name);
    write(&mut object);
    object.finish();
    out.extend_from_slice(b"\n\n");
}
