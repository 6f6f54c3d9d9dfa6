//! `embedContent` and `batchEmbedContents` as an embeddings request, and their answers.

use std::borrow::Cow;

use bytes::Bytes;

use super::members::{is_named, list, members, members_and, optional, whole};
use crate::json::{ObjectWriter, View, write_array};
use crate::request::fields::{Path, empty_array, empty_string, invalid_value, missing};
use crate::request::{Body, Invalid, RequestLimits};

/// An embeddings request, translated.
#[derive(Clone, Debug)]
pub struct EmbedRequest {
    /// The request as an embeddings body: a JSON object.
    pub body: Vec<u8>,
}

/// One content to embed.
struct EmbedContent<'a> {
    text: Cow<'a, str>,
    dimensions: Option<i64>,
}

/// The name of a model without Google's prefix.
fn plain_name(name: &str) -> &str {
    name.strip_prefix("models/").unwrap_or(name)
}

/// Translates the body of `embedContent`, or of `batchEmbedContents` (`is_batch`). `model` is the name in the URL.
///
/// # Errors
/// The first fault.
pub fn translate_embed(
    bytes: Bytes,
    model: &str,
    is_batch: bool,
    limits: &RequestLimits,
) -> Result<EmbedRequest, Invalid> {
    let body = Body::parse(bytes, limits)?;
    if model.is_empty() {
        return Err(empty_string(&Path::Top("model")));
    }
    let find = |wanted: &str| {
        let member = body.members().find(|(name, _)| is_named(name, wanted));
        member.map(|(_, text)| View::new(text))
    };
    let mut contents = Vec::new();
    if is_batch {
        let path = Path::Top("requests");
        let requests = find("requests").ok_or_else(|| missing(&path))?;
        for (at, request) in list(&path, requests, "an array of requests")?.enumerate() {
            let path = path.item(at);
            let [named, content, dimensions] =
                members_and(&path, request, ["model", "content", "outputDimensionality"], |_, _| {})?;
            // One model embeds all of them.
            if named.and_then(View::string).is_some_and(|named| plain_name(&named) != plain_name(model)) {
                return Err(invalid_value(&path.member("model"), "expected the model of the URL."));
            }
            contents.push(content_of(&path, content, dimensions)?);
        }
        if contents.is_empty() {
            return Err(empty_array(&path));
        }
    } else {
        let content_path = Path::Top("content");
        let content = find("content").ok_or_else(|| missing(&content_path))?;
        let dimensions = find("outputDimensionality");
        let dimensions =
            dimensions.map(|value| whole(&Path::Top("outputDimensionality"), value, &RANGE)).transpose()?;
        contents.push(EmbedContent { text: text_of(&content_path, content)?, dimensions });
    }
    let dimensions = contents.first().and_then(|first| first.dimensions);
    if contents.iter().any(|content| content.dimensions != dimensions) {
        let what = "all requests of a batch must have the same 'outputDimensionality'.";
        return Err(invalid_value(&Path::Top("requests"), what));
    }
    let mut out = Vec::new();
    let mut object = ObjectWriter::begin(&mut out);
    object.string("model", model);
    object.strings("input", contents.iter().map(|content| &*content.text));
    object.string("encoding_format", "float");
    if let Some(dimensions) = dimensions {
        object.raw("dimensions", dimensions.to_string());
    }
    for own in ["routing", "cache", "user"] {
        if let Some(value) = body.get(own) {
            object.raw(own, value);
        }
    }
    object.finish();
    Ok(EmbedRequest { body: out })
}

/// The numbers of dimensions that can be asked for.
const RANGE: std::ops::RangeInclusive<i64> = 1..=u32::MAX as i64;

fn content_of<'a>(
    path: &Path<'_>,
    content: Option<View<'a>>,
    dimensions: Option<View<'_>>,
) -> Result<EmbedContent<'a>, Invalid> {
    let dimensions =
        dimensions.map(|value| whole(&path.member("outputDimensionality"), value, &RANGE)).transpose()?;
    let path = path.member("content");
    Ok(EmbedContent { text: text_of(&path, content.ok_or_else(|| missing(&path))?)?, dimensions })
}

/// The text of a content. Models of embeddings take one text each.
fn text_of<'a>(path: &Path<'_>, content: View<'a>) -> Result<Cow<'a, str>, Invalid> {
    let [parts] = members(path, content, ["parts"])?;
    let path = path.member("parts");
    let parts = parts.ok_or_else(|| missing(&path))?;
    let mut joined: Option<Cow<'a, str>> = None;
    for (at, part) in list(&path, parts, "an array of parts")?.enumerate() {
        let path = path.item(at);
        let [text] = members(&path, part, ["text"])?;
        let text = optional(&path, "text", text)?.ok_or_else(|| {
            let message =
                format!("Unsupported value: '{path}' is not a text. The gateway embeds texts only.");
            Invalid { code: "unsupported_value", message }
        })?;
        match &mut joined {
            None => joined = Some(text),
            Some(joined) => {
                joined.to_mut().push('\n');
                joined.to_mut().push_str(&text);
            }
        }
    }
    joined.ok_or_else(|| empty_array(&path))
}

/// Writes the answer from one in OpenAI's shape. None: it has another shape.
#[must_use]
pub fn embeddings_body(answer: &str, is_batch: bool) -> Option<Vec<u8>> {
    let [data] = View::new(answer).pick(["data"]);
    let mut vectors = Vec::new();
    for entry in data?.elements() {
        let [vector] = entry.pick(["embedding"]);
        vectors.push(vector?);
    }
    let mut out = Vec::with_capacity(answer.len());
    let mut object = ObjectWriter::begin(&mut out);
    if is_batch {
        write_array(object.member("embeddings"), vectors, write_vector);
    } else {
        write_vector(object.member("embedding"), vectors.into_iter().next()?);
    }
    object.finish();
    Some(out)
}

fn write_vector(out: &mut Vec<u8>, vector: View<'_>) {
    let mut embedding = ObjectWriter::begin(out);
    embedding.raw("values", vector.text());
    embedding.finish();
}
