//! One message of a conversation: its author, its parts, and the tool calls that it made.

use std::borrow::Cow;

use super::custom;
use crate::json::{Kind, View, check};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `system` and `developer`.
    System,
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `tool`, and the legacy `function`.
    Tool,
}

/// One message of the request.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// The author.
    pub role: Role,
    /// The content. A string is one text part; null is no part.
    pub parts: Vec<Part<'a>>,
    /// The assistant's tool calls; a legacy `function_call` is one of them.
    pub tool_calls: Vec<PastToolCall<'a>>,
    /// The id of the call that a tool message answers; empty for other roles.
    pub tool_call_id: Cow<'a, str>,
    /// `name`. For a tool message the function's name, looked up by the call's id if the client left it out.
    pub name: Option<Cow<'a, str>>,
    /// `reasoning_content` that the client sent back.
    pub reasoning: Option<Cow<'a, str>>,
    /// Generated images that the client sent back (`images`), in order.
    pub images: Vec<Source<'a>>,
    /// `reasoning_details` that the client sent back, with their signatures, in order.
    pub reasoning_details: Vec<View<'a>>,
}

impl Message<'_> {
    /// All text of the message, its parts joined by line breaks.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.content {
            Content::Text(text) | Content::Refusal(text) if !text.is_empty() => Some(&**text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A tool call that the assistant made earlier in the conversation.
#[derive(Clone, Debug)]
pub struct PastToolCall<'a> {
    /// The id as the client wrote it; see [`word_id`](super::word_id), [`alphanumeric_id`](super::alphanumeric_id) and
    /// [`split_thought`](super::split_thought).
    pub id: Cow<'a, str>,
    /// The function's name.
    pub name: Cow<'a, str>,
    /// The model's text, usually JSON.
    pub arguments: Cow<'a, str>,
}

impl PastToolCall<'_> {
    /// The arguments as the text of a JSON object, for dialects that need one. A JSON object stays as it is. Anything else
    /// becomes the member `input` of an object, and empty text becomes an empty object. No tree is built: arguments may
    /// hold millions of values.
    #[must_use]
    pub fn arguments_object(&self) -> Cow<'_, str> {
        let own = View::new(&self.arguments);
        let is_json = check(own.text()).is_ok_and(|checked| checked.lone_surrogate.is_none());
        match own.kind() {
            Kind::Object if is_json => Cow::Borrowed(own.text()),
            Kind::Null if is_json || self.arguments.trim().is_empty() => Cow::Borrowed("{}"),
            _ if is_json => Cow::Owned(format!(r#"{{"input":{}}}"#, own.text())),
            _ => Cow::Owned(custom::input_object(&self.arguments)),
        }
    }
}

/// A part of a message.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// The content of the part.
    pub content: Content<'a>,
    /// The part's `cache_control` (Anthropic's marker, kept as written).
    pub cache_control: Option<View<'a>>,
}

/// The content of a part.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// Text. May be empty.
    Text(Cow<'a, str>),
    /// The assistant's refusal.
    Refusal(Cow<'a, str>),
    /// An image.
    Image(Source<'a>),
    /// A document.
    File {
        /// The location of its bytes.
        source: Source<'a>,
        /// The file's name.
        name: Option<Cow<'a, str>>,
    },
    /// Audio.
    Audio {
        /// Base64.
        data: Cow<'a, str>,
        /// `wav` or `mp3`.
        format: Cow<'a, str>,
    },
}

/// The location of the bytes of an image or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// In the request.
    Data {
        /// Lower case, without parameters (`image/png`); empty when the data URL has none.
        media_type: String,
        /// The base64 text as the client wrote it.
        base64: Cow<'a, str>,
    },
    /// At an http(s) address.
    Url(Cow<'a, str>),
    /// A file id at the provider; may be empty.
    Id(Cow<'a, str>),
}
