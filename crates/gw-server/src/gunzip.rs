//! Decompressing a request body without becoming the victim of a bomb.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use gw_engine::error::{Error, Kind, Result};

use crate::upload::too_large;

/// Decoded bytes per compressed byte that no honest request reaches.
const MAX_RATIO: usize = 100;
/// Below this the ratio says nothing.
const RATIO_FROM: usize = 64 << 10;
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
            return Err(if by_ratio < limit {
                invalid("The request body decompresses to far more than its size.")
            } else {
                too_large(limit)
            });
        }
        decoded.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

fn invalid(message: &'static str) -> Error {
    Error::new(Kind::Invalid, message)
}
