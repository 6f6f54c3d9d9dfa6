//! The size of an image in pixels, read from its header.
//!
//! Only the header counts, however many bytes follow it: providers bill an image by its pixels.

use super::base64::Bytes;

/// Bytes of a JPEG that are searched for its frame header.
const FRAME_WITHIN: usize = 256 * 1024;

/// Width and height; None if the header is not readable.
pub(super) fn size(data: &str) -> Option<(u32, u32)> {
    let start = super::start::<32>(data);
    let (width, height) = match &start {
        [0x89, b'P', b'N', b'G', ..] => (big(&start, 16)?, big(&start, 20)?),
        [b'G', b'I', b'F', b'8', ..] => (little::<2>(&start, 6)?, little::<2>(&start, 8)?),
        [b'R', b'I', b'F', b'F', ..] => webp(&start)?,
        [b'B', b'M', ..] => (length(little::<4>(&start, 18)?), length(little::<4>(&start, 22)?)),
        [0xff, 0xd8, ..] => jpeg(Bytes::of(data).take(FRAME_WITHIN))?,
        _ => return None,
    };
    (width > 0 && height > 0).then_some((width, height))
}

/// A big-endian number.
fn big(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// A little-endian number of up to four bytes.
fn little<const N: usize>(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<N>()?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// The absolute value: a bitmap that is stored top-down has a negative height.
fn length(number: u32) -> u32 {
    i32::from_ne_bytes(number.to_ne_bytes()).unsigned_abs()
}

/// The size of a lossy, lossless or extended WebP.
fn webp(start: &[u8]) -> Option<(u32, u32)> {
    match start.get(12..16)? {
        b"VP8 " if start.get(23..26)? == [0x9d, 0x01, 0x2a] => {
            Some((little::<2>(start, 26)? & 0x3fff, little::<2>(start, 28)? & 0x3fff))
        }
        b"VP8L" if start.get(20)? == &0x2f => {
            let bits = little::<4>(start, 21)?;
            Some((1 + (bits & 0x3fff), 1 + (bits >> 14 & 0x3fff)))
        }
        b"VP8X" => Some((1 + little::<3>(start, 24)?, 1 + little::<3>(start, 27)?)),
        _ => None,
    }
}

/// The first frame of a JPEG. Whole segments are skipped, so the thumbnail inside a segment does not count.
fn jpeg(mut bytes: impl Iterator<Item = u8>) -> Option<(u32, u32)> {
    bytes.nth(1)?;
    loop {
        bytes.find(|byte| *byte == 0xff)?;
        let marker = bytes.find(|byte| *byte != 0xff)?;
        match marker {
            // Markers without a length.
            0x00 | 0x01 | 0xd0..=0xd8 => {}
            // The image data or the end of the file comes before any frame header.
            0xd9 | 0xda => return None,
            // The excluded markers in this range are tables.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                bytes.nth(2)?;
                let height = pair(&mut bytes)?;
                return Some((pair(&mut bytes)?, height));
            }
            _ => {
                let length = usize::try_from(pair(&mut bytes)?).ok()?;
                if length > 2 {
                    bytes.nth(length - 3)?;
                }
            }
        }
    }
}

fn pair(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    Some(u32::from(bytes.next()?) << 8 | u32::from(bytes.next()?))
}
