//! One connection of the scripted upstream: reads requests, plays answers, notices when the peer goes away.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;

use super::answer::Step;
use super::{Recorded, Shared};
use crate::wire::find;

/// A connection that can be broken with a RST.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

struct Reader<S> {
    half: ReadHalf<S>,
    pending: Vec<u8>,
}

impl<S: Wire> Reader<S> {
    async fn fill(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        match self.half.read(&mut buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.pending.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }

    /// Returns when the peer has closed or reset; early bytes of a next request are kept.
    async fn gone(&mut self) {
        while self.fill().await.is_ok() {}
    }

    async fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.pending.len() < count {
            self.fill().await?;
        }
        Ok(self.pending.drain(..count).collect())
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = find(&self.pending, b"\r\n") {
                let line: Vec<u8> = self.pending.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            self.fill().await?;
        }
    }

    async fn request(&mut self, connection: usize) -> io::Result<Recorded> {
        let start = self.line().await?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((line.as_str(), ""));
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut words = start.split(' ').map(str::to_owned);
        let mut request = Recorded {
            method: words.next().unwrap_or_default(),
            path: words.next().unwrap_or_default(),
            headers,
            body: Vec::new(),
            at: Instant::now(),
            connection,
            closed: watch::Sender::new(None),
        };
        request.body = self.body(&request).await?;
        request.at = Instant::now();
        Ok(request)
    }

    async fn body(&mut self, request: &Recorded) -> io::Result<Vec<u8>> {
        if let Some(length) = request.header("content-length") {
            return self.take(length.parse().expect("the gateway sends a proper content-length")).await;
        }
        let mut body = Vec::new();
        if request.header("transfer-encoding").is_some() {
            loop {
                let line = self.line().await?;
                let size = usize::from_str_radix(line.trim(), 16).expect("the gateway sends proper chunks");
                body.extend(self.take(size).await?);
                self.line().await?;
                if size == 0 {
                    break;
                }
            }
        }
        Ok(body)
    }
}

/// The state of the connection after an answer.
enum After {
    NextRequest,
    PeerGone,
    Fin,
    Rst,
}

pub(super) async fn serve(stream: impl Wire, index: usize, shared: &Shared) {
    let _ = stream.tcp().set_nodelay(true);
    let (half, mut writer) = tokio::io::split(stream);
    let mut reader = Reader { half, pending: Vec::new() };
    let mut last: Option<Arc<Recorded>> = None;
    while let Ok(request) = reader.request(index).await {
        let request = Arc::new(request);
        let answer = shared.answer_to(&request);
        last = Some(Arc::clone(&request));
        let after = play(answer.steps, &mut reader, &mut writer).await;
        match after {
            After::NextRequest => continue,
            After::PeerGone => {}
            After::Fin => {
                let _ = writer.shutdown().await;
                reader.gone().await;
            }
            After::Rst => {
                let stream = reader.half.unsplit(writer);
                let _ = stream.tcp().set_zero_linger();
                drop(stream);
                request.mark_closed();
                return;
            }
        }
        break;
    }
    if let Some(request) = last {
        request.mark_closed();
    }
}

async fn play<S: Wire>(steps: Vec<Step>, reader: &mut Reader<S>, writer: &mut WriteHalf<S>) -> After {
    for step in steps {
        let written = match step {
            Step::Raw(bytes) => writer.write_all(&bytes).await,
            Step::Chunk(bytes) => writer.write_all(&chunk(&bytes)).await,
            Step::EndChunks => writer.write_all(b"0\r\n\r\n").await,
            Step::Wait(signal) => tokio::select! {
                () = signal.0.notified() => Ok(()),
                () = reader.gone() => return After::PeerGone,
            },
            Step::Pause(time) => tokio::select! {
                () = tokio::time::sleep(time) => Ok(()),
                () = reader.gone() => return After::PeerGone,
            },
            Step::Endless(bytes, every) => loop {
                if writer.write_all(&chunk(&bytes)).await.is_err() {
                    return After::PeerGone;
                }
                tokio::select! {
                    () = tokio::time::sleep(every) => {}
                    () = reader.gone() => return After::PeerGone,
                }
            },
            Step::Hang => {
                reader.gone().await;
                return After::PeerGone;
            }
            Step::Reset => return After::Rst,
            Step::Close => return After::Fin,
        };
        if written.is_err() || writer.flush().await.is_err() {
            return After::PeerGone;
        }
    }
    After::NextRequest
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    framed
}
