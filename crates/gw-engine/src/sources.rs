//! The upstream side of a live stream: one body, or one for each part of a request that had to be divided.

use std::task::{Context as TaskContext, Poll};

use gw_providers::adapter::StreamDecoder;
use gw_providers::client::UpstreamBody;
use gw_wire::event::Event;
use gw_wire::stream::Normaliser;
use gw_wire::usage::Usage;

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
    One(UpstreamBody, Box<dyn StreamDecoder>),
    /// A divided request.
    Many(Many),
    /// Read to the end, or let go: what was seen of the streams of a divided request.
    Closed(Vec<Seen>),
}

/// Several streams that are read as one.
pub(crate) struct Many {
    live: Vec<Tracked>,
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
    /// The stream is over, well or badly: ask the normaliser.
    Over,
}

impl Sources {
    pub(crate) fn many(sources: Vec<Source>) -> Self {
        let tracked = |source: Source| {
            let seen = Seen { call: source.call, usage: None, answer_bytes: 0 };
            Tracked { source, seen, ended: false }
        };
        Self::Many(Many { live: sources.into_iter().map(tracked).collect(), turn: 0, over: Vec::new() })
    }

    /// What has been seen of each stream of a divided request.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        match self {
            Self::One(..) => Vec::new(),
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
            Self::One(body, decoder) => std::task::ready!(poll_one(body, decoder, cx, normaliser, out)),
            Self::Many(many) => std::task::ready!(many.poll_step(cx, normaliser, out)),
            Self::Closed(_) => return Poll::Ready(Step::Over),
        };
        if step == Step::Over {
            self.finish();
        }
        Poll::Ready(step)
    }

    /// Bytes that are kept of events that are not complete.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::One(_, decoder) => decoder.held_bytes(),
            Self::Many(many) => many.live.iter().map(|tracked| tracked.source.decoder.held_bytes()).sum(),
            Self::Closed(_) => 0,
        }
    }

    /// Lets go of the upstream. A completely read connection goes back to its pool by itself.
    fn finish(&mut self) {
        let closed = Self::Closed(self.seen());
        match std::mem::replace(self, closed) {
            Self::One(body, _) => body.finish(),
            Self::Many(many) => many.live.into_iter().for_each(|tracked| tracked.source.body.finish()),
            Self::Closed(_) => {}
        }
    }
}

fn poll_one(
    body: &mut UpstreamBody,
    decoder: &mut Box<dyn StreamDecoder>,
    cx: &mut TaskContext<'_>,
    normaliser: &mut Normaliser,
    out: &mut Vec<u8>,
) -> Poll<Step> {
    Poll::Ready(match std::task::ready!(body.poll_chunk(cx)) {
        Some(Ok(chunk)) => {
            decoder.feed(&chunk, &mut |event| normaliser.accept(event, out));
            let over = normaliser.is_complete() || normaliser.has_failed();
            if over { Step::Over } else { Step::Progress }
        }
        Some(Err(failure)) => {
            normaliser.accept(Event::Error(failure), out);
            Step::Over
        }
        None => {
            decoder.eof(&mut |event| normaliser.accept(event, out));
            normaliser.eof();
            Step::Over
        }
    })
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
        for _ in 0..self.live.len() {
            let at = self.turn % self.live.len().max(1);
            self.turn = at + 1;
            let Some(tracked) = self.live.get_mut(at) else { break };
            let Poll::Ready(read) = tracked.source.body.poll_chunk(cx) else { continue };
            let Tracked { source, seen, ended } = tracked;
            let first = source.first;
            let mut accept = |event: Event<'_>| take(event, first, seen, ended, normaliser, out);
            let over = match read {
                Some(Ok(chunk)) => {
                    source.decoder.feed(&chunk, &mut accept);
                    *ended
                }
                Some(Err(failure)) => {
                    accept(Event::Error(failure));
                    true
                }
                None => {
                    source.decoder.eof(&mut accept);
                    true
                }
            };
            if over {
                let tracked = self.live.swap_remove(at);
                self.over.push(tracked.seen);
                tracked.source.body.finish();
            }
            return Poll::Ready(self.step(normaliser));
        }
        Poll::Pending
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
        event => normaliser.accept(event.shifted(first), out),
    }
}
