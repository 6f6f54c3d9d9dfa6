//! A request in one typed shape, for the dialects that are not OpenAI's: read from the client's validated body, borrowed
//! from it wherever the text allows. OpenAI-type providers never need it: they get the body itself, spliced.

mod custom;
mod ids;
mod read;
mod turns;

use std::borrow::Cow;

pub use custom::CUSTOM_INPUT;
pub use ids::{THOUGHT_MARK, alphanumeric_id, converse_id, short_id, split_thought, word_id};
pub use turns::{Turn, UserItem};

use crate::json::{Kind, View, check, write_str};
use crate::request::{Body, ChatRequest, CompletionRequest, Prompt};

/// Who speaks.
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
    /// Who speaks.
    pub role: Role,
    /// What is said. A string content is one text part; null content is none.
    pub parts: Vec<Part<'a>>,
    /// The assistant's calls; a legacy `function_call` is one of them.
    pub tool_calls: Vec<Called<'a>>,
    /// Which call a tool message answers; empty for other roles.
    pub tool_call_id: Cow<'a, str>,
    /// `name`; of a tool message the called function's, looked up by the id where the client left it out.
    pub name: Option<Cow<'a, str>>,
    /// `reasoning_content` that the client sent back.
    pub reasoning: Option<Cow<'a, str>>,
    /// Pictures of an answer that the client sent back (`images`), in the order they came.
    pub images: Vec<Source<'a>>,
    /// `reasoning_details` that the client sent back: what we gave it with signatures, in the order it came.
    pub reasoning_details: Vec<View<'a>>,
}

/// A call the assistant made earlier.
#[derive(Clone, Debug)]
pub struct Called<'a> {
    /// As the client wrote it; see [`word_id`], [`alphanumeric_id`] and [`split_thought`].
    pub id: Cow<'a, str>,
    /// The function.
    pub name: Cow<'a, str>,
    /// JSON text, or whatever the model wrote.
    pub arguments: Cow<'a, str>,
}

impl Called<'_> {
    /// The arguments as the text of a JSON object, for dialects that carry one: the model's own text where it is an
    /// object. What is no object (models write such things) is kept under the key `input`, empty text is an empty
    /// object. No tree is built: arguments may hold millions of values.
    #[must_use]
    pub fn arguments_object(&self) -> Cow<'_, str> {
        let own = View::new(&self.arguments);
        let is_json = check(own.text()).is_ok_and(|checked| checked.lone_surrogate.is_none());
        match own.kind() {
            Kind::Object if is_json => Cow::Borrowed(own.text()),
            Kind::Null if is_json || self.arguments.trim().is_empty() => Cow::Borrowed("{}"),
            _ if is_json => Cow::Owned(format!(r#"{{"input":{}}}"#, own.text())),
            _ => {
                let mut out = br#"{"input":"#.to_vec();
                write_str(&mut out, &self.arguments);
                out.push(b'}');
                // What is written is a string of ours inside a text of ours.
                Cow::Owned(String::from_utf8(out).unwrap_or_default())
            }
        }
    }
}

/// A piece of a message.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// What it holds.
    pub content: Content<'a>,
    /// The part's `cache_control` (Anthropic's marker, kept as written).
    pub cache_control: Option<View<'a>>,
}

/// What a piece holds.
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
        /// Where its bytes are.
        source: Source<'a>,
        /// Its name.
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

/// Where the bytes of an image or a document are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Here.
    Data {
        /// Lower case, without parameters (`image/png`); empty when the data URL names none.
        media_type: String,
        /// Base64 text, as it came.
        base64: Cow<'a, str>,
    },
    /// At an http(s) address.
    Url(Cow<'a, str>),
    /// A file id at the provider, or nothing at all.
    Id(Cow<'a, str>),
}

/// A function that may be called.
#[derive(Clone, Debug)]
pub struct Tool<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// What it does.
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema of its arguments, as written.
    pub parameters: Option<View<'a>>,
    /// Strict adherence asked for.
    pub strict: Option<bool>,
    /// It is a custom tool, said as a function whose one parameter is the input.
    pub custom: bool,
    /// `cache_control`, on the tool or on its function.
    pub cache_control: Option<View<'a>>,
}

/// Which tool is to be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// The client did not say: the same as `auto`.
    #[default]
    Unset,
    /// The model decides.
    Auto,
    /// None.
    Never,
    /// At least one.
    Required,
    /// This one.
    Named(Cow<'a, str>),
}

/// What form the answer must have.
#[derive(Clone, Debug, Default)]
pub enum Format<'a> {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// JSON of a schema.
    Schema {
        /// The schema's name.
        name: Cow<'a, str>,
        /// What it is for.
        description: Option<Cow<'a, str>>,
        /// The JSON Schema as written; None when the client gave none (then any object will do).
        schema: Option<View<'a>>,
        /// Strict adherence asked for.
        strict: Option<bool>,
    },
}

/// The request.
#[derive(Clone, Debug)]
pub struct Conversation<'a> {
    /// The messages in order; of a text completion one user message.
    pub messages: Vec<Message<'a>>,
    /// The tools (or legacy functions) in order.
    pub tools: Vec<Tool<'a>>,
    /// Which may or must be called. `Unset` without tools.
    pub tool_choice: ToolChoice<'a>,
    /// The only tools that may be called now (`tool_choice` of type `allowed_tools`); the choice is then `Auto` or `Required`.
    pub allowed_tools: Option<Vec<Cow<'a, str>>>,
    /// `parallel_tool_calls`.
    pub parallel_tool_calls: Option<bool>,
    /// The tools came as `functions`: the answer is a `function_call`.
    pub legacy_functions: bool,
    /// `response_format`.
    pub format: Format<'a>,
    /// Choices of this call.
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
    /// Up to four.
    pub stop: Vec<Cow<'a, str>>,
    /// Any 64-bit integer.
    pub seed: Option<i64>,
    /// Log probabilities asked for; how many alternatives, 0..=20.
    pub logprobs: Option<u32>,
    /// `reasoning_effort` as written (`none`, `minimal`, `low`, `medium`, `high`, `xhigh`, …).
    pub reasoning_effort: Option<Cow<'a, str>>,
    /// `user`.
    pub user: Option<Cow<'a, str>>,
    /// Server-sent events wanted.
    pub stream: bool,
    /// `suffix` of a text completion, when not empty.
    pub suffix: Option<Cow<'a, str>>,
    /// The whole body, for members that only one dialect knows.
    pub body: &'a Body,
}

impl<'a> Conversation<'a> {
    /// Of a chat request; `n` is this call's share of the choices.
    #[must_use]
    pub fn of_chat(request: &'a ChatRequest, n: u32) -> Self {
        let mut conversation = Self::of_body(&request.body, n, request.max_tokens, request.stream);
        conversation.messages = read::messages(&request.body);
        read::tools(&mut conversation);
        conversation
    }

    /// Of one prompt of a text completion: a single user message. Token arrays never get here.
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
        // Their `logprobs` is a number, and the answer's shape is another one.
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

    /// The texts of all system and developer messages in order, each with its marker; empty ones left out.
    pub fn system(&self) -> impl Iterator<Item = (&str, Option<View<'a>>)> {
        let parts = self.messages.iter().filter(|message| message.role == Role::System);
        parts.flat_map(|message| &message.parts).filter_map(|part| match &part.content {
            Content::Text(text) if !text.is_empty() => Some((&**text, part.cache_control)),
            _ => None,
        })
    }

    /// The conversation as strictly alternating turns, see [`Turn`].
    #[must_use]
    pub fn turns(&self) -> Vec<Turn<'_, 'a>> {
        turns::turns(&self.messages)
    }

    /// Whether a member that means something was given: names it in a warning when the dialect drops it.
    #[must_use]
    pub fn has(&self, member: &str) -> bool {
        self.body.get(member).is_some()
    }
}

impl Message<'_> {
    /// All its text, the pieces joined by line breaks.
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
