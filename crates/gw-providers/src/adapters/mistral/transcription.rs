//! Voxtral's transcripts (docs.mistral.ai/api/endpoint/audio/transcriptions, November 2026). They are always JSON, so that texts and
//! subtitles are written from it, and their streams have events of their own.

use gw_wire::failure::Failure;
use gw_wire::request::transcription::{TextFormat, Transcript, TranscriptionRequest};

use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::openai::{transcription, transcription_stream};
use crate::multipart::{FormFile, Multipart};
use crate::surfaces::Transcription;

/// The fields that Mistral knows. It refuses others.
const FIELDS: [&str; 4] = ["language", "temperature", "stream", GRANULARITIES];
const GRANULARITIES: &str = "timestamp_granularities[]";

/// The transcripts at `/audio/transcriptions`.
#[derive(Debug)]
pub(super) struct Voxtral;

impl Transcription for Voxtral {
    fn check(&self, request: &TranscriptionRequest) -> Result<(), &'static str> {
        if request.is_translation {
            return Err("cannot translate recordings: Mistral transcribes them alone.");
        }
        if request.format == TextFormat::Diarized {
            return Err("has no 'diarized_json' here.");
        }
        Ok(())
    }

    fn encode(
        &self,
        request: &TranscriptionRequest,
        file: &FormFile,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let mut fields = vec![("model".to_owned(), target.upstream_model.to_owned())];
        fields.extend(request.form_fields().into_iter().filter(|(name, _)| FIELDS.contains(&name.as_str())));
        let has_times = fields.iter().any(|(name, _)| name == GRANULARITIES);
        let needs_times = matches!(request.format, TextFormat::Srt | TextFormat::Vtt | TextFormat::Verbose);
        if needs_times && !has_times {
            fields.push((GRANULARITIES.to_owned(), "segment".to_owned()));
        }
        let form = Multipart::of_fields(fields).with_file(file.clone());
        let accept = if request.stream { "text/event-stream" } else { "application/json" };
        Ok(form.into_call("/audio/transcriptions".to_owned(), accept))
    }

    fn decode<'a>(&self, body: &'a [u8], _: &TranscriptionRequest) -> Result<Transcript<'a>, Failure> {
        transcription::decode(body, TextFormat::Json)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        transcription_stream::decoder()
    }
}
