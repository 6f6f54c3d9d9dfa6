//! Vertex AI: a project's regional addresses, opened by OAuth tokens. Google's own models take the bodies of `gemini` there,
//! Anthropic's those of `anthropic`.
//!
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference>; embeddings:
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api>.

mod claude;
mod embeddings;
mod gemini;
mod metadata;
mod source;
mod tokens;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use http::HeaderMap;

use self::claude::Claude;
use self::gemini::Gemini;
use self::source::Source;
use self::tokens::Tokens;
use super::failure::invalid;
use super::gemini::path::encoded_path;
use super::native::Native;
use crate::adapter::{
    Adapter, Built, Capabilities, ChoiceRange, Encoded, HttpCall, ListedModel, Reading, Scheme, Signer,
    StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::settings::{Api, ProviderSettings};

/// The file that Google's own libraries look for.
const CREDENTIALS_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// The region that is nowhere in particular.
const GLOBAL: &str = "global";

/// Vertex AI: one address, two dialects. The model decides.
#[derive(Debug)]
struct Vertex {
    gemini: Native<Gemini>,
    claude: Native<Claude>,
}

/// A project in a region: `/v1/projects/…/locations/…`.
#[derive(Clone, Debug)]
struct Place(String);

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
    let place = Place(format!("/v1/projects/{}/locations/{region}", encoded_path(&project)));
    let adapter = Box::new(Vertex { gemini: Native(Gemini(place.clone())), claude: Native(Claude(place)) });
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

impl Place {
    /// A model of this publisher by its bare name, or the resource that the name itself says.
    fn path(&self, publisher: &str, upstream_model: &str, method: &str) -> String {
        let Self(place) = self;
        let name = upstream_model.strip_prefix(publisher).and_then(|name| name.strip_prefix('/'));
        let name = name.unwrap_or(upstream_model);
        let model = encoded_path(name);
        if name.starts_with("projects/") {
            format!("/v1/{model}:{method}")
        } else if name.starts_with("publishers/") || name.starts_with("endpoints/") {
            format!("{place}/{model}:{method}")
        } else {
            format!("{place}/publishers/{publisher}/models/{model}:{method}")
        }
    }
}

impl Vertex {
    /// The dialect of a model.
    fn of(&self, target: &Target<'_>) -> &dyn Adapter {
        self.read(target.rules(Api::Vertex).vendor() == claude::VENDOR)
    }

    fn read(&self, is_claude: bool) -> &dyn Adapter {
        if is_claude { &self.claude } else { &self.gemini }
    }
}

impl Adapter for Vertex {
    fn capabilities(&self) -> Capabilities {
        self.gemini.capabilities()
    }

    fn scheme(&self) -> Scheme {
        Scheme::Bearer
    }

    fn media_sizes(&self, upstream_model: &str, id: &str) -> MediaSizes {
        self.gemini.media_sizes(upstream_model, id)
    }

    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        self.of(target).chat(request, range, target)
    }

    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        self.of(target).completion(request, range, target)
    }

    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        self.of(target).embeddings(request, inputs, target)
    }

    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        self.read(reading.is_claude).decode_chat(body, reading)
    }

    fn decode_completion<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<TextReply<'a>, Failure> {
        self.read(reading.is_claude).decode_completion(body, reading)
    }

    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        self.gemini.decode_embeddings(body, expected)
    }

    fn chat_stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        self.read(reading.is_claude).chat_stream(reading)
    }

    fn completion_stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        self.read(reading.is_claude).completion_stream(reading)
    }

    /// Google's front answers for every model in its own shape, so the body tells whose error it is.
    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        self.read(claude::is_error(body)).classify(status, headers, body)
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
