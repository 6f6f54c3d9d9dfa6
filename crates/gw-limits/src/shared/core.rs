//! What requests and background tasks have in common: the connection, and whether there is one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gw_redis::{Address, Allowance, Line, Link, MISSES, why};
use parking_lot::Mutex;
use redis::{ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use tokio::sync::{Notify, mpsc, watch};

use super::notes::Note;
use super::rebuild::Standing;
use super::register::Register;
use super::script::{Answer, Call, Script, Scripts, Why};
use super::{Away, QUEUE, RedisSettings};
use crate::clock::{Clock, SystemClock};

/// How long connecting and logging in may take.
const CONNECT: Duration = Duration::from_secs(2);
/// Bytes that Redis may send for each that it is asked: a page of ids is the longest answer.
const PER_BYTE: i64 = 128;
/// How long a replica that is not heard of is taken to be alive.
pub(super) const ALIVE: Duration = Duration::from_secs(5);
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
    pub(super) register: Register,
    pub(super) standing: watch::Sender<Standing>,
    /// The register's, for who waits for another one.
    pub(super) generation: watch::Sender<Arc<str>>,
    /// The last one that was told everything.
    pub(super) told: watch::Sender<Arc<str>>,
    /// Redis may have lost its memory.
    pub(super) is_suspected: AtomicBool,
    pub(super) suspected: Notify,
    /// What Redis knows is wrong, and when that was so last.
    pub(super) anew: AtomicBool,
    pub(super) begun: Mutex<Option<Instant>>,
    /// Whether it was said that budgets wait.
    pub(super) has_warned: AtomicBool,
    pub(super) replica: String,
    replicas: AtomicU32,
    /// Replicas, and when each was heard of last; None before anything was heard.
    pub(super) peers: Mutex<Option<HashMap<String, Instant>>>,
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
            register: Register::default(),
            standing: watch::Sender::new(Standing::Telling),
            generation: watch::Sender::new("".into()),
            told: watch::Sender::new("".into()),
            is_suspected: AtomicBool::new(false),
            suspected: Notify::new(),
            anew: AtomicBool::new(false),
            begun: Mutex::new(None),
            has_warned: AtomicBool::new(false),
            replica: format!("{:032x}", rand::random::<u128>()),
            replicas: AtomicU32::new(1),
            peers: Mutex::new(None),
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
        self.call_of(self.register.generation(), name, lease)
    }

    /// The begin of a call that does not depend on what Redis remembers.
    pub(super) fn call_for_any(&self, name: &str) -> Call {
        self.call_of("".into(), name, self.settings.lease)
    }

    fn call_of(&self, generation: Arc<str>, name: &str, lease: Duration) -> Call {
        let time = self.clock.as_ref().map(|clock| clock.micros() + EPOCH);
        Call::new(time, name, lease, format!("{}generation", self.settings.prefix), generation)
    }

    /// A name for a state that begins: no other has it.
    pub(super) fn epoch(&self) -> String {
        format!("{}-{}", self.replica, self.epochs.fetch_add(1, Ordering::Relaxed))
    }

    /// By how many this replica divides a limit that it counts for itself.
    pub(super) fn share(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed).max(1)
    }

    /// How long an answer may take before Redis is away. A late one is still the answer.
    fn patience(&self) -> Duration {
        self.settings.timeout.saturating_mul(MISSES)
    }

    /// Runs a script, and waits for its answer as long as the connection stands. Nobody else waits for one that is away:
    /// answers come in order.
    pub(super) async fn ask(&self, script: &Script, call: &Call) -> Result<Answer, Away> {
        let link = self.line.link().ok_or(Away::NotAsked)?;
        let result = tokio::select! {
            biased;
            result = tokio::time::timeout(self.patience(), run(&link, script, call)) => result,
            () = self.line.unlinked(&link) => return Err(Away::InDoubt),
        };
        match result {
            Ok(Ok(answer)) => {
                link.answered();
                let is_other = matches!(answer.refused, Some((_, Why::Generation)));
                if is_other && *call.generation() == *self.register.generation() {
                    self.suspect();
                }
                Ok(answer)
            }
            Ok(Err(error)) => {
                let broken = !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
                self.line.missed(&link, broken, why(&error));
                Err(Away::InDoubt)
            }
            Err(_) => {
                self.line.missed(&link, true, "no answer in time");
                Err(Away::InDoubt)
            }
        }
    }

    /// Connects, and uses the connection when a script gets its answer over it in the time that requests have. Gives the
    /// time that budgets wait for replicas nobody knows of, None when Redis is away.
    pub(super) async fn open(&self) -> Option<Duration> {
        let Some(address) = &self.address else {
            self.line.say_away("the address cannot be read");
            return None;
        };
        let opened = tokio::time::timeout(CONNECT, async {
            let allowance = Allowance { per_byte: PER_BYTE, ..Allowance::default() };
            let link = Link::open(address, allowance).await?;
            for script in self.scripts.all() {
                link.ask(&script.load()).await?;
            }
            Ok::<_, RedisError>(Arc::new(link))
        });
        match opened.await {
            Err(_) => self.line.say_away("no answer to a connection"),
            Ok(Err(error)) => self.line.say_away(why(&error)),
            Ok(Ok(link)) => {
                let waits = self.catch_up(&link).await?;
                if self.beat(&link).await {
                    self.line.put_up(link);
                    return Some(waits);
                }
            }
        }
        None
    }

    /// Says that this replica is alive, and hears how many are. False when there was no answer in time.
    pub(super) async fn beat(&self, link: &Arc<Link>) -> bool {
        let key = format!("{}replicas", self.settings.prefix);
        let has_told = u8::from(self.has_told());
        let call = self.call_for(&self.replica, ALIVE).key(key).arg(&has_told);
        let result = tokio::time::timeout(self.patience(), run(link, &self.scripts.beat, &call)).await;
        let (broken, why) = match &result {
            Ok(Ok(answer)) => {
                link.answered();
                self.heard(answer);
                return true;
            }
            Ok(Err(error)) => {
                (!matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension), why(error))
            }
            Err(_) => (true, "no answer in time"),
        };
        self.line.missed(link, broken, why);
        if self.line.link().is_none() {
            self.line.say_away(why);
        }
        false
    }

    fn heard(&self, answer: &Answer) {
        if answer.refused.is_some() {
            self.suspect();
            return;
        }
        self.replicas.store(answer.field(0).parse().unwrap_or(1), Ordering::Relaxed);
        let now = Instant::now();
        let mut peers = self.peers.lock();
        let known = peers.get_or_insert_default();
        if answer.detail().is_some() {
            // Redis has lost its memory: that it names somebody no more does not say that they are gone.
            known.values_mut().for_each(|heard| *heard = now);
        }
        known.extend(answer.fields_from(1).iter().map(|name| (name.clone(), now)));
        // Redis forgets them with everything else, and may do so again and again.
        known.retain(|_, heard| now.duration_since(*heard) < ALIVE);
        drop(peers);
        if answer.detail().is_none() && self.has_warned.swap(false, Ordering::AcqRel) {
            tracing::info!("every replica has told what it holds: budgets are counted again");
        }
    }

    /// Keeps the connection up, until it is aborted.
    pub(super) async fn keep(&self) {
        loop {
            let due = tokio::select! {
                due = self.line.due() => due,
                () = self.suspected.notified() => self.line.link(),
            };
            match due {
                None => drop(self.open().await),
                Some(link) => self.tend(&link).await,
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
pub(super) async fn run(link: &Link, script: &Script, call: &Call) -> Result<Answer, RedisError> {
    let value = match link.ask(&script.run(call)).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            link.ask(&script.run_and_load(call)).await?
        }
        other => other?,
    };
    let fields = Vec::<String>::from_redis_value(value)?;
    Answer::read(fields).ok_or_else(|| (ErrorKind::Parse, "not an answer of ours").into())
}
