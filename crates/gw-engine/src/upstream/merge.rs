//! The upstream side of a stream: one body, or one body for each sub-request of a divided request.

use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use gw_providers::adapter::StreamDecoder;
use gw_providers::client::UpstreamBody;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::stream::Normaliser;
use gw_wire::usage::{PromptWork, Usage};

use crate::call::upstream_call::{UpstreamCallId, is_refusal};
use crate::cpu_pool::HEAVY_BYTES;

/// An upstream stream, and the position of its first choice in the answer.
pub(crate) struct SubStream {
    pub(crate) call: UpstreamCallId,
    pub(crate) body: UpstreamBody,
    pub(crate) decoder: Box<dyn StreamDecoder>,
    pub(crate) first: u32,
}

/// All upstream streams of an answer.
pub(crate) enum UpstreamSource {
    /// An undivided request.
    SingleStream(SingleStream),
    /// A divided request.
    MergedStream(MergedStream),
    /// The upstream is finished or cancelled. It keeps the usage of a divided request's streams.
    Closed(Vec<StreamUsage>),
}

/// A piece of a body, or its end.
type BodyPiece = Option<Bytes>;

/// The stream of an undivided request.
pub(crate) struct SingleStream {
    body: UpstreamBody,
    decoder: Box<dyn StreamDecoder>,
    /// Bytes that arrived and that the next steps read.
    rest: Bytes,
    heavy: Option<BodyPiece>,
}

/// Several streams that are read as one.
pub(crate) struct MergedStream {
    streams: Vec<TrackedStream>,
    /// A piece that takes long to read, and the stream that it came from.
    heavy: Option<(usize, BodyPiece)>,
    /// The next stream to read. The turns keep one stream from starving the others.
    turn: usize,
    /// The usage of the streams that ended.
    over: Vec<StreamUsage>,
    /// The streams that are not open yet.
    unopened: usize,
}

struct TrackedStream {
    source: SubStream,
    /// Bytes that arrived and that the next steps read.
    rest: Bytes,
    seen: StreamUsage,
    /// Its end marker arrived.
    ended: bool,
}

/// The usage of one stream so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamUsage {
    pub(crate) call: UpstreamCallId,
    /// The usage that the upstream reported.
    pub(crate) usage: Option<Usage>,
    /// The bytes of its answer.
    pub(crate) answer_bytes: u64,
    /// The upstream refused the request instead of answering it, and reported no usage.
    pub(crate) is_refused: bool,
}

/// The result of reading a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// Bytes arrived. The normaliser knows whether they had content.
    Progress,
    /// Bytes arrived that take long to read. [`UpstreamSource::digest`] reads them.
    Heavy,
    /// The stream ended. The normaliser knows whether it is complete.
    Over,
}

impl UpstreamSource {
    pub(crate) fn one(body: UpstreamBody, decoder: Box<dyn StreamDecoder>) -> Self {
        Self::SingleStream(SingleStream { body, decoder, rest: Bytes::new(), heavy: None })
    }

    /// The streams of a divided request, of which none is open yet.
    pub(crate) fn many(count: usize) -> Self {
        Self::MergedStream(MergedStream {
            streams: Vec::with_capacity(count),
            heavy: None,
            turn: 0,
            over: Vec::new(),
            unopened: count,
        })
    }

    /// Adds a stream of a divided request that is open.
    pub(crate) fn add(&mut self, source: SubStream) {
        if let Self::MergedStream(many) = self {
            let seen = StreamUsage { call: source.call, usage: None, answer_bytes: 0, is_refused: false };
            many.streams.push(TrackedStream { source, rest: Bytes::new(), seen, ended: false });
            many.unopened = many.unopened.saturating_sub(1);
        }
    }

    /// The streams of a divided request that ended, while others have not.
    pub(crate) fn ended(&self) -> usize {
        match self {
            Self::MergedStream(many) => many.over.len(),
            Self::SingleStream(_) | Self::Closed(_) => 0,
        }
    }

    /// The usage of each stream of a divided request so far.
    pub(crate) fn seen(&self) -> Vec<StreamUsage> {
        match self {
            Self::SingleStream(_) => Vec::new(),
            Self::MergedStream(many) => many.seen(),
            Self::Closed(seen) => seen.clone(),
        }
    }

    /// The reading of prompts and the calls of tools that the streams of a divided request have reported; None = they have reported nothing.
    pub(crate) fn prompt_work(&self) -> Option<PromptWork> {
        let told = |seen: &StreamUsage| Some(seen.usage?.prompt_work());
        match self {
            Self::SingleStream(_) => None,
            Self::MergedStream(many) => {
                let seen = many.streams.iter().map(|tracked| &tracked.seen).chain(&many.over);
                seen.filter_map(told).reduce(PromptWork::plus)
            }
            Self::Closed(seen) => seen.iter().filter_map(told).reduce(PromptWork::plus),
        }
    }

    /// Cancels the upstream calls.
    pub(crate) fn abandon(&mut self) {
        *self = Self::Closed(self.seen());
    }

    /// Reads the next piece into the normaliser, at most `most` bytes of it.
    pub(crate) fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        most: usize,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<ReadStep> {
        let step = match self {
            Self::SingleStream(one) => std::task::ready!(one.poll_step(cx, most, normaliser, out)),
            Self::MergedStream(many) => std::task::ready!(many.poll_step(cx, most, normaliser, out)),
            Self::Closed(_) => return Poll::Ready(ReadStep::Over),
        };
        if step == ReadStep::Over {
            self.finish();
        }
        Poll::Ready(step)
    }

    /// Reads a piece that takes long.
    pub(crate) fn digest(&mut self, normaliser: &mut Normaliser, out: &mut Vec<u8>) {
        let step = match self {
            Self::SingleStream(one) => {
                one.heavy.take().map(|came| one.read(came.as_deref(), normaliser, out))
            }
            Self::MergedStream(many) => {
                many.heavy.take().map(|(at, came)| many.read(at, came.as_deref(), normaliser, out))
            }
            Self::Closed(_) => None,
        };
        if step == Some(ReadStep::Over) {
            self.finish();
        }
    }

    /// The bytes that the decoders hold.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::SingleStream(one) => one.decoder.held_bytes(),
            Self::MergedStream(many) => {
                many.streams.iter().map(|tracked| tracked.source.decoder.held_bytes()).sum()
            }
            Self::Closed(_) => 0,
        }
    }

    /// Releases the upstream. A connection that was read to its end returns to its pool.
    fn finish(&mut self) {
        let closed = Self::Closed(self.seen());
        match std::mem::replace(self, closed) {
            Self::SingleStream(one) => one.body.finish(),
            // One of the streams has failed. The others stop, because nothing reads them any more.
            Self::MergedStream(_) | Self::Closed(_) => {}
        }
    }
}

/// Takes the next piece of a body, at most `most` bytes of it.
fn poll_piece(
    cx: &mut TaskContext<'_>,
    most: usize,
    (body, rest): (&mut UpstreamBody, &mut Bytes),
) -> Poll<Result<BodyPiece, Failure>> {
    let mut piece = std::mem::take(rest);
    if piece.is_empty() {
        match std::task::ready!(body.poll_chunk(cx)).transpose()? {
            Some(came) => piece = came,
            None => return Poll::Ready(Ok(None)),
        }
    }
    if piece.len() > most {
        *rest = piece.split_off(most);
    }
    Poll::Ready(Ok(Some(piece)))
}

/// Whether reading the piece takes so long that it runs on the CPU pool.
fn is_heavy(decoder: &dyn StreamDecoder, came: Option<&[u8]>) -> bool {
    decoder.work_bytes(came) >= HEAVY_BYTES
}

impl SingleStream {
    fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        most: usize,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<ReadStep> {
        if self.heavy.is_some() {
            return Poll::Ready(ReadStep::Heavy);
        }
        let came = match std::task::ready!(poll_piece(cx, most, (&mut self.body, &mut self.rest))) {
            Ok(came) => came,
            Err(failure) => {
                normaliser.accept(Event::Error(failure), out);
                return Poll::Ready(ReadStep::Over);
            }
        };
        if is_heavy(&*self.decoder, came.as_deref()) {
            self.heavy = Some(came);
            return Poll::Ready(ReadStep::Heavy);
        }
        Poll::Ready(self.read(came.as_deref(), normaliser, out))
    }

    fn read(&mut self, came: Option<&[u8]>, normaliser: &mut Normaliser, out: &mut Vec<u8>) -> ReadStep {
        out.reserve(normaliser.usual_output(came.map_or(0, <[u8]>::len)));
        let mut accept = |event: Event<'_>| normaliser.accept(event, out);
        match came {
            Some(chunk) => {
                self.decoder.feed(chunk, &mut accept);
                let over = normaliser.is_complete() || normaliser.has_failed();
                if over { ReadStep::Over } else { ReadStep::Progress }
            }
            None => {
                self.decoder.eof(&mut accept);
                normaliser.eof();
                ReadStep::Over
            }
        }
    }
}

impl MergedStream {
    fn seen(&self) -> Vec<StreamUsage> {
        self.streams.iter().map(|tracked| tracked.seen).chain(self.over.iter().copied()).collect()
    }

    fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        most: usize,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<ReadStep> {
        if self.heavy.is_some() {
            return Poll::Ready(ReadStep::Heavy);
        }
        for _ in 0..self.streams.len() {
            let at = self.turn % self.streams.len().max(1);
            self.turn = at + 1;
            let Some(TrackedStream { source, rest, .. }) = self.streams.get_mut(at) else { break };
            let Poll::Ready(read) = poll_piece(cx, most, (&mut source.body, rest)) else { continue };
            return Poll::Ready(match read {
                Ok(came) if is_heavy(&*source.decoder, came.as_deref()) => {
                    self.heavy = Some((at, came));
                    ReadStep::Heavy
                }
                Ok(came) => self.read(at, came.as_deref(), normaliser, out),
                Err(failure) => {
                    normaliser.accept(Event::Error(failure), out);
                    self.over(at);
                    self.step(normaliser)
                }
            });
        }
        Poll::Pending
    }

    /// Reads a piece of the stream at this place.
    fn read(
        &mut self,
        at: usize,
        came: Option<&[u8]>,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> ReadStep {
        let Some(TrackedStream { source, seen, ended, .. }) = self.streams.get_mut(at) else {
            return self.step(normaliser);
        };
        let first = source.first;
        let mut accept = |event: Event<'_>| take(event, first, seen, ended, normaliser, out);
        let over = match came {
            Some(chunk) => {
                source.decoder.feed(chunk, &mut accept);
                *ended
            }
            None => {
                source.decoder.eof(&mut accept);
                true
            }
        };
        if over {
            self.over(at);
        }
        self.step(normaliser)
    }

    fn over(&mut self, at: usize) {
        let tracked = self.streams.swap_remove(at);
        self.over.push(tracked.seen);
        tracked.source.body.finish();
    }

    fn step(&self, normaliser: &mut Normaliser) -> ReadStep {
        let is_over = self.streams.is_empty() && self.unopened == 0;
        if is_over && !normaliser.has_failed() {
            // End markers are not enough: each choice must have finished.
            normaliser.eof();
        }
        let over = is_over || normaliser.has_failed();
        if over { ReadStep::Over } else { ReadStep::Progress }
    }
}

/// Passes on an event of one of several streams: its choice moves to its position in the answer, and usage and ends are
/// merged.
fn take(
    event: Event<'_>,
    first: u32,
    seen: &mut StreamUsage,
    ended: &mut bool,
    normaliser: &mut Normaliser,
    out: &mut Vec<u8>,
) {
    seen.answer_bytes += event.answer_bytes();
    match event {
        Event::Usage(counted) => seen.usage = Some(counted.after(seen.usage)),
        Event::End => *ended = true,
        Event::Error(failure) => {
            seen.is_refused = is_refusal(failure.kind) && seen.usage.is_none() && seen.answer_bytes == 0;
            normaliser.accept(Event::Error(failure), out);
        }
        event => normaliser.accept(event.with_choice_offset(first), out),
    }
}
