//! A request of an operator, as the functions of the management API get it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use gw_admin::{AdminMethod, Requester};
use gw_engine::Caller;
use gw_engine::cpu_pool::CpuPool;
use gw_engine::error::{Error, Kind, Result};
use http::request::Parts;
use http::{HeaderMap, Method};
use http_body::Body;

use crate::response::GatewayReply;
use crate::state::ServerState;
use crate::upload::{self, BodySender, BoxError, UploadLimits};

/// The largest body of most management requests.
const MAX_BODY_BYTES: usize = 64 << 10;

/// A body of any connection.
type AnyBody<'r> = Box<dyn Body<Data = Bytes, Error = BoxError> + Send + Unpin + 'r>;

/// The function of a URL for operators.
pub(crate) type ManagementFunction = for<'r> fn(ManagementCall<'r>) -> ManagementFuture<'r>;

/// Its answer, later.
pub(crate) type ManagementFuture<'r> = Pin<Box<dyn Future<Output = Result<GatewayReply>> + Send + 'r>>;

/// A request of an operator whose role and method fit its URL.
pub(crate) struct ManagementCall<'r> {
    pub(crate) state: &'r ServerState,
    pub(crate) parts: &'r Parts,
    pub(crate) caller: &'r Caller,
    /// The caller in the audit log.
    pub(crate) requester: Requester,
    /// The decoded `{id}`. None: the URL has no id, or its id is not valid percent-encoded UTF-8.
    pub(crate) id: Option<&'r str>,
    pub(crate) body: AnyBody<'r>,
}

impl fmt::Debug for ManagementCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagementCall").field("uri", &self.parts.uri.path()).finish_non_exhaustive()
    }
}

impl<'r> ManagementCall<'r> {
    /// The `{id}` of the URL.
    pub(crate) fn id(&self) -> Result<&'r str> {
        let message = "Nothing has this id: it is not valid percent-encoded UTF-8.";
        self.id.ok_or_else(|| Error::new(Kind::NotFound, message))
    }

    /// The query string without its `?`.
    pub(crate) fn query(&self) -> &'r str {
        self.parts.uri.query().unwrap_or("")
    }

    /// The method.
    pub(crate) fn method(&self) -> AdminMethod {
        match self.parts.method {
            Method::PUT => AdminMethod::Put,
            Method::PATCH => AdminMethod::Patch,
            Method::DELETE => AdminMethod::Delete,
            Method::POST => AdminMethod::Post,
            _ => AdminMethod::Get,
        }
    }

    /// Reads the body. A method without one has an empty body.
    pub(crate) async fn read_body(&mut self) -> Result<Bytes> {
        self.read_body_up_to(MAX_BODY_BYTES).await
    }

    /// Reads the body with a limit of its own.
    pub(crate) async fn read_body_up_to(&mut self, max_bytes: usize) -> Result<Bytes> {
        if matches!(self.method(), AdminMethod::Get | AdminMethod::Delete) {
            return Ok(Bytes::new());
        }
        read(self.state, &self.parts.headers, &mut self.body, max_bytes).await
    }
}

/// Reads a body of JSON that an operator or a browser sends.
pub(crate) async fn read<B>(
    state: &ServerState,
    headers: &HeaderMap,
    body: &mut B,
    max_bytes: usize,
) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let encoding = upload::check_media(headers)?;
    let limits = UploadLimits { max_bytes, ..state.uploads.clone() };
    // All operators together have the share of one key.
    let sender = BodySender { key_id: &Arc::from("operators"), cpu: &CpuPool::default() };
    // The permit ends here already: a management request keeps its body only for a moment.
    let (bytes, _permit) = upload::read(headers, encoding, body, &limits, sender).await?;
    Ok(bytes)
}
