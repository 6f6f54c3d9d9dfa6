//! Compares flight states with a simple model under random sequences of events. Each reader sees the chunks in order,
//! chunks that will be read are kept, chunks that will not be read are dropped, and the total of bytes is the sum over
//! all flights.

use std::task::Waker;

use proptest::prelude::*;

use super::super::flight_state::FlightState;
use super::*;

const FLIGHTS: usize = 3;
const BOUNDS: FlightBounds = FlightBounds { max_log_bytes: 40, max_ahead_bytes: 10, max_total_bytes: 60 };

#[derive(Clone, Debug)]
enum Op {
    Join(usize, bool),
    Push(usize, usize),
    Read(usize, usize),
    Leave(usize, usize),
    Close(usize),
    End(usize),
    /// Drops the flight and puts a new one in its slot.
    Drop(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let flight = 0..FLIGHTS;
    prop_oneof![
        3 => (flight.clone(), any::<bool>()).prop_map(|(flight, chunks)| Op::Join(flight, chunks)),
        6 => (flight.clone(), 1usize..15).prop_map(|(flight, bytes)| Op::Push(flight, bytes)),
        8 => (flight.clone(), any::<usize>()).prop_map(|(flight, who)| Op::Read(flight, who)),
        2 => (flight.clone(), any::<usize>()).prop_map(|(flight, who)| Op::Leave(flight, who)),
        1 => flight.clone().prop_map(Op::Close),
        1 => flight.clone().prop_map(Op::End),
        1 => flight.prop_map(Op::Drop),
    ]
}

struct Reader {
    slot: usize,
    wants: Wants,
    /// The lengths of the chunks that it has read.
    seen: Vec<usize>,
}

struct Model {
    state: FlightState<(), ()>,
    /// The length of each chunk, which identifies it.
    chunks: Vec<usize>,
    readers: Vec<Reader>,
    is_closed: bool,
    is_over: bool,
}

impl Model {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        let state = FlightState::new(Arc::clone(all));
        Self { state, chunks: Vec::new(), readers: Vec::new(), is_closed: false, is_over: false }
    }

    fn join(&mut self, chunks: bool) {
        let wants = if chunks { Wants::Chunks } else { Wants::End };
        if let Some(slot) = self.state.join(wants) {
            assert!(!(self.is_over || self.is_closed && chunks));
            assert!(self.readers.iter().all(|reader| reader.slot != slot));
            self.readers.push(Reader { slot, wants, seen: Vec::new() });
        }
    }

    fn push(&mut self, bytes: usize) {
        self.state.publish(Bytes::from(vec![0; bytes]), &BOUNDS);
        if !self.is_over {
            self.chunks.push(bytes);
        }
    }

    fn read(&mut self, who: usize) {
        let count = self.readers.len();
        let Some(reader) = self.readers.get_mut(who.checked_rem(count).unwrap_or(0)) else { return };
        let (next, _) = self.state.poll_next(reader.slot, &mut Context::from_waker(Waker::noop()));
        match next {
            Poll::Ready(Next::Chunk(chunk)) => {
                assert_eq!(reader.wants, Wants::Chunks);
                assert_eq!(
                    self.chunks.get(reader.seen.len()),
                    Some(&chunk.len()),
                    "chunks come in order, without gaps"
                );
                reader.seen.push(chunk.len());
            }
            Poll::Ready(Next::End(End::TooSlow)) => assert!(reader.seen.len() < self.chunks.len()),
            Poll::Ready(Next::End(_)) => {
                assert!(self.is_over);
                assert!(
                    reader.wants == Wants::End || reader.seen == self.chunks,
                    "the end comes after all chunks"
                );
            }
            Poll::Pending => {
                assert!(!self.is_over && (reader.wants == Wants::End || reader.seen == self.chunks));
            }
        }
    }

    fn leave(&mut self, who: usize) {
        if self.readers.is_empty() {
            return;
        }
        let reader = self.readers.swap_remove(who % self.readers.len());
        let left = self.state.leave(reader.slot);
        if self.readers.is_empty() {
            assert!(left.is_abandoned || self.is_over);
        }
        self.is_over |= left.is_abandoned;
    }
}

proptest! {
    #[test]
    fn the_total_of_bytes_is_the_sum_over_all_flights_and_returns_to_zero(ops in proptest::collection::vec(op(), 1..100)) {
        let all = Arc::new(AtomicUsize::new(0));
        let mut models: Vec<Model> = (0..FLIGHTS).map(|_| Model::new(&all)).collect();
        for op in ops {
            match op {
                Op::Join(flight, chunks) => models[flight].join(chunks),
                Op::Push(flight, bytes) => models[flight].push(bytes),
                Op::Read(flight, who) => models[flight].read(who),
                Op::Leave(flight, who) => models[flight].leave(who),
                Op::Close(flight) => {
                    models[flight].state.close_to_readers();
                    models[flight].is_closed = true;
                }
                Op::End(flight) => {
                    models[flight].state.finish(End::Complete(()), &BOUNDS);
                    models[flight].is_over = true;
                }
                Op::Drop(flight) => models[flight] = Model::new(&all),
            }
            let kept: usize = models.iter().map(|model| model.state.kept_bytes()).sum();
            prop_assert_eq!(all.load(Ordering::SeqCst), kept);
            for model in &models {
                let total: usize = model.chunks.iter().sum();
                prop_assert!(model.state.kept_bytes() <= total);
                if model.readers.is_empty() && (model.is_over || model.is_closed) {
                    prop_assert_eq!(model.state.kept_bytes(), 0, "no reader is left");
                }
            }
        }
        drop(models);
        prop_assert_eq!(all.load(Ordering::SeqCst), 0);
    }
}
