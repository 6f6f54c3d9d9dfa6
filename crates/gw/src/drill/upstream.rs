//! The scripted upstream of a drill: an OpenAI-compatible server on loopback. The first part of the URL names its fault.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::fault::Fault;
use super::script::{self, Step};

/// The most bytes of a request. The drill's requests have a few hundred.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// The longest time of a stalled answer whose client does not close.
const MAX_STALL: Duration = Duration::from_secs(120);

/// The upstream. It answers until it is dropped.
#[derive(Debug)]
pub(super) struct Upstream {
    address: SocketAddr,
    /// A bound socket that does not listen, so that connections to it are refused.
    closed: TcpSocket,
    task: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    /// Starts the upstream on free ports. `pace` is the pause before each chunk of a slow answer.
    ///
    /// # Errors
    /// When no port is free.
    pub(super) async fn start(pace: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let closed = TcpSocket::new_v4()?;
        closed.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // Clients that close early are part of the drill.
                    let _ = answer(connection, pace).await;
                });
            }
        });
        Ok(Self { address, closed, task })
    }

    /// The base URL of a provider with this fault, or of a healthy one.
    ///
    /// # Errors
    /// When the address of the closed port is not known.
    pub(super) fn base_url(&self, fault: Option<Fault>) -> io::Result<String> {
        let address = if fault == Some(Fault::Refused) { self.closed.local_addr()? } else { self.address };
        Ok(format!("http://{address}/{}/v1", fault.map_or("well", Fault::as_str)))
    }
}

async fn answer(mut connection: TcpStream, pace: Duration) -> io::Result<()> {
    let Some((path, body)) = read(&mut connection).await? else { return Ok(()) };
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let fault = parts.next().and_then(Fault::named);
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    for part in script::answer(fault, parts.next().unwrap_or_default(), &request, pace) {
        match part {
            Step::Bytes(bytes) => connection.write_all(&bytes).await?,
            Step::Pause(pause) => tokio::time::sleep(pause).await,
            Step::Silence => {
                let mut nothing = [0];
                let hung_up = connection.read(&mut nothing);
                let _ = tokio::time::timeout(MAX_STALL, hung_up).await;
            }
        }
    }
    connection.shutdown().await
}

/// Reads the path and the body of a request. None: the request is incomplete or too large.
async fn read(connection: &mut TcpStream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut seen = Vec::new();
    let end = loop {
        if let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if seen.len() > MAX_REQUEST_BYTES || connection.read_buf(&mut seen).await? == 0 {
            return Ok(None);
        }
    };
    let mut body = seen.split_off(end);
    let head = String::from_utf8_lossy(&seen);
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let length = head.lines().filter_map(|line| line.split_once(':'));
    let mut length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or_default();
    while body.len() < length.min(MAX_REQUEST_BYTES) {
        if connection.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some((path, body)))
}
