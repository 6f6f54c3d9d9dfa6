//! `inlineData` and `fileData` as parts of a chat message.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::dialects::gemini::members::{members, optional, required};
use crate::dialects::messages::request::parts::{ChatContent, PartSource};
use crate::json::View;
use crate::request::Invalid;
use crate::request::fields::{Path, invalid_value};

/// Audio that a chat takes as audio, by its media type. Other audio is a file.
const AUDIO: [(&str, &str); 6] = [
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/wave", "wav"),
    ("audio/mp3", "mp3"),
    ("audio/mpeg", "mp3"),
    ("audio/mpga", "mp3"),
];

/// Names of files by media type, for upstreams that tell the type by the ending.
const NAMES: [(&str, &str); 6] = [
    ("application/pdf", "document.pdf"),
    ("application/json", "document.json"),
    ("video/mp4", "video.mp4"),
    ("video/webm", "video.webm"),
    ("audio/flac", "audio.flac"),
    ("audio/ogg", "audio.ogg"),
];

/// Reads `inlineData`: bytes in base64.
pub(super) fn inline<'a>(path: &Path<'_>, value: View<'a>) -> Result<ChatContent<'a>, Invalid> {
    let [media_type, data, name] = members(path, value, ["mimeType", "data", "displayName"])?;
    let media_type = required(path, "mimeType", media_type)?;
    let data = usual_base64(required(path, "data", data)?);
    let name = optional(path, "displayName", name)?;
    if let Some((_, format)) = AUDIO.iter().find(|(known, _)| *known == media_type) {
        return Ok(ChatContent::Audio { data, format });
    }
    if media_type.starts_with("text/") {
        let text = STANDARD.decode(&*data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| {
            invalid_value(&path.member("data"), "expected a text in UTF-8, encoded in base64.")
        })?;
        return Ok(ChatContent::Text(Cow::Owned(text)));
    }
    let source = |media_type| PartSource::Base64 { media_type, data };
    Ok(content(media_type, name, source))
}

/// Reads `fileData`: the URL of a file.
pub(super) fn file<'a>(path: &Path<'_>, value: View<'a>) -> Result<ChatContent<'a>, Invalid> {
    let [media_type, uri, name] = members(path, value, ["mimeType", "fileUri", "displayName"])?;
    let media_type = optional(path, "mimeType", media_type)?;
    let uri = required(path, "fileUri", uri)?;
    let name = optional(path, "displayName", name)?;
    let begins =
        |scheme: &str| uri.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !["https://", "http://", "gs://"].into_iter().any(begins) {
        let message = "expected a URL that begins with 'https://', 'http://' or 'gs://'.";
        return Err(invalid_value(&path.member("fileUri"), message));
    }
    let media_type = media_type.unwrap_or_else(|| media_type_of(&uri).into());
    Ok(content(media_type, name, |_| PartSource::Url(uri)))
}

fn content<'a>(
    media_type: Cow<'a, str>,
    name: Option<Cow<'a, str>>,
    source: impl FnOnce(Cow<'a, str>) -> PartSource<'a>,
) -> ChatContent<'a> {
    if media_type.starts_with("image/") {
        return ChatContent::Image(source(media_type));
    }
    let usual = NAMES.iter().find(|(known, _)| *known == media_type).map_or("file", |(_, name)| name);
    let name = name.filter(|name| !name.is_empty()).unwrap_or(Cow::Borrowed(usual));
    ChatContent::File { source: source(media_type), name }
}

/// The media type of a URL by its ending. Google looks at the file.
fn media_type_of(uri: &str) -> &'static str {
    const ENDINGS: [(&str, &str); 7] = [
        (".png", "image/png"),
        (".jpg", "image/jpeg"),
        (".jpeg", "image/jpeg"),
        (".webp", "image/webp"),
        (".gif", "image/gif"),
        (".pdf", "application/pdf"),
        (".mp4", "video/mp4"),
    ];
    let path = uri.split(['?', '#']).next().unwrap_or(uri).to_ascii_lowercase();
    ENDINGS
        .iter()
        .find(|(ending, _)| path.ends_with(ending))
        .map_or("application/octet-stream", |(_, kind)| kind)
}

/// Base64 in the usual alphabet. Python's client writes the one for URLs.
fn usual_base64(data: Cow<'_, str>) -> Cow<'_, str> {
    if !data.bytes().any(|letter| matches!(letter, b'-' | b'_')) {
        return data;
    }
    let usual = data.chars().map(|letter| match letter {
        '-' => '+',
        '_' => '/',
        other => other,
    });
    Cow::Owned(usual.collect())
}
