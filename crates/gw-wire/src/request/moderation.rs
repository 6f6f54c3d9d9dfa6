//! `POST /v1/moderations`: the request of OpenAI, and the answer. A text or an image is judged by its categories.

use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::body::{Body, ParsedBody};
use super::completion::MAX_INPUTS;
use super::fields::{
    Path, array, empty_array, missing, not_one_of, object, required_string, string, wrong_type,
};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::member_policy::{GuardedMember, survey};
use super::options::{Fields, Routing};
use super::references::References;
use crate::json::{Kind, ObjectWriter, View};
use crate::operation::PlainOperation;
use crate::usage::Usage;

/// A validated moderation request.
#[derive(Clone, Debug)]
pub struct ModerationRequest {
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it. It is empty if the client named none, until the gateway names one.
    pub model: String,
    /// The JSON of `input` in the body.
    input: Range<usize>,
    /// How many results the answer has: one for each text, or one for all parts.
    pub inputs: usize,
    /// The client's routing options.
    pub routing: Routing,
    /// Bytes of all texts.
    pub prompt_bytes: u64,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks a moderation request. The first fault is reported, in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_moderation(bytes: Bytes, limits: &RequestLimits) -> Result<ModerationRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_usual()?;
    let path = Path::Top("input");
    let input = fields.get("input").ok_or_else(|| missing(&path))?;
    let (inputs, prompt_bytes) = measure(&path, input)?;
    if fields.boolean("stream")? {
        let message = "Invalid 'stream': a moderation cannot be streamed.";
        return Err(Invalid { code: "unsupported_value", message: message.to_owned() });
    }
    fields.kinds(&[("user", Kind::String)])?;
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Moderation, false, &mut references);
    // The provider fetches the addresses of images.
    references.member(&path, "input", input);
    fields.cache()?;
    let start = members.offset(input.text());
    Ok(ModerationRequest {
        model,
        input: start..start + input.text().len(),
        inputs,
        routing,
        prompt_bytes,
        references,
        guarded,
        body: members.without_fallbacks().into_body(bytes),
    })
}

/// The number of results that an input gets, and the bytes of its texts.
fn measure(path: &Path<'_>, input: View<'_>) -> Result<(usize, u64), Invalid> {
    if input.kind() == Kind::String {
        return Ok((1, input.string_len() as u64));
    }
    const EXPECTED: &str = "a string, an array of strings or an array of parts";
    if input.kind() != Kind::Array {
        return Err(wrong_type(path, EXPECTED, input));
    }
    let (mut count, mut bytes, mut has_parts) = (0, 0, false);
    for (at, item) in array(path, input, MAX_INPUTS, EXPECTED)?.enumerate() {
        let path = path.item(at);
        has_parts |= at == 0 && item.kind() == Kind::Object;
        bytes += if has_parts {
            part(&path, item)?
        } else {
            string(&path, item)?;
            item.string_len() as u64
        };
        count += 1;
    }
    if count == 0 { Err(empty_array(path)) } else { Ok((if has_parts { 1 } else { count }, bytes)) }
}

/// Checks a part of an input. Returns the bytes of its text.
fn part(path: &Path<'_>, part: View<'_>) -> Result<u64, Invalid> {
    let [kind, text, image] = object(path, part, ["type", "text", "image_url"])?;
    match &*required_string(&path.member("type"), kind)? {
        "text" => {
            required_string(&path.member("text"), text)?;
            Ok(text.map_or(0, |text| text.string_len() as u64))
        }
        "image_url" => {
            let path = path.member("image_url");
            let [url] = object(&path, image.ok_or_else(|| missing(&path))?, ["url"])?;
            required_string(&path.member("url"), url)?;
            Ok(0)
        }
        other => Err(not_one_of(&path.member("type"), &["text", "image_url"], other)),
    }
}

impl ModerationRequest {
    /// The JSON of `input`.
    #[must_use]
    pub fn input(&self) -> &str {
        self.body.text(&self.input)
    }

    /// Writes the answer.
    #[must_use]
    pub fn write(&self, reply: &ModerationReply<'_>, id: &str, usage: &Usage) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(reply.results.iter().map(|result| result.bytes() + 128).sum::<usize>() + 256);
        let mut answer = ObjectWriter::begin(&mut out);
        answer.string("id", id);
        answer.string("model", reply.model.as_deref().unwrap_or(&self.model));
        answer.array("results", &reply.results, |out, result| result.write(out));
        answer.object("usage", |counts| {
            counts.integer("prompt_tokens", usage.prompt);
            counts.integer("total_tokens", usage.total());
        });
        answer.finish();
        out
    }
}

/// The judgement of one input. The objects are those of the upstream, whose categories differ between providers.
#[derive(Clone, Copy, Debug)]
pub struct ModerationResult<'a> {
    /// Whether one of the categories applies.
    pub flagged: bool,
    /// Whether each category applies: an object of booleans.
    pub categories: &'a RawValue,
    /// The score of each category: an object of numbers.
    pub scores: &'a RawValue,
    /// The kinds of input that each category was applied to: an object of lists.
    pub input_types: Option<&'a RawValue>,
}

impl ModerationResult<'_> {
    fn bytes(&self) -> usize {
        let types = self.input_types.map_or(0, |types| types.get().len());
        self.categories.get().len() + self.scores.get().len() + types
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut result = ObjectWriter::begin(out);
        result.boolean("flagged", self.flagged);
        result.raw("categories", self.categories.get());
        result.raw("category_scores", self.scores.get());
        if let Some(types) = self.input_types {
            result.raw("category_applied_input_types", types.get());
        }
        result.finish();
    }
}

/// A complete moderation answer of an upstream.
#[derive(Clone, Debug)]
pub struct ModerationReply<'a> {
    /// The model name the upstream reports.
    pub model: Option<String>,
    /// One result for each input.
    pub results: Vec<ModerationResult<'a>>,
    /// Usage, if reported.
    pub usage: Option<Usage>,
}

#[cfg(test)]
mod tests;
