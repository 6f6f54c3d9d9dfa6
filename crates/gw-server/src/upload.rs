//! Reads request bodies: media type, size, pace and compression.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gw_engine::cpu_pool::{CpuPool, LIGHT_BYTES};
use gw_engine::error::{Error, Kind, Result};
use gw_engine::shared_pool::{PoolHolding, PoolRefusal, SharedPool};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::gunzip;
pub(crate) use crate::gunzip::too_large;
use crate::head_errors::headers_too_large;

/// The error type of a request body.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Bodies up to this size need no part of the memory for large bodies.
const FREE_BODY_BYTES: usize = 64 << 10;
/// The most bytes that are allocated for a body before as many have arrived. Then its whole claimed length is allocated: pages
/// without data take no memory, and a buffer that grows step by step leaves copies of its content behind.
const MAX_PREALLOCATED_BYTES: usize = 256 << 10;
/// The least rate at which a body must arrive and an answer must be taken. It applies after a first period.
pub(crate) const MIN_BYTES_PER_SECOND: u64 = 16 << 10;
/// The first period without that rate, in body timeouts.
const SLOW_BODY_TIMEOUTS: u32 = 4;

/// The largest header list of an HTTP/2 request, counted as RFC 9113 counts it.
const MAX_HEADER_LIST_BYTES: usize = 16 << 10;
/// The bytes that this count adds for each header.
const HEADER_OVERHEAD_BYTES: usize = 32;

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

/// The limits of a request body.
#[derive(Clone, Debug)]
pub(crate) struct UploadLimits {
    /// The largest body, before and after decompression.
    pub(crate) max_bytes: usize,
    /// The longest pause between two pieces of the body.
    pub(crate) timeout: Duration,
    /// The memory of the large request bodies of all requests.
    pub(crate) memory: Arc<SharedPool>,
}

/// A part of the memory for large request bodies that one request holds. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct BodyPermit(PoolHolding);

impl BodyPermit {
    /// A permit for nothing yet.
    pub(crate) fn new(limits: &UploadLimits, key: &Arc<str>) -> Self {
        Self(limits.memory.holding(key))
    }

    /// Raises the permit to at least `bytes`. Bodies up to [`FREE_BODY_BYTES`] need none.
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<()> {
        if bytes <= FREE_BODY_BYTES || bytes as u64 <= self.0.amount() {
            return Ok(());
        }
        self.0.set(bytes as u64).map_err(|refusal| {
            overloaded(match refusal {
                PoolRefusal::UsedUp => "The gateway is holding as many large requests as it can.",
                PoolRefusal::OverShare => {
                    "The gateway is holding as many large requests of this key as its share allows."
                }
            })
        })
    }
}

/// A 503 that asks the client to try again after a second.
pub(crate) fn overloaded(message: &'static str) -> Error {
    Error::new(Kind::NoAvailableProvider, message).retry_after(Duration::from_secs(1))
}

/// `Transfer-Encoding` may name `chunked` once and nothing else. hyper has already refused lists that do not end with it.
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

/// Checks the size of an HTTP/2 header list. hyper checks the head of HTTP/1.
pub(crate) fn check_header_list(headers: &HeaderMap, uri: &Uri) -> Result<()> {
    let size =
        |name: &HeaderName, value: &HeaderValue| name.as_str().len() + value.len() + HEADER_OVERHEAD_BYTES;
    let url = uri.path().len() + uri.query().map_or(0, str::len);
    let list = headers.iter().map(|(name, value)| size(name, value)).sum::<usize>();
    if list + url > MAX_HEADER_LIST_BYTES { Err(headers_too_large()) } else { Ok(()) }
}

/// Checks `Content-Type` and `Content-Encoding`. A missing type counts as JSON.
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

/// Whether a body is JSON, by its type or for want of one.
pub(crate) fn is_json_or_missing(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_TYPE).iter().all(|value| value.to_str().is_ok_and(is_json))
}

fn is_json(value: &str) -> bool {
    if value == "application/json" {
        return true;
    }
    let essence = value.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let Some(subtype) = essence.strip_prefix("application/") else { return false };
    subtype == "json" || subtype.strip_suffix("+json").is_some_and(|name| !name.is_empty())
}

/// The key that sends a body, and the CPU pool as it uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodySender<'a> {
    pub(crate) key_id: &'a Arc<str>,
    pub(crate) cpu: &'a CpuPool,
}

/// Reads the whole body and decodes it. The caller keeps the permit for as long as it keeps the body.
pub(crate) async fn read<B>(
    headers: &HeaderMap,
    encoding: Encoding,
    body: &mut B,
    limits: &UploadLimits,
    sender: BodySender<'_>,
) -> Result<(Bytes, BodyPermit)>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let claimed = content_length(headers);
    // The refusal comes before the first read, so a client that waits for `100 Continue` sends nothing.
    if claimed.is_some_and(|length| length > u64::try_from(limits.max_bytes).unwrap_or(u64::MAX)) {
        return Err(too_large(limits.max_bytes));
    }
    let mut permit = BodyPermit::new(limits, sender.key_id);
    let raw = collect(body, claimed, limits, &mut permit).await?;
    match encoding {
        Encoding::Identity => Ok((raw, permit)),
        Encoding::Gzip => {
            let decoded = gunzip::decode(raw, limits.max_bytes, sender.cpu).await?;
            permit.cover(decoded.len())?;
            Ok((decoded, permit))
        }
    }
}

/// Whether a body is compressed, has an unknown length, or is large enough for the CPU pool.
pub(crate) fn may_be_heavy(headers: &HeaderMap) -> bool {
    let is_light = content_length(headers).is_some_and(|length| length <= LIGHT_BYTES as u64);
    !is_light || headers.contains_key(CONTENT_ENCODING)
}

/// The length that the client claims. None: it claims none, or the header is not a number.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn collect<B>(
    body: &mut B,
    claimed: Option<u64>,
    limits: &UploadLimits,
    permit: &mut BodyPermit,
) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let started = Instant::now();
    // `read` has compared the claimed length with the limit.
    let claimed = claimed.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut total = 0usize;
    while !body.is_end_stream() {
        let pace = Duration::from_secs(u64::try_from(total).unwrap_or(0) / MIN_BYTES_PER_SECOND);
        let deadline =
            (Instant::now() + limits.timeout).min(started + limits.timeout * SLOW_BODY_TIMEOUTS + pace);
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(Error::new(Kind::RequestTimeout, "The request body arrived too slowly.")),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(broken(&*error.into())),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        total += data.len();
        if total > limits.max_bytes {
            return Err(too_large(limits.max_bytes));
        }
        permit.cover(total)?;
        if total == data.len() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(claimed.min(MAX_PREALLOCATED_BYTES).max(total));
            whole.extend_from_slice(&first);
        }
        if whole.capacity() < total {
            whole.reserve(claimed.saturating_sub(whole.len()).max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// The next piece of a body of which so many bytes have come since a moment; None at its end.
///
/// # Errors
/// The piece does not come in time, or the body broke off.
pub(crate) async fn next_piece<B>(
    body: &mut B,
    (started, total): (std::time::Instant, usize),
    limit: Duration,
) -> Result<Option<Bytes>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let pace = Duration::from_secs(u64::try_from(total).unwrap_or(0) / MIN_BYTES_PER_SECOND);
    let by_pace = Instant::from_std(started) + limit * SLOW_BODY_TIMEOUTS + pace;
    let deadline = (Instant::now() + limit).min(by_pace);
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(Error::new(Kind::RequestTimeout, "The request body arrived too slowly.")),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(broken(&*error.into())),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
}

/// The error of a body that could not be read to its end: the client went away, or the body is malformed.
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

#[cfg(test)]
mod tests;
