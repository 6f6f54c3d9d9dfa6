//! Measures the images, documents and audio of a request by their first bytes: the basis of the prompt's cost estimate.
//!
//! Measuring never refuses a request. Media that cannot be measured have an unknown size, and the token estimate then
//! assumes the most that a provider bills. The work is linear in the text, and decoded bytes are not kept.

mod audio;
mod base64;
mod forwarded;
mod image;
mod media_places;
mod pdf;

use self::base64::{Bytes, decoded_len};
pub use self::forwarded::ForwardedPrompt;
pub(super) use self::pdf::Unpacker;
use super::references::is_stored;
use crate::json::{Kind, View};

/// A part of a prompt that is billed by its content, not by its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// An image.
    Image {
        /// Width in pixels; 0 together with the height = unknown.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// The requested detail.
        detail: Detail,
    },
    /// Pages of a document, 1..=1000.
    Pages(u32),
    /// Audio.
    Audio {
        /// Upper bound of the duration, as far as the bytes tell.
        milliseconds: u64,
    },
    /// A video.
    Video {
        /// Duration estimated from the bytes at a low bit rate.
        milliseconds: u64,
    },
}

/// How closely the model looks at an image (`image_url.detail`). Only OpenAI's dialect has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The provider decides: absent, `auto` or an unknown word.
    #[default]
    Auto,
    /// `low`: at the size of a thumbnail.
    Low,
    /// `high`.
    High,
    /// `original`: at the original size.
    Original,
}

impl Detail {
    /// The detail of the client's word.
    pub(super) fn named(word: &str) -> Self {
        match word {
            "low" => Self::Low,
            "high" => Self::High,
            "original" => Self::Original,
            _ => Self::Auto,
        }
    }
}

/// The content of a prompt besides the text of its messages: a part of the cost estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptExtras {
    /// Number of messages, prompts or inputs. The provider adds tokens around each.
    pub frames: u64,
    /// Images, documents, audio and video.
    pub media: Vec<Medium>,
    /// Bytes of text files, of a schema, of a suffix or a prediction, and of parts and members that only the provider
    /// understands.
    pub bytes: u64,
}

/// The bytes of a value that a provider may read as text. Numbers and truth values are settings.
pub(super) fn value_bytes(value: View<'_>) -> u64 {
    let bytes = match value.kind() {
        Kind::String => value.string_len(),
        Kind::Array | Kind::Object => value.text().len(),
        Kind::Null | Kind::Boolean | Kind::Integer | Kind::Decimal => 0,
    };
    bytes as u64
}

/// The size of a part of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartSize {
    Medium(Medium),
    /// Text, or content of an unknown kind.
    Bytes(u64),
}

impl PromptExtras {
    /// Adds a part.
    pub(super) fn add(&mut self, size: PartSize) {
        match size {
            PartSize::Medium(medium) => self.media.push(medium),
            PartSize::Bytes(bytes) => self.bytes = self.bytes.saturating_add(bytes),
        }
    }
}

/// Assumed pages of a document that only the provider can read: at a URL, or a stored file.
const UNSEEN_PAGES: u32 = 20;

/// Bytes per second of a video at a rate that hardly any video is below.
const MIN_VIDEO_BYTES_PER_SECOND: u64 = 25_000;

/// An image of unknown size.
pub(super) const fn unknown_image(detail: Detail) -> PartSize {
    PartSize::Medium(Medium::Image { width: 0, height: 0, detail })
}

/// The size of an image at a URL or in a data URL.
pub(super) fn image(url: &str, detail: Detail, unpacker: &mut Unpacker) -> PartSize {
    match MediaSource::of(url) {
        MediaSource::Elsewhere => unknown_image(detail),
        MediaSource::Inline { media_type, data } => {
            File { media_type, name: None, data, detail }.measure(Some(FileClass::Image), unpacker)
        }
    }
}

/// Width and height of an image in base64; None if its header is not readable.
#[must_use]
pub fn image_size(base64: &str) -> Option<(u32, u32)> {
    image::size(base64)
}

/// The size of a file, by its content and its name.
pub(super) fn file(data: Option<&str>, name: Option<&str>, unpacker: &mut Unpacker) -> PartSize {
    let data = data.unwrap_or_default();
    if let (MediaSource::Inline { media_type, data }, false) = (MediaSource::of(data), data.is_empty()) {
        return File { media_type, name, data, detail: Detail::Auto }.measure(None, unpacker);
    }
    let path = data.split(['?', '#']).next().unwrap_or_default();
    match name.and_then(FileClass::of_name).or_else(|| FileClass::of_name(path)) {
        Some(FileClass::Image) => unknown_image(Detail::Auto),
        _ => PartSize::Medium(Medium::Pages(UNSEEN_PAGES)),
    }
}

/// The size of audio in the client's format.
pub(super) fn audio(data: &str, format: &str) -> PartSize {
    let data = match MediaSource::of(data) {
        MediaSource::Inline { data, .. } => data,
        MediaSource::Elsewhere => data,
    };
    PartSize::Medium(Medium::Audio { milliseconds: audio::milliseconds(data, format) })
}

/// Where the bytes of a medium are.
enum MediaSource<'a> {
    /// At a URL or at the provider.
    Elsewhere,
    /// In the request, as base64.
    Inline { media_type: &'a str, data: &'a str },
}

impl<'a> MediaSource<'a> {
    /// Reads a data URL, a URL or bare base64, as the adapters do.
    fn of(url: &'a str) -> Self {
        if begins(url, "http://") || begins(url, "https://") || is_stored(url) {
            return Self::Elsewhere;
        }
        if !begins(url, "data:") {
            return Self::Inline { media_type: "", data: url };
        }
        let (head, data) = url.split_once(',').unwrap_or((url, ""));
        let media_type = head.get("data:".len()..).unwrap_or_default().split(';').next().unwrap_or_default();
        Self::Inline { media_type: media_type.trim(), data }
    }
}

fn begins(text: &str, with: &str) -> bool {
    text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// The class of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileClass {
    Image,
    Pdf,
    Audio,
    Video,
    /// Text, or content that a provider turns into text.
    Text,
}

/// The file name extensions of each class.
const EXTENSIONS: [(FileClass, &[&str]); 5] = [
    (FileClass::Image, &["png", "jpg", "jpeg", "webp", "gif", "heic", "heif", "avif", "bmp", "tif", "tiff"]),
    (FileClass::Pdf, &["pdf"]),
    (FileClass::Audio, &["wav", "mp3", "ogg", "oga", "opus", "flac", "aac", "m4a"]),
    (FileClass::Video, &["mp4", "m4v", "mov", "webm", "mpeg", "mpg", "avi", "mkv", "wmv", "3gp"]),
    (FileClass::Text, &["txt", "md", "html", "htm", "css", "csv", "xml", "rtf", "json", "js", "py"]),
];

impl FileClass {
    /// The class of a media type; None if it is empty or generic.
    fn of_type(media_type: &str) -> Option<Self> {
        if media_type.is_empty() || media_type.eq_ignore_ascii_case("application/octet-stream") {
            return None;
        }
        let known = [("image/", Self::Image), ("audio/", Self::Audio), ("video/", Self::Video)];
        let known = known.into_iter().find(|(start, _)| begins(media_type, start)).map(|(_, class)| class);
        let is_pdf = media_type.eq_ignore_ascii_case("application/pdf");
        Some(known.unwrap_or(if is_pdf { Self::Pdf } else { Self::Text }))
    }

    /// The class of a file name's extension; None if it is unknown.
    fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        let matches = |known: &[&str]| known.iter().any(|known| extension.eq_ignore_ascii_case(known));
        EXTENSIONS.iter().find(|(_, known)| matches(known)).map(|(class, _)| *class)
    }

    /// The class of the first bytes; None if they are unknown.
    fn of_magic(start: &[u8]) -> Option<Self> {
        Some(match start {
            [b'%', b'P', b'D', b'F', b'-', ..] => Self::Pdf,
            [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] | [b'G', b'I', b'F', b'8', ..] => {
                Self::Image
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Image,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Self::Audio,
            [b'I', b'D', b'3', ..] | [b'f', b'L', b'a', b'C', ..] | [b'O', b'g', b'g', b'S', ..] => {
                Self::Audio
            }
            [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => match brand {
                [b'h', b'e', b'i' | b'v', ..] | [b'a', b'v', b'i', ..] | [b'm', b'i', b'f', ..] => {
                    Self::Image
                }
                [b'M', b'4', b'A', ..] => Self::Audio,
                _ => Self::Video,
            },
            _ => return None,
        })
    }
}

/// A file in the request.
struct File<'a> {
    /// The client's media type; may be empty.
    media_type: &'a str,
    name: Option<&'a str>,
    /// Base64.
    data: &'a str,
    /// The detail if it is an image.
    detail: Detail,
}

impl File<'_> {
    /// The client's text type wins, because the provider then reads the content as text. Otherwise the content decides.
    fn class(&self, guess: Option<FileClass>) -> FileClass {
        match FileClass::of_type(self.media_type).or_else(|| self.name.and_then(FileClass::of_name)) {
            Some(FileClass::Text) => FileClass::Text,
            declared => {
                let magic = FileClass::of_magic(&start::<16>(self.data));
                magic.or(declared).or(guess).unwrap_or(FileClass::Text)
            }
        }
    }

    /// The size; `guess` is the class of a file without any hint.
    fn measure(&self, guess: Option<FileClass>, unpacker: &mut Unpacker) -> PartSize {
        let Self { media_type, data, detail, .. } = *self;
        PartSize::Medium(match self.class(guess) {
            FileClass::Image => {
                let (width, height) = image::size(data).unwrap_or_default();
                Medium::Image { width, height, detail }
            }
            FileClass::Pdf => Medium::Pages(pdf::pages(data, unpacker)),
            FileClass::Audio => {
                let format = media_type.rsplit('/').next().unwrap_or_default();
                Medium::Audio { milliseconds: audio::milliseconds(data, format) }
            }
            FileClass::Video => {
                let milliseconds =
                    decoded_len(data).saturating_mul(1000).div_ceil(MIN_VIDEO_BYTES_PER_SECOND);
                Medium::Video { milliseconds }
            }
            FileClass::Text => return PartSize::Bytes(decoded_len(data)),
        })
    }
}

/// The first bytes, padded with zeros.
fn start<const N: usize>(data: &str) -> [u8; N] {
    let mut start = [0; N];
    Bytes::of(data).fill(&mut start);
    start
}

#[cfg(test)]
mod tests;
