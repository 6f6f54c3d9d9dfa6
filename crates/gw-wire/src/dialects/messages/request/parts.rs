//! The content parts of a chat message.

use std::borrow::Cow;

use crate::json::{ObjectWriter, View, write_array, write_escaped, write_str};

/// One part of a chat message, with the block's `cache_control`.
#[derive(Clone, Debug)]
pub(in crate::dialects) struct BlockPart<'a> {
    pub(in crate::dialects) content: ChatContent<'a>,
    pub(in crate::dialects) cache_control: Option<View<'a>>,
}

/// The content of a part.
#[derive(Clone, Debug)]
pub(in crate::dialects) enum ChatContent<'a> {
    Text(Cow<'a, str>),
    Image(PartSource<'a>),
    File { source: PartSource<'a>, name: Cow<'a, str> },
    Audio { data: Cow<'a, str>, format: &'static str },
}

/// The bytes of an image or a file.
#[derive(Clone, Debug)]
pub(in crate::dialects) enum PartSource<'a> {
    Base64 { media_type: Cow<'a, str>, data: Cow<'a, str> },
    Url(Cow<'a, str>),
}

impl<'a> BlockPart<'a> {
    /// A text without `cache_control`.
    pub(in crate::dialects) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { content: ChatContent::Text(text.into()), cache_control: None }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::begin(out);
        match &self.content {
            ChatContent::Text(text) => {
                object.string("type", "text");
                object.string("text", text);
            }
            ChatContent::Image(source) => {
                object.string("type", "image_url");
                object.object("image_url", |image| source.write(image.member("url")));
            }
            ChatContent::File { source, name } => {
                object.string("type", "file");
                object.object("file", |file| {
                    file.string("filename", name);
                    source.write(file.member("file_data"));
                });
            }
            ChatContent::Audio { data, format } => {
                object.string("type", "input_audio");
                object.object("input_audio", |audio| {
                    audio.string("data", data);
                    audio.string("format", format);
                });
            }
        }
        if let Some(cache_control) = self.cache_control {
            object.raw("cache_control", cache_control.text());
        }
        object.finish();
    }
}

impl PartSource<'_> {
    /// Writes a URL or a data URL.
    pub(in crate::dialects) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Url(url) => write_str(out, url),
            Self::Base64 { media_type, data } => {
                out.reserve(media_type.len() + data.len() + 16);
                out.extend_from_slice(b"\"data:");
                write_escaped(out, media_type);
                out.extend_from_slice(b";base64,");
                write_escaped(out, data);
                out.push(b'"');
            }
        }
    }
}

/// Writes the content of a message: a string for one plain text, else a list of parts.
pub(in crate::dialects) fn write_content(out: &mut Vec<u8>, parts: &[BlockPart<'_>]) {
    match parts {
        [] => out.extend_from_slice(b"\"\""),
        [BlockPart { content: ChatContent::Text(text), cache_control: None }] => write_str(out, text),
        parts => write_array(out, parts, |out, part| part.write(out)),
    }
}
