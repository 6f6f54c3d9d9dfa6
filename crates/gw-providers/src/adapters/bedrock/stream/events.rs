//! The JSON of the events of a ConverseStream.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::adapters::bedrock::images::BedrockImage;
use crate::adapters::text::Text;

/// `contentBlockStart`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContentBlockStart<'a> {
    #[serde(default)]
    pub(super) content_block_index: u32,
    #[serde(borrow)]
    pub(super) start: Option<BlockStart<'a>>,
}

/// The member `start` of `contentBlockStart`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockStart<'a> {
    #[serde(borrow)]
    pub(super) tool_use: Option<ToolStart<'a>>,
    #[serde(borrow)]
    pub(super) image: Option<BedrockImage<'a>>,
}

/// The start of a tool call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolStart<'a> {
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
}

/// `contentBlockDelta`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContentBlockDelta<'a> {
    #[serde(default)]
    pub(super) content_block_index: u32,
    #[serde(borrow)]
    pub(super) delta: Option<BlockDelta<'a>>,
}

/// The member `delta` of `contentBlockDelta`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockDelta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<ReasoningDelta<'a>>,
    #[serde(borrow)]
    pub(super) image: Option<BedrockImage<'a>>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
}

/// A piece of the arguments of a tool call.
#[derive(Deserialize)]
pub(super) struct ToolDelta<'a> {
    #[serde(borrow)]
    pub(super) input: Option<Text<'a>>,
}

/// A piece of reasoning.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReasoningDelta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) redacted_content: Option<Text<'a>>,
}

/// `contentBlockStop`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContentBlockStop {
    #[serde(default)]
    pub(super) content_block_index: u32,
}

/// `messageStop`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageStop<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: Option<Text<'a>>,
}

/// `metadata`.
#[derive(Deserialize)]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}
