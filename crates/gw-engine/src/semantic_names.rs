//! The names that OpenTelemetry's semantic conventions give to operations and providers.

use gw_providers::settings::Api;
use gw_wire::operation::{Operation, PlainOperation};

/// `gen_ai.operation.name` of an operation of the ledger.
#[must_use]
pub fn operation(operation: &str) -> &'static str {
    let unknown = || PlainOperation::Chat.into();
    Operation::named(operation).unwrap_or_else(unknown).row().semantic_name
}

/// `gen_ai.provider.name`. A provider that the conventions do not know keeps its own name.
#[must_use]
pub fn provider(api: Api, name: &str) -> &str {
    let of_vendor = || match name {
        "moonshot" | "moonshotai" => "moonshot_ai",
        "xai" => "x_ai",
        "mistral" => "mistral_ai",
        other => other,
    };
    api.semantic_name.unwrap_or_else(of_vendor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_providers_have_the_names_of_the_conventions() {
        for (api, name, expected) in [
            (Api::OPENAI, "openai", "openai"),
            (Api::OPENAI, "xai", "x_ai"),
            (Api::OPENAI, "groq", "groq"),
            (Api::OPENAI, "acme", "acme"),
            (Api::BEDROCK, "eu", "aws.bedrock"),
            (Api::VERTEX, "gcp", "gcp.vertex_ai"),
        ] {
            assert_eq!(provider(api, name), expected);
        }
        assert_eq!([operation("completion"), operation("messages")], ["text_completion", "chat"]);
    }
}
