//! Keeps one connection up. Callers report calls without an answer, one task reconnects, and the log hears of each
//! change once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::{Notify, watch};

use crate::address::{Address, AddressError};
use crate::connection::Connection;
use crate::error::{CallError, OnTimeout};
use crate::metered_stream::ReceiveBudget;

/// Calls without an answer, in a row, after which a connection is given up.
pub const MAX_MISSED_ANSWERS: u32 = 3;
/// The time limit of connecting and logging in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit of the first attempt, which delays the start of the program.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The pause between two attempts to connect.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// The work of a user of Redis with each connection.
pub trait Session: Send + Sync {
    /// The result of [`Session::prepare`].
    type Prepared: Send;

    /// Prepares a new connection and checks that Redis answers in the time that requests have. Requests use the
    /// connection after this succeeds.
    fn prepare(
        &self,
        connection: &Arc<Connection>,
    ) -> impl Future<Output = Result<Self::Prepared, CallError>> + Send;

    /// Exchanges a sign of life over the connection in use. Reports failures with [`Supervisor::call`] or
    /// [`Supervisor::record`].
    fn heartbeat(&self, connection: &Arc<Connection>) -> impl Future<Output = ()> + Send;
}

/// The log messages for a Redis that stops answering, and for one that answers again.
#[derive(Clone, Copy, Debug)]
pub struct LogMessages {
    /// Redis stopped answering.
    pub lost: &'static str,
    /// Redis answers again.
    pub restored: &'static str,
}

/// A connection that comes and goes.
#[derive(Debug)]
pub struct Supervisor {
    address: Result<Address, AddressError>,
    receive_budget: ReceiveBudget,
    messages: LogMessages,
    /// None while Redis does not answer.
    current: watch::Sender<Option<Arc<Connection>>>,
    has_logged_loss: AtomicBool,
    wake: Notify,
}

impl Supervisor {
    /// A supervisor without a connection. A URL that cannot be read is a server that never answers.
    #[must_use]
    pub fn new(
        url: &SecretString,
        ca_file: Option<&Path>,
        receive_budget: ReceiveBudget,
        messages: LogMessages,
    ) -> Self {
        Self {
            address: Address::parse(url, ca_file),
            receive_budget,
            messages,
            current: watch::Sender::new(None),
            has_logged_loss: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// The connection in use. None while Redis does not answer.
    #[must_use]
    pub fn connection(&self) -> Option<Arc<Connection>> {
        self.current.borrow().clone()
    }

    /// Whether Redis does not answer.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.current.borrow().is_none()
    }

    /// Waits until there is a connection.
    pub async fn wait_for_connection(&self) -> Option<Arc<Connection>> {
        let mut current = self.current.subscribe();
        current.wait_for(Option::is_some).await.ok().and_then(|connection| connection.clone())
    }

    /// Waits until this connection is not in use any more.
    pub async fn wait_for_loss(&self, connection: &Arc<Connection>) {
        let mut current = self.current.subscribe();
        let is_other =
            |now: &Option<Arc<Connection>>| now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, connection));
        let _sender_lives = current.wait_for(is_other).await;
    }

    /// Connects once, within the short time that a start may take. Returns what [`Session::prepare`] returned, or None
    /// while Redis does not answer.
    pub async fn connect_at_start<S: Session>(&self, session: &S) -> Option<S::Prepared> {
        let connected = tokio::time::timeout(FIRST_CONNECT_TIMEOUT, self.connect(session)).await;
        connected.unwrap_or_else(|_| {
            self.log_loss(&"no answer");
            None
        })
    }

    /// Keeps the connection up until the task is aborted: sends heartbeats, and reconnects.
    pub async fn run(&self, session: &impl Session) {
        loop {
            match self.connection() {
                None => tokio::select! {
                    () = tokio::time::sleep(RECONNECT_INTERVAL) => {}
                    () = self.wake.notified() => {}
                },
                Some(connection) => tokio::select! {
                    () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
                    () = self.wait_for_loss(&connection) => {}
                    () = self.wake.notified() => {}
                },
            }
            match self.connection() {
                None => drop(self.connect(session).await),
                Some(connection) => session.heartbeat(&connection).await,
            }
        }
    }

    /// Makes the next heartbeat due at once.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for an answer for at most `timeout`, and records whether it came.
    ///
    /// # Errors
    /// The answer is an error, or it is late.
    pub async fn call<T>(
        &self,
        connection: &Arc<Connection>,
        timeout: Duration,
        on_timeout: OnTimeout,
        answer: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let answer = tokio::time::timeout(timeout, answer).await.unwrap_or(Err(CallError::TimedOut));
        self.record(connection, &answer, on_timeout);
        answer
    }

    /// Records whether an answer came. A broken connection is given up at once, a working one after
    /// [`MAX_MISSED_ANSWERS`] failures in a row.
    pub fn record<T>(
        &self,
        connection: &Arc<Connection>,
        answer: &Result<T, CallError>,
        on_timeout: OnTimeout,
    ) {
        let Err(error) = answer else {
            connection.reset_missed_answers();
            return;
        };
        let is_last_miss = connection.count_missed_answer() >= MAX_MISSED_ANSWERS;
        if is_last_miss || error.is_disconnect(on_timeout) {
            self.disconnect(connection, error);
        }
    }

    fn disconnect(&self, connection: &Arc<Connection>, error: &CallError) {
        let is_removed = self.current.send_if_modified(|now| {
            let is_same = now.as_ref().is_some_and(|now| Arc::ptr_eq(now, connection));
            if is_same {
                *now = None;
            }
            is_same
        });
        if is_removed {
            self.log_loss(error);
        }
    }

    async fn connect<S: Session>(&self, session: &S) -> Option<S::Prepared> {
        let address = self.address.as_ref().map_err(|error| self.log_loss(error)).ok()?;
        let opened = Connection::open(address, self.receive_budget);
        let connection = match tokio::time::timeout(CONNECT_TIMEOUT, opened).await {
            Err(_) => {
                self.log_loss(&"no answer to a connection");
                return None;
            }
            Ok(opened) => Arc::new(opened.map_err(|error| self.log_loss(&CallError::from(error))).ok()?),
        };
        let prepared = session.prepare(&connection).await.map_err(|error| self.log_loss(&error)).ok()?;
        self.current.send_replace(Some(connection));
        if self.has_logged_loss.swap(false, Ordering::AcqRel) {
            tracing::info!("{}", self.messages.restored);
        }
        Some(prepared)
    }

    /// Logs that Redis does not answer, once until it answers again.
    fn log_loss(&self, why: &dyn std::fmt::Display) {
        if !self.has_logged_loss.swap(true, Ordering::AcqRel) {
            let why = why.to_string();
            tracing::warn!(why, "{}", self.messages.lost);
        }
    }
}
