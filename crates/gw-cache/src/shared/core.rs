//! The connection, and whether there is one: what reading, writing and keeping it up have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gw_redis::{Address, Allowance, Line, Link, why};
use redis::{ErrorKind, RedisError, Value};
use tokio::sync::Notify;

use super::SharedSettings;
use super::table::{self, LAST, Table};
use crate::entry::Stored;
use crate::key::Key;
use crate::life::Freshness;
use crate::purges::{Purge, Purges, Stamp};

/// How long connecting and logging in may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long an operator waits for a purge, and the writer for a write.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a question for a value, at least.
const QUESTION: i64 = 64;
/// What the log says when Redis goes, and when it comes back.
const AWAY: &str = "Redis is away: nothing is found in the cache";
const BACK: &str = "Redis answers: the cache is shared again";

pub(super) struct Core {
    pub(super) settings: SharedSettings,
    /// None when the URL is none; nobody can be asked then.
    address: Option<Address>,
    pub(super) line: Line,
    pub(super) purges: Purges,
    pub(super) unanswered: AtomicU64,
    pub(super) unwritten: AtomicU64,
    /// Writes that wait, and their bytes.
    pub(super) waiting: AtomicUsize,
    pub(super) waiting_bytes: AtomicUsize,
    pub(super) written: Notify,
}

impl Core {
    pub(super) fn new(settings: SharedSettings) -> Self {
        Self {
            address: Address::read(&settings.url, settings.ca_file.as_deref()),
            settings,
            line: Line::new(AWAY, BACK),
            purges: Purges::default(),
            unanswered: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            waiting_bytes: AtomicUsize::new(0),
            written: Notify::new(),
        }
    }

    fn table_key(&self) -> String {
        format!("{}purges", self.settings.prefix)
    }

    fn key(&self, key: &Key) -> String {
        let mut name = self.settings.prefix.clone();
        for byte in key.bytes() {
            name.push_str(&format!("{byte:02x}"));
        }
        name
    }

    /// The answer under a key, in time or not at all.
    pub(super) async fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Stored>> {
        // Nobody waits for one who is known not to answer.
        let link = self.line.link()?;
        let asked = tokio::time::timeout(self.settings.timeout, self.ask(&link, key));
        let (stored, stamp, last) = self.judge(&link, asked.await)??;
        let is_known = stamp.0 <= last && self.purges.allow_at(&stored, stamp, Stamp(last));
        let lives = stored.life.at(now_ms, Duration::MAX) != Freshness::Dead;
        (is_known && lives).then(|| Arc::new(stored))
    }

    /// A value that is what was written under this key, and the number of the last purge.
    async fn ask(&self, link: &Link, key: &Key) -> Result<Option<(Stored, Stamp, u64)>, RedisError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(self.key(key)).cmd("HGET").arg(self.table_key()).arg(LAST);
        let answers: [Value; 2] = link.ask_all(&pipeline).await?.try_into().map_err(|_| odd())?;
        let [value, last] = answers;
        let (value, last) = (value.extract_error()?, last.extract_error()?);
        let bytes = match value {
            Value::Nil => return Ok(None),
            Value::BulkString(bytes) => Bytes::from(bytes),
            _ => return Err(odd()),
        };
        // Without its table nothing is known about a value. The next sign of life makes it anew.
        let Some(last) = redis::from_redis_value::<Option<u64>>(last)? else { return Ok(None) };
        let Some((stored, stamp)) = Stored::decode(&bytes, key) else {
            // One value that was spoilt says nothing about the others; the next answer takes its place.
            self.unanswered.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        if last > self.purges.stamp().0 {
            self.learn(&link.ask(&table::ask(&self.table_key())).await?)?;
        }
        Ok(Some((stored, stamp, last)))
    }

    fn learn(&self, value: &Value) -> Result<(), RedisError> {
        let Table { last, names } = table::read(value.clone()).ok_or_else(odd)?;
        self.purges.learn(last, names);
        Ok(())
    }

    /// Keeps a value. False when Redis did not say that it did.
    pub(super) async fn set(&self, key: &Key, stored: &Stored, stamp: Stamp) -> bool {
        let Some(link) = self.line.link() else { return false };
        let mut command = redis::cmd("SET");
        command.arg(self.key(key)).arg(stored.encode(key, stamp)).arg("PX").arg(stored.life.kept_ms().max(1));
        let asked = tokio::time::timeout(PATIENCE, link.ask(&command)).await;
        self.judge(&link, asked).is_some()
    }

    /// Notes a purge where all see it. False when Redis did not say that it did.
    pub(super) async fn purge(&self, purge: &Purge) -> bool {
        let Some(link) = self.line.link() else { return false };
        let asked = tokio::time::timeout(PATIENCE, link.ask(&table::purge(&self.table_key(), purge))).await;
        self.judge(&link, asked).is_some_and(|value| self.learn(&value).is_ok())
    }

    /// What was answered, if it was; else the link may be given up.
    fn judge<T>(
        &self,
        link: &Arc<Link>,
        asked: Result<Result<T, RedisError>, tokio::time::error::Elapsed>,
    ) -> Option<T> {
        let (is_broken, why) = match &asked {
            Ok(Ok(_)) => {
                link.answered();
                return asked.ok()?.ok();
            }
            // An answer that is an error, or none of ours, is one all the same: the line is not broken.
            Ok(Err(error)) => (is_broken(error), why(error)),
            Err(_) => (false, "no answer in time"),
        };
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        self.line.missed(link, is_broken, why);
        None
    }

    /// Connects, and uses the connection when it answers in the time that requests have.
    pub(super) async fn open(&self) {
        let Some(address) = &self.address else {
            self.line.say_away("the address cannot be read");
            return;
        };
        let most = i64::try_from(self.settings.most_bytes_of_one).unwrap_or(i64::MAX);
        let allowance = Allowance {
            ahead: 1 << 20,
            per_byte: most / QUESTION + 1,
            most: most.saturating_mul(8).max(64 << 20),
        };
        match tokio::time::timeout(CONNECT, Link::open(address, allowance)).await {
            Err(_) => self.line.say_away("no answer to a connection"),
            Ok(Err(error)) => self.line.say_away(why(&error)),
            Ok(Ok(link)) => {
                let link = Arc::new(link);
                if self.beat(&link).await {
                    self.line.put_up(link);
                }
            }
        }
    }

    /// Hears about purges. False when there was no answer in time.
    async fn beat(&self, link: &Arc<Link>) -> bool {
        let command = table::ask(&self.table_key());
        let asked = tokio::time::timeout(self.settings.timeout, link.ask(&command)).await;
        let Some(value) = self.judge(link, asked) else {
            self.say_if_away();
            return false;
        };
        let Some(Table { last, names }) = table::read(value) else {
            self.say_if_away();
            return false;
        };
        if last < self.purges.stamp().0 {
            // The table was lost, and Redis's clock went back: what we knew was of another table.
            self.purges.forget();
        }
        self.purges.learn(last, names);
        true
    }

    fn say_if_away(&self) {
        if self.line.link().is_none() {
            self.line.say_away("it does not answer as Redis does");
        }
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
}

/// Not what we would have written.
fn odd() -> RedisError {
    (ErrorKind::Parse, "not a value of ours").into()
}

fn is_broken(error: &RedisError) -> bool {
    !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::Parse)
}
