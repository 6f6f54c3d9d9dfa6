//! `POST /v1/audio/transcriptions` and `/v1/audio/translations`: the fields of OpenAI's form without the file, and the answer.

mod formats;

use std::borrow::Cow;

use bytes::Bytes;

pub use self::formats::{TextFormat, Transcript};
use super::body::{Body, ParsedBody};
use super::fields::{Path, array, invalid_value, not_one_of, number, string, wrong_type};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::member_policy::{GuardedMember, survey};
use super::options::{Fields, Routing};
use super::references::References;
use crate::dialects::speech::write_tokens;
use crate::json::{Kind, ObjectWriter, View};
use crate::money::Money;
use crate::operation::PlainOperation;
use crate::usage::{Unit, Usage};

/// The most entries of a list.
const MAX_ENTRIES: usize = 16;
/// The lists. Their names in a form end in `[]`.
const LISTS: [&str; 4] =
    ["include", "known_speaker_names", "known_speaker_references", "timestamp_granularities"];
/// The fields that servers of OpenAI's dialect get as the client wrote them, beside the lists.
const FORWARDED: [&str; 6] =
    ["language", "prompt", "response_format", "temperature", "chunking_strategy", "stream"];

/// A validated request for the text of a recording.
#[derive(Clone, Debug)]
pub struct TranscriptionRequest {
    /// The fields as a JSON body.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// The text is to be in English.
    pub is_translation: bool,
    /// The format of the answer.
    pub format: TextFormat,
    /// Whether the client wants a stream.
    pub stream: bool,
    /// The client's routing options.
    pub routing: Routing,
    /// Bytes of the prompt.
    pub prompt_bytes: u64,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks the fields of a request. The first fault is reported, in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_transcription(
    bytes: Bytes,
    is_translation: bool,
    limits: &RequestLimits,
) -> Result<TranscriptionRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model()?;
    let text = Kind::String;
    fields.kinds(&[("language", text), ("prompt", text), ("user", text)])?;
    let format = format(&fields, is_translation)?;
    if let Some(temperature) = fields.get("temperature") {
        number(&Path::Top("temperature"), temperature, &(0.0..=1.0))?;
    }
    let stream = fields.boolean("stream")?;
    if stream && is_translation {
        let message = "Invalid 'stream': a translation cannot be streamed.";
        return Err(Invalid { code: "unsupported_value", message: message.to_owned() });
    }
    if stream && matches!(format, TextFormat::Srt | TextFormat::Vtt) {
        return Err(invalid_value(&Path::Top("response_format"), "subtitles cannot be streamed."));
    }
    for name in LISTS {
        let Some(list) = fields.get(name) else { continue };
        let path = Path::Top(name);
        for (at, entry) in array(&path, list, MAX_ENTRIES, "an array of strings")?.enumerate() {
            string(&path.item(at), entry)?;
        }
    }
    if let Some(strategy) = fields.get("chunking_strategy")
        && !matches!(strategy.kind(), Kind::String | Kind::Object)
    {
        return Err(wrong_type(&Path::Top("chunking_strategy"), "a string or an object", strategy));
    }
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let operation = operation(is_translation);
    let guarded = survey(members.text, &members.members, operation, false, &mut references);
    fields.cache()?;
    Ok(TranscriptionRequest {
        model,
        is_translation,
        format,
        stream,
        routing,
        prompt_bytes: fields.get("prompt").map_or(0, View::string_len) as u64,
        references,
        guarded,
        body: members.without_fallbacks().into_body(bytes),
    })
}

fn operation(is_translation: bool) -> PlainOperation {
    if is_translation { PlainOperation::Translation } else { PlainOperation::Transcription }
}

fn format(fields: &Fields<'_, '_>, is_translation: bool) -> Result<TextFormat, Invalid> {
    let Some(value) = fields.get("response_format") else { return Ok(TextFormat::Json) };
    let path = Path::Top("response_format");
    let word = string(&path, value)?;
    // Only transcripts tell who speaks.
    let known = if is_translation { TextFormat::NAMED.get(..5) } else { TextFormat::NAMED.get(..) };
    let known = known.unwrap_or_default();
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, format)| *format);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        not_one_of(&path, &names, &word)
    })
}

impl TranscriptionRequest {
    /// The operation.
    #[must_use]
    pub fn operation(&self) -> PlainOperation {
        operation(self.is_translation)
    }

    /// The fields that servers of OpenAI's dialect take, by name and text.
    #[must_use]
    pub fn form_fields(&self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        for name in FORWARDED {
            if let Some(value) = self.body.view(name).filter(|value| value.kind() != Kind::Null) {
                fields.push((name.to_owned(), plain(value).into_owned()));
            }
        }
        for name in LISTS {
            let entries = self.body.view(name).into_iter().flat_map(View::elements);
            fields.extend(entries.map(|entry| (format!("{name}[]"), plain(entry).into_owned())));
        }
        fields
    }

    /// A field's text.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.body.view(name)?.string()
    }
}

/// The text of a form's field for a value.
fn plain(value: View<'_>) -> Cow<'_, str> {
    value.string().unwrap_or(Cow::Borrowed(value.text()))
}

/// Writes the usage of a transcript: its tokens, or else the seconds of the recording; with the cost, where None = a price is
/// unknown.
pub fn write_usage(object: &mut ObjectWriter<'_>, usage: &Usage, cost: Option<Money>) {
    let seconds = usage.units.of(Unit::Second);
    let has_tokens = !usage.estimated && usage.total() > 0;
    if has_tokens || seconds.millionths() == 0 {
        object.string("type", "tokens");
        return write_tokens(object, usage, cost);
    }
    object.string("type", "duration");
    object.number_or_null("seconds", Some(seconds));
    object.number_or_null("cost_usd", cost);
}

/// Writes the usage of a streamed transcript. Clients read tokens there alone; the seconds stand beside them.
pub fn write_stream_usage(object: &mut ObjectWriter<'_>, usage: &Usage, cost: Option<Money>) {
    object.string("type", "tokens");
    let seconds = usage.units.of(Unit::Second);
    if seconds.millionths() > 0 {
        object.number_or_null("seconds", Some(seconds));
    }
    write_tokens(object, usage, cost);
}

#[cfg(test)]
mod tests;
