//! The metadata server of a Google Cloud machine, which gives tokens of the machine's own service account:
//! <https://cloud.google.com/compute/docs/access/authenticate-workloads#applications>.
//!
//! [`crate::client::Client`] never calls link-local addresses, whoever wrote them down, because this server stands there.
//! Here its one documented address is called for the one path that gives tokens: nothing of it comes from a
//! configuration, a request or a name lookup, and what is read goes to Google alone.

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

use super::source::LARGEST;

/// `metadata.google.internal`.
pub(super) const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// The server says so in its answers and wants to hear it in questions: no other host at that address does.
const FLAVOUR: &str = "metadata-flavor";
const GOOGLE: HeaderValue = HeaderValue::from_static("Google");

/// It is on the same machine, if there is one at all.
const CONNECT: Duration = Duration::from_secs(2);

/// The most that one connection lives.
const WHOLE: Duration = Duration::from_secs(15);

/// Asks for a token; gives the status and the body.
pub(super) async fn ask(address: SocketAddr) -> Result<(u16, Vec<u8>), Failure> {
    let socket =
        timeout(CONNECT, TcpStream::connect(address)).await.map_err(|_| absent("no connection in time"))?;
    let socket = socket.map_err(|error| absent(error.kind()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(socket)).await.map_err(|_| absent("no HTTP"))?;
    // It ends with the sender when this call is over, and at last by the clock when it was given up.
    tokio::spawn(timeout(WHOLE, connection));
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = http::Uri::from_static(PATH);
    request.headers_mut().insert(HOST, HeaderValue::from_static("metadata.google.internal"));
    request.headers_mut().insert(FLAVOUR, GOOGLE);
    let response = sender.send_request(request).await.map_err(|_| absent("no answer"))?;
    let status = response.status().as_u16();
    if response.headers().get(FLAVOUR) != Some(&GOOGLE) {
        return Err(absent("what answers is not the metadata server"));
    }
    let body =
        Limited::new(response.into_body(), LARGEST).collect().await.map_err(|_| absent("no whole answer"))?;
    Ok((status, body.to_bytes().to_vec()))
}

fn absent(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Auth, "The gateway has no credentials for the upstream provider.").with_detail(
        format_args!("no api_key, no credentials_file and no metadata server of Google Cloud: {detail}"),
    )
}
