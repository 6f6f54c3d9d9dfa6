//! The models `speech` and `transcribe`: a tone that follows from the text, and a text that follows from the recording.

use std::future::poll_fn;
use std::iter;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Crc;
use gw_wire::failure::{Failure, FailureKind};
use serde_json::{Value, json};

use super::body::{BodyStep, DemoBody};
use super::response::DemoResponse;
use super::text::words;
use crate::multipart::Upload;

/// Samples of a second.
const RATE: u32 = 8_000;
/// Samples of a character, and the most of a text: two seconds.
const SAMPLES_OF_CHARACTER: usize = 400;
const MOST_SAMPLES: usize = 16_000;
/// Pieces of a stream.
const PIECE_BYTES: usize = 8_000;

/// The speech of a text: a WAV file with a tone, or its samples alone.
pub(super) fn speech(request: &Value) -> DemoResponse {
    let Some(input) = request.get("input").and_then(Value::as_str) else {
        return DemoResponse::error(400, "invalid_request_error", None, "'input' is missing.");
    };
    let samples = tone(input);
    let is_bare = request.get("response_format").and_then(Value::as_str) == Some("pcm");
    let sound = if is_bare { samples } else { wav(&samples) };
    if request.get("stream_format").and_then(Value::as_str) == Some("sse") {
        let mut body = String::new();
        for piece in sound.chunks(PIECE_BYTES) {
            let event = json!({"type": "speech.audio.delta", "audio": BASE64_STANDARD.encode(piece)});
            body.push_str(&format!("data: {event}\n\n"));
        }
        let (read, spoken) = (words(input), sound.len() as u64 / 1_000);
        let usage = json!({"input_tokens": read, "output_tokens": spoken, "total_tokens": read + spoken});
        let done = json!({"type": "speech.audio.done", "usage": usage});
        body.push_str(&format!("data: {done}\n\n"));
        return DemoResponse::events(DemoBody::whole(body.into()));
    }
    let pieces = sound.chunks(PIECE_BYTES).map(|piece| BodyStep::Chunk(piece.to_vec().into()));
    DemoResponse::new(200, if is_bare { "audio/pcm" } else { "audio/wav" }, DemoBody::script(pieces))
}

/// Samples of 16 bits of a square wave, whose pitch follows from the text.
pub(super) fn tone(input: &str) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(input.as_bytes());
    let period = 16 + crc.sum() as usize % 48;
    let count =
        input.chars().count().saturating_mul(SAMPLES_OF_CHARACTER).clamp(RATE as usize / 10, MOST_SAMPLES);
    let sample = |at: usize| if at % period < period / 2 { 4_000_i16 } else { -4_000 };
    (0..count).flat_map(|at| sample(at).to_le_bytes()).collect()
}

/// A WAV file with one channel of these samples.
fn wav(samples: &[u8]) -> Vec<u8> {
    let length = u32::try_from(samples.len()).unwrap_or(0);
    let mut file = Vec::with_capacity(44 + samples.len());
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + length).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    // PCM with one channel.
    file.extend_from_slice(&[1, 0, 1, 0]);
    file.extend_from_slice(&RATE.to_le_bytes());
    file.extend_from_slice(&(RATE * 2).to_le_bytes());
    // Two bytes and 16 bits a sample.
    file.extend_from_slice(&[2, 0, 16, 0]);
    file.extend_from_slice(b"data");
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(samples);
    file
}

/// Reads a form to its end. Returns the bytes that came.
pub(super) async fn drain(upload: &Upload) -> Result<u64, Failure> {
    let mut body = upload.open();
    let mut bytes = 0_u64;
    while let Some(piece) = poll_fn(|cx| body.source.poll_piece(cx)).await {
        let piece = piece.map_err(|torn| Failure::new(FailureKind::StreamBroken, torn.to_string()))?;
        bytes = bytes.saturating_add(piece.len() as u64);
    }
    Ok(bytes)
}

/// The text of a recording.
pub(super) async fn transcript(upload: &Upload) -> DemoResponse {
    if let Err(torn) = drain(upload).await {
        return DemoResponse::error(400, "invalid_request_error", None, &torn.message);
    }
    let Some(form) = upload.form() else {
        return DemoResponse::error(400, "invalid_request_error", None, "The body is no form.");
    };
    let bytes = form.files().filter_map(|file| file.content.length()).sum::<u64>();
    let text = format!("The demo heard {bytes} bytes.");
    if form.field("stream") == Some("true") {
        let mut body = String::new();
        let deltas =
            text.split_inclusive(' ').map(|word| json!({"type": "transcript.text.delta", "delta": word}));
        for event in deltas.chain(iter::once(json!({"type": "transcript.text.done", "text": text}))) {
            body.push_str(&format!("data: {event}\n\n"));
        }
        return DemoResponse::events(DemoBody::whole(body.into()));
    }
    let plain = |media_type, text: String| DemoResponse::new(200, media_type, DemoBody::whole(text.into()));
    match form.field("response_format").unwrap_or("json") {
        "text" => plain("text/plain", format!("{text}\n")),
        "srt" => plain("text/plain", format!("1\n00:00:00,000 --> 00:00:01,000\n{text}\n\n")),
        "vtt" => plain("text/vtt", format!("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n{text}\n\n")),
        "verbose_json" => {
            let segment = json!({
                "id": 0, "seek": 0, "start": 0.0, "end": 1.0, "text": text, "tokens": [], "temperature": 0.0, "avg_logprob": 0.0,
                "compression_ratio": 1.0, "no_speech_prob": 0.0
            });
            DemoResponse::json(200, &json!({"language": "english", "text": text, "segments": [segment]}))
        }
        "diarized_json" => {
            let segment = json!({
                "id": "seg_0", "type": "transcript.text.segment", "start": 0.0, "end": 1.0, "text": text, "speaker": "A"
            });
            DemoResponse::json(200, &json!({"task": "transcribe", "text": text, "segments": [segment]}))
        }
        _ => DemoResponse::json(200, &json!({"text": text})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_follows_from_its_text() {
        let (hi, ho) = (wav(&tone("hi there")), wav(&tone("ho there")));
        assert_eq!(hi, wav(&tone("hi there")));
        assert!(hi != ho && hi.starts_with(b"RIFF") && hi.len() == 44 + 2 * 8 * SAMPLES_OF_CHARACTER);
        assert_eq!(wav(&tone(&"x".repeat(4_096))).len(), 44 + 2 * MOST_SAMPLES);
    }
}
