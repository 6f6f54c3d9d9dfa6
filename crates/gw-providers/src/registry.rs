//! The table of dialects, one row each. Settings, presets, model rules, the configuration's schema and telemetry read
//! it.

use gw_wire::request::native_policy::Surface;

use crate::adapter::Built;
use crate::adapters::{anthropic, azure, bedrock, cohere, gemini, mistral, ollama, openai, vertex};
use crate::model_rules::{self, RuleSource};
use crate::presets::{self, Quirks};
use crate::settings::{Api, ApiRow, ProviderSettings, SettingsError, VariableHolds};

/// A dialect of its own, without anything special. It begins most rows, which give the first four members themselves.
const PLAIN: ApiRow = ApiRow {
    name: "",
    semantic_name: None,
    build: openai::build,
    rules: RuleSource::of(|_| &[]),
    guarded_members: Some(&[]),
    native_surface: None,
    options: &[],
    embedding_batch: None,
    quirks: None,
    variable: VariableHolds::Key,
    is_shared: false,
    is_demo: false,
    names_models_in_urls: false,
    counts_searches: false,
    answers_as_openai: false,
    stream_type: "text/event-stream",
    wrong_key_statuses: &[401, 403],
};

impl Api {
    /// OpenAI's chat completions, which most providers and model servers have.
    pub const OPENAI: Self = Self::new(&ApiRow {
        name: "openai",
        build: openai::build,
        rules: RuleSource { tables: |_| &["gpt"], at_start: true },
        guarded_members: None,
        native_surface: Some(Surface::Responses),
        options: &["responses", "token_arrays", "text_parts"],
        is_shared: true,
        answers_as_openai: true,
        ..PLAIN
    });

    /// Azure OpenAI.
    pub const AZURE: Self = Self::new(&ApiRow {
        name: "azure",
        semantic_name: Some("azure.ai.openai"),
        build: azure::build,
        rules: RuleSource::of(|_| &["gpt"]),
        guarded_members: None,
        options: &["api_version", "deployments", "auth", "tenant_id", "client_id", "authority"],
        quirks: Some(Quirks::OPENAI),
        names_models_in_urls: true,
        answers_as_openai: true,
        ..PLAIN
    });

    /// Anthropic's Messages API.
    pub const ANTHROPIC: Self = Self::new(&ApiRow {
        name: "anthropic",
        semantic_name: Some("anthropic"),
        build: anthropic::build,
        rules: RuleSource::of(|_| &["claude"]),
        native_surface: Some(Surface::Messages),
        ..PLAIN
    });

    /// Google's AI Studio. `batchEmbedContents` takes 100 inputs.
    pub const GEMINI: Self = Self::new(&ApiRow {
        name: "gemini",
        semantic_name: Some("gcp.gemini"),
        build: gemini::build,
        rules: RuleSource::of(|_| &["gemini"]),
        guarded_members: Some(&["web_search_options"]),
        embedding_batch: Some(100),
        names_models_in_urls: true,
        counts_searches: true,
        wrong_key_statuses: &[400, 401, 403],
        ..PLAIN
    });

    /// Google's Vertex AI: Gemini and Claude. Its Gemini models take one input of embeddings.
    pub const VERTEX: Self = Self::new(&ApiRow {
        name: "vertex",
        semantic_name: Some("gcp.vertex_ai"),
        build: vertex::build,
        rules: RuleSource::of(model_rules::tables_on_vertex),
        native_surface: Some(Surface::Messages),
        options: &["region", "project", "credentials_file"],
        embedding_batch: Some(1),
        names_models_in_urls: true,
        ..PLAIN
    });

    /// Amazon Bedrock. Titan's models take one input of embeddings. Cohere's models take 96, which operators set with
    /// `embedding_batch`.
    pub const BEDROCK: Self = Self::new(&ApiRow {
        name: "bedrock",
        semantic_name: Some("aws.bedrock"),
        build: bedrock::build,
        rules: RuleSource::of(|_| &["claude", "bedrock"]),
        native_surface: Some(Surface::Messages),
        options: &["region", "profile"],
        embedding_batch: Some(1),
        variable: VariableHolds::KeyBesideRegion,
        names_models_in_urls: true,
        stream_type: "application/vnd.amazon.eventstream",
        ..PLAIN
    });

    /// Cohere's API v2.
    pub const COHERE: Self = Self::new(&ApiRow {
        name: "cohere",
        semantic_name: Some("cohere"),
        build: cohere::build,
        rules: RuleSource::of(|_| &["cohere"]),
        ..PLAIN
    });

    /// Mistral's La Plateforme.
    pub const MISTRAL: Self = Self::new(&ApiRow {
        name: "mistral",
        semantic_name: Some("mistral_ai"),
        build: mistral::build,
        rules: RuleSource::of(|_| &["mistral"]),
        guarded_members: Some(&["guardrails"]),
        answers_as_openai: true,
        ..PLAIN
    });

    /// Ollama's own API.
    pub const OLLAMA: Self = Self::new(&ApiRow {
        name: "ollama",
        semantic_name: Some("ollama"),
        build: ollama::build,
        rules: RuleSource::of(|_| &["ollama"]),
        guarded_members: Some(&["keep_alive"]),
        options: &["num_ctx_max"],
        variable: VariableHolds::Address,
        stream_type: "application/x-ndjson",
        ..PLAIN
    });

    /// The demo, which answers in this process in OpenAI's dialect.
    pub const DEMO: Self = Self::new(&ApiRow {
        name: "demo",
        semantic_name: Some("demo"),
        build: openai::build,
        rules: RuleSource::of(|_| &["gpt"]),
        guarded_members: None,
        embedding_batch: Some(2048),
        quirks: Some(Quirks { max_tools: None, ..Quirks::OPENAI }),
        is_demo: true,
        answers_as_openai: true,
        ..PLAIN
    });

    /// All dialects, in the order of the documentation.
    pub const ALL: [Self; 10] = [
        Self::OPENAI,
        Self::AZURE,
        Self::ANTHROPIC,
        Self::GEMINI,
        Self::VERTEX,
        Self::BEDROCK,
        Self::COHERE,
        Self::MISTRAL,
        Self::OLLAMA,
        Self::DEMO,
    ];

    /// The dialect with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|api| api.name == name)
    }

    /// The dialect of the provider that is known by this name.
    #[must_use]
    pub fn of_known_provider(name: &str) -> Option<Self> {
        Self::named(presets::find(name)?.api)
    }
}

/// The adapter of a provider's dialect, set up for this provider.
///
/// # Errors
/// The options of the provider are wrong. The message holds no secret.
pub fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    (settings.api.build)(settings)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_and_every_preset_and_rule_table_exists() {
        let names: HashSet<_> = Api::ALL.iter().map(|api| api.name).collect();
        assert_eq!(names.len(), Api::ALL.len());
        for preset in presets::ALL {
            assert!(Api::named(preset.api).is_some(), "{} has the API {}", preset.name, preset.api);
        }
        let tables: HashSet<_> = model_rules::tables().iter().map(|table| &*table.vendor).collect();
        for api in Api::ALL {
            let own = (api.rules.tables)("model");
            assert!(!own.is_empty() && own.iter().all(|table| tables.contains(table)), "{api:?}: {own:?}");
        }
    }
}
