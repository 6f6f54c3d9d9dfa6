//! The upstream side of a live stream: one body, or one for each part of a request that had to be divided.

use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use gw_providers::adapter::StreamDecoder;
use gw_providers::client::UpstreamBody;
use gw_wire::event::Event;
use gw_wire::stream::Normaliser;
use gw_wire::usage::Usage;

use crate::cpu_pool::HEAVY_BYTES;
use crate::meter::CallId;

/// One upstream stream, and where its choices stand among the answer's.
pub(crate) struct Source {
    pub(crate) call: CallId,
    pub(crate) body: UpstreamBody,
    pub(crate) decoder: Box<dyn StreamDecoder>,
    pub(crate) first: u32,
}

/// All upstream streams of an answer.
pub(crate) enum Sources {
    /// The ordinary case.
    One(One),
    /// A divided request.
    Many(Many),
    /// Read to the end, or let go: what was seen of the streams of a divided request.
    Closed(Vec<Seen>),
}

/// What a body gave: a piece, or its end.
type Came = Option<Bytes>;

/// One stream.
pub(crate) struct One {
    body: UpstreamBody,
    decoder: Box<dyn StreamDecoder>,
    heavy: Option<Came>,
}

/// Several streams that are read as one.
pub(crate) struct Many {
    live: Vec<Tracked>,
    /// What came of one of them and takes long to read.
    heavy: Option<(usize, Came)>,
    /// Whose turn it is: none may starve the others.
    turn: usize,
    /// What the streams that are over used.
    over: Vec<Seen>,
}

struct Tracked {
    source: Source,
    seen: Seen,
    /// Its end marker came.
    ended: bool,
}

/// What has been seen of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) call: CallId,
    /// As the upstream told.
    pub(crate) usage: Option<Usage>,
    /// Bytes of its answer.
    pub(crate) answer_bytes: u64,
}

/// What reading a piece brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes came; whether they meant something is for the normaliser to say.
    Progress,
    /// Bytes came that take long to read: they wait for [`Sources::digest`].
    Heavy,
    /// The stream is over, well or badly: ask the normaliser.
    Over,
}

impl Sources {
    pub(crate) fn one(body: UpstreamBody, decoder: Box<dyn StreamDecoder>) -> Self {
        Self::One(One { body, decoder, heavy: None })
    }

    pub(crate) fn many(sources: Vec<Source>) -> Self {
        let tracked = |source: Source| {
            let seen = Seen { call: source.call, usage: None, answer_bytes: 0 };
            Tracked { source, seen, ended: false }
        };
        let live = sources.into_iter().map(tracked).collect();
        Self::Many(Many { live, heavy: None, turn: 0, over: Vec::new() })
    }

    /// What has been seen of each stream of a divided request.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Many(many) => many.seen(),
            Self::Closed(seen) => seen.clone(),
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
    ) -> Poll<Step> {
        let step = match self {
            Self::One(one) => std::task::ready!(one.poll_step(cx, normaliser, out)),
            Self::Many(many) => std::task::ready!(many.poll_step(cx, normaliser, out)),
            Self::Closed(_) => return Poll::Ready(Step::Over),
        };
        if step == Step::Over {
            self.finish();
        }
        Poll::Ready(step)
    }

    /// Reads what takes long.
    pub(crate) fn digest(&mut self, normaliser: &mut Normaliser, out: &mut Vec<u8>) {
        let step = match self {
            Self::One(one) => one.heavy.take().map(|came| one.read(came.as_deref(), normaliser, out)),
            Self::Many(many) => {
                many.heavy.take().map(|(at, came)| many.read(at, came.as_deref(), normaliser, out))
            }
            Self::Closed(_) => None,
        };
        if step == Some(Step::Over) {
            self.finish();
        }
    }

    /// Bytes that are kept of events that are not complete.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::One(one) => one.decoder.held_bytes(),
            Self::Many(many) => many.live.iter().map(|tracked| tracked.source.decoder.held_bytes()).sum(),
            Self::Closed(_) => 0,
        }
    }

    /// Lets go of the upstream. A completely read connection goes back to its pool by itself.
    fn finish(&mut self) {
        let closed = Self::Closed(self.seen());
        match std::mem::replace(self, closed) {
            Self::One(one) => one.body.finish(),
            Self::Many(many) => many.live.into_iter().for_each(|tracked| tracked.source.body.finish()),
            Self::Closed(_) => {}
        }
    }
}

/// Whether reading this takes long enough to make other connections wait.
fn is_heavy(decoder: &dyn StreamDecoder, came: Option<&[u8]>) -> bool {
    let bytes = decoder.held_bytes().saturating_add(came.map_or(0, <[u8]>::len));
    bytes >= HEAVY_BYTES && came.is_none_or(|chunk| decoder.may_complete(chunk))
}

impl One {
    fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<Step> {
        if self.heavy.is_some() {
            return Poll::Ready(Step::Heavy);
        }
        let came = match std::task::ready!(self.body.poll_chunk(cx)).transpose() {
            Ok(came) => came,
            Err(failure) => {
                normaliser.accept(Event::Error(failure), out);
                return Poll::Ready(Step::Over);
            }
        };
        if is_heavy(&*self.decoder, came.as_deref()) {
            self.heavy = Some(came);
            return Poll::Ready(Step::Heavy);
        }
        Poll::Ready(self.read(came.as_deref(), normaliser, out))
    }

    fn read(&mut self, came: Option<&[u8]>, normaliser: &mut Normaliser, out: &mut Vec<u8>) -> Step {
        let mut accept = |event: Event<'_>| normaliser.accept(event, out);
        match came {
            Some(chunk) => {
                self.decoder.feed(chunk, &mut accept);
                let over = normaliser.is_complete() || normaliser.has_failed();
                if over { Step::Over } else { Step::Progress }
            }
            None => {
                self.decoder.eof(&mut accept);
                normaliser.eof();
                Step::Over
            }
        }
    }
}

impl Many {
    fn seen(&self) -> Vec<Seen> {
        self.live.iter().map(|tracked| tracked.seen).chain(self.over.iter().copied()).collect()
    }

    fn poll_step(
        &mut self,
        cx: &mut TaskContext<'_>,
        normaliser: &mut Normaliser,
        out: &mut Vec<u8>,
    ) -> Poll<Step> {
        if self.heavy.is_some() {
            return Poll::Ready(Step::Heavy);
        }
        for _ in 0..self.live.len() {
            let at = self.turn % self.live.len().max(1);
            self.turn = at + 1;
            let Some(tracked) = self.live.get_mut(at) else { break };
            let Poll::Ready(read) = tracked.source.body.poll_chunk(cx) else { continue };
            return Poll::Ready(match read.transpose() {
                Ok(came) if is_heavy(&*tracked.source.decoder, came.as_deref()) => {
                    self.heavy = Some((at, came));
                    Step::Heavy
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
    ) -> Step {
        let Some(Tracked { source, seen, ended }) = self.live.get_mut(at) else {
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
        let tracked = self.live.swap_remove(at);
        self.over.push(tracked.seen);
        tracked.source.body.finish();
    }

    fn step(&self, normaliser: &mut Normaliser) -> Step {
        if self.live.is_empty() && !normaliser.has_failed() {
            // Every choice must have finished, whatever end markers came.
            normaliser.eof();
        }
        let over = self.live.is_empty() || normaliser.has_failed();
        if over { Step::Over } else { Step::Progress }
    }
}

/// An event of one of several streams: its choice is moved to its place; usage and ends are put together.
fn take(
    event: Event<'_>,
    first: u32,
    seen: &mut Seen,
    ended: &mut bool,
    normaliser: &mut Normaliser,
    out: &mut Vec<u8>,
) {
    seen.answer_bytes += event.answer_bytes();
    match event {
        Event::Usage(counted) => seen.usage = Some(counted),
        Event::End => *ended = true,
        event => normaliser.accept(event.with_choice_offset(first), out),
    }
}
