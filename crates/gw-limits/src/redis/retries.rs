//! The steps between a script's refusal and its repetition: the request asks the ledger for a budget's spending, or it
//! waits until the replicas have reported what they hold after Redis lost its memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::amount::nano_usd;
use super::answer::{Answer, ScriptRefusal};
use super::message::Message;
use super::outbox::SendOnDrop;
use super::replica::{AskError, Replica};
use super::script::Script;
use super::script_call::ScriptCall;
use crate::refusal::Refusal;
use crate::spending_ledger::{
    CountedRequest, LedgerUnavailable, MAX_QUESTIONS, Spending, SpendingLedger, SpendingQuestion, ask,
};
use crate::subject::Subject;

/// How long a request waits in total after Redis has lost its memory.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause between two checks whether all replicas have reported.
const REBUILD_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The number of ids in one page of `list_requests.lua`.
const IDS_PER_PAGE: usize = 500;
/// No subject has more requests than this. A server that names more is not Redis.
const MAX_REQUESTS_OF_SUBJECT: usize = 500_000;

/// How often and how long a request may still retry.
#[derive(Debug)]
pub(crate) struct Retries {
    ledger_questions: usize,
    deadline: Instant,
}

impl Retries {
    /// The retries of a call with this many subjects. A script names one unknown budget at a time.
    pub(crate) fn new(subjects: usize) -> Self {
        let ledger_questions = subjects.saturating_mul(MAX_QUESTIONS);
        Self { ledger_questions, deadline: Instant::now() + RECOVERY_TIMEOUT }
    }

    fn remaining_time(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// The reason for which the ledger's answer did not reach Redis.
#[derive(Debug, thiserror::Error)]
enum LearnError {
    #[error(transparent)]
    Ledger(#[from] LedgerUnavailable),
    #[error(transparent)]
    Redis(#[from] AskError),
    #[error("Redis lost its memory meanwhile")]
    OtherGeneration,
    #[error("Redis names more requests than there can be")]
    TooManyRequests,
}

/// The questions about a subject that only the ledger can answer, as `list_requests.lua` lists them.
#[derive(Debug, Default)]
struct Listed {
    version: String,
    /// The time whose spending was known before: its begin and its end.
    before: Option<(i64, i64)>,
    /// The requests that the ledger may or may not know.
    requests: Vec<String>,
}

/// The reason for which a script did not decide about a request.
#[derive(Debug)]
pub(crate) enum Undecided {
    /// Redis did not answer. The message undoes what it may have executed.
    NoAnswer(AskError, Option<SendOnDrop>),
    /// A refusal of the script could not be resolved in time.
    Refused(Refusal),
}

/// A script that holds something for a request.
pub(crate) struct HoldingScript<'a, C, U, N> {
    pub(crate) script: &'a Script,
    /// The subjects of the call.
    pub(crate) subjects: &'a [Arc<Subject>],
    /// Builds the call.
    pub(crate) call: C,
    /// Builds the message that ends the hold, if there will be one.
    pub(crate) undo: U,
    /// Notes what the script has granted. False if Redis lost its memory meanwhile, so that the grant is void.
    pub(crate) note: N,
}

impl Replica {
    /// Runs a script, again after each refusal that a retry may lift, until it has decided. Returns its answer, and the message
    /// that ends the hold if it has granted one.
    pub(crate) async fn decide<C, U, N>(
        self: &Arc<Self>,
        ledger: &dyn SpendingLedger,
        HoldingScript { script, subjects, call, undo, note }: HoldingScript<'_, C, U, N>,
    ) -> Result<(Answer, Option<SendOnDrop>), Undecided>
    where
        C: Fn() -> ScriptCall,
        U: Fn() -> Option<Message>,
        N: Fn(&Answer, &str) -> bool,
    {
        let mut retries = Retries::new(subjects.len());
        loop {
            let mut end = undo().map(|message| SendOnDrop::new(self, message));
            let call = call();
            let answer = match self.ask(script, &call).await {
                Ok(answer) => answer,
                Err(error) => return Err(Undecided::NoAnswer(error, end)),
            };
            let is_void = answer.refused.is_none() && !note(&answer, call.generation());
            if is_void || answer.refused.is_some() {
                SendOnDrop::cancel(&mut end);
            }
            let retry = self.prepare_retry(ledger, subjects, &call, answer.refused, &mut retries);
            if !is_void && !retry.await.map_err(Undecided::Refused)? {
                return Ok((answer, end));
            }
        }
    }

    /// Resolves a refusal that a retry may lift. Returns whether to retry. False means that the script has decided.
    ///
    /// # Errors
    /// The refusal cannot be resolved in time.
    pub(crate) async fn prepare_retry(
        &self,
        ledger: &dyn SpendingLedger,
        subjects: &[Arc<Subject>],
        call: &ScriptCall,
        refused: Option<(usize, ScriptRefusal)>,
        retries: &mut Retries,
    ) -> Result<bool, Refusal> {
        match refused {
            Some((number, ScriptRefusal::Unknown(period_start))) => {
                retries.ledger_questions =
                    retries.ledger_questions.checked_sub(1).ok_or(Refusal::StoreUnavailable)?;
                let subject = subjects.get(number).ok_or(Refusal::StoreUnavailable)?;
                let question = self.learn_spending(ledger, subject, period_start);
                let learned = subject.state().budget.lookup.run(question).await;
                learned.map_err(|_| Refusal::StoreUnavailable)?;
            }
            Some((_, ScriptRefusal::Rebuilding)) if retries.remaining_time().is_zero() => {
                return Err(Refusal::StoreUnavailable);
            }
            Some((_, ScriptRefusal::Rebuilding)) => tokio::time::sleep(REBUILD_POLL_INTERVAL).await,
            Some((_, ScriptRefusal::Generation)) => {
                let remaining = retries.remaining_time();
                if !self.wait_for_other_generation(call.generation(), remaining).await {
                    return Err(Refusal::StoreUnavailable);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Asks the ledger for the spending of the current period, and sends it to Redis.
    async fn learn_spending(
        &self,
        ledger: &dyn SpendingLedger,
        subject: &Subject,
        period_start: i64,
    ) -> Result<(), LearnError> {
        // The caller saw a budget, so without one there is nothing left to learn.
        let Some(budget) = subject.shared_budget() else { return Ok(()) };
        let generation = self.holdings.generation();
        let Listed { version, before, requests } = self.list_requests(subject).await?;
        let time = budget.period.counted_from(period_start);
        let question = SpendingQuestion { time, before, requests: &requests };
        let spending = ask(ledger, (subject.kind(), subject.id()), question).await?;
        let call = self.call("").arg(&period_start).arg(&steps_text(&spending)).arg(&self.new_epoch());
        let before_nano = nano_usd(spending.before_femtos);
        let call = call.arg(&version).arg(&before_nano).arg(&counted_text(&spending));
        let call = call.subject(&self.settings.prefix, subject);
        // The next generation must not get this answer: not every replica may have reported to it yet.
        if *call.generation() != *generation {
            return Err(LearnError::OtherGeneration);
        }
        self.ask(&self.scripts.learn_spending, &call).await?;
        Ok(())
    }

    /// The questions about a subject that only the ledger can answer.
    async fn list_requests(&self, subject: &Subject) -> Result<Listed, LearnError> {
        let (mut first, mut listed, mut from) = (None, Listed::default(), 0);
        loop {
            let gone = first.as_deref().unwrap_or_default();
            let call = self.call("").arg(&from).arg(&IDS_PER_PAGE).arg(gone);
            let call = call.subject(&self.settings.prefix, subject);
            let answer = self.ask(&self.scripts.list_requests, &call).await?;
            if answer.refused.is_some() {
                // Redis lost its memory. The script that asked for the spending meets the same refusal and handles it.
                return Ok(Listed::default());
            }
            if first.is_none() {
                first = Some(answer.field(1).to_owned());
                listed.version = answer.field(0).to_owned();
                let until = answer.field(3).parse().unwrap_or(i64::MAX);
                listed.before = answer.field(2).parse().ok().map(|from| (from, until));
            }
            let page = answer.fields_from(4);
            listed.requests.extend(page.iter().filter(|id| *id != "-").cloned());
            if page.len() < IDS_PER_PAGE {
                return Ok(listed);
            }
            from += IDS_PER_PAGE;
            if from > MAX_REQUESTS_OF_SUBJECT {
                return Err(LearnError::TooManyRequests);
            }
        }
    }
}

/// The spending as `learn_spending.lua` reads it.
fn steps_text(spending: &Spending) -> String {
    let lines = spending.steps.iter().map(|(begin, femtos)| format!("{begin}:{}\n", nano_usd(*femtos)));
    lines.collect()
}

/// The requests that the spending includes, as `learn_spending.lua` reads them.
fn counted_text(spending: &Spending) -> String {
    let line = |request: &CountedRequest| {
        format!("{}:{}:{}\n", nano_usd(request.cost_femtos), request.begun.max(0), request.id)
    };
    spending.counted_requests.iter().map(line).collect()
}
