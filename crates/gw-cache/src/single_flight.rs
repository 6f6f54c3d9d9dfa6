//! Single-flight: identical requests that run at the same time share one upstream call.
//!
//! The first request for a key leads the flight. It gets a [`Leader`], which it gives to a task of its own together
//! with the work, and a [`Follower`] like every other request. The client of the first request may therefore disconnect
//! without harm to the others. When the last follower has left, the work is dropped, and the upstream call with it. A
//! flight that has ended accepts no followers.
//!
//! **Late followers** read from the beginning. A flight keeps a log of its chunks. Each follower reads it at its own
//! pace and then goes on with the live chunks. The end always follows the last chunk: [`End::Complete`] or a failure. A
//! follower may also wait for the end alone.
//!
//! **Memory of a flight** is bounded. When a log exceeds [`FlightBounds::max_log_bytes`], the flight accepts no more
//! readers of chunks, and drops chunks that all readers have read. The next request that wants chunks leads a flight of
//! its own. A follower that keeps the log above the bound ends with [`End::TooSlow`], so that a client that stopped
//! reading does not stop the others. In turn the work waits ([`Publisher::wait_for_room`]) while the fastest follower
//! is [`FlightBounds::max_ahead_bytes`] behind. A client alone is thus read for at its own speed, as without a cache.
//!
//! **Memory of all flights** is bounded too. Beyond [`FlightBounds::max_total_bytes`] a growing flight accepts no more
//! readers, and the work does not run ahead. Requests then cost as much as without sharing. Beyond twice that bound,
//! followers that are more than [`FlightBounds::max_ahead_bytes`] behind end with [`End::TooSlow`].
//!
//! **A second call** is avoided although a flight may end between a request's lookup in the cache and its
//! [`SingleFlight::join`]: the work stores its answer before it returns, and a leader looks it up once more before it
//! calls an upstream.

mod chunk_log;
pub(crate) mod delivery;
mod flight_state;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;

use self::delivery::{End, FlightBounds, Next, Wants};
use self::flight_state::FlightState;
use crate::key::Key;

/// The number of maps of flights. Each has its own lock.
const SHARDS: usize = 16;

/// The role of a request in a flight.
#[derive(Debug)]
pub enum Role<T, E> {
    /// The first request, which has to start the work. It also follows the flight.
    Leader(Leader<T, E>, Follower<T, E>),
    /// A request that joined while the work was running.
    Follower(Follower<T, E>),
}

/// All flights by key. `T` is the answer, `E` the error of the work.
#[derive(Debug)]
pub struct SingleFlight<T, E> {
    shared: Arc<Shared<T, E>>,
}

/// The flights that accept followers.
type Shard<T, E> = Mutex<HashMap<Key, Arc<Flight<T, E>>>>;

#[derive(Debug)]
struct Shared<T, E> {
    shards: [Shard<T, E>; SHARDS],
    bounds: FlightBounds,
    /// The bytes that the logs of all flights hold.
    held_bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Flight<T, E> {
    key: Key,
    shared: Arc<Shared<T, E>>,
    state: Mutex<FlightState<T, E>>,
    /// The model that answers and its provider, as soon as the work knows them.
    source: OnceLock<AnswerSource>,
}

/// The catalogue id of the model that answers, and its provider.
pub type AnswerSource = [Arc<str>; 2];

impl<T, E> Shared<T, E> {
    fn shard(&self, key: &Key) -> Option<&Shard<T, E>> {
        self.shards.get(usize::from(key.bytes().first().copied().unwrap_or(0)) % SHARDS)
    }
}

impl<T, E> Flight<T, E> {
    /// Removes the flight from its map, so that no request finds it any longer.
    fn unlist(self: &Arc<Self>) {
        let Some(shard) = self.shared.shard(&self.key) else { return };
        if let Entry::Occupied(entry) = shard.lock().entry(self.key)
            && Arc::ptr_eq(entry.get(), self)
        {
            entry.remove();
        }
    }

    fn finish(self: &Arc<Self>, end: End<T, E>) {
        let wakers = self.state.lock().finish(end, &self.shared.bounds);
        // Before the wakers: a follower that asks again must not find this flight.
        self.unlist();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }
}

impl<T: Clone, E: Clone> Default for SingleFlight<T, E> {
    fn default() -> Self {
        Self::new(FlightBounds::default())
    }
}

impl<T: Clone, E: Clone> SingleFlight<T, E> {
    /// No flights yet.
    #[must_use]
    pub fn new(bounds: FlightBounds) -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(HashMap::new()));
        Self { shared: Arc::new(Shared { shards, bounds, held_bytes: Arc::default() }) }
    }

    /// The bounds of the memory.
    #[must_use]
    pub fn bounds(&self) -> FlightBounds {
        self.shared.bounds
    }

    /// The bytes that all flights hold.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.shared.held_bytes.load(Ordering::Relaxed)
    }

    fn new_flight(&self, key: Key) -> Arc<Flight<T, E>> {
        let state = Mutex::new(FlightState::new(Arc::clone(&self.shared.held_bytes)));
        Arc::new(Flight { key, shared: Arc::clone(&self.shared), state, source: OnceLock::new() })
    }

    /// Starts a flight that no other request can join. Chunks are dropped as soon as they are read.
    #[must_use]
    pub fn lead_alone(&self, key: Key, wants: Wants) -> Role<T, E> {
        let flight = self.new_flight(key);
        let role = Self::lead(Arc::clone(&flight), wants);
        flight.state.lock().close_to_readers();
        role
    }

    /// Joins the flight of a key, or starts it.
    #[must_use]
    pub fn join(&self, key: Key, wants: Wants) -> Role<T, E> {
        let Some(shard) = self.shared.shard(&key) else {
            return Self::lead(self.new_flight(key), wants);
        };
        let mut shard = shard.lock();
        if let Some(flight) = shard.get(&key) {
            let flight = Arc::clone(flight);
            let joined = flight.state.lock().join(wants);
            if let Some(slot) = joined {
                return Role::Follower(Follower { flight, slot, is_leader: false });
            }
        }
        let flight = self.new_flight(key);
        // The first follower joins before the flight is listed. Otherwise another one could come and go in between,
        // which would end it.
        let role = Self::lead(Arc::clone(&flight), wants);
        shard.insert(key, flight);
        role
    }

    fn lead(flight: Arc<Flight<T, E>>, wants: Wants) -> Role<T, E> {
        // A new flight accepts every follower, in slot 0.
        let slot = flight.state.lock().join(wants).unwrap_or_default();
        let follower = Follower { flight: Arc::clone(&flight), slot, is_leader: true };
        Role::Leader(Leader { flight }, follower)
    }

    /// The number of flights that accept followers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether no flight accepts followers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The duty to do the work of a flight. If it is dropped, the followers get [`End::WorkLost`].
#[derive(Debug)]
#[must_use = "the followers wait for the work"]
pub struct Leader<T, E> {
    flight: Arc<Flight<T, E>>,
}

impl<T: Clone, E: Clone> Leader<T, E> {
    /// Does the work. Run it in a task that outlives the first request. When the last follower has left, `patience`
    /// starts, and when it ends, the work is dropped. Destructors of the work do what has to happen then.
    pub async fn drive<F>(self, patience: impl Future<Output = ()>, work: impl FnOnce(Publisher<T, E>) -> F)
    where
        F: Future<Output = Result<T, E>>,
    {
        let publisher = Publisher { flight: Arc::clone(&self.flight) };
        let given_up = async {
            poll_fn(|context| self.flight.state.lock().poll_abandoned(context)).await;
            patience.await;
        };
        tokio::select! {
            biased;
            () = given_up => {}
            result = work(publisher) => self.flight.finish(result.map_or_else(End::Failed, End::Complete)),
        }
    }
}

impl<T, E> Drop for Leader<T, E> {
    fn drop(&mut self) {
        // Has no effect on a flight that has ended.
        self.flight.finish(End::WorkLost);
    }
}

/// The work's access to its flight.
#[derive(Clone, Debug)]
pub struct Publisher<T, E> {
    flight: Arc<Flight<T, E>>,
}

impl<T: Clone, E: Clone> Publisher<T, E> {
    /// Appends a chunk for all followers, later ones included.
    pub fn publish(&self, chunk: Bytes) {
        let wakers = self.flight.state.lock().publish(chunk, &self.flight.shared.bounds);
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Tells all followers who answers. Call it before the first chunk. The first call counts.
    pub fn name_source(&self, source: AnswerSource) {
        let _ = self.flight.source.set(source);
    }

    /// Waits while the fastest follower is too far behind.
    pub async fn wait_for_room(&self) {
        let bounds = &self.flight.shared.bounds;
        poll_fn(|context| self.flight.state.lock().poll_room(context, bounds)).await;
    }
}

/// A request that waits for the answer of a flight. Dropping it leaves the flight.
#[derive(Debug)]
pub struct Follower<T, E> {
    flight: Arc<Flight<T, E>>,
    slot: usize,
    is_leader: bool,
}

impl<T: Clone, E: Clone> Follower<T, E> {
    /// Whether the flight began with this request, which pays for the call.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// The model that answers and its provider. None: the work has not named them yet.
    #[must_use]
    pub fn source(&self) -> Option<&AnswerSource> {
        self.flight.source.get()
    }

    /// The next chunk, or the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next<T, E>> {
        let (next, publisher) = self.flight.state.lock().poll_next(self.slot, context);
        if let Some(publisher) = publisher {
            publisher.wake();
        }
        next
    }

    /// The next chunk, or the end.
    pub async fn next(&mut self) -> Next<T, E> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Waits for the end and skips all chunks.
    pub async fn wait_for_end(&mut self) -> End<T, E> {
        loop {
            if let Next::End(end) = self.next().await {
                return end;
            }
        }
    }
}

impl<T, E> Drop for Follower<T, E> {
    fn drop(&mut self) {
        let departure = self.flight.state.lock().leave(self.slot);
        if departure.is_abandoned {
            self.flight.unlist();
        }
        departure.wakers.into_iter().flatten().for_each(std::task::Waker::wake);
    }
}

#[cfg(test)]
mod tests;
