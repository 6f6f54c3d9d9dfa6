//! Access tokens from the metadata server of a Google Cloud machine, for the machine's own service account:
//! <https://cloud.google.com/compute/docs/access/authenticate-workloads#applications>.
//!
//! [`crate::client::Client`] refuses every link-local address because this server listens on one. This module calls the
//! server's one documented address and path. No configuration, request or name lookup influences the call, and the
//! token is sent to Google only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use http::header::HOST;
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The largest body of a token response.
pub(super) const MAX_TOKEN_RESPONSE_BYTES: usize = 64 << 10;

/// The address of `metadata.google.internal`.
pub(super) const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// The header that the server requires in a request and sets in its response. No other server at that address does.
const FLAVOUR: &str = "metadata-flavor";
const GOOGLE: HeaderValue = HeaderValue::from_static("Google");

/// How long connecting may take. The server is on the same machine, if it exists at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one connection may live.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(15);

/// Requests a token; returns the status and the body.
pub(super) async fn request_token(address: SocketAddr) -> Result<(u16, Vec<u8>), Failure> {
    let socket = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
        .await
        .map_err(|_| no_credentials("connecting timed out"))?;
    let socket = socket.map_err(|error| no_credentials(error.kind()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(socket)).await.map_err(|_| no_credentials("no HTTP"))?;
    // The task ends with the sender when this call returns, or after the time limit when the caller gave up.
    tokio::spawn(timeout(CONNECTION_LIFETIME, connection));
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = http::Uri::from_static(PATH);
    request.headers_mut().insert(HOST, HeaderValue::from_static("metadata.google.internal"));
    request.headers_mut().insert(FLAVOUR, GOOGLE);
    let response = sender.send_request(request).await.map_err(|_| no_credentials("no response"))?;
    let status = response.status().as_u16();
    if response.headers().get(FLAVOUR) != Some(&GOOGLE) {
        return Err(no_credentials("the response does not come from the metadata server"));
    }
    let body = Limited::new(response.into_body(), MAX_TOKEN_RESPONSE_BYTES)
        .collect()
        .await
        .map_err(|_| no_credentials("the response is incomplete"))?;
    Ok((status, body.to_bytes().to_vec()))
}

fn no_credentials(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Auth, "The gateway has no credentials for the upstream provider.").with_detail(
        format_args!("no api_key, no credentials_file and no metadata server of Google Cloud: {detail}"),
    )
}
