//! A TCP proxy that a test can delay or cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Forwards to a port on the loopback.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    task: tokio::task::AbortHandle,
}

#[derive(Debug, Default)]
struct State {
    delay_ms: AtomicU64,
    /// Pieces of bytes that wait for their delay to end.
    delayed: AtomicUsize,
    cut: AtomicBool,
    cutting: Notify,
}

impl Proxy {
    /// Forwards to this port from now on.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(State::default());
        let task = tokio::spawn(accept(listener, port, Arc::clone(&state))).abort_handle();
        Self { address, state, task }
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays the bytes of the server.
    pub fn delay(&self, delay: Duration) {
        self.state.delay_ms.store(u64::try_from(delay.as_millis()).expect("a short delay"), Ordering::SeqCst);
    }

    /// The number of pieces of the server's bytes that wait for their delay to end.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.state.delayed.load(Ordering::SeqCst)
    }

    /// Closes every connection, and every new one at once.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
        self.state.cutting.notify_waiters();
    }

    /// Forwards again.
    pub fn heal(&self) {
        self.state.cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, port: u16, state: Arc<State>) {
    while let Ok((client, _)) = listener.accept().await {
        if state.cut.load(Ordering::SeqCst) {
            continue;
        }
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let cut = state.cutting.notified();
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            tokio::select! {
                () = cut => {}
                () = copy(from_client, to_server, &state, false) => {}
                () = copy(from_server, to_client, &state, true) => {}
            }
        });
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    state: &State,
    is_delayed: bool,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let delay = if is_delayed { state.delay_ms.load(Ordering::SeqCst) } else { 0 };
        if delay > 0 {
            let sleep = tokio::time::sleep(Duration::from_millis(delay));
            state.delayed.fetch_add(1, Ordering::SeqCst);
            sleep.await;
            state.delayed.fetch_sub(1, Ordering::SeqCst);
        }
        // Bytes that arrive after the cut are dropped, even before the connection closes.
        if state.cut.load(Ordering::SeqCst) || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
