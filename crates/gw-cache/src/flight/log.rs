//! What a flight has brought so far, who has read how much of it, and who waits. All under one lock, so that no moment lies
//! between looking and waiting; who is to be woken is handed out, and woken outside of it.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::{End, Next, Wants};

#[derive(Debug)]
pub(super) struct Log<T, E> {
    pieces: VecDeque<Bytes>,
    /// The number of the first piece that is kept.
    first: u64,
    /// Bytes that are kept, and bytes that there ever were.
    kept: usize,
    total: u64,
    end: Option<End<T, E>>,
    /// Whether it takes followers.
    is_open: bool,
    readers: Vec<Option<Reader>>,
    free: Vec<usize>,
    participants: usize,
    /// The work's task, waiting for the last one to go; and inside the work, for somebody to read.
    driver: Option<Waker>,
    writer: Option<Waker>,
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
    pub(super) fn new() -> Self {
        Self {
            pieces: VecDeque::new(),
            first: 0,
            kept: 0,
            total: 0,
            end: None,
            is_open: true,
            readers: Vec::new(),
            free: Vec::new(),
            participants: 0,
            driver: None,
            writer: None,
        }
    }

    /// A place, unless nobody can join any more.
    pub(super) fn join(&mut self, wants: Wants) -> Option<usize> {
        if !self.is_open {
            return None;
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
        if self.readers.get_mut(place).and_then(Option::take).is_some() {
            self.participants -= 1;
            self.free.push(place);
        }
        let is_abandoned = self.participants == 0 && self.end.is_none();
        if is_abandoned {
            self.is_open = false;
        }
        self.forget();
        // The one who left may have been the only one who read, or the only one who did not.
        Left { is_abandoned, wakers: [self.driver.take_if(|_| is_abandoned), self.writer.take()] }
    }

    /// Appends a piece. Gives who waits for it, and whether the log is full and closed from now on.
    pub(super) fn push(&mut self, piece: Bytes, most: usize) -> (Vec<Waker>, bool) {
        if self.end.is_some() || piece.is_empty() {
            return (Vec::new(), false);
        }
        self.kept += piece.len();
        self.total += piece.len() as u64;
        self.pieces.push_back(piece);
        let is_full = self.kept > most && self.is_open;
        if is_full {
            self.is_open = false;
        }
        self.forget();
        self.leave_behind(most);
        (self.waiting(|reader| reader.wants == Wants::Pieces), is_full)
    }

    pub(super) fn end(&mut self, end: End<T, E>) -> Vec<Waker> {
        if self.end.is_some() {
            return Vec::new();
        }
        self.is_open = false;
        self.end = Some(end);
        self.forget();
        self.waiting(|_| true)
    }

    fn waiting(&mut self, which: impl Fn(&Reader) -> bool) -> Vec<Waker> {
        let readers = self.readers.iter_mut().flatten().filter(|reader| which(reader));
        readers.filter_map(|reader| reader.waker.take()).collect()
    }

    /// Forgets what nobody will read any more.
    fn forget(&mut self) {
        if self.is_open {
            return;
        }
        let readers = self.readers.iter().flatten().filter(|reader| reader.reads());
        let needed = readers.map(|reader| reader.next).min().unwrap_or(u64::MAX);
        while self.first < needed
            && let Some(piece) = self.pieces.pop_front()
        {
            self.kept -= piece.len();
            self.first += 1;
        }
    }

    /// Gives up the slowest, but never the fastest, until what is kept is in bounds.
    fn leave_behind(&mut self, most: usize) {
        while self.kept > most {
            let (first, fastest) = (self.first, self.fastest());
            let slowest = self.readers.iter_mut().flatten().filter(|reader| reader.reads());
            let mut left = false;
            for reader in slowest.filter(|reader| reader.next <= first && reader.read < fastest) {
                reader.is_too_slow = true;
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
        let read = |reader: &Reader| if reader.wants == Wants::End { self.total } else { reader.read };
        let readers = self.readers.iter().flatten().filter(|reader| !reader.is_too_slow);
        readers.map(read).max().unwrap_or(self.total)
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    pub(super) fn poll_abandoned(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.participants == 0 {
            return Poll::Ready(());
        }
        self.driver = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) fn poll_room(&mut self, context: &mut Context<'_>, ahead: usize) -> Poll<()> {
        if self.end.is_some() || self.total - self.fastest() <= ahead as u64 {
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
        if reader.wants == Wants::Pieces {
            let at = usize::try_from(reader.next - self.first).unwrap_or(usize::MAX);
            if let Some(piece) = self.pieces.get(at).cloned() {
                reader.next += 1;
                reader.read += piece.len() as u64;
                self.forget();
                return (Poll::Ready(Next::Piece(piece)), self.writer.take());
            }
        }
        if let Some(end) = &self.end {
            return (Poll::Ready(Next::End(end.clone())), None);
        }
        reader.waker = Some(context.waker().clone());
        (Poll::Pending, None)
    }
}
