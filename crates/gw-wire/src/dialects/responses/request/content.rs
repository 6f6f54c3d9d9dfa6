//! The content of messages and of tool outputs.

use std::borrow::Cow;

use super::members::{Warnings, members, optional, required};
use crate::json::{Kind, ObjectWriter, View, write_array, write_str};
use crate::request::Invalid;
use crate::request::fields::{Path, array, clip, invalid_value, missing, not_one_of, wrong_type};
use crate::request::references::is_stored;

/// A part of a chat message. Long values are copied only when they are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum MediaPart<'a> {
    Image { url: View<'a>, detail: Option<View<'a>> },
    File { data: Option<View<'a>>, id: Option<View<'a>>, name: Option<View<'a>> },
    Audio { data: View<'a>, format: View<'a> },
}

/// A part of a chat message.
#[derive(Clone, Debug)]
pub(super) enum ChatPart<'a> {
    Text(Cow<'a, str>),
    Media(MediaPart<'a>),
}

/// The content of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageContent<'a> {
    pub(super) parts: Vec<ChatPart<'a>>,
    /// The texts of all refusals.
    pub(super) refusal: Option<String>,
}

impl<'a> MessageContent<'a> {
    /// Content of one text.
    pub(super) fn of_text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { parts: vec![ChatPart::Text(text.into())], refusal: None }
    }

    /// The media, taken out of the content.
    pub(super) fn take_media(&mut self) -> Vec<ChatPart<'a>> {
        let all = std::mem::take(&mut self.parts);
        let (texts, media) = all.into_iter().partition(|part| matches!(part, ChatPart::Text(_)));
        self.parts = texts;
        media
    }
}

/// Reads content: a string or a list of parts.
pub(super) fn content<'a>(
    path: &Path<'_>,
    value: View<'a>,
    warnings: &mut Warnings,
) -> Result<MessageContent<'a>, Invalid> {
    const EXPECTED: &str = "one of a string or an array of objects";
    if value.kind() == Kind::String {
        return Ok(MessageContent::of_text(crate::request::fields::string(path, value)?));
    }
    let mut read = MessageContent::default();
    for (at, value) in array(path, value, usize::MAX, EXPECTED)?.enumerate() {
        part(&path.item(at), value, &mut read, warnings)?;
    }
    Ok(read)
}

fn part<'a>(
    path: &Path<'_>,
    value: View<'a>,
    read: &mut MessageContent<'a>,
    warnings: &mut Warnings,
) -> Result<(), Invalid> {
    const NAMES: [&str; 10] = [
        "type",
        "text",
        "refusal",
        "image_url",
        "file_id",
        "detail",
        "file_data",
        "file_url",
        "filename",
        "input_audio",
    ];
    let [kind, text, refusal, image_url, file_id, detail, file_data, file_url, filename, audio] =
        members(path, value, NAMES)?;
    let media = match &*required(path, "type", kind)? {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            read.parts.push(ChatPart::Text(required(path, "text", text)?));
            return Ok(());
        }
        "refusal" => {
            let text = required(path, "refusal", refusal)?;
            read.refusal.get_or_insert_default().push_str(&text);
            return Ok(());
        }
        "input_image" | "computer_screenshot" => {
            optional(path, "detail", detail)?;
            image(path, image_url, file_id, detail)?
        }
        "input_file" => {
            optional(path, "file_data", file_data)?;
            optional(path, "file_url", file_url)?;
            optional(path, "file_id", file_id)?;
            optional(path, "filename", filename)?;
            let data = file_data.or(file_url);
            if data.or(file_id).is_none() {
                return Err(missing(&path.member("file_data")));
            }
            MediaPart::File { data, id: file_id.filter(|_| data.is_none()), name: filename }
        }
        "input_audio" => {
            let path = path.member("input_audio");
            let [data, format] = members(&path, audio.ok_or_else(|| missing(&path))?, ["data", "format"])?;
            required(&path, "data", data)?;
            match &*required(&path, "format", format)? {
                "wav" | "mp3" => {}
                other => return Err(not_one_of(&path.member("format"), &["wav", "mp3"], other)),
            }
            let (Some(data), Some(format)) = (data, format) else { return Err(missing(&path)) };
            MediaPart::Audio { data, format }
        }
        other => {
            warnings.add(format!("part_dropped:{}", clip(other)));
            return Ok(());
        }
    };
    read.parts.push(ChatPart::Media(media));
    Ok(())
}

fn image<'a>(
    path: &Path<'_>,
    url: Option<View<'a>>,
    file_id: Option<View<'a>>,
    detail: Option<View<'a>>,
) -> Result<MediaPart<'a>, Invalid> {
    let url_path = path.member("image_url");
    let Some(url) = url else {
        optional(path, "file_id", file_id)?;
        let id = file_id.ok_or_else(|| missing(&url_path))?;
        return Ok(MediaPart::File { data: None, id: Some(id), name: None });
    };
    // Some clients send a chat's object with the URL in it.
    let url = match url.kind() {
        Kind::Object => {
            let [inner] = members(&url_path, url, ["url"])?;
            inner.ok_or_else(|| missing(&url_path.member("url")))?
        }
        _ => url,
    };
    let text = url.string().ok_or_else(|| wrong_type(&url_path, "a string", url))?;
    let begins =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !["https://", "http://", "data:"].into_iter().any(begins) && !is_stored(&text) {
        let message = "expected a URL that begins with 'https://', 'http://' or 'data:'.";
        return Err(invalid_value(&url_path, message));
    }
    Ok(MediaPart::Image { url, detail })
}

/// Writes the parts as the content of a chat message: one text as a string, everything else as an array.
pub(super) fn write_parts(parts: &[ChatPart<'_>], out: &mut Vec<u8>) {
    match parts {
        [] => write_str(out, ""),
        [ChatPart::Text(text)] => write_str(out, text),
        parts => write_array(out, parts, write_part),
    }
}

fn write_part(out: &mut Vec<u8>, part: &ChatPart<'_>) {
    let mut object = ObjectWriter::begin(out);
    match part {
        ChatPart::Text(text) => {
            object.string("type", "text");
            object.string("text", text);
        }
        ChatPart::Media(MediaPart::Image { url, detail }) => {
            object.string("type", "image_url");
            object.object("image_url", |image| {
                image.raw("url", url.text());
                if let Some(detail) = detail {
                    image.raw("detail", detail.text());
                }
            });
        }
        ChatPart::Media(MediaPart::File { data, id, name }) => {
            object.string("type", "file");
            let members = [("file_data", data), ("file_id", id), ("filename", name)];
            object.object("file", |file| {
                for (name, value) in
                    members.iter().filter_map(|(name, value)| Some((name, (*value).as_ref()?)))
                {
                    file.raw(name, value.text());
                }
            });
        }
        ChatPart::Media(MediaPart::Audio { data, format }) => {
            object.string("type", "input_audio");
            object.object("input_audio", |audio| {
                audio.raw("data", data.text());
                audio.raw("format", format.text());
            });
        }
    }
    object.finish();
}
