//! The connection, and whether there is one: what reading, writing and keeping it up have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_redis::{Address, Allowance, Line, Link, why};
use redis::{ErrorKind, RedisError, Value};
use tokio::sync::Notify;

use super::GROUP;
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
/// Groups of values that are asked for at the same time.
const GROUPS: usize = 4;
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
        self.get_all(std::slice::from_ref(key), now_ms).await.0.pop().flatten()
    }

    /// The answers under these keys that came in time, in the order of the keys; and whether those that did not are known not to
    /// be there.
    pub(super) async fn get_all(&self, keys: &[Key], now_ms: u64) -> (Vec<Option<Arc<Stored>>>, bool) {
        let mut found = vec![None; keys.len()];
        // Nobody waits for one who is known not to answer.
        let Some(link) = self.line.link() else { return (found, false) };
        let mut has_answered = false;
        let reading = async {
            let groups = keys.chunks(GROUP).zip(found.chunks_mut(GROUP));
            let asks: Vec<_> = groups.map(|(keys, found)| self.ask(&link, keys, found, now_ms)).collect();
            let mut groups = stream::iter(asks).buffer_unordered(GROUPS);
            while groups.try_next().await?.is_some() {
                has_answered = true;
            }
            Ok(())
        };
        let asked = tokio::time::timeout(self.settings.timeout, reading).await;
        let is_known = matches!(asked, Ok(Ok(())));
        if asked.is_err() && has_answered {
            // It answers, only not all of that in so little time.
            link.answered();
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        } else {
            self.judge(&link, asked);
        }
        (found, is_known)
    }

    /// Looks for the values that are what was written under these keys, and that no purge has voided.
    async fn ask(
        &self,
        link: &Link,
        keys: &[Key],
        found: &mut [Option<Arc<Stored>>],
        now_ms: u64,
    ) -> Result<(), RedisError> {
        let mut pipeline = redis::pipe();
        keys.iter().for_each(|key| {
            pipeline.cmd("GET").arg(self.key(key));
        });
        pipeline.cmd("HGET").arg(self.table_key()).arg(LAST);
        let mut values = link.ask_all(&pipeline).await?;
        if values.len() != keys.len() + 1 {
            return Err(odd());
        }
        let last = values.pop().ok_or_else(odd)?.extract_error()?;
        let mut read = Vec::with_capacity(keys.len());
        for (key, value) in keys.iter().zip(values) {
            read.push(self.read(key, value.extract_error()?)?);
        }
        if read.iter().all(Option::is_none) {
            return Ok(());
        }
        // Without its table nothing is known about a value. The next sign of life makes it anew.
        let Some(last) = redis::from_redis_value::<Option<u64>>(last)? else { return Ok(()) };
        if last > self.purges.stamp().0 {
            self.learn(&link.ask(&table::ask(&self.table_key())).await?)?;
        }
        for (read, found) in read.into_iter().zip(found) {
            let Some((stored, stamp)) = read else { continue };
            let is_known = stamp.0 <= last && self.purges.allow_at(&stored, stamp, Stamp(last));
            if is_known && stored.life.at(now_ms, Duration::MAX) != Freshness::Dead {
                *found = Some(Arc::new(stored));
            }
        }
        Ok(())
    }

    /// A value that is what was written under this key.
    fn read(&self, key: &Key, value: Value) -> Result<Option<(Stored, Stamp)>, RedisError> {
        let bytes = match value {
            Value::Nil => return Ok(None),
            Value::BulkString(bytes) => Bytes::from(bytes),
            _ => return Err(odd()),
        };
        let read = Stored::decode(&bytes, key);
        if read.is_none() {
            // One value that was spoilt says nothing about the others; the next answer takes its place.
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(read)
    }

    fn learn(&self, value: &Value) -> Result<(), RedisError> {
        let Table { last, names } = table::read(value.clone()).ok_or_else(odd)?;
        self.purges.learn(last, names);
        Ok(())
    }

    /// Keeps values. False when Redis did not say that it did, of all of them.
    pub(super) async fn set_all(&self, answers: &[(Key, Arc<Stored>)], stamp: Stamp) -> bool {
        let Some(link) = self.line.link() else { return false };
        let mut pipeline = redis::pipe();
        for (key, stored) in answers {
            let value = stored.encode(key, stamp);
            pipeline.cmd("SET").arg(self.key(key)).arg(value).arg("PX").arg(stored.life.kept_ms().max(1));
        }
        let writing = async {
            link.ask_all(&pipeline).await?.into_iter().try_for_each(|value| value.extract_error().map(drop))
        };
        let asked = tokio::time::timeout(PATIENCE, writing).await;
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
