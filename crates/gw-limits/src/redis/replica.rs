//! This replica as one of those that share a Redis: the state that requests and background tasks have in common, and
//! calls of scripts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gw_redis::{LogMessages, MAX_MISSED_ANSWERS, OnTimeout, PendingCount, ReceiveBudget, Supervisor};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::answer::{Answer, ScriptRefusal};
use super::holdings::Holdings;
use super::message::Message;
use super::script::{Script, Scripts};
use super::script_call::ScriptCall;
use super::settings::RedisSettings;
use crate::clock::{Clock, SystemClock};

/// The most messages that wait for Redis.
pub(crate) const MAX_QUEUED_MESSAGES: usize = 65_536;
/// How long a replica counts as alive after its last heartbeat.
pub(crate) const REPLICA_TTL: Duration = Duration::from_secs(5);
/// Bytes that Redis may send for each byte of a request. The longest answer is a page of request ids.
const ANSWER_BYTES_PER_REQUEST_BYTE: i64 = 128;
/// The start of 2025, from which the scripts count microseconds (see `prelude.lua`). In microseconds since 1970.
const SCRIPT_EPOCH_MICROS: f64 = 1_735_689_600_000_000.0;
const LOG_MESSAGES: LogMessages = LogMessages {
    lost: "Redis is away: budgets refuse, other limits are counted per replica",
    restored: "Redis answers: limits are shared again",
};

/// Redis did not answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// There is no connection, so the request was not sent.
    #[error("Redis was not asked")]
    NotAsked,
    /// Redis may have executed the request.
    #[error("Redis did not answer")]
    InDoubt,
}

/// The connection to Redis, and what this replica knows of Redis and of the other replicas.
pub(crate) struct Replica {
    pub(crate) settings: RedisSettings,
    pub(crate) scripts: Scripts,
    pub(crate) supervisor: Supervisor,
    pub(crate) outbox: mpsc::Sender<Message>,
    /// Messages that are not delivered yet.
    pub(crate) pending: PendingCount,
    /// Messages that will never be delivered.
    pub(crate) lost_messages: AtomicU64,
    pub(crate) holdings: Holdings,
    /// Whether Redis knows everything that this replica holds. While it does not, messages wait: a settlement must not
    /// overtake the report of its reservation.
    pub(crate) is_in_sync: watch::Sender<bool>,
    /// The generation of Redis, for requests that wait for the next one.
    pub(crate) generation: watch::Sender<Arc<str>>,
    /// The last generation that this replica has completely reported to.
    pub(crate) reported_generation: watch::Sender<Arc<str>>,
    /// Redis may have lost its memory.
    pub(crate) is_loss_suspected: AtomicBool,
    /// Redis missed something, so the next generation has to begin.
    pub(crate) is_generation_stale: AtomicBool,
    /// When this replica last began a generation because Redis had missed something.
    pub(crate) last_forced_generation: Mutex<Option<Instant>>,
    /// Whether the log says that budgets wait for reports.
    pub(crate) has_warned: AtomicBool,
    pub(crate) id: String,
    pub(crate) alive_replicas: AtomicU32,
    /// The other replicas, and when Redis last named each. None before the first answer.
    pub(crate) peers: Mutex<Option<HashMap<String, Instant>>>,
    epochs: AtomicU64,
    /// Set by tests.
    clock: Option<Arc<dyn Clock>>,
    system_clock: SystemClock,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the address, which may contain a password.
        f.debug_struct("Replica").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Replica {
    /// A replica without a connection, and the queue of its messages.
    pub(crate) fn new(
        settings: RedisSettings,
        clock: Option<Arc<dyn Clock>>,
    ) -> (Self, mpsc::Receiver<Message>) {
        let (outbox, messages) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let receive_budget = ReceiveBudget {
            bytes_per_request_byte: ANSWER_BYTES_PER_REQUEST_BYTE,
            ..ReceiveBudget::default()
        };
        let supervisor =
            Supervisor::new(&settings.url, settings.ca_file.as_deref(), receive_budget, LOG_MESSAGES);
        let replica = Self {
            settings,
            scripts: Scripts::default(),
            supervisor,
            outbox,
            pending: PendingCount::default(),
            lost_messages: AtomicU64::new(0),
            holdings: Holdings::default(),
            is_in_sync: watch::Sender::new(false),
            generation: watch::Sender::new("".into()),
            reported_generation: watch::Sender::new("".into()),
            is_loss_suspected: AtomicBool::new(false),
            is_generation_stale: AtomicBool::new(false),
            last_forced_generation: Mutex::new(None),
            has_warned: AtomicBool::new(false),
            id: format!("{:032x}", rand::random::<u128>()),
            alive_replicas: AtomicU32::new(1),
            peers: Mutex::new(None),
            epochs: AtomicU64::new(0),
            clock,
            system_clock: SystemClock::default(),
        };
        (replica, messages)
    }

    fn clock(&self) -> &dyn Clock {
        self.clock.as_deref().unwrap_or(&self.system_clock)
    }

    /// The current moment in microseconds, by a clock that changes of the calendar do not move.
    pub(crate) fn now(&self) -> f64 {
        self.clock().monotonic_micros()
    }

    /// Converts a moment of the calendar (unix seconds) to the clock of [`Replica::now`].
    pub(crate) fn moment(&self, unix: i64) -> f64 {
        let clock = self.clock();
        let age_seconds = clock.unix_seconds().saturating_sub(unix);
        clock.monotonic_micros() - age_seconds as f64 * 1_000_000.0
    }

    /// A script call for a request, under the generation that this replica knows.
    pub(crate) fn call(&self, request_id: &str) -> ScriptCall {
        self.call_with_lease(request_id, self.settings.lease)
    }

    /// A script call with another lease.
    pub(crate) fn call_with_lease(&self, name: &str, lease: Duration) -> ScriptCall {
        self.call_in(self.holdings.generation(), name, lease)
    }

    /// A script call that works in every generation.
    pub(crate) fn call_in_any_generation(&self, name: &str) -> ScriptCall {
        self.call_in("".into(), name, self.settings.lease)
    }

    fn call_in(&self, generation: Arc<str>, name: &str, lease: Duration) -> ScriptCall {
        let time = self.clock.as_ref().map(|clock| clock.monotonic_micros() + SCRIPT_EPOCH_MICROS);
        let generation_key = format!("{}generation", self.settings.prefix);
        ScriptCall::new(time, name, lease, generation_key, generation)
    }

    /// The key of the set of replicas.
    pub(crate) fn replicas_key(&self) -> String {
        format!("{}replicas", self.settings.prefix)
    }

    /// A unique name for a subject's state that begins now.
    pub(crate) fn new_epoch(&self) -> String {
        format!("{}-{}", self.id, self.epochs.fetch_add(1, Ordering::Relaxed))
    }

    /// The number of replicas alive, by which a limit is divided while each replica counts for itself.
    pub(crate) fn replica_count(&self) -> u32 {
        self.alive_replicas.load(Ordering::Relaxed).max(1)
    }

    /// How long an answer may take before Redis counts as away. A request that was asked in time still uses a late
    /// answer.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.timeout.saturating_mul(MAX_MISSED_ANSWERS)
    }

    /// Runs a script and waits for its answer while the connection stands. When one request finds out that Redis is
    /// away, no other waits any longer: answers come in order, so theirs would come even later.
    pub(crate) async fn ask(&self, script: &Script, call: &ScriptCall) -> Result<Answer, AskError> {
        let connection = self.supervisor.connection().ok_or(AskError::NotAsked)?;
        let running = script.run(&connection, call);
        let asked = self.supervisor.call(&connection, self.patience(), OnTimeout::Disconnect, running);
        let answer = tokio::select! {
            biased;
            answer = asked => answer.map_err(|_| AskError::InDoubt)?,
            () = self.supervisor.wait_for_loss(&connection) => return Err(AskError::InDoubt),
        };
        let is_refused = matches!(answer.refused, Some((_, ScriptRefusal::Generation)));
        if is_refused && *call.generation() == *self.holdings.generation() {
            self.suspect_loss();
        }
        Ok(answer)
    }

    /// Makes the supervisor's task look whether Redis has lost its memory.
    pub(crate) fn suspect_loss(&self) {
        self.is_loss_suspected.store(true, Ordering::Release);
        self.supervisor.wake();
    }

    /// Begins the next generation as soon as Redis answers, because Redis has missed something. Every budget asks the
    /// ledger then.
    pub(crate) fn begin_new_generation(&self) {
        self.is_generation_stale.store(true, Ordering::Release);
        self.suspect_loss();
    }

    /// Waits until Redis knows everything that this replica holds.
    pub(crate) async fn wait_until_in_sync(&self) {
        let mut is_in_sync = self.is_in_sync.subscribe();
        let _sender_lives = is_in_sync.wait_for(|is_in_sync| *is_in_sync).await;
    }

    /// Waits until the generation is another one. Returns false after `timeout`.
    pub(crate) async fn wait_for_other_generation(&self, generation: &str, timeout: Duration) -> bool {
        let mut current = self.generation.subscribe();
        let changed = current.wait_for(|now| **now != *generation);
        matches!(tokio::time::timeout(timeout, changed).await, Ok(Ok(_)))
    }
}
