//! What the Messages API answers: a message, or an event of its stream. Unknown members are skipped, null is absent.

use gw_wire::reply::Finish;
use serde_json::value::RawValue;

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
        usage: &'a RawValue,
        error: &'a RawValue,
    }
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
        stop_reason: Text<'a>,
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
