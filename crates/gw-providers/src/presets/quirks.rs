//! The deviations of providers from OpenAI's dialect.

use gw_wire::request::encode::MaxTokensName;

/// How a provider's version of OpenAI's dialect differs from OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Streams report usage on request (`stream_options`). Otherwise usage comes without a request, or never.
    pub stream_usage: bool,
    /// The name of the token limit; None uses OpenAI's name for the model.
    pub max_tokens: Option<MaxTokensName>,
    /// `encoding_format` of embeddings may be sent. Otherwise the provider sends numbers without it.
    pub encoding_format: bool,
    /// The provider's name for `dimensions` of embeddings.
    pub dimensions: &'static str,
    /// The provider's name for `top_n` of a rerank.
    pub top_n: &'static str,
    /// The models use OpenAI's tokenizer, so token arrays keep their meaning.
    pub openai_tokens: bool,
    /// The provider knows the role `developer`. For others it is sent as `system`.
    pub developer: bool,
    /// `reasoning_content` and `reasoning_details` of earlier answers may be sent back. Other providers refuse them.
    pub replayed_thoughts: bool,
    /// Parts and tools may have Anthropic's `cache_control`. Other providers refuse it.
    pub cache_control: bool,
    /// A message may be a list of texts. For others the texts of a translated message are joined into one string.
    pub text_parts: bool,
    /// Members of a request that the provider refuses or ignores. They are left out with a warning.
    pub unsupported: &'static [&'static str],
    /// Members with a [`gw_wire::request::Rule`] that clients may send to this provider, because here they change
    /// neither the model nor the price.
    pub takes: &'static [&'static str],
    /// The most tools of a request; None: no limit is known, and the provider judges.
    pub max_tools: Option<usize>,
    /// The most choices of one call. More choices need several calls.
    pub choices: u32,
    /// How the server counts the tokens of a prompt; None if it cannot.
    pub counter: Option<TokenCounter>,
}

/// A way in which model servers count the tokens of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCounter {
    /// `POST /tokenize`, beside the path `/v1`: vLLM.
    Tokenize,
    /// `POST /v1/messages/count_tokens`, for requests of the Messages API: llama.cpp's server.
    Messages,
}

impl Quirks {
    /// The dialect as most providers speak it.
    pub(crate) const PLAIN: Self = Self {
        stream_usage: true,
        max_tokens: None,
        encoding_format: true,
        dimensions: "dimensions",
        top_n: "top_n",
        openai_tokens: false,
        developer: false,
        replayed_thoughts: true,
        cache_control: false,
        text_parts: false,
        unsupported: &[],
        takes: &[],
        max_tools: None,
        choices: 128,
        counter: None,
    };

    /// The dialect of OpenAI itself. 128 tools: "Create chat completion", `tools` ("A max of 128 functions are
    /// supported").
    pub const OPENAI: Self = Self {
        openai_tokens: true,
        developer: true,
        replayed_thoughts: false,
        text_parts: true,
        max_tools: Some(128),
        ..Self::PLAIN
    };
}
