//! Images that a model makes. API Reference, `API_runtime_ImageBlock`, `ImageBlockStart`, `ImageBlockDelta` (November
//! 2026): bytes in base64. A stream sends them in pieces, each encoded on its own.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_wire::failure::Failure;
use gw_wire::reply::Image;
use gw_wire::sse::MAX_EVENT_BYTES;
use serde::Deserialize;

use crate::adapters::failure::invalid;
use crate::adapters::text::{Text, filled};
use crate::media_sizes::made_image;

/// `ImageBlock`, `ImageBlockStart` or `ImageBlockDelta`.
#[derive(Deserialize)]
pub(super) struct BedrockImage<'a> {
    #[serde(borrow)]
    format: Option<Text<'a>>,
    #[serde(borrow)]
    source: Option<BedrockImageSource<'a>>,
}

/// `ImageSource`. Bytes in an S3 bucket are ignored, because clients cannot read them.
#[derive(Deserialize)]
struct BedrockImageSource<'a> {
    #[serde(borrow)]
    bytes: Option<Text<'a>>,
}

impl<'a> BedrockImage<'a> {
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
pub(super) struct PartialImage {
    format: Option<String>,
    bytes: ImageBytes,
}

/// The bytes that have arrived.
#[derive(Debug)]
enum ImageBytes {
    /// Base64 that the next piece can be appended to.
    Base64(String),
    /// Decoded bytes, used after a piece ended within a group of four characters.
    Decoded(Vec<u8>),
}

impl PartialImage {
    pub(super) fn new(format: Option<&str>) -> Self {
        Self { format: format.map(str::to_owned), bytes: ImageBytes::Base64(String::new()) }
    }

    /// Returns the capacity that the image holds, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.bytes {
            ImageBytes::Base64(text) => text.capacity(),
            ImageBytes::Decoded(bytes) => bytes.capacity(),
        }
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// The image is larger than 16 MiB, or the piece is not base64.
    pub(super) fn push(&mut self, piece: &str) -> Result<(), Failure> {
        let held_len = match &self.bytes {
            ImageBytes::Base64(text) => text.len(),
            ImageBytes::Decoded(bytes) => bytes.len(),
        };
        if held_len.saturating_add(piece.len()) > MAX_EVENT_BYTES {
            return Err(invalid("an image is larger than 16 MiB"));
        }
        if let ImageBytes::Base64(text) = &mut self.bytes {
            if text.len() % 4 == 0 && !text.ends_with('=') {
                let (room, needed) = (text.capacity(), held_len + piece.len());
                if needed > room {
                    // The capacity doubles, up to the largest image.
                    text.reserve_exact(needed.max(room.saturating_mul(2).min(MAX_EVENT_BYTES)) - held_len);
                }
                text.push_str(piece);
                return Ok(());
            }
            self.bytes = ImageBytes::Decoded(decode_base64(text)?);
        }
        if let ImageBytes::Decoded(bytes) = &mut self.bytes {
            bytes.extend_from_slice(&decode_base64(piece)?);
        }
        Ok(())
    }

    /// Returns the complete image; None if no bytes arrived.
    pub(super) fn finish(self) -> Option<Image<'static>> {
        let base64 = match self.bytes {
            ImageBytes::Base64(text) => text,
            ImageBytes::Decoded(bytes) => STANDARD.encode(bytes),
        };
        (!base64.is_empty()).then(|| image(self.format.as_deref(), Cow::Owned(base64)))
    }
}

fn decode_base64(base64: &str) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(base64).map_err(|_| invalid("an image is not base64"))
}

#[cfg(test)]
mod tests {
    use super::PartialImage;

    #[test]
    fn image_pieces_are_joined_for_every_encoding() {
        for pieces in [&["AQIDBAUG"][..], &["AQID", "BAUG"], &["AQ==", "AgM=", "BAUG"], &["AQIDBA==", "BQY="]]
        {
            let mut partial = PartialImage::new(Some("webp"));
            pieces.iter().for_each(|piece| partial.push(piece).unwrap());
            let image = partial.finish().unwrap();
            assert_eq!((&*image.media_type, &*image.base64), ("image/webp", "AQIDBAUG"), "{pieces:?}");
        }
        assert!(PartialImage::new(None).finish().is_none());
        assert!(PartialImage::new(None).push("AQ==").is_ok());
        let mut broken = PartialImage::new(None);
        broken.push("AQ==").unwrap();
        assert!(broken.push("?").is_err());
    }
}
