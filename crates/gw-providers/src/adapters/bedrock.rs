//! Amazon Bedrock: chat models through Converse and ConverseStream, embeddings, images and rerank through
//! InvokeModel. Claude gets the bodies of clients that speak the Messages API through InvokeModel, too.
//!
//! Sources: the "Amazon Bedrock Runtime" API Reference (`API_runtime_Converse`, `API_runtime_ConverseStream`,
//! `API_runtime_InvokeModel`) and its service model in botocore. Parameters of single models are in the User Guide
//! ("Inference request parameters and response fields for foundation models").

mod call;
mod citations;
mod credentials;
mod embeddings;
mod errors;
mod frames;
mod image_generation;
mod images;
mod messages;
mod native;
mod reasoning;
mod request;
mod rerank;
mod response;
mod sigv4;
mod stream;
mod tools;
mod usage;
mod wire;

use std::borrow::Cow;
use std::sync::Arc;

use gw_wire::conversation::Conversation;
use gw_wire::dialects::{ClientDialect, ClientRequest};
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::{ChatRequest, EmbeddingsRequest};
use gw_wire::usage::Usage;
use serde_json::value::RawValue;

use self::credentials::AwsEnvironment;
use self::sigv4::SigV4;
use super::anthropic;
use super::counting::{counting, picked};
use super::native::{CAPABILITIES, Dialect, Native, POLICY, Policy};
use crate::adapter::{
    Built, Capabilities, CountCall, DialectTraits, Encoded, HttpCall, Reading, StreamDecoder, Target,
};
use crate::settings::{ProviderSettings, SettingsError};
use crate::surfaces::Surfaces;

/// The vendor of Claude in the model rules.
const CLAUDE: &str = "claude";

/// The Converse dialect.
#[derive(Debug)]
struct Bedrock;

/// Builds the adapter for the region of the settings. It sends a Bedrock API key if there is one and signs its requests
/// otherwise.
///
/// # Errors
/// The region is missing or malformed, or there is neither an API key nor AWS credentials.
pub fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    build_in(settings, &AwsEnvironment::of_process())
}

fn build_in(settings: &ProviderSettings, environment: &AwsEnvironment) -> Result<Built, SettingsError> {
    let region = region(settings, environment)?;
    let base_url = region.as_ref().map(|region| endpoint(region));
    let images = Box::new(image_generation::BedrockImages);
    let rerank = Box::new(rerank::BedrockRerank);
    let surfaces = Surfaces { images: Some(images), rerank: Some(rerank), ..Surfaces::default() };
    let mut built = Built { base_url, surfaces, ..Built::new(Box::new(Native(Bedrock))) };
    if settings.base_url.is_none() && built.base_url.is_none() {
        return Err(SettingsError::Rule(
            "region is required, because neither AWS_REGION nor AWS_DEFAULT_REGION is set",
        ));
    }
    if settings.api_keys.is_empty() {
        let region = region.ok_or(SettingsError::Rule(
            "region is required: without api_key, requests are signed for a region",
        ))?;
        let profile = settings.text_option("profile")?;
        let source = credentials::AwsCredentialSource::find(environment, profile)?;
        built.signer = Some(Arc::new(SigV4::new(region, source)));
    }
    Ok(built)
}

/// Returns the region from the settings, from an AWS endpoint in `base_url`, or from the environment, in this order.
fn region(
    settings: &ProviderSettings,
    environment: &AwsEnvironment,
) -> Result<Option<String>, SettingsError> {
    let of_url = || settings.base_url.as_deref().and_then(region_of_endpoint);
    let of_environment = || environment.get("AWS_REGION").or_else(|| environment.get("AWS_DEFAULT_REGION"));
    let region = settings.text_option("region")?.or_else(of_url).map(str::to_owned).or_else(of_environment);
    let is_word = |region: &str| {
        region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match region {
        Some(region) if is_word(&region) => Ok(Some(region)),
        Some(_) => Err(SettingsError::Rule("region is not the name of an AWS region, such as eu-west-1")),
        None => Ok(None),
    }
}

/// Returns `eu-west-1` for `https://bedrock-runtime.eu-west-1.amazonaws.com`, also for FIPS and VPC endpoints.
fn region_of_endpoint(url: &str) -> Option<&str> {
    let host = url.split_once("://")?.1.split(['/', ':']).next()?;
    let host = host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let mut labels = host.split('.').skip_while(|label| !label.starts_with("bedrock-runtime"));
    labels.nth(1)
}

fn endpoint(region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://bedrock-runtime.{region}.{domain}")
}

impl Dialect for Bedrock {
    const POLICY: &'static Policy = &Policy {
        // The list of models is an operation of another service (`bedrock`, not `bedrock-runtime`) at another address.
        traits: DialectTraits {
            capabilities: Capabilities { image_urls: false, ..CAPABILITIES },
            classify: errors::classify,
            ..POLICY.traits
        },
        reasoning_format: reasoning::FORMAT,
        counts_native: false,
        ..POLICY
    };

    fn speaks(&self, dialect: ClientDialect, target: &Target<'_>) -> bool {
        dialect == ClientDialect::Messages && target.rules.vendor() == CLAUDE
    }

    fn forward(&self, request: &ChatRequest, client: &ClientRequest, target: &Target<'_>) -> Option<Encoded> {
        if self.speaks(client.native.dialect, target) {
            native::encode(request, client, target)
        } else {
            None
        }
    }

    /// CountTokens (`API_runtime_CountTokens`). It knows Claude's models, by their own ids only: it refuses inference
    /// profiles.
    fn count(&self, encoded: &Encoded, target: &Target<'_>) -> Option<CountCall> {
        let at = target.upstream_model.find("anthropic.")?;
        let path = call::path(target.upstream_model.get(at..)?, "count-tokens");
        Some(counting(&encoded.call, path, "inputTokens", |body| {
            body.object("input", |input| {
                input.object("converse", |converse| {
                    let counted = picked(&encoded.call, ["messages", "system", "toolConfig"]);
                    counted.for_each(|(name, value)| converse.raw(name, value.text()));
                });
            });
        }))
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        request::encode(conversation, target)
    }

    fn decode<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        if reading.is_native {
            anthropic::response::decode(body)
        } else {
            response::decode(body, reading.only_stop.as_deref())
        }
    }

    fn failed_usage(&self, body: &[u8], reading: &Reading) -> Option<Usage> {
        if reading.is_native { anthropic::response::failed_usage(body) } else { response::failed_usage(body) }
    }

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        if reading.is_native {
            return Box::new(native::NativeStream::new());
        }
        Box::new(stream::BedrockStream::new(reading.only_stop.clone()))
    }

    fn embed(
        &self,
        texts: &[Cow<'_, str>],
        request: &EmbeddingsRequest,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        embeddings::encode(texts, request, target)
    }

    fn decode_embed<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body, expected)
    }
}

/// Reads a `TokenUsage` of an answer that passes through; None without counts.
pub(crate) fn read_usage(text: &str) -> Option<Usage> {
    usage::read(serde_json::from_str::<&RawValue>(text).ok()?)
}

#[cfg(test)]
mod tests;
