//! Decompressing a request body without becoming the victim of a bomb.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use gw_engine::error::{Error, Kind, Result};

use crate::upload::too_large;

/// Decoded bytes per compressed byte that no honest request reaches.
const MAX_RATIO: usize = 100;
/// Below this the ratio says nothing: a megabyte of repetitive text is an honest request and hurts nobody.
const RATIO_FROM: usize = 1 << 20;
/// Larger inputs are decoded off the threads that serve the network.
const INLINE: usize = 16 << 10;

/// Decodes gzip; the result has at most `limit` bytes.
pub(crate) async fn decode(compressed: Bytes, limit: usize) -> Result<Bytes> {
    if compressed.len() <= INLINE {
        return decode_here(&compressed, limit);
    }
    let decoded = tokio::task::spawn_blocking(move || decode_here(&compressed, limit)).await;
    decoded.unwrap_or_else(|_| Err(Error::new(Kind::InternalError, "The request body could not be decoded.")))
}

fn decode_here(compressed: &[u8], limit: usize) -> Result<Bytes> {
    let mut decoder = MultiGzDecoder::new(compressed);
    let by_ratio = compressed.len().saturating_mul(MAX_RATIO).max(RATIO_FROM);
    let cap = limit.min(by_ratio);
    let mut decoded = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let count = decoder.read(&mut piece).map_err(|_| invalid("The request body is not valid gzip."))?;
        if count == 0 {
            return Ok(decoded.into());
        }
        if decoded.len() + count > cap {
            return Err(too_large(cap));
        }
        decoded.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

fn invalid(message: &'static str) -> Error {
    Error { code: Some("invalid_json".into()), ..Error::new(Kind::Invalid, message) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(bytes: &[u8]) -> Bytes {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    #[test]
    fn repetitive_text_is_honest_up_to_a_megabyte_and_too_large_beyond_the_ratio() {
        let honest = vec![b'a'; 900 << 10];
        assert_eq!(decode_here(&packed(&honest), 32 << 20).unwrap(), honest);
        let bomb = decode_here(&packed(&vec![b'a'; 4 << 20]), 32 << 20).unwrap_err();
        assert_eq!((bomb.status(), bomb.code()), (413, "request_too_large"));
    }

    #[test]
    fn what_is_no_gzip_is_no_json_either() {
        let broken = decode_here(b"not gzip", 1 << 20).unwrap_err();
        assert_eq!((broken.status(), broken.code()), (400, "invalid_json"));
    }
}
