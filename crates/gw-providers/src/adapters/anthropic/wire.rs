//! What the Messages API answers: a message, or an event of its stream. Unknown members are skipped, null is absent.

use std::borrow::Cow;

use gw_wire::reply::Finish;
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
    /// A message: the whole answer, or what a stream begins with.
    Message {
        #[serde(rename = "type")]
        kind: Text<'a>,
        model: Text<'a>,
        content: Vec<Block<'a>>,
        stop_reason: Text<'a>,
        stop_details: Details<'a>,
        usage: &'a RawValue,
        error: &'a RawValue,
    }
}

object! {
    /// Why a refusal came (anthropic-sdk-python `RefusalStopDetails`, November 2026).
    Details {
        explanation: Text<'a>,
    }
}

object! {
    /// A source of a text: a page of the web, a search result or a document of the request ("Citations" and "Web search tool" at
    /// platform.claude.com, November 2026). A result of a web search has the same members.
    Citation {
        url: Text<'a>,
        title: Text<'a>,
        cited_text: Text<'a>,
        document_title: Text<'a>,
        document_index: &'a RawValue,
        /// Of a search result that the request holds.
        source: Text<'a>,
    }
}

impl<'a> Citation<'a> {
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

/// The citations of a text, or the results of a web search. What is neither has none: it never makes an answer fail.
pub(super) fn sources(list: Option<&RawValue>) -> Vec<CitedSource<'_>> {
    let list: Vec<Citation<'_>> =
        list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    list.into_iter().map(Citation::source).collect()
}

/// One citation.
pub(super) fn source(citation: Option<&RawValue>) -> Option<CitedSource<'_>> {
    serde_json::from_str::<Citation<'_>>(citation?.get()).ok().map(Citation::source)
}

object! {
    /// A content block.
    Block {
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
        /// Of a tool that the provider runs: what came of it.
        content: &'a RawValue,
    }
}

/// An event of a stream: whatever its type, its parts have these names.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<Block<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

object! {
    /// What an event adds to a block, or to the message.
    Delta {
        #[serde(rename = "type")]
        kind: Text<'a>,
        text: Text<'a>,
        thinking: Text<'a>,
        signature: Text<'a>,
        partial_json: Text<'a>,
        citation: &'a RawValue,
        stop_reason: Text<'a>,
        stop_details: Details<'a>,
    }
}

impl<'a> Details<'a> {
    /// The explanation, when there is one.
    pub(super) fn explanation(details: Option<Self>) -> Option<Cow<'a, str>> {
        details?.explanation.map(|text| text.0).filter(|text| !text.is_empty())
    }
}

/// What servers that speak this dialect call an answer that failed. Anthropic itself sends an error.
pub(super) const FAILED: &str = "error";

/// Why the answer ended; None for a word that we do not know ("Handling stop reasons" at platform.claude.com).
pub(super) fn finish(stop_reason: &str) -> Option<Finish> {
    Some(match stop_reason {
        "end_turn" | "stop_sequence" | "pause_turn" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "refusal" => Finish::ContentFilter,
        _ => return None,
    })
}
