//! Which dialect belongs to which API: one line each.

use crate::adapter::Adapter;
use crate::adapters::openai::OpenAi;
use crate::presets::Quirks;
use crate::settings::{Api, ProviderSettings};

/// The adapter of an API, set up for this provider; None while this version cannot speak it.
#[must_use]
pub fn adapter(api: Api, settings: &ProviderSettings) -> Option<Box<dyn Adapter>> {
    match api {
        Api::OpenAi | Api::Demo => Some(Box::new(OpenAi::new(Quirks::of(settings)))),
        Api::Azure
        | Api::Anthropic
        | Api::Gemini
        | Api::Vertex
        | Api::Bedrock
        | Api::Cohere
        | Api::Mistral
        | Api::Ollama => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::{Api, ProviderSettings, TimeoutOverrides};

    #[test]
    fn exactly_the_built_apis_have_an_adapter() {
        for api in Api::ALL {
            let settings = ProviderSettings {
                name: "x".to_owned(),
                api,
                base_url: None,
                api_keys: Vec::new(),
                headers: Vec::new(),
                price_multiplier: gw_wire::money::Price::default(),
                discover: false,
                timeouts: TimeoutOverrides::default(),
                embedding_batch: None,
                allow_private_network: true,
                options: toml::Table::new(),
            };
            assert_eq!(super::adapter(api, &settings).is_some(), api.is_built(), "{api:?}");
        }
    }
}
