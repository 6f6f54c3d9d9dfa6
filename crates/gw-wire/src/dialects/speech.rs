//! Speech on its way to the client: the bytes of a sound file, or events with its pieces.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening, StreamError};
use crate::event::Event;
use crate::json::ObjectWriter;
use crate::money::Money;
use crate::render::Envelope;
use crate::reply::{ChatReply, Finish};
use crate::stream::{Closing, KEEPALIVE};
use crate::usage::Usage;

/// Writes speech.
#[derive(Clone, Copy, Debug)]
pub enum SpeechForm {
    /// The sound file itself.
    File,
    /// Events with its pieces.
    Events,
}

impl AnswerForm for SpeechForm {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::OpenAi
    }

    fn encoder(&self, _: EncoderOpening) -> Box<dyn AnswerEncoder> {
        Box::new(*self)
    }

    /// No chat becomes an answer of this form.
    fn write(&self, _: &ChatReply<'_>, _: &Envelope<'_>) -> Vec<u8> {
        Vec::new()
    }

    fn is_file(&self) -> bool {
        matches!(self, Self::File)
    }
}

/// Writes one answer. Nothing is kept.
impl AnswerEncoder for SpeechForm {
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match (self, event) {
            (Self::File, Event::Sound(piece)) => out.extend_from_slice(piece),
            (Self::Events, Event::Sound(piece)) => {
                out.extend_from_slice(b"event: speech.audio.delta\ndata: ");
                let mut object = ObjectWriter::begin_typed(out, "speech.audio.delta");
                object.string("audio", &BASE64_STANDARD.encode(piece));
                object.finish();
                out.extend_from_slice(b"\n\n");
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        if let Self::Events = self {
            out.extend_from_slice(b"event: speech.audio.done\ndata: ");
            let mut object = ObjectWriter::begin_typed(out, "speech.audio.done");
            object.object("usage", |usage| write_tokens(usage, &closing.usage, closing.cost));
            object.finish();
            out.extend_from_slice(b"\n\n");
        }
    }

    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>) {
        if let Self::Events = self {
            write_error(error, out);
        }
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        if let Self::Events = self {
            out.extend_from_slice(KEEPALIVE);
        }
    }

    fn closer(&self) -> Box<dyn AnswerEncoder> {
        Box::new(*self)
    }

    fn boxed_clone(&self) -> Box<dyn AnswerEncoder> {
        Box::new(*self)
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Ends a stream of events of OpenAI's audio API with an error.
pub(super) fn write_error(error: &StreamError<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: error\ndata: ");
    let mut object = ObjectWriter::begin_typed(out, "error");
    object.object("error", |fault| {
        fault.string("message", error.message);
        fault.string("type", error.kind);
        fault.string("code", error.code);
    });
    object.finish();
    out.extend_from_slice(b"\n\n");
}

/// Writes the tokens of texts and sound, and their cost; None = a price is unknown.
pub fn write_tokens(object: &mut ObjectWriter<'_>, usage: &Usage, cost: Option<Money>) {
    let heard = u64::from(usage.audio_prompt.unwrap_or(0)).min(usage.prompt);
    object.integer("input_tokens", usage.prompt);
    object.object("input_token_details", |details| {
        details.integer("text_tokens", usage.prompt - heard);
        details.integer("audio_tokens", heard);
    });
    object.integer("output_tokens", usage.completion);
    object.integer("total_tokens", usage.total());
    object.number_or_null("cost_usd", cost);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_bytes_in_a_file_and_base64_in_an_event() {
        let written = |mut form: SpeechForm, event: &Event<'_>| {
            let mut out = Vec::new();
            form.accept(event, &mut out);
            String::from_utf8(out).unwrap()
        };
        let frame =
            "event: speech.audio.delta\ndata: {\"type\":\"speech.audio.delta\",\"audio\":\"YWJj\"}\n\n";
        let event = Event::Sound(b"abc");
        assert_eq!(written(SpeechForm::File, &event), "abc");
        assert_eq!(written(SpeechForm::Events, &event), frame);
    }

    #[test]
    fn a_failure_is_an_event_and_leaves_a_file_as_it_is() {
        let error = StreamError::new("no", "upstream_error", "upstream_stream_error");
        let failed = |mut form: SpeechForm| {
            let mut out = Vec::new();
            form.fail(&error, &mut out);
            form.keepalive(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(failed(SpeechForm::File), "");
        assert!(
            failed(SpeechForm::Events).starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{")
        );
    }
}
