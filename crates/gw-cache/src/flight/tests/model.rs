//! Logs under random sequences of what can happen to them, beside a plain model: each reader sees the pieces in their order, what
//! somebody will read is there, what nobody will is not, and the bytes of all are the sum of each.

use std::task::Waker;

use proptest::prelude::*;

use super::super::log::Log;
use super::*;

const LOGS: usize = 3;
const BOUNDS: Bounds = Bounds { log: 40, ahead: 10, all: 60 };

#[derive(Clone, Debug)]
enum Op {
    Join(usize, bool),
    Push(usize, usize),
    Read(usize, usize),
    Leave(usize, usize),
    Close(usize),
    End(usize),
    /// It is dropped, and a new one takes its place.
    Drop(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let log = 0..LOGS;
    prop_oneof![
        3 => (log.clone(), any::<bool>()).prop_map(|(log, pieces)| Op::Join(log, pieces)),
        6 => (log.clone(), 1usize..15).prop_map(|(log, bytes)| Op::Push(log, bytes)),
        8 => (log.clone(), any::<usize>()).prop_map(|(log, who)| Op::Read(log, who)),
        2 => (log.clone(), any::<usize>()).prop_map(|(log, who)| Op::Leave(log, who)),
        1 => log.clone().prop_map(Op::Close),
        1 => log.clone().prop_map(Op::End),
        1 => log.prop_map(Op::Drop),
    ]
}

struct Reader {
    place: usize,
    wants: Wants,
    /// What it has read.
    seen: Vec<usize>,
}

struct Model {
    log: Log<(), ()>,
    /// The length of each piece, which is what tells them apart.
    pieces: Vec<usize>,
    readers: Vec<Reader>,
    is_closed: bool,
    is_over: bool,
}

impl Model {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        let log = Log::new(Arc::clone(all));
        Self { log, pieces: Vec::new(), readers: Vec::new(), is_closed: false, is_over: false }
    }

    fn join(&mut self, pieces: bool) {
        let wants = if pieces { Wants::Pieces } else { Wants::End };
        if let Some(place) = self.log.join(wants) {
            assert!(!(self.is_over || self.is_closed && pieces));
            assert!(self.readers.iter().all(|reader| reader.place != place));
            self.readers.push(Reader { place, wants, seen: Vec::new() });
        }
    }

    fn push(&mut self, bytes: usize) {
        self.log.push(Bytes::from(vec![0; bytes]), &BOUNDS);
        if !self.is_over {
            self.pieces.push(bytes);
        }
    }

    fn read(&mut self, who: usize) {
        let count = self.readers.len();
        let Some(reader) = self.readers.get_mut(who.checked_rem(count).unwrap_or(0)) else { return };
        let (next, _) = self.log.poll_next(reader.place, &mut Context::from_waker(Waker::noop()));
        match next {
            Poll::Ready(Next::Piece(piece)) => {
                assert_eq!(reader.wants, Wants::Pieces);
                assert_eq!(
                    self.pieces.get(reader.seen.len()),
                    Some(&piece.len()),
                    "in its order, and none is left out"
                );
                reader.seen.push(piece.len());
            }
            Poll::Ready(Next::End(End::TooSlow)) => assert!(reader.seen.len() < self.pieces.len()),
            Poll::Ready(Next::End(_)) => {
                assert!(self.is_over);
                assert!(
                    reader.wants == Wants::End || reader.seen == self.pieces,
                    "the end comes behind all pieces"
                );
            }
            Poll::Pending => {
                assert!(!self.is_over && (reader.wants == Wants::End || reader.seen == self.pieces));
            }
        }
    }

    fn leave(&mut self, who: usize) {
        if self.readers.is_empty() {
            return;
        }
        let reader = self.readers.swap_remove(who % self.readers.len());
        let left = self.log.leave(reader.place);
        if self.readers.is_empty() {
            assert!(left.is_abandoned || self.is_over);
        }
        self.is_over |= left.is_abandoned;
    }
}

proptest! {
    #[test]
    fn the_bytes_of_all_logs_are_the_sum_of_each_and_come_back_to_nothing(ops in proptest::collection::vec(op(), 1..100)) {
        let all = Arc::new(AtomicUsize::new(0));
        let mut models: Vec<Model> = (0..LOGS).map(|_| Model::new(&all)).collect();
        for op in ops {
            match op {
                Op::Join(log, pieces) => models[log].join(pieces),
                Op::Push(log, bytes) => models[log].push(bytes),
                Op::Read(log, who) => models[log].read(who),
                Op::Leave(log, who) => models[log].leave(who),
                Op::Close(log) => {
                    models[log].log.close();
                    models[log].is_closed = true;
                }
                Op::End(log) => {
                    models[log].log.end(End::Complete(()), &BOUNDS);
                    models[log].is_over = true;
                }
                Op::Drop(log) => models[log] = Model::new(&all),
            }
            let kept: usize = models.iter().map(|model| model.log.kept()).sum();
            prop_assert_eq!(all.load(Ordering::SeqCst), kept);
            for model in &models {
                let total: usize = model.pieces.iter().sum();
                prop_assert!(model.log.kept() <= total);
                if model.readers.is_empty() && (model.is_over || model.is_closed) {
                    prop_assert_eq!(model.log.kept(), 0, "nobody will read it");
                }
            }
        }
        drop(models);
        prop_assert_eq!(all.load(Ordering::SeqCst), 0);
    }
}
