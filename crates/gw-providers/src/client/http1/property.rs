//! The property of the reader of responses for any bytes: nothing panics, and the result does not depend on how the network
//! cuts them.
//!
//! The unit tests and the target `http1_response` in `fuzz/`, which include this file, call the same function.

use std::iter;

use bytes::BytesMut;
use http::{HeaderMap, Method, StatusCode};

use super::framing::{BodyFraming, BrokenFraming};
use super::head::{self, ResponseHead};

/// The end of what was read of a response.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The head is invalid. Which of its faults is found first depends on the cuts.
    InHead,
    /// The head is not complete.
    BeforeBody,
    /// The body breaks its framing.
    InBody(BrokenFraming),
    /// The body is complete or not, and these bytes come after it.
    Body { is_over: bool, rest: Vec<u8> },
}

/// The parts of a response that were read.
#[derive(Debug, PartialEq, Eq)]
struct ResponseRead {
    head: Option<(StatusCode, HeaderMap, bool)>,
    data: Vec<u8>,
    ended: Ended,
}

/// Checks the bytes as the response to a POST and to a HEAD, in one piece, byte by byte, and cut at places that depend on the
/// bytes only, so that a finding can be repeated.
pub(crate) fn holds(input: &[u8]) {
    for method in [Method::POST, Method::HEAD] {
        for by_chunk in [false, true] {
            let whole = read(iter::once(input), &method, by_chunk);
            let single = read(input.chunks(1), &method, by_chunk);
            assert_eq!(whole, single, "byte by byte");
            let cut = read(input.chunk_by(|before, after| (before ^ after) % 4 > 0), &method, by_chunk);
            assert_eq!(whole, cut, "cut in pieces");
        }
    }
}

/// Reads a response that comes in these pieces.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, method: &Method, by_chunk: bool) -> ResponseRead {
    let (mut buffer, mut open) = (BytesMut::new(), None);
    let mut response = ResponseRead { head: None, data: Vec::new(), ended: Ended::BeforeBody };
    // After the last piece a head is read once more: a fault may come without a line end.
    for piece in pieces.map(Some).chain(iter::once(None)) {
        buffer.extend_from_slice(piece.unwrap_or_default());
        if open.is_none() && piece.is_none_or(|piece| buffer.len() == piece.len() || piece.contains(&b'\n')) {
            match head::read(&mut buffer, method) {
                Ok(None) => {}
                Ok(Some(head)) => open = Some(begin(head, &mut response)),
                Err(_) => {
                    response.ended = Ended::InHead;
                    return response;
                }
            }
        }
        let Some(framing) = &mut open else { continue };
        if let Err(fault) = read_body(framing, &mut buffer, by_chunk, &mut response.data) {
            response.ended = Ended::InBody(fault);
            return response;
        }
    }
    if let Some(framing) = open {
        response.ended = Ended::Body { is_over: framing.is_over(), rest: buffer.to_vec() };
    }
    response
}

/// Keeps the head. Returns the framing of the body.
fn begin(head: ResponseHead, response: &mut ResponseRead) -> BodyFraming {
    let ResponseHead { status, headers, framing, stays_open } = head;
    assert!(!stays_open || !matches!(framing, BodyFraming::UntilClose), "the end of the body is the end");
    let is_ambiguous = headers.contains_key("transfer-encoding") && headers.contains_key("content-length");
    assert!(
        !is_ambiguous || !stays_open || framing.is_over(),
        "two framings, and another response may come after them"
    );
    response.head = Some((status, headers, stays_open));
    framing
}

/// Decodes the bytes of the body that have arrived.
fn read_body(
    framing: &mut BodyFraming,
    buffer: &mut BytesMut,
    by_chunk: bool,
    data: &mut Vec<u8>,
) -> Result<(), BrokenFraming> {
    while !buffer.is_empty() && !framing.is_over() {
        let decoded = framing.decode(buffer, by_chunk)?;
        assert!(decoded.data <= decoded.used && decoded.used > 0, "{decoded:?}");
        assert_eq!(decoded.is_over, framing.is_over());
        let mut piece = buffer.split_to(decoded.used);
        piece.truncate(decoded.data);
        data.extend_from_slice(&piece);
    }
    Ok(())
}

// `fuzz/` has this file in another place.
#[cfg(test)]
#[path = "property/tests.rs"]
mod tests;
