//! A request in one typed shape for the dialects other than OpenAI's. It is read from the client's validated body and
//! borrows from it where possible. OpenAI-type providers get the client's body itself, with few members replaced.

mod custom;
mod ids;
pub mod images;
mod message;
mod open_calls;
mod read;
mod tool;
mod turns;

use std::borrow::Cow;

pub use custom::CUSTOM_INPUT;
pub use ids::{THOUGHT_MARK, alphanumeric_id, converse_id, short_id, split_thought, word_id};
pub use message::{Content, Message, Part, PastToolCall, Role, Source};
pub use open_calls::MISSING_RESULT;
pub use tool::{Tool, ToolChoice};
pub use turns::{Turn, UserItem};

use crate::json::View;
use crate::request::{Body, ChatRequest, CompletionRequest, Prompt, seed_of_call};

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
    /// The seed of this call: any 64-bit integer.
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

    /// Sets the seed of the call whose first choice has this position among the choices of the prompt.
    pub fn begin_at(&mut self, from: u32) {
        self.seed = self.seed.map(|seed| seed_of_call(seed, from));
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

    /// Puts the result of each call right behind the call's message, and makes one up where the client left it out.
    pub fn answer_calls(&mut self) {
        open_calls::answer(&mut self.messages);
    }

    /// Whether the body has this member. A dialect that drops a given member reports it in a warning.
    #[must_use]
    pub fn has(&self, member: &str) -> bool {
        self.body.get(member).is_some()
    }
}

#[cfg(test)]
mod tests;
