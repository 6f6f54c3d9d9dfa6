//! `POST /v1/completions`: the request read and checked.

use bytes::Bytes;

use super::body::Members;
use super::fields::{Path, array, empty_array, integer, missing, string, wrong_type};
use super::member_policy::{Endpoint, survey};
use super::options::Fields;
use super::schemas::Schemas;
use super::{Beside, Body, CompletionRequest, Invalid, Needs, Prompt, References, RequestLimits};
use crate::json::{Kind, View};

/// Prompts of one request, inputs of an embeddings request.
pub(super) const MAX_INPUTS: usize = 2048;

/// Reads and checks a text completion request. The first fault is reported: the body as JSON, `model`, `prompt`, then
/// the parameters in the order of CONTRACT 1.4.
///
/// # Errors
/// The fault, with its code of CONTRACT 1.3.
pub fn parse_completion(bytes: Bytes, limits: &RequestLimits) -> Result<CompletionRequest, Invalid> {
    let members = Members::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_first()?;
    let prompts = prompts(fields.get("prompt"))?;
    fields.sampling()?;
    let n = fields.choices()?;
    let best_of = fields.integer("best_of", &(0..=20))?;
    let max_tokens = fields.tokens("max_tokens")?;
    fields.stop()?;
    let stream = fields.boolean("stream")?;
    let include_usage = fields.include_usage()?;
    fields.integer("seed", &(i64::MIN..=i64::MAX))?;
    fields.integer("logprobs", &(0..=5))?;
    let echo = fields.boolean("echo")?;
    let form = form_bytes(&fields, limits)?;
    fields.kinds(&[("suffix", Kind::String), ("user", Kind::String)])?;
    // An empty suffix asks for nothing.
    let suffix = fields.get("suffix").map_or(0, |suffix| suffix.string_len() as u64);
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, Endpoint::Completions, false, &mut references);
    // The operator decides whether completions are cached. A mistake in `cache` is told all the same.
    fields.cache()?;
    // Where each prompt is a call of its own, the form and the suffix go with each.
    let frames = prompts.len() as u64;
    let beside =
        Beside { frames, bytes: form.saturating_add(suffix).saturating_mul(frames), ..Beside::default() };
    let ((members, index), prompt_bytes) = (members.without_fallbacks(), prompt_bytes(&prompts));
    Ok(CompletionRequest {
        body: Body { bytes, members, index },
        model,
        prompts,
        stream,
        include_usage,
        n,
        best_of: best_of.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        max_tokens,
        echo,
        suffix: suffix > 0,
        routing,
        prompt_bytes,
        beside,
        references,
        guarded,
    })
}

/// Checks `response_format` as chat does: OpenAI's completions do not know it, but the other dialects send it. The bytes of
/// one with a JSON Schema.
fn form_bytes(fields: &Fields<'_, '_>, limits: &RequestLimits) -> Result<u64, Invalid> {
    let mut needs = Needs::default();
    fields.response_format(&mut needs, &mut Schemas::new(limits, fields.members.schemas))?;
    let format = fields.get("response_format").filter(|_| needs.json_schema);
    Ok(format.map_or(0, |format| format.text().len() as u64))
}

fn prompts(value: Option<View<'_>>) -> Result<Vec<Prompt>, Invalid> {
    let path = Path::Top("prompt");
    let value = value.ok_or_else(|| missing(&path))?;
    Ok(match form(&path, value)? {
        Form::Text => vec![Prompt::Text(string(&path, value)?.into_owned())],
        Form::Tokens => vec![Prompt::Tokens(tokens(&path, value)?)],
        Form::Texts => {
            let texts = array(&path, value, MAX_INPUTS, EXPECTED)?.enumerate();
            texts
                .map(|(at, text)| Ok(Prompt::Text(string(&path.item(at), text)?.into_owned())))
                .collect::<Result<_, _>>()?
        }
        Form::TokenArrays => token_arrays(&path, value)?.into_iter().map(Prompt::Tokens).collect(),
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

/// The four forms of `prompt` and of an embeddings `input`; the first element tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Texts,
    Tokens,
    TokenArrays,
}

pub(super) fn form(path: &Path<'_>, value: View<'_>) -> Result<Form, Invalid> {
    if value.kind() == Kind::String {
        return Ok(Form::Text);
    }
    let first = array(path, value, usize::MAX, EXPECTED)?.next().ok_or_else(|| empty_array(path))?;
    match first.kind() {
        Kind::String => Ok(Form::Texts),
        Kind::Integer => Ok(Form::Tokens),
        Kind::Array => Ok(Form::TokenArrays),
        Kind::Null | Kind::Boolean | Kind::Decimal | Kind::Object => {
            Err(wrong_type(&path.item(0), "one of a string, an integer or an array of integers", first))
        }
    }
}

/// Token ids of one input.
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

/// Token ids as nearly all clients write them: plain digits. None for anything else, which takes a closer look.
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
            // A blank inside a number was refused before.
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => return None,
        }
    }
    ids.push(id);
    (digits > 0).then_some(ids)
}

/// Several inputs as token ids.
pub(super) fn token_arrays(path: &Path<'_>, value: View<'_>) -> Result<Vec<Vec<u32>>, Invalid> {
    let inputs = array(path, value, MAX_INPUTS, EXPECTED)?.enumerate();
    inputs.map(|(at, input)| tokens(&path.item(at), input)).collect()
}

#[cfg(test)]
mod tests;
