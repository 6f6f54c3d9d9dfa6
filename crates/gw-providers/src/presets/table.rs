//! The table of presets, one row per provider. A comment at an unusual row names its source.

use super::{DEFAULT_BATCH, Preset, Quirks, TokenCounter};

/// A hosted provider that speaks OpenAI's dialect.
const fn hosted(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Preset {
    Preset {
        name,
        api: "openai",
        base_url: Some(base_url),
        key_variable: Some(key_variable),
        local: false,
        quirks: Quirks::PLAIN,
        embedding_batch: 128,
    }
}

/// A server on this machine that speaks OpenAI's dialect.
const fn local(name: &'static str, base_url: &'static str) -> Preset {
    Preset {
        name,
        api: "openai",
        base_url: Some(base_url),
        key_variable: None,
        local: true,
        quirks: Quirks::PLAIN,
        embedding_batch: DEFAULT_BATCH,
    }
}

/// A provider with an API of its own.
const fn native(
    name: &'static str,
    api: &'static str,
    base_url: Option<&'static str>,
    key_variable: &'static str,
) -> Preset {
    let row = hosted(name, "", key_variable);
    Preset { api, base_url, embedding_batch: 96, ..row }
}

/// The inputs of a call at providers that take 2,048 (OpenAI and Azure: "Embeddings - Create"). The vectors of more may be longer than
/// the 32 MiB that the gateway reads of an answer, which the provider bills all the same.
const LONGEST_BATCH: usize = 256;

/// Every provider that is known by name, in no particular order.
pub static ALL: &[Preset] = &[
    Preset {
        quirks: Quirks::OPENAI,
        embedding_batch: LONGEST_BATCH,
        ..hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
    },
    native("anthropic", "anthropic", Some("https://api.anthropic.com"), "ANTHROPIC_API_KEY"),
    native("google", "gemini", Some("https://generativelanguage.googleapis.com"), "GEMINI_API_KEY"),
    native("mistral", "mistral", Some("https://api.mistral.ai/v1"), "MISTRAL_API_KEY"),
    native("cohere", "cohere", Some("https://api.cohere.com"), "COHERE_API_KEY"),
    native("amazon", "bedrock", None, "AWS_BEARER_TOKEN_BEDROCK"),
    // A key alone does not give the address of the resource, so the provider is not configured automatically.
    Preset {
        quirks: Quirks::OPENAI,
        embedding_batch: LONGEST_BATCH,
        key_variable: None,
        ..native("azure", "azure", None, "")
    },
    // "OpenAI Compatibility" (console.groq.com/docs/openai): these members, and an `n` above 1, are answered with 400.
    Preset {
        quirks: Quirks {
            unsupported: &["logprobs", "top_logprobs", "logit_bias"],
            choices: 1,
            ..Quirks::PLAIN
        },
        ..hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
    },
    // "Create Chat Completion" (api-docs.deepseek.com/api/create-chat-completion) has neither `n` nor the role
    // `developer`.
    Preset {
        quirks: Quirks { choices: 1, ..Quirks::PLAIN },
        ..hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY")
    },
    // Only its reasoning models refuse penalties and `stop` ("Chat Completions", docs.x.ai), so the row does not list
    // them.
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    // `cache_control` of parts: openrouter.ai/docs/features/prompt-caching, November 2026.
    Preset {
        quirks: Quirks { cache_control: true, text_parts: true, ..Quirks::PLAIN },
        ..hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")
    },
    // Every chunk has the usage. `stream_options` is not in the reference (?).
    Preset {
        quirks: Quirks { stream_usage: false, ..Quirks::PLAIN },
        ..hosted("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY")
    },
    // "OpenAI Compatibility" (inference-docs.cerebras.ai/resources/openai): these members are answered with 400 (?).
    Preset {
        quirks: Quirks {
            unsupported: &["frequency_penalty", "presence_penalty", "logit_bias"],
            ..Quirks::PLAIN
        },
        ..hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY")
    },
    hosted("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    hosted("moonshotai", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    hosted("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    // "OpenAI compatible - Embedding" (help.aliyun.com/en/model-studio/embedding-interfaces-compatible-with-openai):
    // ten inputs.
    Preset {
        embedding_batch: 10,
        ..hosted("alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY")
    },
    // "OpenAI API compatible" (platform.minimax.io/docs/api-reference/text-openai-api): `n` is 1, and these members are
    // ignored (?).
    Preset {
        quirks: Quirks {
            unsupported: &["frequency_penalty", "presence_penalty", "logit_bias"],
            choices: 1,
            ..Quirks::PLAIN
        },
        ..hosted("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY")
    },
    // The vendor's own variable is `MODEL_API_KEY`. It could hold the key of another vendor, so it is not used
    // automatically.
    hosted("meta", "https://api.meta.ai/v1", "META_API_KEY"),
    hosted("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    // "Create chat-based completion" (docs.sambanova.ai/docs/api-reference): "Not currently implemented; accepted for API
    // compatibility".
    Preset {
        quirks: Quirks { unsupported: &["presence_penalty"], ..Quirks::PLAIN },
        ..hosted("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY")
    },
    hosted("novita", "https://api.novita.ai/openai/v1", "NOVITA_API_KEY"),
    hosted("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    hosted("nebius", "https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    // Embeddings and rerank ("Reranker", docs.voyageai.com/docs/reranker). "Text Embeddings" (docs.voyageai.com/reference/embeddings-api; the same API in MongoDB's "Create
    // embeddings"): `encoding_format` is base64 or absent, and `dimensions` is called `output_dimension`.
    Preset {
        quirks: Quirks {
            encoding_format: false,
            dimensions: "output_dimension",
            top_n: "top_k",
            ..Quirks::PLAIN
        },
        ..hosted("voyage", "https://api.voyageai.com/v1", "VOYAGE_API_KEY")
    },
    // Embeddings and rerank. The encoding is called `embedding_type`, and its default is numbers (?).
    Preset {
        quirks: Quirks { encoding_format: false, ..Quirks::PLAIN },
        ..hosted("jina", "https://api.jina.ai/v1", "JINA_API_KEY")
    },
    local("lmstudio", "http://127.0.0.1:1234/v1"),
    // `TokenizeChatRequest` of vllm/entrypoints/serve/tokenize/protocol.py (docs.vllm.ai, November 2026).
    Preset {
        quirks: Quirks { counter: Some(TokenCounter::Tokenize), ..Quirks::PLAIN },
        ..local("vllm", "http://127.0.0.1:8000/v1")
    },
    // tools/server/README.md of ggml-org/llama.cpp, November 2026.
    Preset {
        quirks: Quirks { counter: Some(TokenCounter::Messages), ..Quirks::PLAIN },
        ..local("llamacpp", "http://127.0.0.1:8080/v1")
    },
    // "Send a request" (docs.sglang.io) names port 30000.
    local("sglang", "http://127.0.0.1:30000/v1"),
    // "Consuming Text Generation Inference" (huggingface.co/docs/text-generation-inference). Its OpenAPI document marks
    // these members as unused.
    Preset {
        quirks: Quirks { unsupported: &["logit_bias"], choices: 1, ..Quirks::PLAIN },
        ..local("tgi", "http://127.0.0.1:8080/v1")
    },
    Preset { api: "ollama", key_variable: Some("OLLAMA_HOST"), ..local("ollama", "http://127.0.0.1:11434") },
];
