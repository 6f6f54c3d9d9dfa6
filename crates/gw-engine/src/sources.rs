//! The upstream side of a live stream: one body, or one for each part of a request that had to be divided.

use std::task::{Context as TaskContext, Poll};

use gw_providers::adapter::StreamDecoder;
use gw_providers::client::UpstreamBody;
use gw_wire::event::Event;
use gw_wire::stream::Normaliser;
use gw_wire::usage::Usage;

use crate::whole::sum;

/// One upstream stream, and where its choices stand among the answer's.
pub(crate) struct Source {
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
    /// Read to the end, or let go.
    Closed,
}

/// Several streams that are read as one.
pub(crate) struct Many {
    live: Vec<Tracked>,
    /// Whose turn it is: none may starve the others.
    turn: usize,
    /// What the streams that are over used.
    used: Option<Usage>,
}

struct Tracked {
    source: Source,
    usage: Option<Usage>,
    /// Its end marker came.
    ended: bool,
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
        let live = sources.into_iter().map(|source| Tracked { source, usage: None, ended: false }).collect();
        Self::Many(Many { live, turn: 0, used: Some(Usage::default()) })
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
            Self::Closed => return Poll::Ready(Step::Over),
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
            Self::Closed => 0,
        }
    }

    /// Lets go of the upstream. A completely read connection goes back to its pool by itself.
    fn finish(&mut self) {
        match std::mem::replace(self, Self::Closed) {
            Self::One(body, _) => body.finish(),
            Self::Many(many) => many.live.into_iter().for_each(|tracked| tracked.source.body.finish()),
            Self::Closed => {}
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
            let Tracked { source, usage, ended } = tracked;
            let first = source.first;
            let mut accept = |event: Event<'_>| take(event, first, usage, ended, normaliser, out);
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
                self.used = sum(self.used, tracked.usage);
                tracked.source.body.finish();
            }
            return Poll::Ready(self.step(normaliser, out));
        }
        Poll::Pending
    }

    fn step(&self, normaliser: &mut Normaliser, out: &mut Vec<u8>) -> Step {
        if self.live.is_empty() && !normaliser.has_failed() {
            if let Some(used) = self.used {
                normaliser.accept(Event::Usage(used), out);
            }
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
    usage: &mut Option<Usage>,
    ended: &mut bool,
    normaliser: &mut Normaliser,
    out: &mut Vec<u8>,
) {
    match event {
        Event::Usage(counted) => *usage = Some(counted),
        Event::End => *ended = true,
        event => normaliser.accept(event.shifted(first), out),
    }
}
