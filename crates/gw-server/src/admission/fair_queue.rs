//! The waiting requests of a worker: a queue for each key, served in turn by CPU time.
//!
//! This is a deficit round robin. In its turn a key gets [`QUANTUM`] of CPU time, and each of its requests that starts takes
//! the mean cost of the key's requests from it. A key that took more waits for as many turns as the rest needs.

use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{METERED_SHARE, nanos};

/// The CPU time of a key in one turn, in nanoseconds.
const QUANTUM: i64 = 1_000_000;
/// The cost of a request of a key that is not known, in nanoseconds.
const FIRST_COST: u64 = 100_000;
/// The CPU time of a request that no meter sees: its head, its key, and the writing of its answer.
const UNMETERED_COST: u64 = 30_000;
/// The highest cost of a request, so that a key never waits for too many turns.
const MAX_COST: u64 = 50_000_000;
/// The most requests that one turn starts.
const MAX_STARTS: usize = 64;
/// The most keys whose costs and debts are remembered. Beyond it, the key whose turn was longest ago is forgotten.
const MAX_REMEMBERED: usize = 1_024;

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Started { is_metered: bool },
    Refused,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    since: Instant,
    verdict: oneshot::Sender<Verdict>,
}

impl WaitingRequest {
    pub(super) fn decide(self, verdict: Verdict) {
        // A client that has left needs none.
        let _ = self.verdict.send(verdict);
    }
}

/// Whether a request waits for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not started.
    New,
    /// It has started before, and goes on. It is never refused.
    Continued,
}

/// The waiting requests of one key.
#[derive(Debug)]
struct KeyQueue {
    /// Requests that have started before, in their order.
    continued: BTreeMap<u64, WaitingRequest>,
    /// New requests, in their order.
    new: BTreeMap<u64, WaitingRequest>,
    /// The CPU time that the key may still use in its turn, in nanoseconds.
    credit: i64,
    /// The number of its requests that have started from a queue.
    started: u32,
}

impl KeyQueue {
    fn pop(&mut self) -> Option<WaitingRequest> {
        self.continued.pop_first().or_else(|| self.new.pop_first()).map(|(_, request)| request)
    }

    fn is_empty(&self) -> bool {
        self.continued.is_empty() && self.new.is_empty()
    }

    /// The time at which the oldest new request began to wait.
    fn oldest_new(&self) -> Option<Instant> {
        self.new.first_key_value().map(|(_, request)| request.since)
    }

    /// The time at which the oldest request that goes on began to wait.
    fn oldest_continued(&self) -> Option<Instant> {
        self.continued.first_key_value().map(|(_, request)| request.since)
    }
}

/// The facts about a key that outlast its queue.
#[derive(Debug)]
struct KeyMemory {
    /// The mean CPU time of its requests, in nanoseconds.
    cost: u64,
    /// The CPU time that the key used beyond its credit, and the turn in which the key used it.
    debt: i64,
    turn: u64,
    /// The number of its requests that have started from a queue.
    started: u32,
}

/// The waiting requests of all keys.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    keys: HashMap<Arc<str>, KeyQueue>,
    /// The keys with waiting requests, in the order of their turns.
    ring: VecDeque<Arc<str>>,
    memory: HashMap<Arc<str>, KeyMemory>,
    next_id: u64,
    len: usize,
    /// The number of turns of keys that have ended.
    turns: u64,
}

impl FairQueue {
    /// The number of waiting requests.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a request. One that goes on is before the new ones of its key.
    pub(super) fn push(
        &mut self,
        key: &Arc<str>,
        stage: Stage,
        since: Instant,
    ) -> (u64, oneshot::Receiver<Verdict>) {
        let (verdict, receiver) = oneshot::channel();
        let id = self.next_id;
        self.next_id += 1;
        self.len += 1;
        if !self.keys.contains_key(key) {
            let credit = self.first_credit(key);
            let started = self.memory.get(key).map_or(0, |memory| memory.started);
            let queue = KeyQueue { continued: BTreeMap::new(), new: BTreeMap::new(), credit, started };
            self.keys.insert(Arc::clone(key), queue);
            self.ring.push_back(Arc::clone(key));
        }
        if let Some(queue) = self.keys.get_mut(key) {
            let requests = match stage {
                Stage::New => &mut queue.new,
                Stage::Continued => &mut queue.continued,
            };
            requests.insert(id, WaitingRequest { since, verdict });
        }
        (id, receiver)
    }

    /// The credit of a key that begins to wait: a debt is forgiven by a quantum in each round that has passed.
    fn first_credit(&self, key: &Arc<str>) -> i64 {
        let Some(memory) = self.memory.get(key) else { return QUANTUM };
        let keys = u64::try_from(self.ring.len()).unwrap_or(u64::MAX).max(1);
        let rounds = i64::try_from(self.turns.saturating_sub(memory.turn) / keys + 1).unwrap_or(i64::MAX);
        rounds.saturating_mul(QUANTUM).saturating_sub(memory.debt).min(QUANTUM)
    }

    /// Removes a request if it is still here.
    pub(super) fn remove(&mut self, key: &Arc<str>, id: u64) {
        let Some(queue) = self.keys.get_mut(key) else { return };
        if queue.new.remove(&id).or_else(|| queue.continued.remove(&id)).is_some() {
            self.len -= 1;
            self.forget_if_empty(key);
        }
    }

    /// Starts requests that take this much CPU time together, the keys in turn. Returns their number.
    pub(super) fn start(&mut self, time: Duration) -> usize {
        let (mut left, mut count) = (nanos(time), 0);
        while left > 0 && count < MAX_STARTS {
            let Some(key) = self.ring.front().map(Arc::clone) else { break };
            let cost = self.cost(&key);
            let Some(queue) = self.keys.get_mut(&key) else { break };
            if queue.credit <= 0 {
                queue.credit = queue.credit.saturating_add(QUANTUM);
            }
            if queue.credit <= 0 {
                self.end_turn();
                continue;
            }
            queue.credit -= i64::try_from(cost).unwrap_or(QUANTUM);
            let is_over = queue.credit <= 0;
            let Some(request) = queue.pop() else { break };
            self.len -= 1;
            count += 1;
            left = left.saturating_sub(cost);
            // The first request of a key is measured, so that its cost is known soon.
            request.decide(Verdict::Started { is_metered: queue.started.is_multiple_of(METERED_SHARE) });
            queue.started = queue.started.wrapping_add(1);
            if is_over {
                self.end_turn();
            }
            self.forget_if_empty(&key);
        }
        count
    }

    /// The turn goes to the next key.
    fn end_turn(&mut self) {
        self.ring.rotate_left(usize::from(!self.ring.is_empty()));
        self.turns += 1;
    }

    /// Forgets a key without requests, except its cost and its debt.
    fn forget_if_empty(&mut self, key: &Arc<str>) {
        if !self.keys.get(key).is_some_and(KeyQueue::is_empty) {
            return;
        }
        let Some(KeyQueue { credit, started, .. }) = self.keys.remove(key) else { return };
        // The key of the request that has just started is the first or, after its turn, the last one.
        if self.ring.back() == Some(key) {
            self.ring.pop_back();
        } else if self.ring.front() == Some(key) {
            self.ring.pop_front();
        } else {
            self.ring.retain(|other| other != key);
        }
        let turn = self.turns;
        let memory = self.remembered(key);
        (memory.debt, memory.turn, memory.started) = (QUANTUM - credit, turn, started);
    }

    fn remembered(&mut self, key: &Arc<str>) -> &mut KeyMemory {
        if self.memory.len() >= MAX_REMEMBERED && !self.memory.contains_key(key) {
            // Of all debts, the oldest one is nearest to its end.
            let oldest = self.memory.iter().min_by_key(|(_, memory)| memory.turn);
            if let Some(oldest) = oldest.map(|(key, _)| Arc::clone(key)) {
                self.memory.remove(&oldest);
            }
        }
        let first = KeyMemory { cost: FIRST_COST, debt: 0, turn: self.turns, started: 0 };
        self.memory.entry(Arc::clone(key)).or_insert(first)
    }

    fn cost(&self, key: &Arc<str>) -> u64 {
        self.memory.get(key).map_or(FIRST_COST, |memory| memory.cost)
    }

    /// Notes the measured CPU time of a request.
    pub(super) fn learn(&mut self, key: &Arc<str>, cpu: Duration) {
        let memory = self.remembered(key);
        memory.cost = (memory.cost * 3 + cost_of(cpu)) / 4;
    }

    /// Notes that a request has used this much CPU time and has not ended. It may make the key's cost higher, but not lower.
    pub(super) fn learn_at_least(&mut self, key: &Arc<str>, cpu: Duration) {
        if cost_of(cpu) > self.cost(key) {
            self.learn(key, cpu);
        }
    }

    /// The time at which the oldest request that may be refused began to wait.
    pub(super) fn oldest_new(&self) -> Option<Instant> {
        self.keys.values().filter_map(KeyQueue::oldest_new).min()
    }

    /// The time at which the oldest request began to wait.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let continued = self.keys.values().filter_map(KeyQueue::oldest_continued).min();
        continued.into_iter().chain(self.oldest_new()).min()
    }

    /// Takes up to `most` requests that wait since before `time`: of the keys that have one, the key with most waiting
    /// requests first.
    pub(super) fn take_older(&mut self, time: Instant, most: usize) -> Vec<WaitingRequest> {
        let is_old = |queue: &KeyQueue| queue.oldest_new().is_some_and(|since| since < time);
        self.take_of_largest(most, is_old, |queue| queue.new.pop_first())
    }

    /// Takes up to `most` of the requests beyond this number of them: the newest of the key with most waiting requests.
    pub(super) fn take_beyond(&mut self, number: usize, most: usize) -> Vec<WaitingRequest> {
        let most = most.min(self.len.saturating_sub(number));
        if most == 0 {
            return Vec::new();
        }
        self.take_of_largest(most, |queue| !queue.new.is_empty(), |queue| queue.new.pop_last())
    }

    /// Takes up to `most` new requests of the keys that `is_due` names, each from the key with most of them.
    fn take_of_largest(
        &mut self,
        most: usize,
        is_due: impl Fn(&KeyQueue) -> bool,
        pop: impl Fn(&mut KeyQueue) -> Option<(u64, WaitingRequest)>,
    ) -> Vec<WaitingRequest> {
        let due = self.keys.iter().filter(|(_, queue)| is_due(queue));
        let mut largest: BinaryHeap<(usize, Arc<str>)> =
            due.map(|(key, queue)| (queue.new.len(), Arc::clone(key))).collect();
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some((_, key)) = largest.pop() else { break };
            let Some(queue) = self.keys.get_mut(&key) else { break };
            let Some((_, request)) = pop(queue) else { break };
            taken.push(request);
            self.len -= 1;
            if is_due(queue) {
                largest.push((queue.new.len(), key));
            } else {
                self.forget_if_empty(&key);
            }
        }
        taken
    }
}

/// The cost of a request whose meter shows this CPU time.
fn cost_of(cpu: Duration) -> u64 {
    nanos(cpu).saturating_add(UNMETERED_COST).min(MAX_COST)
}

#[cfg(test)]
mod tests;
