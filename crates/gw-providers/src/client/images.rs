//! Fetches images of clients' requests from their http(s) addresses. A client names the address, so it is trusted with nothing: each
//! address that a name has is checked before it is called, also after each redirect, and the connection goes to the checked address.
//! Headers, size, time and media type are bounded. Nothing of the client and no credentials are sent.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gw_wire::address_range::AddressRange;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::percent;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use tokio::time::Instant;

use super::address::{Reach, reach};
use super::body::BodyRoom;
use super::dial::{Dialler, LookupSlot};
use super::failures::NOT_ALLOWED;
use super::origin::{Origin, OriginHost};
use super::pool::Pool;
use super::tls::Tls;
use super::{Client, UpstreamResponse};
use crate::adapter::HttpCall;
use crate::provider::USER_AGENT_VALUE;
use crate::settings::Timeouts;

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// The longest address.
const MAX_URL_BYTES: usize = 8 << 10;
/// Ports below 1024 belong to other services than HTTP, except these two.
const WEB_PORTS: [u16; 2] = [80, 443];
const FIRST_FREE_PORT: u16 = 1024;
/// The media types that are asked for.
const ACCEPTED: HeaderValue = HeaderValue::from_static("image/png, image/jpeg, image/gif, image/webp");

/// Fetches images.
#[derive(Clone, Debug)]
pub struct ImageFetcher {
    /// The networks whose private addresses may be called, too.
    pub networks: Arc<[AddressRange]>,
    /// The largest image in bytes.
    pub max_bytes: usize,
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebImage {
    /// The media type that the bytes show.
    pub media_type: &'static str,
    /// The bytes.
    pub bytes: Bytes,
}

impl WebImage {
    /// The bytes in base64.
    #[must_use]
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }
}

/// The reason why an image was not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageFault {
    /// The address is none of an image server that clients may name.
    Address,
    /// Nothing answers at the address.
    Unreachable,
    /// A redirect that is not followed.
    Redirect,
    /// Another status than 200.
    Status(u16),
    /// The bytes are compressed, or the answer is no HTTP.
    Invalid,
    /// The image is larger than its limit.
    TooLarge,
    /// The bytes are none of the four media types.
    MediaType,
    /// The image did not come in time.
    Timeout,
    /// There is no memory for the image. Holds the failure of the room.
    NoRoom(Box<Failure>),
}

impl ImageFault {
    /// The name of the fault in metrics.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Address => "address_refused",
            Self::Unreachable => "unreachable",
            Self::Redirect => "redirect_refused",
            Self::Status(_) => "status",
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::MediaType => "media_type",
            Self::Timeout => "timeout",
            Self::NoRoom(_) => "busy",
        }
    }
}

/// An answer to one request.
enum Fetched {
    Image(WebImage),
    Redirect(String),
}

impl ImageFetcher {
    /// Fetches an image until a moment. `room` counts its bytes. A lookup of a name cannot be ended, so `slot` is held until it ends by
    /// itself.
    ///
    /// # Errors
    /// The reason why there is no image.
    pub async fn fetch(
        &self,
        url: &str,
        room: &mut (dyn BodyRoom + Send),
        deadline: Instant,
        slot: LookupSlot,
    ) -> Result<WebImage, ImageFault> {
        let work = async {
            let mut url = Cow::Borrowed(url);
            for _ in 0..=MAX_REDIRECTS {
                match self.request(&url, room, deadline, &slot).await? {
                    Fetched::Image(image) => return Ok(image),
                    Fetched::Redirect(next) => url = Cow::Owned(next),
                }
            }
            Err(ImageFault::Redirect)
        };
        tokio::time::timeout_at(deadline, work).await.unwrap_or(Err(ImageFault::Timeout))
    }

    async fn request(
        &self,
        url: &str,
        room: &mut (dyn BodyRoom + Send),
        deadline: Instant,
        slot: &LookupSlot,
    ) -> Result<Fetched, ImageFault> {
        let address = WebAddress::parse(url)?;
        let origin = Origin::parse(&address.origin()).map_err(|_| ImageFault::Address)?;
        if !WEB_PORTS.contains(&origin.port) && origin.port < FIRST_FREE_PORT {
            return Err(ImageFault::Address);
        }
        if let OriginHost::Address(host) = origin.host
            && !self.permits(host)
        {
            return Err(ImageFault::Address);
        }
        let mut dialler = Dialler::new(origin, Tls::default(), false);
        dialler.networks = Some(Arc::clone(&self.networks));
        dialler.is_http1_only = true;
        dialler.stranger = Some(Arc::clone(slot));
        let client = Client { dialler, pool: Arc::<Pool>::default() };
        let left = deadline.saturating_duration_since(Instant::now());
        let clocks = Timeouts { connect: left, first_token: left, idle: left, total: left };
        let response =
            client.pass(call(&address.path), None, &clocks).await.map_err(|failure| fault_of(&failure))?;
        match response.status {
            200 => self.read(response, room, (&clocks, deadline)).await.map(Fetched::Image),
            301 | 302 | 303 | 307 | 308 => address.redirected(&response.headers).map(Fetched::Redirect),
            status => Err(ImageFault::Status(status)),
        }
    }

    async fn read(
        &self,
        response: UpstreamResponse,
        room: &mut (dyn BodyRoom + Send),
        (clocks, deadline): (&Timeouts, Instant),
    ) -> Result<WebImage, ImageFault> {
        let coding = response.headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().trim_ascii());
        if coding.is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")) {
            return Err(ImageFault::Invalid);
        }
        let declared =
            response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if declared.is_some_and(|bytes: usize| bytes > self.max_bytes) {
            return Err(ImageFault::TooLarge);
        }
        let mut room = LimitedRoom { room, max_bytes: self.max_bytes, fault: None };
        let read = response.body.collect_in(&mut room, usize::MAX, clocks.idle, deadline).await;
        let bytes = read.map_err(|failure| room.fault.take().unwrap_or_else(|| fault_of(&failure)))?;
        let media_type = media_type(&bytes).ok_or(ImageFault::MediaType)?;
        Ok(WebImage { media_type, bytes })
    }

    /// Whether an address may be called: a public one, or one of the operator's networks.
    fn permits(&self, address: IpAddr) -> bool {
        match reach(address) {
            Reach::Public => true,
            Reach::Private => self.networks.iter().any(|network| network.contains(address)),
            Reach::Forbidden => false,
        }
    }
}

/// Refuses the bytes beyond the limit of one image before they count.
struct LimitedRoom<'r> {
    room: &'r mut (dyn BodyRoom + Send),
    max_bytes: usize,
    /// Why the body was not read further.
    fault: Option<ImageFault>,
}

impl BodyRoom for LimitedRoom<'_> {
    fn poll_grow(
        &mut self,
        bytes: usize,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Failure>> {
        if bytes > self.max_bytes {
            self.fault = Some(ImageFault::TooLarge);
            let failure = Failure::new(FailureKind::InvalidResponse, "The image is too large.");
            return std::task::Poll::Ready(Err(failure));
        }
        let polled = self.room.poll_grow(bytes, cx);
        if let std::task::Poll::Ready(Err(failure)) = &polled {
            self.fault = Some(ImageFault::NoRoom(Box::new(failure.clone())));
        }
        polled
    }

    fn late(&self) -> Failure {
        self.room.late()
    }
}

/// The request for an image. It has nothing of the client's request.
fn call(path: &str) -> HttpCall {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(ACCEPT, ACCEPTED);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, USER_AGENT_VALUE);
    HttpCall { method: Method::GET, path: path.to_owned(), headers, body: Bytes::new(), upload: None }
}

fn fault_of(failure: &Failure) -> ImageFault {
    match failure.kind {
        FailureKind::Timeout => ImageFault::Timeout,
        FailureKind::Unreachable if failure.code.as_deref() == Some(NOT_ALLOWED) => ImageFault::Address,
        FailureKind::Unreachable => ImageFault::Unreachable,
        _ => ImageFault::Invalid,
    }
}

/// The media type that the first bytes of an image show.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The parts of an http(s) address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WebAddress {
    is_https: bool,
    authority: String,
    /// The path and the query. It begins with a slash.
    path: String,
}

impl WebAddress {
    /// Splits an address. A user, a blank, a backslash and a control character are refused, because readers of URLs disagree about
    /// them.
    fn parse(url: &str) -> Result<Self, ImageFault> {
        if url.len() > MAX_URL_BYTES {
            return Err(ImageFault::Address);
        }
        let (scheme, rest) = url.split_once("://").ok_or(ImageFault::Address)?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(ImageFault::Address),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let is_odd = |byte: u8| byte <= b' ' || byte == b'\\' || byte == 0x7f;
        if authority.contains('@') || rest.bytes().any(is_odd) {
            return Err(ImageFault::Address);
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = [slash, &ascii(path)].concat();
        Ok(Self { is_https, authority: authority.to_owned(), path })
    }

    fn origin(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// The address to which an answer redirects. It never leads from https to http.
    fn redirected(&self, headers: &HeaderMap) -> Result<String, ImageFault> {
        let location = headers.get(LOCATION).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        let location = location.map(str::trim).filter(|location| !location.is_empty());
        let location = location.ok_or(ImageFault::Redirect)?;
        let scheme = if self.is_https { "https" } else { "http" };
        let next = if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{}{location}", self.origin())
        } else if has_scheme(location) {
            location.to_owned()
        } else {
            let path = self.path.split('?').next().unwrap_or_default();
            let base = if location.starts_with('?') {
                path
            } else {
                path.rfind('/').and_then(|slash| path.get(..=slash)).unwrap_or("/")
            };
            format!("{}{base}{location}", self.origin())
        };
        let parsed = Self::parse(&next).map_err(|_| ImageFault::Redirect)?;
        if self.is_https && !parsed.is_https { Err(ImageFault::Redirect) } else { Ok(next) }
    }
}

/// Whether a reference begins with a scheme.
fn has_scheme(reference: &str) -> bool {
    let scheme = reference.split([':', '/', '?', '#']).next().unwrap_or_default();
    reference.get(scheme.len()..).is_some_and(|rest| rest.starts_with(':'))
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Writes the characters beyond ASCII as percent codes.
fn ascii(path: &str) -> Cow<'_, str> {
    if path.is_ascii() {
        return Cow::Borrowed(path);
    }
    let mut out = String::with_capacity(path.len() + 16);
    for character in path.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            out.push_str(&percent::encode(character.encode_utf8(&mut [0; 4])));
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
