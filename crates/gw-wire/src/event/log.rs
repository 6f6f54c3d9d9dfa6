//! A compact encoding of events, for streams that several requests share. Texts are stored as they are, so reading one
//! takes no JSON parser.
//!
//! A record is a tag and the fields of one event. Numbers are LEB128. A text is its length and its bytes. The encoding
//! never leaves the process.

mod fields;

use std::borrow::Cow;

use self::fields::{FieldReader, put_count, put_failure, put_finish, put_optional, put_text, put_usage};
use super::Event;
use crate::reply::Image;

/// The log ends inside a record, or it was not written by [`write()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log of events is damaged")]
pub struct DamagedLog;

const START: u8 = 0;
const TEXT: u8 = 1;
const TEXT_WITH_LOGPROBS: u8 = 2;
const REASONING: u8 = 3;
const REFUSAL: u8 = 4;
const TOOL_START: u8 = 5;
const CUSTOM_START: u8 = 6;
const TOOL_ARGS: u8 = 7;
const FUNCTION_CALL: u8 = 8;
const IMAGE: u8 = 9;
const EXTRA: u8 = 10;
const MEMBER: u8 = 11;
const FINISH: u8 = 12;
const USAGE: u8 = 13;
const ERROR: u8 = 14;
const END: u8 = 15;
const WRITTEN: u8 = 16;

/// Appends an event to a log.
pub fn write(event: &Event<'_>, log: &mut Vec<u8>) {
    match event {
        Event::Start { model, fingerprint } => {
            log.push(START);
            put_optional(log, model.as_deref());
            put_optional(log, fingerprint.as_deref());
        }
        Event::Text { choice, text, logprobs } => {
            begin(log, if logprobs.is_some() { TEXT_WITH_LOGPROBS } else { TEXT }, *choice);
            put_text(log, text);
            if let Some(logprobs) = logprobs {
                put_text(log, logprobs.get());
            }
        }
        Event::Reasoning { choice, text } => write_text(log, REASONING, *choice, text),
        Event::Refusal { choice, text } => write_text(log, REFUSAL, *choice, text),
        Event::ToolStart { choice, call, id, name } => {
            write_call(log, TOOL_START, *choice, *call, [id, name])
        }
        Event::CustomStart { choice, call, id, name } => {
            write_call(log, CUSTOM_START, *choice, *call, [id, name]);
        }
        Event::ToolArgs { choice, call, fragment } => write_call(log, TOOL_ARGS, *choice, *call, [fragment]),
        Event::FunctionCall { choice, name, arguments } => {
            begin(log, FUNCTION_CALL, *choice);
            put_optional(log, name.as_deref());
            put_optional(log, arguments.as_deref());
        }
        Event::Image { choice, image } => {
            begin(log, IMAGE, *choice);
            put_text(log, &image.media_type);
            put_text(log, &image.base64);
            put_count(log, image.tokens);
        }
        Event::Extra { choice, name, value } => {
            begin(log, EXTRA, *choice);
            put_text(log, name);
            put_text(log, value.get());
        }
        Event::Member { name, value } => {
            log.push(MEMBER);
            put_text(log, name);
            put_text(log, value.get());
        }
        Event::Finish { choice, reason } => {
            begin(log, FINISH, *choice);
            put_finish(log, *reason);
        }
        Event::Usage(usage) => {
            log.push(USAGE);
            put_usage(log, usage);
        }
        Event::Error(failure) => {
            log.push(ERROR);
            put_failure(log, failure);
        }
        Event::Written { bytes } => {
            log.push(WRITTEN);
            put_count(log, *bytes);
        }
        // The readers of a shared stream may speak different dialects, so they get the events of the content.
        Event::Frame { .. } => {}
        // No request shares a sound file.
        Event::Sound(_) => {}
        Event::End => log.push(END),
    }
}

fn begin(log: &mut Vec<u8>, tag: u8, choice: u32) {
    log.push(tag);
    put_count(log, u64::from(choice));
}

fn write_text(log: &mut Vec<u8>, tag: u8, choice: u32, text: &str) {
    begin(log, tag, choice);
    put_text(log, text);
}

fn write_call<const TEXTS: usize>(log: &mut Vec<u8>, tag: u8, choice: u32, call: u32, texts: [&str; TEXTS]) {
    begin(log, tag, choice);
    put_count(log, u64::from(call));
    texts.into_iter().for_each(|text| put_text(log, text));
}

/// The events of a log in order. They borrow from the log. A damaged log ends with an error.
#[must_use]
pub fn read(log: &[u8]) -> EventLog<'_> {
    EventLog { fields: FieldReader::new(log) }
}

/// Iterates over the events of a log.
#[derive(Clone, Debug)]
pub struct EventLog<'a> {
    fields: FieldReader<'a>,
}

impl<'a> EventLog<'a> {
    /// The bytes that are not read yet.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.fields.len()
    }

    fn event(&mut self) -> Option<Event<'a>> {
        let fields = &mut self.fields;
        let text = |text: &'a str| Cow::Borrowed(text);
        Some(match fields.byte()? {
            START => Event::Start {
                model: fields.optional()?.map(text),
                fingerprint: fields.optional()?.map(text),
            },
            TEXT => Event::Text { choice: fields.number()?, text: text(fields.text()?), logprobs: None },
            TEXT_WITH_LOGPROBS => Event::Text {
                choice: fields.number()?,
                text: text(fields.text()?),
                logprobs: Some(fields.json()?),
            },
            REASONING => Event::Reasoning { choice: fields.number()?, text: text(fields.text()?) },
            REFUSAL => Event::Refusal { choice: fields.number()?, text: text(fields.text()?) },
            TOOL_START => Event::ToolStart {
                choice: fields.number()?,
                call: fields.number()?,
                id: text(fields.text()?),
                name: text(fields.text()?),
            },
            CUSTOM_START => Event::CustomStart {
                choice: fields.number()?,
                call: fields.number()?,
                id: text(fields.text()?),
                name: text(fields.text()?),
            },
            TOOL_ARGS => Event::ToolArgs {
                choice: fields.number()?,
                call: fields.number()?,
                fragment: text(fields.text()?),
            },
            FUNCTION_CALL => Event::FunctionCall {
                choice: fields.number()?,
                name: fields.optional()?.map(text),
                arguments: fields.optional()?.map(text),
            },
            IMAGE => Event::Image {
                choice: fields.number()?,
                image: Image {
                    media_type: text(fields.text()?),
                    base64: text(fields.text()?),
                    tokens: fields.number()?,
                },
            },
            EXTRA => Event::Extra { choice: fields.number()?, name: fields.text()?, value: fields.json()? },
            MEMBER => Event::Member { name: fields.text()?, value: fields.json()? },
            FINISH => Event::Finish { choice: fields.number()?, reason: fields.finish()? },
            USAGE => Event::Usage(fields.usage()?),
            ERROR => Event::Error(fields.failure()?),
            END => Event::End,
            WRITTEN => Event::Written { bytes: fields.number()? },
            _ => return None,
        })
    }
}

impl<'a> Iterator for EventLog<'a> {
    type Item = Result<Event<'a>, DamagedLog>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.fields.len() == 0 {
            return None;
        }
        let event = self.event();
        if event.is_none() {
            self.fields = FieldReader::new(&[]);
        }
        Some(event.ok_or(DamagedLog))
    }
}

#[cfg(test)]
mod tests;
