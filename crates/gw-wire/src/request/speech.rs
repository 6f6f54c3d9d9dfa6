//! `POST /v1/audio/speech`: the request of OpenAI. The answer is a sound file or a stream of its pieces.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::body::{Body, ParsedBody};
use super::fields::{
    Path, missing, not_one_of, number, object, required_name, required_string, string, string_too_long,
    wrong_type,
};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::member_policy::{GuardedMember, survey};
use super::options::{Fields, Routing};
use super::references::References;
use crate::json::{Kind, ObjectWriter, View};
use crate::operation::PlainOperation;
use crate::usage::{BYTES_PER_TOKEN, Unit, Units, Usage, small};

/// The most characters of a text.
pub const MAX_CHARACTERS: usize = 4_096;

/// Tokens of sound for ten characters: about 1,250 for a minute of speech, which has about 900 characters (the prices of
/// gpt-4o-mini-tts by the token and by the minute at openai.com/api/pricing, November 2026).
const TOKENS_OF_TEN_CHARACTERS: u64 = 14;

/// The file formats, and the media type of each.
const FORMATS: [(&str, &str); 6] = [
    ("mp3", "audio/mpeg"),
    ("opus", "audio/opus"),
    ("aac", "audio/aac"),
    ("flac", "audio/flac"),
    ("wav", "audio/wav"),
    ("pcm", "audio/pcm"),
];

/// The members that servers of OpenAI's dialect get as the client wrote them.
const FORWARDED: [&str; 5] = ["voice", "instructions", "response_format", "speed", "stream_format"];

/// A validated request for speech.
#[derive(Clone, Debug)]
pub struct SpeechRequest {
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// The literal of the text in the body.
    input: Range<usize>,
    /// The code points of the text.
    pub characters: u64,
    /// The name or the id of the voice.
    pub voice: String,
    /// The media type of the format that the client wants.
    pub media_type: &'static str,
    /// Whether the client wants events instead of a file.
    pub wants_events: bool,
    /// The client's routing options.
    pub routing: Routing,
    /// Bytes of the text and the instructions.
    pub prompt_bytes: u64,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks a request for speech. The first fault is reported, in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_speech(bytes: Bytes, limits: &RequestLimits) -> Result<SpeechRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_first()?;
    let path = Path::Top("input");
    let characters = required_name(&path, fields.get("input"))?.chars().count();
    if characters > MAX_CHARACTERS {
        return Err(string_too_long(&path, MAX_CHARACTERS, characters));
    }
    let input = fields.get("input").ok_or_else(|| missing(&path))?;
    let voice = voice(fields.get("voice"))?;
    fields.kinds(&[("instructions", Kind::String), ("user", Kind::String)])?;
    let media_type = media_type(&fields)?;
    if let Some(speed) = fields.get("speed") {
        number(&Path::Top("speed"), speed, &(0.25..=4.0))?;
    }
    let wants_events = wants_events(&fields)?;
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Speech, false, &mut references);
    fields.cache()?;
    let start = members.offset(input.text());
    let instructions = fields.get("instructions").map_or(0, View::string_len);
    Ok(SpeechRequest {
        model,
        input: start..start + input.text().len(),
        characters: characters as u64,
        voice,
        media_type,
        wants_events,
        routing,
        prompt_bytes: (input.string_len() + instructions) as u64,
        references,
        guarded,
        body: members.without_fallbacks().into_body(bytes),
    })
}

/// The voice: its name, or an object with its id.
fn voice(value: Option<View<'_>>) -> Result<String, Invalid> {
    let path = Path::Top("voice");
    let value = value.ok_or_else(|| missing(&path))?;
    match value.kind() {
        Kind::String => Ok(required_name(&path, Some(value))?.into_owned()),
        Kind::Object => {
            let [id] = object(&path, value, ["id"])?;
            Ok(required_string(&path.member("id"), id)?.into_owned())
        }
        _ => Err(wrong_type(&path, "a string or an object", value)),
    }
}

/// The media type of the format.
fn media_type(fields: &Fields<'_, '_>) -> Result<&'static str, Invalid> {
    let [(_, usual), ..] = FORMATS;
    let Some(value) = fields.get("response_format") else { return Ok(usual) };
    let path = Path::Top("response_format");
    let word = string(&path, value)?;
    let found = FORMATS.iter().find(|(name, _)| *name == word);
    found
        .map(|(_, media_type)| *media_type)
        .ok_or_else(|| not_one_of(&path, &FORMATS.map(|(name, _)| name), &word))
}

/// Whether the client wants events. `stream` is older clients' word for them.
fn wants_events(fields: &Fields<'_, '_>) -> Result<bool, Invalid> {
    fields.boolean("stream")?;
    let Some(value) = fields.get("stream_format") else { return Ok(false) };
    let path = Path::Top("stream_format");
    match &*string(&path, value)? {
        "audio" => Ok(false),
        "sse" => Ok(true),
        other => Err(not_one_of(&path, &["audio", "sse"], other)),
    }
}

impl SpeechRequest {
    /// The literal of the text.
    #[must_use]
    pub fn input(&self) -> &str {
        self.body.text(&self.input)
    }

    /// The text.
    #[must_use]
    pub fn input_text(&self) -> Cow<'_, str> {
        self.body.view("input").and_then(View::string).unwrap_or_default()
    }

    /// The instructions for the voice, if there are any.
    #[must_use]
    pub fn instructions(&self) -> Option<Cow<'_, str>> {
        self.body.view("instructions").and_then(View::string).filter(|text| !text.is_empty())
    }

    /// Whether the speech is slower or faster than usual.
    #[must_use]
    pub fn changes_speed(&self) -> bool {
        self.body.get("speed").is_some_and(|speed| speed.parse() != Ok(1.0_f64))
    }

    /// The characters as units.
    #[must_use]
    pub fn units(&self) -> Units {
        Units::new(Unit::Character, self.characters)
    }

    /// The estimated tokens of the sound at the usual speed.
    #[must_use]
    pub fn sound_tokens(&self) -> u64 {
        (self.characters * TOKENS_OF_TEN_CHARACTERS).div_ceil(10)
    }

    /// The usage of a call whose upstream reports none.
    #[must_use]
    pub fn estimated_usage(&self) -> Usage {
        let completion = self.sound_tokens();
        Usage {
            prompt: self.prompt_bytes.div_ceil(BYTES_PER_TOKEN),
            completion,
            audio_completion: Some(small(completion)),
            estimated: true,
            units: self.units(),
            ..Usage::default()
        }
    }

    /// Writes the members that servers of OpenAI's dialect take.
    pub fn write_members(&self, body: &mut ObjectWriter<'_>) {
        body.raw("input", self.input());
        for name in FORWARDED {
            if let Some(value) = self.body.get(name) {
                body.raw(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(more: &Value) -> Result<SpeechRequest, Invalid> {
        let mut body = json!({"model": "m", "input": "Grüße", "voice": "alloy"});
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.extend(more.clone());
        }
        parse_speech(body.to_string().into(), &RequestLimits::default())
    }

    #[test]
    fn characters_are_code_points_and_formats_have_media_types() {
        let plain = parse(&json!({})).unwrap();
        assert_eq!((plain.characters, plain.media_type, plain.wants_events), (5, "audio/mpeg", false));
        let events =
            parse(&json!({"stream_format": "sse", "response_format": "wav", "voice": {"id": "v"}})).unwrap();
        assert_eq!((events.voice.as_str(), events.media_type, events.wants_events), ("v", "audio/wav", true));
    }

    #[test]
    fn faults_have_their_codes() {
        for (more, code) in [
            (json!({"input": ""}), "empty_string"),
            (json!({"input": 1}), "invalid_type"),
            (json!({"input": "x".repeat(4_097)}), "string_above_max_length"),
            (json!({"voice": null}), "missing_required_parameter"),
            (json!({"voice": 1}), "invalid_type"),
            (json!({"response_format": "ogg"}), "invalid_value"),
            (json!({"speed": 5}), "decimal_above_max_value"),
            (json!({"speed": 0.2}), "decimal_below_min_value"),
            (json!({"stream_format": "raw"}), "invalid_value"),
            (json!({"routing": 1}), "invalid_type"),
        ] {
            assert_eq!(parse(&more).unwrap_err().code, code, "{more}");
        }
    }
}
