//! The limiter, as the rest of the gateway sees it.

use std::sync::Arc;
use std::time::Duration;

use gw_store::Limits;
use tokio::sync::watch;

use crate::admission::AdmissionPermit;
use crate::clock::{Clock, SystemClock};
use crate::in_process::InProcess;
use crate::redis::RedisLimiter;
use crate::redis::settings::RedisSettings;
use crate::refusal::{Refusal, Refused};
use crate::registry::Registry;
use crate::reservation::{Reservation, ReservationRequest};
use crate::session::{SessionId, SessionLimit, SessionRequest, SessionTable, SessionUse};
use crate::spending_ledger::SpendingLedger;
use crate::subject::Subject;
use crate::subject_kind::SubjectKind;
use crate::subject_use::SubjectUse;
use crate::window_takes::TakenBucket;

/// For how long a request can be charged after its begin ([`Limiter::charge`]). Redis remembers an expired reservation for this
/// long.
pub const MAX_CHARGE_AGE: Duration = Duration::from_secs(86_400);

/// Limits and budgets of all keys and teams. Cheap to clone. All clones share their state.
#[derive(Clone, Debug)]
pub struct Limiter(Arc<Backends>);

#[derive(Debug)]
struct Backends {
    registry: Registry,
    in_process: InProcess,
    sessions: Arc<SessionTable>,
    /// None if this process counts for itself.
    redis: Option<RedisLimiter>,
}

/// Settlements on their way to Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFigures {
    /// Settlements that wait.
    pub waiting: usize,
    /// Settlements that were lost since the start, because too many waited.
    pub lost: u64,
}

/// Requests that Redis counts and the ledger does not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldingFigures {
    /// The number of these requests.
    pub requests: usize,
    /// How often Redis lost its memory since the start.
    pub memory_losses: u64,
}

impl Limiter {
    /// A limiter that counts in this process.
    #[must_use]
    pub fn in_process(ledger: Arc<dyn SpendingLedger>) -> Self {
        Self::in_process_with_clock(Arc::new(SystemClock::default()), ledger)
    }

    /// A limiter that counts in this process and uses the caller's clock.
    #[must_use]
    pub fn in_process_with_clock(clock: Arc<dyn Clock>, ledger: Arc<dyn SpendingLedger>) -> Self {
        Self::new(InProcess { clock, ledger }, None)
    }

    /// A limiter that counts in Redis, together with other replicas. A Redis that cannot be reached now is tried again
    /// in the background, on the runtime of this call.
    pub async fn over_redis(settings: RedisSettings, ledger: Arc<dyn SpendingLedger>) -> Self {
        let clock = Arc::new(SystemClock::default());
        Self::new(InProcess { clock, ledger }, Some(RedisLimiter::start(settings, None).await))
    }

    pub(crate) fn new(in_process: InProcess, redis: Option<RedisLimiter>) -> Self {
        let sessions = redis.as_ref().map(RedisLimiter::local_sessions).unwrap_or_default();
        Self(Arc::new(Backends { registry: Registry::default(), in_process, sessions, redis }))
    }

    /// Whether limits are shared over Redis, and Redis does not answer.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.0.redis.as_ref().is_some_and(RedisLimiter::is_away)
    }

    /// Settlements on their way to Redis.
    #[must_use]
    pub fn delivery_figures(&self) -> DeliveryFigures {
        let figures = self.0.redis.as_ref().map(RedisLimiter::delivery_figures);
        figures.map(|(waiting, lost)| DeliveryFigures { waiting, lost }).unwrap_or_default()
    }

    /// Requests that Redis counts and the ledger does not yet.
    #[must_use]
    pub fn holding_figures(&self) -> HoldingFigures {
        let figures = self.0.redis.as_ref().map(RedisLimiter::holding_figures);
        figures
            .map(|(requests, memory_losses)| HoldingFigures { requests, memory_losses })
            .unwrap_or_default()
    }

    /// Notes that the rows of these requests are in the ledger.
    pub fn mark_written(&self, request_ids: &mut dyn Iterator<Item = &str>) {
        if let Some(redis) = &self.0.redis {
            redis.mark_written(request_ids);
        }
    }

    /// The generation of Redis' memory that this replica has completely reported to. It changes after Redis lost its
    /// memory. None if this process counts for itself.
    #[must_use]
    pub fn generations(&self) -> Option<watch::Receiver<Arc<str>>> {
        self.0.redis.as_ref().map(RedisLimiter::generations)
    }

    /// Discards what Redis has counted, because it is wrong. As soon as Redis answers, every budget asks the ledger
    /// again and every replica reports what it holds.
    pub fn begin_new_generation(&self) {
        if let Some(redis) = &self.0.redis {
            redis.begin_new_generation();
        }
    }

    /// Waits until all settlements so far have reached Redis, for at most `timeout`. The process calls it before it
    /// ends. A settlement that is not delivered by then becomes a lease that expires.
    pub async fn drain(&self, timeout: Duration) {
        if let Some(redis) = &self.0.redis {
            redis.drain(timeout).await;
        }
    }

    /// Tells other replicas which circuits are open here, by name and remaining time. Returns those that are open at
    /// any replica, this one included. None without Redis, and while it does not answer.
    pub async fn exchange_circuits(&self, open: &[(String, Duration)]) -> Option<Vec<(String, Duration)>> {
        self.0.redis.as_ref()?.exchange_circuits(open).await
    }

    /// A key or a team with these limits, over the state that it had before. Called when keys are loaded or changed.
    /// Requests use the result.
    #[must_use]
    pub fn subject(&self, kind: SubjectKind, id: &str, limits: Limits) -> Arc<Subject> {
        self.0.registry.subject(kind, id, limits)
    }

    /// A counter of a rule with these limits, over the state that it had before. `configuration` is larger the newer the configuration of
    /// the rule is: requests look their counters up, and one of a former configuration must not bring back its limits.
    #[must_use]
    pub fn rule_counter(&self, id: &str, limits: Limits, configuration: u64) -> Arc<Subject> {
        self.0.registry.subject_of(SubjectKind::Rule, id, limits, configuration)
    }

    /// Admits a request before its body is read: checks the requests per minute, the requests in flight, and whether
    /// any money is left. The key comes first, then its team.
    ///
    /// # Errors
    /// A subject refuses, or the spending of a budget cannot be looked up. A request per minute that an earlier subject
    /// has counted stays counted. Places among the requests in flight are released.
    pub async fn admit(
        &self,
        request_id: &str,
        subjects: &[Arc<Subject>],
    ) -> Result<AdmissionPermit, Box<Refused>> {
        match &self.0.redis {
            None => self.0.in_process.admit(subjects, 1).await,
            Some(redis) => Box::pin(redis.admit(&self.0.in_process, request_id, subjects)).await,
        }
    }

    /// Admits a request that costs nothing: no budget refuses it, and every other limit counts it.
    ///
    /// # Errors
    /// The requests per minute or the requests in flight of a subject refuse.
    pub async fn admit_free(
        &self,
        request_id: &str,
        subjects: &[Arc<Subject>],
    ) -> Result<AdmissionPermit, Box<Refused>> {
        let free: Vec<_> = subjects.iter().map(|subject| Arc::new(subject.without_budget())).collect();
        let Some(redis) = &self.0.redis else { return self.0.in_process.admit(&free, 1).await };
        match Box::pin(redis.admit(&self.0.in_process, request_id, subjects)).await {
            Err(refused) if matches!(refused.refusal, Refusal::Budget { .. } | Refusal::StoreUnavailable) => {
                // Redis has taken its places back, so this process counts within its share of the limits.
                self.0.in_process.admit(&free, redis.replica_count()).await
            }
            admitted => admitted,
        }
    }

    /// Counts a request in the requests per minute and the requests in flight of rules, with every rule or with none. Their budgets
    /// are not looked at: the money is reserved already.
    ///
    /// # Errors
    /// A rule refuses. Nothing is counted.
    pub async fn admit_rates(
        &self,
        request_id: &str,
        rules: &[Arc<Subject>],
    ) -> Result<AdmissionPermit, Box<Refused>> {
        let rates: Vec<_> = rules.iter().map(|rule| Arc::new(rule.without_budget())).collect();
        let mut permit = self.admit(request_id, &rates).await?;
        for take in std::mem::take(&mut permit.takes) {
            // `take_back` gets these subjects, and not their copies without a budget.
            if let Some(rule) = rules.iter().find(|rule| Arc::ptr_eq(rule.state(), &take.state)) {
                rule.takes().add(request_id, take.bucket);
            }
        }
        Ok(permit)
    }

    /// Takes back a request that rules have counted in their requests per minute, because another target serves it. `request_id` and
    /// `rules` are those of [`Limiter::admit_rates`]. A rule that counted the request over a minute ago does not change: the request has
    /// left its window. The call does not wait for Redis.
    pub fn take_back(&self, request_id: &str, rules: &[Arc<Subject>]) {
        let mut in_redis = Vec::new();
        for rule in rules {
            match rule.takes().remove(request_id) {
                Some(TakenBucket::Here(moment)) => rule.state().request_window.give_back(moment),
                Some(TakenBucket::Redis(moment)) => in_redis.push((Arc::clone(rule), moment)),
                None => {}
            }
        }
        if let Some(redis) = &self.0.redis {
            redis.take_back(request_id, in_redis);
        }
    }

    /// The ids of the counters of rules that this process knows.
    #[must_use]
    pub fn rule_counters(&self) -> Vec<Box<str>> {
        self.0.registry.rule_counters()
    }

    /// How far the limits of these subjects are used up. Nothing is counted. None while Redis does not answer.
    pub async fn inspect(&self, subjects: &[Arc<Subject>]) -> Option<Vec<SubjectUse>> {
        match &self.0.redis {
            None => Some(self.0.in_process.inspect(subjects).await),
            Some(redis) => Box::pin(redis.inspect(&*self.0.in_process.ledger, subjects)).await,
        }
    }

    /// The least money (femto-USD) that a budget of these subjects has left. None: none has a budget, or the spending of one of them
    /// is not known now.
    pub async fn least_left(&self, subjects: &[Arc<Subject>]) -> Option<i128> {
        let uses = self.inspect(subjects).await?;
        let budgets = uses.iter().filter(|used| used.limits.budget.is_some());
        // None is less than every amount, so one unknown spending leaves the least unknown.
        budgets.map(SubjectUse::left_femtos).min().flatten()
    }

    /// As [`Limiter::least_left`], if this process knows it without waiting. None: Redis counts, or the ledger has to be asked.
    #[must_use]
    pub fn least_left_here(&self, subjects: &[Arc<Subject>]) -> Option<Option<i128>> {
        if self.0.redis.is_some() { None } else { self.0.in_process.least_left(subjects) }
    }

    /// Reserves the tokens and the money (femto-USD) of the worst case before an upstream is called, with every subject
    /// or with none.
    ///
    /// # Errors
    /// A subject refuses, or the spending of a budget cannot be looked up.
    pub async fn reserve(
        &self,
        request_id: &str,
        subjects: &[Arc<Subject>],
        tokens: u64,
        cost_femtos: i128,
    ) -> Result<Reservation, Refusal> {
        let reserved = self.reserve_up_to(request_id, subjects, tokens, cost_femtos, cost_femtos).await?;
        Ok(reserved.0)
    }

    /// Reserves for a request that can do with less money: `max_femtos` with every subject, or what the subject with
    /// the least money has left, but at least `min_femtos`. Returns the granted amount too. An amount below
    /// `max_femtos` is a whole number of nano-USD. One request may reserve several times, with another id each time.
    ///
    /// # Errors
    /// Less than `min_femtos` is left, or the reasons of [`Limiter::reserve`].
    pub async fn reserve_up_to(
        &self,
        request_id: &str,
        subjects: &[Arc<Subject>],
        tokens: u64,
        max_femtos: i128,
        min_femtos: i128,
    ) -> Result<(Reservation, i128), Refusal> {
        let max_femtos = max_femtos.max(0);
        let request = ReservationRequest { tokens, max_femtos, min_femtos: min_femtos.clamp(0, max_femtos) };
        match &self.0.redis {
            None => self.0.in_process.reserve(subjects, &request, 1).await,
            Some(redis) => Box::pin(redis.reserve(&self.0.in_process, request_id, subjects, &request)).await,
        }
    }

    /// Counts a request of a session, unless it goes beyond a limit. Parallel requests do not overshoot. While Redis does not
    /// answer, this process counts for itself.
    ///
    /// # Errors
    /// The limit that the request goes beyond.
    pub async fn enter_session(&self, request: &SessionRequest<'_>) -> Result<SessionUse, SessionLimit> {
        if let Some(redis) = &self.0.redis
            && let Some(decision) = Box::pin(redis.enter_session(request)).await
        {
            return decision;
        }
        self.0.sessions.admit(request, self.0.in_process.clock.monotonic_micros())
    }

    /// As [`Limiter::enter_session`], but counts nothing.
    ///
    /// # Errors
    /// The limit that the request would go beyond.
    pub async fn look_at_session(&self, request: &SessionRequest<'_>) -> Result<SessionUse, SessionLimit> {
        if let Some(redis) = &self.0.redis
            && let Some(decision) = Box::pin(redis.look_at_session(request)).await
        {
            return decision;
        }
        self.0.sessions.look(request, self.0.in_process.clock.monotonic_micros())
    }

    /// Adds the cost of a request that is over to its session. The call never waits: a background task sends the cost to Redis.
    pub fn charge_session(&self, id: &SessionId, cost_femtos: i128) {
        if cost_femtos <= 0 {
            return;
        }
        if !self.0.redis.as_ref().is_some_and(|redis| redis.charge_session(id, cost_femtos)) {
            self.0.sessions.charge(id, cost_femtos);
        }
    }

    /// Counts the cost of a request without a reservation: one that a journal reports after a crash. `subjects` are the key
    /// and the team of that time; this process may know neither. `begun` is the unix second in which the request began.
    /// The caller writes the cost into the ledger before.
    ///
    /// In process, a budget with unknown spending hears of the cost from the ledger later. In Redis, the call ends what
    /// is left of the request's lease. A request that was settled there before does not count twice, and one that began
    /// longer ago than [`MAX_CHARGE_AGE`] may not count at all. The call does not wait for Redis.
    pub fn charge(&self, request_id: &str, subjects: &[(SubjectKind, &str)], cost_femtos: i128, begun: i64) {
        let cost = cost_femtos.max(0);
        match &self.0.redis {
            None => {
                let states = subjects.iter().filter_map(|(kind, id)| self.0.registry.state(*kind, id));
                self.0.in_process.charge(states, (request_id, begun), cost);
            }
            Some(redis) => redis.charge(request_id, subjects, cost, begun),
        }
    }
}
