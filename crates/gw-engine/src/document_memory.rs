//! One bound for the whole process over the large documents of upstreams, and over the answers that are made of them until
//! their clients have taken them. Each key has a share of it.
//!
//! A large document waits for room: it is not read from its upstream before. So answers that come together cost no more memory
//! than the bound, and a client that reads slowly holds up the large answers of its own key only.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use gw_providers::client::BodyRoom;
use gw_wire::failure::{Failure, FailureKind};

use crate::error::Kind;
use crate::shared_pool::{PoolHolding, PoolRefusal, SharedPool, UNCOUNTED_BYTES};

/// The longest answer, of an upstream or made of cached vectors. An upstream's answer that is expected to be long, such as ten
/// images, may have twice as many bytes.
pub(crate) const MAX_ANSWER_BYTES: usize = 32 << 20;
/// A document is held beside the answer that is made of it.
const COPIES: u64 = 2;

/// The memory of large documents.
#[derive(Debug)]
pub(crate) struct DocumentMemory(Arc<SharedPool>);

impl DocumentMemory {
    /// A pool of `limit_bytes` bytes.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self(SharedPool::new(limit_bytes))
    }

    /// The pool itself, for answers that no upstream made.
    pub(crate) fn pool(&self) -> &Arc<SharedPool> {
        &self.0
    }

    /// Memory for an answer of this key that is made without a document; None if it is too long or there is no room. Does not
    /// wait.
    pub(crate) fn permit(&self, key: &Arc<str>, bytes: usize) -> Option<DocumentPermit> {
        if bytes > MAX_ANSWER_BYTES {
            return None;
        }
        self.0.hold_large(key, bytes).ok().map(DocumentPermit)
    }

    /// A permit that holds nothing yet, for an answer whose documents may each be too small to count.
    pub(crate) fn empty_permit(&self, key: &Arc<str>) -> DocumentPermit {
        DocumentPermit(Some(self.0.holding(key)))
    }

    /// The room for a document of this key, which waits for its estimated size. None: it does not wait, because it is one of
    /// several documents of an answer, and the others hold memory until it is there.
    pub(crate) fn room<'m>(&'m self, key: &'m Arc<str>, expected_bytes: Option<usize>) -> DocumentRoom<'m> {
        DocumentRoom { pool: &self.0, key, expected_bytes, holding: None, freed: None, refusal: None }
    }
}

/// The room for a document while it is read.
pub(crate) struct DocumentRoom<'m> {
    pool: &'m Arc<SharedPool>,
    key: &'m Arc<str>,
    expected_bytes: Option<usize>,
    holding: Option<PoolHolding>,
    /// Completes when a part of the pool is given back.
    freed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Why it waits.
    refusal: Option<PoolRefusal>,
}

impl DocumentRoom<'_> {
    /// The permit of the complete document.
    pub(crate) fn into_permit(self) -> DocumentPermit {
        DocumentPermit(self.holding)
    }
}

impl BodyRoom for DocumentRoom<'_> {
    fn late(&self) -> Failure {
        match self.refusal {
            Some(PoolRefusal::OverShare) => {
                let message = "Other large answers of this key wait for their clients; this one was not read to its end.";
                let code = Some(Kind::RateLimitExceeded.code().to_owned());
                Failure { code, ..Failure::new(FailureKind::NoMemory, message) }
            }
            Some(PoolRefusal::UsedUp) | None => no_room(),
        }
    }

    /// The first large piece waits for the estimated size. A document that is larger than its estimate does not wait: others
    /// that have read half of their documents could wait for it. It may exceed the share of its key, and the pool up to twice its
    /// size, because an answer that is cut is paid for. Until the pool has room again, no other document begins.
    fn poll_grow(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if bytes <= UNCOUNTED_BYTES {
            return Poll::Ready(Ok(()));
        }
        let capacity = self.pool.capacity();
        let counted = |bytes: usize| (bytes as u64).saturating_mul(COPIES).min(capacity);
        if let Some(holding) = &mut self.holding {
            if counted(bytes) <= holding.amount() {
                return Poll::Ready(Ok(()));
            }
            return Poll::Ready(holding.set_beyond_share(counted(bytes)).map_err(|_| no_room()));
        }
        let mut holding = self.pool.holding(self.key);
        let Some(expected_bytes) = self.expected_bytes else {
            let grown = holding.set_beyond_share(counted(bytes)).map_err(|_| no_room());
            self.holding = Some(holding);
            return Poll::Ready(grown);
        };
        loop {
            let freed = self.freed.get_or_insert_with(|| {
                let mut freed = Box::pin(self.pool.freed().notified_owned());
                // Memory that is given back from now on wakes this task, even before the first poll.
                freed.as_mut().enable();
                freed
            });
            match holding.set(counted(bytes.max(expected_bytes))) {
                Ok(()) => {
                    (self.holding, self.freed) = (Some(holding), None);
                    return Poll::Ready(Ok(()));
                }
                Err(refusal) => self.refusal = Some(refusal),
            }
            if freed.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.freed = None;
        }
    }
}

/// The bytes of an answer for a holder that keeps them after its client has the answer.
pub(crate) fn uncounted(answer: &Bytes) -> Bytes {
    if answer.len() > UNCOUNTED_BYTES { Bytes::copy_from_slice(answer) } else { answer.clone() }
}

fn no_room() -> Failure {
    let message = "The gateway is holding as many large answers as it can; this one was not read to its end.";
    Failure::new(FailureKind::NoMemory, message)
}

/// Counts a document, and then the answer that is made of it. A small document has an empty permit.
#[derive(Debug)]
pub(crate) struct DocumentPermit(Option<PoolHolding>);

impl DocumentPermit {
    /// Counts the answer that was made of the documents of these permits, until its last part is dropped. A small answer does not
    /// count.
    pub(crate) fn count(permits: impl IntoIterator<Item = Self>, answer: Bytes) -> Bytes {
        let mut holdings = permits.into_iter().filter_map(|permit| permit.0);
        let Some(mut holding) = holdings.next().filter(|_| answer.len() > UNCOUNTED_BYTES) else {
            return answer;
        };
        drop(holdings);
        // The estimate stays if it was too low and there is no more room.
        let _ = holding.set_beyond_share(answer.len() as u64);
        Bytes::from_owner(CountedAnswer { answer, _holding: holding })
    }
}

/// An answer that counts until it is dropped.
struct CountedAnswer {
    answer: Bytes,
    _holding: PoolHolding,
}

impl AsRef<[u8]> for CountedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn poll(room: &mut DocumentRoom<'_>, bytes: usize) -> Poll<Result<(), Failure>> {
        room.poll_grow(bytes, &mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn a_large_document_waits_until_its_key_has_room_and_another_key_does_not() {
        let (memory, key, other) = (DocumentMemory::new(64 << 20), Arc::from("a"), Arc::from("b"));
        let mut first = memory.room(&key, Some(10 * MIB));
        assert_eq!(poll(&mut first, UNCOUNTED_BYTES), Poll::Ready(Ok(())));
        assert_eq!(memory.pool().gauge().get(), 0, "a small piece needs no room");
        assert_eq!(poll(&mut first, UNCOUNTED_BYTES + 1), Poll::Ready(Ok(())));
        assert_eq!(memory.pool().gauge().get(), 20 << 20);
        let mut second = memory.room(&key, Some(10 * MIB));
        assert_eq!(poll(&mut second, MIB), Poll::Pending, "the share is 32 MiB");
        assert_eq!(poll(&mut memory.room(&other, Some(10 * MIB)), MIB), Poll::Ready(Ok(())));
        let answer = DocumentPermit::count([first.into_permit()], vec![b'x'; 6 * MIB].into());
        assert_eq!(memory.pool().gauge().get(), 6 << 20);
        assert_eq!(poll(&mut second, MIB), Poll::Ready(Ok(())));
        drop((answer, second));
        assert_eq!(memory.pool().gauge().get(), 0);
    }

    #[test]
    fn c36_answers_of_one_key_leave_room_for_those_of_another() {
        let memory = DocumentMemory::new(8 * MAX_ANSWER_BYTES as u64);
        let (key, other) = (Arc::from("a"), Arc::from("b"));
        // Four of the largest answers are a key's half.
        let longest = || memory.permit(&key, MAX_ANSWER_BYTES);
        let held: Vec<_> =
            (0..4).map(|_| DocumentPermit::count(longest(), vec![b'x'; MAX_ANSWER_BYTES].into())).collect();
        assert!(longest().is_none());
        let theirs = memory.permit(&other, MAX_ANSWER_BYTES);
        assert!(theirs.is_some() && memory.permit(&key, UNCOUNTED_BYTES).is_some());
        assert!(memory.permit(&other, MAX_ANSWER_BYTES + 1).is_none());
        drop(held);
        assert!(longest().is_some());
    }

    #[test]
    fn documents_of_one_answer_do_not_wait_for_each_other() {
        let (memory, key) = (DocumentMemory::new(64 << 20), Arc::from("a"));
        let mut parts: Vec<_> = (0..3).map(|_| memory.room(&key, None)).collect();
        for part in &mut parts {
            assert_eq!(poll(part, 20 * MIB), Poll::Ready(Ok(())), "they hold 120 MiB, and the share is 32");
        }
        assert_eq!(poll(&mut memory.room(&key, Some(MIB)), MIB), Poll::Pending, "another answer waits");
        let kept = uncounted(&DocumentPermit::count(
            parts.into_iter().map(DocumentRoom::into_permit),
            vec![b'x'; 20 * MIB].into(),
        ));
        assert_eq!((memory.pool().gauge().get(), kept.len()), (0, 20 * MIB));
    }

    #[test]
    fn a_document_beyond_its_estimate_exceeds_the_pool_and_never_twice_its_size() {
        let (memory, key) = (DocumentMemory::new(64 << 20), Arc::from("a"));
        let mut rooms: Vec<_> = (0..7).map(|_| memory.room(&key, Some(MIB))).collect();
        for room in &mut rooms {
            assert_eq!(poll(room, MIB), Poll::Ready(Ok(())));
        }
        for (at, room) in rooms.iter_mut().enumerate() {
            let grown = poll(room, 10 * MIB);
            assert_eq!(grown == Poll::Ready(Ok(())), at < 6, "document {at}: {grown:?}");
        }
        assert!((100 << 20..=128 << 20).contains(&memory.pool().gauge().get()));
    }
}
