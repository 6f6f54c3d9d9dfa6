//! What is known about providers by name: address, usual key variable, peculiarities. Data only; adding one is a row.
//!
//! Names are those of the catalogue. `(?)` marks a fact that no document confirmed.

use gw_wire::request::encode::MaxTokensName;

use crate::settings::{Api, ProviderSettings};

/// How one provider's idea of OpenAI's dialect differs from OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Streams may be asked for usage (`stream_options`); otherwise it comes unasked or not at all.
    pub stream_usage: bool,
    /// What the token limit is called; None = as OpenAI calls it for a model of that name.
    pub max_tokens: Option<MaxTokensName>,
    /// `encoding_format` of embeddings may be sent; otherwise numbers come without asking.
    pub encoding_format: bool,
    /// Its models share OpenAI's tokens, so that token arrays mean what the client meant.
    pub openai_tokens: bool,
}

/// What is known about one provider.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The `<provider>` of its model ids.
    pub name: &'static str,
    /// The dialect it speaks.
    pub api: Api,
    /// Where it is; None when that depends on a region or an account.
    pub base_url: Option<&'static str>,
    /// The environment variable that usually holds its key (for Ollama: its address).
    pub key_variable: Option<&'static str>,
    /// A model server on this machine, at its usual port.
    pub local: bool,
    /// Peculiarities.
    pub quirks: Quirks,
    /// How many inputs one embeddings call may carry.
    pub embedding_batch: usize,
}

/// The dialect as nearly everybody speaks it.
const PLAIN: Quirks =
    Quirks { stream_usage: true, max_tokens: None, encoding_format: true, openai_tokens: false };

/// Inputs of an embeddings call to a provider that nobody knows: what the most careful servers take.
const CAREFUL_BATCH: usize = 32;

/// A hosted provider that speaks OpenAI's dialect.
const fn hosted(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Preset {
    Preset {
        name,
        api: Api::OpenAi,
        base_url: Some(base_url),
        key_variable: Some(key_variable),
        local: false,
        quirks: PLAIN,
        embedding_batch: 128,
    }
}

/// A server of OpenAI's dialect on this machine.
const fn local(name: &'static str, base_url: &'static str) -> Preset {
    Preset {
        name,
        api: Api::OpenAi,
        base_url: Some(base_url),
        key_variable: None,
        local: true,
        quirks: PLAIN,
        embedding_batch: CAREFUL_BATCH,
    }
}

/// A provider with an API of its own.
const fn native(
    name: &'static str,
    api: Api,
    base_url: Option<&'static str>,
    key_variable: &'static str,
) -> Preset {
    let row = hosted(name, "", key_variable);
    Preset { api, base_url, embedding_batch: 96, ..row }
}

/// Every provider known by name, in no particular order.
pub static ALL: &[Preset] = &[
    Preset {
        quirks: Quirks { openai_tokens: true, ..PLAIN },
        embedding_batch: 2048,
        ..hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
    },
    native("anthropic", Api::Anthropic, Some("https://api.anthropic.com"), "ANTHROPIC_API_KEY"),
    native("google", Api::Gemini, Some("https://generativelanguage.googleapis.com"), "GEMINI_API_KEY"),
    native("mistral", Api::Mistral, Some("https://api.mistral.ai/v1"), "MISTRAL_API_KEY"),
    native("cohere", Api::Cohere, Some("https://api.cohere.com"), "COHERE_API_KEY"),
    native("amazon", Api::Bedrock, None, "AWS_BEARER_TOKEN_BEDROCK"),
    native("azure", Api::Azure, None, "AZURE_OPENAI_API_KEY"),
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    // Usage comes in every chunk; `stream_options` is not in its reference (?).
    Preset {
        quirks: Quirks { stream_usage: false, ..PLAIN },
        ..hosted("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY")
    },
    hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    hosted("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    hosted("moonshotai", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    hosted("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    // Embeddings take ten inputs.
    Preset {
        embedding_batch: 10,
        ..hosted("alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY")
    },
    hosted("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    // The vendor's own variable, `MODEL_API_KEY`, could hold anybody's key: it is not taken up unasked.
    hosted("meta", "https://api.meta.ai/v1", "META_API_KEY"),
    hosted("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    hosted("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    hosted("novita", "https://api.novita.ai/openai/v1", "NOVITA_API_KEY"),
    hosted("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    hosted("nebius", "https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    // Embeddings only; `encoding_format` is base64 or absent.
    Preset {
        quirks: Quirks { encoding_format: false, ..PLAIN },
        ..hosted("voyage", "https://api.voyageai.com/v1", "VOYAGE_API_KEY")
    },
    // Embeddings only; the encoding is called `embedding_type` there (?).
    Preset {
        quirks: Quirks { encoding_format: false, ..PLAIN },
        ..hosted("jina", "https://api.jina.ai/v1", "JINA_API_KEY")
    },
    local("lmstudio", "http://127.0.0.1:1234/v1"),
    local("vllm", "http://127.0.0.1:8000/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
    Preset {
        api: Api::Ollama,
        key_variable: Some("OLLAMA_HOST"),
        ..local("ollama", "http://127.0.0.1:11434")
    },
];

/// The preset of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// What is known about a configured provider: by its name, else by its address.
fn of(settings: &ProviderSettings) -> Option<&'static Preset> {
    let same_address = |preset: &&Preset| {
        let wanted = settings.base_url.as_deref().map(|url| url.trim_end_matches('/'));
        !preset.local && wanted.is_some() && preset.base_url == wanted
    };
    find(&settings.name).or_else(|| ALL.iter().find(same_address)).filter(|preset| preset.api == settings.api)
}

/// The address of a provider whose settings give none.
#[must_use]
pub fn base_url(settings: &ProviderSettings) -> Option<&'static str> {
    of(settings)?.base_url
}

/// How many inputs one embeddings call to this provider may carry, unless its settings say so.
#[must_use]
pub fn embedding_batch(settings: &ProviderSettings) -> usize {
    match settings.api {
        Api::Demo => 2048,
        // `batchEmbedContents` takes a hundred; on Vertex the Gemini models take one.
        Api::Gemini => 100,
        Api::Vertex => 1,
        _ => of(settings).map_or(CAREFUL_BATCH, |preset| preset.embedding_batch),
    }
}

impl Quirks {
    /// The peculiarities of a configured provider.
    #[must_use]
    pub fn of(settings: &ProviderSettings) -> Self {
        match settings.api {
            Api::Demo => Self { openai_tokens: true, ..PLAIN },
            _ => of(settings).map_or(PLAIN, |preset| preset.quirks),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{ALL, find};
    use crate::settings::Api;

    #[test]
    fn names_and_key_variables_are_unique() {
        let names: HashSet<_> = ALL.iter().map(|preset| preset.name).collect();
        let variables: Vec<_> = ALL.iter().filter_map(|preset| preset.key_variable).collect();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(variables.iter().collect::<HashSet<_>>().len(), variables.len());
    }

    #[test]
    fn addresses_are_https_except_on_this_machine() {
        for preset in ALL {
            let Some(url) = preset.base_url else { continue };
            let begin = if preset.local { "http://127.0.0.1:" } else { "https://" };
            assert!(url.starts_with(begin) && !url.ends_with('/'), "{url}");
        }
    }

    #[test]
    fn every_provider_of_the_contract_is_known() {
        for name in
            ["openai", "anthropic", "google", "mistral", "groq", "deepseek", "ollama", "vllm", "llamacpp"]
        {
            assert!(find(name).is_some(), "{name}");
        }
        assert_eq!(find("google").map(|preset| preset.api), Some(Api::Gemini));
        assert!(find("acme").is_none());
    }
}
