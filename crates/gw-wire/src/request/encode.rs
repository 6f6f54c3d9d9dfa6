//! The body for an OpenAI-type upstream: what the client sent, spliced. What the gateway does not own stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use super::embeddings::parse_embeddings;
use super::{Body, ChatRequest, CompletionRequest, EmbeddingsRequest, Inputs, RequestLimits};
use crate::json::{View, write_str};

/// What the provider calls the limit of generated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxTokensName {
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

impl MaxTokensName {
    /// The wire spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// What the upstream needs otherwise than the client sent it.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions<'a> {
    /// The provider's name of the model.
    pub upstream_model: &'a str,
    /// Upper bound of the client's token limit; a request without a limit gets none.
    pub clamp_max_tokens: Option<u64>,
    /// The limit where the client sets none, and an upper bound of the client's.
    pub most_tokens: Option<u64>,
    /// How the limit is called (chat only; text completions know `max_tokens` alone).
    pub max_tokens_name: MaxTokensName,
    /// Streams ask for usage (`stream_options.include_usage`).
    pub ask_stream_usage: bool,
    /// The body names the model; without it the address does (Azure's deployments).
    pub send_model: bool,
    /// The `reasoning_effort` that stands for the client's, where the model does not take that; None = as it came.
    pub effort: Option<&'a str>,
    /// Members that this upstream refuses: they are left out.
    pub unsupported: &'a [&'static str],
    /// Members of this request that must not reach this upstream: they are left out.
    pub withheld: &'a [&'a str],
    /// How many choices this call is for, when that is not what the client asked for in all.
    pub choices: Option<u32>,
    /// The messages in other words than the client's: JSON text.
    pub messages: Option<&'a str>,
}

impl<'a> EncodeOptions<'a> {
    /// What nearly every upstream needs: another name for the model, and nothing else.
    #[must_use]
    pub const fn plain(upstream_model: &'a str, max_tokens_name: MaxTokensName) -> Self {
        Self {
            upstream_model,
            clamp_max_tokens: None,
            most_tokens: None,
            max_tokens_name,
            ask_stream_usage: true,
            send_model: true,
            effort: None,
            unsupported: &[],
            withheld: &[],
            choices: None,
            messages: None,
        }
    }
}

/// What an upstream of embeddings needs otherwise than the client sent it.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingsOptions<'a> {
    /// The provider's name of the model; None when the address says it.
    pub upstream_model: Option<&'a str>,
    /// What the wanted dimensions are called.
    pub dimensions: &'static str,
    /// Whether numbers may be asked for (`encoding_format`); otherwise they come unasked.
    pub encoding_format: bool,
    /// Members of this request that must not reach this upstream: they are left out.
    pub withheld: &'a [&'a str],
}

/// The upstream body of a chat request.
///
/// An empty array of tools goes, and with it the members that upstreams refuse without tools; the legacy functions go
/// when there are tools.
#[must_use]
pub fn encode_chat(request: &ChatRequest, options: &EncodeOptions<'_>) -> Vec<u8> {
    let empty = |name: &str| request.body.range(name).map(|range| is_empty_array(request.body.raw(range)));
    let (no_tools, no_functions) = (empty("tools"), empty("functions"));
    let mut splice = Splice::new(&request.body, options, request.max_tokens, options.max_tokens_name);
    for (name, range) in &request.body.members {
        match &**name {
            "max_tokens" | "max_completion_tokens" => splice.max_tokens(),
            "tools" | "tool_choice" | "parallel_tool_calls" if no_tools == Some(true) => {}
            "functions" | "function_call" if no_functions == Some(true) || no_tools == Some(false) => {}
            name => splice.common(name, range, request.stream),
        }
    }
    splice.finish(request.stream)
}

/// The upstream body of a text completion request.
#[must_use]
pub fn encode_completion(request: &CompletionRequest, options: &EncodeOptions<'_>) -> Vec<u8> {
    let mut splice = Splice::new(&request.body, options, request.max_tokens, MaxTokensName::MaxTokens);
    for (name, range) in &request.body.members {
        match &**name {
            "max_tokens" => splice.max_tokens(),
            name => splice.common(name, range, request.stream),
        }
    }
    splice.finish(request.stream)
}

/// The upstream body for these inputs of an embeddings request. Numbers are always asked for as JSON: base64 is made by
/// the gateway, because many upstreams ignore the wish for it.
#[must_use]
pub fn encode_embeddings(
    request: &EmbeddingsRequest,
    inputs: Range<usize>,
    options: &EmbeddingsOptions<'_>,
) -> Vec<u8> {
    let whole = inputs == (0..request.inputs.len());
    let mut out = Object::new(request.body.bytes.len());
    for (name, range) in &request.body.members {
        match &**name {
            name if options.withheld.contains(&name) => {}
            "model" => {
                if let Some(model) = options.upstream_model {
                    write_str(out.member("model"), model);
                }
            }
            "input" if whole => out.raw("input", request.body.raw(range)),
            "input" => write_inputs(out.member("input"), request, inputs.clone()),
            "encoding_format" | "routing" | "cache" => {}
            "dimensions" => out.raw(options.dimensions, request.body.raw(range)),
            name => out.raw(name, request.body.raw(range)),
        }
    }
    if options.encoding_format {
        out.raw("encoding_format", b"\"float\"");
    }
    out.close()
}

impl EmbeddingsRequest {
    /// The same request for those of its inputs that have these places, in this order. None when there is none.
    #[must_use]
    pub fn only(&self, places: &[usize]) -> Option<Self> {
        let mut out = Object::new(self.body.bytes.len());
        for (name, range) in &self.body.members {
            if &**name != "input" {
                out.raw(name, self.body.raw(range));
                continue;
            }
            write_array(out.member("input"), places, |out, place| {
                out.extend_from_slice(self.input(*place).as_bytes());
            });
        }
        parse_embeddings(out.close().into(), &RequestLimits::NONE).ok()
    }

    /// The JSON text of an input.
    #[must_use]
    pub fn input(&self, place: usize) -> Cow<'_, str> {
        match &self.inputs {
            Inputs::Texts(texts) => {
                Cow::Borrowed(texts.get(place).map_or("null", |range| self.body.text(range)))
            }
            Inputs::Tokens(tokens) => {
                let mut out = Vec::new();
                let ids = tokens.get(place).map(Vec::as_slice).unwrap_or_default();
                write_array(&mut out, ids, |out, id| write_number(out, u64::from(*id)));
                String::from_utf8(out).unwrap_or_default().into()
            }
        }
    }

    /// Bytes of an input (4 per token id).
    #[must_use]
    pub fn input_bytes(&self, place: usize) -> u64 {
        match &self.inputs {
            Inputs::Texts(_) => View::new(&self.input(place)).string_len() as u64,
            Inputs::Tokens(tokens) => tokens.get(place).map_or(0, |ids| ids.len() as u64 * 4),
        }
    }
}

fn write_inputs(out: &mut Vec<u8>, request: &EmbeddingsRequest, inputs: Range<usize>) {
    match &request.inputs {
        Inputs::Texts(texts) => {
            let texts = texts.get(inputs).unwrap_or_default();
            write_array(out, texts, |out, range| out.extend_from_slice(request.body.raw(range)));
        }
        Inputs::Tokens(tokens) => {
            let tokens = tokens.get(inputs).unwrap_or_default();
            write_array(out, tokens, |out, ids| {
                write_array(out, ids, |out, id| write_number(out, u64::from(*id)))
            });
        }
    }
}

fn write_array<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn is_empty_array(value: &[u8]) -> bool {
    value.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start() == b"]")
}

/// An object being written.
struct Object {
    out: Vec<u8>,
}

impl Object {
    fn new(about: usize) -> Self {
        // Room for a longer model name and for what is added.
        let mut out = Vec::with_capacity(about + 128);
        out.push(b'{');
        Self { out }
    }

    /// Begins a member; the caller writes its value.
    fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        write_str(&mut self.out, name);
        self.out.push(b':');
        &mut self.out
    }

    fn raw(&mut self, name: &str, value: &[u8]) {
        self.member(name).extend_from_slice(value);
    }

    fn close(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }
}

/// What chat and text completions have in common.
struct Splice<'a> {
    out: Object,
    body: &'a Body,
    options: &'a EncodeOptions<'a>,
    /// The limit still to be written, with its name.
    max_tokens: Option<(MaxTokensName, u64)>,
}

impl<'a> Splice<'a> {
    fn new(
        body: &'a Body,
        options: &'a EncodeOptions<'a>,
        max_tokens: Option<u64>,
        name: MaxTokensName,
    ) -> Self {
        let clamp = options.clamp_max_tokens.unwrap_or(u64::MAX);
        let max_tokens =
            max_tokens.map(|tokens| tokens.min(clamp)).into_iter().chain(options.most_tokens).min();
        let max_tokens = max_tokens.map(|tokens| (name, tokens));
        Self { out: Object::new(body.bytes.len()), body, options, max_tokens }
    }

    /// Writes the one limit where the client's first one stood.
    fn max_tokens(&mut self) {
        if let Some((name, tokens)) = self.max_tokens.take() {
            write_number(self.out.member(name.as_str()), tokens);
        }
    }

    fn common(&mut self, name: &str, range: &Range<usize>, stream: bool) {
        match name {
            name if self.options.unsupported.contains(&name) || self.options.withheld.contains(&name) => {}
            "model" if !self.options.send_model => {}
            "model" => write_str(self.out.member("model"), self.options.upstream_model),
            "messages" if let Some(messages) = self.options.messages => {
                self.out.raw("messages", messages.as_bytes());
            }
            "n" if let Some(choices) = self.options.choices => {
                write_number(self.out.member("n"), u64::from(choices));
            }
            "reasoning_effort" if let Some(effort) = self.options.effort => {
                write_str(self.out.member("reasoning_effort"), effort);
            }
            "routing" | "cache" | "stream_options" => {}
            "stream" if stream => {}
            "stop" if is_empty_array(self.body.raw(range)) => {}
            name => self.out.raw(name, self.body.raw(range)),
        }
    }

    fn finish(mut self, stream: bool) -> Vec<u8> {
        // The client has set none.
        self.max_tokens();
        if let Some(effort) = self.options.effort.filter(|_| self.body.get("reasoning_effort").is_none()) {
            write_str(self.out.member("reasoning_effort"), effort);
        }
        if stream {
            self.out.raw("stream", b"true");
            if self.options.ask_stream_usage {
                self.out.raw("stream_options", b"{\"include_usage\":true}");
            }
        }
        self.out.close()
    }
}

#[cfg(test)]
mod tests;
