//! A request for the text of a recording as a one-shot request with a file.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, StreamDecoder, Target};
use gw_providers::multipart::{FileSource, FormFile};
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, Transcription};
use gw_wire::dialects::AnswerForm;
use gw_wire::dialects::transcript::TranscriptForm;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::reply::Finish;
use gw_wire::request::RequestLimits;
use gw_wire::request::transcription::{TextFormat, Transcript, TranscriptionRequest, parse_transcription};
use gw_wire::usage::{BYTES_PER_TOKEN, LEAST_BYTES_PER_SECOND, Unit, UnitCount, Units, Usage, small};

use crate::catalog::Model;
use crate::error::{Error, Kind, Result};
use crate::request::ValidatedRequest;
use crate::request::one_shot::{OneShot, OneShotAnswers, OneShotFacts, OneShotSize, SizeOfUpload};
use crate::request::uploads::{UploadedFile, UploadedForm, wrong_files};

/// Tokens of a second of sound: gpt-4o-transcribe counts ten (platform.openai.com/docs/api-reference/audio, November 2026).
const TOKENS_PER_SECOND: u64 = 10;
/// Tokens of the text of a second. Fast speech has four words.
const TEXT_TOKENS_PER_SECOND: u64 = 8;
/// Some providers charge so many seconds at least (console.groq.com/docs/speech-to-text, November 2026).
const LEAST_BILLED_SECONDS: u64 = 10;
/// The bytes of a usual answer.
const ANSWER_BYTES: usize = 64 << 10;

/// A request with its recording.
#[derive(Debug)]
struct UploadedRecording {
    request: TranscriptionRequest,
    file: FormFile,
    length: RecordingLength,
}

/// The length of a recording, as far as it is known.
#[derive(Clone, Debug)]
struct RecordingLength {
    bytes: u64,
    /// The duration in millionths of a second that the file tells.
    micros: Arc<OnceLock<u64>>,
}

/// Reads the fields of a form and takes its file.
///
/// # Errors
/// The first fault of the form.
pub(crate) fn parse(
    operation: PlainOperation,
    body: Bytes,
    form: UploadedForm,
    limits: &RequestLimits,
) -> Result<ValidatedRequest> {
    let is_translation = operation == PlainOperation::Translation;
    let request = parse_transcription(body, is_translation, limits)?;
    let names: Vec<String> = form.files.iter().map(|file| file.field.clone()).collect();
    let [only] = names.as_slice() else { return Err(wrong_files("file", &names)) };
    if only != "file" {
        return Err(wrong_files("file", &names));
    }
    let UploadedForm { mut files } = form;
    let file = files.pop().ok_or_else(|| wrong_files("file", &[]))?;
    let UploadedFile { field, name, media_type, content, bytes, micros } = file;
    if bytes == 0 {
        let mut error = Error::new(Kind::Invalid, "Invalid 'file': the file is empty.");
        error.code = Some("invalid_value".into());
        return Err(error);
    }
    let file = FormFile { field, name, media_type, content };
    Ok(ValidatedRequest::OneShot(Box::new(UploadedRecording {
        request,
        file,
        length: RecordingLength { bytes, micros },
    })))
}

impl RecordingLength {
    /// The seconds that the file tells, as units.
    fn seconds(&self) -> Units {
        let micros = self.micros.get().copied().unwrap_or(0);
        Units::counted(Unit::Second, UnitCount::from_millionths(micros))
    }

    /// The most seconds of the recording.
    fn most_seconds(&self) -> u64 {
        match self.micros.get() {
            Some(micros) => micros.div_ceil(1_000_000).saturating_add(1).max(LEAST_BILLED_SECONDS),
            None => self.bytes.div_ceil(LEAST_BYTES_PER_SECOND).max(LEAST_BILLED_SECONDS),
        }
    }

    /// The estimated tokens of its sound. A file that tells no duration counts as one of a usual quality, 64 kbit/s.
    fn sound_tokens(&self) -> u64 {
        match self.micros.get() {
            Some(micros) => micros.div_ceil(1_000_000).saturating_mul(TOKENS_PER_SECOND),
            None => self.most_seconds().saturating_mul(TOKENS_PER_SECOND) / 8,
        }
    }

    /// The size of a call with the recording and a prompt of so many tokens.
    fn size(&self, prompt_tokens: u64) -> OneShotSize {
        let (most, sound_tokens) = (self.most_seconds(), self.sound_tokens());
        OneShotSize {
            prompt_tokens: sound_tokens.saturating_add(prompt_tokens),
            audio_tokens: sound_tokens,
            image_tokens: 0,
            inputs: 1,
            answers: 1,
            units: self.seconds(),
            most: Some(Units::new(Unit::Second, most)),
        }
    }

    /// The reported usage. What the upstream does not say is measured: the seconds by the file, and the tokens by the seconds and
    /// the text. The seconds of a recording whose duration nobody tells depend on the prices, which the size of the call
    /// brings in.
    fn measured(&self, reported: Option<Usage>, text_bytes: u64) -> Usage {
        let mut usage = reported.unwrap_or(Usage { estimated: true, ..Usage::default() });
        if usage.units.is_none() {
            usage.units = self.seconds();
        }
        if usage.total() == 0 {
            usage.prompt = match usage.units.of(Unit::Second).millionths().div_ceil(1_000_000) {
                0 => self.sound_tokens(),
                seconds => seconds.saturating_mul(TOKENS_PER_SECOND),
            };
            usage.audio_prompt = Some(small(usage.prompt));
            usage.completion = text_bytes.div_ceil(BYTES_PER_TOKEN);
            usage.estimated = true;
        }
        usage
    }
}

impl UploadedRecording {
    fn prompt_tokens(&self) -> u64 {
        self.request.prompt_bytes.div_ceil(BYTES_PER_TOKEN)
    }

    fn task(&self) -> &'static str {
        if self.request.is_translation { "translate" } else { "transcribe" }
    }
}

/// A stream whose last event has a usage, whether the upstream reports one or not.
struct MeasuredStream {
    inner: Box<dyn StreamDecoder>,
    length: RecordingLength,
    text_bytes: u64,
    has_usage: bool,
}

impl MeasuredStream {
    fn pass(
        &mut self,
        read: impl FnOnce(&mut dyn StreamDecoder, &mut dyn FnMut(Event<'_>)),
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let Self { inner, length, text_bytes, has_usage } = self;
        read(&mut **inner, &mut |event| {
            match &event {
                Event::Text { text, .. } => *text_bytes = text_bytes.saturating_add(text.len() as u64),
                Event::Usage(used) => {
                    *has_usage = true;
                    return sink(Event::Usage(length.measured(Some(*used), *text_bytes)));
                }
                Event::Finish { .. } if !*has_usage => {
                    *has_usage = true;
                    sink(Event::Usage(length.measured(None, *text_bytes)));
                }
                _ => {}
            }
            sink(event);
        });
    }
}

impl StreamDecoder for MeasuredStream {
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

impl OneShot for UploadedRecording {
    fn operation(&self) -> PlainOperation {
        self.request.operation()
    }

    fn facts(&self) -> OneShotFacts<'_> {
        OneShotFacts {
            body: &self.request.body,
            model: &self.request.model,
            prompt_bytes: self.request.prompt_bytes,
            references: &self.request.references,
            guarded: &self.request.guarded,
            routing: Some(&self.request.routing),
        }
    }

    fn size(&self, _: Range<usize>) -> OneShotSize {
        self.length.size(self.prompt_tokens())
    }

    fn size_of_upload(&self) -> Option<SizeOfUpload> {
        let (length, prompt_tokens) = (self.length.clone(), self.prompt_tokens());
        self.coming_file().is_some().then(|| Box::new(move || length.size(prompt_tokens)) as SizeOfUpload)
    }

    fn answer_tokens(&self) -> u64 {
        self.length.most_seconds().saturating_mul(TEXT_TOKENS_PER_SECOND).saturating_add(64)
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<()> {
        let Some(transcription) = provider.surfaces().transcription.as_deref() else {
            let message =
                format!("The model '{}' cannot transcribe: its provider has no transcripts.", model.id);
            return Err(Error::new(Kind::UnsupportedModel, message));
        };
        let most = transcription.most_file_bytes();
        if self.length.bytes > most {
            let message = format!(
                "Invalid 'file': the model '{}' takes recordings of at most {most} bytes, and this upload has up to {}.",
                model.id, self.length.bytes
            );
            return Err(Error::new(Kind::RequestTooLarge, message));
        }
        transcription.check(&self.request).map_err(|what| {
            Error::new(Kind::UnsupportedParameter, format!("The model '{}' {what}", model.id))
        })
    }

    fn coming_file(&self) -> Option<Arc<dyn FileSource>> {
        let content = &self.file.content;
        content.length().is_none().then(|| Arc::clone(content))
    }

    /// A slow upload says nothing about the provider.
    fn may_be_hedged(&self) -> bool {
        false
    }

    fn encode(
        &self,
        provider: &Provider,
        _: Range<usize>,
        _: CallForm,
        target: &Target<'_>,
    ) -> std::result::Result<HttpCall, Failure> {
        of(provider)?.encode(&self.request, &self.file, target)
    }

    fn answer_bytes(&self, _: usize) -> usize {
        ANSWER_BYTES
    }

    fn meter(
        &self,
        provider: &Provider,
        body: &[u8],
        _: usize,
    ) -> std::result::Result<Option<Usage>, Failure> {
        let transcript = of(provider)?.decode(body, &self.request)?;
        Ok(Some(self.length.measured(transcript.usage(), transcript.text_bytes())))
    }

    fn wants_stream(&self) -> bool {
        self.request.stream
    }

    fn media_type(&self) -> Option<&'static str> {
        self.request.format.media_type().filter(|_| !self.request.stream)
    }

    fn form(&self) -> Option<Arc<dyn AnswerForm>> {
        self.request.stream.then(|| Arc::new(TranscriptForm) as Arc<dyn AnswerForm>)
    }

    fn decoder(&self, provider: &Provider, _: &str) -> Option<Box<dyn StreamDecoder>> {
        let inner = of(provider).ok()?.stream();
        let length = self.length.clone();
        Some(Box::new(MeasuredStream { inner, length, text_bytes: 0, has_usage: false }))
    }

    fn replay(
        &self,
        provider: &Provider,
        body: &[u8],
        play: &mut dyn FnMut(Event<'_>),
    ) -> std::result::Result<(), Failure> {
        let transcript = of(provider)?.decode(body, &self.request)?;
        play(Event::Usage(self.length.measured(transcript.usage(), transcript.text_bytes())));
        let text = match &transcript {
            Transcript::Plain(text) => text,
            Transcript::Text { text, .. } | Transcript::Object { text, .. } => &**text,
        };
        play(Event::Text { choice: 0, text: text.into(), logprobs: None });
        play(Event::Finish { choice: 0, reason: Finish::Stop });
        play(Event::End);
        Ok(())
    }

    fn write(
        &self,
        provider: &Provider,
        answers: &mut dyn OneShotAnswers,
    ) -> std::result::Result<Bytes, Failure> {
        let (body, _) = answers.get(0).ok_or_else(no_transcripts)?;
        let transcript = of(provider)?.decode(body, &self.request);
        let measured = transcript.as_ref().map(|it| Some(self.length.measured(it.usage(), it.text_bytes())));
        answers.note(0, measured);
        let written = transcript?.write(self.request.format, self.task(), &answers.usage(), answers.cost());
        written.map(Bytes::from).ok_or_else(|| {
            let what = match self.request.format {
                TextFormat::Srt | TextFormat::Vtt => "The upstream's answer has no times for subtitles.",
                _ => "The upstream's answer is not JSON.",
            };
            Failure::new(FailureKind::InvalidResponse, what)
        })
    }
}

fn of(provider: &Provider) -> std::result::Result<&dyn Transcription, Failure> {
    provider.surfaces().transcription.as_deref().ok_or_else(no_transcripts)
}

fn no_transcripts() -> Failure {
    Failure::new(FailureKind::Unsupported, "This provider has no transcripts.")
}
