//! The members of `GenerateContentRequest`: <https://ai.google.dev/api/generate-content>.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// `GenerateContentRequest`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_instruction: Option<GeminiContent<'a>>,
    pub(super) contents: Vec<GeminiContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<GeminiTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<GeminiToolConfig<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    pub(super) generation_config: GenerationConfig<'a>,
}

/// `Content`.
#[derive(Debug, Serialize)]
pub(super) struct GeminiContent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    pub(super) parts: Vec<GeminiPart<'a>>,
}

/// `Part`: one of these members, possibly with a signature.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inline_data: Option<GeminiBlob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_data: Option<FileData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<GeminiFunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<Cow<'a, str>>,
}

impl<'a> GeminiPart<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Whether the part is an empty text without a signature.
    pub(super) fn is_empty_text(&self) -> bool {
        self.text.as_deref() == Some("") && self.thought_signature.is_none()
    }
}

/// `Blob`: bytes in base64.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiBlob<'a> {
    pub(super) mime_type: Cow<'a, str>,
    pub(super) data: Cow<'a, str>,
}

/// `FileData`: bytes that the provider fetches.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<&'static str>,
    pub(super) file_uri: Cow<'a, str>,
}

/// `FunctionCall`: a call that the model made.
#[derive(Debug, Serialize)]
pub(super) struct GeminiFunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) args: Cow<'a, RawValue>,
}

/// `FunctionResponse`: the result of a call.
#[derive(Debug, Serialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) response: FunctionResult<'a>,
}

/// The result of a call as an object.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum FunctionResult<'a> {
    /// The client's result, if it is an object.
    Object(Cow<'a, RawValue>),
    /// Any other text, wrapped in an object.
    Wrapped { result: Cow<'a, str> },
}

/// `Tool`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiTool<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) function_declarations: Vec<FunctionDeclaration<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) google_search: Option<GoogleSearch>,
}

/// `GoogleSearch`: the model may search the web.
#[derive(Debug, Serialize)]
pub(super) struct GoogleSearch {}

/// `FunctionDeclaration` with at most one of the two schemas.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionDeclaration<'a> {
    pub(super) name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters_json_schema: Option<Box<RawValue>>,
}

/// `ToolConfig`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiToolConfig<'a> {
    pub(super) function_calling_config: FunctionCallingConfig<'a>,
}

/// `FunctionCallingConfig`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCallingConfig<'a> {
    pub(super) mode: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) allowed_function_names: Vec<Cow<'a, str>>,
}

/// `GenerationConfig`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) candidate_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_k: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop_sequences: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_json_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_config: Option<ThinkingConfig>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        let Self {
            candidate_count,
            max_output_tokens,
            temperature,
            top_p,
            top_k,
            stop_sequences,
            seed,
            presence_penalty,
            frequency_penalty,
            response_logprobs,
            logprobs: _,
            response_mime_type,
            response_schema: _,
            response_json_schema: _,
            thinking_config,
        } = self;
        candidate_count.is_none()
            && max_output_tokens.is_none()
            && temperature.is_none()
            && top_p.is_none()
            && top_k.is_none()
            && stop_sequences.is_empty()
            && seed.is_none()
            && presence_penalty.is_none()
            && frequency_penalty.is_none()
            && response_logprobs.is_none()
            && response_mime_type.is_none()
            && thinking_config.is_none()
    }
}

/// `ThinkingConfig` with a level or a budget.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) include_thoughts: bool,
}
