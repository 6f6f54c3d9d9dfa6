//! Transcripts at servers of OpenAI's dialect (platform.openai.com/docs/api-reference/audio/createTranscription, November 2026).

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::View;
use gw_wire::request::transcription::{TextFormat, Transcript, TranscriptionRequest};
use gw_wire::usage::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use super::audio_usage::{AudioUsage, seconds, usage};
use super::lenient::{LenientText, lenient_members};
use super::transcription_stream;
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::multipart::{FormFile, Multipart};
use crate::surfaces::Transcription;

/// The transcripts of a provider at `/audio/transcriptions` and `/audio/translations`.
#[derive(Debug)]
pub(in crate::adapters) struct OpenAiTranscription;

impl Transcription for OpenAiTranscription {
    fn encode(
        &self,
        request: &TranscriptionRequest,
        file: &FormFile,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let path = format!("/{}", url(request));
        Ok(call(path, Some(target.upstream_model), request, file))
    }

    fn decode<'a>(&self, body: &'a [u8], request: &TranscriptionRequest) -> Result<Transcript<'a>, Failure> {
        decode(body, request.format)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        transcription_stream::decoder()
    }
}

/// The end of the URL.
pub(in crate::adapters) fn url(request: &TranscriptionRequest) -> &'static str {
    if request.is_translation { "audio/translations" } else { "audio/transcriptions" }
}

/// The call. None: the URL names the model.
pub(in crate::adapters) fn call(
    path: String,
    model: Option<&str>,
    request: &TranscriptionRequest,
    file: &FormFile,
) -> HttpCall {
    let model = model.map(|model| ("model".to_owned(), model.to_owned()));
    let form = Multipart::of_fields(model.into_iter().chain(request.form_fields())).with_file(file.clone());
    form.into_call(path, accepted(request))
}

/// The media type of the answer.
pub(in crate::adapters) fn accepted(request: &TranscriptionRequest) -> &'static str {
    if request.stream {
        "text/event-stream"
    } else if request.format.media_type().is_some() {
        "*/*"
    } else {
        "application/json"
    }
}

lenient_members! {
    /// The complete answer.
    TranscriptAnswer<'de> {
        text: LenientText<'de> = "text",
        duration: &'de RawValue = "duration",
        task: &'de RawValue = "task",
        usage: AudioUsage<'de> = "usage",
        error: &'de RawValue = "error",
        message: &'de RawValue = "message",
    }
}

/// Whether an answer is a page of a proxy. A transcript does not begin with the head of a document.
fn is_page(text: &str) -> bool {
    let begins = |head: &str| {
        text.trim_start().get(..head.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(head))
    };
    begins("<!doctype html") || begins("<html")
}

/// Reads an answer.
pub(in crate::adapters) fn decode(body: &[u8], format: TextFormat) -> Result<Transcript<'_>, Failure> {
    let text = body_text(body)?;
    let is_document = text.trim_start().starts_with('{');
    if format.media_type().is_some() && is_page(text) {
        return Err(invalid("the body is a page in HTML"));
    }
    if format.media_type().is_some() && !is_document {
        return Ok(Transcript::Plain(text));
    }
    let answer: TranscriptAnswer<'_> = match serde_json::from_str(text) {
        Ok(answer) => answer,
        // A speaker may say anything.
        Err(_) if format.media_type().is_some() => return Ok(Transcript::Plain(text)),
        Err(fault) => return Err(invalid_json(&fault)),
    };
    let Some(said) = answer.text else {
        if answer.error.is_none() && answer.message.is_none() {
            return Err(invalid("the body has no text"));
        }
        let error = serde_json::from_str(text).unwrap_or(Value::Null);
        return Err(reported(&error, FailureKind::Server));
    };
    let measured = || {
        let units = seconds(answer.duration)?;
        Some(Usage { units, estimated: true, ..Usage::default() })
    };
    Ok(Transcript::Object {
        object: View::new(text),
        text: Cow::Owned(said.0.into_owned()),
        usage: answer.usage.as_ref().and_then(usage).or_else(measured).map(Box::new),
        is_sparse: answer.task.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use gw_wire::request::transcription::{TextFormat, Transcript};

    use super::decode;

    #[test]
    fn a_page_of_a_proxy_is_no_transcript() {
        for page in ["<!DOCTYPE html><html>Sign in</html>", "\n<HTML lang=\"en\">", "<!doctype html>"] {
            assert!(decode(page.as_bytes(), TextFormat::Text).is_err(), "{page}");
        }
        for said in ["<html is a tag", "Hello <html>", "", "1\n00:00:00,000 --> 00:00:01,000\nHi"] {
            let is_text = matches!(decode(said.as_bytes(), TextFormat::Srt), Ok(Transcript::Plain(_)));
            assert_eq!(is_text, !said.starts_with("<html"), "{said}");
        }
    }
}
