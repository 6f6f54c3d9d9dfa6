//! The upstream side of a stream stream: one body, or one for each part of a request that had to be divided.

use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use gw_providers::adapter::StreamDecoder;
use gw_providers::client::UpstreamBody;
use gw_wire::event::Event;
use gw_wire::stream::Normaliser;
use gw_wire::usage::Usage;

use crate::call::upstream_call::{UpstreamCallId, is_refusal};
use crate::cpu_pool::HEAVY_BYTES;

/// SingleStream upstream stream, and where its choices stand among the answer's.
pub(crate) struct SubStream {
    pub(crate) call: UpstreamCallId,
    pub(crate) body: UpstreamBody,
    pub(crate) decoder: Box<dyn StreamDecoder>,
    pub(crate) first: u32,
}

/// All upstream streams of an answer.
pub(crate) enum UpstreamSource {
    /// The ordinary case.
    SingleStream(SingleStream),
    /// A divided request.
    MergedStream(MergedStream),
    /// Read to the end, or let go: what was seen of the streams of a divided request.
    Closed(Vec<StreamUsage>),
}

/// What a body gave: a piece, or its end.
type BodyPiece = Option<Bytes>;

/// SingleStream stream.
pub(crate) struct SingleStream {
    body: UpstreamBody,
    decoder: Box<dyn StreamDecoder>,
    heavy: Option<BodyPiece>,
}

/// Several streams that are read as one.
pub(crate) struct MergedStream {
    stream: Vec<TrackedStream>,
    /// What came of one of them and takes long to read.
    heavy: Option<(usize, BodyPiece)>,
    /// Whose turn it is: none may starve the others.
    turn: usize,
    /// What the streams that are over used.
    over: Vec<StreamUsage>,
}

struct TrackedStream {
    source: SubStream,
    seen: StreamUsage,
    /// Its end marker came.
    ended: bool,
}

/// What has been seen of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamUsage {
    pub(crate) call: UpstreamCallId,
    /// As the upstream told.
    pub(crate) usage: Option<Usage>,
    /// Bytes of its answer.
    pub(crate) answer_bytes: u64,
    /// In place of an answer its upstream has refused the request, and has told no usage.
    pub(crate) is_refused: bool,
}

/// What reading a piece brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// Bytes came; whether they meant something is for the normaliser to say.
    Progress,
    /// Bytes came that take long to read: they wait for [`UpstreamSource::digest`].
    Heavy,
    /// The stream is over, well or badly: request the normaliser.
    Over,
}

impl UpstreamSource {
    pub(crate) fn one(body: UpstreamBody, decoder: Box<dyn StreamDecoder>) -> Self {
        Self::SingleStream(SingleStream { body, decoder, heavy: None })
    }

    pub(crate) fn many(sources: Vec<SubStream>) -> Self {
        let tracked = |source: SubStream| {
            let seen = StreamUsage { call: source.call, usage: None, answer_bytes: 0, is_refused: false };
            TrackedStream { source, seen, ended: false }
        };
        let stream = sources.into_iter().map(tracked).collect();
        Self::MergedStream(MergedStream { stream, heavy: None, turn: 0, over: Vec::new() })
    }

    /// What has been seen of each stream of a divided request.
    pub(crate) fn seen(&self) -> Vec<StreamUsage> {
        match self {
            Self::SingleStream(_) => Vec::new(),
            Self::MergedStream(many) => many.seen(),
            Self::Closed(seen) => seen.clone(),
        }
    }

    /// Whether a stream of a divided request has told its usage.
    pub(crate) fn has_usage(&self) -> bool {
        match self {
            Self::SingleStream(_) => false,
            Self::MergedStream(many) => {
                let mut seen = many.stream.iter().map(|tracked| &tracked.seen).chain(&many.over);
                seen.any(|seen| seen.usage.is_some())
            }
            Self::Closed(seen) => seen.iter().any(|seen| seen.usage.is_some()),
        }
    }

    /// Drops the upstream calls.
    pub(crate) fn abandon(&mut self) {
        *self = Self::Closed(self.seen());
    }

    /// Reads the next piece into the normaliser.
    pub(crate) fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<ReadStep> {
        let step = match self {
            Self::SingleStream(one) => std::task::ready!(one.poll_step(cx, normaliser, out)),
            Self::MergedStream(many) => std::task::ready!(many.poll_step(cx, normaliser, out)),
            Self::Closed(_) => return Poll::Ready(ReadStep::Over),
        };
        if step == ReadStep::Over {
            self.finish();
        }
        Poll::Ready(step)
    }

    /// Reads what takes long.
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

    /// Bytes that are kept of events that are not complete.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::SingleStream(one) => one.decoder.held_bytes(),
            Self::MergedStream(many) => {
                many.stream.iter().map(|tracked| tracked.source.decoder.held_bytes()).sum()
            }
            Self::Closed(_) => 0,
        }
    }

    /// Lets go of the upstream. A completely read connection goes back to its pool by itself.
    fn finish(&mut self) {
        let closed = Self::Closed(self.seen());
        match std::mem::replace(self, closed) {
            Self::SingleStream(one) => one.body.finish(),
            // One of them has failed: the others must not go on, for nobody reads them.
            Self::MergedStream(_) | Self::Closed(_) => {}
        }
    }
}

/// Whether reading this takes long enough to make other connections wait.
fn is_heavy(decoder: &dyn StreamDecoder, came: Option<&[u8]>) -> bool {
    let bytes = decoder.held_bytes().saturating_add(came.map_or(0, <[u8]>::len));
    bytes >= HEAVY_BYTES && came.is_none_or(|chunk| decoder.may_complete(chunk))
}

impl SingleStream {
    fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<ReadStep> {
        if self.heavy.is_some() {
            return Poll::Ready(ReadStep::Heavy);
        }
        let came = match std::task::ready!(self.body.poll_chunk(cx)).transpose() {
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
        self.stream.iter().map(|tracked| tracked.seen).chain(self.over.iter().copied()).collect()
    }

    fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<ReadStep> {
        if self.heavy.is_some() {
            return Poll::Ready(ReadStep::Heavy);
        }
        for _ in 0..self.stream.len() {
            let at = self.turn % self.stream.len().max(1);
            self.turn = at + 1;
            let Some(tracked) = self.stream.get_mut(at) else { break };
            let Poll::Ready(read) = tracked.source.body.poll_chunk(cx) else { continue };
            return Poll::Ready(match read.transpose() {
                Ok(came) if is_heavy(&*tracked.source.decoder, came.as_deref()) => {
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

    /// Reads what came of the stream at this place.
    fn read(
        &mut self,
        at: usize,
        came: Option<&[u8]>,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> ReadStep {
        let Some(TrackedStream { source, seen, ended }) = self.stream.get_mut(at) else {
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
        let tracked = self.stream.swap_remove(at);
        self.over.push(tracked.seen);
        tracked.source.body.finish();
    }

    fn step(&self, normaliser: &mut Normaliser) -> ReadStep {
        if self.stream.is_empty() && !normaliser.has_failed() {
            // Every choice must have finished, whatever end markers came.
            normaliser.eof();
        }
        let over = self.stream.is_empty() || normaliser.has_failed();
        if over { ReadStep::Over } else { ReadStep::Progress }
    }
}

/// An event of one of several streams: its choice is moved to its place; usage and ends are put together.
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
        Event::Usage(counted) => seen.usage = Some(counted),
        Event::End => *ended = true,
        Event::Error(failure) => {
            seen.is_refused = is_refusal(failure.kind) && seen.usage.is_none() && seen.answer_bytes == 0;
            normaliser.accept(Event::Error(failure), out);
        }
        event => normaliser.accept(event.shifted(first), out),
    }
}
