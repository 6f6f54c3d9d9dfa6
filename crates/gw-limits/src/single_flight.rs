//! Single-flight: of several tasks that need the same answer, one asks and the others wait for its result.

use std::sync::atomic::{AtomicU64, Ordering};

/// The shared lookup of one question.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight {
    turn: tokio::sync::Mutex<()>,
    successes: AtomicU64,
    failures: AtomicU64,
}

/// The question has no answer now. The task that asked has logged the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lookup failed")]
pub(crate) struct LookupFailed;

impl SingleFlight {
    /// Asks the question, unless another task got an answer while this task waited for its turn.
    ///
    /// # Errors
    /// The question failed, here or in the task that this task waited for. The waiting tasks do not ask one after the
    /// other: each of them would wait for the same timeout.
    pub(crate) async fn run<E>(
        &self,
        question: impl Future<Output = Result<(), E>>,
    ) -> Result<(), LookupFailed> {
        let before = self.counts();
        let _turn = self.turn.lock().await;
        let (successes, failures) = self.counts();
        if failures != before.1 {
            return Err(LookupFailed);
        }
        if successes != before.0 {
            return Ok(());
        }
        let answer = question.await;
        let count = if answer.is_ok() { &self.successes } else { &self.failures };
        count.fetch_add(1, Ordering::AcqRel);
        answer.map_err(|_| LookupFailed)
    }

    fn counts(&self) -> (u64, u64) {
        (self.successes.load(Ordering::Acquire), self.failures.load(Ordering::Acquire))
    }
}
