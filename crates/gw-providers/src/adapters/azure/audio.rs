//! Speech and transcripts of a resource (learn.microsoft.com, "Azure OpenAI in Foundry Models REST API reference", November 2026).

use gw_wire::failure::Failure;
use gw_wire::request::speech::SpeechRequest;
use gw_wire::request::transcription::{Transcript, TranscriptionRequest};

use super::addresses::Addresses;
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::openai::{speech, transcription, transcription_stream};
use crate::multipart::FormFile;
use crate::surfaces::{Speech, Transcription, WholeSound};

/// The speech of a resource.
#[derive(Debug)]
pub(super) struct AzureSpeech(pub(super) Addresses);

impl Speech for AzureSpeech {
    fn encode(&self, request: &SpeechRequest, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let deployment = self.0.deployment(target);
        let model = (!self.0.is_classic).then_some(deployment);
        Ok(speech::call(self.0.path(deployment, "audio/speech"), model, request))
    }

    fn decode<'a>(&self, body: &'a [u8], _: &SpeechRequest) -> Result<WholeSound<'a>, Failure> {
        Err(speech::refusal(body))
    }

    fn stream(&self, request: &SpeechRequest, media_type: &str) -> Box<dyn StreamDecoder> {
        speech::decoder(request, media_type)
    }
}

/// The transcripts of a resource.
#[derive(Debug)]
pub(super) struct AzureTranscription(pub(super) Addresses);

impl Transcription for AzureTranscription {
    fn encode(
        &self,
        request: &TranscriptionRequest,
        file: &FormFile,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let deployment = self.0.deployment(target);
        let model = (!self.0.is_classic).then_some(deployment);
        let path = self.0.path(deployment, transcription::url(request));
        Ok(transcription::call(path, model, request, file))
    }

    fn decode<'a>(&self, body: &'a [u8], request: &TranscriptionRequest) -> Result<Transcript<'a>, Failure> {
        transcription::decode(body, request.format)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        transcription_stream::decoder()
    }
}
