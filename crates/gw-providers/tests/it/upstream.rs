//! A scripted upstream: a TCP listener that sends exactly the bytes of a test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use gw_providers::client::{Client, UpstreamResponse};
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;
use http::{HeaderMap, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// A scripted upstream, and what it received.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Upstream {
    /// Runs `script` for every connection, numbered from 0.
    pub(crate) async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(usize, Peer) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let seen = upstream.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                let number = seen.connections.fetch_add(1, Ordering::SeqCst);
                let peer = Peer { socket, buffer: Vec::new(), requests: Arc::clone(&seen.requests) };
                tokio::spawn(script(number, peer));
            }
        });
        upstream
    }

    /// Answers every request of every connection with the same bytes.
    pub(crate) async fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |_, mut peer| {
            let answer = Arc::clone(&answer);
            async move {
                while peer.request().await.is_some() {
                    peer.say(&answer).await;
                }
            }
        })
        .await
    }

    /// Answers the first request with these bytes and closes.
    pub(crate) async fn saying_once(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |_, mut peer| {
            let answer = Arc::clone(&answer);
            async move {
                if peer.request().await.is_some() {
                    peer.say(&answer).await;
                }
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}/v1", self.address), true, None).unwrap()
    }
}

/// One connection of a client.
pub(crate) struct Peer {
    pub(crate) socket: TcpStream,
    buffer: Vec<u8>,
    requests: Arc<AtomicUsize>,
}

impl Peer {
    /// A complete request, head and body; None at the end of the connection.
    pub(crate) async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(head) = find(&self.buffer, b"\r\n\r\n").map(|at| at + 4) {
                let text = String::from_utf8_lossy(&self.buffer[..head]).to_lowercase();
                let length = text
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "))
                    .map_or(0, |digits| digits.parse::<usize>().unwrap());
                if self.buffer.len() >= head + length {
                    let request = self.buffer.drain(..head + length).collect();
                    self.requests.fetch_add(1, Ordering::SeqCst);
                    return Some(String::from_utf8(request).unwrap());
                }
            }
            if self.socket.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Writes bytes. It ignores that a client has gone.
    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let _gone = self.socket.write_all(bytes.as_ref()).await;
    }

    /// Waits until the client closes.
    pub(crate) async fn closed(&mut self) {
        let mut rest = [0; 1024];
        while let Ok(read) = self.socket.read(&mut rest).await {
            if read == 0 {
                return;
            }
        }
    }

    /// Closes with RST.
    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().unwrap();
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// A small call.
pub(crate) fn call() -> HttpCall {
    HttpCall {
        method: Method::POST,
        path: "/chat/completions".to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(br#"{"model":"m"}"#),
        upload: None,
    }
}

/// Timeouts that are short for a test and long enough for a busy machine.
pub(crate) fn clocks() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(5),
        first_token: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(10),
    }
}

/// Sends a small call.
pub(crate) async fn send(client: &Client) -> Result<UpstreamResponse, Failure> {
    client.send(call(), &clocks()).await
}

/// Collects a body within generous limits.
pub(crate) async fn collect(response: UpstreamResponse) -> Result<Bytes, Failure> {
    response.body.collect(32 << 20, Duration::from_secs(5), Instant::now() + Duration::from_secs(10)).await
}

/// Sends a small call and reads the complete answer.
pub(crate) async fn exchange(client: &Client) -> Result<(u16, Bytes), Failure> {
    let response = send(client).await?;
    let status = response.status;
    Ok((status, collect(response).await?))
}
