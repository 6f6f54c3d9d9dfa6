//! The dialect of each API, one line each.

pub use crate::adapter::Built;
use crate::adapters::anthropic;
use crate::adapters::azure;
use crate::adapters::bedrock;
use crate::adapters::cohere;
use crate::adapters::gemini;
use crate::adapters::mistral;
use crate::adapters::ollama;
use crate::adapters::openai::{NativeResponses, OpenAi};
use crate::adapters::vertex;
use crate::presets::Quirks;
use crate::settings::{Api, ProviderSettings, SettingsError};

/// The dialect of an API, set up for this provider.
///
/// # Errors
/// The options of the provider are wrong. The message holds no secret.
pub fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    match settings.api {
        Api::OpenAi | Api::Demo => {
            let responses = NativeResponses::of(settings)?;
            let adapter = OpenAi::new(Quirks::of(settings))
                .allowing(settings.allowed_members())
                .with_responses(responses);
            Ok(Built::new(Box::new(adapter)))
        }
        Api::Azure => azure::build(settings),
        Api::Bedrock => bedrock::build(settings),
        Api::Gemini => gemini::build(settings),
        Api::Vertex => vertex::build(settings),
        Api::Anthropic => anthropic::build(settings),
        Api::Cohere => Ok(Built::new(cohere::adapter())),
        Api::Mistral => Ok(Built::new(mistral::adapter(settings))),
        Api::Ollama => Ok(Built::new(ollama::adapter(settings)?)),
    }
}
