//! Lingering close of refused connections: the rest of the request is discarded until the client closes, so that no reset
//! overtakes the answer (RFC 9112, section 9.6).
//!
//! These sockets have no task. The worker sweeps over all of them every few milliseconds. Under overload that is cheaper
//! than a task and a kernel event for each.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::RecvFlags;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, sleep};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::discard::MAX_DISCARDED_BYTES;

/// The longest pause of the client of a refused request, which still sends or reads the answer.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
/// The longest time for a client that does not pause. Where the machine is busy, megabytes take longer than a pause.
pub(crate) const MAX_LINGER: Duration = Duration::from_secs(10);
/// The time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_millis(5);
/// The most sockets of one sweep, so that the cost of a sweep is bounded.
const MAX_SOCKETS_PER_SWEEP: usize = 256;
/// The bytes that one system call discards.
const DISCARD_BYTES: usize = 256 << 10;
/// The most system calls for one socket in one sweep.
const MAX_CALLS_PER_SWEEP: usize = 4;

thread_local! {
    /// `recv` needs a buffer. With `MSG_TRUNC` Linux writes nothing to it, so its pages take no memory.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; DISCARD_BYTES].into());
}

/// The permits that a refused connection holds until it is closed.
pub(crate) type ConnectionPermits = (OwnedSemaphorePermit, TaskTrackerToken);

/// A refused connection that waits for its client to close.
#[derive(Debug)]
struct LingeringSocket {
    socket: TcpStream,
    /// The end of the pause that began with the last bytes.
    until: Instant,
    /// The end, whatever the client sends.
    end: Instant,
    discarded_bytes: usize,
    _permits: ConnectionPermits,
}

/// The refused connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    sockets: Mutex<VecDeque<LingeringSocket>>,
    arrived: Notify,
}

impl Lingering {
    /// Adds a connection whose answer is written and whose sending half is shut.
    pub(crate) fn add(&self, socket: TcpStream, permits: ConnectionPermits) {
        let now = Instant::now();
        let (until, end) = (now + LINGER, now + MAX_LINGER);
        let mut refused = LingeringSocket { socket, until, end, discarded_bytes: 0, _permits: permits };
        // The first look happens at once, because it opens the TCP window for a client that still sends.
        if refused.is_open() {
            self.sockets.lock().push_back(refused);
            self.arrived.notify_one();
        }
    }

    /// Sweeps while there are connections. Runs on the worker for as long as the worker runs.
    pub(crate) async fn run(&self) {
        loop {
            self.arrived.notified().await;
            while self.sweep() {
                sleep(SWEEP_INTERVAL).await;
            }
        }
    }

    /// Discards the bytes that arrived, and closes the connections that ended. Returns whether connections remain.
    fn sweep(&self) -> bool {
        let mut sockets = self.sockets.lock();
        for _ in 0..sockets.len().min(MAX_SOCKETS_PER_SWEEP) {
            let Some(mut refused) = sockets.pop_front() else { break };
            if refused.is_open() {
                sockets.push_back(refused);
            }
        }
        !sockets.is_empty()
    }
}

impl LingeringSocket {
    /// Discards the bytes that arrived. Returns false when the client has closed or its time is over.
    fn is_open(&mut self) -> bool {
        let now = Instant::now();
        for _ in 0..MAX_CALLS_PER_SWEEP {
            match discard(&self.socket) {
                Ok(0) => return false,
                Ok(bytes) => {
                    self.discarded_bytes += bytes;
                    self.until = now + LINGER;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.discarded_bytes < MAX_DISCARDED_BYTES && now < self.until.min(self.end)
    }
}

/// Makes the kernel drop the bytes that arrived, without a copy. Returns zero when the client has closed.
fn discard(socket: &TcpStream) -> io::Result<usize> {
    BUFFER.with_borrow_mut(|buffer| {
        let (_, bytes) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::TRUNC)?;
        Ok(bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Lingering connections, and the permits that they hold.
    struct Bench {
        lingering: Arc<Lingering>,
        connections: Arc<Semaphore>,
        tracker: TaskTracker,
    }

    impl Bench {
        fn new() -> Self {
            let lingering = Arc::<Lingering>::default();
            let watched = Arc::clone(&lingering);
            tokio::spawn(async move { watched.run().await });
            Self { lingering, connections: Arc::new(Semaphore::new(8)), tracker: TaskTracker::new() }
        }

        /// A client whose connection was answered and lingers.
        async fn refused(&self) -> TcpStream {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            server.write_all(b"answer").await.unwrap();
            server.shutdown().await.unwrap();
            let permit = Arc::clone(&self.connections).acquire_owned().await.unwrap();
            self.lingering.add(server, (permit, self.tracker.token()));
            client
        }

        fn permits(&self) -> (usize, usize) {
            (8 - self.connections.available_permits(), self.tracker.len())
        }

        async fn is_empty(&self) {
            while self.permits() != (0, 0) {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_all_before_it_reads_gets_the_answer() {
        let bench = Bench::new();
        let mut client = bench.refused().await;
        client.write_all(&vec![b'x'; 8 << 20]).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
        assert_eq!(bench.permits(), (1, 1), "until the client closes");
        drop(client);
        bench.is_empty().await;
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_do_not_close_are_closed_after_a_time() {
        let bench = Bench::new();
        let begun = Instant::now();
        let clients = [bench.refused().await, bench.refused().await];
        assert_eq!(bench.permits(), (2, 2));
        sleep(LINGER - SWEEP_INTERVAL).await;
        assert_eq!(bench.permits(), (2, 2), "they have {LINGER:?}");
        sleep(SWEEP_INTERVAL * 3).await;
        assert_eq!(bench.permits(), (0, 0), "after {:?}", begun.elapsed());
        drop(clients);
    }
}
