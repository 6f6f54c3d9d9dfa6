//! The connection while there is one: who uses it finds out that Redis is away, one task finds the way back, and the log is told
//! of either once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::link::Link;

/// Calls without an answer, in a row, after which Redis is away.
pub const MISSES: u32 = 3;
/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// Between two tries to get through.
const PROBE: Duration = Duration::from_millis(100);

/// A connection that comes and goes.
#[derive(Debug)]
pub struct Line {
    /// None while Redis is away.
    link: watch::Sender<Option<Arc<Link>>>,
    /// Whether it was said that Redis is away.
    said: AtomicBool,
    /// What the log says when it goes, and when it comes back.
    words: [&'static str; 2],
}

impl Line {
    /// Not up yet. `away` and `back` are what the log says of it.
    #[must_use]
    pub fn new(away: &'static str, back: &'static str) -> Self {
        Self { link: watch::Sender::new(None), said: AtomicBool::new(false), words: [away, back] }
    }

    /// The connection, unless Redis is away.
    #[must_use]
    pub fn link(&self) -> Option<Arc<Link>> {
        self.link.borrow().clone()
    }

    /// Waits until Redis is there.
    pub async fn linked(&self) -> Option<Arc<Link>> {
        let mut seen = self.link.subscribe();
        seen.wait_for(Option::is_some).await.ok().and_then(|link| link.clone())
    }

    /// Waits until this connection is given up.
    pub async fn unlinked(&self, link: &Arc<Link>) {
        let mut seen = self.link.subscribe();
        let other = |now: &Option<Arc<Link>>| now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, link));
        let _never = seen.wait_for(other).await;
    }

    /// From now on this connection is used.
    pub fn put_up(&self, link: Arc<Link>) {
        self.link.send_replace(Some(link));
        if self.said.swap(false, Ordering::AcqRel) {
            let [_, back] = self.words;
            tracing::info!("{back}");
        }
    }

    /// A call had no answer; one too many, or a broken connection, and Redis is away.
    pub fn missed(&self, link: &Arc<Link>, is_broken: bool, why: &str) {
        if link.missed() < MISSES && !is_broken {
            return;
        }
        let given_up = self.link.send_if_modified(|now| {
            let same = now.as_ref().is_some_and(|now| Arc::ptr_eq(now, link));
            if same {
                *now = None;
            }
            same
        });
        if given_up {
            self.say_away(why);
        }
    }

    /// Logs that Redis is away, once until it is back.
    pub fn say_away(&self, why: &str) {
        if !self.said.swap(true, Ordering::AcqRel) {
            let [away, _] = self.words;
            tracing::warn!(why, "{away}");
        }
    }

    /// Waits until something is to be done for it, for a task that does nothing else: a sign of life over this connection, or,
    /// None, a new one is to be tried.
    pub async fn due(&self) -> Option<Arc<Link>> {
        let Some(link) = self.link() else {
            tokio::time::sleep(PROBE).await;
            return None;
        };
        let given_up = tokio::time::timeout(BEAT, self.unlinked(&link)).await;
        given_up.is_err().then_some(link)
    }
}
