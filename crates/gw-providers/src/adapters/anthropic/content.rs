//! The content blocks of a request: text, images, documents, tool calls and their results.
//!
//! The sources of images and documents: "Vision" and "PDF support" at platform.claude.com.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use gw_wire::conversation::{Content, Part, Source};
use gw_wire::failure::Failure;
use gw_wire::json::{ObjectWriter, View};

use super::details::{Thought, ThoughtKind};
use crate::adapters::media_types::{self, PDF};
use crate::adapters::native::unsupported;

/// One block of a message.
#[derive(Debug)]
pub(super) enum AnthropicBlockParam<'c> {
    /// Text that is not blank.
    Text { text: &'c str, marker: Option<View<'c>> },
    /// An image.
    Image { source: AnthropicSource<'c>, marker: Option<View<'c>> },
    /// A document.
    Document { source: AnthropicSource<'c>, title: Option<&'c str>, marker: Option<View<'c>> },
    /// A tool call.
    Call { id: String, name: &'c str, input: Cow<'c, str> },
    /// The result of a tool call.
    Result { id: String, texts: Vec<&'c str>, marker: Option<View<'c>> },
    /// A thought of the model.
    Thought(Thought<'c>),
}

/// The source of an image or a document.
#[derive(Debug)]
pub(super) enum AnthropicSource<'c> {
    /// Bytes in base64.
    Base64 { media_type: &'c str, data: &'c str },
    /// A URL.
    Url(&'c str),
    /// Plain text.
    Text(String),
}

/// The image formats that the API takes.
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    NO_PAD.with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

impl<'c> AnthropicBlockParam<'c> {
    /// Translates a part of a user's or assistant's message; None if it is blank.
    pub(super) fn of_part(part: &'c Part<'c>) -> Result<Option<Self>, Failure> {
        let marker = part.cache_control;
        Ok(match &part.content {
            Content::Text(text) | Content::Refusal(text) => {
                (!text.trim().is_empty()).then_some(AnthropicBlockParam::Text { text, marker })
            }
            Content::Image(source) => Some(image(source, marker)?),
            Content::File { source, name } => Some(file(source, name.as_deref(), marker)?),
            Content::Audio { .. } => {
                return Err(unsupported("Invalid 'messages': this provider does not take audio."));
            }
        })
    }

    /// Writes the block as JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let (mut object, marker) = match self {
            AnthropicBlockParam::Text { text, marker } => {
                let mut object = ObjectWriter::begin_typed(out, "text");
                object.string("text", text);
                (object, *marker)
            }
            AnthropicBlockParam::Image { source, marker } => {
                let mut object = ObjectWriter::begin_typed(out, "image");
                source.write(object.member("source"));
                (object, *marker)
            }
            AnthropicBlockParam::Document { source, title, marker } => {
                let mut object = ObjectWriter::begin_typed(out, "document");
                source.write(object.member("source"));
                if let Some(title) = title {
                    object.string("title", title);
                }
                (object, *marker)
            }
            AnthropicBlockParam::Call { id, name, input } => {
                let mut object = ObjectWriter::begin_typed(out, "tool_use");
                object.string("id", id);
                object.string("name", name);
                object.raw("input", input.as_bytes());
                (object, None)
            }
            AnthropicBlockParam::Result { id, texts, marker } => (result(out, id, texts), *marker),
            AnthropicBlockParam::Thought(thought) => (thought_block(out, thought), None),
        };
        if let Some(marker) = marker {
            object.raw("cache_control", marker.text());
        }
        object.finish();
    }
}

fn result<'o>(out: &'o mut Vec<u8>, id: &str, texts: &[&str]) -> ObjectWriter<'o> {
    let mut object = ObjectWriter::begin_typed(out, "tool_result");
    object.string("tool_use_id", id);
    match texts {
        // The API sometimes refuses an empty string and an empty array.
        [] => {}
        [text] => object.string("content", text),
        texts => object.array("content", texts, |out, text| {
            let mut block = ObjectWriter::begin_typed(out, "text");
            block.string("text", text);
            block.finish();
        }),
    }
    object
}

fn thought_block<'o>(out: &'o mut Vec<u8>, thought: &Thought<'_>) -> ObjectWriter<'o> {
    match &thought.kind {
        ThoughtKind::Signed { text, signature } => {
            let mut object = ObjectWriter::begin_typed(out, "thinking");
            object.string("thinking", text);
            object.string("signature", signature);
            object
        }
        ThoughtKind::Redacted { data } => {
            let mut object = ObjectWriter::begin_typed(out, "redacted_thinking");
            object.string("data", data);
            object
        }
    }
}

impl AnthropicSource<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let object = match self {
            AnthropicSource::Base64 { media_type, data } => {
                let mut object = ObjectWriter::begin_typed(out, "base64");
                object.string("media_type", media_type);
                object.string("data", data);
                object
            }
            AnthropicSource::Url(url) => {
                let mut object = ObjectWriter::begin_typed(out, "url");
                object.string("url", url);
                object
            }
            AnthropicSource::Text(text) => {
                let mut object = ObjectWriter::begin_typed(out, "text");
                object.string("media_type", "text/plain");
                object.string("data", text);
                object
            }
        };
        object.finish();
    }
}

/// Translates an image. Some clients also send PDFs as images.
fn image<'c>(source: &'c Source<'_>, marker: Option<View<'c>>) -> Result<AnthropicBlockParam<'c>, Failure> {
    let (source, is_pdf) = match source {
        Source::Url(url) => {
            (AnthropicSource::Url(url), is_pdf_name(url.split(['?', '#']).next().unwrap_or_default()))
        }
        Source::Data { media_type: declared, base64 } => {
            let media_type = media_types::corrected(declared, base64);
            let is_pdf = media_type == PDF;
            if !is_pdf && !IMAGE_TYPES.contains(&media_type) {
                let message = "Invalid 'messages': this provider takes JPEG, PNG, GIF and WebP images only.";
                return Err(unsupported(message));
            }
            (AnthropicSource::Base64 { media_type, data: base64 }, is_pdf)
        }
        Source::Id(_) => return Err(unsupported("Invalid 'messages': an image needs a URL.")),
    };
    Ok(if is_pdf {
        AnthropicBlockParam::Document { source, title: None, marker }
    } else {
        AnthropicBlockParam::Image { source, marker }
    })
}

fn is_pdf_name(name: &str) -> bool {
    name.len()
        .checked_sub(4)
        .and_then(|at| name.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(".pdf"))
}

fn file<'c>(
    source: &'c Source<'_>,
    name: Option<&'c str>,
    marker: Option<View<'c>>,
) -> Result<AnthropicBlockParam<'c>, Failure> {
    let title = name.filter(|name| !name.trim().is_empty());
    let (declared, base64) = match source {
        Source::Url(url) => {
            return Ok(AnthropicBlockParam::Document { source: AnthropicSource::Url(url), title, marker });
        }
        // Uploaded files belong to the operator's account, so no client may name one by its id.
        Source::Id(_) => {
            return Err(unsupported("Invalid 'messages': a file must come with its 'file_data'."));
        }
        Source::Data { media_type, base64 } => (media_type.as_str(), &**base64),
    };
    let media_type = media_types::corrected(declared, base64);
    if IMAGE_TYPES.contains(&media_type) {
        return Ok(AnthropicBlockParam::Image {
            source: AnthropicSource::Base64 { media_type, data: base64 },
            marker,
        });
    }
    let is_pdf = media_type == PDF || media_type.is_empty() && name.is_some_and(is_pdf_name);
    let source = if is_pdf {
        AnthropicSource::Base64 { media_type: PDF, data: base64 }
    } else {
        AnthropicSource::Text(plain_text(base64)?)
    };
    Ok(AnthropicBlockParam::Document { source, title, marker })
}

/// Decodes a text file, whatever its declared type. Binary files are refused.
fn plain_text(base64: &str) -> Result<String, Failure> {
    let refused = || unsupported("Invalid 'messages': this provider takes PDF, text and image files only.");
    let compact: Cow<'_, str> = match base64.contains(char::is_whitespace) {
        true => Cow::Owned(base64.split_whitespace().collect()),
        false => Cow::Borrowed(base64),
    };
    let bytes = BASE64.decode(&*compact).map_err(|_| refused())?;
    let text = String::from_utf8(bytes).map_err(|_| refused())?;
    let is_unreadable = text.trim().is_empty() || text.contains('\0');
    if is_unreadable { Err(refused()) } else { Ok(text) }
}
