//! A live upstream stream: opened by an attempt, read until its first content, then handed to the client's body.

use std::borrow::Cow;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use gw_providers::adapter::{Encoded, Reading, StreamDecoder};
use gw_providers::client::UpstreamResponse;
use gw_providers::settings::Timeouts;
use gw_routing::metrics::InFlight;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatReply, Finish, TextReply};
use gw_wire::stream::{Normaliser, Opening, Shape};
use gw_wire::usage::BYTES_PER_TOKEN;

use crate::attempts::Call;
use crate::cpu_pool::{is_heavy, offload, offload_if};
use crate::event_memory::{HalfEvent, SMALL_EVENT};
use crate::job::{Job, MAX_ANSWER_BYTES};
use crate::meter::{Bill, CallId, Meter, Started};
use crate::plan::Candidate;
use crate::share::Part;
use crate::sources::{Seen, Source, Sources, Step};
use crate::stream::Funds;

/// Pieces without content that are read before others have their turn.
const STEPS_A_POLL: usize = 64;

/// An upstream stream under way.
pub(crate) struct Live {
    pub(crate) candidate: Candidate,
    pub(crate) started: Started,
    /// From the call to its first content.
    pub(crate) first_content: Duration,
    pub(crate) normaliser: Normaliser,
    /// What the client has not been given yet.
    pub(crate) out: Vec<u8>,
    /// What the candidate could not be told, for `gateway.warnings`.
    pub(crate) warnings: Vec<Cow<'static, str>>,
    /// The candidate's place in the plan.
    pub(crate) index: usize,
    /// Counts it as in flight.
    pub(crate) flying: Option<InFlight>,
    sources: Sources,
    /// The upstream call, if there is one only.
    call: Option<CallId>,
    half_event: HalfEvent,
    /// What is set aside, where a budget must not be crossed.
    pub(crate) funds: Option<Funds>,
    /// The bytes of the answer at which its progress is noted next, and from one note to the next.
    notes: (u64, u64),
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("candidate", &self.candidate).finish_non_exhaustive()
    }
}

impl Live {
    /// Reads the next piece.
    pub(crate) fn poll_step(&mut self, cx: &mut TaskContext<'_>) -> Poll<Step> {
        let step = self.sources.poll_step(cx, &mut self.normaliser, &mut self.out);
        if step.is_ready() {
            self.count_large();
        }
        step
    }

    /// Reads what takes long ([`Step::Heavy`]).
    pub(crate) fn digest(&mut self) {
        self.sources.digest(&mut self.normaliser, &mut self.out);
        self.count_large();
    }

    /// Gives what the client has not been given yet. It is not counted here any more.
    pub(crate) fn take_out(&mut self) -> Vec<u8> {
        let out = std::mem::take(&mut self.out);
        self.count_large();
        out
    }

    /// The client is gone: drops the output that waits for it.
    pub(crate) fn forget_out(&mut self) {
        if self.out.capacity() > SMALL_EVENT {
            drop(self.take_out());
        }
        self.out.clear();
    }

    /// Counts what is large of what it holds: an event that is not complete, and what waits for the client.
    fn count_large(&mut self) {
        let large = |bytes: usize| if bytes > SMALL_EVENT { bytes } else { 0 };
        let held = large(self.sources.held_bytes()).saturating_add(large(self.out.capacity()));
        if self.half_event.set(held).is_err() {
            let message = "The gateway is holding as many large events as it can; the stream was cut.";
            let failure = Failure::new(FailureKind::StreamBroken, message);
            self.normaliser.accept(Event::Error(failure), &mut self.out);
            self.abandon();
        }
    }

    /// It is over after so many tokens: how fast it was.
    pub(crate) fn spoke(&self, tokens: u64) {
        let over = self.started.elapsed().saturating_sub(self.first_content);
        self.candidate.model.measured.record_speed(tokens, over, Instant::now());
    }

    /// Drops the upstream call at once.
    pub(crate) fn abandon(&mut self) {
        self.sources.abandon();
    }

    /// Has its progress noted in the journal, at least every so many tokens.
    pub(crate) fn note_every(&mut self, tokens: u64) {
        let bytes = tokens.max(1).saturating_mul(BYTES_PER_TOKEN);
        self.notes = (self.normaliser.answer_bytes().saturating_add(bytes), bytes);
    }

    /// Notes the progress, when it is time. A process that dies afterwards is charged so much at least.
    pub(crate) fn note(&mut self, call: &mut Call) {
        let (due, every) = self.notes;
        let bytes = self.normaliser.answer_bytes();
        if bytes >= due {
            self.notes.0 = bytes.saturating_add(every);
            let bill = self.meter(&call.job.meter);
            call.tally.account.progress(&self.candidate, &bill.usage);
        }
    }

    /// Tells the meter what has been seen by now; gives what the attempt has used.
    pub(crate) fn meter(&self, meter: &Meter) -> Bill {
        if let Some(call) = self.call {
            meter.saw(call, self.normaliser.reported_usage(), self.normaliser.answer_bytes());
        }
        for Seen { call, usage, answer_bytes } in self.sources.seen() {
            meter.saw(call, usage, answer_bytes);
        }
        meter.of(self.started)
    }
}

/// Opens a stream on a candidate and reads until its first content, its end or its failure.
pub(crate) async fn open(job: &Job, candidate: &Candidate, started: Started) -> Result<Live, Failure> {
    let clocks = job.clocks(candidate);
    let first_token_by = started.at + clocks.first_token;
    let mut parts = job.encode(candidate, job.ask.parts(candidate), &clocks).await?;
    let opened = if parts.len() == 1
        && let Some(part) = parts.pop()
    {
        vec![one(job, candidate, started, part, clocks).await?]
    } else {
        try_join_all(parts.into_iter().map(|part| one(job, candidate, started, part, clocks))).await?
    };
    let opening = job.opening(candidate.model.upstream_model.to_string());
    let is_chat = opening.shape == Shape::Chat;
    let mut live = Live {
        candidate: candidate.clone(),
        started,
        first_content: Duration::ZERO,
        normaliser: normaliser(job, opening),
        index: 0,
        out: Vec::with_capacity(1024),
        warnings: Vec::new(),
        flying: None,
        sources: Sources::Closed(Vec::new()),
        call: None,
        funds: None,
        notes: (u64::MAX, u64::MAX),
        half_event: job.snapshot.state.event_memory.half_event(),
    };
    if let [only] = opened.as_slice() {
        live.call = Some(only.call);
    }
    live.warnings = begin(job, &mut live, opened, is_chat, &clocks).await?;
    let read = read_to_first_content(&mut live, first_token_by).await;
    if let Err(failure) = read {
        live.meter(&job.meter);
        if let Some(call) = live.call {
            job.meter.failed(call, &failure);
        }
        return Err(failure);
    }
    live.first_content = started.elapsed();
    Ok(live)
}

/// One upstream call of the attempt, answered with success.
struct Opened {
    call: CallId,
    response: UpstreamResponse,
    reading: Reading,
    warnings: Vec<Cow<'static, str>>,
    first: u32,
}

async fn one(
    job: &Job,
    candidate: &Candidate,
    started: Started,
    (part, encoded): (Part, Encoded),
    clocks: Timeouts,
) -> Result<Opened, Failure> {
    let call = job.meter.begin(started, candidate, job.ask.size_of(candidate, &part));
    let response = job.send(candidate, call, encoded.call, &clocks).await?;
    Ok(Opened { call, response, reading: encoded.reading, warnings: encoded.warnings, first: part.first })
}

/// Makes the live stream of the answers' bodies; gives the warnings.
async fn begin(
    job: &Job,
    live: &mut Live,
    mut opened: Vec<Opened>,
    is_chat: bool,
    clocks: &Timeouts,
) -> Result<Vec<Cow<'static, str>>, Failure> {
    let candidate = live.candidate.clone();
    let adapter = candidate.provider.adapter();
    let decoder = |reading: &Reading| {
        if is_chat { adapter.chat_stream(reading) } else { adapter.completion_stream(reading) }
    };
    let is_json = |opened: &Opened| {
        let kind = opened.response.headers.get(http::header::CONTENT_TYPE);
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
    };
    if opened.len() == 1
        && let Some(only) = opened.pop()
    {
        if is_json(&only) {
            // Some upstreams answer a streamed request with a whole document: an error, or the complete answer.
            let deadline = job.deadline(clocks);
            let body = only.response.body.collect(MAX_ANSWER_BYTES, clocks.idle, deadline).await?;
            let read = || {
                replay(live, &candidate, is_chat, &body, &only.reading)
                    .or_else(|failure| play_stream(live, decoder(&only.reading), &body, failure))
            };
            offload_if(is_heavy(&body), read)
                .await
                .inspect_err(|failure| job.meter.failed(only.call, failure))?;
        } else {
            live.sources = Sources::one(only.response.body, decoder(&only.reading));
        }
        return Ok(only.warnings);
    }
    let warnings = opened.first_mut().map(|first| std::mem::take(&mut first.warnings)).unwrap_or_default();
    let source = |opened: Opened| Source {
        call: opened.call,
        decoder: decoder(&opened.reading),
        body: opened.response.body,
        first: opened.first,
    };
    live.sources = Sources::many(opened.into_iter().map(source).collect());
    Ok(warnings)
}

/// The normaliser of a new stream, or of one that goes on for another.
fn normaliser(job: &Job, opening: Opening) -> Normaliser {
    match &job.resume {
        Some(resume) => resume.normaliser(),
        None if job.snapshot.routing.continue_mid_stream => Normaliser::new(opening).with_kept_text(),
        None => Normaliser::new(opening),
    }
}

async fn read_to_first_content(live: &mut Live, by: Instant) -> Result<(), Failure> {
    let reading = async {
        while let Step::Heavy = poll_to_first_content(live, by).await? {
            offload(|| live.digest()).await;
        }
        Ok(())
    };
    tokio::time::timeout_at(by.into(), reading).await.unwrap_or_else(|_| Err(late()))
}

/// Reads until the first content, or what takes long to read.
fn poll_to_first_content(live: &mut Live, by: Instant) -> impl Future<Output = Result<Step, Failure>> {
    std::future::poll_fn(move |cx| {
        for _ in 0..STEPS_A_POLL {
            // Content first: whether a failure behind it came in the same read must not change what the client gets.
            if live.normaliser.has_content() || live.normaliser.is_complete() {
                return Poll::Ready(Ok(Step::Progress));
            }
            if let Some(failure) = live.normaliser.take_failure() {
                return Poll::Ready(Err(failure));
            }
            match live.poll_step(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Step::Heavy) => return Poll::Ready(Ok(Step::Heavy)),
                Poll::Ready(Step::Progress | Step::Over) => {}
            }
            // An upstream that sends without a pause never leaves the word to the timer.
            if Instant::now() >= by && !live.normaliser.has_content() {
                return Poll::Ready(Err(late()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

fn late() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream did not send a first token in time.")
}

/// Plays what was announced as a document but is a stream after all: lines or events under the wrong name. `failure` is
/// what is wrong with it as a document.
fn play_stream(
    live: &mut Live,
    mut decoder: Box<dyn StreamDecoder>,
    body: &[u8],
    failure: Failure,
) -> Result<(), Failure> {
    if failure.kind != FailureKind::InvalidResponse {
        return Err(failure);
    }
    let Live { normaliser, out, .. } = live;
    decoder.feed(body, &mut |event| normaliser.accept(event, out));
    decoder.eof(&mut |event| normaliser.accept(event, out));
    normaliser.eof();
    if normaliser.has_content() || normaliser.is_complete() { Ok(()) } else { Err(failure) }
}

/// Plays a whole answer as the events of a stream.
fn replay(
    live: &mut Live,
    candidate: &Candidate,
    is_chat: bool,
    body: &Bytes,
    reading: &Reading,
) -> Result<(), Failure> {
    let adapter = candidate.provider.adapter();
    let Live { normaliser, out, .. } = live;
    let mut play = |event: Event<'_>| normaliser.accept(event, out);
    if is_chat {
        replay_chat(adapter.decode_chat(body, reading)?, &mut play);
    } else {
        replay_text(adapter.decode_completion(body, reading)?, &mut play);
    }
    Ok(())
}

pub(crate) fn replay_chat(reply: ChatReply<'_>, play: &mut dyn FnMut(Event<'_>)) {
    play(Event::Start { model: reply.model, fingerprint: reply.fingerprint });
    for choice in reply.choices {
        let index = choice.index;
        if let Some(text) = choice.reasoning {
            play(Event::Reasoning { choice: index, text });
        }
        if let Some(text) = choice.content {
            play(Event::Text { choice: index, text, logprobs: choice.logprobs.as_deref() });
        }
        if let Some(text) = choice.refusal {
            play(Event::Refusal { choice: index, text });
        }
        let made = if choice.tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        for (position, call) in (0u32..).zip(choice.tool_calls) {
            play(match call.custom {
                false => Event::ToolStart { choice: index, call: position, id: call.id, name: call.name },
                true => Event::CustomStart { choice: index, call: position, id: call.id, name: call.name },
            });
            play(Event::ToolArgs { choice: index, call: position, fragment: call.arguments });
        }
        if let Some((name, arguments)) = choice.function_call {
            play(Event::FunctionCall { choice: index, name: Some(name), arguments: Some(arguments) });
        }
        for image in choice.images {
            play(Event::Image { choice: index, image });
        }
        for (name, value) in &choice.extras {
            play(Event::Extra { choice: index, name, value });
        }
        play(Event::Finish { choice: index, reason: choice.finish.unwrap_or(made) });
    }
    for (name, value) in &reply.members {
        play(Event::Member { name, value });
    }
    if let Some(usage) = reply.usage {
        play(Event::Usage(usage));
    }
    play(Event::End);
}

pub(crate) fn replay_text(reply: TextReply<'_>, play: &mut dyn FnMut(Event<'_>)) {
    play(Event::Start { model: reply.model, fingerprint: None });
    for choice in reply.choices {
        play(Event::Text { choice: choice.index, text: choice.text, logprobs: choice.logprobs.as_deref() });
        play(Event::Finish { choice: choice.index, reason: choice.finish.unwrap_or(Finish::Stop) });
    }
    if let Some(usage) = reply.usage {
        play(Event::Usage(usage));
    }
    play(Event::End);
}
