//! How much of a picture, a document or a sound a request holds, as far as its first bytes tell: the base of what its
//! prompt costs.
//!
//! Nothing here refuses a request. What cannot be measured is of unknown size, and whoever counts its tokens takes the
//! most that a provider bills. All of it is linear in the text, and none of it keeps the decoded bytes.

mod audio;
mod base64;
mod image;
mod pdf;

use self::base64::{Bytes, decoded_len};
pub(super) use self::pdf::Unpacker;
use super::Beside;
use super::references::is_stored;

/// A piece of a prompt that is billed by what it shows or plays, not by its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A picture.
    Image {
        /// Pixels; 0 together with the height = unknown.
        width: u32,
        /// Pixels.
        height: u32,
        /// What the client asked for.
        detail: Detail,
    },
    /// Pages of a document, 1..=1000.
    Pages(u32),
    /// A sound of this length.
    Audio {
        /// Never less than it lasts, as far as its bytes tell.
        milliseconds: u64,
    },
    /// A film of about this length.
    Video {
        /// By its bytes, as if it were small for its length.
        milliseconds: u64,
    },
}

/// How closely a client wants a picture to be looked at (`image_url.detail`). Only OpenAI's dialect reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The provider decides: absent, `auto` or a word that we do not know.
    #[default]
    Auto,
    /// `low`: in the size of a thumbnail.
    Low,
    /// `high`.
    High,
    /// `original`: every pixel.
    Original,
}

impl Detail {
    /// Of the client's word.
    pub(super) fn named(word: &str) -> Self {
        match word {
            "low" => Self::Low,
            "high" => Self::High,
            "original" => Self::Original,
            _ => Self::Auto,
        }
    }
}

/// What a part adds to the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    Medium(Medium),
    /// Text, or what nobody knows how to read otherwise.
    Bytes(u64),
}

impl Beside {
    /// Counts a part in.
    pub(super) fn add(&mut self, measured: Measured) {
        match measured {
            Measured::Medium(medium) => self.media.push(medium),
            Measured::Bytes(bytes) => self.bytes = self.bytes.saturating_add(bytes),
        }
    }
}

/// Pages of a document that only the provider can see: an address or the id of a stored file.
const UNSEEN_PAGES: u32 = 20;

/// Bytes of a second of film at a rate that hardly any film is below.
const FILM_RATE: u64 = 25_000;

/// A picture of unknown size.
pub(super) const fn unseen(detail: Detail) -> Measured {
    Measured::Medium(Medium::Image { width: 0, height: 0, detail })
}

/// A picture at an address or in a data URL.
pub(super) fn image(url: &str, detail: Detail, unpacker: &mut Unpacker) -> Measured {
    match Place::of(url) {
        Place::Elsewhere => unseen(detail),
        Place::Here { media_type, data } => {
            File { media_type, name: None, data, detail }.measure(Some(Class::Image), unpacker)
        }
    }
}

/// Width and height of a picture in base64; None when its header does not tell.
#[must_use]
pub fn image_size(base64: &str) -> Option<(u32, u32)> {
    image::size(base64)
}

/// A file, by what the client sent of it and what it is called.
pub(super) fn file(data: Option<&str>, name: Option<&str>, unpacker: &mut Unpacker) -> Measured {
    let data = data.unwrap_or_default();
    if let (Place::Here { media_type, data }, false) = (Place::of(data), data.is_empty()) {
        return File { media_type, name, data, detail: Detail::Auto }.measure(None, unpacker);
    }
    let path = data.split(['?', '#']).next().unwrap_or_default();
    match name.and_then(Class::of_name).or_else(|| Class::of_name(path)) {
        Some(Class::Image) => unseen(Detail::Auto),
        _ => Measured::Medium(Medium::Pages(UNSEEN_PAGES)),
    }
}

/// A sound in a format that the client names.
pub(super) fn audio(data: &str, format: &str) -> Measured {
    let data = match Place::of(data) {
        Place::Here { data, .. } => data,
        Place::Elsewhere => data,
    };
    Measured::Medium(Medium::Audio { milliseconds: audio::milliseconds(data, format) })
}

/// Where the bytes are.
enum Place<'a> {
    /// At an address or at the provider.
    Elsewhere,
    /// Here, as base64.
    Here { media_type: &'a str, data: &'a str },
}

impl<'a> Place<'a> {
    /// As the adapters read it: a data URL, an address, or bare base64.
    fn of(url: &'a str) -> Self {
        if begins(url, "http://") || begins(url, "https://") || is_stored(url) {
            return Self::Elsewhere;
        }
        if !begins(url, "data:") {
            return Self::Here { media_type: "", data: url };
        }
        let (head, data) = url.split_once(',').unwrap_or((url, ""));
        let media_type = head.get("data:".len()..).unwrap_or_default().split(';').next().unwrap_or_default();
        Self::Here { media_type: media_type.trim(), data }
    }
}

fn begins(text: &str, with: &str) -> bool {
    text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Image,
    Pdf,
    Audio,
    Video,
    /// Text, or bytes that a provider makes text of.
    Text,
}

/// What names end with.
const ENDINGS: [(Class, &[&str]); 5] = [
    (Class::Image, &["png", "jpg", "jpeg", "webp", "gif", "heic", "heif", "avif", "bmp", "tif", "tiff"]),
    (Class::Pdf, &["pdf"]),
    (Class::Audio, &["wav", "mp3", "ogg", "oga", "opus", "flac", "aac", "m4a"]),
    (Class::Video, &["mp4", "m4v", "mov", "webm", "mpeg", "mpg", "avi", "mkv", "wmv", "3gp"]),
    (Class::Text, &["txt", "md", "html", "htm", "css", "csv", "xml", "rtf", "json", "js", "py"]),
];

impl Class {
    /// Of a media type; None when it tells nothing.
    fn of_type(media_type: &str) -> Option<Self> {
        if media_type.is_empty() || media_type.eq_ignore_ascii_case("application/octet-stream") {
            return None;
        }
        let known = [("image/", Self::Image), ("audio/", Self::Audio), ("video/", Self::Video)];
        let known = known.into_iter().find(|(start, _)| begins(media_type, start)).map(|(_, class)| class);
        let is_pdf = media_type.eq_ignore_ascii_case("application/pdf");
        Some(known.unwrap_or(if is_pdf { Self::Pdf } else { Self::Text }))
    }

    /// Of a name's ending; None when it tells nothing.
    fn of_name(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit_once('.')?;
        let is_it = |endings: &[&str]| endings.iter().any(|known| ending.eq_ignore_ascii_case(known));
        ENDINGS.iter().find(|(_, endings)| is_it(endings)).map(|(class, _)| *class)
    }

    /// Of the first bytes; None when they tell nothing.
    fn of_mark(start: &[u8]) -> Option<Self> {
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

/// A file that is here.
struct File<'a> {
    /// As the client says; may be empty.
    media_type: &'a str,
    name: Option<&'a str>,
    /// Base64.
    data: &'a str,
    /// If it is a picture.
    detail: Detail,
}

impl File<'_> {
    /// What a text file looks like does not matter: its provider reads all of it.
    fn class(&self, guess: Option<Class>) -> Class {
        match Class::of_type(self.media_type).or_else(|| self.name.and_then(Class::of_name)) {
            Some(Class::Text) => Class::Text,
            said => Class::of_mark(&start::<16>(self.data)).or(said).or(guess).unwrap_or(Class::Text),
        }
    }

    /// `guess`: what it is when nothing tells.
    fn measure(&self, guess: Option<Class>, unpacker: &mut Unpacker) -> Measured {
        let Self { media_type, data, detail, .. } = *self;
        Measured::Medium(match self.class(guess) {
            Class::Image => {
                let (width, height) = image::size(data).unwrap_or_default();
                Medium::Image { width, height, detail }
            }
            Class::Pdf => Medium::Pages(pdf::pages(data, unpacker)),
            Class::Audio => {
                let format = media_type.rsplit('/').next().unwrap_or_default();
                Medium::Audio { milliseconds: audio::milliseconds(data, format) }
            }
            Class::Video => {
                let milliseconds = decoded_len(data).saturating_mul(1000).div_ceil(FILM_RATE);
                Medium::Video { milliseconds }
            }
            Class::Text => return Measured::Bytes(decoded_len(data)),
        })
    }
}

/// The first bytes, and zeros where there are fewer.
fn start<const N: usize>(data: &str) -> [u8; N] {
    let mut start = [0; N];
    Bytes::of(data).fill(&mut start);
    start
}

#[cfg(test)]
mod tests;
