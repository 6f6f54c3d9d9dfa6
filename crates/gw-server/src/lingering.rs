//! Lingering close of refused connections: the rest of the request is thrown away until the client closes, so that no reset
//! overtakes the answer (RFC 9112, section 9.6).
//!
//! No task waits for these sockets. The worker looks at all of them every few milliseconds: under overload that is cheaper
//! than an event of the kernel and a task for each.

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

use crate::discard::LARGEST_DISCARDED;
use crate::edge::Place;

/// The longest time to read the rest of a refused request: its client finishes sending, and then reads the answer.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
/// Between two looks at the sockets.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Sockets of one look: what a look costs has a bound, however many clients do not close.
const MOST_LOOKED_AT: usize = 256;
/// Bytes of a request that one call of the kernel throws away.
const PIECE: usize = 256 << 10;
/// Calls of the kernel for one socket in one look.
const PIECES_IN_A_ROW: usize = 4;

thread_local! {
    /// The kernel wants a place to write to, and writes nothing there on Linux: these pages are never touched.
    static NOWHERE: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into());
}

/// What a connection occupies until it is closed.
pub(crate) type Occupied = (OwnedSemaphorePermit, Place, TaskTrackerToken);

/// A refused connection.
#[derive(Debug)]
struct Refused {
    socket: TcpStream,
    until: Instant,
    thrown_away: usize,
    _occupied: Occupied,
}

/// The refused connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    sockets: Mutex<VecDeque<Refused>>,
    arrived: Notify,
}

impl Lingering {
    /// Takes a connection whose answer is written and whose sending half is shut.
    pub(crate) fn add(&self, socket: TcpStream, occupied: Occupied) {
        let mut refused =
            Refused { socket, until: Instant::now() + LINGER, thrown_away: 0, _occupied: occupied };
        // A first look at once: it opens TCP's window for a client that still sends.
        if refused.is_open() {
            self.sockets.lock().push_back(refused);
            self.arrived.notify_one();
        }
    }

    /// Looks at the connections for as long as there are any; runs on the worker as long as it does.
    pub(crate) async fn watch(&self) {
        loop {
            self.arrived.notified().await;
            while self.look() {
                sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Throws away what has come and closes what has ended. False: no connection is left.
    fn look(&self) -> bool {
        let mut sockets = self.sockets.lock();
        for _ in 0..sockets.len().min(MOST_LOOKED_AT) {
            let Some(mut refused) = sockets.pop_front() else { break };
            if refused.is_open() {
                sockets.push_back(refused);
            }
        }
        !sockets.is_empty()
    }
}

impl Refused {
    /// Throws away what has come. False: the client has closed, or has had its time.
    fn is_open(&mut self) -> bool {
        for _ in 0..PIECES_IN_A_ROW {
            match throw_away(&self.socket) {
                Ok(0) => return false,
                Ok(bytes) => self.thrown_away += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.thrown_away < LARGEST_DISCARDED && Instant::now() < self.until
    }
}

/// Has the kernel drop bytes that came, without a copy. Zero: the client has closed.
fn throw_away(socket: &TcpStream) -> io::Result<usize> {
    NOWHERE.with_borrow_mut(|nowhere| {
        let (_, bytes) = rustix::net::recv(socket, &mut nowhere[..], RecvFlags::TRUNC)?;
        Ok(bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::metrics::gauge::Gauge;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Connections that linger, and what they occupy.
    struct Bench {
        lingering: Arc<Lingering>,
        places: Arc<Semaphore>,
        gauge: Gauge,
        tracker: TaskTracker,
    }

    impl Bench {
        fn new() -> Self {
            let lingering = Arc::<Lingering>::default();
            let watched = Arc::clone(&lingering);
            tokio::spawn(async move { watched.watch().await });
            Self {
                lingering,
                places: Arc::new(Semaphore::new(8)),
                gauge: Gauge::default(),
                tracker: TaskTracker::new(),
            }
        }

        /// A client whose connection was answered and lingers.
        async fn refused(&self) -> TcpStream {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            server.write_all(b"answer").await.unwrap();
            server.shutdown().await.unwrap();
            let permit = Arc::clone(&self.places).acquire_owned().await.unwrap();
            self.lingering.add(server, (permit, Place::take(&self.gauge), self.tracker.token()));
            client
        }

        fn occupied(&self) -> (usize, i64, usize) {
            (8 - self.places.available_permits(), self.gauge.get(), self.tracker.len())
        }

        async fn is_empty(&self) {
            while self.occupied() != (0, 0, 0) {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_all_before_it_reads_hears_the_answer() {
        let bench = Bench::new();
        let mut client = bench.refused().await;
        client.write_all(&vec![b'x'; 8 << 20]).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
        assert_eq!(bench.occupied(), (1, 1, 1), "until the client closes");
        drop(client);
        bench.is_empty().await;
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_do_not_close_are_closed_upon() {
        let bench = Bench::new();
        let begun = Instant::now();
        let clients = [bench.refused().await, bench.refused().await];
        assert_eq!(bench.occupied(), (2, 2, 2));
        sleep(LINGER - LOOK_EVERY).await;
        assert_eq!(bench.occupied(), (2, 2, 2), "they have {LINGER:?}");
        sleep(LOOK_EVERY * 3).await;
        assert_eq!(bench.occupied(), (0, 0, 0), "after {:?}", begun.elapsed());
        drop(clients);
    }
}
