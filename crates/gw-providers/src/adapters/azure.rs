//! Azure OpenAI: OpenAI's bodies, at other addresses and with other credentials.
//!
//! Documented in Microsoft's "Azure OpenAI in Foundry Models REST API reference" (deployments, `api-version`, the errors)
//! and "Azure OpenAI in Microsoft Foundry Models v1 API"; the content filter's chunks in "Content streaming"; Entra ID in
//! "OAuth 2.0 client credentials flow on the Microsoft identity platform".
//!
//! It has two kinds of addresses:
//! - With a dated `api_version`, the classic address `/openai/deployments/{deployment}/…?api-version=…`. The body has
//!   no model.
//! - Without one, or with a word (`preview`), the v1 API `/openai/v1/…`. The member `model` is the deployment.
//!
//! `deployments = { "model" = "deployment" }` names the deployment of a model. A model without an entry is deployed
//! under its own name. The rules of a model (`max_completion_tokens`) depend on the model's name, never on the
//! deployment's.

mod addresses;
mod audio;
mod entra;
mod images;
mod options;
mod realtime;
mod rerank;

use std::ops::Range;
use std::sync::Arc;

use gw_wire::failure::Failure;
use gw_wire::percent;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::encode::EncodeOptions;
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use gw_wire::usage::Usage;

use self::addresses::{Addresses, prefix};
use self::images::AzureImages;
use self::options::{AzureAuth, AzureOptions};
use super::openai::images::OpenAiImageGeneration;
use super::openai::{OpenAi, limit_name};
use crate::adapter::{
    Adapter, Built, ChoiceRange, DialectTraits, Encoded, HttpCall, Reading, Scheme, Signer, StreamDecoder,
    Target,
};
use crate::presets::Quirks;
use crate::settings::{ProviderSettings, SettingsError};
use crate::surfaces::{Rerank, Surfaces};

/// One Azure resource.
#[derive(Debug)]
pub(crate) struct Azure {
    inner: OpenAi,
    traits: DialectTraits,
    addresses: Addresses,
}

/// Azure OpenAI configured for one provider.
///
/// # Errors
/// The options are wrong. The message holds no secret.
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    let AzureOptions { version, deployments, credentials } = AzureOptions::read(settings)?;
    let is_classic = version.as_deref().is_some_and(options::is_dated);
    let base = settings
        .base_url
        .as_deref()
        .ok_or(SettingsError::Rule("base_url is required: it is the endpoint of the resource"))?;
    let prefix = prefix(base, is_classic)?;
    let query = version.as_deref().map(|version| format!("?api-version={}", percent::encode(version)));
    // `stream_options` exists since the API versions of September 2024.
    let stream_usage = !is_classic || version.as_deref() >= Some("2024-09-01");
    let quirks = Quirks { stream_usage, ..Quirks::of(settings) };
    let (scheme, signer) = match credentials {
        AzureAuth::Key => (Scheme::Header("api-key"), None),
        AzureAuth::Bearer => (Scheme::Bearer, None),
        AzureAuth::Application(client) => {
            let signer = entra::Entra::new(&client, settings.allow_private_network)?;
            (Scheme::Bearer, Some(Arc::new(signer) as Arc<dyn Signer>))
        }
    };
    let query = query.unwrap_or_default();
    let inner = OpenAi::new(quirks).allowing(settings.allowed_members());
    // `/models` lists the models that could be deployed, not those that are.
    let traits = DialectTraits { scheme, models: None, ..*inner.traits() };
    let addresses = Addresses { prefix, is_classic, query, deployments: Arc::new(deployments) };
    let surfaces = Surfaces {
        rerank: rerank::AzureRerank::new(base, addresses.clone())
            .map(|rerank| Box::new(rerank) as Box<dyn Rerank>),
        images: Some(Box::new(OpenAiImageGeneration(AzureImages(addresses.clone())))),
        speech: Some(Box::new(audio::AzureSpeech(addresses.clone()))),
        transcription: Some(Box::new(audio::AzureTranscription(addresses.clone()))),
        realtime: Some(Box::new(realtime::AzureRealtime(addresses.clone()))),
        ..Surfaces::default()
    };
    let azure = Azure { inner, traits, addresses };
    Ok(Built { signer, surfaces, ..Built::new(Box::new(azure)) })
}

impl Azure {
    fn options<'a>(&'a self, target: &Target<'a>, range: &ChoiceRange, choices: u32) -> EncodeOptions<'a> {
        EncodeOptions {
            upstream_model: self.addresses.deployment(target),
            max_tokens_name: limit_name(target.rules),
            send_model: !self.addresses.is_classic,
            ..self.inner.options(target, range, choices)
        }
    }
}

impl Adapter for Azure {
    fn traits(&self) -> &DialectTraits {
        &self.traits
    }

    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let path = self.addresses.path(self.addresses.deployment(target), "chat/completions");
        let options = self.options(target, range, request.n);
        Ok(self.inner.chat_to(path, request, &options, target.rules, target))
    }

    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let path = self.addresses.path(self.addresses.deployment(target), "completions");
        Ok(self.inner.completion_to(path, request, &self.options(target, range, request.n)))
    }

    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let deployment = self.addresses.deployment(target);
        let model = (!self.addresses.is_classic).then_some(deployment);
        Ok(self.inner.embeddings_to(self.addresses.path(deployment, "embeddings"), request, inputs, model))
    }

    fn failed_usage(&self, body: &[u8], reading: &Reading) -> Option<Usage> {
        self.inner.failed_usage(body, reading)
    }

    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        self.inner.decode_chat(body, reading)
    }

    fn decode_completion<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<TextReply<'a>, Failure> {
        self.inner.decode_completion(body, reading)
    }

    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        self.inner.decode_embeddings(body, expected)
    }

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        self.inner.stream(reading)
    }
}

#[cfg(test)]
mod tests;
