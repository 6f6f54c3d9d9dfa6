//! A request in one typed shape for the dialects other than OpenAI's. It is read from the client's validated body and
//! borrows from it where possible. OpenAI-type providers get the client's body itself, with few members replaced.

mod custom;
mod ids;
mod read;
mod turns;

use std::borrow::Cow;

pub use custom::CUSTOM_INPUT;
pub use ids::{THOUGHT_MARK, alphanumeric_id, converse_id, short_id, split_thought, word_id};
pub use turns::{Turn, UserItem};

use crate::json::{Kind, View, check};
use crate::request::{Body, ChatRequest, CompletionRequest, Prompt};

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

/// A tool call that the assistant made earlier in the conversation.
#[derive(Clone, Debug)]
pub struct PastToolCall<'a> {
    /// The id as the client wrote it; see [`word_id`], [`alphanumeric_id`] and [`split_thought`].
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

/// A function that the model may call.
#[derive(Clone, Debug)]
pub struct Tool<'a> {
    /// The function's name.
    pub name: Cow<'a, str>,
    /// The function's description.
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema of the arguments, as the client wrote it.
    pub parameters: Option<View<'a>>,
    /// Whether the arguments must match the schema exactly.
    pub strict: Option<bool>,
    /// Whether this is a custom tool, expressed as a function whose one parameter is the input.
    pub custom: bool,
    /// `cache_control`, from the tool or from its function.
    pub cache_control: Option<View<'a>>,
}

/// The tool that the model must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// Not given: the same as `auto`.
    #[default]
    Unset,
    /// The model decides.
    Auto,
    /// No tool.
    Never,
    /// At least one tool.
    Required,
    /// The tool of this name.
    Named(Cow<'a, str>),
}

/// The required format of the answer.
#[derive(Clone, Debug, Default)]
pub enum Format<'a> {
    /// Any text.
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// JSON that matches a schema.
    Schema {
        /// The schema's name.
        name: Cow<'a, str>,
        /// The schema's description.
        description: Option<Cow<'a, str>>,
        /// The JSON Schema as the client wrote it; None when the client gave none, so any object will do.
        schema: Option<View<'a>>,
        /// Whether the answer must match the schema exactly.
        strict: Option<bool>,
    },
}

/// A request as one typed shape.
#[derive(Clone, Debug)]
pub struct Conversation<'a> {
    /// The messages in order; for a text completion one user message.
    pub messages: Vec<Message<'a>>,
    /// The tools (or legacy functions) in order.
    pub tools: Vec<Tool<'a>>,
    /// The tool that must be called. `Unset` without tools.
    pub tool_choice: ToolChoice<'a>,
    /// The only tools that may be called (`tool_choice` of type `allowed_tools`); `tool_choice` is then `Auto` or `Required`.
    pub allowed_tools: Option<Vec<Cow<'a, str>>>,
    /// `parallel_tool_calls`.
    pub parallel_tool_calls: Option<bool>,
    /// Whether the tools came as `functions`, so that the answer needs a `function_call`.
    pub legacy_functions: bool,
    /// `response_format`.
    pub format: Format<'a>,
    /// Number of choices of this call.
    pub n: u32,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_tokens: Option<u64>,
    /// 0..=2.
    pub temperature: Option<f64>,
    /// 0..=1.
    pub top_p: Option<f64>,
    /// -2..=2.
    pub frequency_penalty: Option<f64>,
    /// -2..=2.
    pub presence_penalty: Option<f64>,
    /// Up to four stop sequences.
    pub stop: Vec<Cow<'a, str>>,
    /// Any 64-bit integer.
    pub seed: Option<i64>,
    /// Number of alternatives of the requested log probabilities, 0..=20; None = not requested.
    pub logprobs: Option<u32>,
    /// `reasoning_effort` as written (`none`, `minimal`, `low`, `medium`, `high`, `xhigh`, …).
    pub reasoning_effort: Option<Cow<'a, str>>,
    /// `user`.
    pub user: Option<Cow<'a, str>>,
    /// Whether the client wants server-sent events.
    pub stream: bool,
    /// `suffix` of a text completion unless it is empty.
    pub suffix: Option<Cow<'a, str>>,
    /// The whole body, for members of a single dialect.
    pub body: &'a Body,
}

impl<'a> Conversation<'a> {
    /// The conversation of a chat request; `n` is the number of choices of this call.
    #[must_use]
    pub fn of_chat(request: &'a ChatRequest, n: u32) -> Self {
        let mut conversation = Self::of_body(&request.body, n, request.max_tokens, request.stream);
        conversation.messages = read::messages(&request.body);
        read::tools(&mut conversation);
        conversation
    }

    /// `top_k`, which OpenAI does not have: the number of the likeliest tokens that the model chooses from.
    #[must_use]
    pub fn top_k(&self) -> Option<u64> {
        self.body.get("top_k")?.parse().ok()
    }

    /// The conversation of one prompt of a text completion: a single user message. Prompts of token ids never get here.
    #[must_use]
    pub fn of_prompt(request: &'a CompletionRequest, prompt: usize, n: u32) -> Self {
        let mut conversation = Self::of_body(&request.body, n, request.max_tokens, request.stream);
        let text = match request.prompts.get(prompt) {
            Some(Prompt::Text(text)) => text.as_str(),
            Some(Prompt::Tokens(_)) | None => "",
        };
        conversation.messages.push(Message {
            role: Role::User,
            parts: vec![Part { content: Content::Text(Cow::Borrowed(text)), cache_control: None }],
            tool_calls: Vec::new(),
            tool_call_id: Cow::Borrowed(""),
            name: None,
            reasoning: None,
            images: Vec::new(),
            reasoning_details: Vec::new(),
        });
        conversation.suffix = request.suffix.then(|| read::string(&request.body, "suffix")).flatten();
        // A text completion's `logprobs` is a number, and its answer has another shape.
        conversation.logprobs = None;
        conversation
    }

    fn of_body(body: &'a Body, n: u32, max_tokens: Option<u64>, stream: bool) -> Self {
        Self {
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Unset,
            allowed_tools: None,
            parallel_tool_calls: None,
            legacy_functions: false,
            format: read::format(body),
            n,
            max_tokens,
            temperature: read::number(body, "temperature"),
            top_p: read::number(body, "top_p"),
            frequency_penalty: read::number(body, "frequency_penalty"),
            presence_penalty: read::number(body, "presence_penalty"),
            stop: read::stop(body),
            seed: body.get("seed").and_then(|seed| seed.parse().ok()),
            logprobs: read::logprobs(body),
            reasoning_effort: read::string(body, "reasoning_effort"),
            user: read::string(body, "user"),
            stream,
            suffix: None,
            body,
        }
    }

    /// The non-empty texts of all system and developer messages in order, each with its `cache_control`.
    pub fn system(&self) -> impl Iterator<Item = (&str, Option<View<'a>>)> {
        let parts = self.messages.iter().filter(|message| message.role == Role::System);
        parts.flat_map(|message| &message.parts).filter_map(|part| match &part.content {
            Content::Text(text) if !text.is_empty() => Some((&**text, part.cache_control)),
            _ => None,
        })
    }

    /// The conversation as strictly alternating turns; see [`Turn`].
    #[must_use]
    pub fn turns(&self) -> Vec<Turn<'_, 'a>> {
        turns::turns(&self.messages)
    }

    /// Whether the body has this member. A dialect that drops a given member reports it in a warning.
    #[must_use]
    pub fn has(&self, member: &str) -> bool {
        self.body.get(member).is_some()
    }
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

#[cfg(test)]
mod tests;
