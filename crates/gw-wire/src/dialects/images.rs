//! Streams of generated images: partial images as they come, and the complete one with its usage at the end.

use std::fmt;

use super::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening, StreamError};
use crate::event::{COMPLETED_IMAGE, Event, PARTIAL_IMAGE};
use crate::json::{ObjectWriter, View, write_object};
use crate::render::Envelope;
use crate::reply::{ChatReply, Finish};
use crate::request::images::write_usage;
use crate::stream::{Closing, KEEPALIVE};

/// The members of an event that clients get.
const MEMBERS: [&str; 9] = [
    "b64_json",
    "url",
    "partial_image_index",
    "created_at",
    "size",
    "quality",
    "background",
    "output_format",
    "revised_prompt",
];

/// Writes streams of images.
#[derive(Clone, Copy, Debug)]
pub struct ImagesForm {
    /// The images are edited ones.
    pub is_edit: bool,
}

impl AnswerForm for ImagesForm {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::OpenAi
    }

    fn encoder(&self, opening: EncoderOpening) -> Box<dyn AnswerEncoder> {
        Box::new(ImagesEncoder { created: opening.created, is_edit: self.is_edit, completed: None })
    }

    /// No chat becomes an answer of this form.
    fn write(&self, _: &ChatReply<'_>, _: &Envelope<'_>) -> Vec<u8> {
        Vec::new()
    }
}

/// Writes one stream. The complete image waits for the end of the stream, because a stream that fails has none.
#[derive(Clone)]
struct ImagesEncoder {
    created: u64,
    is_edit: bool,
    /// The frame of the complete image, open for its usage.
    completed: Option<Vec<u8>>,
}

impl fmt::Debug for ImagesEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImagesEncoder").field("held", &self.held_bytes()).finish_non_exhaustive()
    }
}

impl ImagesEncoder {
    /// Begins the frame of an event with the upstream's members.
    fn begin(&self, name: &'static str, value: &str, out: &mut Vec<u8>) {
        let name = match name {
            PARTIAL_IMAGE if self.is_edit => "image_edit.partial_image",
            COMPLETED_IMAGE if self.is_edit => "image_edit.completed",
            name => name,
        };
        let known = View::new(value).pick(MEMBERS);
        out.reserve(value.len() + 128);
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\ndata: ");
        let mut object = ObjectWriter::begin_typed(out, name);
        let mut is_dated = false;
        for (name, value) in MEMBERS.into_iter().zip(known) {
            // A text or a number has no line breaks of its own.
            let value = value.filter(|value| !value.text().starts_with(['{', '[', 'n']));
            if let Some(value) = value {
                is_dated |= name == "created_at";
                object.raw(name, value.text());
            }
        }
        if !is_dated {
            object.integer("created_at", self.created);
        }
    }
}

/// Ends the frame of an event.
fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n\n");
}

impl AnswerEncoder for ImagesEncoder {
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match event {
            Event::Extra { name, value, .. } if *name == PARTIAL_IMAGE => {
                self.begin(PARTIAL_IMAGE, value.get(), out);
                end(out);
            }
            Event::Extra { name, value, .. } if *name == COMPLETED_IMAGE => {
                // The usage of all images is in the last one.
                if let Some(earlier) = self.completed.take() {
                    out.extend_from_slice(&earlier);
                    end(out);
                }
                let mut frame = Vec::new();
                self.begin(COMPLETED_IMAGE, value.get(), &mut frame);
                self.completed = Some(frame);
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        let Some(completed) = self.completed.take() else { return };
        out.extend_from_slice(&completed);
        let mut object = ObjectWriter::resume(out);
        object.object("usage", |usage| write_usage(usage, &closing.usage, closing.cost));
        object.finish();
        out.extend_from_slice(b"\n\n");
    }

    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>) {
        self.completed = None;
        out.extend_from_slice(b"event: error\ndata: ");
        write_object(out, |object| {
            object.string("type", "error");
            object.object("error", |fault| {
                fault.string("message", error.message);
                fault.string("type", error.kind);
                fault.string("code", error.code);
            });
        });
        out.extend_from_slice(b"\n\n");
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(KEEPALIVE);
    }

    fn closer(&self) -> Box<dyn AnswerEncoder> {
        Box::new(Self { created: self.created, is_edit: self.is_edit, completed: None })
    }

    fn boxed_clone(&self) -> Box<dyn AnswerEncoder> {
        Box::new(self.clone())
    }

    fn held_bytes(&self) -> usize {
        self.completed.as_ref().map_or(0, Vec::capacity)
    }
}
