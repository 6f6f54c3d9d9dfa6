//! Decompresses request bodies, within limits that stop a gzip bomb.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use gw_engine::cpu_pool::{CpuPool, offload};
use gw_engine::error::{Error, Kind, Result};

/// The most decoded bytes per compressed byte. No honest request reaches it.
const MAX_RATIO: usize = 100;
/// Up to this size the ratio does not matter: a megabyte of repetitive text is an honest request.
const MIN_RATIO_BYTES: usize = 1 << 20;
/// The most gzip members of one body. Each member costs a decoder. Tools that compress in parallel write one member for
/// every 64 KiB or more.
const MAX_MEMBERS: usize = 2048;
/// Larger inputs are decoded on the CPU pool instead of the worker.
const MAX_INLINE_BYTES: usize = 2 << 10;

/// Decodes gzip. The result has at most `limit` bytes.
pub(crate) async fn decode(compressed: Bytes, limit: usize, cpu: &CpuPool) -> Result<Bytes> {
    if compressed.len() <= MAX_INLINE_BYTES {
        return decode_here(&compressed, limit);
    }
    cpu.host(offload(move || decode_here(&compressed, limit))).await
}

fn decode_here(compressed: &[u8], limit: usize) -> Result<Bytes> {
    let by_ratio = compressed.len().saturating_mul(MAX_RATIO).max(MIN_RATIO_BYTES);
    let cap = limit.min(by_ratio);
    let mut decoded = Vec::new();
    let mut rest = compressed;
    for _ in 0..MAX_MEMBERS {
        rest = decode_member(rest, cap, &mut decoded)?;
        if rest.is_empty() {
            return Ok(decoded.into());
        }
    }
    Err(invalid("The request body has more than 2048 gzip members."))
}

/// Decodes the first gzip member, and returns the bytes behind it.
fn decode_member<'c>(compressed: &'c [u8], cap: usize, decoded: &mut Vec<u8>) -> Result<&'c [u8]> {
    let mut decoder = GzDecoder::new(compressed);
    let mut piece = [0; 16 << 10];
    loop {
        let count = decoder.read(&mut piece).map_err(|_| invalid("The request body is not valid gzip."))?;
        if count == 0 {
            return Ok(decoder.into_inner());
        }
        if decoded.len() + count > cap {
            return Err(too_large(cap));
        }
        decoded.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

/// The 413 of a body that is larger than `limit` bytes.
pub(crate) fn too_large(limit: usize) -> Error {
    let message = format!("The request body is too large: the limit is {limit} bytes.");
    Error::new(Kind::RequestTooLarge, message)
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
    fn repetitive_text_may_have_a_megabyte_and_a_bomb_is_too_large() {
        let honest = vec![b'a'; 900 << 10];
        assert_eq!(decode_here(&packed(&honest), 32 << 20).unwrap(), honest);
        let bomb = decode_here(&packed(&vec![b'a'; 4 << 20]), 32 << 20).unwrap_err();
        assert_eq!((bomb.status(), bomb.code()), (413, "request_too_large"));
    }

    #[test]
    fn members_are_joined_and_too_many_are_refused() {
        let members = |count: usize| packed(b"ab").repeat(count);
        assert_eq!(decode_here(&members(3), 1 << 20).unwrap(), b"ababab"[..]);
        assert_eq!(decode_here(&members(MAX_MEMBERS), 1 << 20).unwrap().len(), 2 * MAX_MEMBERS);
        let refused = decode_here(&packed(b"").repeat(MAX_MEMBERS + 1), 32 << 20).unwrap_err();
        assert_eq!((refused.status(), refused.code()), (400, "invalid_json"));
        assert!(refused.message.contains("2048 gzip members"), "{}", refused.message);
    }

    #[test]
    fn a_body_that_is_not_gzip_is_invalid_json() {
        let broken = decode_here(b"not gzip", 1 << 20).unwrap_err();
        assert_eq!((broken.status(), broken.code()), (400, "invalid_json"));
    }
}
