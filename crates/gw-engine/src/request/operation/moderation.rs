//! A moderation as a one-shot request.

use std::ops::Range;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, Target};
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, Moderation};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::request::moderation::ModerationRequest;
use gw_wire::usage::{BYTES_PER_TOKEN, Units, Usage};

use crate::catalog::Model;
use crate::error::{Error, Kind};
use crate::request::one_shot::{FRAME_TOKENS, OneShot, OneShotAnswers, OneShotSize, facts_of_members};

/// The bytes of a result with OpenAI's 13 categories.
const RESULT_BYTES: usize = 2_048;

impl OneShot for ModerationRequest {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Moderation
    }

    facts_of_members!();

    fn name_model(&mut self, id: &str) {
        id.clone_into(&mut self.model);
    }

    fn size(&self, _: Range<usize>) -> OneShotSize {
        let inputs = self.inputs as u64;
        let frames = inputs.saturating_mul(FRAME_TOKENS);
        let prompt_tokens = self.prompt_bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(frames);
        let none = Units::default();
        OneShotSize {
            prompt_tokens,
            inputs,
            answers: 0,
            units: none,
            most: Some(none),
            ..OneShotSize::default()
        }
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error> {
        if provider.surfaces().moderation.is_some() {
            return Ok(());
        }
        let message = format!("The model '{}' cannot moderate: its provider has no moderations.", model.id);
        Err(Error::new(Kind::UnsupportedModel, message))
    }

    fn encode(
        &self,
        provider: &Provider,
        _: Range<usize>,
        _: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        Ok(of(provider)?.encode(self, target))
    }

    fn answer_bytes(&self, _: usize) -> usize {
        self.inputs.saturating_mul(RESULT_BYTES)
    }

    fn meter(&self, provider: &Provider, body: &[u8], _: usize) -> Result<Option<Usage>, Failure> {
        Ok(of(provider)?.decode(body, self.inputs)?.usage)
    }

    fn write(&self, provider: &Provider, answers: &mut dyn OneShotAnswers) -> Result<Bytes, Failure> {
        let (body, _) = answers.get(0).ok_or_else(no_moderations)?;
        let reply = of(provider)?.decode(body, self.inputs);
        answers.note(0, reply.as_ref().map(|reply| reply.usage));
        let reply = reply?;
        Ok(self.write(&reply, answers.id(), &answers.usage()).into())
    }
}

fn of(provider: &Provider) -> Result<&dyn Moderation, Failure> {
    provider.surfaces().moderation.as_deref().ok_or_else(no_moderations)
}

fn no_moderations() -> Failure {
    Failure::new(FailureKind::Unsupported, "This provider has no moderations.")
}
