//! Reads the log of a shared call's events, and writes the stream of one client.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use gw_wire::dialects::AnswerEncoder;
use gw_wire::event::log;
use gw_wire::stream::{Closing, KEEPALIVE, Normaliser, Opening};

use crate::cpu_pool::{CpuPool, HEAVY_BYTES, offload};
use crate::error::{Error, Kind};
use crate::event_memory::{EventMemory, Full, HalfEvent, SMALL_EVENT, take_small};
use crate::response_cache::shared_answer::gone;

/// A fault that ends the stream of one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFault {
    /// An event is too large to be written again for each reader.
    TooLarge,
    MemoryFull,
    /// The log is no stream of this request. It would be a fault of the gateway.
    Damaged,
}

impl ReadFault {
    pub(crate) fn error(self) -> Error {
        let message = match self {
            Self::TooLarge => "The answer holds an event that is too large to be shared; the stream was cut.",
            Self::MemoryFull => "The gateway is holding as many large events as it can; the stream was cut.",
            Self::Damaged => return gone(),
        };
        Error::new(Kind::UpstreamStreamError, message)
    }
}

/// The stream of one client.
pub(crate) struct StreamReader {
    /// None while the CPU pool reads a large piece.
    writer: Option<Box<ClientWriter>>,
    reading: Option<PendingRead>,
    /// Ends the stream with an error while the CPU pool reads.
    closer: Option<Box<dyn AnswerEncoder>>,
    cpu: CpuPool,
    memory: ReaderMemory,
    /// The content that the client's encoder keeps.
    kept: HalfEvent,
}

/// The memory for large events, and the id of the key that uses it.
#[derive(Clone, Debug)]
pub(crate) struct ReaderMemory {
    pub(crate) events: EventMemory,
    pub(crate) key_id: Arc<str>,
}

/// Writes the client's frames.
struct ClientWriter {
    normaliser: Normaliser,
    /// The output that the client has not been sent yet.
    output: Vec<u8>,
    /// The largest event that is written for the client.
    max_event_bytes: usize,
}

/// Holds the memory in which the end of the stream is written.
fn hold_ending(kept: &mut HalfEvent, normaliser: &Normaliser) -> Result<(), Full> {
    kept.set(normaliser.member_bytes().saturating_add(normaliser.ending_bytes()))
}

/// A large piece that the CPU pool reads.
type PendingRead = Pin<Box<dyn Future<Output = (Box<ClientWriter>, Result<(), ReadFault>)> + Send>>;

impl ClientWriter {
    fn read(&mut self, piece: &[u8]) -> Result<(), ReadFault> {
        let mut events = log::read(piece);
        loop {
            let (unread, written) = (events.unread_bytes(), self.output.len());
            let Some(event) = events.next() else { return Ok(()) };
            let event = event.map_err(|_| ReadFault::Damaged)?;
            if unread - events.unread_bytes() > self.max_event_bytes {
                return Err(ReadFault::TooLarge);
            }
            self.normaliser.accept(event, &mut self.output);
            if self.normaliser.has_failed() {
                return Err(ReadFault::Damaged);
            }
            if self.output.len() - written > self.max_event_bytes {
                return Err(ReadFault::TooLarge);
            }
        }
    }
}

impl StreamReader {
    /// A reader that has read nothing. Events of at most `max_event_bytes` are written for the client.
    pub(crate) fn new(opening: Opening, max_event_bytes: usize, cpu: CpuPool, memory: ReaderMemory) -> Self {
        let normaliser = Normaliser::new(opening);
        let writer = Box::new(ClientWriter { normaliser, output: Vec::new(), max_event_bytes });
        let kept = memory.events.half_event(&memory.key_id);
        Self { writer: Some(writer), reading: None, closer: None, cpu, memory, kept }
    }

    /// Reads a piece; None = the CPU pool reads it, because it is large.
    pub(crate) fn read(&mut self, piece: Bytes) -> Option<Result<Bytes, ReadFault>> {
        let mut writer = self.writer.take()?;
        if piece.len() < HEAVY_BYTES {
            let read = writer.read(&piece);
            return Some(self.end_read(writer, read));
        }
        self.closer = writer.normaliser.closer();
        self.reading = Some(Box::pin(self.cpu.host(async move {
            let read = offload(|| writer.read(&piece)).await;
            (writer, read)
        })));
        None
    }

    /// Waits for the large piece that is being read; None = there is none.
    pub(crate) fn poll_reading(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReadFault>>> {
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let (writer, read) = std::task::ready!(reading.as_mut().poll(cx));
        self.reading = None;
        Poll::Ready(Some(self.end_read(writer, read)))
    }

    /// Takes the output of a piece. A large one is counted until the client has it.
    fn end_read(
        &mut self,
        writer: Box<ClientWriter>,
        read: Result<(), ReadFault>,
    ) -> Result<Bytes, ReadFault> {
        let kept = self.kept.set(writer.normaliser.member_bytes()).map_err(|Full| ReadFault::MemoryFull);
        let output = &mut self.writer.insert(writer).output;
        let read = read.and(kept);
        if read.is_err() {
            *output = Vec::new();
        }
        read?;
        if output.len() <= SMALL_EVENT {
            return Ok(take_small(output));
        }
        let ReaderMemory { events, key_id } = &self.memory;
        events.hand_out(key_id, std::mem::take(output)).map_err(|Full| ReadFault::MemoryFull)
    }

    /// Whether the whole answer has been read.
    pub(crate) fn is_complete(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.normaliser.is_complete())
    }

    /// Writes the end of a complete answer.
    ///
    /// # Errors
    /// There is no memory for a large end.
    pub(crate) fn finish(&mut self, closing: &Closing<'_>) -> Result<Bytes, ReadFault> {
        let mut out = Vec::with_capacity(1024);
        if let Some(writer) = &mut self.writer {
            hold_ending(&mut self.kept, &writer.normaliser).map_err(|Full| ReadFault::MemoryFull)?;
            writer.normaliser.finish(closing, &mut out);
        }
        Ok(self.hand_out_end(out))
    }

    /// Hands the last frame to the client. A large frame counts until the client has it.
    pub(crate) fn hand_out_end(&mut self, out: Vec<u8>) -> Bytes {
        self.kept.take().hand_out(out)
    }

    /// Writes the usage of an answer that ends early.
    pub(crate) fn write_usage(&self, closing: &Closing<'_>, out: &mut Vec<u8>) {
        if let Some(writer) = &self.writer {
            writer.normaliser.write_usage(closing, out);
        }
    }

    /// Takes the encoder that ends the stream with an error. None = the client speaks OpenAI's dialect.
    pub(crate) fn take_encoder(&mut self) -> Option<Box<dyn AnswerEncoder>> {
        match &mut self.writer {
            // Without room for the content so far, the stream ends without repeating it.
            Some(writer) => match hold_ending(&mut self.kept, &writer.normaliser) {
                Ok(()) => writer.normaliser.take_encoder(),
                Err(Full) => writer.normaliser.closer(),
            },
            None => self.closer.take(),
        }
    }

    /// Writes a sign of life in the client's dialect.
    pub(crate) fn keepalive(&mut self, out: &mut Vec<u8>) {
        match (&mut self.writer, &mut self.closer) {
            (Some(writer), _) => writer.normaliser.keepalive(out),
            (None, Some(closer)) => closer.keepalive(out),
            (None, None) => out.extend_from_slice(KEEPALIVE),
        }
    }
}

#[cfg(test)]
mod tests;
