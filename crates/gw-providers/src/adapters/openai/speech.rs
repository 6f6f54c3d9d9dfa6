//! Speech at servers of OpenAI's dialect (platform.openai.com/docs/api-reference/audio/createSpeech, November 2026).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::ObjectWriter;
use gw_wire::reply::Finish;
use gw_wire::request::speech::SpeechRequest;
use gw_wire::usage::{Usage, small};
use serde_json::Value;
use serde_json::value::RawValue;

use super::audio_usage::{AudioUsage, usage};
use super::lenient::{LenientText, lenient_members};
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::bounded::Bounded;
use crate::adapters::failure::{body_text, invalid, invalid_event, reported};
use crate::adapters::http_call::post_json;
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};
use crate::surfaces::{Speech, WholeSound};

/// The speech of a provider at `/audio/speech`.
#[derive(Debug)]
pub(in crate::adapters) struct OpenAiSpeech;

impl Speech for OpenAiSpeech {
    fn encode(&self, request: &SpeechRequest, target: &Target<'_>) -> Result<HttpCall, Failure> {
        Ok(call("/audio/speech".to_owned(), Some(target.upstream_model), request))
    }

    fn decode<'a>(&self, body: &'a [u8], _: &SpeechRequest) -> Result<WholeSound<'a>, Failure> {
        Err(refusal(body))
    }

    fn stream(&self, request: &SpeechRequest, media_type: &str) -> Box<dyn StreamDecoder> {
        decoder(request, media_type)
    }
}

/// The call. None: the URL names the model.
pub(in crate::adapters) fn call(path: String, model: Option<&str>, request: &SpeechRequest) -> HttpCall {
    let mut out = Vec::with_capacity(request.input().len() + 256);
    let mut body = ObjectWriter::begin(&mut out);
    if let Some(model) = model {
        body.string("model", model);
    }
    request.write_members(&mut body);
    body.finish();
    post_json(path, out, if request.wants_events { "text/event-stream" } else { "*/*" })
}

/// The failure of an answer that is a document.
pub(in crate::adapters) fn refusal(body: &[u8]) -> Failure {
    match body_text(body).map(serde_json::from_str::<Value>) {
        Ok(Ok(document)) if document.get("error").is_some() => reported(&document, FailureKind::Server),
        _ => invalid("the answer is a document, not sound"),
    }
}

/// The decoder of an answer of this media type.
pub(in crate::adapters) fn decoder(request: &SpeechRequest, media_type: &str) -> Box<dyn StreamDecoder> {
    let estimate = request.estimated_usage();
    if media_type.starts_with("text/event-stream") {
        return Box::new(Bounded::new(SseAdapter::new(SpeechStream { estimate, ..SpeechStream::default() })));
    }
    let is_text = media_type.starts_with("text/") || media_type.contains("json");
    let is_sound = media_type.starts_with("audio/");
    Box::new(SoundFile { estimate, is_text, is_sound, has_begun: false })
}

/// A sound file, whose pieces pass as they come.
#[derive(Debug)]
struct SoundFile {
    estimate: Usage,
    is_text: bool,
    is_sound: bool,
    has_begun: bool,
}

impl StreamDecoder for SoundFile {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        if chunk.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            let is_text = self.is_text || !self.is_sound && matches!(chunk, [b'{' | b'<', ..]);
            if is_text {
                return sink(Event::Error(invalid("the answer is a text, not sound")));
            }
            // The upstream tells nothing, so that an answer that breaks off costs as much as a complete one.
            sink(Event::Usage(self.estimate));
        }
        sink(Event::Sound(chunk));
    }

    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if !self.has_begun {
            return sink(Event::Error(invalid("the answer has no sound")));
        }
        sink(Event::Finish { choice: 0, reason: Finish::Stop });
        sink(Event::End);
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn work_bytes(&self, _: Option<&[u8]>) -> usize {
        0
    }
}

/// Events with pieces of sound.
#[derive(Debug, Default)]
struct SpeechStream {
    estimate: Usage,
    has_begun: bool,
    progress: StreamProgress,
}

lenient_members! {
    /// One event.
    SpeechEvent<'de> {
        kind: LenientText<'de> = "type",
        audio: LenientText<'de> = "audio",
        usage: AudioUsage<'de> = "usage",
        error: &'de RawValue = "error",
    }
}

impl StreamState for SpeechStream {
    fn framing(_: u8) -> Framing {
        Framing::Events
    }

    fn progress(&mut self) -> &mut StreamProgress {
        &mut self.progress
    }

    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        if event.data == b"[DONE]" {
            return self.progress.end(sink);
        }
        let read: SpeechEvent<'_> = match serde_json::from_slice(event.data) {
            Ok(read) => read,
            Err(fault) => return self.progress.fail(invalid_event(&fault), sink),
        };
        let kind = read.kind.as_ref().map(|kind| kind.0.as_ref()).unwrap_or_default();
        if event.name == b"error" || kind == "error" || read.error.is_some() {
            let error = serde_json::from_slice(event.data).unwrap_or(Value::Null);
            return self.progress.fail(reported(&error, FailureKind::StreamBroken), sink);
        }
        if kind.ends_with("audio.delta") {
            if !std::mem::replace(&mut self.has_begun, true) {
                // Only the end reports the usage. An answer that breaks off costs as much as one that is a file.
                sink(Event::Usage(self.estimate));
            }
            let text = read.audio.as_ref().map(|audio| audio.0.as_bytes()).unwrap_or_default();
            match BASE64_STANDARD.decode(text) {
                Ok(sound) => sink(Event::Sound(&sound)),
                Err(_) => self.progress.fail(invalid("a piece of sound is not base64"), sink),
            }
        } else if kind.ends_with("audio.done") {
            let reported = read.usage.as_ref().and_then(usage).map(|usage| Usage {
                audio_completion: Some(small(usage.completion)),
                units: self.estimate.units,
                ..usage
            });
            sink(Event::Usage(reported.unwrap_or(self.estimate)));
            sink(Event::Finish { choice: 0, reason: Finish::Stop });
            self.progress.end(sink);
        }
    }

    fn held_bytes(&self) -> usize {
        0
    }
}
