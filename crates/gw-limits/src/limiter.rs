//! The limiter that the rest of the gateway sees.

use std::sync::Arc;
use std::time::Duration;

use gw_store::Limits;
use tokio::sync::watch;

use crate::clock::{Clock, SystemClock};
use crate::local::Local;
use crate::registry::Registry;
use crate::reservation::{Reservation, Wish};
use crate::shared::{RedisSettings, Shared};
use crate::spending::Spending;
use crate::subject::{Subject, Whose};
use crate::verdict::{Entered, Refusal, Refused};

/// Limits and budgets of all keys and teams. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Limiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    local: Local,
    /// None when this process counts for itself.
    shared: Option<Shared>,
}

impl Limiter {
    /// One that counts in this process.
    #[must_use]
    pub fn local(spending: Arc<dyn Spending>) -> Self {
        Self::local_by(Arc::new(SystemClock::default()), spending)
    }

    /// One that counts in this process, by a clock of the caller's.
    #[must_use]
    pub fn local_by(clock: Arc<dyn Clock>, spending: Arc<dyn Spending>) -> Self {
        Self::new(Local { clock, spending }, None)
    }

    /// One that counts in Redis, together with other replicas. A Redis that cannot be reached is away, and asked again
    /// in the background, on the runtime that this is called on.
    pub async fn shared(redis: RedisSettings, spending: Arc<dyn Spending>) -> Self {
        let clock = Arc::new(SystemClock::default());
        Self::new(Local { clock, spending }, Some(Shared::start(redis, None).await))
    }

    pub(crate) fn new(local: Local, shared: Option<Shared>) -> Self {
        Self(Arc::new(Inner { registry: Registry::default(), local, shared }))
    }

    /// Whether limits are shared, and the Redis that they are shared over does not answer.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.0.shared.as_ref().is_some_and(Shared::is_away)
    }

    /// Settlements that wait for Redis, and how many did not find room to wait and were lost.
    #[must_use]
    pub fn undelivered(&self) -> (usize, u64) {
        self.0.shared.as_ref().map(Shared::undelivered).unwrap_or_default()
    }

    /// Requests that are held in Redis and not in the ledger yet, and how often Redis has lost its memory of them.
    #[must_use]
    pub fn held(&self) -> (usize, u64) {
        self.0.shared.as_ref().map(Shared::held).unwrap_or_default()
    }

    /// The rows of these requests are in the ledger.
    pub fn written(&self, request_ids: &mut dyn Iterator<Item = &str>) {
        if let Some(shared) = &self.0.shared {
            shared.written(request_ids);
        }
    }

    /// The name of the memory of Redis that has been told everything: another one after it was lost. None when this process counts for itself.
    #[must_use]
    pub fn generations(&self) -> Option<watch::Receiver<Arc<str>>> {
        self.0.shared.as_ref().map(Shared::generations)
    }

    /// What Redis has counted is not right: as soon as it can be told so, every budget asks the ledger again, and every
    /// replica tells what it holds.
    pub fn begin_anew(&self) {
        if let Some(shared) = &self.0.shared {
            shared.core().begin_anew();
        }
    }

    /// Waits until Redis was told of everything that was settled so far, but not longer than this. For the end of the
    /// process; what is not delivered then is a lease that expires.
    pub async fn drain(&self, patience: Duration) {
        if let Some(shared) = &self.0.shared {
            shared.drain(patience).await;
        }
    }

    /// Tells other replicas which circuits (by a name) are open here and for how long, and hears of all that are open
    /// anywhere, which ours are among. None = there is no Redis to tell, or it is away.
    pub async fn circuits(&self, open: &[(String, Duration)]) -> Option<Vec<(String, Duration)>> {
        self.0.shared.as_ref()?.circuits(open).await
    }

    /// A key or a team and its limits, with the state that it had with other limits before. For when keys are loaded
    /// or changed; requests use the subject.
    #[must_use]
    pub fn subject(&self, whose: Whose, id: &str, limits: Limits) -> Arc<Subject> {
        self.0.registry.subject(whose, id, limits)
    }

    /// The first door, before the body is read: requests per minute, places at one time, and whether any money is left
    /// at all; the key first, then its team.
    ///
    /// # Errors
    /// One of them refuses, or a budget cannot be looked up. Requests per minute that an earlier one counted stay
    /// counted, places are given back.
    pub async fn enter(&self, request_id: &str, subjects: &[Arc<Subject>]) -> Result<Entered, Box<Refused>> {
        match &self.0.shared {
            None => self.0.local.enter(subjects, 1).await,
            Some(shared) => shared.enter(&self.0.local, request_id, subjects).await,
        }
    }

    /// The second door, before an upstream is called: sets the worst case aside with every subject, or with none.
    ///
    /// # Errors
    /// One of them refuses, or a budget cannot be looked up.
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

    /// The second door for a request that can do with less money: sets `most` femto-USD aside with every subject, or
    /// what the one with the least left has, down to `least`. What is granted comes with it; less than `most` is whole
    /// nano-USD. One request may set aside several times, with another id each time.
    ///
    /// # Errors
    /// Less than `least` is left, or as [`Limiter::reserve`] has it.
    pub async fn reserve_up_to(
        &self,
        request_id: &str,
        subjects: &[Arc<Subject>],
        tokens: u64,
        most: i128,
        least: i128,
    ) -> Result<(Reservation, i128), Refusal> {
        let most = most.max(0);
        let wish = Wish { tokens, most, least: least.clamp(0, most) };
        match &self.0.shared {
            None => self.0.local.reserve(subjects, &wish, 1).await,
            Some(shared) => shared.reserve(&self.0.local, request_id, subjects, &wish).await,
        }
    }

    /// Counts money that was spent outside of a reservation: a journal that is replayed after a crash. Call it when the
    /// ledger knows of it, too: in process, a budget that was not asked for yet will hear of it from there. In Redis it
    /// ends the request's lease, or what is left of it; a request that was settled there before is not counted twice.
    /// It counts in the period in which the request began (unix seconds). It does not wait for Redis.
    pub async fn charge(&self, request_id: &str, subjects: &[Arc<Subject>], cost_femtos: i128, begun: i64) {
        let cost = cost_femtos.max(0);
        match &self.0.shared {
            None => self.0.local.charge(subjects, cost, begun),
            Some(shared) => shared.charge(request_id, subjects, cost, begun),
        }
    }
}
