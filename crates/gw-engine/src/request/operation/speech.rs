//! A request for speech as a one-shot request. Its answer is always read as a stream, because the client gets the sound as it comes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, StreamDecoder, Target};
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, Speech, WholeSound};
use gw_wire::dialects::AnswerForm;
use gw_wire::dialects::speech::SpeechForm;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::reply::Finish;
use gw_wire::request::speech::SpeechRequest;
use gw_wire::usage::{BYTES_PER_TOKEN, Usage};

use crate::catalog::Model;
use crate::error::{Error, Kind};
use crate::request::one_shot::{FRAME_TOKENS, OneShot, OneShotAnswers, OneShotSize, facts_of_members};

/// The slowest speech takes four times as long as usual speech.
const SLOWEST: u64 = 4;

impl OneShot for SpeechRequest {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Speech
    }

    facts_of_members!();

    fn size(&self, _: Range<usize>) -> OneShotSize {
        let prompt_tokens = self.prompt_bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(FRAME_TOKENS);
        let units = self.units();
        OneShotSize {
            prompt_tokens,
            inputs: 1,
            answers: 1,
            units,
            most: Some(units),
            ..OneShotSize::default()
        }
    }

    fn answer_tokens(&self) -> u64 {
        self.sound_tokens().saturating_mul(SLOWEST)
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error> {
        let Some(speech) = provider.surfaces().speech.as_deref() else {
            let message = format!("The model '{}' cannot speak: its provider has no speech.", model.id);
            return Err(Error::new(Kind::UnsupportedModel, message));
        };
        speech.check(self).map_err(|what| {
            Error::new(Kind::UnsupportedParameter, format!("The model '{}' {what}", model.id))
        })
    }

    fn encode(
        &self,
        provider: &Provider,
        _: Range<usize>,
        _: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        of(provider)?.encode(self, target)
    }

    fn answer_bytes(&self, _: usize) -> usize {
        0
    }

    fn meter(&self, _: &Provider, _: &[u8], _: usize) -> Result<Option<Usage>, Failure> {
        Ok(None)
    }

    /// The answer is a stream.
    fn write(&self, _: &Provider, _: &mut dyn OneShotAnswers) -> Result<Bytes, Failure> {
        Err(no_speech())
    }

    fn wants_stream(&self) -> bool {
        true
    }

    fn media_type(&self) -> Option<&'static str> {
        (!self.wants_events).then_some(self.media_type)
    }

    fn form(&self) -> Option<Arc<dyn AnswerForm>> {
        Some(Arc::new(if self.wants_events { SpeechForm::Events } else { SpeechForm::File }))
    }

    fn decoder(&self, provider: &Provider, media_type: &str) -> Option<Box<dyn StreamDecoder>> {
        of(provider).ok().map(|speech| speech.stream(self, media_type))
    }

    fn replay(
        &self,
        provider: &Provider,
        body: &[u8],
        play: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Failure> {
        let WholeSound { sound, usage } = of(provider)?.decode(body, self)?;
        play(Event::Usage(usage.unwrap_or_else(|| self.estimated_usage())));
        play(Event::Sound(&sound));
        play(Event::Finish { choice: 0, reason: Finish::Stop });
        play(Event::End);
        Ok(())
    }
}

fn of(provider: &Provider) -> Result<&dyn Speech, Failure> {
    provider.surfaces().speech.as_deref().ok_or_else(no_speech)
}

fn no_speech() -> Failure {
    Failure::new(FailureKind::Unsupported, "This provider has no speech.")
}
