//! The members of a response: a message, or an event of a stream. Unknown members are ignored, and null means absent.

use std::borrow::Cow;

use gw_wire::reply::{Finish, STOP_SEQUENCE};
use serde_json::value::RawValue;

use crate::adapters::annotations::CitedSource;
pub(super) use crate::adapters::text::Text;

macro_rules! object {
    ($(#[$meta:meta])* $name:ident { $($(#[$member:meta])* $field:ident: $kind:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default)]
        pub(super) struct $name<'a> {
            $($(#[$member])* #[serde(borrow)] pub(super) $field: Option<$kind>,)+
        }
    };
}

object! {
    /// `Message`: a complete response, or the content of the first event of a stream.
    AnthropicMessage {
        #[serde(rename = "type")]
        kind: Text<'a>,
        model: Text<'a>,
        content: Vec<AnthropicBlock<'a>>,
        stop_reason: Text<'a>,
        stop_sequence: &'a RawValue,
        stop_details: StopDetails<'a>,
        usage: &'a RawValue,
        error: &'a RawValue,
    }
}

object! {
    /// The reason of a refusal (anthropic-sdk-python `RefusalStopDetails`, November 2026).
    StopDetails {
        explanation: Text<'a>,
    }
}

object! {
    /// A citation: a web page, a search result or a document of the request ("Citations" and "Web search tool" at
    /// platform.claude.com, November 2026). The results of a web search have the same members.
    AnthropicCitation {
        url: Text<'a>,
        title: Text<'a>,
        cited_text: Text<'a>,
        document_title: Text<'a>,
        document_index: &'a RawValue,
        /// The source of a search result that the request holds.
        source: Text<'a>,
    }
}

impl<'a> AnthropicCitation<'a> {
    fn source(self) -> CitedSource<'a> {
        let text = |text: Option<Text<'a>>| text.map(|text| text.0).unwrap_or_default();
        CitedSource {
            url: text(self.url.or(self.source)),
            title: text(self.title.or(self.document_title)),
            quoted: self.cited_text.map(|text| text.0),
            id: self.document_index.map(|index| Cow::Borrowed(index.get())),
        }
    }
}

/// Reads the citations of a text, or the results of a web search. Unreadable lists count as empty: they never fail an
/// answer.
pub(super) fn sources(list: Option<&RawValue>) -> Vec<CitedSource<'_>> {
    let list: Vec<AnthropicCitation<'_>> =
        list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    list.into_iter().map(AnthropicCitation::source).collect()
}

/// Reads one citation.
pub(super) fn source(citation: Option<&RawValue>) -> Option<CitedSource<'_>> {
    serde_json::from_str::<AnthropicCitation<'_>>(citation?.get()).ok().map(AnthropicCitation::source)
}

object! {
    /// `ContentBlock`.
    AnthropicBlock {
        #[serde(rename = "type")]
        kind: Text<'a>,
        text: Text<'a>,
        thinking: Text<'a>,
        signature: Text<'a>,
        data: Text<'a>,
        id: Text<'a>,
        name: Text<'a>,
        input: &'a RawValue,
        citations: &'a RawValue,
        /// The result of a tool that the provider runs, or the summary of a long conversation.
        content: &'a RawValue,
    }
}

/// An event of a stream, with the members of every type of event.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct AnthropicEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) message: Option<AnthropicMessage<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<AnthropicBlock<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<AnthropicDelta<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

object! {
    /// The addition of an event to a block or to the message.
    AnthropicDelta {
        #[serde(rename = "type")]
        kind: Text<'a>,
        text: Text<'a>,
        thinking: Text<'a>,
        signature: Text<'a>,
        partial_json: Text<'a>,
        /// A piece of the summary of a long conversation.
        content: &'a RawValue,
        citation: &'a RawValue,
        stop_reason: Text<'a>,
        stop_sequence: &'a RawValue,
        stop_details: StopDetails<'a>,
    }
}

impl<'a> StopDetails<'a> {
    /// Returns the explanation if it is not empty.
    pub(super) fn explanation(details: Option<Self>) -> Option<Cow<'a, str>> {
        details?.explanation.map(|text| text.0).filter(|text| !text.is_empty())
    }
}

/// The stop sequence that ended the answer. None: another reason did.
pub(super) fn ending_sequence<'a>(
    reason: &str,
    sequence: Option<&'a RawValue>,
) -> Option<(&'static str, &'a RawValue)> {
    let sequence = sequence.filter(|value| value.get().starts_with('"'))?;
    (reason == "stop_sequence").then_some((STOP_SEQUENCE, sequence))
}

/// The stop reason of a failed answer at some compatible servers. Anthropic itself sends an error.
pub(super) const FAILED: &str = "error";

/// Returns the finish reason; None for an unknown word ("Handling stop reasons" at platform.claude.com).
pub(super) fn finish_reason(stop_reason: &str) -> Option<Finish> {
    Some(match stop_reason {
        "end_turn" | "stop_sequence" | "pause_turn" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "refusal" => Finish::ContentFilter,
        _ => return None,
    })
}
