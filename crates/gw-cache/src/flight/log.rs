//! What a flight has brought so far, who has read how much of it, and who waits. All under one lock, so that no moment lies
//! between looking and waiting; who is to be woken is handed out, and woken outside of it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::tape::Tape;
use super::{Bounds, End, Next, Wants};

#[derive(Debug)]
pub(super) struct Log<T, E> {
    tape: Tape,
    end: Option<End<T, E>>,
    takes: Takes,
    readers: Vec<Option<Reader>>,
    free: Vec<usize>,
    /// Those whom its answer can still reach.
    participants: usize,
    /// The work's task, waiting for the last one to go; and inside the work, for somebody to read.
    driver: Option<Waker>,
    writer: Option<Waker>,
}

/// Who may join. What was read is kept for as long as everybody may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Everybody,
    /// Who wants no pieces.
    NoReaders,
    Nobody,
}

#[derive(Debug)]
struct Reader {
    wants: Wants,
    /// The number of the piece that it reads next, and the bytes before it.
    next: u64,
    read: u64,
    is_too_slow: bool,
    waker: Option<Waker>,
}

impl Reader {
    /// Whether it needs what lies ahead of it.
    fn reads(&self) -> bool {
        self.wants == Wants::Pieces && !self.is_too_slow
    }
}

/// What somebody's leaving means.
pub(super) struct Left {
    pub(super) is_abandoned: bool,
    pub(super) wakers: [Option<Waker>; 2],
}

impl<T, E> Log<T, E> {
    /// An empty one; `all` counts what all of them hold.
    pub(super) fn new(all: Arc<AtomicUsize>) -> Self {
        Self {
            tape: Tape::new(all),
            end: None,
            takes: Takes::Everybody,
            readers: Vec::new(),
            free: Vec::new(),
            participants: 0,
            driver: None,
            writer: None,
        }
    }

    /// A place, unless it takes none like this one any more.
    pub(super) fn join(&mut self, wants: Wants) -> Option<usize> {
        match (self.takes, wants) {
            (Takes::Everybody, _) | (Takes::NoReaders, Wants::End) => {}
            (Takes::NoReaders, Wants::Pieces) | (Takes::Nobody, _) => return None,
        }
        if wants == Wants::Pieces {
            self.tape.enter(0);
        }
        let reader = Some(Reader { wants, next: 0, read: 0, is_too_slow: false, waker: None });
        self.participants += 1;
        let free = self.free.pop();
        if let Some((place, slot)) = free.and_then(|place| Some((place, self.readers.get_mut(place)?))) {
            *slot = reader;
            return Some(place);
        }
        self.readers.push(reader);
        Some(self.readers.len() - 1)
    }

    pub(super) fn leave(&mut self, place: usize) -> Left {
        if let Some(reader) = self.readers.get_mut(place).and_then(Option::take) {
            if reader.reads() {
                self.tape.leave(reader.next);
            }
            self.participants -= usize::from(!reader.is_too_slow);
            self.free.push(place);
        }
        let is_abandoned = self.participants == 0 && self.end.is_none();
        if is_abandoned {
            self.takes = Takes::Nobody;
        }
        self.forget();
        // The one who left may have been the only one who read, or the only one who did not.
        Left { is_abandoned, wakers: [self.driver.take_if(|_| is_abandoned), self.writer.take()] }
    }

    /// Nobody more is to read it from its beginning.
    pub(super) fn close(&mut self) {
        if self.takes == Takes::Everybody {
            self.takes = Takes::NoReaders;
            self.forget();
        }
    }

    /// Appends a piece. Gives who waits for it.
    pub(super) fn push(&mut self, piece: Bytes, bounds: &Bounds) -> Vec<Waker> {
        if self.end.is_some() || piece.is_empty() {
            return Vec::new();
        }
        self.tape.append(piece);
        if self.tape.kept() > bounds.log || self.tape.kept_by_all() > bounds.all {
            self.close();
        }
        self.keep_within(bounds);
        self.waiting(|reader| reader.wants == Wants::Pieces)
    }

    pub(super) fn end(&mut self, end: End<T, E>, bounds: &Bounds) -> Vec<Waker> {
        if self.end.is_some() {
            return Vec::new();
        }
        self.takes = Takes::Nobody;
        self.end = Some(end);
        self.keep_within(bounds);
        self.waiting(|_| true)
    }

    /// Keeps no more than is to be read, and not too much of that.
    fn keep_within(&mut self, bounds: &Bounds) {
        self.forget();
        let is_flooded = self.tape.kept_by_all() > bounds.all.saturating_mul(2);
        self.leave_behind(if is_flooded { bounds.ahead } else { bounds.log });
    }

    fn waiting(&mut self, which: impl Fn(&Reader) -> bool) -> Vec<Waker> {
        let readers = self.readers.iter_mut().flatten().filter(|reader| which(reader));
        readers.filter_map(|reader| reader.waker.take()).collect()
    }

    /// Forgets what nobody will read any more.
    fn forget(&mut self) {
        if self.takes != Takes::Everybody {
            self.tape.forget();
        }
    }

    /// Gives up the slowest, but never the fastest, until all are near enough. Nobody is slow who has only the next piece to
    /// read, however large it is. Nothing can reach those who were given up, so the work is not done for them, either.
    fn leave_behind(&mut self, most: usize) {
        while self.tape.behind_first() > most {
            let (first, fastest) = (self.tape.first(), self.fastest());
            let slowest = self.readers.iter_mut().flatten().filter(|reader| reader.reads());
            let mut left = false;
            for reader in slowest.filter(|reader| reader.next <= first && reader.read < fastest) {
                reader.is_too_slow = true;
                self.tape.leave(reader.next);
                self.participants -= 1;
                left = true;
            }
            if !left {
                return;
            }
            self.forget();
        }
    }

    /// Bytes that the fastest has read. Who wants no pieces is never behind.
    fn fastest(&self) -> u64 {
        let total = self.tape.total();
        let read = |reader: &Reader| if reader.wants == Wants::End { total } else { reader.read };
        let readers = self.readers.iter().flatten().filter(|reader| !reader.is_too_slow);
        readers.map(read).max().unwrap_or(total)
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.tape.kept()
    }

    pub(super) fn poll_abandoned(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.participants == 0 {
            return Poll::Ready(());
        }
        self.driver = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) fn poll_room(&mut self, context: &mut Context<'_>, bounds: &Bounds) -> Poll<()> {
        // While all logs together hold too much, nothing is read ahead.
        let ahead = if self.tape.kept_by_all() > bounds.all { 0 } else { bounds.ahead };
        if self.end.is_some() || self.tape.total() - self.fastest() <= ahead as u64 {
            return Poll::Ready(());
        }
        self.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T: Clone, E: Clone> Log<T, E> {
    /// What a reader gets next, and the work's waker if it waits for that.
    pub(super) fn poll_next(
        &mut self,
        place: usize,
        context: &mut Context<'_>,
    ) -> (Poll<Next<T, E>>, Option<Waker>) {
        let Some(reader) = self.readers.get_mut(place).and_then(Option::as_mut) else {
            return (Poll::Ready(Next::End(End::Gone)), None);
        };
        if reader.is_too_slow {
            return (Poll::Ready(Next::End(End::TooSlow)), None);
        }
        if reader.wants == Wants::Pieces
            && let Some(piece) = self.tape.read(reader.next)
        {
            reader.next += 1;
            reader.read += piece.len() as u64;
            self.forget();
            return (Poll::Ready(Next::Piece(piece)), self.writer.take());
        }
        if let Some(end) = &self.end {
            return (Poll::Ready(Next::End(end.clone())), None);
        }
        reader.waker = Some(context.waker().clone());
        (Poll::Pending, None)
    }
}
