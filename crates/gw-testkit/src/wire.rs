//! One raw HTTP/1.1 connection to the gateway: any bytes out, heads and bodies in, byte for byte.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Response;
use crate::wait::within;

/// Status line and headers of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Header lines in order, names as sent.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The framing of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// A connection whose every byte the test controls.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    pending: Vec<u8>,
    framing: Framing,
    finished: bool,
}

impl RawClient {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> Self {
        let stream =
            within("connect", TcpStream::connect(addr)).await.expect("the gateway accepts connections");
        stream.set_nodelay(true).unwrap();
        Self { stream, pending: Vec::new(), framing: Framing::Length(0), finished: true }
    }

    /// Connects with a small receive window, to be a slow reader.
    pub async fn connect_with_receive_buffer(addr: SocketAddr, bytes: u32) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        let stream = socket.connect(addr).await.expect("the gateway accepts connections");
        Self { stream, pending: Vec::new(), framing: Framing::Length(0), finished: true }
    }

    /// Writes bytes, and ignores a closed connection.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_send(bytes.as_ref()).await;
    }

    /// Writes bytes, and reports a closed connection.
    pub async fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        within("write to the gateway", self.stream.write_all(bytes)).await
    }

    /// Closes the sending half only.
    pub async fn finish_sending(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Closes with a RST instead of a FIN.
    pub fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = vec![0; 64 * 1024];
        let count = within("read from the gateway", self.stream.read(&mut buffer)).await?;
        self.pending.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    /// Reads status line and headers; None when the connection closed before any byte of them.
    pub async fn head(&mut self) -> Option<Head> {
        let end = loop {
            if let Some(at) = find(&self.pending, b"\r\n\r\n") {
                break at;
            }
            match self.fill().await {
                Ok(0) | Err(_) if self.pending.is_empty() => return None,
                Ok(0) => panic!("closed within a head: {:?}", String::from_utf8_lossy(&self.pending)),
                Err(error) => panic!("{error} within a head: {:?}", String::from_utf8_lossy(&self.pending)),
                Ok(_) => {}
            }
        };
        let text = String::from_utf8_lossy(&self.pending[..end]).into_owned();
        self.pending.drain(..end + 4);
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Some(Head { status: status.unwrap_or_else(|| panic!("not an HTTP answer: {text:?}")), headers })
    }

    /// Prepares to read the body that belongs to `head`.
    pub fn expect_body(&mut self, head: &Head, of_head_request: bool) {
        self.framing = if of_head_request || matches!(head.status, 204 | 304 | 100..=199) {
            Framing::Length(0)
        } else if head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
        {
            Framing::Chunked
        } else if let Some(length) = head.header("content-length") {
            Framing::Length(length.parse().expect("content-length is a number"))
        } else {
            Framing::UntilClose
        };
        self.finished = self.framing == Framing::Length(0);
    }

    /// The next piece of the body, None at its end. An error = the connection broke inside it.
    pub async fn body_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.finished {
            return Ok(None);
        }
        match self.framing {
            Framing::Chunked => self.chunk().await,
            Framing::Length(left) => {
                if self.pending.is_empty() && self.fill().await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let take = left.min(self.pending.len());
                self.framing = Framing::Length(left - take);
                self.finished = left == take;
                Ok(Some(self.pending.drain(..take).collect()))
            }
            Framing::UntilClose => {
                if self.pending.is_empty() && self.fill().await? == 0 {
                    self.finished = true;
                    return Ok(None);
                }
                Ok(Some(std::mem::take(&mut self.pending)))
            }
        }
    }

    async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (line, size) = loop {
            if let Some(at) = find(&self.pending, b"\r\n") {
                let text = std::str::from_utf8(&self.pending[..at]).expect("a chunk size is ASCII");
                let digits = text.split(';').next().unwrap_or_default().trim();
                break (at + 2, usize::from_str_radix(digits, 16).expect("a chunk size is hexadecimal"));
            }
            self.need().await?;
        };
        while self.pending.len() < line + size + 2 {
            self.need().await?;
        }
        let data = self.pending[line..line + size].to_vec();
        self.pending.drain(..line + size + 2);
        self.finished = size == 0;
        Ok((size > 0).then_some(data))
    }

    async fn need(&mut self) -> io::Result<()> {
        if self.fill().await? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Reads one whole answer (interim 1xx answers are skipped); None when the connection closed instead.
    pub async fn response(&mut self) -> Option<Response> {
        self.response_to(false).await
    }

    /// Reads one whole answer; the answer to a HEAD request has no body.
    pub async fn response_to(&mut self, head_request: bool) -> Option<Response> {
        let head = loop {
            let head = self.head().await?;
            if !(100..200).contains(&head.status) {
                break head;
            }
        };
        self.expect_body(&head, head_request);
        let (mut body, mut broken) = (Vec::new(), false);
        loop {
            match self.body_chunk().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break,
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        Some(Response { status: head.status, headers: head.headers, body, broken })
    }

    /// Waits until the gateway closes the connection. Returns the bytes that the gateway sent until then.
    pub async fn until_closed(&mut self) -> Vec<u8> {
        while matches!(self.fill().await, Ok(count) if count > 0) {}
        std::mem::take(&mut self.pending)
    }

    /// Tells whether the connection stays open without any bytes for `quiet`.
    pub async fn is_quiet_for(&mut self, quiet: Duration) -> bool {
        if !self.pending.is_empty() {
            return false;
        }
        let mut byte = [0; 1];
        tokio::time::timeout(quiet, self.stream.peek(&mut byte)).await.is_err()
    }
}

/// The position of `needle` in `hay`.
pub(crate) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}
