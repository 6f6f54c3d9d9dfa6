//! Transcripts of Gemini's models (<https://ai.google.dev/gemini-api/docs/audio>, November 2026): the recording is a part of a prompt
//! that asks for its text.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::Finish;
use gw_wire::request::transcription::{TextFormat, Transcript, TranscriptionRequest};

use super::inline::{MOST_FILE_BYTES, add_file};
use super::path::{ModelPaths, method, post};
use super::response;
use super::stream::GeminiStream;
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::bounded::Bounded;
use crate::adapters::failure::invalid;
use crate::inline_files::InlineFiles;
use crate::multipart::FormFile;
use crate::surfaces::Transcription;

/// The transcripts of a service.
#[derive(Debug)]
pub(in crate::adapters) struct GeminiTranscription<P>(pub(in crate::adapters) P);

impl<P: ModelPaths> Transcription for GeminiTranscription<P> {
    fn check(&self, request: &TranscriptionRequest) -> Result<(), &'static str> {
        if matches!(request.format, TextFormat::Json | TextFormat::Text) {
            return Ok(());
        }
        Err("writes no times and no speakers: 'response_format' must be 'json' or 'text'.")
    }

    fn most_file_bytes(&self) -> u64 {
        MOST_FILE_BYTES
    }

    fn encode(
        &self,
        request: &TranscriptionRequest,
        file: &FormFile,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let mut document = InlineFiles::default();
        document.json("{\"contents\":[{\"role\":\"user\",\"parts\":[");
        add_file(&mut document, file, sound_type(file));
        document.json(",{\"text\":");
        document.string(&instruction(request));
        document.json("}]}]");
        if let Some(temperature) = request.body.get("temperature") {
            document.json(format!(",\"generationConfig\":{{\"temperature\":{temperature}}}"));
        }
        document.json("}");
        let path = self.0.method_path(target.upstream_model, method(request.stream));
        Ok(document.into_call(post(path, Bytes::new())))
    }

    fn decode<'a>(&self, body: &'a [u8], _: &TranscriptionRequest) -> Result<Transcript<'a>, Failure> {
        let reply = response::decode(body)?;
        let choice = reply.choices.into_iter().next().unwrap_or_default();
        let text = match choice.content.unwrap_or_default() {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim_end()),
            Cow::Owned(text) => Cow::Owned(text.trim_end().to_owned()),
        };
        // A silent recording has no text, but the model stops of its own accord.
        match choice.finish {
            Some(reason) => incomplete(reason).map_or(Ok(()), Err)?,
            None => return Err(invalid("the transcript has no end")),
        }
        Ok(Transcript::Text { text, usage: reply.usage.map(Box::new) })
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        Box::new(Bounded::new(GeminiTranscriptStream { inner: GeminiStream::default(), has_failed: false }))
    }
}

/// The failure of a model that did not write the transcript to its end. A transcript has no member that could tell it.
fn incomplete(reason: Finish) -> Option<Failure> {
    match reason {
        Finish::ContentFilter => {
            let message = "The upstream provider's filter refused the recording or its text.";
            Some(Failure::new(FailureKind::ContentFilter, message))
        }
        Finish::Length => Some(invalid("the transcript is longer than the model's answer may be")),
        _ => None,
    }
}

/// A stream that ends with an error if its transcript is not complete.
struct GeminiTranscriptStream {
    inner: GeminiStream,
    has_failed: bool,
}

impl GeminiTranscriptStream {
    fn pass(
        &mut self,
        read: impl FnOnce(&mut GeminiStream, &mut dyn FnMut(Event<'_>)),
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let Self { inner, has_failed } = self;
        read(inner, &mut |event| {
            if *has_failed {
                return;
            }
            // The stream tells its end after its usage.
            match event {
                Event::Finish { reason, .. } if let Some(failure) = incomplete(reason) => {
                    *has_failed = true;
                    sink(Event::Error(failure));
                }
                event => sink(event),
            }
        });
    }
}

impl StreamDecoder for GeminiTranscriptStream {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        self.pass(|inner, sink| inner.feed(chunk, sink), sink);
    }

    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.pass(|inner, sink| inner.eof(sink), sink);
    }

    fn held_bytes(&self) -> usize {
        self.inner.held_bytes()
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        self.inner.work_bytes(chunk)
    }
}

/// The text that asks the model for a transcript or a translation.
fn instruction(request: &TranscriptionRequest) -> String {
    let mut text = if request.is_translation {
        "Translate the speech of this recording into English. Answer with the translation alone.".to_owned()
    } else {
        "Write down the speech of this recording word for word. Answer with these words alone.".to_owned()
    };
    if let Some(language) = request.field("language") {
        let _ = write!(text, " The language is {language:?}.");
    }
    if let Some(hint) = request.field("prompt").filter(|hint| !hint.is_empty()) {
        let _ = write!(text, " Names and words that may occur: {hint}");
    }
    text
}

/// The media type of a recording.
fn sound_type(file: &FormFile) -> &str {
    let ending = file.name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let by_name = match ending.as_deref() {
        Some("wav") => Some("audio/wav"),
        Some("mp3" | "mpga" | "mpeg") => Some("audio/mp3"),
        Some("flac") => Some("audio/flac"),
        Some("ogg" | "oga" | "opus") => Some("audio/ogg"),
        Some("m4a" | "mp4") => Some("audio/mp4"),
        Some("aac") => Some("audio/aac"),
        Some("aiff" | "aif") => Some("audio/aiff"),
        Some("webm") => Some("audio/webm"),
        _ => None,
    };
    let told = file.media_type.as_deref().filter(|told| told.starts_with("audio/"));
    by_name.or(told).unwrap_or("audio/wav")
}
