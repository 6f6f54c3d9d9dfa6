//! WebSockets to upstreams: the connection is dialled like every other one, and the handshake carries the provider's credentials.

use gw_wire::failure::Failure;
use http::header::{
    CONNECTION, HOST, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Request};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::Client;
use super::failures;
use super::socket_io::{Connection, SocketIo};
use crate::adapter::HttpCall;
use crate::settings::Timeouts;

/// A socket without a message needs no larger buffer.
const READ_BUFFER_BYTES: usize = 4 << 10;

/// An open WebSocket to an upstream.
pub type UpstreamSocket = WebSocketStream<SocketIo>;

/// The bounds of a socket.
#[derive(Clone, Copy, Debug)]
pub struct SocketLimits {
    /// The most bytes of a message.
    pub message_bytes: usize,
}

/// The answer to a handshake.
#[derive(Debug)]
pub enum SocketAnswer {
    /// The socket is open. The index is that of the provider's key.
    Open(Box<UpstreamSocket>, Option<usize>),
    /// The upstream answered with another status than 101.
    Refused {
        /// The status.
        status: u16,
        /// The headers as the upstream sent them.
        headers: HeaderMap,
        /// The part of the body that came with the head.
        body: Vec<u8>,
        /// The index of the provider's key that the handshake carried.
        key: Option<usize>,
    },
}

impl Client {
    /// Opens a socket. `call.headers` must be complete except for those of the handshake itself.
    ///
    /// # Errors
    /// `Unreachable`, `Timeout` (connect, or no answer within `clocks.first_token`), `InvalidResponse`.
    pub(crate) async fn open_socket(
        &self,
        call: HttpCall,
        limits: SocketLimits,
        clocks: &Timeouts,
    ) -> Result<SocketAnswer, Failure> {
        let origin = &self.dialler.origin;
        let path = origin.path(&call.path).map_err(|error| super::bad_path(&error))?;
        let mut request = Request::new(());
        *request.uri_mut() = origin.socket_uri(&path).map_err(|error| super::bad_path(&error))?;
        *request.headers_mut() = call.headers;
        let headers = request.headers_mut();
        headers.insert(HOST, origin.host_header.clone());
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        headers.extend(HeaderValue::from_str(&generate_key()).ok().map(|key| (SEC_WEBSOCKET_KEY, key)));
        let connection = Box::new(self.dialler.dial_http1(clocks.connect).await?);
        let io = SocketIo::before_handshake(connection, limits.message_bytes);
        let handshake = client_async_with_config(request, io, Some(config(limits)));
        match tokio::time::timeout(clocks.first_token, handshake).await {
            Err(_) => Err(failures::head_timeout()),
            Ok(Ok((socket, _))) => Ok(SocketAnswer::Open(Box::new(socket), None)),
            Ok(Err(Error::Http(answer))) => {
                let (head, body) = answer.into_parts();
                let body = body.unwrap_or_default();
                Ok(SocketAnswer::Refused {
                    status: head.status.as_u16(),
                    headers: head.headers,
                    body,
                    key: None,
                })
            }
            Ok(Err(Error::Io(error))) => Err(failures::unreachable(error)),
            Ok(Err(error)) => Err(failures::invalid(error)),
        }
    }
}

/// A socket whose handshake is over.
pub(crate) async fn over(
    connection: Box<dyn Connection>,
    role: Role,
    limits: SocketLimits,
) -> UpstreamSocket {
    let io = SocketIo::after_handshake(connection, limits.message_bytes);
    WebSocketStream::from_raw_socket(io, role, Some(config(limits))).await
}

fn config(limits: SocketLimits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
}
