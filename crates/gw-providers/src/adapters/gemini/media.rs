//! Images, documents and audio: bytes as `inlineData`, URLs as `fileData`.
//!
//! <https://ai.google.dev/gemini-api/docs/file-input-methods>: the provider fetches https URLs, and files of its own
//! Files API are named by their `uri`.

use std::borrow::Cow;

use gw_wire::conversation::Source;
use gw_wire::failure::Failure;

use super::flavour::Flavour;
use super::wire::{FileData, GeminiBlob, GeminiPart};
use crate::adapters::media_types;
use crate::adapters::native::unsupported;

/// Media types by the extension of a file name or URL.
const EXTENSION_TYPES: [(&str, &str); 29] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("pdf", "application/pdf"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("xml", "text/xml"),
    ("rtf", "text/rtf"),
    ("json", "application/json"),
    ("js", "text/javascript"),
    ("py", "text/x-python"),
    ("wav", "audio/wav"),
    ("mp3", "audio/mp3"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("aac", "audio/aac"),
    ("mp4", "video/mp4"),
    ("mov", "video/mov"),
    ("webm", "video/webm"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
];

/// The beginning of an MP3 file with a title, in base64.
const MP3_PREFIX: &str = "SUQz";

/// Translates an image.
pub(super) fn image<'a>(source: &'a Source<'_>, flavour: Flavour) -> Result<GeminiPart<'a>, Failure> {
    part(source, None, Some("image/jpeg"), flavour)
}

/// The image formats that a conversation may hold: <https://ai.google.dev/gemini-api/docs/image-understanding>,
/// November 2026.
const IMAGE_TYPES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// Whether an image of an earlier answer can be sent back: it must come as bytes, in a format that the provider reads.
pub(in crate::adapters) fn can_be_sent_back(source: &Source<'_>) -> bool {
    matches!(source, Source::Data { media_type, base64 } if IMAGE_TYPES.contains(&&**media_type) && !base64.is_empty())
}

/// Translates a file of any kind.
pub(super) fn file<'a>(
    source: &'a Source<'_>,
    name: Option<&str>,
    flavour: Flavour,
) -> Result<GeminiPart<'a>, Failure> {
    part(source, name, None, flavour)
}

/// Translates an audio clip.
pub(super) fn audio<'a>(data: &'a str, format: &str) -> GeminiPart<'a> {
    blob(Cow::Owned(format!("audio/{format}")), data)
}

fn blob<'a>(mime_type: Cow<'a, str>, data: &'a str) -> GeminiPart<'a> {
    GeminiPart {
        inline_data: Some(GeminiBlob { mime_type, data: Cow::Borrowed(data) }),
        ..GeminiPart::default()
    }
}

/// Translates a source. `guess` is the media type of a URL whose extension is unknown.
fn part<'a>(
    source: &'a Source<'_>,
    name: Option<&str>,
    guess: Option<&'static str>,
    flavour: Flavour,
) -> Result<GeminiPart<'a>, Failure> {
    let named = name.and_then(by_ending);
    match source {
        Source::Data { media_type, base64 } => {
            let is_telling = !media_type.is_empty() && media_type != "application/octet-stream";
            let declared = if is_telling { Some(&**media_type) } else { named.or_else(|| by_mark(base64)) };
            let Some(known) = media_types::of_bytes(base64).or(declared) else {
                let message =
                    "Invalid 'messages': the data URL of an image or a file does not name its media type.";
                return Err(unsupported(message));
            };
            Ok(blob(Cow::Borrowed(media_types::known_name(known)), base64))
        }
        Source::Url(url) => {
            let path = url.split(['?', '#']).next().unwrap_or(url);
            Ok(fetched(named.or_else(|| by_ending(path)).or(guess), Cow::Borrowed(&**url)))
        }
        Source::Id(id) => {
            if id.starts_with("https://") || id.starts_with("gs://") {
                return Ok(fetched(named.or_else(|| by_ending(id)), Cow::Borrowed(&**id)));
            }
            if flavour == Flavour::AiStudio && id.starts_with("files/") {
                let uri = format!("https://generativelanguage.googleapis.com/v1beta/{id}");
                return Ok(fetched(named, Cow::Owned(uri)));
            }
            let message = "Invalid 'messages': this provider takes files as data, as addresses or by the names of its \
                           own ('files/…').";
            Err(unsupported(message))
        }
    }
}

fn fetched<'a>(mime_type: Option<&'static str>, file_uri: Cow<'a, str>) -> GeminiPart<'a> {
    GeminiPart { file_data: Some(FileData { mime_type, file_uri }), ..GeminiPart::default() }
}

fn by_ending(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    EXTENSION_TYPES
        .iter()
        .find(|(known, _)| ending.eq_ignore_ascii_case(known))
        .map(|(_, media_type)| *media_type)
}

fn by_mark(base64: &str) -> Option<&'static str> {
    base64.starts_with(MP3_PREFIX).then_some("audio/mp3")
}
