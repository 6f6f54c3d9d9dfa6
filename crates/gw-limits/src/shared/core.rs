//! What requests and background tasks have in common: the connection, and whether there is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use gw_redis::{Address, Allowance, Line, Link, why};
use redis::{ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use tokio::sync::{Notify, mpsc};

use super::notes::Note;
use super::script::{Answer, Call, Script, Scripts};
use super::{Away, QUEUE, RedisSettings};
use crate::clock::{Clock, SystemClock};

/// How long connecting and logging in may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a replica that is not heard of is taken to be alive.
const ALIVE: Duration = Duration::from_secs(5);
/// What the log says when Redis goes, and when it comes back.
const AWAY: &str = "Redis is away: budgets refuse, other limits are counted per replica";
const BACK: &str = "Redis answers: limits are shared again";

/// 2025, where Redis's count of microseconds begins; see `limits.lua`.
const EPOCH: f64 = 1_735_689_600_000_000.0;

/// The connection to Redis and what goes with it.
pub(crate) struct Core {
    pub(super) settings: RedisSettings,
    pub(super) scripts: Scripts,
    /// None when the URL is none; nobody can be asked then.
    address: Option<Address>,
    pub(super) line: Line,
    pub(super) notes: mpsc::Sender<Note>,
    /// Notes that are not delivered yet.
    pub(super) undelivered: AtomicUsize,
    pub(super) delivery: Notify,
    /// Notes that were not delivered and never will be.
    pub(super) lost: AtomicU64,
    replica: String,
    replicas: AtomicU32,
    epochs: AtomicU64,
    clock: Option<Arc<dyn Clock>>,
    /// How long ago something was here.
    ticks: SystemClock,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the address: there may be a password in it.
        f.debug_struct("Core").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Core {
    /// With what it has to deliver.
    pub(super) fn new(
        settings: RedisSettings,
        clock: Option<Arc<dyn Clock>>,
    ) -> (Self, mpsc::Receiver<Note>) {
        let (notes, receiver) = mpsc::channel(QUEUE);
        let core = Self {
            address: Address::read(&settings.url, settings.ca_file.as_deref()),
            settings,
            scripts: Scripts::default(),
            line: Line::new(AWAY, BACK),
            notes,
            undelivered: AtomicUsize::new(0),
            delivery: Notify::new(),
            lost: AtomicU64::new(0),
            replica: format!("{:032x}", rand::random::<u128>()),
            replicas: AtomicU32::new(1),
            epochs: AtomicU64::new(0),
            clock,
            ticks: SystemClock::default(),
        };
        (core, receiver)
    }

    /// The begin of every call.
    pub(super) fn call(&self, request_id: &str) -> Call {
        self.call_for(request_id, self.settings.lease)
    }

    /// The clock of this process.
    fn time(&self) -> &dyn Clock {
        self.clock.as_deref().unwrap_or(&self.ticks)
    }

    /// This moment, by a clock that no calendar moves.
    pub(super) fn now(&self) -> f64 {
        self.time().micros()
    }

    /// A moment of the calendar (unix seconds), by that clock.
    pub(super) fn moment(&self, unix: i64) -> f64 {
        let time = self.time();
        time.micros() - time.unix().saturating_sub(unix) as f64 * 1_000_000.0
    }

    fn call_for(&self, name: &str, lease: Duration) -> Call {
        Call::new(self.clock.as_ref().map(|clock| clock.micros() + EPOCH), name, lease)
    }

    /// A name for a state that begins: no other has it.
    pub(super) fn epoch(&self) -> String {
        format!("{}-{}", self.replica, self.epochs.fetch_add(1, Ordering::Relaxed))
    }

    /// By how many this replica divides a limit that it counts for itself.
    pub(super) fn share(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed).max(1)
    }

    /// Runs a script, in time or not at all.
    pub(super) async fn ask(&self, script: &Script, call: &Call) -> Result<Answer, Away> {
        let link = self.line.link().ok_or(Away::NotAsked)?;
        let result = tokio::time::timeout(self.settings.timeout, run(&link, script, call)).await;
        match result {
            Ok(Ok(answer)) => {
                link.answered();
                Ok(answer)
            }
            Ok(Err(error)) => {
                let broken = !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
                self.line.missed(&link, broken, why(&error));
                Err(Away::InDoubt)
            }
            Err(_) => {
                self.line.missed(&link, false, "no answer in time");
                Err(Away::InDoubt)
            }
        }
    }

    /// Connects, and uses the connection when a script gets its answer over it in the time that requests have.
    pub(super) async fn open(&self) {
        let Some(address) = &self.address else {
            self.line.say_away("the address cannot be read");
            return;
        };
        let opened = tokio::time::timeout(CONNECT, async {
            let link = Link::open(address, Allowance::default()).await?;
            for script in self.scripts.all() {
                link.ask(&script.load()).await?;
            }
            Ok::<_, RedisError>(Arc::new(link))
        });
        match opened.await {
            Err(_) => self.line.say_away("no answer to a connection"),
            Ok(Err(error)) => self.line.say_away(why(&error)),
            Ok(Ok(link)) => {
                if self.beat(&link).await {
                    self.line.put_up(link);
                }
            }
        }
    }

    /// Says that this replica is alive, and hears how many are. False when there was no answer in time.
    pub(super) async fn beat(&self, link: &Arc<Link>) -> bool {
        let key = format!("{}replicas", self.settings.prefix);
        let call = self.call_for(&self.replica, ALIVE).key(key);
        let result = tokio::time::timeout(self.settings.timeout, run(link, &self.scripts.beat, &call)).await;
        let (broken, why) = match &result {
            Ok(Ok(answer)) => {
                link.answered();
                self.replicas.store(answer.field(0).parse().unwrap_or(1), Ordering::Relaxed);
                return true;
            }
            Ok(Err(error)) => {
                (!matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension), why(error))
            }
            Err(_) => (false, "no answer in time"),
        };
        self.line.missed(link, broken, why);
        if self.line.link().is_none() {
            self.line.say_away(why);
        }
        false
    }

    /// Keeps the connection up, until it is aborted.
    pub(super) async fn keep(&self) {
        loop {
            match self.line.due().await {
                None => self.open().await,
                Some(link) => drop(self.beat(&link).await),
            }
        }
    }

    /// Waits until nothing is undelivered.
    pub(super) async fn delivered(&self) {
        loop {
            let delivery = self.delivery.notified();
            if self.undelivered.load(Ordering::Acquire) == 0 {
                return;
            }
            delivery.await;
        }
    }
}

/// Runs a script, and loads it when Redis has forgotten it.
async fn run(link: &Link, script: &Script, call: &Call) -> Result<Answer, RedisError> {
    let value = match link.ask(&script.run(call)).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            link.ask(&script.run_and_load(call)).await?
        }
        other => other?,
    };
    let fields = Vec::<String>::from_redis_value(value)?;
    Answer::read(fields).ok_or_else(|| (ErrorKind::Parse, "not an answer of ours").into())
}
