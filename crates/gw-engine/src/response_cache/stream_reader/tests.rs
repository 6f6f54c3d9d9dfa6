//! Readers of one log: their own dialects, their bounds, and damaged logs.

use std::future::poll_fn;
use std::sync::Arc;

use gw_wire::dialects::{AnswerForm, ClientDialect, EncoderOpening, StreamError};
use gw_wire::event::Event;
use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Money;
use gw_wire::render::Envelope;
use gw_wire::reply::{ChatReply, Finish};
use gw_wire::stream::{Shape, close_with_error};
use gw_wire::usage::Usage;

use super::*;

/// A dialect with one line for each piece of text.
#[derive(Clone, Debug)]
struct Lines {
    id: String,
}

impl AnswerForm for Lines {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::Messages
    }

    fn encoder(&self, opening: EncoderOpening) -> Box<dyn AnswerEncoder> {
        Box::new(Self { id: opening.id })
    }

    fn write(&self, _: &ChatReply<'_>, _: &Envelope<'_>) -> Vec<u8> {
        Vec::new()
    }
}

impl AnswerEncoder for Lines {
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let Event::Text { text, .. } = event {
            out.extend_from_slice(format!("{}: {text}\n", self.id).as_bytes());
        }
    }

    fn finish(&mut self, finish: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        let (finish, request) = (finish.map_or("none", Finish::as_str), &closing.gateway.request_id);
        out.extend_from_slice(format!("{}: {finish} {request}\n", self.id).as_bytes());
    }

    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{}: error {}\n", self.id, error.code).as_bytes());
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"alive\n");
    }

    fn closer(&self) -> Box<dyn AnswerEncoder> {
        Box::new(self.clone())
    }

    fn boxed_clone(&self) -> Box<dyn AnswerEncoder> {
        Box::new(self.clone())
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

fn opening(id: &str, form: Option<Arc<dyn AnswerForm>>) -> Opening {
    let (id, model) = (id.to_owned(), "m".to_owned());
    Opening {
        shape: Shape::Chat,
        id,
        created: 1,
        model,
        choices: 1,
        include_usage: false,
        form,
        prompt_tokens: 1,
    }
}

fn reader(opening: Opening, max_event_bytes: usize) -> StreamReader {
    StreamReader::new(opening, max_event_bytes, CpuPool::default(), memory_of(&EventMemory::default()))
}

fn memory_of(events: &EventMemory) -> ReaderMemory {
    ReaderMemory { events: events.clone(), key_id: "key".into() }
}

fn lines(id: &str) -> StreamReader {
    reader(opening(id, Some(Arc::new(Lines { id: String::new() }))), usize::MAX)
}

fn text(text: &str) -> Event<'_> {
    Event::Text { choice: 0, text: text.into(), logprobs: None }
}

/// The log of a shared stream, in pieces: one for each text, and the end.
fn recorded(texts: &[&str]) -> Vec<Bytes> {
    let mut shared = Normaliser::recording(opening("call", None));
    let mut piece = |event: Event<'_>| {
        let mut log = Vec::new();
        shared.accept(event, &mut log);
        Bytes::from(log)
    };
    let mut pieces: Vec<_> = texts.iter().map(|part| piece(text(part))).collect();
    piece(Event::Finish { choice: 0, reason: Finish::Stop });
    piece(Event::End);
    let mut end = Vec::new();
    shared.finish_recording(&mut end);
    pieces.push(end.into());
    pieces
}

async fn read(reader: &mut StreamReader, piece: &Bytes) -> Result<String, ReadFault> {
    let output = match reader.read(piece.clone()) {
        Some(output) => output,
        None => poll_fn(|cx| reader.poll_reading(cx)).await.unwrap(),
    };
    output.map(|output| String::from_utf8(output.to_vec()).unwrap())
}

async fn read_all(reader: &mut StreamReader, pieces: &[Bytes]) -> String {
    let mut all = String::new();
    for piece in pieces {
        all += &read(reader, piece).await.unwrap();
    }
    all
}

fn finished(reader: &mut StreamReader, request: &str) -> String {
    let gateway = GatewayMeta {
        request_id: Arc::from(request),
        model_used: Arc::from("a/b"),
        provider: Arc::from("a"),
        cache_hit: false,
        routing_strategy: "fixed",
        fallback_used: false,
        latency_ms: 1,
        attempts: Vec::new(),
        warnings: Vec::new(),
        saved: None,
        preset: None,
        prompt_cache: None,
        similar: None,
    };
    let mut out = Vec::new();
    let closing = Closing { usage: Usage::default(), cost: Some(Money::ZERO), gateway: &gateway };
    out.extend_from_slice(&reader.finish(&closing).unwrap());
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn each_reader_writes_its_own_dialect() {
    let pieces = recorded(&["The sea ", "is deep."]);
    let mut chat = reader(opening("chat-1", None), usize::MAX);
    let out = read_all(&mut chat, &pieces).await;
    assert_eq!((out.matches("\"id\":\"chat-1\"").count(), out.matches("\"role\"").count()), (3, 1), "{out}");
    assert!(chat.is_complete());
    let end = finished(&mut chat, "req_1");
    assert!(end.contains("\"finish_reason\":\"stop\"") && end.contains("req_1"), "{end}");
    let mut other = lines("msg-2");
    assert_eq!(read_all(&mut other, &pieces).await, "msg-2: The sea \nmsg-2: is deep.\n");
    assert_eq!(finished(&mut other, "req_2"), "msg-2: stop req_2\n");
}

#[tokio::test]
async fn a_reader_is_kept_awake_and_fails_in_its_own_dialect_while_the_pool_reads() {
    let pieces = recorded(&[&"x".repeat(HEAVY_BYTES)]);
    let mut busy = lines("msg-1");
    assert!(busy.read(pieces[0].clone()).is_none(), "the CPU pool reads it");
    let mut out = Vec::new();
    busy.keepalive(&mut out);
    let error = StreamError::new("late", "upstream_error", "upstream_timeout");
    close_with_error(busy.take_encoder(), &mut out, &error);
    assert_eq!(String::from_utf8(out).unwrap(), "alive\nmsg-1: error upstream_timeout\n");
}

#[tokio::test]
async fn an_event_beyond_the_bound_is_refused_by_its_length_in_the_log_and_for_the_client() {
    for (text, is_refused) in
        [("x".repeat(100), false), ("x".repeat(2000), true), ("\u{1}".repeat(300), true)]
    {
        let pieces = recorded(&["begin", &text]);
        let mut follower = reader(opening("chat-1", None), 1000);
        assert!(read(&mut follower, &pieces[0]).await.is_ok());
        let read = read(&mut follower, &pieces[1]).await;
        assert_eq!(read.err(), is_refused.then_some(ReadFault::TooLarge), "{} bytes", text.len());
    }
}

#[tokio::test]
async fn a_large_piece_is_counted_until_the_client_has_it() {
    let memory = EventMemory::default();
    let pieces = recorded(&[&"x".repeat(SMALL_EVENT)]);
    let mut leader =
        StreamReader::new(opening("chat-1", None), usize::MAX, CpuPool::default(), memory_of(&memory));
    let output = leader.read(pieces[0].clone()).unwrap().unwrap();
    assert!(memory.gauge().get() >= SMALL_EVENT as i64);
    drop(output);
    assert_eq!(memory.gauge().get(), 0);
}

#[tokio::test]
async fn a_damaged_log_ends_the_stream() {
    let pieces = recorded(&["The sea"]);
    let cut = pieces[0].slice(..pieces[0].len() - 1);
    assert_eq!(read(&mut lines("msg-1"), &cut).await, Err(ReadFault::Damaged));
    // An event of a choice that the request has not asked for.
    let mut log = Vec::new();
    log::write(&Event::Text { choice: 1, text: "x".into(), logprobs: None }, &mut log);
    let mut chat = reader(opening("chat-1", None), usize::MAX);
    assert_eq!(read(&mut chat, &Bytes::from(log)).await, Err(ReadFault::Damaged));
}
