//! The names that OpenTelemetry's semantic conventions give to operations and providers.

use gw_providers::settings::Api;

/// `gen_ai.operation.name` of an operation of the ledger.
#[must_use]
pub fn operation(operation: &str) -> &'static str {
    match operation {
        "embeddings" => "embeddings",
        "completion" => "text_completion",
        _ => "chat",
    }
}

/// `gen_ai.provider.name`. A provider that the conventions do not know keeps its own name.
#[must_use]
pub fn provider(api: Api, name: &str) -> &str {
    match api {
        Api::Azure => "azure.ai.openai",
        Api::Anthropic => "anthropic",
        Api::Gemini => "gcp.gemini",
        Api::Vertex => "gcp.vertex_ai",
        Api::Bedrock => "aws.bedrock",
        Api::Cohere => "cohere",
        Api::Mistral => "mistral_ai",
        Api::Ollama => "ollama",
        Api::Demo => "demo",
        Api::OpenAi => match name {
            "moonshot" | "moonshotai" => "moonshot_ai",
            "xai" => "x_ai",
            "mistral" => "mistral_ai",
            other => other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_providers_have_the_names_of_the_conventions() {
        for (api, name, expected) in [
            (Api::OpenAi, "openai", "openai"),
            (Api::OpenAi, "xai", "x_ai"),
            (Api::OpenAi, "groq", "groq"),
            (Api::OpenAi, "acme", "acme"),
            (Api::Bedrock, "eu", "aws.bedrock"),
            (Api::Vertex, "gcp", "gcp.vertex_ai"),
        ] {
            assert_eq!(provider(api, name), expected);
        }
        assert_eq!([operation("completion"), operation("messages")], ["text_completion", "chat"]);
    }
}
