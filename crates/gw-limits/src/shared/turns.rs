//! What a door waits for before it is tried again: an answer of the ledger's, and after Redis has lost its memory what
//! the replicas hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use super::script::{Answer, Call, Why, nano};
use crate::local::Local;
use crate::spending::spent_with;
use crate::subject::Subject;
use crate::verdict::Refusal;

/// How often a door is tried again when the ledger had to be asked.
const TRIES: usize = 4;
/// How long a request waits at a door after Redis has lost its memory.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks whether all replicas have told what they hold.
const PAUSE: Duration = Duration::from_millis(50);
/// Ids of one page of `gather.lua`.
const PAGE: usize = 500;
/// More than this no subject can have: what says so is no Redis.
const MOST: usize = 500_000;

/// How long a request may still wait.
#[derive(Debug)]
pub(super) struct Turns {
    tries: usize,
    until: Instant,
}

impl Turns {
    pub(super) fn begin() -> Self {
        Self { tries: TRIES, until: Instant::now() + PATIENCE }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl Shared {
    /// Does what a door waits for; false when it has decided.
    ///
    /// # Errors
    /// That does not come in time.
    pub(super) async fn again(
        &self,
        local: &Local,
        subjects: &[Arc<Subject>],
        call: &Call,
        refused: Option<(usize, Why)>,
        turns: &mut Turns,
    ) -> Result<bool, Refusal> {
        match refused {
            Some((number, Why::Unknown(since))) => {
                turns.tries = turns.tries.checked_sub(1).ok_or(Refusal::StoreAway)?;
                self.learn(local, subjects.get(number), since).await?;
            }
            Some((_, Why::Rebuilding)) if turns.left().is_zero() => return Err(Refusal::StoreAway),
            Some((_, Why::Rebuilding)) => tokio::time::sleep(PAUSE).await,
            Some((_, Why::Generation)) => {
                if !self.core.until_other(call.generation(), turns.left()).await {
                    return Err(Refusal::StoreAway);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Asks the ledger about the current period and tells Redis.
    async fn learn(&self, local: &Local, subject: Option<&Arc<Subject>>, since: i64) -> Result<(), Refusal> {
        let subject = subject.ok_or(Refusal::StoreAway)?;
        let budget = subject.limits().budget.ok_or(Refusal::StoreAway)?;
        let question = async {
            let generation = self.core.register.generation();
            let (version, requests) = self.gather(subject).await?;
            let period = budget.period.around(since);
            let (spent, counted) = spent_with(&*local.spending, subject, period, &requests).await?;
            let call = self.core.call("").arg(&since).arg(&nano(spent)).arg(&self.core.epoch());
            let call = self.about(call.arg(&version).arg(&counted.join("\n")), subject);
            // What one memory was asked is not told to the next: not every replica may have told that what it holds.
            if *call.generation() != *generation {
                return Err(());
            }
            self.core.ask(&self.core.scripts.learn, &call).await.map(drop).map_err(|_| ())
        };
        subject.state().purse.gate.ask(question).await.map_err(|()| Refusal::StoreAway)
    }

    /// The requests of a subject that the ledger may know of or not, and the version of the state that has them.
    async fn gather(&self, subject: &Subject) -> Result<(String, Vec<String>), ()> {
        let (mut version, mut requests, mut from) = (None, Vec::new(), 0);
        loop {
            let call = self.about(self.core.call("").arg(&from).arg(&PAGE), subject);
            let answer = self.core.ask(&self.core.scripts.gather, &call).await.map_err(|_| ())?;
            if answer.refused.is_some() {
                // Nobody can be told what the ledger says; the door hears why.
                return Ok((String::new(), Vec::new()));
            }
            let version = version.get_or_insert_with(|| answer.field(0).to_owned());
            let page = Answer::fields_from(&answer, 1);
            requests.extend(page.iter().filter(|id| *id != "-").cloned());
            if page.len() < PAGE {
                return Ok((std::mem::take(version), requests));
            }
            from += PAGE;
            if from > MOST {
                return Err(());
            }
        }
    }
}
