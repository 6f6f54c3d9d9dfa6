//! Identical requests in flight share one upstream call.
//!
//! The first to ask for a key leads: it gets a [`Lead`], which it gives to a task of its own together with the work, and a
//! [`Follower`] like everybody else's. So whoever asked first may go away: the work belongs to the flight, and it is dropped,
//! and with it the upstream call, when the last follower has gone. A flight that is over takes nobody any more.
//!
//! **What was already sent** is a log of pieces. A follower reads it from its beginning, at its own pace, and then along with
//! the work; behind the last piece comes the end, [`End::Complete`] or a failure, never nothing. Who wants no pieces waits for the
//! end alone.
//!
//! **Memory.** A log that has grown beyond [`Bounds::log`] takes no more readers, the next who wants pieces leads a flight of its
//! own, and forgets what all have read. Who is so far behind that the log still exceeds the bound is left behind ([`End::TooSlow`]):
//! a client that stopped reading must not stop the others, and nothing goes on for it. The work in turn waits ([`Pieces::room`])
//! while the fastest reader is [`Bounds::ahead`] behind: a client alone is read for as fast as it reads, as without a cache.
//!
//! All logs together have a bound, too ([`Bounds::all`]). Beyond it each that grows takes no more readers and nothing is read
//! ahead; nobody is worse off than without sharing. Beyond twice that, who is more than [`Bounds::ahead`] behind is left behind.
//!
//! **No second call.** Between a look into the cache that found nothing and [`Flights::join`] another flight may have ended. A
//! leader therefore looks once more before it calls, and the work stores its answer before it returns it.

mod log;
mod tape;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;

use self::log::Log;
use crate::key::Key;

/// The map is locked in parts.
const PARTS: usize = 16;

/// What flights may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of pieces that a flight keeps for those who have not read them.
    pub log: usize,
    /// Bytes that the work may be ahead of the fastest reader. Less than half of `log`.
    pub ahead: usize,
    /// Bytes that all flights keep together before they begin to keep less; twice as many are the most.
    pub all: usize,
}

impl Default for Bounds {
    /// 4 MiB, of which 256 KiB ahead, and 64 MiB together.
    fn default() -> Self {
        Self { log: 4 << 20, ahead: 256 << 10, all: 64 << 20 }
    }
}

/// How a flight ended, for one follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<T, E> {
    /// The answer is complete.
    Complete(T),
    /// The work failed; for who read pieces, in the middle of them.
    Failed(E),
    /// The work was dropped before its end: the process ends, or it panicked.
    Gone,
    /// This follower read too slowly.
    TooSlow,
}

/// What a follower is given next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<T, E> {
    /// A piece.
    Piece(Bytes),
    /// The end. It comes again when it is asked for again.
    End(End<T, E>),
}

/// What a participant wants of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The pieces as they come, and the end.
    Pieces,
    /// The end alone.
    End,
}

/// Whether one is the first.
#[derive(Debug)]
pub enum Role<T, E> {
    /// The first: to see to it that the work is done, and to follow it.
    Leader(Lead<T, E>, Follower<T, E>),
    /// Not the first: the work is under way.
    Follower(Follower<T, E>),
}

/// All flights, by key.
#[derive(Debug)]
pub struct Flights<T, E> {
    home: Arc<Home<T, E>>,
}

/// Flights that take followers.
type Part<T, E> = Mutex<HashMap<Key, Arc<Flight<T, E>>>>;

#[derive(Debug)]
struct Home<T, E> {
    parts: [Part<T, E>; PARTS],
    bounds: Bounds,
    /// Bytes that the logs of all flights hold.
    held: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Flight<T, E> {
    key: Key,
    home: Arc<Home<T, E>>,
    log: Mutex<Log<T, E>>,
}

impl<T, E> Home<T, E> {
    fn part(&self, key: &Key) -> Option<&Part<T, E>> {
        self.parts.get(usize::from(key.bytes().first().copied().unwrap_or(0)) % PARTS)
    }
}

impl<T, E> Flight<T, E> {
    /// It takes nobody any more.
    fn leave_the_map(self: &Arc<Self>) {
        let Some(part) = self.home.part(&self.key) else { return };
        if let Entry::Occupied(entry) = part.lock().entry(self.key)
            && Arc::ptr_eq(entry.get(), self)
        {
            entry.remove();
        }
    }

    fn end(self: &Arc<Self>, end: End<T, E>) {
        let wakers = self.log.lock().end(end, &self.home.bounds);
        // First: who is woken and asks again must find what comes after this flight.
        self.leave_the_map();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }
}

impl<T: Clone, E: Clone> Default for Flights<T, E> {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl<T: Clone, E: Clone> Flights<T, E> {
    /// None yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let parts = std::array::from_fn(|_| Mutex::new(HashMap::new()));
        Self { home: Arc::new(Home { parts, bounds, held: Arc::default() }) }
    }

    /// What they may hold.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.home.bounds
    }

    /// Bytes that they hold.
    #[must_use]
    pub fn held(&self) -> usize {
        self.home.held.load(Ordering::Relaxed)
    }

    fn begin(&self, key: Key) -> Arc<Flight<T, E>> {
        let log = Mutex::new(Log::new(Arc::clone(&self.home.held)));
        Arc::new(Flight { key, home: Arc::clone(&self.home), log })
    }

    /// Begins a flight that nobody else joins. Nothing is kept for others.
    #[must_use]
    pub fn alone(&self, key: Key, wants: Wants) -> Role<T, E> {
        let flight = self.begin(key);
        let role = Self::lead(Arc::clone(&flight), wants);
        flight.log.lock().close();
        role
    }

    /// Joins the flight of a key, or begins it.
    #[must_use]
    pub fn join(&self, key: Key, wants: Wants) -> Role<T, E> {
        let Some(part) = self.home.part(&key) else {
            return Self::lead(self.begin(key), wants);
        };
        let mut part = part.lock();
        if let Some(flight) = part.get(&key) {
            let flight = Arc::clone(flight);
            let joined = flight.log.lock().join(wants);
            if let Some(place) = joined {
                return Role::Follower(Follower { flight, place, is_leader: false });
            }
        }
        let flight = self.begin(key);
        // It has its first participant before anybody else can see it: one who came and went in between would end it.
        let role = Self::lead(Arc::clone(&flight), wants);
        part.insert(key, flight);
        role
    }

    fn lead(flight: Arc<Flight<T, E>>, wants: Wants) -> Role<T, E> {
        // A new log takes everybody; the place is the first.
        let place = flight.log.lock().join(wants).unwrap_or_default();
        let follower = Follower { flight: Arc::clone(&flight), place, is_leader: true };
        Role::Leader(Lead { flight }, follower)
    }

    /// Flights that are under way and can be joined, with pieces or without.
    #[must_use]
    pub fn len(&self) -> usize {
        self.home.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The duty to do a flight's work. Dropped without it, the followers are told ([`End::Gone`]).
#[derive(Debug)]
#[must_use = "the followers wait for the work"]
pub struct Lead<T, E> {
    flight: Arc<Flight<T, E>>,
}

impl<T: Clone, E: Clone> Lead<T, E> {
    /// Does the work, to be run in a task that outlives whoever asked. When nobody follows any more, the `patience` with
    /// which it goes on for nobody begins. The work is dropped when that is over; what must happen then is for its own
    /// destructors.
    pub async fn drive<F>(self, patience: impl Future<Output = ()>, work: impl FnOnce(Pieces<T, E>) -> F)
    where
        F: Future<Output = Result<T, E>>,
    {
        let pieces = Pieces { flight: Arc::clone(&self.flight) };
        let given_up = async {
            poll_fn(|context| self.flight.log.lock().poll_abandoned(context)).await;
            patience.await;
        };
        tokio::select! {
            biased;
            () = given_up => {}
            result = work(pieces) => self.flight.end(result.map_or_else(End::Failed, End::Complete)),
        }
    }
}

impl<T, E> Drop for Lead<T, E> {
    fn drop(&mut self) {
        // Does nothing to a flight that has ended.
        self.flight.end(End::Gone);
    }
}

/// Where the work puts what it has so far.
#[derive(Clone, Debug)]
pub struct Pieces<T, E> {
    flight: Arc<Flight<T, E>>,
}

impl<T: Clone, E: Clone> Pieces<T, E> {
    /// Appends a piece for all followers, those who come later too.
    pub fn push(&self, piece: Bytes) {
        let wakers = self.flight.log.lock().push(piece, &self.flight.home.bounds);
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Waits while nobody reads.
    pub async fn room(&self) {
        let bounds = &self.flight.home.bounds;
        poll_fn(|context| self.flight.log.lock().poll_room(context, bounds)).await;
    }
}

/// One who waits for a flight's answer. Dropping it is leaving.
#[derive(Debug)]
pub struct Follower<T, E> {
    flight: Arc<Flight<T, E>>,
    place: usize,
    is_leader: bool,
}

impl<T: Clone, E: Clone> Follower<T, E> {
    /// Whether the flight began with this one: it is the one that paid.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// The next piece, or the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next<T, E>> {
        let (next, writer) = self.flight.log.lock().poll_next(self.place, context);
        if let Some(writer) = writer {
            writer.wake();
        }
        next
    }

    /// The next piece, or the end.
    pub async fn next(&mut self) -> Next<T, E> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The end; pieces are passed over.
    pub async fn end(&mut self) -> End<T, E> {
        loop {
            if let Next::End(end) = self.next().await {
                return end;
            }
        }
    }
}

impl<T, E> Drop for Follower<T, E> {
    fn drop(&mut self) {
        let left = self.flight.log.lock().leave(self.place);
        if left.is_abandoned {
            self.flight.leave_the_map();
        }
        left.wakers.into_iter().flatten().for_each(std::task::Waker::wake);
    }
}

#[cfg(test)]
mod tests;
