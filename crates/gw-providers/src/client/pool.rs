//! A provider's open connections: a stack of idle HTTP/1.1 ones and the shared HTTP/2 ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::http1::Http1;
use super::http2::Http2;

/// Idle connections kept at most.
const MAX_IDLE: usize = 256;
/// How long an idle connection is kept.
const IDLE_EXPIRY: Duration = Duration::from_secs(60);
/// How often idle connections are looked through while there are any.
const SWEEP_EVERY: Duration = Duration::from_secs(20);

/// The open connections of one provider.
///
/// Idle connections are kept by thread: a socket belongs to the reactor of the thread that opened it, and another
/// thread's request would wake two threads for every piece of its answer.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Idle>,
    shared: Mutex<Vec<Http2>>,
}

/// An idle connection, its thread, and since when it is idle.
type IdleConnection = (Instant, ThreadId, Box<Http1>);

#[derive(Default)]
struct Idle {
    /// The most recently used is last.
    stack: VecDeque<IdleConnection>,
    is_swept: bool,
}

impl Pool {
    /// The most recently used idle connection. Whether the peer closed it shows when the request is sent: hyper looks
    /// at the socket before it writes, and gives the request back.
    pub(crate) fn take(&self) -> Option<Box<Http1>> {
        let here = std::thread::current().id();
        let mut idle = self.idle.lock();
        let newest = idle.stack.iter().rposition(|(_, thread, _)| *thread == here)?;
        let (since, _, connection) = idle.stack.remove(newest)?;
        if since.elapsed() < IDLE_EXPIRY {
            return Some(connection);
        }
        // Too old, and so is every other of this thread: the sweeper closes them.
        drop(idle);
        drop(connection);
        None
    }

    /// Takes back a connection that is ready for another request.
    pub(crate) fn put(self: &Arc<Self>, connection: Box<Http1>) {
        let mut idle = self.idle.lock();
        idle.stack.push_back((Instant::now(), std::thread::current().id(), connection));
        let surplus = if idle.stack.len() > MAX_IDLE { idle.stack.pop_front() } else { None };
        let must_start = !std::mem::replace(&mut idle.is_swept, true);
        drop(idle);
        drop(surplus);
        if must_start {
            self.start_sweeping();
        }
    }

    /// One task per pool that holds idle connections; it ends when there are none.
    fn start_sweeping(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            self.idle.lock().is_swept = false;
            return;
        };
        let pool = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                match pool.upgrade() {
                    Some(pool) if pool.sweep() => {}
                    _ => return,
                }
            }
        });
    }

    /// Closes what is too old or closed by the peer; false when nothing is left.
    fn sweep(&self) -> bool {
        let mut idle = self.idle.lock();
        idle.stack
            .retain_mut(|(since, _, connection)| since.elapsed() < IDLE_EXPIRY && connection.is_alive());
        idle.is_swept = !idle.stack.is_empty();
        idle.is_swept
    }

    /// A shared connection with room for another stream.
    pub(crate) fn shared(&self) -> Option<Http2> {
        let mut shared = self.shared.lock();
        shared.retain(|connection| !connection.is_closed());
        shared.iter().find(|connection| connection.has_room()).cloned()
    }

    /// Shares a new connection, unless another came first: then it serves its one request and ends.
    pub(crate) fn share(&self, connection: &Http2) {
        let mut shared = self.shared.lock();
        if !shared.iter().any(Http2::has_room) {
            shared.push(connection.clone());
        }
    }
}
