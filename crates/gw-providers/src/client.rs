//! The HTTP client for upstreams: one client per provider, bound to the provider's origin. All network access to
//! upstreams is here.

mod address;
pub(crate) mod body;
mod clock;
mod dial;
pub(crate) mod error;
mod failures;
mod gunzip;
mod http1;
mod http2;
pub mod images;
mod origin;
mod pool;
pub(crate) mod request_body;
mod socket;
mod socket_io;
mod tls;
mod websocket;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use gw_wire::failure::Failure;
use http::header::{CONTENT_ENCODING, HOST};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};

use crate::adapter::HttpCall;
use crate::multipart::Upload;
use crate::settings::Timeouts;

pub use self::body::{BodyChunk, BodyRoom, UpstreamBody};
use self::dial::{Dialled, Dialler};
pub use self::error::ClientError;
pub(crate) use self::failures::head_timeout;
use self::http1::{Exchange, Http1, ResponseHead, SendError};
use self::http2::Http2;
use self::origin::Origin;
use self::pool::Pool;
use self::request_body::RequestBody;
pub use self::request_body::{StreamedBody, TornUpload, UploadSource};
pub use self::socket_io::{ReadMeter, SocketIo, poll_divided};
use self::tls::Tls;
pub(crate) use self::websocket::over as socket_over;
pub use self::websocket::{SocketAnswer, SocketLimits, UpstreamSocket};

/// A response head and the body that follows it.
#[derive(Debug)]
pub struct UpstreamResponse {
    /// The final status, 200 to 599.
    pub status: u16,
    /// The headers as the upstream sent them. Only `retry-after` may reach a client.
    pub headers: HeaderMap,
    /// The body.
    pub body: UpstreamBody,
    /// The index of the provider's key that the call carried.
    pub key: Option<usize>,
}

impl UpstreamResponse {
    /// Whether the provider served the request. Of the statuses of success, 204, 205 and 206 have no answer or a part of one.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the body is the answer.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        self.status == 200 || (self.is_success() && !(204..=206).contains(&self.status))
    }
}

/// The connections to one origin.
pub struct Client {
    dialler: Dialler,
    pool: Arc<Pool>,
}

impl Client {
    /// A client for the origin and path in `base_url`. Opens no connection and reads no root certificates yet.
    ///
    /// # Errors
    /// `base_url` or `ca_file` cannot be used. The message does not show the URL.
    pub fn new(
        base_url: &str,
        allow_private_network: bool,
        ca_file: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let origin = Origin::parse(base_url)?;
        if origin.is_https {
            origin.server_name()?;
        }
        let tls = Tls::new(ca_file)?;
        Ok(Self { dialler: Dialler::new(origin, tls, allow_private_network), pool: Arc::default() })
    }

    /// The client for a server that speaks HTTP/2 without negotiation, as gRPC servers do.
    #[must_use]
    pub fn with_http2_only(mut self) -> Self {
        self.dialler.is_http2_only = true;
        self
    }

    /// The client that never calls a public address without TLS.
    #[must_use]
    pub fn without_public_plain_http(mut self) -> Self {
        self.dialler.allow_public_plain_http = false;
        self
    }

    /// The complete address of a call with this path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.dialler.origin.url(path)
    }

    /// Sends one request and waits for the response head. `call.headers` must be complete except for `host` and
    /// `content-length`. A response with any status is a success. Redirects are not followed.
    ///
    /// # Errors
    /// `Unreachable`, `Timeout` (connect, or no head within `clocks.first_token`), `InvalidResponse`.
    pub fn send<'a>(
        &'a self,
        call: HttpCall,
        clocks: &'a Timeouts,
    ) -> impl Future<Output = Result<UpstreamResponse, Failure>> + use<'a> {
        let streamed = call.upload.as_ref().map(Upload::open);
        let request = self.request(call).map(|request| with_body(request, streamed));
        self.send_request(request, clocks)
    }

    /// As [`Client::send`], for a client's own request: its path follows the base path as it is. A body that comes while it is
    /// sent stands in the place of `call.body`, and `clocks.first_token` begins again with each piece of it.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn pass<'a>(
        &'a self,
        call: HttpCall,
        streamed: Option<StreamedBody>,
        clocks: &'a Timeouts,
    ) -> impl Future<Output = Result<UpstreamResponse, Failure>> + use<'a> {
        let request = self
            .dialler
            .origin
            .passed(&call.path)
            .map_err(|error| bad_path(&error))
            .map(|uri| with_body(of_call(call, uri), streamed));
        self.send_request(request, clocks)
    }

    /// The complete address of a client's own request.
    #[must_use]
    pub fn passed_url(&self, path: &str) -> String {
        self.dialler.origin.passed_url(path)
    }

    async fn send_request(
        &self,
        request: Result<Box<Request<RequestBody>>, Failure>,
        clocks: &Timeouts,
    ) -> Result<UpstreamResponse, Failure> {
        let mut request = request?;
        match self.send_on_open(request, clocks).await? {
            SendAttempt::Response(response) => return Ok(response),
            SendAttempt::Nothing(unsent) => request = unsent,
        }
        let link = self.dialler.dial(clocks.connect).await?;
        let outcome = match link {
            Dialled::Http1(connection) => self.over_http1(connection, request, clocks).await,
            Dialled::Http2(connection) => {
                self.pool.share(&connection);
                Box::pin(self.over_http2(connection, request, clocks)).await
            }
        };
        outcome.map_err(SendError::into_failure)?
    }

    /// Tries an open connection. If the peer has closed it before anything was written, the request goes to a new
    /// connection.
    async fn send_on_open(
        &self,
        request: Box<Request<RequestBody>>,
        clocks: &Timeouts,
    ) -> Result<SendAttempt, Failure> {
        let outcome = if let Some(shared) = self.shared() {
            Box::pin(self.over_http2(shared, request, clocks)).await
        } else if let Some(idle) = self.pool.take() {
            self.over_http1(idle, request, clocks).await
        } else {
            return Ok(SendAttempt::Nothing(request));
        };
        match outcome {
            Ok(response) => Ok(SendAttempt::Response(response?)),
            Err(SendError { unsent: Some(request), .. }) => Ok(SendAttempt::Nothing(request)),
            Err(lost) => Err(lost.into_failure()),
        }
    }

    fn shared(&self) -> Option<Http2> {
        let may_share = self.dialler.origin.is_https || self.dialler.is_http2_only;
        if may_share { self.pool.shared() } else { None }
    }

    fn request(&self, call: HttpCall) -> Result<Box<Request<RequestBody>>, Failure> {
        let uri = self.dialler.origin.path(&call.path).map_err(|error| bad_path(&error))?;
        Ok(of_call(call, uri))
    }

    async fn over_http1(
        &self,
        connection: Box<Http1>,
        request: Box<Request<RequestBody>>,
        clocks: &Timeouts,
    ) -> Result<Result<UpstreamResponse, Failure>, SendError> {
        let host = &self.dialler.origin.host_header;
        let (connection, head) = connection.exchange(request, host, clocks.first_token).await?;
        let ResponseHead { status, headers, framing, stays_open } = head;
        let exchange = Exchange::new(connection, framing, stays_open, Arc::clone(&self.pool));
        Ok(read_head(status, headers, UpstreamBody::http1(exchange)))
    }

    async fn over_http2(
        &self,
        connection: Http2,
        mut request: Box<Request<RequestBody>>,
        clocks: &Timeouts,
    ) -> Result<Result<UpstreamResponse, Failure>, SendError> {
        let path = request.uri().clone();
        match self.dialler.origin.absolute(&path) {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => {
                let failure = failures::unreachable(format_args!("path: {error}"));
                return Err(SendError { unsent: Some(request), failure });
            }
        }
        request.headers_mut().remove(HOST);
        let outcome = connection.exchange(request, clocks.first_token).await;
        let (stream, response) = outcome.map_err(|mut lost| {
            if let Some(unsent) = &mut lost.unsent {
                *unsent.uri_mut() = path;
            }
            lost
        })?;
        let (head, incoming) = response.into_parts();
        Ok(read_head(head.status, head.headers, UpstreamBody::http2(incoming, stream)))
    }
}

/// The request with a body that comes while it is sent, if there is one.
fn with_body(
    mut request: Box<Request<RequestBody>>,
    streamed: Option<StreamedBody>,
) -> Box<Request<RequestBody>> {
    if let Some(body) = streamed {
        *request.body_mut() = body.into();
    }
    request
}

fn of_call(call: HttpCall, uri: Uri) -> Box<Request<RequestBody>> {
    let mut request = Box::new(Request::new(call.body.into()));
    *request.method_mut() = call.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = call.headers;
    request
}

fn bad_path(error: &http::Error) -> Failure {
    failures::unreachable(format_args!("path: {error}"))
}

/// The result of trying an open connection.
enum SendAttempt {
    Response(UpstreamResponse),
    Nothing(Box<Request<RequestBody>>),
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("origin", &self.dialler.origin).finish_non_exhaustive()
    }
}

fn read_head(
    status: StatusCode,
    headers: HeaderMap,
    mut body: UpstreamBody,
) -> Result<UpstreamResponse, Failure> {
    let status = status.as_u16();
    if !(200..=599).contains(&status) {
        return Err(failures::invalid(format_args!("status {status}")));
    }
    match coding(&headers) {
        Coding::Identity => {}
        Coding::Gzip => body.decode_gzip(),
        Coding::Unknown if (200..300).contains(&status) => {
            return Err(failures::invalid("a content-encoding that was not requested"));
        }
        // The status matters more than a body that cannot be read.
        Coding::Unknown => body = UpstreamBody::empty(),
    }
    Ok(UpstreamResponse { status, headers, body, key: None })
}

enum Coding {
    Identity,
    Gzip,
    Unknown,
}

fn coding(headers: &HeaderMap) -> Coding {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let is =
        |value: &HeaderValue, name: &str| value.as_bytes().trim_ascii().eq_ignore_ascii_case(name.as_bytes());
    match (values.next(), values.next()) {
        (None, _) => Coding::Identity,
        (Some(value), None) if value.is_empty() || is(value, "identity") => Coding::Identity,
        (Some(value), None) if is(value, "gzip") || is(value, "x-gzip") => Coding::Gzip,
        _ => Coding::Unknown,
    }
}
