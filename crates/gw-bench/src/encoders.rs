//! `gw-bench encoders`: time and memory of a streamed event in each dialect of clients, beside the same event of a chat.
//!
//! The work is the normaliser's: events of an upstream in, the bytes of the client out. The network and the upstream's
//! decoder are the same for all dialects, so they are left out. `--only` leaves one dialect, for a profiler such as
//! `valgrind --tool=callgrind`.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use gw_wire::dialects::{AnswerForm, messages, responses};
use gw_wire::event::Event;
use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Money;
use gw_wire::reply::Finish;
use gw_wire::request::RequestLimits;
use gw_wire::stream::{Closing, Normaliser, Opening, Shape};
use gw_wire::usage::Usage;

use crate::error::Result;

/// Options of `gw-bench encoders`.
#[derive(Args, Debug)]
pub(crate) struct EncoderOptions {
    /// Number of events of a stream.
    #[arg(long, default_value_t = 1_000)]
    events: usize,
    /// Number of streams per figure. The fastest one counts.
    #[arg(long, default_value_t = 2_000)]
    rounds: usize,
    /// Measure only this dialect.
    #[arg(long, value_enum)]
    only: Option<EncodedDialect>,
    /// Measure only this kind of event.
    #[arg(long, value_enum)]
    kind: Option<EventKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EncodedDialect {
    Chat,
    Responses,
    Messages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EventKind {
    Text,
    Reasoning,
    Arguments,
}

const DIALECTS: [EncodedDialect; 3] =
    [EncodedDialect::Chat, EncodedDialect::Responses, EncodedDialect::Messages];
const KINDS: [EventKind; 3] = [EventKind::Text, EventKind::Reasoning, EventKind::Arguments];

/// Returns a table of nanoseconds and allocations of an event.
pub(crate) fn run(options: &EncoderOptions) -> Result<String> {
    let mut report = String::from(
        "| event | dialect | ns, fastest | ratio | allocations in a stream | bytes |\n|---|---|---|---|---|---|\n",
    );
    for kind in KINDS.into_iter().filter(|kind| options.kind.is_none_or(|only| only == *kind)) {
        let mut chat = None;
        for dialect in DIALECTS.into_iter().filter(|dialect| options.only.is_none_or(|only| only == *dialect))
        {
            let form = form(dialect)?;
            let mut out = Vec::new();
            let mut fastest = Duration::MAX;
            for _ in 0..options.rounds.max(1) {
                fastest = fastest.min(time(form.as_ref(), kind, options.events, &mut out));
            }
            let memory = allocation_counter::measure(|| {
                time(form.as_ref(), kind, options.events, &mut out);
            });
            let nanos = fastest.as_secs_f64() * 1e9 / options.events.max(1) as f64;
            let ratio = nanos / *chat.get_or_insert(nanos);
            // Writing to a string cannot fail.
            let _ = writeln!(
                report,
                "| {kind:?} | {dialect:?} | {nanos:.1} | {ratio:.2} | {} | {} |",
                memory.count_total, memory.bytes_total
            );
        }
    }
    Ok(report)
}

/// The form of the answer; None = a chat.
fn form(dialect: EncodedDialect) -> Result<Option<Arc<dyn AnswerForm>>> {
    let limits = RequestLimits::default();
    Ok(match dialect {
        EncodedDialect::Chat => None,
        EncodedDialect::Responses => {
            let body = Bytes::from_static(br#"{"model":"m","input":"hi","stream":true}"#);
            Some(Arc::new(responses::translate(body, &limits, &[])?.context))
        }
        EncodedDialect::Messages => {
            let body =
                br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":true}"#;
            Some(Arc::new(messages::translate(Bytes::from_static(body), &limits)?.context))
        }
    })
}

/// The time of the events of a stream, without its beginning and its end.
fn time(form: Option<&Arc<dyn AnswerForm>>, kind: EventKind, events: usize, out: &mut Vec<u8>) -> Duration {
    let mut normaliser = Normaliser::new(opening(form));
    begin(&mut normaliser, kind, out);
    let begun = Instant::now();
    for _ in 0..events {
        out.clear();
        normaliser.accept(black_box(event(kind)), out);
        black_box(&out);
    }
    let elapsed = begun.elapsed();
    finish(normaliser, out);
    elapsed
}

fn opening(form: Option<&Arc<dyn AnswerForm>>) -> Opening {
    Opening {
        shape: Shape::Chat,
        id: "resp_01a2063a808a74359818b22377042e30".to_owned(),
        created: 1_795_400_827,
        model: "acme/fast".to_owned(),
        choices: 1,
        include_usage: true,
        form: form.cloned(),
        prompt_tokens: 100,
    }
}

/// The events before the first measured one.
fn begin(normaliser: &mut Normaliser, kind: EventKind, out: &mut Vec<u8>) {
    if kind == EventKind::Arguments {
        let (id, name) = ("call_1".into(), "get_weather".into());
        normaliser.accept(Event::ToolStart { choice: 0, call: 0, id, name }, out);
        let fragment = "{\"text\":\"".into();
        normaliser.accept(Event::ToolArgs { choice: 0, call: 0, fragment }, out);
    }
    normaliser.accept(event(kind), out);
}

/// A piece as upstreams send it: about a token.
fn event(kind: EventKind) -> Event<'static> {
    match kind {
        EventKind::Text => Event::Text { choice: 0, text: " weather".into(), logprobs: None },
        EventKind::Reasoning => Event::Reasoning { choice: 0, text: " weather".into() },
        EventKind::Arguments => Event::ToolArgs { choice: 0, call: 0, fragment: " weather".into() },
    }
}

fn finish(mut normaliser: Normaliser, out: &mut Vec<u8>) {
    let name: Arc<str> = "x".into();
    let gateway = GatewayMeta {
        request_id: Arc::clone(&name),
        model_used: Arc::clone(&name),
        provider: name,
        cache_hit: false,
        routing_strategy: "default",
        fallback_used: false,
        latency_ms: 1,
        attempts: Vec::new(),
        warnings: Vec::new(),
        saved: None,
        preset: None,
        prompt_cache: None,
        similar: None,
    };
    normaliser.accept(Event::Finish { choice: 0, reason: Finish::Stop }, out);
    let closing = Closing { usage: Usage::default(), cost: Some(Money::ZERO), gateway: &gateway };
    normaliser.finish(&closing, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound of a streamed event's cost in the other dialects, beside the event of a chat. CPU time differs from run to run,
    /// so this test bounds the work that can be counted: the bytes that are written and the memory that is allocated.
    #[test]
    fn an_event_of_every_dialect_takes_no_allocation_of_its_own() {
        const EVENTS: usize = 1_000;
        for kind in KINDS {
            let measured = DIALECTS.map(|dialect| {
                let form = form(dialect).unwrap();
                let mut out = Vec::with_capacity(1 << 20);
                let mut of_stream = |events: usize| {
                    allocation_counter::measure(|| _ = time(form.as_ref(), kind, events, &mut out))
                        .count_total
                };
                (of_stream(EVENTS), of_stream(2 * EVENTS))
            });
            // Buffers that double cost a few allocations for so many events more, and never one for each event.
            let is_flat = |(short, long): &(u64, u64)| *long <= short + 8;
            assert!(measured.iter().all(is_flat), "{kind:?}: {measured:?} allocations");
        }
    }

    #[test]
    fn an_event_of_a_chat_is_the_longest() {
        for kind in KINDS {
            let lengths = DIALECTS.map(|dialect| {
                let mut normaliser = Normaliser::new(opening(form(dialect).unwrap().as_ref()));
                let mut out = Vec::new();
                begin(&mut normaliser, kind, &mut out);
                out.clear();
                normaliser.accept(event(kind), &mut out);
                out.len()
            });
            let [chat, responses, messages] = lengths;
            assert!(responses * 10 <= chat * 13 && messages * 10 <= chat * 13, "{kind:?}: {lengths:?} bytes");
        }
    }
}
