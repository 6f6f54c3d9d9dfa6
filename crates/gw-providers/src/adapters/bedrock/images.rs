//! Images that a model makes. API Reference, `API_runtime_ImageBlock`, `ImageBlockStart`, `ImageBlockDelta` (November
//! 2026): bytes in base64. A stream sends them in pieces, each encoded on its own.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_wire::failure::Failure;
use gw_wire::reply::Image;
use gw_wire::sse::EVENT_CAP;
use serde::Deserialize;

use crate::adapters::failure::invalid;
use crate::adapters::text::{Text, filled};
use crate::media_sizes::made_image;

/// `ImageBlock`, `ImageBlockStart` or `ImageBlockDelta`.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    format: Option<Text<'a>>,
    #[serde(borrow)]
    source: Option<Source<'a>>,
}

/// `ImageSource`. Bytes in an S3 bucket are ignored, because clients cannot read them.
#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    bytes: Option<Text<'a>>,
}

impl<'a> Block<'a> {
    /// Returns the bytes in base64, if the block holds some.
    pub(super) fn bytes(self) -> Option<Cow<'a, str>> {
        filled(self.source?.bytes)
    }

    /// Returns the complete image.
    pub(super) fn image(mut self) -> Option<Image<'a>> {
        let format = filled(self.format.take());
        Some(image(format.as_deref(), self.bytes()?))
    }

    /// Returns the format, such as `png`, if the block names it.
    pub(super) fn format(&self) -> Option<&str> {
        self.format.as_ref().map(|format| &*format.0)
    }
}

fn image<'a>(format: Option<&str>, base64: Cow<'a, str>) -> Image<'a> {
    let media_type = Cow::Owned(format!("image/{}", format.unwrap_or("png")));
    Image { media_type, tokens: made_image(&base64), base64 }
}

/// An image that arrives in pieces.
#[derive(Debug)]
pub(super) struct Coming {
    format: Option<String>,
    bytes: Bytes,
}

/// The bytes that have arrived.
#[derive(Debug)]
enum Bytes {
    /// Base64 that the next piece can be appended to.
    Base64(String),
    /// Decoded bytes, used after a piece ended within a group of four characters.
    Decoded(Vec<u8>),
}

impl Coming {
    pub(super) fn new(format: Option<&str>) -> Self {
        Self { format: format.map(str::to_owned), bytes: Bytes::Base64(String::new()) }
    }

    /// Returns the capacity that the image holds, in bytes.
    pub(super) fn held(&self) -> usize {
        match &self.bytes {
            Bytes::Base64(text) => text.capacity(),
            Bytes::Decoded(bytes) => bytes.capacity(),
        }
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// The image is larger than 16 MiB, or the piece is not base64.
    pub(super) fn push(&mut self, piece: &str) -> Result<(), Failure> {
        let came = match &self.bytes {
            Bytes::Base64(text) => text.len(),
            Bytes::Decoded(bytes) => bytes.len(),
        };
        if came.saturating_add(piece.len()) > EVENT_CAP {
            return Err(invalid("an image is larger than 16 MiB"));
        }
        if let Bytes::Base64(text) = &mut self.bytes {
            if text.len() % 4 == 0 && !text.ends_with('=') {
                let (room, needed) = (text.capacity(), came + piece.len());
                if needed > room {
                    // The capacity doubles, up to the largest image.
                    text.reserve_exact(needed.max(room.saturating_mul(2).min(EVENT_CAP)) - came);
                }
                text.push_str(piece);
                return Ok(());
            }
            self.bytes = Bytes::Decoded(decoded(text)?);
        }
        if let Bytes::Decoded(bytes) = &mut self.bytes {
            bytes.extend_from_slice(&decoded(piece)?);
        }
        Ok(())
    }

    /// Returns the complete image; None if no bytes arrived.
    pub(super) fn whole(self) -> Option<Image<'static>> {
        let base64 = match self.bytes {
            Bytes::Base64(text) => text,
            Bytes::Decoded(bytes) => STANDARD.encode(bytes),
        };
        (!base64.is_empty()).then(|| image(self.format.as_deref(), Cow::Owned(base64)))
    }
}

fn decoded(base64: &str) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(base64).map_err(|_| invalid("an image is not base64"))
}

#[cfg(test)]
mod tests {
    use super::Coming;

    #[test]
    fn pieces_are_joined_however_they_were_encoded() {
        for pieces in [&["AQIDBAUG"][..], &["AQID", "BAUG"], &["AQ==", "AgM=", "BAUG"], &["AQIDBA==", "BQY="]]
        {
            let mut coming = Coming::new(Some("webp"));
            pieces.iter().for_each(|piece| coming.push(piece).unwrap());
            let image = coming.whole().unwrap();
            assert_eq!((&*image.media_type, &*image.base64), ("image/webp", "AQIDBAUG"), "{pieces:?}");
        }
        assert!(Coming::new(None).whole().is_none());
        assert!(Coming::new(None).push("AQ==").is_ok());
        let mut broken = Coming::new(None);
        broken.push("AQ==").unwrap();
        assert!(broken.push("?").is_err());
    }
}
