//! Rerank as a one-shot request. It is not divided, because only scores of one call can be compared.

use std::ops::Range;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, Target};
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, CallForms, Rerank};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::request::rerank::{RerankReply, RerankRequest, UNIT_DOCUMENTS};
use gw_wire::usage::{BYTES_PER_TOKEN, Unit, Units, Usage};

use crate::catalog::Model;
use crate::error::{Error, Kind};
use crate::request::one_shot::{FRAME_TOKENS, OneShot, OneShotAnswers, OneShotSize, facts_of_members};

/// The bytes of a result in JSON.
const RESULT_BYTES: usize = 80;
/// The bytes of a long document that providers bill as one document. Cohere begins a new one after 500 tokens.
const DOCUMENT_BYTES: u64 = 500;

impl OneShot for RerankRequest {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Rerank
    }

    facts_of_members!();

    fn size(&self, _: Range<usize>) -> OneShotSize {
        let inputs = self.document_count() as u64;
        // The model reads the query with each document.
        let bytes =
            self.prompt_bytes.saturating_add(self.query_bytes.saturating_mul(inputs.saturating_sub(1)));
        let frames = inputs.saturating_mul(FRAME_TOKENS);
        let prompt_tokens = bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(frames);
        let most_documents = inputs.saturating_add(bytes / DOCUMENT_BYTES);
        let most_units = Units::new(Unit::Search, most_documents.div_ceil(UNIT_DOCUMENTS));
        OneShotSize {
            prompt_tokens,
            inputs,
            units: Units::new(Unit::Search, self.search_units()),
            most: Some(most_units),
            ..OneShotSize::default()
        }
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error> {
        if provider.surfaces().rerank.is_some() {
            return Ok(());
        }
        let message = format!("The model '{}' cannot rank documents: its provider has no rerank.", model.id);
        Err(Error::new(Kind::UnsupportedModel, message))
    }

    fn forms<'a>(&self, provider: &'a Provider) -> Option<&'a dyn CallForms> {
        provider.surfaces().rerank.as_deref().map(|rerank| rerank as &dyn CallForms)
    }

    fn encode(
        &self,
        provider: &Provider,
        _: Range<usize>,
        form: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        of(provider)?.encode(self, form, target)
    }

    fn answer_bytes(&self, _: usize) -> usize {
        self.document_count().saturating_mul(RESULT_BYTES)
    }

    fn meter(&self, provider: &Provider, body: &[u8], _: usize) -> Result<Option<Usage>, Failure> {
        Ok(read(self, provider, body)?.usage)
    }

    fn write(&self, provider: &Provider, answers: &mut dyn OneShotAnswers) -> Result<Bytes, Failure> {
        let (body, _) = answers.get(0).ok_or_else(no_rerank)?;
        let reply = read(self, provider, body);
        answers.note(0, reply.as_ref().map(|reply| reply.usage));
        let reply = reply?;
        Ok(self.write(&reply, answers.id(), &answers.usage()).into())
    }
}

fn of(provider: &Provider) -> Result<&dyn Rerank, Failure> {
    provider.surfaces().rerank.as_deref().ok_or_else(no_rerank)
}

fn no_rerank() -> Failure {
    Failure::new(FailureKind::Unsupported, "This provider has no rerank.")
}

fn read(request: &RerankRequest, provider: &Provider, body: &[u8]) -> Result<RerankReply, Failure> {
    of(provider)?.decode(body, request.document_count())
}
