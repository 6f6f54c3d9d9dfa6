//! The body for an OpenAI-type upstream: the client's body with some members replaced. All others stay byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use super::body::Body;
use super::chat::ChatRequest;
use super::completion::CompletionRequest;
use super::embeddings::{EmbeddingsRequest, Inputs, parse_embeddings};
use super::limits::RequestLimits;
use super::member_policy::is_spelling;
use super::seed::seed_of_call;
use crate::json::{ObjectWriter, View, write_array, write_object};

/// The provider's name for the limit of generated tokens.
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

/// The changes that an upstream needs in the client's body.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions<'a> {
    /// The provider's name of the model.
    pub upstream_model: &'a str,
    /// Upper bound of the client's token limit. A request without a limit stays without one.
    pub clamp_max_tokens: Option<u64>,
    /// The token limit of a request without one, and an upper bound of the client's limit.
    pub most_tokens: Option<u64>,
    /// The name of the limit (chat only; text completions have only `max_tokens`).
    pub max_tokens_name: MaxTokensName,
    /// Whether streams ask for usage (`stream_options.include_usage`).
    pub ask_stream_usage: bool,
    /// Whether the body names the model; otherwise the URL does (Azure's deployments).
    pub send_model: bool,
    /// Replaces the client's `reasoning_effort` if the model does not accept it; None = unchanged.
    pub effort: Option<&'a str>,
    /// Members that this upstream refuses; they are left out.
    pub unsupported: &'a [&'static str],
    /// Members of this request that must not reach this upstream; they are left out.
    pub withheld: &'a [&'a str],
    /// Number of choices of this call if it differs from the client's number.
    pub choices: Option<u32>,
    /// The position of the first choice of this call. The client's seed moves by it.
    pub from: u32,
    /// Replaces the client's messages: JSON text.
    pub messages: Option<&'a str>,
    /// Replaces the client's tools: JSON text.
    pub tools: Option<&'a str>,
}

impl<'a> EncodeOptions<'a> {
    /// The changes that nearly every upstream needs: only another name of the model.
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
            from: 0,
            messages: None,
            tools: None,
        }
    }
}

/// The changes that an embeddings upstream needs in the client's body.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingsOptions<'a> {
    /// The provider's name of the model; None if the URL holds it.
    pub upstream_model: Option<&'a str>,
    /// The provider's name for `dimensions`.
    pub dimensions: &'static str,
    /// Whether the upstream accepts `encoding_format`. Without it the upstream sends numbers anyway.
    pub encoding_format: bool,
    /// Members of this request that must not reach this upstream; they are left out.
    pub withheld: &'a [&'a str],
}

/// The upstream body of a chat request.
///
/// An empty array of tools is left out, together with the members that upstreams refuse without tools. The legacy
/// functions are left out if there are tools.
#[must_use]
pub fn encode_chat(request: &ChatRequest, options: &EncodeOptions<'_>) -> Vec<u8> {
    let empty = |name: &str| request.body.range(name).map(|range| is_empty_array(request.body.raw(range)));
    let (no_tools, no_functions) = (empty("tools"), empty("functions"));
    let mut out = Vec::with_capacity(request.body.bytes.len() + EXTRA_BYTES);
    let mut splice =
        Splice::new(&mut out, &request.body, options, request.max_tokens, options.max_tokens_name);
    for (name, range) in &request.body.members {
        match &**name {
            "max_tokens" | "max_completion_tokens" => splice.max_tokens(),
            "tools" | "tool_choice" | "parallel_tool_calls" if no_tools == Some(true) => {}
            "functions" | "function_call" if no_functions == Some(true) || no_tools == Some(false) => {}
            _ => splice.common(name, range, request.stream),
        }
    }
    splice.finish(request.stream);
    out
}

/// The upstream body of a text completion request.
#[must_use]
pub fn encode_completion(request: &CompletionRequest, options: &EncodeOptions<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.body.bytes.len() + EXTRA_BYTES);
    let name = MaxTokensName::MaxTokens;
    let mut splice = Splice::new(&mut out, &request.body, options, request.max_tokens, name);
    for (name, range) in &request.body.members {
        match &**name {
            "max_tokens" | "max_completion_tokens" => splice.max_tokens(),
            _ => splice.common(name, range, request.stream),
        }
    }
    splice.finish(request.stream);
    out
}

/// The upstream body for these inputs of an embeddings request. It always asks for JSON numbers: the gateway encodes
/// base64 itself, because many upstreams ignore the requested format.
#[must_use]
pub fn encode_embeddings(
    request: &EmbeddingsRequest,
    inputs: Range<usize>,
    options: &EmbeddingsOptions<'_>,
) -> Vec<u8> {
    let is_whole = inputs == (0..request.inputs.len());
    let mut out = Vec::with_capacity(request.body.bytes.len() + EXTRA_BYTES);
    let mut body = ObjectWriter::begin(&mut out);
    for (name, range) in &request.body.members {
        match &**name {
            name if options.withheld.contains(&name) => {}
            "model" => {
                if let Some(model) = options.upstream_model {
                    body.string("model", model);
                }
            }
            "input" if is_whole => body.raw("input", request.body.raw(range)),
            "input" => write_inputs(body.member("input"), request, inputs.clone()),
            "encoding_format" | "routing" | "cache" => {}
            "dimensions" => body.raw(options.dimensions, request.body.raw(range)),
            name => match without_withheld(options.withheld, name, request.body.text(range)) {
                Some(value) => body.raw(name, value),
                None => body.raw(name, request.body.raw(range)),
            },
        }
    }
    if options.encoding_format {
        body.raw("encoding_format", b"\"float\"");
    }
    body.finish();
    out
}

impl EmbeddingsRequest {
    /// A copy of the request with only the inputs at these positions, in this order. None without inputs.
    #[must_use]
    pub fn subset(&self, positions: &[usize]) -> Option<Self> {
        let mut out = Vec::with_capacity(self.body.bytes.len() + EXTRA_BYTES);
        let mut body = ObjectWriter::begin(&mut out);
        for (name, range) in &self.body.members {
            if &**name != "input" {
                body.raw(name, self.body.raw(range));
                continue;
            }
            body.array("input", positions, |out, position| {
                out.extend_from_slice(self.input(*position).as_bytes());
            });
        }
        body.finish();
        parse_embeddings(out.into(), &RequestLimits::NONE).ok()
    }

    /// The JSON text of an input.
    #[must_use]
    pub fn input(&self, position: usize) -> Cow<'_, str> {
        match &self.inputs {
            Inputs::Texts(texts) => {
                Cow::Borrowed(texts.get(position).map_or("null", |range| self.body.text(range)))
            }
            Inputs::Tokens(tokens) => {
                let mut out = Vec::new();
                let ids = tokens.get(position).map(Vec::as_slice).unwrap_or_default();
                write_array(&mut out, ids, |out, id| write_number(out, u64::from(*id)));
                String::from_utf8(out).unwrap_or_default().into()
            }
        }
    }

    /// Bytes of an input (4 per token id).
    #[must_use]
    pub fn input_bytes(&self, position: usize) -> u64 {
        match &self.inputs {
            Inputs::Texts(_) => View::new(&self.input(position)).string_len() as u64,
            Inputs::Tokens(tokens) => tokens.get(position).map_or(0, |ids| ids.len() as u64 * 4),
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
                write_array(out, ids, |out, id| write_number(out, u64::from(*id)));
            });
        }
    }
}

/// The value of the member without the members inside it that are withheld, which have both names with a dot between them.
/// None: all of the value may be sent.
fn without_withheld(withheld: &[&str], name: &str, value: &str) -> Option<Vec<u8>> {
    let inside = |written: &&str| written.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    if !withheld.iter().any(inside) {
        return None;
    }
    let inner: Vec<&str> =
        withheld.iter().filter_map(|held| held.strip_prefix(name)?.strip_prefix('.')).collect();
    let mut out = Vec::with_capacity(value.len());
    write_object(&mut out, |object| {
        for (name, value) in View::new(value).members() {
            let name = name.string().unwrap_or_default();
            if !inner.iter().any(|held| is_spelling(&name, held)) {
                object.raw(&name, value.text());
            }
        }
    });
    Some(out)
}

/// Spare bytes for a longer model name and for added members.
const EXTRA_BYTES: usize = 128;

fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn is_empty_array(value: &[u8]) -> bool {
    value.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start() == b"]")
}

/// Writes the body of a chat or text completion.
struct Splice<'a, 'o> {
    out: ObjectWriter<'o>,
    body: &'a Body,
    options: &'a EncodeOptions<'a>,
    /// The limit that is still to be written, with its name.
    max_tokens: Option<(MaxTokensName, u64)>,
}

impl<'a, 'o> Splice<'a, 'o> {
    fn new(
        out: &'o mut Vec<u8>,
        body: &'a Body,
        options: &'a EncodeOptions<'a>,
        max_tokens: Option<u64>,
        name: MaxTokensName,
    ) -> Self {
        let clamp = options.clamp_max_tokens.unwrap_or(u64::MAX);
        let max_tokens =
            max_tokens.map(|tokens| tokens.min(clamp)).into_iter().chain(options.most_tokens).min();
        let max_tokens = max_tokens.map(|tokens| (name, tokens));
        Self { out: ObjectWriter::begin(out), body, options, max_tokens }
    }

    /// Writes the limit once, in the position of the client's first limit.
    fn max_tokens(&mut self) {
        if let Some((name, tokens)) = self.max_tokens.take() {
            self.out.integer(name.as_str(), tokens);
        }
    }

    #[expect(clippy::ptr_arg, reason = "a known name is a borrowed one")]
    fn common(&mut self, written: &Cow<'static, str>, range: &Range<usize>, stream: bool) {
        match &**written {
            name if self.options.unsupported.contains(&name) || self.options.withheld.contains(&name) => {}
            "model" if !self.options.send_model => {}
            "model" => self.out.string("model", self.options.upstream_model),
            "tools" if let Some(tools) = self.options.tools => {
                self.out.raw("tools", tools.as_bytes());
            }
            "messages" if let Some(messages) = self.options.messages => {
                self.out.raw("messages", messages.as_bytes());
            }
            "n" if let Some(choices) = self.options.choices => {
                self.out.integer("n", u64::from(choices));
            }
            "seed" if self.options.from > 0 => self.moved_seed(self.body.text(range)),
            "reasoning_effort" if let Some(effort) = self.options.effort => {
                self.out.string("reasoning_effort", effort);
            }
            "routing" | "cache" | "stream_options" => {}
            "stream" if stream => {}
            "stop" if is_empty_array(self.body.raw(range)) => {}
            // Known names are borrowed, and none needs an escape.
            name => match written {
                Cow::Borrowed(name) => self.out.plain_raw(name, self.body.raw(range)),
                Cow::Owned(_) => match without_withheld(self.options.withheld, name, self.body.text(range)) {
                    Some(value) => self.out.raw(name, value),
                    None => self.out.raw(name, self.body.raw(range)),
                },
            },
        }
    }

    fn moved_seed(&mut self, given: &str) {
        match given.parse() {
            Ok(seed) => self.out.raw("seed", seed_of_call(seed, self.options.from).to_string()),
            Err(_) => self.out.raw("seed", given),
        }
    }

    fn finish(mut self, stream: bool) {
        // The client has set no limit, but the options may.
        self.max_tokens();
        if let Some(effort) = self.options.effort.filter(|_| self.body.get("reasoning_effort").is_none()) {
            self.out.string("reasoning_effort", effort);
        }
        if stream {
            self.out.raw("stream", b"true");
            if self.options.ask_stream_usage {
                self.out.raw("stream_options", b"{\"include_usage\":true}");
            }
        }
        self.out.finish();
    }
}

#[cfg(test)]
mod tests;
