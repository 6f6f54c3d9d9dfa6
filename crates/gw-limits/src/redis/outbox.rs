//! The delivery of messages to Redis. One task delivers them in batches and repeats a batch until Redis has taken it.
//! Redis counts each message once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_redis::{CallError, Connection, OnTimeout};
use redis::{Cmd, ErrorKind, Pipeline, ServerErrorKind, Value};
use tokio::sync::mpsc;

use super::amount::nano_usd;
use super::answer::is_generation_refusal;
use super::message::{Message, MessageKind, Settlement};
use super::replica::{AskError, Replica};

/// The number of messages in a batch.
const MESSAGES_PER_BATCH: usize = 128;
/// The time limit of a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before a batch is repeated that Redis could not take.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A message that is sent when this is dropped: when the request ends, when it is cancelled while it waits for Redis,
/// and when Redis does not answer.
#[derive(Debug)]
pub(crate) struct SendOnDrop {
    replica: Arc<Replica>,
    /// In a box, because every reservation and permit has room for one, and few have one.
    message: Option<Box<Message>>,
}

impl SendOnDrop {
    /// A message about a request that begins now.
    pub(crate) fn new(replica: &Arc<Replica>, message: Message) -> Self {
        let message = Message { begun: replica.now(), ..message };
        Self { replica: Arc::clone(replica), message: Some(Box::new(message)) }
    }

    /// Sets when the request began, in unix seconds.
    pub(crate) fn set_begin_unix(&mut self, unix: i64) {
        self.set_begin(self.replica.moment(unix));
    }

    /// Sets when the request began, in microseconds of [`Replica::now`].
    pub(crate) fn set_begin(&mut self, moment: f64) {
        if let Some(message) = &mut self.message {
            message.begun = moment;
        }
    }

    /// Discards the message, because Redis has nothing to undo.
    pub(crate) fn cancel(message: &mut Option<Self>) {
        if let Some(mut message) = message.take() {
            message.message = None;
        }
    }

    /// Sends the message if Redis may have executed the request that it undoes, and discards it otherwise.
    pub(crate) fn undo_if_in_doubt(message: &mut Option<Self>, error: AskError) {
        match error {
            AskError::NotAsked => Self::cancel(message),
            AskError::InDoubt => *message = None,
        }
    }

    /// Sets what Redis has reserved: the epochs of the subjects' states, and the amount in nano-USD.
    pub(crate) fn set_reserved(&mut self, epochs: &str, nano: u64) {
        if let Some(settlement) = self.settlement_mut() {
            epochs.clone_into(&mut settlement.epochs);
            settlement.reserved_nano = Some(nano);
        }
    }

    /// Sends what the request used.
    pub(crate) fn settle(mut self, tokens: u64, cost_femtos: i128) {
        if let Some(settlement) = self.settlement_mut() {
            (settlement.used_tokens, settlement.cost_nano) = (tokens, nano_usd(cost_femtos));
        }
    }

    fn settlement_mut(&mut self) -> Option<&mut Settlement> {
        self.message.as_mut()?.settlement_mut()
    }
}

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let Some(message) = self.message.take() else { return };
        let holdings = &self.replica.holdings;
        match &message.kind {
            // Redis cannot release a permit that it does not know of.
            MessageKind::Release if !holdings.release_permit(&message.request_id) => return,
            MessageKind::Release | MessageKind::TakeBack { .. } => {}
            MessageKind::Settle(settlement) => {
                holdings.settle(&message.request_id, settlement.cost_nano, message.begun);
            }
        }
        self.replica.pending.add(1);
        // A full queue loses the message.
        if self.replica.outbox.try_send(*message).is_err() {
            fail_delivery(&self.replica, 1);
        }
    }
}

/// Discards messages. The ledger knows their costs, so the budgets ask the ledger again.
fn fail_delivery(replica: &Replica, count: usize) {
    let before = replica.lost_messages.fetch_add(u64::try_from(count).unwrap_or_default(), Ordering::Relaxed);
    // Logged at each power of two, because many may be lost in a row.
    if before == 0 || before.ilog2() != before.saturating_add(1).ilog2() {
        let lost = before.saturating_add(1);
        tracing::error!(lost, "settlements were not delivered to Redis; the ledger is asked again");
    }
    replica.pending.finish(count);
    replica.begin_new_generation();
}

/// Delivers messages until the task is aborted.
pub(crate) async fn deliver(replica: Arc<Replica>, mut messages: mpsc::Receiver<Message>) {
    let mut batch = Vec::with_capacity(MESSAGES_PER_BATCH);
    while messages.recv_many(&mut batch, MESSAGES_PER_BATCH).await > 0 {
        while !batch.is_empty() {
            let Some(connection) = replica.supervisor.wait_for_connection().await else { return };
            // A settlement must not overtake the report of its reservation.
            if !*replica.is_in_sync.borrow() {
                replica.wait_until_in_sync().await;
                continue;
            }
            if !offer(&replica, &connection, &mut batch).await {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

/// The fate of a message after Redis has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Done,
    /// The script fails in itself and would fail again.
    Lost,
    /// Redis has forgotten the script.
    NeedsScript,
    /// Redis is in another generation.
    NeedsRecovery,
    /// Redis cannot take the message now.
    Later,
}

impl Delivery {
    fn of(answer: Result<Value, redis::RedisError>) -> Self {
        match answer {
            Ok(answer) if is_generation_refusal(&answer) => Self::NeedsRecovery,
            Ok(_) => Self::Done,
            Err(error) => match error.kind() {
                ErrorKind::Server(ServerErrorKind::NoScript) => Self::NeedsScript,
                ErrorKind::Server(ServerErrorKind::ResponseError) if error.code() != Some("OOM") => {
                    Self::Lost
                }
                _ => Self::Later,
            },
        }
    }
}

/// Offers a batch, and removes the messages that are done or lost. Returns false if the rest should wait before it is
/// offered again.
async fn offer(replica: &Replica, connection: &Arc<Connection>, batch: &mut Vec<Message>) -> bool {
    let mut commands = Pipeline::with_capacity(batch.len());
    for message in batch.iter() {
        commands.add_command(command(replica, message));
    }
    let expected = batch.len();
    let asking = async {
        let answers = connection.ask_all(&commands).await?;
        if answers.len() == expected { Ok(answers) } else { Err(CallError::UnexpectedAnswer) }
    };
    let asked = replica.supervisor.call(connection, BATCH_TIMEOUT, OnTimeout::CountMiss, asking).await;
    // After a failure the batch is offered at once to the next connection.
    let Ok(answers) = asked else { return true };
    let deliveries: Vec<Delivery> =
        answers.into_iter().map(|answer| Delivery::of(answer.extract_error())).collect();
    let mut of_message = deliveries.iter();
    batch.retain(|_| !matches!(of_message.next(), Some(Delivery::Done | Delivery::Lost)));
    let count = |kind: Delivery| deliveries.iter().filter(|delivery| **delivery == kind).count();
    replica.pending.finish(count(Delivery::Done));
    let lost = count(Delivery::Lost);
    if lost > 0 {
        fail_delivery(replica, lost);
    }
    if count(Delivery::NeedsRecovery) > 0 {
        replica.suspect_loss();
    }
    let mut can_go_on = count(Delivery::NeedsRecovery) + count(Delivery::Later) == 0;
    if count(Delivery::NeedsScript) > 0 {
        can_go_on &= load_scripts(replica, connection).await;
    }
    can_go_on
}

async fn load_scripts(replica: &Replica, connection: &Connection) -> bool {
    let mut is_loaded = true;
    for script in replica.scripts.all() {
        let loaded = tokio::time::timeout(BATCH_TIMEOUT, connection.ask(&script.load_command())).await;
        is_loaded &= matches!(loaded, Ok(Ok(_)));
    }
    is_loaded
}

fn command(replica: &Replica, message: &Message) -> Cmd {
    let call = replica.call(&message.request_id);
    let (script, call) = match &message.kind {
        MessageKind::Release => (&replica.scripts.release, call),
        MessageKind::TakeBack { moments } => {
            // The text of a double loses no bit, so Redis finds the bucket that it answered with.
            let moments: Vec<String> = moments.iter().map(f64::to_string).collect();
            (&replica.scripts.take_back, call.arg(&moments.join(",")))
        }
        MessageKind::Settle(settlement) => {
            let Settlement { reserved_tokens, reserved_nano, used_tokens, cost_nano, epochs } = settlement;
            let reserved_nano = reserved_nano.map(|nano| nano.to_string()).unwrap_or_default();
            // Redis gets the age of the request, because the clocks of replicas may differ.
            let age_micros = format!("{:.0}", replica.now() - message.begun);
            let call = call.arg(reserved_tokens).arg(&reserved_nano).arg(used_tokens).arg(cost_nano);
            (&replica.scripts.settle, call.arg(epochs).arg(&age_micros))
        }
    };
    script.run_command(&call.subjects(&replica.settings.prefix, &message.subjects))
}
