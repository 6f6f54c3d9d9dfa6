//! Google Vertex AI: Gemini and Claude models at a project's regional addresses, authorised by OAuth access tokens.
//! Gemini models use the bodies of the `gemini` adapter, Claude models those of the `anthropic` adapter.
//!
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference>; embeddings:
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api>.

mod claude;
mod embeddings;
mod errors;
mod gemini;
mod location;
mod metadata_server;
mod rerank;
mod token_source;
mod tokens;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gw_wire::dialects::ClientDialect;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use gw_wire::usage::Usage;

use self::claude::VertexClaude;
use self::gemini::VertexGemini;
use self::location::{GLOBAL, ProjectLocation, endpoint};
use self::rerank::{RANKING_URL, VertexRerank};
use self::token_source::GoogleTokenSource;
use self::tokens::VertexTokens;
use super::gemini::images::GeminiImages;
use super::gemini::speech::GeminiSpeech;
use super::gemini::transcription::GeminiTranscription;
use super::native::{Dialect, Native};
use crate::adapter::{
    Adapter, Built, ChoiceRange, CountCall, DialectTraits, Encoded, HttpCall, Reading, Signer, StreamDecoder,
    Target,
};
use crate::settings::{ProviderSettings, SettingsError};
use crate::surfaces::Surfaces;

/// The variable that Google's own client libraries read the path of the credentials file from.
const CREDENTIALS_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// Vertex AI. The model rules of the target decide which of the two dialects a call uses.
#[derive(Debug)]
struct Vertex {
    gemini: Native<VertexGemini>,
    claude: Native<VertexClaude>,
}

/// Builds the adapter. `region` and `project` give the address. The access token is `api_key` itself, or it comes from
/// `credentials_file`, from the file that the environment names, or from the metadata server of the Google Cloud
/// machine, in this order.
///
/// # Errors
/// An option or the credentials file is wrong.
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    build_with(settings, std::env::var(CREDENTIALS_VARIABLE).ok())
}

fn build_with(settings: &ProviderSettings, from_environment: Option<String>) -> Result<Built, SettingsError> {
    let file = settings.text_option("credentials_file")?;
    let mut signer: Option<Arc<dyn Signer>> = None;
    let mut own_project = None;
    if settings.api_keys.is_empty() {
        if file.is_none() && !is_google_address(settings.base_url.as_deref()) {
            return Err(SettingsError::Rule(
                "credentials_file or api_key is required: credentials of the environment or the machine are sent to \
                 Google's own addresses only",
            ));
        }
        let source = match file.map(str::to_owned).or(from_environment.filter(|path| !path.is_empty())) {
            Some(file) => {
                let ca_file = settings.text_option("ca_file")?.map(Path::new);
                let read = token_source::read(Path::new(&file), settings.allow_private_network, ca_file)?;
                own_project = read.project;
                read.source
            }
            None => GoogleTokenSource::metadata(),
        };
        signer = Some(Arc::new(VertexTokens::new(source)));
    } else if file.is_some() {
        return Err(SettingsError::Rule(
            "api_key (an access token) and credentials_file are both set: remove one of them",
        ));
    }
    let region = settings.text_option("region")?.unwrap_or(GLOBAL);
    let project = settings.text_option("project")?.map(str::to_owned).or(own_project);
    let project =
        project.ok_or(SettingsError::Rule("project is required, because no credentials file names it"))?;
    let location = ProjectLocation::new(&project, region)?;
    // An address in the settings is the address of every call.
    let second_url = settings.base_url.is_none().then_some(RANKING_URL);
    let rerank = Box::new(VertexRerank::new(&project, second_url.is_some()));
    let surfaces = Surfaces {
        rerank: Some(rerank),
        images: Some(Box::new(GeminiImages(location.clone()))),
        speech: Some(Box::new(GeminiSpeech(location.clone()))),
        transcription: Some(Box::new(GeminiTranscription(location.clone()))),
        ..Surfaces::default()
    };
    let gemini = Native(VertexGemini(location.clone()));
    let adapter = Box::new(Vertex { gemini, claude: Native(VertexClaude(location)) });
    Ok(Built { signer, surfaces, base_url: Some(endpoint(region)), second_url, ..Built::new(adapter) })
}

/// Whether calls go to Google. Credentials from the environment or the machine must not go anywhere else: somebody who
/// may add a provider could otherwise have them sent to an address of their own.
fn is_google_address(base_url: Option<&str>) -> bool {
    let Some(base_url) = base_url else { return true };
    let Ok(uri) = base_url.parse::<http::Uri>() else { return false };
    uri.scheme_str() == Some("https") && uri.host().is_some_and(|host| host.ends_with(".googleapis.com"))
}

impl Vertex {
    /// Returns the dialect of the target's model.
    fn dialect_of(&self, target: &Target<'_>) -> &dyn Adapter {
        self.dialect(target.rules.vendor() == claude::VENDOR)
    }

    fn dialect(&self, is_claude: bool) -> &dyn Adapter {
        if is_claude { &self.claude } else { &self.gemini }
    }
}

/// The traits that both dialects share.
const TRAITS: &DialectTraits =
    &DialectTraits { classify: errors::classify, ..<VertexGemini as Dialect>::POLICY.traits };

impl Adapter for Vertex {
    fn traits(&self) -> &DialectTraits {
        TRAITS
    }

    fn speaks(&self, dialect: ClientDialect, target: &Target<'_>) -> bool {
        self.dialect_of(target).speaks(dialect, target)
    }

    fn count(&self, request: &ChatRequest, target: &Target<'_>) -> Option<CountCall> {
        self.dialect_of(target).count(request, target)
    }

    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        self.dialect_of(target).chat(request, range, target)
    }

    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        self.dialect_of(target).completion(request, range, target)
    }

    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        self.dialect_of(target).embeddings(request, inputs, target)
    }

    fn failed_usage(&self, body: &[u8], reading: &Reading) -> Option<Usage> {
        self.dialect(reading.is_claude).failed_usage(body, reading)
    }

    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        self.dialect(reading.is_claude).decode_chat(body, reading)
    }

    fn decode_completion<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<TextReply<'a>, Failure> {
        self.dialect(reading.is_claude).decode_completion(body, reading)
    }

    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        self.gemini.decode_embeddings(body, expected)
    }

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        self.dialect(reading.is_claude).stream(reading)
    }
}

#[cfg(test)]
mod tests;
