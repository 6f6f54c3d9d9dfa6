//! The options of `model-gateway probe`.

use clap::Args;
use serde_json::{Map, Value};

/// Seconds that a call may take.
const DEFAULT_TIMEOUT_SECONDS: u64 = 60;

/// The options of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Provider of gateway.toml; with --base-url any name
    #[arg(value_name = "PROVIDER")]
    pub(super) provider: String,
    /// Model, by its id or by its name at the provider [default: the provider's cheapest chat model]
    #[arg(value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// Probe this address instead of a configured provider
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// API of --base-url: openai, azure, anthropic, gemini, vertex, bedrock, cohere, mistral or ollama [default: openai]
    #[arg(long, value_name = "API")]
    pub(super) api: Option<String>,
    /// Environment variable with the key for --base-url
    #[arg(long, value_name = "NAME")]
    pub(super) key_env: Option<String>,
    /// Make the calls without asking
    #[arg(long, short = 'y')]
    pub(super) yes: bool,
    /// Make only this step; may be given several times
    #[arg(long, value_name = "STEP", value_parser = clap::builder::PossibleValuesParser::new(super::plan::names()))]
    pub(super) only: Vec<String>,
    /// Treat the model as an embedding model
    #[arg(long)]
    pub(super) embeddings: bool,
    /// Seconds that a call may take
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TIMEOUT_SECONDS, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) timeout: u64,
    /// Most tokens of an answer; reasoning models need more
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = clap::value_parser!(u64).range(16..=65536))]
    pub(super) max_tokens: u64,
    /// Members that every chat request gets, such as '{"temperature": 0, "reasoning_effort": "low"}'
    #[arg(long, value_name = "JSON", value_parser = members)]
    pub(super) with: Option<Map<String, Value>>,
    /// Also send a prompt that exceeds a context of more than 6,500 tokens, which a wrong endpoint may bill
    #[arg(long)]
    pub(super) oversize: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "catalogue")]
    pub(super) json: bool,
    /// Print a models entry for gateway.toml with the measured abilities
    #[arg(long)]
    pub(super) catalogue: bool,
}

/// The members of a JSON object.
fn members(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_str(text)
}

impl ProbeArgs {
    /// The options of a probe of a configured provider, with the defaults of the command line. The caller has agreed to the
    /// calls.
    #[must_use]
    pub fn of_configured(
        provider: String,
        model: Option<String>,
        only: Vec<String>,
        max_tokens: u64,
    ) -> Self {
        Self {
            provider,
            model,
            base_url: None,
            api: None,
            key_env: None,
            yes: true,
            only,
            embeddings: false,
            timeout: DEFAULT_TIMEOUT_SECONDS,
            max_tokens,
            with: None,
            oversize: false,
            json: true,
            catalogue: false,
        }
    }
}
