//! Limits that several replicas share: the two doors over Redis or Valkey, and what happens while it is away.
//!
//! **One script per door**, for the key and its team together, so that both are taken or neither; a request asks Redis
//! twice, and a third time when it is over, from a task of its own. Redis's clock counts, not the replicas'. A key and
//! its team lie in different slots: one Redis (6.2 or later, or Valkey) with its replicas serves this, a Redis Cluster
//! does not.
//!
//! **Leases.** What a request sets aside, and its place among those at one time, is a lease with its id, which expires
//! ([`RedisSettings::lease`]) when nobody ends it: a replica that was killed leaks nothing. The next call about that
//! subject releases it. A settlement that comes later still counts, once (`settle.lua`). A request that stops waiting
//! for Redis, cancelled or out of time, posts that it holds nothing; should Redis take its question from a dead
//! connection only after that, the lease expires.
//!
//! **Amounts** are whole nano-USD, each rounded up; a budget above 9,007,199 USD is taken for that.
//!
//! **Away.** An answer that is late is still the answer. Without one for [`gw_redis::MISSES`] times
//! [`RedisSettings::timeout`], or when the connection breaks, nobody waits any more, and no request asks until a probe in
//! the background gets its answer. Meanwhile a budget refuses ([`Refusal::StoreAway`]); the other limits are counted in
//! this process, each divided by the replicas that were last known to be alive, or refuse, too ([`WhenAway`]). In the
//! minute in which Redis goes, each replica's own count starts full: at most twice a limit passes. Places that are taken
//! meanwhile are told when it is back.
//!
//! **Settlements wait** for Redis in a queue of [`QUEUE`]; for what does not fit the ledger is asked again (`rebuild.rs`).
//! None is counted twice: a lease ends once.
//!
//! **Lost memory** (FLUSHALL, a restart, a failover) is unknown, not zero. What Redis remembers has a name, its
//! generation, which every script looks at first and which is lost with it (`begin.lua`). Each replica keeps a register of
//! what it holds there (`register.rs`) and tells it again (`rebuild.rs`); until all that are known have, no budget that is
//! unknown is asked about. The ledger says what was spent, and of which of these requests it knows, in one moment
//! (`turns.rs`): each counts once. What can be overspent is what a replica held that was killed, until a process in its
//! place has read its journal, or one that Redis does not hear of for five seconds.
//!
//! **Lost keys** (eviction) are unknown, too, but nobody tells again what was in them: what can be overspent is what
//! other replicas had not written into the ledger yet. It is the same when a budget is given to who had none
//! (`forget.lua`): a replica that has not heard of it yet, or of its being taken away, counts nothing of what ends there
//! meanwhile. Give Redis `maxmemory-policy noeviction`, and keep it for limits.

mod circuits;
mod core;
mod given;
mod notes;
mod rebuild;
mod register;
mod script;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_redis::Address;
use secrecy::SecretString;
use tokio::sync::watch;

use self::core::Core;
pub(crate) use self::given::Meanwhile;
pub(crate) use self::notes::Owed;
use self::notes::{Note, Work};
use self::script::{Answer, Call, Why, nano};
use self::turns::Turns;
use crate::clock::Clock;
use crate::local::{Local, Place};
use crate::rate::Pace;
use crate::reservation::{Reservation, Wish};
use crate::subject::Subject;
use crate::verdict::{Entered, RateState, Refusal, Refused, TokenState, leaves};

/// Settlements that wait for Redis at most.
pub(crate) const QUEUE: usize = 65_536;

/// What is needed to share limits over Redis.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// `redis://`, `rediss://` or `unix://`; it may hold a password.
    pub url: SecretString,
    /// Certificates (PEM) that a `rediss://` server's may be signed by, besides those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// What all keys in Redis begin with.
    pub prefix: String,
    /// How long a request waits for an answer.
    pub timeout: Duration,
    /// How long what a request has set aside stays so when nobody settles it. Longer than any request takes.
    pub lease: Duration,
    /// What happens to limits that are no budgets while Redis is away.
    pub when_away: WhenAway,
    /// How long a replica that is new waits for others to be heard of, when Redis remembers nothing.
    pub unknown_replicas: Duration,
}

impl RedisSettings {
    /// The defaults: `gw:`, 50 ms, 20 minutes, local counting.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            prefix: "gw:".to_owned(),
            timeout: Duration::from_millis(50),
            lease: Duration::from_secs(20 * 60),
            when_away: WhenAway::default(),
            unknown_replicas: Duration::from_secs(2),
        }
    }

    /// Whether the URL can be read at all. One that cannot is a Redis that is always away.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        Address::read(&self.url, self.ca_file.as_deref()).is_some()
    }
}

/// What happens to the limits of requests, tokens and requests at one time while Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// Each replica counts for itself, its part of the limit.
    #[default]
    Local,
    /// Who has such a limit is refused.
    Closed,
}

/// Redis does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Away {
    /// It was not asked.
    NotAsked,
    /// It may have done what it was asked.
    InDoubt,
}

/// The limiter over Redis.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Arc<Core>,
    tasks: [tokio::task::AbortHandle; 2],
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl Shared {
    /// `clock` is for tests: the scripts take it for Redis's.
    pub(crate) async fn start(settings: RedisSettings, clock: Option<Arc<dyn Clock>>) -> Self {
        let (core, notes) = Core::new(settings, clock);
        let core = Arc::new(core);
        // A moment of patience, so that the first requests do not find it away.
        let opened = tokio::time::timeout(Duration::from_secs(1), core.open()).await;
        if opened.is_err() {
            core.line.say_away("no answer");
        }
        let waits = opened.ok().flatten().unwrap_or_default();
        let keeper = Arc::clone(&core);
        let keeper = tokio::spawn(async move { keeper.keep().await });
        let deliverer = tokio::spawn(notes::deliver(Arc::clone(&core), notes));
        // Budgets would wait for replicas that this one has not heard of: better before the first request.
        tokio::time::sleep(waits).await;
        Self { core, tasks: [keeper.abort_handle(), deliverer.abort_handle()] }
    }

    /// Waits until everything is delivered that was settled so far, or for so long.
    pub(crate) async fn drain(&self, patience: Duration) {
        let _late = tokio::time::timeout(patience, self.core.delivered()).await;
    }

    /// Settlements that wait, and those that were lost.
    pub(crate) fn undelivered(&self) -> (usize, u64) {
        (self.core.undelivered.load(Ordering::Relaxed), self.core.lost.load(Ordering::Relaxed))
    }

    /// Requests that are held in Redis and not in the ledger yet, and how often Redis has lost its memory.
    pub(crate) fn held(&self) -> (usize, u64) {
        self.core.register.figures()
    }

    /// The rows of these requests are in the ledger.
    pub(crate) fn written(&self, request_ids: &mut dyn Iterator<Item = &str>) {
        request_ids.for_each(|id| self.core.register.written(id));
    }

    /// The name of Redis' memory, once it has been told everything.
    pub(crate) fn generations(&self) -> watch::Receiver<Arc<str>> {
        self.core.told.subscribe()
    }

    /// Whether nobody asks Redis now.
    pub(crate) fn is_away(&self) -> bool {
        self.core.line.link().is_none()
    }

    /// The first door.
    pub(crate) async fn enter(
        &self,
        local: &Local,
        request_id: &str,
        subjects: &[Arc<Subject>],
    ) -> Result<Entered, Box<Refused>> {
        let limited = |subject: &&Arc<Subject>| *subject.limits() != gw_store::Limits::default();
        let limited: Vec<Arc<Subject>> = subjects.iter().filter(limited).map(Arc::clone).collect();
        if limited.is_empty() {
            return Ok(Entered::default());
        }
        given::tell(&self.core, &limited).await.map_err(refused)?;
        let placed: Vec<_> = limited
            .iter()
            .filter(|subject| subject.limits().max_in_flight.is_some())
            .map(Arc::clone)
            .collect();
        let mut turns = Turns::begin();
        loop {
            let leave = Note::new(request_id, placed.clone(), Work::Leave);
            let mut owed = (!placed.is_empty()).then(|| Owed::new(&self.core, leave));
            let call =
                limited.iter().fold(self.core.call(request_id), |call, subject| self.about(call, subject));
            let answer = match self.core.ask(&self.core.scripts.enter, &call).await {
                Ok(answer) => answer,
                Err(away) => {
                    let entered = self.enter_away(local, &limited).await;
                    if entered.is_err() {
                        Owed::unless_asked(&mut owed, away);
                    } else if !placed.is_empty() {
                        let is_heard = away == Away::InDoubt;
                        self.core.register.place_away(request_id, &placed, is_heard);
                    }
                    return entered.map(|entered| Entered { owed, ..entered });
                }
            };
            let is_lost = answer.refused.is_none()
                && !placed.is_empty()
                && !self.core.register.place(request_id, call.generation(), &placed);
            if is_lost || answer.refused.is_some() {
                Owed::forget(&mut owed);
            }
            let again = self.again(local, &limited, &call, answer.refused, &mut turns);
            if is_lost || again.await.map_err(refused)? {
                continue;
            }
            let mut entered = Entered { owed, ..states(&answer, &limited) };
            if let Some(refusal) = refusal(&answer, &limited, 0) {
                return Err(Box::new(Refused { entered, refusal }));
            }
            for subject in &placed {
                entered.places.push(Place::noted(subject.state()));
            }
            return Ok(entered);
        }
    }

    /// The second door; with what is granted.
    pub(crate) async fn reserve(
        &self,
        local: &Local,
        request_id: &str,
        subjects: &[Arc<Subject>],
        wish: &Wish,
    ) -> Result<(Reservation, i128), Refusal> {
        let limited =
            |subject: &&Arc<Subject>| subject.limits().tpm.is_some() || subject.limits().budget.is_some();
        let (limited, free): (Vec<_>, Vec<_>) =
            subjects.iter().map(Arc::clone).partition(|one| limited(&one));
        let meanwhile = Meanwhile::new(&self.core, request_id, free);
        if limited.is_empty() {
            return Ok((Reservation { meanwhile, ..Reservation::default() }, wish.most));
        }
        given::tell(&self.core, &limited).await?;
        let (tokens, most, least) = (wish.tokens, nano(wish.most), nano(wish.least));
        let mut turns = Turns::begin();
        loop {
            // Of a lease of this or of that amount only Redis knows, until it answers.
            let aside = (most == least).then_some(most);
            let settle = Work::Settle { tokens, nano: aside, used: 0, spent: 0, epochs: String::new() };
            let mut owed = Some(Owed::new(&self.core, Note::new(request_id, limited.clone(), settle)));
            let call = self.core.call(request_id).arg(&tokens).arg(&most).arg(&least);
            let call = limited.iter().fold(call, |call, subject| self.about(call, subject));
            let answer = match self.core.ask(&self.core.scripts.reserve, &call).await {
                Ok(answer) => answer,
                Err(away) => {
                    Owed::unless_asked(&mut owed, away);
                    let (reserved, granted) = self.reserve_away(local, &limited, wish).await?;
                    // None of them has a budget.
                    let meanwhile = Meanwhile::new(&self.core, request_id, subjects.to_vec());
                    return Ok((Reservation { meanwhile, ..reserved }, granted));
                }
            };
            let aside = answer.detail().unwrap_or(most);
            let is_lost = answer.refused.is_none()
                && !self.core.register.hold(request_id, call.generation(), &limited, aside);
            if is_lost || answer.refused.is_some() {
                Owed::forget(&mut owed);
            }
            let again = self.again(local, &limited, &call, answer.refused, &mut turns);
            if is_lost || again.await? {
                continue;
            }
            if let Some(refusal) = refusal(&answer, &limited, tokens) {
                return Err(refusal);
            }
            let epochs: Vec<&str> = (0..limited.len()).map(|index| answer.field(index)).collect();
            if let Some(owed) = &mut owed {
                owed.of(&epochs.join(","), aside);
            }
            let granted = wish.most.min(i128::from(aside).saturating_mul(1_000_000));
            return Ok((Reservation { owed, meanwhile, ..Reservation::default() }, granted));
        }
    }

    /// Money spent by a process that is gone.
    pub(crate) fn charge(&self, request_id: &str, subjects: &[Arc<Subject>], cost: i128, begun: i64) {
        let limited: Vec<Arc<Subject>> =
            subjects.iter().filter(|subject| subject.limits().budget.is_some()).map(Arc::clone).collect();
        if !limited.is_empty() {
            let work =
                Work::Settle { tokens: 0, nano: None, used: 0, spent: nano(cost), epochs: String::new() };
            Owed::new(&self.core, Note::new(request_id, limited, work)).begun_at(begun);
        }
    }

    fn about(&self, call: Call, subject: &Subject) -> Call {
        call.subject(&self.core.settings.prefix, subject)
    }

    async fn enter_away(&self, local: &Local, subjects: &[Arc<Subject>]) -> Result<Entered, Box<Refused>> {
        self.may_go_on(subjects).map_err(refused)?;
        local.enter(subjects, self.core.share()).await
    }

    async fn reserve_away(
        &self,
        local: &Local,
        subjects: &[Arc<Subject>],
        wish: &Wish,
    ) -> Result<(Reservation, i128), Refusal> {
        self.may_go_on(subjects)?;
        local.reserve(subjects, wish, self.core.share()).await
    }

    /// Whether these may be served while Redis is away.
    fn may_go_on(&self, subjects: &[Arc<Subject>]) -> Result<(), Refusal> {
        let closed = self.core.settings.when_away == WhenAway::Closed;
        if closed || subjects.iter().any(|subject| subject.limits().budget.is_some()) {
            return Err(Refusal::StoreAway);
        }
        Ok(())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

fn refused(refusal: Refusal) -> Box<Refused> {
    Box::new(Refused { entered: Entered::default(), refusal })
}

/// The limits as they stand after `enter`.
fn states(answer: &Answer, subjects: &[Arc<Subject>]) -> Entered {
    let mut entered = Entered::default();
    for (index, subject) in subjects.iter().enumerate() {
        let limits = subject.limits();
        if let Some((seen, _)) = requests(answer, index, limits) {
            entered.see_requests(seen);
        }
        if let (Some(limit), Some(next)) = (limits.tpm, answer.next(2 * index + 1)) {
            entered.see_tokens(TokenState::new(limit, next, answer.now));
        }
    }
    entered
}

/// How a subject's requests per minute stand, and how long to wait if there is none, if the script looked.
fn requests(answer: &Answer, index: usize, limits: &gw_store::Limits) -> Option<(RateState, Duration)> {
    let (limit, now) = (limits.rpm?, answer.now);
    let Some(burst) = limits.burst else {
        let past = answer.past(2 * index)?;
        return Some((RateState::of_minute(limit, past, now), leaves(past.oldest, now)));
    };
    let next = answer.next(2 * index)?;
    let wait = Pace::with_burst(limit.into(), burst.into()).wait(next, now, 1);
    Some((RateState::new(limit, burst, next, now), wait))
}

/// Why a script refuses, in our words.
fn refusal(answer: &Answer, subjects: &[Arc<Subject>], wanted: u64) -> Option<Refusal> {
    let (number, why) = answer.refused?;
    let Some(subject) = subjects.get(number) else { return Some(Refusal::StoreAway) };
    let (whose, limits) = (subject.whose(), subject.limits());
    Some(match why {
        Why::Requests => {
            let retry_after = requests(answer, number, limits).map(|(_, wait)| wait).unwrap_or_default();
            Refusal::Requests { whose, limit: limits.rpm.unwrap_or_default(), retry_after }
        }
        Why::Flight => Refusal::InFlight { whose, limit: limits.max_in_flight.unwrap_or_default() },
        Why::Budget(seconds) => Refusal::Budget { whose, resets_in: seconds.map(Duration::from_secs) },
        Why::Tokens(next) => {
            let limit = limits.tpm.unwrap_or_default();
            let retry_after = Some(Pace::new(limit).wait(next, answer.now, wanted));
            Refusal::Tokens { whose, limit, wanted, retry_after }
        }
        Why::Never => {
            Refusal::Tokens { whose, limit: limits.tpm.unwrap_or_default(), wanted, retry_after: None }
        }
        Why::Unknown(_) | Why::Rebuilding | Why::Generation => Refusal::StoreAway,
    })
}

#[cfg(test)]
mod tests;
