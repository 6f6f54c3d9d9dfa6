//! Reading a request's body: its type, its size, its pace, its compression.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gw_engine::cpu_pool::{CpuPool, LIGHT_BYTES};
use gw_engine::error::{Error, Kind, Result};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::gunzip;
use crate::head_errors::headers_too_large;

/// What a body's own error becomes.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Bytes kept before a length that the client only claims is believed.
const TRUSTED: usize = 64 << 10;
/// Room made for a length that the client only claims: pages that nothing is written to cost no memory.
const ROOM: usize = 256 << 10;
/// Beyond some patience a body must arrive, and an answer must be taken, at this rate, however steadily it drips.
pub(crate) const SLOWEST_BYTES_PER_SECOND: u64 = 16 << 10;
/// That patience, in body timeouts.
const PATIENCE: u32 = 4;

/// The largest header list of an HTTP/2 request, counted as RFC 9113 counts it.
const MAX_HEADER_LIST: usize = 16 << 10;
/// What that count adds for each header.
const HEADER_OVERHEAD: usize = 32;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

/// What an upload may cost.
#[derive(Clone, Debug)]
pub(crate) struct UploadLimits {
    pub(crate) bytes: usize,
    pub(crate) timeout: Duration,
    pub(crate) memory: Arc<Memory>,
}

/// Bytes of large request bodies held at once, over all requests.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicUsize,
    limit: usize,
}

/// A part of [`Memory`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit })
    }

    fn share(self: &Arc<Self>) -> Share {
        Share { memory: Arc::clone(self), bytes: 0 }
    }
}

impl Share {
    /// Makes this share at least so large; bodies up to the trusted size are free.
    fn cover(&mut self, bytes: usize) -> Result<()> {
        if bytes <= TRUSTED || bytes <= self.bytes {
            return Ok(());
        }
        let more = bytes - self.bytes;
        let before = self.memory.used.fetch_add(more, Ordering::AcqRel);
        self.bytes = bytes;
        if before.saturating_add(more) > self.memory.limit {
            return Err(overloaded("The gateway is holding as many large requests as it can."));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// 503 of a gateway that could serve a moment later.
pub(crate) fn overloaded(message: &'static str) -> Error {
    Error::new(Kind::NoAvailableProvider, message).retry_after(Duration::from_secs(1))
}

/// `Transfer-Encoding` may name `chunked`, once. hyper has refused every list that does not end with it.
pub(crate) fn check_transfer_encoding(headers: &HeaderMap) -> Result<()> {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter().map(|line| line.as_bytes().trim_ascii());
    match (lines.next(), lines.next()) {
        (None, _) => return Ok(()),
        (Some(only), None) if only.eq_ignore_ascii_case(b"chunked") => return Ok(()),
        _ => {}
    }
    let all =
        headers.get_all(TRANSFER_ENCODING).iter().flat_map(|line| line.as_bytes().split(|b| *b == b','));
    let is_chunked = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
    if all.filter(|coding| !coding.trim_ascii().is_empty()).all(is_chunked) {
        return Err(Error::new(Kind::Invalid, "'Transfer-Encoding' names 'chunked' more than once."));
    }
    let message = "The only Transfer-Encoding that is understood is 'chunked'.";
    Err(Error::new(Kind::UnsupportedTransferEncoding, message))
}

/// The size of a header list is limited over HTTP/2 as over HTTP/1, where hyper sees to it.
pub(crate) fn check_header_list(headers: &HeaderMap, uri: &Uri) -> Result<()> {
    let size = |name: &HeaderName, value: &HeaderValue| name.as_str().len() + value.len() + HEADER_OVERHEAD;
    let url = uri.path().len() + uri.query().map_or(0, str::len);
    let list = headers.iter().map(|(name, value)| size(name, value)).sum::<usize>();
    if list + url > MAX_HEADER_LIST { Err(headers_too_large()) } else { Ok(()) }
}

/// Content-Type and Content-Encoding of a generation request. A missing type is JSON.
pub(crate) fn check_media(headers: &HeaderMap) -> Result<Encoding> {
    let unsupported = |message: &'static str| Err(Error::new(Kind::UnsupportedMediaType, message));
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    if let Some(value) = types.next()
        && (types.next().is_some() || !value.to_str().is_ok_and(is_json))
    {
        return unsupported("Send the request body as JSON, with 'Content-Type: application/json'.");
    }
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match encodings.next().map(|value| value.as_bytes().trim_ascii()) {
        None | Some(b"") => Encoding::Identity,
        Some(value) if value.eq_ignore_ascii_case(b"identity") => Encoding::Identity,
        Some(value) if value.eq_ignore_ascii_case(b"gzip") || value.eq_ignore_ascii_case(b"x-gzip") => {
            Encoding::Gzip
        }
        Some(_) => return unsupported("The only Content-Encoding that is accepted is gzip."),
    };
    if encodings.next().is_some() {
        return unsupported("More than one Content-Encoding was sent.");
    }
    Ok(encoding)
}

fn is_json(value: &str) -> bool {
    if value == "application/json" {
        return true;
    }
    let essence = value.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let Some(subtype) = essence.strip_prefix("application/") else { return false };
    subtype == "json" || subtype.strip_suffix("+json").is_some_and(|name| !name.is_empty())
}

/// The whole body, decoded; and its share of memory, to be kept until the request is over.
pub(crate) async fn read<B>(
    headers: &HeaderMap,
    encoding: Encoding,
    body: &mut B,
    limits: &UploadLimits,
    cpu: &CpuPool,
) -> Result<(Bytes, Share)>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let claimed = content_length(headers);
    // Refused before the first read: a client that waits for `100 Continue` then sends nothing.
    if claimed.is_some_and(|length| length > u64::try_from(limits.bytes).unwrap_or(u64::MAX)) {
        return Err(too_large(limits.bytes));
    }
    let mut share = limits.memory.share();
    let raw = collect(body, claimed, limits, &mut share).await?;
    match encoding {
        Encoding::Identity => Ok((raw, share)),
        Encoding::Gzip => {
            let decoded = gunzip::decode(raw, limits.bytes, cpu).await?;
            share.cover(decoded.len())?;
            Ok((decoded, share))
        }
    }
}

/// Whether a body is compressed, of unknown length, or large enough to leave the worker.
pub(crate) fn may_be_heavy(headers: &HeaderMap) -> bool {
    let is_light = content_length(headers).is_some_and(|length| length <= LIGHT_BYTES as u64);
    !is_light || headers.contains_key(CONTENT_ENCODING)
}

/// The length that the client claims, as far as it is a number.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn collect<B>(
    body: &mut B,
    claimed: Option<u64>,
    limits: &UploadLimits,
    share: &mut Share,
) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let started = Instant::now();
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut total = 0usize;
    while !body.is_end_stream() {
        let pace = Duration::from_secs(u64::try_from(total).unwrap_or(0) / SLOWEST_BYTES_PER_SECOND);
        let deadline = (Instant::now() + limits.timeout).min(started + limits.timeout * PATIENCE + pace);
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(Error::new(Kind::RequestTimeout, "The request body arrived too slowly.")),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(broken(&*error.into())),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        total += data.len();
        if total > limits.bytes {
            return Err(too_large(limits.bytes));
        }
        share.cover(total)?;
        if total == data.len() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            let room = claimed.and_then(|length| usize::try_from(length).ok()).unwrap_or(0).min(ROOM);
            whole.reserve(room.max(total));
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// Why a body could not be read to its end: the client went away, or it sent what is no body.
fn broken(error: &(dyn std::error::Error + 'static)) -> Error {
    use std::io::ErrorKind::{InvalidData, InvalidInput};
    let mut cause = Some(error);
    while let Some(here) = cause {
        let io = here.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| matches!(io.kind(), InvalidData | InvalidInput)) {
            let mut error = Error::new(Kind::Invalid, "The request body's transfer encoding is malformed.");
            error.code = Some("invalid_json".into());
            return error;
        }
        cause = here.source();
    }
    Error::new(Kind::ClientClosedRequest, "The request body ended before it was complete.")
}

pub(crate) fn too_large(limit: usize) -> Error {
    let message = format!("The request body is too large: the limit is {limit} bytes.");
    Error::new(Kind::RequestTooLarge, message)
}

#[cfg(test)]
mod tests;
