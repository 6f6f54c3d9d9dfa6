//! A provider's open connections: idle HTTP/1.1 connections and shared HTTP/2 connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::http1::Http1;
use super::http2::Http2;

/// The most idle connections.
const MAX_IDLE: usize = 256;
/// The longest time that an idle connection is kept.
const IDLE_EXPIRY: Duration = Duration::from_secs(60);
/// The interval at which idle connections are checked.
const SWEEP_EVERY: Duration = Duration::from_secs(20);

/// The open connections of one provider.
///
/// Idle connections are kept by thread, because a socket belongs to the reactor of the thread that opened it. On
/// another thread every piece of an answer would wake two threads.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Idle>,
    shared: Mutex<Vec<Http2>>,
}

/// The start of the idle time, the thread, and the connection.
type IdleConnection = (Instant, ThreadId, Box<Http1>);

#[derive(Default)]
struct Idle {
    /// The most recently used is last.
    stack: VecDeque<IdleConnection>,
    is_swept: bool,
}

impl Pool {
    /// The most recently used idle connection of this thread. If the peer has closed it, sending shows that: it
    /// reads the socket before it writes, and returns the request.
    pub(crate) fn take(&self) -> Option<Box<Http1>> {
        let here = std::thread::current().id();
        let mut idle = self.idle.lock();
        let newest = idle.stack.iter().rposition(|(_, thread, _)| *thread == here)?;
        let (since, _, connection) = idle.stack.remove(newest)?;
        if since.elapsed() < IDLE_EXPIRY {
            return Some(connection);
        }
        // This connection is too old, and so are all others of this thread. The sweeper closes them.
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

    /// Starts the task that closes old connections. It ends when no idle connection is left.
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

    /// Closes connections that are too old or closed by the peer. Returns false when none is left.
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

    /// Shares a new connection, unless the pool already has one. Then the new connection serves its one request and
    /// ends.
    pub(crate) fn share(&self, connection: &Http2) {
        let mut shared = self.shared.lock();
        if !shared.iter().any(Http2::has_room) {
            shared.push(connection.clone());
        }
    }
}
