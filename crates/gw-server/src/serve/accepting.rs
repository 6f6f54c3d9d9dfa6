//! The loop that accepts connections, and the kernel's memory for them.

use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::ServeContext;
use crate::connection_slots::{REFUSAL_PAUSE, REFUSALS_PER_PAUSE};
use crate::listener::Listener;

/// The kernel's send buffer of a client connection.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// The most bytes of it that are not sent yet.
const MAX_UNSENT_BYTES: u32 = 64 << 10;
/// The pause after a connection could not be accepted for want of file descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(75);
/// The time between two warnings that connections cannot be accepted.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// The most connections that wait to be accepted. In a burst a full backlog would cost clients a TCP retry of a second. Linux takes at most
/// `net.core.somaxconn`, whose default is the same number.
const BACKLOG: i32 = 4096;
/// The work of accepting before the worker's other tasks run. A refused connection counts 1.
const MAX_ACCEPT_WORK: u32 = 128;

/// Bounds the kernel memory of client connections, which inherit these options. A client that reads nothing then costs
/// little, and its stream waits.
pub(super) fn bound_kernel_memory(listener: &TcpListener) {
    let socket = socket2::SockRef::from(listener);
    // A second `listen` changes only the backlog.
    let bounded = socket.listen(BACKLOG).and_then(|()| socket.set_send_buffer_size(SEND_BUFFER_BYTES));
    #[cfg(target_os = "linux")]
    let bounded = bounded.and_then(|()| socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES));
    if let Err(error) = bounded {
        tracing::warn!(%error, "the send buffers of client connections could not be limited");
    }
}

/// Accepts connections until the listener is closed.
pub(super) async fn accept(socket: TcpListener, listener: Listener, context: ServeContext) {
    let refusal = context.connection_refusal(listener);
    let slots = if listener == Listener::Admin { &context.admin_slots } else { &context.slots };
    let mut last_warning: Option<Instant> = None;
    let (mut work, mut refused) = (0, 0);
    loop {
        if work >= MAX_ACCEPT_WORK {
            work = 0;
            yield_now().await;
        }
        if refused >= REFUSALS_PER_PAUSE {
            refused = 0;
            tokio::time::sleep(REFUSAL_PAUSE).await;
        }
        let next = async {
            // Operators reach their own listener at any load.
            if listener != Listener::Admin {
                context.admission.may_accept().await;
            }
            socket.accept().await
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            // The kernel has already completed the handshake of the connections in its queue, so they are served, unless
            // another process has the queue.
            () = context.closed.cancelled() => {
                let is_mine = !context.state.is_handed_over();
                match is_mine.then(|| socket.accept().now_or_never()).flatten() {
                    Some(accepted) => accepted,
                    None => return,
                }
            }
        };
        match accepted {
            Ok((stream, client)) => match slots.serve() {
                Some(permit) => work += context.take_connection(stream, client, listener, permit),
                None => {
                    (work, refused) = (work + 1, refused + 1);
                    context.refuse_connection(stream, slots, &refusal);
                }
            },
            Err(error) if is_caused_by_client(&error) => work += 1,
            Err(error) => {
                context.state.metrics.accept_errors.inc();
                if last_warning.is_none_or(|at| at.elapsed() > WARN_EVERY) {
                    last_warning = Some(Instant::now());
                    tracing::warn!(%error, "connections cannot be accepted; trying again");
                }
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Whether the client left before it was accepted. Every other error would return at once and make the loop spin.
fn is_caused_by_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
