//! Sessions that replicas share: the counters of `enter_session.lua`, and the costs that Redis does not know yet.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::amount::{FEMTOS_OF_NANO, nano_usd};
use super::answer::Answer;
use super::replica::Replica;
use super::script_call::ScriptCall;
use crate::session::{
    MAX_RECENT_CALLS, MAX_SESSIONS, MAX_SESSIONS_OF_KEY, SESSION_TTL, SessionId, SessionLimit,
    SessionRequest, SessionTable, SessionUse,
};

/// The longest wait for a cost to reach Redis, after which it counts in this process only.
const CHARGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Costs in nano-USD that Redis does not know yet, by session. The next request of a session carries its cost along, and a
/// background task delivers the others.
#[derive(Debug, Default)]
pub(crate) struct UndeliveredCosts {
    nano: Mutex<HashMap<SessionId, u64>>,
    added: Notify,
}

impl UndeliveredCosts {
    /// Adds a cost. False if too many sessions wait.
    pub(crate) fn add(&self, id: &SessionId, cost_femtos: i128) -> bool {
        let mut waiting = self.nano.lock();
        if waiting.len() >= MAX_SESSIONS && !waiting.contains_key(id) {
            return false;
        }
        let nano = waiting.entry(id.clone()).or_default();
        *nano = nano.saturating_add(nano_usd(cost_femtos));
        self.added.notify_one();
        true
    }

    fn take(&self, id: &SessionId) -> u64 {
        self.nano.lock().remove(id).unwrap_or_default()
    }

    fn of(&self, id: &SessionId) -> u64 {
        self.nano.lock().get(id).copied().unwrap_or_default()
    }

    fn take_one(&self) -> Option<(SessionId, u64)> {
        let mut waiting = self.nano.lock();
        let id = waiting.keys().next()?.clone();
        waiting.remove_entry(&id)
    }
}

impl Replica {
    /// Counts a request in Redis. None if Redis does not answer.
    pub(crate) async fn enter_session(
        &self,
        request: &SessionRequest<'_>,
        costs: &UndeliveredCosts,
        local: &SessionTable,
    ) -> Option<Result<SessionUse, SessionLimit>> {
        let undelivered = costs.take(request.id);
        let call = self.enter_call(request, undelivered, true);
        match self.ask(&self.scripts.enter_session, &call).await {
            Ok(answer) => parse(&answer),
            Err(_) => {
                local.charge(request.id, i128::from(undelivered).saturating_mul(FEMTOS_OF_NANO));
                None
            }
        }
    }

    /// As [`Replica::enter_session`], but counts nothing.
    pub(crate) async fn look_at_session(
        &self,
        request: &SessionRequest<'_>,
        costs: &UndeliveredCosts,
    ) -> Option<Result<SessionUse, SessionLimit>> {
        let call = self.enter_call(request, costs.of(request.id), false);
        let answer = self.ask(&self.scripts.enter_session, &call).await;
        answer.ok().and_then(|answer| parse(&answer))
    }

    fn enter_call(&self, request: &SessionRequest<'_>, undelivered: u64, counts: bool) -> ScriptCall {
        let key_id = &request.id.key_id;
        let index = format!("{}sessions:{}:{key_id}", self.settings.prefix, key_id.len());
        let call = enter_call(self.session_call(request.id).key(index), request, undelivered);
        call.arg(if counts { "1" } else { "" })
    }

    fn session_call(&self, id: &SessionId) -> ScriptCall {
        let SessionId { key_id, name } = id;
        let key = format!("{}session:{}:{key_id}:{name}", self.settings.prefix, key_id.len());
        self.call_in_any_generation("").key(key)
    }

    /// Delivers the costs that wait now. Those that Redis does not take count in this process.
    pub(crate) async fn deliver_session_costs(&self, costs: &UndeliveredCosts, local: &SessionTable) {
        while let Some((id, nano)) = costs.take_one() {
            let call = self.session_call(&id).arg(&nano);
            let asking = self.ask(&self.scripts.charge_session, &call);
            if !matches!(tokio::time::timeout(CHARGE_TIMEOUT, asking).await, Ok(Ok(_))) {
                local.charge(&id, i128::from(nano).saturating_mul(FEMTOS_OF_NANO));
            }
        }
    }
}

/// Delivers costs until the task is aborted.
pub(crate) async fn deliver(replica: Arc<Replica>, costs: Arc<UndeliveredCosts>, local: Arc<SessionTable>) {
    loop {
        costs.added.notified().await;
        replica.deliver_session_costs(&costs, &local).await;
    }
}

fn enter_call(call: ScriptCall, request: &SessionRequest<'_>, undelivered: u64) -> ScriptCall {
    let stop = &request.stop;
    let limit = |value: Option<u128>| value.map(|value| value.to_string()).unwrap_or_default();
    let newest = request.newest_calls.iter().fold(String::new(), |mut digits, call| {
        let _ = write!(digits, "{:016x}{:016x}", call.occurrence, call.call);
        digits
    });
    call.arg(&limit(stop.max_calls.map(u128::from)))
        .arg(&limit(stop.max_cost_femtos.map(nano_usd).map(u128::from)))
        .arg(&limit(stop.max_age.map(|age| age.as_micros())))
        .arg(&limit(stop.max_repeats.map(u128::from)))
        .arg(&request.equal_calls)
        .arg(&undelivered)
        .arg(&SESSION_TTL.as_millis())
        .arg(&MAX_RECENT_CALLS)
        .arg(&newest)
        .arg(&MAX_SESSIONS_OF_KEY)
}

fn parse(answer: &Answer) -> Option<Result<SessionUse, SessionLimit>> {
    let number = |index: usize| answer.field(index).parse::<u64>().ok();
    let used = SessionUse {
        calls: number(1)?,
        cost_femtos: i128::from(number(2)?).saturating_mul(FEMTOS_OF_NANO),
        age: Duration::from_micros(number(3)?),
        repeats: u32::try_from(number(4)?).unwrap_or(u32::MAX),
    };
    Some(match answer.field(0) {
        "" => Ok(used),
        "calls" => Err(SessionLimit::Calls),
        "cost" => Err(SessionLimit::Cost),
        "age" => Err(SessionLimit::Age),
        _ => Err(SessionLimit::Repeats),
    })
}
