//! `POST /v1/completions`: reads and checks the request.

use bytes::Bytes;

use super::body::{Body, ParsedBody};
use super::fields::{Path, array, empty_array, integer, missing, string, wrong_type};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::measure::PromptExtras;
use super::member_policy::{GuardedMember, survey};
use super::needs::Needs;
use super::options::{Fields, Routing};
use super::other_members::other_bytes;
use super::references::References;
use super::schemas::Schemas;
use crate::json::{Kind, View};
use crate::operation::PlainOperation;

/// One prompt of a text completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

/// A validated text completion request.
#[derive(Clone, Debug)]
pub struct CompletionRequest {
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// One or more prompts.
    pub prompts: Vec<Prompt>,
    /// Whether the client wants server-sent events.
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    /// Number of choices per prompt, 1..=128.
    pub n: u32,
    /// Number of answers per prompt that are generated and billed to choose from; 0 = not given.
    pub best_of: u32,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_tokens: Option<u64>,
    /// Whether the answer begins with the prompt.
    pub echo: bool,
    /// Whether a suffix was given.
    pub suffix: bool,
    /// `routing`.
    pub routing: Routing,
    /// Bytes of all prompts (4 per token id).
    pub prompt_bytes: u64,
    /// The content of the prompts besides that text.
    pub extras: PromptExtras,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Maximum number of prompts of a request, and of inputs of an embeddings request.
pub(super) const MAX_INPUTS: usize = 2048;

/// Reads and checks a text completion request. The first fault is reported, in this order: the body as JSON, `model`,
/// `prompt`, then the parameters in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_completion(bytes: Bytes, limits: &RequestLimits) -> Result<CompletionRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_first()?;
    let prompts = prompts(fields.get("prompt"))?;
    fields.sampling()?;
    let n = fields.choices()?;
    let best_of = fields.integer("best_of", &(0..=20))?;
    let max_tokens = fields.tokens("max_tokens")?;
    let max_completion_tokens = fields.tokens("max_completion_tokens")?;
    fields.stop()?;
    let stream = fields.boolean("stream")?;
    let include_usage = fields.include_usage()?;
    fields.integer("seed", &(i64::MIN..=i64::MAX))?;
    fields.integer("logprobs", &(0..=5))?;
    let echo = fields.boolean("echo")?;
    let format = format_bytes(&fields, limits)?;
    fields.kinds(&[("suffix", Kind::String), ("user", Kind::String)])?;
    // An empty suffix counts as none.
    let suffix = fields.get("suffix").map_or(0, |suffix| suffix.string_len() as u64);
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Completion, false, &mut references);
    // The operator decides whether completions are cached, but a mistake in `cache` is reported anyway.
    fields.cache()?;
    // Each prompt may become a call of its own, which repeats the format, the suffix and unknown members.
    let frames = prompts.len() as u64;
    let prompt = fields.get("prompt").map_or(0, |prompt| prompt.text().len());
    let others = other_bytes(&members, &["prompt", "suffix"], prompt);
    let bytes_per_prompt = format.saturating_add(suffix).saturating_add(others);
    let extras =
        PromptExtras { frames, bytes: bytes_per_prompt.saturating_mul(frames), ..PromptExtras::default() };
    let (members, prompt_bytes) = (members.without_fallbacks(), prompt_bytes(&prompts));
    Ok(CompletionRequest {
        body: members.into_body(bytes),
        model,
        prompts,
        stream,
        include_usage,
        n,
        best_of: best_of.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        max_tokens: max_completion_tokens.or(max_tokens),
        echo,
        suffix: suffix > 0,
        routing,
        prompt_bytes,
        extras,
        references,
        guarded,
    })
}

/// Checks `response_format` as chat does: OpenAI's completions do not have it, but the other dialects send it. Returns the
/// bytes of a format with a JSON Schema.
fn format_bytes(fields: &Fields<'_, '_>, limits: &RequestLimits) -> Result<u64, Invalid> {
    let mut needs = Needs::default();
    fields.response_format(&mut needs, &mut Schemas::new(limits, fields.members.schemas))?;
    let format = fields.get("response_format").filter(|_| needs.json_schema);
    Ok(format.map_or(0, |format| format.text().len() as u64))
}

fn prompts(value: Option<View<'_>>) -> Result<Vec<Prompt>, Invalid> {
    let path = Path::Top("prompt");
    let value = value.ok_or_else(|| missing(&path))?;
    Ok(match input_form(&path, value)? {
        InputForm::Text => vec![Prompt::Text(string(&path, value)?.into_owned())],
        InputForm::Tokens => vec![Prompt::Tokens(tokens(&path, value)?)],
        InputForm::Texts => {
            let texts = array(&path, value, MAX_INPUTS, EXPECTED)?.enumerate();
            texts
                .map(|(at, text)| Ok(Prompt::Text(string(&path.item(at), text)?.into_owned())))
                .collect::<Result<_, _>>()?
        }
        InputForm::TokenArrays => token_arrays(&path, value)?.into_iter().map(Prompt::Tokens).collect(),
    })
}

fn prompt_bytes(prompts: &[Prompt]) -> u64 {
    let bytes = prompts.iter().map(|prompt| match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Tokens(tokens) => tokens.len().saturating_mul(4),
    });
    bytes.sum::<usize>() as u64
}

const EXPECTED: &str =
    "one of a string, an array of strings, an array of integers or an array of arrays of integers";

/// The four forms of `prompt` and of an embeddings `input`. The first element decides between the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputForm {
    Text,
    Texts,
    Tokens,
    TokenArrays,
}

pub(super) fn input_form(path: &Path<'_>, value: View<'_>) -> Result<InputForm, Invalid> {
    if value.kind() == Kind::String {
        return Ok(InputForm::Text);
    }
    let first = array(path, value, usize::MAX, EXPECTED)?.next().ok_or_else(|| empty_array(path))?;
    match first.kind() {
        Kind::String => Ok(InputForm::Texts),
        Kind::Integer => Ok(InputForm::Tokens),
        Kind::Array => Ok(InputForm::TokenArrays),
        Kind::Null | Kind::Boolean | Kind::Decimal | Kind::Object => {
            Err(wrong_type(&path.item(0), "one of a string, an integer or an array of integers", first))
        }
    }
}

/// The token ids of one input.
pub(super) fn tokens(path: &Path<'_>, value: View<'_>) -> Result<Vec<u32>, Invalid> {
    if let Some(ids) = plain_tokens(value.text()) {
        return Ok(ids);
    }
    let ids = array(path, value, usize::MAX, "an array of integers")?.enumerate();
    let id = |(at, id)| {
        let id = integer(&path.item(at), id, &(0..=i64::from(u32::MAX)))?;
        Ok(u32::try_from(id).unwrap_or_default())
    };
    let ids = ids.map(id).collect::<Result<Vec<_>, Invalid>>()?;
    if ids.is_empty() { Err(empty_array(path)) } else { Ok(ids) }
}

/// Token ids as nearly all clients write them: plain digits. None for any other spelling, which needs the full checks.
fn plain_tokens(text: &str) -> Option<Vec<u32>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let mut ids = Vec::new();
    let (mut id, mut digits) = (0_u32, 0_u32);
    for byte in inner.bytes() {
        match byte {
            b'0'..=b'9' => {
                id = id.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?;
                digits += 1;
            }
            b',' if digits > 0 => {
                ids.push(id);
                (id, digits) = (0, 0);
            }
            // The body is valid JSON, so no blank is inside a number.
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => return None,
        }
    }
    ids.push(id);
    (digits > 0).then_some(ids)
}

/// The token ids of several inputs.
pub(super) fn token_arrays(path: &Path<'_>, value: View<'_>) -> Result<Vec<Vec<u32>>, Invalid> {
    let inputs = array(path, value, MAX_INPUTS, EXPECTED)?.enumerate();
    inputs.map(|(at, input)| tokens(&path.item(at), input)).collect()
}

#[cfg(test)]
mod tests;
