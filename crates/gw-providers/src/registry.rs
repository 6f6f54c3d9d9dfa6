//! Which dialect belongs to which API: one line each.

use std::sync::Arc;

use crate::adapter::{Adapter, Signer};
use crate::adapters::anthropic;
use crate::adapters::azure;
use crate::adapters::bedrock;
use crate::adapters::cohere;
use crate::adapters::gemini;
use crate::adapters::mistral;
use crate::adapters::ollama;
use crate::adapters::openai::OpenAi;
use crate::adapters::vertex;
use crate::presets::Quirks;
use crate::settings::{Api, ProviderSettings};

/// A dialect set up for one provider.
#[derive(Debug)]
pub struct Built {
    /// The dialect.
    pub adapter: Box<dyn Adapter>,
    /// Credentials that are more than a key in a header; None = the keys of the settings, see [`Adapter::scheme`].
    pub signer: Option<Arc<dyn Signer>>,
    /// Where it is when the settings name no `base_url` and a region or a project decides.
    pub base_url: Option<String>,
}

impl Built {
    /// With plain keys and a fixed address.
    #[must_use]
    pub fn new(adapter: Box<dyn Adapter>) -> Self {
        Self { adapter, signer: None, base_url: None }
    }
}

/// The dialect of an API, set up for this provider.
///
/// # Errors
/// What is wrong with its options, without any secret.
pub fn build(settings: &ProviderSettings) -> Result<Built, String> {
    match settings.api {
        Api::OpenAi | Api::Demo => {
            let adapter = OpenAi::new(Quirks::of(settings)).allowing(settings.allowed_members());
            Ok(Built::new(Box::new(adapter)))
        }
        Api::Azure => azure::build(settings),
        Api::Bedrock => bedrock::build(settings),
        Api::Gemini => Ok(Built::new(gemini::adapter())),
        Api::Vertex => vertex::build(settings),
        Api::Anthropic => Ok(Built::new(anthropic::adapter())),
        Api::Cohere => Ok(Built::new(cohere::adapter())),
        Api::Mistral => Ok(Built::new(mistral::adapter(settings))),
        Api::Ollama => Ok(Built::new(ollama::adapter(settings)?)),
    }
}
