//! What the Messages API answers: a message, or an event of its stream. Unknown members are skipped, null is absent.

use std::borrow::Cow;
use std::fmt;

use gw_wire::reply::Finish;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::value::RawValue;

/// A string, borrowed when it holds no escape. A lone surrogate becomes U+FFFD instead of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(String::from_utf8_lossy(bytes)))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
            }
        }

        // As bytes, because only then serde_json lets a lone surrogate pass.
        deserializer.deserialize_bytes(Bytes)
    }
}

impl Text<'_> {
    /// The text of an optional member, "" when it is absent.
    pub(super) fn of<'t>(text: &'t Option<Text<'_>>) -> &'t str {
        text.as_ref().map_or("", |text| &*text.0)
    }
}

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
