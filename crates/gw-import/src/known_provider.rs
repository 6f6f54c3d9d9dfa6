//! Providers of other gateways that the gateway can call, and the variables in the places of their keys.

use gw_providers::presets;

/// A provider of another gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownProvider {
    /// Its name at the other gateway.
    pub(super) source: &'static str,
    /// The name of the provider in gateway.toml.
    pub(super) name: &'static str,
    /// The dialect.
    pub(super) api: &'static str,
    /// The variable that usually holds its key.
    pub(super) variable: Option<&'static str>,
    /// Whether the gateway can ask the provider for its models.
    pub(super) has_list: bool,
}

/// A gateway whose providers have names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceGateway {
    LiteLlm,
    Bifrost,
    Portkey,
}

/// A provider with its names at other gateways.
struct ProviderRow {
    name: &'static str,
    api: &'static str,
    variable: Option<&'static str>,
    has_list: bool,
    litellm: &'static [&'static str],
    bifrost: &'static [&'static str],
    portkey: &'static [&'static str],
}

/// The names of a provider at LiteLLM, Bifrost and Portkey.
type Names = [&'static [&'static str]; 3];

const fn row(
    name: &'static str,
    api: &'static str,
    variable: Option<&'static str>,
    [litellm, bifrost, portkey]: Names,
) -> ProviderRow {
    ProviderRow { name, api, variable, has_list: true, litellm, bifrost, portkey }
}

/// OpenAI's dialect at the address of a preset.
const fn hosted(name: &'static str, variable: &'static str, names: Names) -> ProviderRow {
    row(name, "openai", Some(variable), names)
}

/// A cloud whose models the gateway cannot list.
const fn cloud(
    name: &'static str,
    api: &'static str,
    variable: Option<&'static str>,
    names: Names,
) -> ProviderRow {
    ProviderRow { has_list: false, ..row(name, api, variable, names) }
}

/// The providers that the gateway can call.
const PROVIDERS: [ProviderRow; 33] = [
    hosted("openai", "OPENAI_API_KEY", [&["openai", "text-completion-openai"], &["openai"], &["openai"]]),
    row(
        "anthropic",
        "anthropic",
        Some("ANTHROPIC_API_KEY"),
        [&["anthropic"], &["anthropic"], &["anthropic"]],
    ),
    // Users of Portkey give the short name to virtual keys. The same holds for Google and Mistral.
    cloud(
        "azure",
        "azure",
        Some("AZURE_API_KEY"),
        [&["azure", "azure_text"], &["azure"], &["azure-openai", "azure"]],
    ),
    cloud("amazon", "bedrock", None, [&["bedrock"], &["bedrock"], &["bedrock"]]),
    cloud("vertex", "vertex", None, [&["vertex_ai", "vertex_ai_beta"], &["vertex"], &["vertex-ai"]]),
    row("google", "gemini", Some("GEMINI_API_KEY"), [&["gemini"], &["gemini"], &["google", "gemini"]]),
    row("cohere", "cohere", Some("COHERE_API_KEY"), [&["cohere", "cohere_chat"], &["cohere"], &["cohere"]]),
    row(
        "mistral",
        "mistral",
        Some("MISTRAL_API_KEY"),
        [&["mistral"], &["mistral"], &["mistral-ai", "mistral"]],
    ),
    row("ollama", "ollama", None, [&["ollama", "ollama_chat"], &["ollama"], &["ollama"]]),
    hosted("groq", "GROQ_API_KEY", [&["groq"], &["groq"], &["groq"]]),
    hosted("deepseek", "DEEPSEEK_API_KEY", [&["deepseek"], &["deepseek"], &["deepseek"]]),
    hosted("xai", "XAI_API_KEY", [&["xai"], &["xai"], &["x-ai"]]),
    hosted("together", "TOGETHER_API_KEY", [&["together_ai"], &[], &["together-ai"]]),
    hosted("fireworks", "FIREWORKS_API_KEY", [&["fireworks_ai"], &["fireworks"], &["fireworks-ai"]]),
    hosted("openrouter", "OPENROUTER_API_KEY", [&["openrouter"], &["openrouter"], &["openrouter"]]),
    hosted("perplexity", "PERPLEXITY_API_KEY", [&["perplexity"], &["perplexity"], &["perplexity-ai"]]),
    hosted("cerebras", "CEREBRAS_API_KEY", [&["cerebras"], &["cerebras"], &["cerebras"]]),
    hosted("nvidia", "NVIDIA_NIM_API_KEY", [&["nvidia_nim"], &[], &[]]),
    hosted("moonshotai", "MOONSHOT_API_KEY", [&["moonshot"], &[], &["moonshot"]]),
    hosted("zai", "ZAI_API_KEY", [&["zai"], &[], &["z-ai"]]),
    hosted("alibaba", "DASHSCOPE_API_KEY", [&["dashscope"], &[], &["dashscope"]]),
    hosted("minimax", "MINIMAX_API_KEY", [&["minimax"], &[], &[]]),
    hosted("huggingface", "HF_TOKEN", [&["huggingface"], &["huggingface"], &["huggingface"]]),
    hosted("sambanova", "SAMBANOVA_API_KEY", [&["sambanova"], &[], &["sambanova"]]),
    hosted("novita", "NOVITA_API_KEY", [&["novita"], &[], &["novita-ai"]]),
    hosted("deepinfra", "DEEPINFRA_API_KEY", [&["deepinfra"], &[], &["deepinfra"]]),
    hosted("nebius", "NEBIUS_API_KEY", [&["nebius"], &["nebius"], &["nebius"]]),
    hosted("voyage", "VOYAGE_API_KEY", [&["voyage"], &[], &["voyage"]]),
    hosted("jina", "JINA_API_KEY", [&["jina_ai"], &[], &["jina"]]),
    row("lmstudio", "openai", None, [&["lm_studio"], &[], &[]]),
    row("vllm", "openai", None, [&["hosted_vllm"], &["vllm"], &[]]),
    row("sglang", "openai", None, [&[], &["sgl"], &[]]),
    row(
        "compatible",
        "openai",
        None,
        [&["custom_openai", "openai_like", "litellm_proxy"], &["parasail"], &[]],
    ),
];

/// The variables of keys that one gateway names differently, each with that gateway and its name of the provider.
const OTHER_VARIABLES: [(SourceGateway, &str, &str); 8] = [
    (SourceGateway::LiteLlm, "together_ai", "TOGETHERAI_API_KEY"),
    (SourceGateway::LiteLlm, "fireworks_ai", "FIREWORKS_AI_API_KEY"),
    (SourceGateway::LiteLlm, "perplexity", "PERPLEXITYAI_API_KEY"),
    (SourceGateway::LiteLlm, "huggingface", "HUGGINGFACE_API_KEY"),
    (SourceGateway::LiteLlm, "jina_ai", "JINA_AI_API_KEY"),
    (SourceGateway::Bifrost, "huggingface", "HUGGING_FACE_API_KEY"),
    (SourceGateway::Bifrost, "bedrock", "BEDROCK_API_KEY"),
    (SourceGateway::Bifrost, "parasail", "PARASAIL_API_KEY"),
];

impl SourceGateway {
    /// The names of a provider at this gateway.
    fn names_of(self, row: &ProviderRow) -> &'static [&'static str] {
        match self {
            Self::LiteLlm => row.litellm,
            Self::Bifrost => row.bifrost,
            Self::Portkey => row.portkey,
        }
    }

    /// All providers of this gateway, once for each of their names.
    pub(super) fn providers(self) -> impl Iterator<Item = KnownProvider> {
        PROVIDERS.iter().flat_map(move |row| {
            let ProviderRow { name, api, has_list, .. } = *row;
            self.names_of(row).iter().map(move |source| {
                let other = OTHER_VARIABLES.iter().find(|(at, known, _)| *at == self && known == source);
                let variable = other.map(|(_, _, variable)| *variable).or(row.variable);
                KnownProvider { source, name, api, variable, has_list }
            })
        })
    }

    /// The provider that has this name at this gateway.
    pub(super) fn provider(self, source: &str) -> Option<KnownProvider> {
        self.providers().find(|provider| provider.source == source)
    }
}

impl KnownProvider {
    /// The name in gateway.toml. A known name stands for a known address. Another address gets another name, without the models of
    /// the known one.
    pub(super) fn name_at(self, has_address: bool) -> String {
        let preset = presets::find(self.name).filter(|preset| preset.api == self.api);
        let is_elsewhere =
            has_address && preset.is_some_and(|preset| preset.base_url.is_some() && !preset.local);
        match (is_elsewhere, self.api) {
            (true, "openai") => "compatible".to_owned(),
            (true, _) if self.api != "ollama" => format!("{}-compatible", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Whether the gateway knows an address, or needs none.
    pub(super) fn has_address(self) -> bool {
        self.api != "openai" || presets::find(self.name).is_some_and(|preset| preset.api == self.api)
    }

    /// The variable for a key that the source does not name.
    pub(super) fn key_variable(self) -> String {
        self.variable.map_or_else(|| variable_name(self.name, "API_KEY"), str::to_owned)
    }
}

/// A variable's name from any text: `openai-key 1` and `KEY` make `OPENAI_KEY_1_KEY`.
pub(super) fn variable_name(text: &str, end: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().map(upper).collect();
    let name = format!("{}_{end}", name.trim_matches('_'));
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a header's value is a secret, by the header's name.
pub(super) fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password", "credential"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_provider_and_every_other_variable_belongs_to_one() {
        for gateway in [SourceGateway::LiteLlm, SourceGateway::Bifrost, SourceGateway::Portkey] {
            let mut names: Vec<_> = gateway.providers().map(|provider| provider.source).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{gateway:?}");
        }
        for (gateway, name, variable) in OTHER_VARIABLES {
            let provider = gateway.provider(name).map(KnownProvider::key_variable);
            assert_eq!(provider.as_deref(), Some(variable), "{gateway:?} {name}");
        }
        let default = SourceGateway::Portkey.provider("huggingface").map(KnownProvider::key_variable);
        assert_eq!(default.as_deref(), Some("HF_TOKEN"));
    }
}
