//! What Redis is still to be told: settlements, and places given back. Delivered in batches by one task, again and again
//! until it got through; Redis counts each once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_redis::Link;
use redis::{Cmd, ErrorKind, Pipeline, ServerErrorKind, Value};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::Away;
use super::core::Core;
use super::rebuild;
use super::script::nano;
use crate::subject::Subject;

/// Notes that are delivered at once.
const BATCH: usize = 128;
/// How long a batch may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Until a batch that Redis does not take now is offered again.
const AGAIN: Duration = Duration::from_millis(200);

/// Something that Redis is to be told.
#[derive(Debug)]
pub(crate) struct Note {
    request_id: Box<str>,
    subjects: Vec<Arc<Subject>>,
    work: Work,
    /// When the request began, as [`Core::now`] counts.
    begun: f64,
}

/// What it is.
#[derive(Debug)]
pub(crate) enum Work {
    /// The places among the requests at one time are free.
    Leave,
    /// What was set aside is over.
    Settle {
        /// Tokens that were set aside.
        tokens: u64,
        /// Nano-USD that were set aside; None when that is not known.
        nano: Option<u64>,
        /// Tokens that were used.
        used: u64,
        /// Nano-USD that were spent.
        spent: u64,
        /// The epochs of the subjects' states, with commas between.
        epochs: String,
    },
}

impl Note {
    pub(crate) fn new(request_id: &str, subjects: Vec<Arc<Subject>>, work: Work) -> Self {
        Self { request_id: request_id.into(), subjects, work, begun: 0.0 }
    }

    fn command(&self, core: &Core) -> Cmd {
        let call = core.call(&self.request_id);
        let (script, call) = match &self.work {
            Work::Leave => (&core.scripts.leave, call),
            Work::Settle { tokens, nano, used, spent, epochs } => {
                let nano = nano.map(|nano| nano.to_string()).unwrap_or_default();
                // The clocks of replicas do not matter: Redis hears how long ago it was.
                let ago = format!("{:.0}", core.now() - self.begun);
                let call = call.arg(tokens).arg(&nano).arg(used).arg(spent).arg(epochs).arg(&ago);
                (&core.scripts.settle, call)
            }
        };
        let prefix = &core.settings.prefix;
        script.run(&self.subjects.iter().fold(call, |call, subject| call.subject(prefix, subject)))
    }
}

/// A note that is posted when this is dropped, however that comes: a request that ends, is cancelled while it waits for
/// Redis, or gets no answer.
#[derive(Debug)]
pub(crate) struct Owed {
    core: Arc<Core>,
    note: Option<Note>,
}

impl Owed {
    /// For a request that begins now.
    pub(super) fn new(core: &Arc<Core>, note: Note) -> Self {
        Self { core: Arc::clone(core), note: Some(Note { begun: core.now(), ..note }) }
    }

    /// It began at this moment of the calendar, unix seconds.
    pub(crate) fn begun_at(&mut self, unix: i64) {
        self.begun(self.core.moment(unix));
    }

    /// It began at this moment, as [`Core::now`] counts.
    pub(super) fn begun(&mut self, moment: f64) {
        if let Some(note) = &mut self.note {
            note.begun = moment;
        }
    }

    /// Redis refused, or did nothing: there is nothing to be told.
    pub(super) fn forget(owed: &mut Option<Self>) {
        if let Some(mut owed) = owed.take() {
            owed.note = None;
        }
    }

    /// Redis did not answer: it is told, unless it was not asked either.
    pub(super) fn unless_asked(owed: &mut Option<Self>, away: Away) {
        match away {
            Away::NotAsked => Self::forget(owed),
            Away::InDoubt => *owed = None,
        }
    }

    /// The states that something was set aside in, and the nano-USD that were.
    pub(super) fn of(&mut self, names: &str, aside: u64) {
        if let Some(Note { work: Work::Settle { epochs, nano, .. }, .. }) = &mut self.note {
            names.clone_into(epochs);
            *nano = Some(aside);
        }
    }

    /// Posts what was really used.
    pub(crate) fn settle(mut self, tokens: u64, cost: i128) {
        if let Some(Note { work: Work::Settle { used, spent, .. }, .. }) = &mut self.note {
            (*used, *spent) = (tokens, nano(cost));
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Some(note) = self.note.take() else { return };
        match &note.work {
            // What it never heard of need not be taken back.
            Work::Leave if !self.core.register.leave(&note.request_id) => return,
            Work::Leave => {}
            Work::Settle { spent, .. } => self.core.register.settle(&note.request_id, *spent, note.begun),
        }
        self.core.undelivered.fetch_add(1, Ordering::AcqRel);
        match self.core.notes.try_send(note) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => self.core.lose(1),
        }
    }
}

impl Core {
    /// So many will not be delivered.
    fn lose(&self, count: usize) {
        let before = self.lost.fetch_add(u64::try_from(count).unwrap_or_default(), Ordering::Relaxed);
        if before == 0 || before.ilog2() != before.saturating_add(1).ilog2() {
            let lost = before.saturating_add(1);
            tracing::error!(lost, "settlements were not delivered to Redis; the ledger is asked again");
        }
        self.done(count);
        self.begin_anew();
    }

    fn done(&self, count: usize) {
        if self.undelivered.fetch_sub(count, Ordering::AcqRel) == count {
            self.delivery.notify_waiters();
        }
    }
}

/// Delivers until it is aborted.
pub(super) async fn deliver(core: Arc<Core>, mut notes: mpsc::Receiver<Note>) {
    let mut batch = Vec::with_capacity(BATCH);
    while notes.recv_many(&mut batch, BATCH).await > 0 {
        while !batch.is_empty() {
            let Some(link) = core.line.linked().await else { return };
            // What it is being told again is taken back after that.
            if !core.has_told() {
                core.until_told().await;
                continue;
            }
            if !offer(&core, &link, &mut batch).await {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Offers a batch; what Redis took is taken out of it. False when there is no use in offering it again at once.
async fn offer(core: &Core, link: &Arc<Link>, batch: &mut Vec<Note>) -> bool {
    let mut commands = Pipeline::with_capacity(batch.len());
    for note in batch.iter() {
        commands.add_command(note.command(core));
    }
    let answers = match tokio::time::timeout(PATIENCE, link.ask_all(&commands)).await {
        Ok(Ok(answers)) if answers.len() == batch.len() => answers,
        Ok(Ok(_) | Err(_)) => {
            core.line.missed(link, true, "a broken connection");
            return true;
        }
        Err(_) => {
            core.line.missed(link, false, "no answer in time");
            return true;
        }
    };
    let (mut forgotten, mut later) = (false, false);
    let before = batch.len();
    let mut lost = 0_usize;
    let mut answers = answers.into_iter().map(Value::extract_error);
    batch.retain(|_| match answers.next() {
        Some(Err(error)) => match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => {
                forgotten = true;
                true
            }
            // The script failed in itself: it would again.
            ErrorKind::Server(ServerErrorKind::ResponseError) if error.code() != Some("OOM") => {
                lost += 1;
                false
            }
            _ => {
                later = true;
                true
            }
        },
        Some(Ok(answer)) if rebuild::is_refused(&answer) => {
            core.suspect();
            later = true;
            true
        }
        _ => false,
    });
    core.done(before.saturating_sub(batch.len()).saturating_sub(lost));
    if lost > 0 {
        core.lose(lost);
    }
    if forgotten {
        for script in core.scripts.all() {
            let loaded = tokio::time::timeout(PATIENCE, link.ask(&script.load())).await;
            later |= !matches!(loaded, Ok(Ok(_)));
        }
    }
    !later
}
