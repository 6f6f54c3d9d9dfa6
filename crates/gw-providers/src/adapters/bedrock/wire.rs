//! The members of a Converse request. API Reference, `ContentBlock` and its members.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// `Message`: one turn.
#[derive(Debug, Serialize)]
pub(super) struct BedrockMessage<'c> {
    pub(super) role: BedrockRole,
    pub(super) content: Vec<BedrockBlock<'c>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BedrockRole {
    User,
    Assistant,
}

/// `ContentBlock`: an element of a turn, of a tool result or of the system prompt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BedrockBlock<'c> {
    Text(Cow<'c, str>),
    Image(BedrockMedia<'c>),
    Audio(BedrockMedia<'c>),
    Document(BedrockDocument<'c>),
    ToolUse(BedrockToolUse<'c>),
    ToolResult(BedrockToolResult<'c>),
    ReasoningContent(BedrockReasoning<'c>),
    CachePoint(BedrockCachePoint),
}

#[derive(Debug, Serialize)]
pub(super) struct BedrockMedia<'c> {
    pub(super) format: &'static str,
    pub(super) source: BedrockBytes<'c>,
}

#[derive(Debug, Serialize)]
pub(super) struct BedrockDocument<'c> {
    pub(super) format: &'static str,
    pub(super) name: String,
    pub(super) source: BedrockBytes<'c>,
}

/// The bytes of an image, audio clip or document, in base64.
#[derive(Debug, Serialize)]
pub(super) struct BedrockBytes<'c> {
    pub(super) bytes: &'c str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BedrockToolUse<'c> {
    pub(super) tool_use_id: String,
    pub(super) name: &'c str,
    pub(super) input: BedrockJson<'c>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BedrockToolResult<'c> {
    pub(super) tool_use_id: String,
    pub(super) content: Vec<BedrockBlock<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BedrockReasoning<'c> {
    ReasoningText {
        text: Cow<'c, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<Cow<'c, str>>,
    },
    /// Encrypted reasoning, in base64.
    RedactedContent(Cow<'c, str>),
}

/// `CachePointBlock`: everything before it is cached.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct BedrockCachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl BedrockCachePoint {
    /// Creates a cache point with a lifetime of one hour or the default lifetime.
    pub(super) fn new(is_hour: bool) -> Self {
        Self { kind: "default", ttl: is_hour.then_some("1h") }
    }
}

/// JSON that the client wrote, or that the adapter made.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum BedrockJson<'c> {
    Written(&'c RawValue),
    Made(Box<RawValue>),
    /// An empty object.
    Empty {},
}

/// `toolConfig`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BedrockToolConfig<'c> {
    pub(super) tools: Vec<ToolEntry<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<BedrockToolChoice<'c>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ToolEntry<'c> {
    ToolSpec(ToolSpec<'c>),
    CachePoint(BedrockCachePoint),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolSpec<'c> {
    pub(super) name: Cow<'c, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Cow<'c, str>>,
    pub(super) input_schema: ToolInputSchema<'c>,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolInputSchema<'c> {
    pub(super) json: BedrockJson<'c>,
}

/// `toolChoice`. Converse has no value for "call no tool".
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BedrockToolChoice<'c> {
    Auto {},
    Any {},
    Tool { name: Cow<'c, str> },
}

/// `inferenceConfig`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InferenceConfig<'c> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop_sequences: Vec<&'c str>,
}

/// The body of Converse and ConverseStream.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConverseRequest<'c> {
    pub(super) messages: Vec<BedrockMessage<'c>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<BedrockBlock<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inference_config: Option<InferenceConfig<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<BedrockToolConfig<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) additional_model_request_fields: Option<Value>,
}

/// `outputConfig`. API Reference, `OutputConfig`, `JsonSchemaDefinition`: the schema is a string of JSON.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputConfig<'c> {
    pub(super) text_format: TextFormat<'c>,
}

/// `outputConfig.textFormat`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct TextFormat<'c> {
    #[serde(rename = "type")]
    kind: &'static str,
    structure: Structure<'c>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Structure<'c> {
    json_schema: JsonSchema<'c>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct JsonSchema<'c> {
    schema: String,
    name: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'c str>,
}

impl<'c> OutputConfig<'c> {
    /// Creates the configuration that holds the answer to a schema.
    pub(super) fn of_schema(schema: String, name: &'c str, description: Option<&'c str>) -> Self {
        let json_schema = JsonSchema { schema, name, description };
        Self { text_format: TextFormat { kind: "json_schema", structure: Structure { json_schema } } }
    }
}
