//! Google's models on Vertex AI: the bodies of `gemini` at a project's regional addresses, opened by OAuth tokens.
//!
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference>; embeddings:
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api>.

mod embeddings;
mod metadata;
mod source;
mod tokens;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use gw_wire::conversation::{self, Conversation};
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use http::HeaderMap;

use self::source::Source;
use self::tokens::Tokens;
use super::failure::invalid;
use super::gemini::path::encoded_path;
use super::gemini::{CAPABILITIES, Flavour, errors, media, method, post, reply, request, stream};
use super::native::{Dialect, Native};
use crate::adapter::{Capabilities, Encoded, HttpCall, ListedModel, Scheme, Signer, StreamDecoder, Target};
use crate::media_sizes::MediaSizes;
use crate::registry::Built;
use crate::settings::{Api, ProviderSettings};

/// The file that Google's own libraries look for.
const CREDENTIALS_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// The region that is nowhere in particular.
const GLOBAL: &str = "global";

/// Vertex AI.
#[derive(Debug)]
struct Vertex {
    /// `/v1/projects/…/locations/…`.
    place: String,
}

/// Sets the dialect up: where it is (`region`, `project`) and what opens it. That is `api_key`, a plain access token; or
/// `credentials_file`, or the file that the environment names; or, with neither, the metadata server of the Google Cloud
/// machine that this runs on.
///
/// # Errors
/// What is wrong with the options or the file, without any secret.
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, String> {
    build_with(settings, std::env::var(CREDENTIALS_VARIABLE).ok())
}

fn build_with(settings: &ProviderSettings, from_environment: Option<String>) -> Result<Built, String> {
    let file = option(settings, "credentials_file")?;
    let mut signer: Option<Arc<dyn Signer>> = None;
    let mut own_project = None;
    if settings.api_keys.is_empty() {
        if file.is_none() && !is_googles(settings.base_url.as_deref()) {
            return Err("credentials_file or api_key is missing: what the environment or the machine gives is sent to \
                        Google's own addresses only"
                .to_owned());
        }
        let source = match file.map(str::to_owned).or(from_environment.filter(|path| !path.is_empty())) {
            Some(file) => {
                let ca_file = option(settings, "ca_file")?.map(Path::new);
                let read = source::read(Path::new(&file), settings.allow_private_network, ca_file)?;
                own_project = read.project;
                read.source
            }
            None => Source::metadata(),
        };
        signer = Some(Arc::new(Tokens::new(source)));
    } else if file.is_some() {
        return Err("api_key (an access token) stands beside credentials_file: keep one of them".to_owned());
    }
    let region = option(settings, "region")?.unwrap_or(GLOBAL);
    let project = option(settings, "project")?.map(str::to_owned).or(own_project);
    let project = project.ok_or_else(|| "project is missing, and no credentials file names it".to_owned())?;
    if !is_label(region) || !is_label(&project) {
        return Err("region and project are made of letters, digits, '-', '.' and ':'".to_owned());
    }
    let place = format!("/v1/projects/{}/locations/{region}", encoded_path(&project));
    let adapter = Box::new(Native(Vertex { place }));
    Ok(Built { adapter, signer, base_url: Some(endpoint(region)) })
}

/// Whether calls go to Google. Credentials that nobody wrote down for this provider must not go anywhere else: whoever
/// may add a provider could have them sent to himself.
fn is_googles(base_url: Option<&str>) -> bool {
    let Some(base_url) = base_url else { return true };
    let Ok(uri) = base_url.parse::<http::Uri>() else { return false };
    uri.scheme_str() == Some("https") && uri.host().is_some_and(|host| host.ends_with(".googleapis.com"))
}

/// <https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations>
fn endpoint(region: &str) -> String {
    match region {
        GLOBAL => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com"),
        _ => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

fn option<'a>(settings: &'a ProviderSettings, name: &str) -> Result<Option<&'a str>, String> {
    match settings.options.get(name) {
        None => Ok(None),
        Some(toml::Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(format!("{name} must be a text that is not empty")),
    }
}

fn is_label(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
    !text.is_empty() && text.len() <= 128 && text.bytes().all(fits)
}

impl Vertex {
    /// A model of Google's by its bare name, or whatever resource the name itself says.
    fn path(&self, upstream_model: &str, method: &str) -> String {
        let place = &self.place;
        let model = encoded_path(upstream_model);
        if upstream_model.starts_with("projects/") {
            format!("/v1/{model}:{method}")
        } else if upstream_model.starts_with("publishers/") || upstream_model.starts_with("endpoints/") {
            format!("{place}/{model}:{method}")
        } else {
            format!("{place}/publishers/google/models/{model}:{method}")
        }
    }
}

impl Dialect for Vertex {
    fn api(&self) -> Api {
        Api::Vertex
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn scheme(&self) -> Scheme {
        Scheme::Bearer
    }

    fn takes_back(&self, image: &conversation::Source<'_>) -> bool {
        media::is_given_back(image)
    }

    fn takes_tool_name(&self, name: &str) -> bool {
        request::is_tool_name(name)
    }

    fn names_allowed_tools(&self) -> bool {
        true
    }

    fn reasoning_format(&self) -> &'static str {
        super::gemini::contents::SIGNATURE_FORMAT
    }

    fn usual_media_sizes(&self) -> MediaSizes {
        MediaSizes::gemini()
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        let body = request::body(conversation, target, Flavour::Vertex)?;
        let path = self.path(target.upstream_model, method(conversation.stream));
        Ok(Encoded { call: post(path, body.bytes), reading: body.reading, warnings: body.warnings })
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
        let (method, body) = embeddings::body(texts, target.upstream_model, request.dimensions)?;
        Ok(post(self.path(target.upstream_model, method), body))
    }

    fn decode_embed<'a>(&self, body: &'a [u8], _: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body)
    }

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        errors::classify(status, headers, body)
    }

    fn list_models(&self) -> Option<HttpCall> {
        None
    }

    fn decode_models(&self, _: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        Err(invalid("this provider has no list of its models"))
    }
}

#[cfg(test)]
mod tests;
