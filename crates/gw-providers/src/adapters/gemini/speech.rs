//! Speech of Gemini's models (<https://ai.google.dev/gemini-api/docs/speech-generation>, November 2026). They answer with samples of 16
//! bits, so that clients get these as they are or as a WAV file.

mod sound;

use gw_wire::failure::Failure;
use gw_wire::json::ObjectWriter;
use gw_wire::request::speech::SpeechRequest;
use gw_wire::usage::{Usage, small};

use self::sound::{SoundStream, whole};
use super::path::{ModelPaths, method, post};
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::bounded::Bounded;
use crate::surfaces::{Speech, WholeSound};

/// The media type of a WAV file for a client.
const WAV: &str = "audio/wav";

/// The speech of a service.
#[derive(Debug)]
pub(in crate::adapters) struct GeminiSpeech<P>(pub(in crate::adapters) P);

impl<P: ModelPaths> Speech for GeminiSpeech<P> {
    fn check(&self, request: &SpeechRequest) -> Result<(), &'static str> {
        if !matches!(request.media_type, WAV | "audio/pcm") {
            return Err("speaks as 'wav' or 'pcm' alone: set 'response_format' to one of them.");
        }
        if request.changes_speed() {
            return Err("has one speed: leave out 'speed', or say it in 'instructions'.");
        }
        Ok(())
    }

    fn encode(&self, request: &SpeechRequest, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let mut out = Vec::with_capacity(request.input().len() + 256);
        let mut body = ObjectWriter::begin(&mut out);
        body.array("contents", [request], |out, request| {
            let mut content = ObjectWriter::begin(out);
            content.string("role", "user");
            content.array("parts", [request], |out, request| {
                let mut part = ObjectWriter::begin(out);
                match request.instructions() {
                    // The models take the style from the prompt.
                    Some(style) => part.string("text", &format!("{style}: {}", request.input_text())),
                    None => part.raw("text", request.input()),
                }
                part.finish();
            });
            content.finish();
        });
        body.object("generationConfig", |config| {
            config.strings("responseModalities", ["AUDIO"]);
            config.object("speechConfig", |speech| {
                speech.object("voiceConfig", |voice| {
                    voice.object("prebuiltVoiceConfig", |voice| voice.string("voiceName", &request.voice));
                });
            });
        });
        body.finish();
        Ok(post(self.0.method_path(target.upstream_model, method(request.wants_events)), out))
    }

    fn decode<'a>(&self, body: &'a [u8], request: &SpeechRequest) -> Result<WholeSound<'a>, Failure> {
        whole(body, request)
    }

    fn stream(&self, request: &SpeechRequest, _: &str) -> Box<dyn StreamDecoder> {
        Box::new(Bounded::new(SoundStream::new(request)))
    }
}

/// The usage with the characters beside the tokens. Output whose kind the upstream does not tell is sound, but for the thoughts.
fn spoken(usage: Usage, request: &Usage) -> Usage {
    let made = usage.completion.saturating_sub(usage.reasoning.unwrap_or(0));
    Usage {
        audio_completion: usage.audio_completion.or_else(|| Some(small(made))),
        units: request.units,
        ..usage
    }
}
