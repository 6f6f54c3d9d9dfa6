//! One asks, the others who want to know the same wait for that answer.

use std::sync::atomic::{AtomicU64, Ordering};

/// One for each thing that is asked about.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    asking: tokio::sync::Mutex<()>,
    answers: AtomicU64,
    failures: AtomicU64,
}

impl Gate {
    /// Asks, unless somebody else got an answer while this one waited for its turn.
    ///
    /// # Errors
    /// There is no answer. Those who waited for the same one get the same error: what is away is not asked by one
    /// after the other.
    pub(crate) async fn ask(&self, question: impl Future<Output = Result<(), ()>>) -> Result<(), ()> {
        let before = self.counts();
        let _asking = self.asking.lock().await;
        let (answers, failures) = self.counts();
        if failures != before.1 {
            return Err(());
        }
        if answers != before.0 {
            return Ok(());
        }
        let answer = question.await;
        let count = if answer.is_ok() { &self.answers } else { &self.failures };
        count.fetch_add(1, Ordering::AcqRel);
        answer
    }

    fn counts(&self) -> (u64, u64) {
        (self.answers.load(Ordering::Acquire), self.failures.load(Ordering::Acquire))
    }
}
