//! The heads of HTTP/1.1: writes that of a request, and reads that of a response.

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};

use super::framing::{BodyFraming, Chunks};

/// The most header fields of a response.
const MAX_HEADERS: usize = 100;

/// A response head that cannot be read. The text says why.
pub(super) type InvalidHead = &'static str;

/// The head of a final response.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    /// The status.
    pub(crate) status: StatusCode,
    /// The headers as they came.
    pub(crate) headers: HeaderMap,
    /// How the body ends.
    pub(crate) framing: BodyFraming,
    /// Whether the peer keeps the connection open after the body.
    pub(crate) stays_open: bool,
}

/// Writes the head of a request to a host. Its URI is a path. A body of unknown length is sent in chunks.
pub(super) fn write<B>(request: &Request<B>, length: Option<u64>, host: &HeaderValue, out: &mut Vec<u8>) {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    for part in [request.method().as_str(), " ", path, " HTTP/1.1\r\nhost: "] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(host.as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in request.headers() {
        if *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING || *name == HOST {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    match length {
        None => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Some(0) if matches!(*request.method(), Method::GET | Method::HEAD) => {}
        Some(length) => {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(length.to_string().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Reads the head of a final response and takes it from the buffer; informational responses before it are dropped.
/// None = it is incomplete.
///
/// # Errors
/// [`InvalidHead`].
pub(super) fn read(buffer: &mut BytesMut, method: &Method) -> Result<Option<ResponseHead>, InvalidHead> {
    while !buffer.is_empty() {
        let mut fields = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let length = match config.parse_response_with_uninit_headers(&mut parsed, buffer, &mut fields) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(fault) => return Err(reason(fault)),
        };
        let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or("a status that is not a number from 100 to 999")?;
        if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
            buffer.advance(length);
            continue;
        }
        let is_1_0 = parsed.version == Some(0);
        let (framing, is_framed) = framing(status, parsed.headers, method, is_1_0)?;
        let stays_open = is_framed && stays_open(parsed.headers, is_1_0);
        let headers = headers(buffer.get(..length).unwrap_or_default(), parsed.headers)?;
        buffer.advance(length);
        return Ok(Some(ResponseHead { status, headers, framing, stays_open }));
    }
    Ok(None)
}

/// The headers. Their values share one copy of the head, so that they do not keep the buffer.
fn headers(head: &[u8], fields: &[httparse::Header<'_>]) -> Result<HeaderMap, InvalidHead> {
    let shared = Bytes::copy_from_slice(head);
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| "a header name")?;
        let from = (field.value.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize);
        let value = if field.value.is_empty() {
            HeaderValue::from_static("")
        } else {
            let value = shared.slice(from..from + field.value.len());
            HeaderValue::from_maybe_shared(value).map_err(|_| "a header value")?
        };
        headers.append(name, value);
    }
    Ok(headers)
}

/// The values of a header. The lengths of names tell most of them apart, which takes less than hashing.
fn values<'h>(fields: &'h [httparse::Header<'_>], name: &'static str) -> impl Iterator<Item = &'h [u8]> {
    let named = move |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(name);
    fields.iter().filter(named).map(|field| field.value)
}

/// How the body ends, and whether the connection may carry another response after it.
fn framing(
    status: StatusCode,
    fields: &[httparse::Header<'_>],
    method: &Method,
    is_1_0: bool,
) -> Result<(BodyFraming, bool), InvalidHead> {
    let is_empty = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Ok((BodyFraming::Length(0), false));
    }
    if is_empty || *method == Method::HEAD {
        return Ok((BodyFraming::Length(0), true));
    }
    let mut codings = values(fields, "transfer-encoding");
    if let Some(coding) = codings.next() {
        if is_1_0 {
            return Err("a transfer-encoding in HTTP/1.0");
        }
        let is = |name: &str| coding.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
        // A peer that also sends a length may misread one of the two, so its connection is not used again.
        let is_alone = values(fields, "content-length").next().is_none();
        return match codings.next() {
            None if is("chunked") => Ok((BodyFraming::Chunked(Chunks::default()), is_alone)),
            None if is("identity") => Ok((BodyFraming::UntilClose, false)),
            _ => Err("a transfer-encoding that was not requested"),
        };
    }
    match length(fields)? {
        Some(length) => Ok((BodyFraming::Length(length), true)),
        None => Ok((BodyFraming::UntilClose, false)),
    }
}

/// The length of the body. Repeated lengths must be equal.
fn length(fields: &[httparse::Header<'_>]) -> Result<Option<u64>, InvalidHead> {
    let mut length = None;
    for value in values(fields, "content-length").flat_map(|value| value.split(|byte| *byte == b',')) {
        let value = value.trim_ascii();
        let digits = Some(value).filter(|value| !value.is_empty() && value.iter().all(u8::is_ascii_digit));
        let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
        let number = number.ok_or("a content-length that is not a number")?;
        if length.replace(number).is_some_and(|before| before != number) {
            return Err("two different lengths");
        }
    }
    Ok(length)
}

fn stays_open(fields: &[httparse::Header<'_>], is_1_0: bool) -> bool {
    let has = |option: &str| {
        let mut options = values(fields, "connection").flat_map(|value| value.split(|byte| *byte == b','));
        options.any(|name| name.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
    };
    !has("close") && (!is_1_0 || has("keep-alive"))
}

fn reason(fault: httparse::Error) -> InvalidHead {
    match fault {
        httparse::Error::HeaderName => "a header name",
        httparse::Error::HeaderValue => "a header value",
        httparse::Error::NewLine => "a line end",
        httparse::Error::Status => "the status line",
        httparse::Error::TooManyHeaders => "too many headers",
        httparse::Error::Version => "the version",
        httparse::Error::Token => "a token",
    }
}

// `fuzz/` has this file in another place.
#[cfg(test)]
#[path = "head/tests.rs"]
mod tests;
