//! Scores of pairs of texts as a one-shot request.

use std::ops::Range;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, Target};
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, CallForms, Score};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::request::rerank::RerankReply;
use gw_wire::request::score::ScoreRequest;
use gw_wire::usage::{BYTES_PER_TOKEN, Unit, Units, Usage};

use crate::catalog::Model;
use crate::error::{Error, Kind};
use crate::request::one_shot::{FRAME_TOKENS, OneShot, OneShotAnswers, OneShotSize, facts_of_members};

/// The bytes of a score in JSON.
const SCORE_BYTES: usize = 64;

impl OneShot for ScoreRequest {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Score
    }

    facts_of_members!();

    fn size(&self, _: Range<usize>) -> OneShotSize {
        let inputs = self.pair_count() as u64;
        let frames = inputs.saturating_mul(FRAME_TOKENS);
        let prompt_tokens = self.prompt_bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(frames);
        OneShotSize {
            prompt_tokens,
            inputs,
            units: units(self),
            most: Some(units(self)),
            ..OneShotSize::default()
        }
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error> {
        if provider.surfaces().score.is_some() {
            return Ok(());
        }
        let message = format!("The model '{}' cannot score pairs: its provider has no score.", model.id);
        Err(Error::new(Kind::UnsupportedModel, message))
    }

    fn forms<'a>(&self, provider: &'a Provider) -> Option<&'a dyn CallForms> {
        provider.surfaces().score.as_deref().map(|score| score as &dyn CallForms)
    }

    fn encode(
        &self,
        provider: &Provider,
        _: Range<usize>,
        form: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        Ok(of(provider)?.encode(self, form, target))
    }

    fn answer_bytes(&self, _: usize) -> usize {
        self.pair_count().saturating_mul(SCORE_BYTES)
    }

    fn meter(&self, provider: &Provider, body: &[u8], _: usize) -> Result<Option<Usage>, Failure> {
        Ok(read(self, provider, body)?.usage)
    }

    fn write(&self, provider: &Provider, answers: &mut dyn OneShotAnswers) -> Result<Bytes, Failure> {
        let (body, _) = answers.get(0).ok_or_else(no_score)?;
        let reply = read(self, provider, body);
        answers.note(0, reply.as_ref().map(|reply| reply.usage));
        let reply = reply?;
        Ok(self.write(&reply, answers.id(), &answers.usage()).into())
    }
}

fn units(request: &ScoreRequest) -> Units {
    Units::new(Unit::Search, request.search_units())
}

/// Reads an answer. No server counts search units of scores, so they are those of the request.
fn read(request: &ScoreRequest, provider: &Provider, body: &[u8]) -> Result<RerankReply, Failure> {
    let mut reply = of(provider)?.decode(body, request.pair_count())?;
    if let Some(usage) = &mut reply.usage {
        usage.units = units(request);
    }
    Ok(reply)
}

fn of(provider: &Provider) -> Result<&dyn Score, Failure> {
    provider.surfaces().score.as_deref().ok_or_else(no_score)
}

fn no_score() -> Failure {
    Failure::new(FailureKind::Unsupported, "This provider has no score.")
}
