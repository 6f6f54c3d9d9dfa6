//! The handshake of a realtime session as a one-shot request, whose answer is a socket. It costs nothing: the responses of the session
//! are charged one by one.

use std::ops::Range;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, Target};
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, Realtime};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::request::RealtimeRequest;
use gw_wire::usage::Usage;

use crate::catalog::Model;
use crate::error::{Error, Kind};
use crate::request::one_shot::{OneShot, OneShotAnswers, OneShotFacts, OneShotSize};

impl OneShot for RealtimeRequest {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Realtime
    }

    fn facts(&self) -> OneShotFacts<'_> {
        OneShotFacts {
            body: &self.body,
            model: &self.model,
            prompt_bytes: 0,
            references: &self.references,
            guarded: &self.guarded,
            routing: Some(&self.routing),
        }
    }

    fn size(&self, _: Range<usize>) -> OneShotSize {
        OneShotSize::default()
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error> {
        match provider.surfaces().realtime {
            Some(_) => Ok(()),
            None => Err(Error::new(
                Kind::UnsupportedModel,
                format!(
                    "The model '{}' has no realtime sessions: its provider does not offer them.",
                    model.id
                ),
            )),
        }
    }

    fn encode(
        &self,
        provider: &Provider,
        _: Range<usize>,
        _: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        Ok(of(provider)?.encode(self.is_beta, target))
    }

    fn answer_bytes(&self, _: usize) -> usize {
        0
    }

    fn meter(&self, _: &Provider, _: &[u8], _: usize) -> Result<Option<Usage>, Failure> {
        Ok(None)
    }

    fn write(&self, _: &Provider, _: &mut dyn OneShotAnswers) -> Result<Bytes, Failure> {
        Err(no_sessions())
    }
}

fn of(provider: &Provider) -> Result<&dyn Realtime, Failure> {
    provider.surfaces().realtime.as_deref().ok_or_else(no_sessions)
}

fn no_sessions() -> Failure {
    Failure::new(FailureKind::Unsupported, "This provider has no realtime sessions.")
}
