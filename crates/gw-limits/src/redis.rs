//! Limits that several replicas share over Redis or Valkey.
//!
//! **One script per step** handles the key and its team together, so that both are counted or neither. A request asks
//! Redis twice. After its end a background task sends the settlement. The clock of Redis counts, so the clocks of
//! replicas may differ. A key and its team lie in different hash slots, so this works with one Redis (6.2 or later, or
//! Valkey) and its replicas, but not with Redis Cluster.
//!
//! **Leases.** A reservation is a lease with the id of its request, and so is a place among the requests in flight. A
//! lease that nobody ends expires ([`RedisSettings::lease`]), so a killed replica leaks nothing. The next call about
//! the subject removes it. A settlement after the expiry still counts, once (`settle.lua`). A request that stops
//! waiting for Redis sends a message that it holds nothing. If Redis executes the request after that message, the lease
//! expires.
//!
//! **Amounts** are whole nano-USD, each rounded up. A budget above 9,007,199 USD counts as that.
//!
//! **While Redis does not answer**, no request waits for it. Redis counts as away when an answer takes longer than
//! [`gw_redis::MAX_MISSED_ANSWERS`] times [`RedisSettings::timeout`], and when the connection breaks. A task in the
//! background reconnects. A budget refuses meanwhile ([`Refusal::StoreUnavailable`]). This process counts the other
//! limits by itself, divided by the number of replicas that were alive last, or refuses them too ([`WhenAway`]). Its
//! own count starts full, so at most twice a limit passes in the minute in which Redis goes away. Requests in flight
//! that began meanwhile are reported when Redis is back.
//!
//! **Settlements wait** for Redis in a queue of [`replica::MAX_QUEUED_MESSAGES`]. If the queue overflows, budgets ask
//! the ledger again (`recovery.rs`). A settlement counts once, because a lease ends once.
//!
//! **Lost memory** (FLUSHALL, a restart, a failover) makes budgets unknown, not zero. The memory of Redis has a name,
//! its generation, which is lost with it. Every script compares it first (`begin_generation.lua`). Each replica lists
//! what it holds in Redis (`holdings.rs`) and reports it to a new generation (`recovery.rs`). Budgets wait until all
//! known replicas have reported. Then they ask the ledger for the spending and for those of the reported requests that
//! it already counts, both of one moment (`retries.rs`), so each request counts once. Two things can be overspent: what
//! a killed replica held, until its successor has read the journal, and what a replica holds that Redis does not hear
//! of for five seconds.
//!
//! **Lost keys** (eviction) make budgets unknown too, but no replica reports again. What other replicas have not yet
//! written into the ledger can be overspent. The same is true of a budget that is added to a subject without one
//! (`forget_spending.lua`): a replica that does not know the budget yet, or that knows it no more, does not count
//! requests that end meanwhile.
//!
//! **Spending that becomes unknown** while Redis has all keys (a budget is added, a process uses a subject for the first
//! time, the kind of the period changes, the clock goes back) is not lost. Redis keeps the amount and its time. The ledger
//! tells what it knows of that time, and the difference, which some replica has not written yet, counts in the next
//! period (`learn_spending.lua`).
//!
//! Use `maxmemory-policy noeviction`, and a Redis for limits alone.

pub(crate) mod amount;
pub(crate) mod answer;
mod circuits;
pub(crate) mod facts;
pub(crate) mod holdings;
mod inspect;
pub(crate) mod late_budget;
pub(crate) mod message;
pub(crate) mod outbox;
mod recovery;
pub(crate) mod replica;
mod retries;
pub(crate) mod script;
pub(crate) mod script_call;
pub(crate) mod sessions;
pub(crate) mod settings;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_store::Limits;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::amount::{FEMTOS_OF_NANO, nano_usd};
use self::answer::{Answer, ScriptRefusal};
use self::late_budget::{UnbudgetedRequest, report_added_budgets};
use self::message::{Message, MessageKind, Settlement};
use self::outbox::SendOnDrop;
use self::replica::{AskError, Replica};
use self::retries::{HoldingScript, Undecided};
use self::sessions::UndeliveredCosts;
use self::settings::{RedisSettings, WhenAway};
use crate::admission::AdmissionPermit;
use crate::clock::Clock;
use crate::gcra::Gcra;
use crate::in_flight::InFlightPermit;
use crate::in_process::InProcess;
use crate::limit_state::{LimitStates, RateState, TokenState, time_until_expiry};
use crate::refusal::{Refusal, Refused};
use crate::reservation::{Reservation, ReservationRequest};
use crate::session::{SessionId, SessionLimit, SessionRequest, SessionTable, SessionUse};
use crate::subject::Subject;
use crate::subject_kind::SubjectKind;
use crate::window_takes::{TakenBucket, WindowTake};

/// The limiter over Redis.
#[derive(Debug)]
pub(crate) struct RedisLimiter {
    replica: Arc<Replica>,
    session_costs: Arc<UndeliveredCosts>,
    /// The sessions that this process counts while Redis does not answer.
    local_sessions: Arc<SessionTable>,
    /// The upkeep of the connection and the delivery of messages. Aborted when the limiter is dropped.
    _tasks: JoinSet<()>,
}

impl RedisLimiter {
    /// Connects and starts the background tasks. Only tests pass a `clock`, which the scripts then use too.
    pub(crate) async fn start(settings: RedisSettings, clock: Option<Arc<dyn Clock>>) -> Self {
        let (replica, messages) = Replica::new(settings, clock);
        let replica = Arc::new(replica);
        let wait = replica.supervisor.connect_at_start(&*replica).await.unwrap_or_default();
        let mut tasks = JoinSet::new();
        let upkeep = Arc::clone(&replica);
        tasks.spawn(async move { upkeep.supervisor.run(&*upkeep).await });
        tasks.spawn(outbox::deliver(Arc::clone(&replica), messages));
        let (session_costs, local_sessions) = (Arc::default(), Arc::default());
        tasks.spawn(sessions::deliver(
            Arc::clone(&replica),
            Arc::clone(&session_costs),
            Arc::clone(&local_sessions),
        ));
        // Budgets would wait for unknown replicas. The start waits instead, so that the first request does not.
        tokio::time::sleep(wait).await;
        Self { replica, session_costs, local_sessions, _tasks: tasks }
    }

    /// Waits until all messages so far are delivered, for at most `timeout`.
    pub(crate) async fn drain(&self, timeout: Duration) {
        let draining = async {
            self.replica.deliver_session_costs(&self.session_costs, &self.local_sessions).await;
            self.replica.pending.wait_until_zero().await;
        };
        let _late = tokio::time::timeout(timeout, draining).await;
    }

    pub(crate) fn local_sessions(&self) -> Arc<SessionTable> {
        Arc::clone(&self.local_sessions)
    }

    /// Counts a request of a session. None if Redis does not answer.
    pub(crate) async fn enter_session(
        &self,
        request: &SessionRequest<'_>,
    ) -> Option<Result<SessionUse, SessionLimit>> {
        self.replica.enter_session(request, &self.session_costs, &self.local_sessions).await
    }

    /// As [`RedisLimiter::enter_session`], but counts nothing.
    pub(crate) async fn look_at_session(
        &self,
        request: &SessionRequest<'_>,
    ) -> Option<Result<SessionUse, SessionLimit>> {
        self.replica.look_at_session(request, &self.session_costs).await
    }

    /// Adds the cost of a request to its session. False if too many sessions wait for Redis.
    pub(crate) fn charge_session(&self, id: &SessionId, cost_femtos: i128) -> bool {
        self.session_costs.add(id, cost_femtos)
    }

    /// The number of messages that wait, and of those that were lost.
    pub(crate) fn delivery_figures(&self) -> (usize, u64) {
        (self.replica.pending.count(), self.replica.lost_messages.load(Ordering::Relaxed))
    }

    /// The number of requests that Redis counts and the ledger does not yet, and how often Redis lost its memory.
    pub(crate) fn holding_figures(&self) -> (usize, u64) {
        self.replica.holdings.figures()
    }

    pub(crate) fn mark_written(&self, request_ids: &mut dyn Iterator<Item = &str>) {
        request_ids.for_each(|id| self.replica.holdings.mark_written(id));
    }

    pub(crate) fn generations(&self) -> watch::Receiver<Arc<str>> {
        self.replica.reported_generation.subscribe()
    }

    pub(crate) fn begin_new_generation(&self) {
        self.replica.begin_new_generation();
    }

    pub(crate) fn is_away(&self) -> bool {
        self.replica.supervisor.is_disconnected()
    }

    pub(crate) async fn exchange_circuits(
        &self,
        open: &[(String, Duration)],
    ) -> Option<Vec<(String, Duration)>> {
        self.replica.exchange_circuits(open).await
    }

    /// The number of replicas that share the limits.
    pub(crate) fn replica_count(&self) -> u32 {
        self.replica.replica_count()
    }

    /// Takes back a request that rules have counted in their requests per minute, each in the bucket of a moment.
    pub(crate) fn take_back(&self, request_id: &str, rules: Vec<(Arc<Subject>, f64)>) {
        if !rules.is_empty() {
            let (rules, moments) = rules.into_iter().unzip();
            let message = Message::new(request_id, rules, MessageKind::TakeBack { moments });
            drop(SendOnDrop::new(&self.replica, message));
        }
    }

    /// Admits a request.
    pub(crate) async fn admit(
        &self,
        in_process: &InProcess,
        request_id: &str,
        subjects: &[Arc<Subject>],
    ) -> Result<AdmissionPermit, Box<Refused>> {
        let is_limited = |subject: &Subject| *subject.limits() != Limits::default();
        let limited = select(subjects, is_limited);
        if limited.is_empty() {
            return Ok(AdmissionPermit::default());
        }
        report_added_budgets(&self.replica, &limited).await?;
        let with_permits = select(&limited, |subject| subject.limits().max_in_flight.is_some());
        let replica = &self.replica;
        let admitting = HoldingScript {
            script: &replica.scripts.admit,
            subjects: &limited,
            call: || replica.call(request_id).subjects(&replica.settings.prefix, &limited),
            undo: || {
                let release = || Message::new(request_id, with_permits.clone(), MessageKind::Release);
                (!with_permits.is_empty()).then(release)
            },
            note: |_: &Answer, generation: &str| {
                with_permits.is_empty() || replica.holdings.add_permit(request_id, generation, &with_permits)
            },
        };
        let (answer, release) = match replica.decide(&*in_process.ledger, admitting).await {
            Ok(decided) => decided,
            Err(Undecided::Refused(refusal)) => return Err(refusal.into()),
            Err(Undecided::NoAnswer(error, release)) => {
                return self
                    .admit_without_redis(in_process, request_id, &limited, &with_permits, release, error)
                    .await;
            }
        };
        let limits = limit_states(&answer, &limited);
        if let Some(refusal) = refusal(&answer, &limited, 0) {
            return Err(Box::new(Refused { limits, refusal }));
        }
        let in_flight = with_permits.iter().map(|subject| InFlightPermit::mirror(subject.state()));
        let takes = window_takes(&answer, &limited);
        Ok(AdmissionPermit { limits, in_flight: in_flight.collect(), takes, release })
    }

    /// Admits a request that Redis did not answer.
    async fn admit_without_redis(
        &self,
        in_process: &InProcess,
        request_id: &str,
        limited: &[Arc<Subject>],
        with_permits: &[Arc<Subject>],
        mut release: Option<SendOnDrop>,
        error: AskError,
    ) -> Result<AdmissionPermit, Box<Refused>> {
        let admitted = match self.check_without_redis(limited) {
            Ok(()) => in_process.admit(limited, self.replica.replica_count()).await,
            Err(refusal) => Err(refusal.into()),
        };
        if admitted.is_err() {
            SendOnDrop::undo_if_in_doubt(&mut release, error);
        } else if !with_permits.is_empty() {
            let may_be_known = error == AskError::InDoubt;
            self.replica.holdings.add_local_permit(request_id, with_permits, may_be_known);
        }
        admitted.map(|permit| AdmissionPermit { release, ..permit })
    }

    /// Reserves with every subject or with none. Returns the granted money in femto-USD.
    pub(crate) async fn reserve(
        &self,
        in_process: &InProcess,
        request_id: &str,
        subjects: &[Arc<Subject>],
        request: &ReservationRequest,
    ) -> Result<(Reservation, i128), Refusal> {
        let is_limited = |subject: &Subject| subject.limits().tpm.is_some() || subject.has_budget();
        let limited = select(subjects, is_limited);
        let unlimited = select(subjects, |subject| !is_limited(subject));
        let unbudgeted = UnbudgetedRequest::new(&self.replica, request_id, unlimited);
        if limited.is_empty() {
            return Ok((Reservation { unbudgeted, ..Reservation::default() }, request.max_femtos));
        }
        report_added_budgets(&self.replica, &limited).await?;
        let (tokens, max_nano, min_nano) =
            (request.tokens, nano_usd(request.max_femtos), nano_usd(request.min_femtos));
        // If the amount may vary, only Redis knows it until the answer comes.
        let reserved_nano = (max_nano == min_nano).then_some(max_nano);
        let granted_nano = |answer: &Answer| answer.detail().unwrap_or(max_nano);
        let replica = &self.replica;
        let reserving = HoldingScript {
            script: &replica.scripts.reserve,
            subjects: &limited,
            call: || {
                let call = replica.call(request_id).arg(&tokens).arg(&max_nano).arg(&min_nano);
                call.subjects(&replica.settings.prefix, &limited)
            },
            undo: || {
                let settlement =
                    Settlement { reserved_tokens: tokens, reserved_nano, ..Settlement::default() };
                Some(Message::new(request_id, limited.clone(), MessageKind::Settle(settlement)))
            },
            note: |answer: &Answer, generation: &str| {
                let granted = granted_nano(answer);
                replica.holdings.add_reservation(request_id, generation, &limited, granted)
            },
        };
        let (answer, mut settle) = match replica.decide(&*in_process.ledger, reserving).await {
            Ok(decided) => decided,
            Err(Undecided::Refused(refusal)) => return Err(refusal),
            Err(Undecided::NoAnswer(error, mut settle)) => {
                SendOnDrop::undo_if_in_doubt(&mut settle, error);
                self.check_without_redis(&limited)?;
                let replicas = replica.replica_count();
                let (reserved, granted) = in_process.reserve(&limited, request, replicas).await?;
                // None of the subjects has a budget, or the check would have failed.
                let unbudgeted = UnbudgetedRequest::new(replica, request_id, subjects.to_vec());
                return Ok((Reservation { unbudgeted, ..reserved }, granted));
            }
        };
        if let Some(refusal) = refusal(&answer, &limited, tokens) {
            return Err(refusal);
        }
        let granted_nano = granted_nano(&answer);
        let epochs: Vec<&str> = (0..limited.len()).map(|index| answer.field(index)).collect();
        if let Some(settle) = &mut settle {
            settle.set_reserved(&epochs.join(","), granted_nano);
        }
        let granted = request.max_femtos.min(i128::from(granted_nano).saturating_mul(FEMTOS_OF_NANO));
        Ok((Reservation { redis: settle, unbudgeted, ..Reservation::default() }, granted))
    }

    /// Sends the cost of a request that another process began. Redis knows whether its subjects have budgets.
    pub(crate) fn charge(
        &self,
        request_id: &str,
        subjects: &[(SubjectKind, &str)],
        cost_femtos: i128,
        begun: i64,
    ) {
        let subjects = subjects.iter().map(|(kind, id)| Arc::new(Subject::named(*kind, id))).collect();
        let settlement = Settlement { cost_nano: nano_usd(cost_femtos), ..Settlement::default() };
        let message = Message::new(request_id, subjects, MessageKind::Settle(settlement));
        SendOnDrop::new(&self.replica, message).set_begin_unix(begun);
    }

    /// Checks that these subjects may be served while Redis does not answer.
    fn check_without_redis(&self, subjects: &[Arc<Subject>]) -> Result<(), Refusal> {
        let is_closed = self.replica.settings.when_away == WhenAway::Closed;
        if is_closed || subjects.iter().any(|subject| subject.has_budget()) {
            return Err(Refusal::StoreUnavailable);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn replica(&self) -> &Arc<Replica> {
        &self.replica
    }
}

fn select(subjects: &[Arc<Subject>], is_selected: impl Fn(&Subject) -> bool) -> Vec<Arc<Subject>> {
    subjects.iter().filter(|subject| is_selected(subject)).map(Arc::clone).collect()
}

/// The limits as they stand after `admit.lua`.
fn limit_states(answer: &Answer, subjects: &[Arc<Subject>]) -> LimitStates {
    let mut states = LimitStates::default();
    for (index, subject) in subjects.iter().enumerate() {
        let limits = subject.limits();
        if let Some((state, _)) = request_state(answer, index, limits) {
            states.add_requests(state);
        }
        if let (Some(limit), Some(tat)) = (limits.tpm, answer.tat(2 * index + 1)) {
            states.add_tokens(TokenState::new(limit, tat, answer.now));
        }
    }
    states
}

/// The windows of rules in which `admit.lua` has counted the request.
fn window_takes(answer: &Answer, subjects: &[Arc<Subject>]) -> Vec<WindowTake> {
    let take = |(index, subject): (usize, &Arc<Subject>)| {
        let Limits { rpm: Some(_), burst: None, .. } = subject.limits() else { return None };
        // The newest bucket is the one that the request came to.
        let bucket = TakenBucket::Redis(answer.window(2 * index)?.newest);
        Some(WindowTake { state: Arc::clone(subject.state()), bucket })
    };
    let is_rule = |(_, subject): &(usize, &Arc<Subject>)| subject.kind() == SubjectKind::Rule;
    subjects.iter().enumerate().filter(is_rule).filter_map(take).collect()
}

/// A subject's requests per minute, and the time to wait if they are used up. None if the script did not check them.
fn request_state(answer: &Answer, index: usize, limits: &Limits) -> Option<(RateState, Duration)> {
    let (limit, now) = (limits.rpm?, answer.now);
    let Some(burst) = limits.burst else {
        let window = answer.window(2 * index)?;
        let wait = time_until_expiry(window.blocked_by, now);
        return Some((RateState::of_window(limit, window, now), wait));
    };
    let tat = answer.tat(2 * index)?;
    let wait = Gcra::with_burst(limit.into(), burst.into()).wait(tat, now, 1);
    Some((RateState::of_gcra(limit, burst, tat, now), wait))
}

/// Converts the refusal of a script. `wanted` is the number of tokens that the request asked for.
fn refusal(answer: &Answer, subjects: &[Arc<Subject>], wanted: u64) -> Option<Refusal> {
    let (index, reason) = answer.refused?;
    let Some(refusing) = subjects.get(index) else { return Some(Refusal::StoreUnavailable) };
    let (subject, limits) = (refusing.kind(), refusing.limits());
    Some(match reason {
        ScriptRefusal::Requests => {
            let retry_after = request_state(answer, index, limits).map(|(_, wait)| wait).unwrap_or_default();
            Refusal::Requests { subject, limit: limits.rpm.unwrap_or_default(), retry_after }
        }
        ScriptRefusal::InFlight => {
            Refusal::InFlight { subject, limit: limits.max_in_flight.unwrap_or_default() }
        }
        ScriptRefusal::Budget { resets_in, left_nano } => {
            let period = refusing.shared_budget().map(|budget| budget.period).unwrap_or_default();
            Refusal::Budget { subject, period, resets_in: resets_in.map(Duration::from_secs), left_nano }
        }
        ScriptRefusal::Tokens(tat) => {
            let limit = limits.tpm.unwrap_or_default();
            let retry_after = Some(Gcra::new(limit).wait(tat, answer.now, wanted));
            Refusal::Tokens { subject, limit, wanted, retry_after }
        }
        ScriptRefusal::NeverEnoughTokens => {
            Refusal::Tokens { subject, limit: limits.tpm.unwrap_or_default(), wanted, retry_after: None }
        }
        ScriptRefusal::Unknown(_) | ScriptRefusal::Rebuilding | ScriptRefusal::Generation => {
            Refusal::StoreUnavailable
        }
    })
}

#[cfg(test)]
mod tests;
