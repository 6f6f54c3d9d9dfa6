//! The samples of an answer, complete or in pieces, and the head of a WAV file before them.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::Finish;
use gw_wire::request::speech::SpeechRequest;
use gw_wire::sse::SseDecoder;
use gw_wire::usage::Usage;
use serde_json::Value;

use super::{WAV, spoken};
use crate::adapter::{StreamDecoder, work_by_lines};
use crate::adapters::failure::{body_text, broken, invalid, invalid_json};
use crate::adapters::gemini::candidate::{CandidateBlob, CandidatePart, GeminiResponse, finish_reason};
use crate::adapters::gemini::errors;
use crate::adapters::sse_adapter::EventSink;
use crate::surfaces::WholeSound;

/// Samples of a second where the answer does not tell.
const USUAL_RATE: u32 = 24_000;

/// Samples with their rate.
struct Samples {
    bytes: Vec<u8>,
    rate: u32,
}

/// The samples of a part; None: it has no sound.
fn samples(part: CandidatePart<'_>) -> Result<Option<Samples>, Failure> {
    let Some(CandidateBlob { mime_type, data: Some(data) }) = part.inline_data else { return Ok(None) };
    let kind = mime_type.map(|kind| kind.0.to_ascii_lowercase()).unwrap_or_default();
    if !kind.starts_with("audio/l16") && !kind.starts_with("audio/pcm") {
        return Err(invalid("the sound has no samples of 16 bits"));
    }
    let rate = kind.split(';').find_map(|parameter| parameter.trim().strip_prefix("rate=")?.parse().ok());
    let bytes =
        BASE64_STANDARD.decode(data.0.as_bytes()).map_err(|_| invalid("a piece of sound is not base64"))?;
    Ok((!bytes.is_empty()).then(|| Samples { bytes, rate: rate.unwrap_or(USUAL_RATE) }))
}

/// The head of a WAV file with one channel of samples of 16 bits. None: their number is not known yet.
fn wav_head(rate: u32, bytes: Option<usize>) -> [u8; 44] {
    let length = bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
    let mut head = [0; 44];
    let fields: [&[u8]; 11] = [
        b"RIFF",
        &length.saturating_add(36).to_le_bytes(),
        b"WAVEfmt ",
        &16_u32.to_le_bytes(),
        // Samples as they are, in one channel.
        &1_u16.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &rate.to_le_bytes(),
        &rate.saturating_mul(2).to_le_bytes(),
        // Two bytes, which are 16 bits.
        &[2, 0, 16, 0],
        b"data",
        &length.to_le_bytes(),
    ];
    head.iter_mut().zip(fields.into_iter().flatten()).for_each(|(place, byte)| *place = *byte);
    head
}

fn blocked() -> Failure {
    Failure::new(FailureKind::ContentFilter, "The upstream provider's filter refused the text or the speech.")
}

fn no_sound() -> Failure {
    invalid("the answer has no sound")
}

/// Reads an answer that is one document.
pub(super) fn whole<'a>(body: &[u8], request: &SpeechRequest) -> Result<WholeSound<'a>, Failure> {
    let text = body_text(body)?;
    let answer: GeminiResponse<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if answer.error.is_some() {
        let error = serde_json::from_str(text).unwrap_or(Value::Null);
        return Err(errors::reported(&error, FailureKind::Server));
    }
    let mut is_blocked = answer.is_blocked();
    let (mut bytes, mut rate) = (Vec::new(), USUAL_RATE);
    let usage = answer.usage_metadata.and_then(|counts| counts.usage());
    for candidate in answer.candidates.into_iter().flatten().take(1) {
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            if let Some(samples) = samples(part)? {
                rate = samples.rate;
                bytes.extend(samples.bytes);
            }
        }
        if let Some(reason) = candidate.finish_reason {
            is_blocked |= finish_reason(&reason.0, false)? == Finish::ContentFilter;
        }
    }
    if bytes.is_empty() || is_blocked {
        return Err(if is_blocked { blocked() } else { no_sound() });
    }
    if request.media_type == WAV {
        bytes.splice(0..0, wav_head(rate, Some(bytes.len())));
    }
    let usage = usage.map(|usage| spoken(usage, &request.estimated_usage()));
    Ok(WholeSound { sound: Cow::Owned(bytes), usage })
}

/// An answer whose samples come in events.
pub(super) struct SoundStream {
    events: SseDecoder,
    state: SoundState,
}

struct SoundState {
    estimate: Usage,
    is_wav: bool,
    has_sound: bool,
    has_usage: bool,
    is_finished: bool,
    is_blocked: bool,
    is_over: bool,
}

impl SoundStream {
    pub(super) fn new(request: &SpeechRequest) -> Self {
        let state = SoundState {
            estimate: request.estimated_usage(),
            is_wav: request.media_type == WAV,
            has_sound: false,
            has_usage: false,
            is_finished: false,
            is_blocked: false,
            is_over: false,
        };
        Self { events: SseDecoder::default(), state }
    }
}

impl SoundState {
    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            sink(Event::Error(failure));
        }
    }

    fn event(&mut self, data: &[u8], is_last: bool, sink: EventSink<'_>) {
        let data = data.trim_ascii();
        if self.is_over || data.is_empty() || data == b"[DONE]" {
            return;
        }
        let Ok(text) = std::str::from_utf8(data) else {
            return self.fail(invalid("an event of the stream is not UTF-8"), sink);
        };
        match serde_json::from_str::<GeminiResponse<'_>>(text) {
            Ok(answer) if answer.error.is_none() => {
                if let Err(failure) = self.answer(answer, sink) {
                    self.fail(failure, sink);
                }
            }
            Ok(_) => {
                let error = serde_json::from_str(text).unwrap_or(Value::Null);
                self.fail(errors::reported(&error, FailureKind::StreamBroken), sink);
            }
            Err(fault) if is_last && fault.is_eof() => self.fail(cut_off(), sink),
            Err(fault) => self.fail(invalid_json(&fault), sink),
        }
    }

    fn answer(&mut self, answer: GeminiResponse<'_>, sink: EventSink<'_>) -> Result<(), Failure> {
        self.is_blocked |= answer.is_blocked();
        // The counts grow, so that an answer that breaks off costs what was made until then.
        if let Some(usage) = answer.usage_metadata.and_then(|counts| counts.usage()) {
            self.has_usage = true;
            sink(Event::Usage(spoken(usage, &self.estimate)));
        }
        for candidate in answer.candidates.into_iter().flatten().take(1) {
            for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
                let Some(Samples { bytes, rate }) = samples(part)? else { continue };
                if !std::mem::replace(&mut self.has_sound, true) && self.is_wav {
                    sink(Event::Sound(&wav_head(rate, None)));
                }
                sink(Event::Sound(&bytes));
            }
            if let Some(reason) = candidate.finish_reason {
                self.is_finished = true;
                self.is_blocked |= finish_reason(&reason.0, false)? == Finish::ContentFilter;
            }
        }
        Ok(())
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        let failure = match self {
            Self { is_over: true, .. } => return,
            Self { is_blocked: true, .. } => blocked(),
            Self { has_sound: false, .. } => no_sound(),
            Self { is_finished: false, .. } => cut_off(),
            _ => {
                self.is_over = true;
                if !self.has_usage {
                    sink(Event::Usage(self.estimate));
                }
                sink(Event::Finish { choice: 0, reason: Finish::Stop });
                return sink(Event::End);
            }
        };
        self.fail(failure, sink);
    }
}

fn cut_off() -> Failure {
    broken("The upstream's stream ended before its end.")
}

impl StreamDecoder for SoundStream {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        let Self { events, state } = self;
        if events.feed(chunk, &mut |event| state.event(event.data, false, sink)).is_err() {
            state.fail(invalid("an event of the stream is larger than 16 MiB"), sink);
        }
    }

    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        let Self { events, state } = self;
        events.eof(&mut |event| state.event(event.data, true, sink));
        state.finish(sink);
    }

    fn held_bytes(&self) -> usize {
        self.events.held_bytes()
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        work_by_lines(self.events.pending_bytes(), chunk)
    }
}

#[cfg(test)]
mod tests {
    use gw_wire::request::RequestLimits;
    use gw_wire::request::speech::parse_speech;
    use serde_json::json;

    use super::*;

    fn request(format: &str) -> SpeechRequest {
        let body = json!({"model": "m", "input": "hi", "voice": "Kore", "response_format": format});
        parse_speech(body.to_string().into(), &RequestLimits::default()).unwrap()
    }

    fn answer(parts: &Value, reason: &str) -> Value {
        json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}]})
    }

    fn part(kind: &str, data: &str) -> Value {
        json!({"inlineData": {"mimeType": kind, "data": data}})
    }

    #[test]
    fn a_whole_file_has_the_rate_and_the_length_of_its_samples() {
        let parts =
            json!([part("audio/L16;codec=pcm;rate=16000", "AQIDBA=="), part("audio/L16;rate=16000", "BQY=")]);
        let body = answer(&parts, "STOP").to_string();
        let WholeSound { sound, usage } = whole(body.as_bytes(), &request("wav")).unwrap();
        let expected = "52494646\
                        2a00000057415645666d74201000000001000100803e0000007d000002001000\
                        6461746106000000010203040506";
        assert_eq!(gw_wire::hex::encode(&sound), expected);
        assert_eq!(usage, None);
        let WholeSound { sound, .. } = whole(body.as_bytes(), &request("pcm")).unwrap();
        assert_eq!(&*sound, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn answers_without_sound_have_their_reasons() {
        let kind = |body: &Value| {
            let body = body.to_string();
            whole(body.as_bytes(), &request("pcm")).map(|_| ()).map_err(|failure| failure.kind)
        };
        let blocked = Err(FailureKind::ContentFilter);
        assert_eq!(kind(&json!({"promptFeedback": {"blockReason": "SAFETY"}})), blocked);
        assert_eq!(kind(&answer(&json!([]), "PROHIBITED_CONTENT")), blocked);
        let invalid = Err(FailureKind::InvalidResponse);
        assert_eq!(kind(&answer(&json!([]), "STOP")), invalid);
        assert_eq!(kind(&answer(&json!([part("audio/mpeg", "AQI=")]), "STOP")), invalid);
        assert_eq!(kind(&answer(&json!([part("audio/L16", "?")]), "STOP")), invalid);
        assert_eq!(kind(&json!({"error": {"code": 500}})), Err(FailureKind::Server));
    }

    #[test]
    fn a_stream_that_breaks_off_has_no_end() {
        let mut stream = SoundStream::new(&request("pcm"));
        let first = json!({"candidates": [{"content": {"parts": [part("audio/L16", "AQI=")]}}]});
        let mut events = Vec::new();
        let mut sink = |event: Event<'_>| {
            events.push(match event {
                Event::Sound(bytes) => format!("{bytes:?}"),
                Event::Error(failure) => format!("{:?}", failure.kind),
                _ => "other".to_owned(),
            });
        };
        stream.feed(format!("data: {first}\n\n").as_bytes(), &mut sink);
        stream.eof(&mut sink);
        assert_eq!(events, ["[1, 2]", "StreamBroken"]);
    }
}
