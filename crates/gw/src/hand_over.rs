//! Hands the listening sockets over to the next gateway on this machine, so that a restart refuses no connection.
//!
//! Both processes then have the same kernel socket with one queue of new connections. No connection is lost, whichever of
//! them accepts it. (With SO_REUSEPORT each process has a queue of its own, and connections in the queue of the one that ends
//! are reset.) The running gateway listens on a Unix socket in its data directory. It ends only after the next one serves.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use gw_server::{Listeners, Shutdown};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{UnixListener, UnixStream};

use crate::listeners::MAX_SOCKETS;

/// The longest wait of a start for the sockets of the running gateway.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait of the running gateway for the next one to serve. A start opens the store and reads the journal.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// The processes that may have the sockets and not serve yet. Beyond it the one that asked first is given up.
const MAX_STARTING: usize = 4;
/// The byte that comes with the sockets.
const SOCKETS: u8 = b'S';
/// The byte that tells the running gateway that the next one serves.
const READY: u8 = b'R';

fn socket_path(data: &Path) -> PathBuf {
    data.join("hand-over.sock")
}

/// Offers the listening sockets to the next gateway with this data directory. The shutdown begins when that one serves.
pub fn offer(listeners: &Listeners, data: &Path, shutdown: Shutdown) {
    let path = socket_path(data);
    match open(listeners, &path) {
        Ok((socket, listening)) => drop(tokio::spawn(hand_over(socket, listening, shutdown))),
        Err(error) => {
            let path = path.display().to_string();
            tracing::warn!(%error, path, "the next gateway cannot take the sockets over (serve --take-over)");
        }
    }
}

fn open(listeners: &Listeners, path: &Path) -> io::Result<(UnixListener, Vec<OwnedFd>)> {
    let sockets = std::iter::once(&listeners.public).chain(&listeners.admin);
    let listening = sockets.map(|socket| socket.as_fd().try_clone_to_owned()).collect::<io::Result<_>>()?;
    // The socket gets its name when it can be connected to, and only by this user. It replaces the file that the gateway before
    // this one left.
    let unnamed = path.with_extension("new");
    match std::fs::remove_file(&unnamed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixListener::bind(&unnamed)?;
    std::fs::set_permissions(&unnamed, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&unnamed, path)?;
    Ok((socket, listening))
}

/// Waits for the next gateway. The copies of the sockets are closed when a shutdown begins.
async fn hand_over(socket: UnixListener, listening: Vec<OwnedFd>, shutdown: Shutdown) {
    tokio::select! {
        () = next_serves(&socket, &listening) => {
            tracing::info!("the next gateway serves: finishing the requests of this one");
            shutdown.hand_over();
        }
        () = shutdown.begun() => {}
    }
}

/// Hands the sockets to each process that asks, until one of them serves. A process that asks and says nothing more holds up
/// no other one.
async fn next_serves(socket: &UnixListener, listening: &[OwnedFd]) {
    let mut starting = VecDeque::with_capacity(MAX_STARTING);
    loop {
        tokio::select! {
            is_serving = first_end(&mut starting) => {
                if is_serving {
                    return;
                }
            }
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    if starting.len() == MAX_STARTING {
                        tracing::warn!("a process took the sockets and did not serve; it is given up");
                        starting.pop_front();
                    }
                    starting.push_back(Box::pin(give(stream, listening)));
                }
                Err(error) => {
                    tracing::warn!(%error, "the sockets could not be handed over");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
        }
    }
}

/// Waits until one of the processes serves or has ended, and takes it out. Returns whether it serves.
async fn first_end(starting: &mut VecDeque<impl Future<Output = io::Result<bool>> + Unpin>) -> bool {
    let (at, given) = std::future::poll_fn(|context| {
        let ended =
            starting.iter_mut().enumerate().find_map(|(at, give)| match Pin::new(give).poll(context) {
                Poll::Ready(given) => Some((at, given)),
                Poll::Pending => None,
            });
        ended.map_or(Poll::Pending, Poll::Ready)
    })
    .await;
    starting.remove(at);
    match given {
        Ok(true) => return true,
        Ok(false) => tracing::warn!("the next gateway ended before it served; this one goes on"),
        Err(error) => tracing::warn!(%error, "the sockets could not be handed over"),
    }
    false
}

/// Hands the sockets to the process at the other end. Returns whether that process serves now.
///
/// # Errors
/// The process is of another user, takes no sockets, or does not serve in [`READY_TIMEOUT`].
async fn give(mut stream: UnixStream, listening: &[OwnedFd]) -> io::Result<bool> {
    let user = stream.peer_cred()?.uid();
    if user != rustix::process::geteuid().as_raw() && user != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user asked for them"));
    }
    let serving = async {
        stream.async_io(Interest::WRITABLE, || send(&stream, listening)).await?;
        let mut byte = [0];
        Ok(stream.read(&mut byte).await? == 1 && byte == [READY])
    };
    tokio::time::timeout(READY_TIMEOUT, serving).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, "the next gateway did not serve in time"))
    })
}

fn send(stream: &UnixStream, listening: &[OwnedFd]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<_> = listening.iter().map(AsFd::as_fd).collect();
    if !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("too many sockets"));
    }
    rustix::net::sendmsg(stream, &[IoSlice::new(&[SOCKETS])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The gateway whose sockets this process has. It goes on when this is dropped.
#[derive(Debug)]
pub struct Predecessor(BlockingStream);

impl Predecessor {
    /// Tells it that this process serves now, so that it finishes its requests and ends.
    pub fn end(mut self) {
        // One byte fits into the buffer of the socket, so this does not block.
        if let Err(error) = self.0.write_all(&[READY]) {
            tracing::warn!(%error, "the gateway before this one does not hear that it can end");
        }
    }
}

/// The sockets of the running gateway with this data directory: that of `server.listen`, then that of `server.admin_listen`.
/// None: no gateway runs there.
///
/// # Errors
/// When the running gateway gives no sockets.
pub async fn take_over(data: &Path) -> io::Result<Option<(Vec<std::net::TcpListener>, Predecessor)>> {
    let path = socket_path(data);
    let taking = tokio::task::spawn_blocking(move || {
        let stream = match BlockingStream::connect(&path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let sockets = receive(&stream).map_err(|error| explained(error, &path))?;
        Ok(Some((sockets, Predecessor(stream))))
    });
    taking.await.unwrap_or_else(|_| Err(io::Error::other("the thread failed")))
}

/// A receive that timed out says so only by a number of the system.
fn explained(error: io::Error, path: &Path) -> io::Error {
    if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        return error;
    }
    let (path, seconds) = (path.display(), ANSWER_TIMEOUT.as_secs());
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "the gateway at {path} gave no sockets within {seconds} s; stop it, or start without --take-over"
        ),
    )
}

fn receive(stream: &BlockingStream) -> io::Result<Vec<std::net::TcpListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let received = rustix::net::recvmsg(stream, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets = Vec::with_capacity(MAX_SOCKETS);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors.map(std::net::TcpListener::from));
        }
    }
    if received.bytes != 1 || byte != [SOCKETS] || sockets.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the running gateway gave no sockets"));
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_process_that_takes_the_sockets_and_says_nothing_is_given_up() {
        let listening = [OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap())];
        let (silent, other_end) = UnixStream::pair().unwrap();
        let before = tokio::time::Instant::now();
        let given = give(silent, &listening).await;
        assert_eq!(given.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(before.elapsed().as_secs(), READY_TIMEOUT.as_secs());
        drop(other_end);
    }
}
