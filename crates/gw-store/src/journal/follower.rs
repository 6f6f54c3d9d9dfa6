//! Readers of the outcomes of requests as the requests end. Without a reader an outcome costs nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::broadcast;

use crate::ledger::Entry;

/// The outcomes that wait for the slowest reader. It misses older ones.
const MAX_WAITING: usize = 512;

/// Hands outcomes to the readers.
#[derive(Debug)]
pub(super) struct Followers {
    sender: broadcast::Sender<Arc<Entry>>,
    /// Asked for every request, without a lock.
    count: Arc<AtomicUsize>,
}

/// A reader of the outcomes of requests.
#[derive(Debug)]
pub struct RequestFollower {
    receiver: broadcast::Receiver<Arc<Entry>>,
    count: Arc<AtomicUsize>,
}

/// A message to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// A request has ended.
    Row(Arc<Entry>),
    /// The reader was too slow, and missed this number of outcomes.
    Missed(u64),
}

impl Default for Followers {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(MAX_WAITING), count: Arc::default() }
    }
}

impl Followers {
    pub(super) fn follow(&self) -> RequestFollower {
        self.count.fetch_add(1, Ordering::Relaxed);
        RequestFollower { receiver: self.sender.subscribe(), count: Arc::clone(&self.count) }
    }

    pub(super) fn tell(&self, entry: &Entry) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let _ = self.sender.send(Arc::new(entry.clone()));
        }
    }
}

impl RequestFollower {
    /// Waits for the next outcome. None: the journal is gone.
    pub async fn next(&mut self) -> Option<Followed> {
        match self.receiver.recv().await {
            Ok(entry) => Some(Followed::Row(entry)),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Followed::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Drop for RequestFollower {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: usize) -> Entry {
        Entry { request_id: format!("req_{id}").into(), ..Entry::default() }
    }

    #[tokio::test]
    async fn a_reader_hears_of_what_ends_after_it_came_and_of_what_it_missed() {
        let followers = Followers::default();
        followers.tell(&entry(0));
        let mut reader = followers.follow();
        followers.tell(&entry(1));
        assert_eq!(reader.next().await, Some(Followed::Row(Arc::new(entry(1)))));
        (0..MAX_WAITING + 3).for_each(|id| followers.tell(&entry(id)));
        assert_eq!(reader.next().await, Some(Followed::Missed(3)));
        assert_eq!(reader.next().await, Some(Followed::Row(Arc::new(entry(3)))));
        drop(followers);
        while let Some(Followed::Row(_)) = reader.next().await {}
        assert_eq!(reader.count.load(Ordering::Relaxed), 1);
    }
}
