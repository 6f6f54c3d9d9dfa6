//! Amazon Bedrock: every chat model by way of Converse and ConverseStream, Titan's and Cohere's embeddings by way of
//! InvokeModel.
//!
//! The format is that of the "Amazon Bedrock Runtime" API Reference (`API_runtime_Converse`,
//! `API_runtime_ConverseStream`, `API_runtime_InvokeModel`) and of its service model in botocore; what models say or take
//! beyond it is in the User Guide ("Inference request parameters and response fields for foundation models").

mod blocks;
mod citations;
mod credentials;
mod embeddings;
mod errors;
mod frames;
mod images;
mod messages;
mod reasoning;
mod reply;
mod request;
mod sign;
mod stream;
mod tools;
mod usage;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use gw_wire::conversation::Conversation;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use self::credentials::Environment;
use self::sign::SigV4;
use super::failure::invalid;
use super::native::{Dialect, Native};
use crate::adapter::Built;
use crate::adapter::{Capabilities, Encoded, HttpCall, ListedModel, Scheme, StreamDecoder, Target};
use crate::settings::{Api, ProviderSettings};

/// What AWS leaves as it is in a path: everything else of a model id or ARN is encoded, `:` and `/` too.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The dialect.
#[derive(Debug)]
struct Bedrock;

/// Bedrock in the region of the settings: with a Bedrock API key where there is one, else with signed requests.
///
/// # Errors
/// No region, or neither a key nor AWS credentials.
pub fn build(settings: &ProviderSettings) -> Result<Built, String> {
    build_in(settings, &Environment::of_process())
}

fn build_in(settings: &ProviderSettings, environment: &Environment) -> Result<Built, String> {
    let region = region(settings, environment)?;
    let base_url = region.as_ref().map(|region| endpoint(region));
    let mut built = Built { base_url, ..Built::new(Box::new(Native(Bedrock))) };
    if settings.base_url.is_none() && built.base_url.is_none() {
        return Err("region is missing, and neither AWS_REGION nor AWS_DEFAULT_REGION is set".to_owned());
    }
    if settings.api_keys.is_empty() {
        let region = region.ok_or_else(|| {
            "region is missing: without api_key requests are signed, and a signature is for a region"
                .to_owned()
        })?;
        let profile = option(settings, "profile")?;
        let source = credentials::Source::find(environment, profile)?;
        built.signer = Some(Arc::new(SigV4::new(region, source)));
    }
    Ok(built)
}

fn option<'s>(settings: &'s ProviderSettings, name: &str) -> Result<Option<&'s str>, String> {
    match settings.options.get(name) {
        None => Ok(None),
        Some(toml::Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{name} must be a string")),
    }
}

/// The region of the settings, else that of an AWS endpoint in `base_url`, else the environment's.
fn region(settings: &ProviderSettings, environment: &Environment) -> Result<Option<String>, String> {
    let of_url = || settings.base_url.as_deref().and_then(region_of_endpoint);
    let of_environment = || environment.get("AWS_REGION").or_else(|| environment.get("AWS_DEFAULT_REGION"));
    let region = option(settings, "region")?.or_else(of_url).map(str::to_owned).or_else(of_environment);
    let is_word = |region: &str| {
        region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match region {
        Some(region) if is_word(&region) => Ok(Some(region)),
        Some(_) => Err("region is not the name of an AWS region, such as eu-west-1".to_owned()),
        None => Ok(None),
    }
}

/// `eu-west-1` of `https://bedrock-runtime.eu-west-1.amazonaws.com`, of its FIPS twin and of VPC endpoints.
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

fn post(model: &str, operation: &str, body: Vec<u8>) -> HttpCall {
    let accept = match operation {
        "converse-stream" => "application/vnd.amazon.eventstream",
        _ => "application/json",
    };
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    let model = utf8_percent_encode(model, SEGMENT);
    let path = format!("/model/{model}/{operation}");
    HttpCall { method: Method::POST, path, headers, body: Bytes::from(body) }
}

fn written(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|fault| {
        Failure::new(FailureKind::BadRequest, "The request cannot be said to this provider.")
            .with_detail(fault)
    })
}

impl Dialect for Bedrock {
    fn api(&self) -> Api {
        Api::Bedrock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            openai_fields: false,
            suffix: false,
            token_prompts: false,
            stream_usage: false,
            image_urls: false,
            choices: 1,
            prompts: 1,
        }
    }

    fn scheme(&self) -> Scheme {
        Scheme::Bearer
    }

    fn reasoning_format(&self) -> &'static str {
        reasoning::FORMAT
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        request::encode(conversation, target)
    }

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ChatReply<'a>, Failure> {
        reply::decode(body)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        Box::new(stream::Stream::default())
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

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        errors::classify(status, headers, body)
    }

    /// The list is an operation of another service at another address (`bedrock`, not `bedrock-runtime`).
    fn list_models(&self) -> Option<HttpCall> {
        None
    }

    fn decode_models(&self, _: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        Err(invalid("there is no list of models"))
    }
}

#[cfg(test)]
mod tests;
