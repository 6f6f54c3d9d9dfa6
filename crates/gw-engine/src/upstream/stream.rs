//! An upstream stream: an attempt opens it and reads it to its first content; then the client's body reads it.

mod read_ahead;

use std::borrow::Cow;
use std::future::Future;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_providers::adapter::{Reading, StreamDecoder};
use gw_providers::settings::Timeouts;
use gw_routing::metrics::InFlight;
use gw_wire::dialects::AnswerEncoder;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::stream::{Normaliser, Opening};
use gw_wire::usage::PromptWork;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::stream_reservation::{MARGIN_BYTES, StreamReservation};
use crate::call::upstream_call::{Attempt, BilledUsage, UpstreamCallId, UpstreamCalls};
use crate::clock;
use crate::cpu_pool::{is_heavy, offload, offload_if};
use crate::event_memory::{Full, HalfEvent, SMALL_EVENT};
use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;
use crate::upstream::choices;
use crate::upstream::merge::{ReadStep, StreamUsage, UpstreamSource};
use crate::upstream::opening::{OpenedCall, one};
use crate::upstream::progress_notes::ProgressNotes;
use crate::upstream::replay::{replay_chat, replay_text};

/// Pieces without content that one poll reads before it yields.
const MAX_STEPS_PER_POLL: usize = 64;

/// An open upstream stream.
pub(crate) struct UpstreamStream {
    pub(crate) candidate: Candidate,
    pub(crate) attempt: Attempt,
    /// The time from the call to its first content.
    pub(crate) first_content: Duration,
    pub(crate) normaliser: Normaliser,
    /// The output that the client has not been sent yet.
    pub(crate) output: Vec<u8>,
    /// The members that the candidate was not sent, for `gateway.warnings`.
    pub(crate) warnings: Vec<Cow<'static, str>>,
    /// The candidate's place in the plan.
    pub(crate) index: usize,
    /// Counts the stream as in flight.
    pub(crate) in_flight: Option<InFlight>,
    source: UpstreamSource,
    /// The most bytes of the upstream that one step reads. A budget that must not be exceeded is looked at between two steps.
    pub(crate) most_bytes: usize,
    /// The upstream call, if there is only one.
    call: Option<UpstreamCallId>,
    half_event: HalfEvent,
    /// The growing reservation, if the budget must not be exceeded.
    pub(crate) reservation: Option<StreamReservation>,
    /// The progress that the journal has noted.
    notes: ProgressNotes,
    /// The signs of work that were taken for signs of life.
    seen_work: u64,
    /// The media type of the upstream's answer.
    media_type: Option<HeaderValue>,
}

impl std::fmt::Debug for UpstreamStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamStream").field("candidate", &self.candidate).finish_non_exhaustive()
    }
}

impl UpstreamStream {
    /// Reads the next piece.
    pub(crate) fn poll_step(&mut self, cx: &mut TaskContext<'_>) -> Poll<ReadStep> {
        let step = self.source.poll_step(cx, self.most_bytes, &mut self.normaliser, &mut self.output);
        if step.is_ready() {
            self.count_large();
        }
        step
    }

    /// Reads a piece that takes long ([`ReadStep::Heavy`]).
    pub(crate) fn digest(&mut self) {
        self.source.digest(&mut self.normaliser, &mut self.output);
        self.count_large();
    }

    /// Whether the last piece brought content, or a sign that the model works out of sight.
    pub(crate) fn is_alive(&mut self) -> bool {
        let signs = self.normaliser.signs_of_work();
        std::mem::replace(&mut self.seen_work, signs) != signs || !self.output.is_empty()
    }

    /// Takes the output for the client. Its bytes no longer count here.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        let out = std::mem::take(&mut self.output);
        self.count_large();
        out
    }

    /// Discards the output, because the client disconnected.
    pub(crate) fn discard_output(&mut self) {
        if self.output.capacity() > SMALL_EVENT {
            drop(self.take_output());
        }
        self.output.clear();
    }

    /// Counts large buffers: those of the decoders and the normaliser, and the output for the client.
    fn count_large(&mut self) {
        let large = |bytes: usize| if bytes > SMALL_EVENT { bytes } else { 0 };
        let kept = self.source.held_bytes().saturating_add(self.normaliser.member_bytes());
        let held = large(kept).saturating_add(large(self.output.capacity()));
        if self.half_event.set(held).is_err() {
            let message = "The gateway is holding as many large events as it can; the stream was cut.";
            let failure = Failure::new(FailureKind::StreamBroken, message);
            self.normaliser.accept(Event::Error(failure), &mut self.output);
            self.cancel();
        }
    }

    /// Holds the memory in which the end of the stream is written.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it.
    pub(crate) fn hold_ending(&mut self) -> Result<(), Full> {
        let kept = self.normaliser.member_bytes().saturating_add(self.normaliser.ending_bytes());
        self.half_event.set(kept.saturating_add(self.output.capacity()))
    }

    /// Takes the encoder that ends the stream with an error. Without room for the content so far, the end does not repeat it.
    pub(crate) fn take_closer(&mut self) -> Option<Box<dyn AnswerEncoder>> {
        match self.hold_ending() {
            Ok(()) => self.normaliser.take_encoder(),
            Err(Full) => self.normaliser.closer(),
        }
    }

    /// Takes the memory that the stream holds.
    pub(crate) fn take_held(&mut self) -> HalfEvent {
        self.half_event.take()
    }

    /// Measures the throughput of a stream that ended after this many tokens.
    pub(crate) fn record_throughput(&self, tokens: u64) {
        let over = self.attempt.elapsed().saturating_sub(self.first_content);
        self.candidate.model.measured.record_speed(tokens, over, clock::now());
    }

    /// The media type of the upstream's answer, if it is a sound file.
    pub(crate) fn sound_type(&self) -> Option<HeaderValue> {
        self.media_type.clone().filter(|value| value.as_bytes().starts_with(b"audio/"))
    }

    /// Cancels the upstream call.
    pub(crate) fn cancel(&mut self) {
        self.source.abandon();
    }

    /// Has the journal note the progress after this many tokens at the latest. None: no journal keeps it.
    pub(crate) fn note_progress_every(&mut self, tokens: Option<u64>) {
        self.notes.set_every(tokens);
    }

    /// Notes the progress if it is due. A process that dies later is charged for it.
    pub(crate) fn note_progress(&mut self, call: &mut Call) {
        if self.is_note_due() {
            let bill = self.observe(&call.context.upstream_calls);
            call.progress.settlement.note_progress(&self.candidate, &bill.usage);
        }
    }

    fn is_note_due(&mut self) -> bool {
        let work = self.prompt_work();
        self.notes.take_due(work, self.normaliser.answer_bytes(), self.source.ended())
    }

    /// The reading of prompts and the calls of tools that the upstream has reported. The streams of a divided request report it beside
    /// their content.
    fn prompt_work(&self) -> Option<PromptWork> {
        self.normaliser.prompt_work().or_else(|| self.source.prompt_work())
    }

    /// Records usage that was reported, and text that was written for a tool of the provider, before any content: the call may be
    /// dropped before its first content, and the process may be killed.
    fn observe_early(&mut self, calls: &UpstreamCalls) {
        if self.normaliser.answer_bytes() > 0 || self.prompt_work().is_some() {
            self.observe(calls);
            if self.is_note_due() {
                calls.tell_early();
            }
        }
    }

    /// Notes the complete answer for the spans of the request.
    pub(crate) fn trace_answer(&self, call: &mut Call) {
        let Call { context, progress, .. } = call;
        progress.settlement.note_answer(
            self.attempt,
            &context.id,
            self.normaliser.model(),
            self.normaliser.finishes(),
        );
    }

    /// Updates the records of the stream's upstream calls, and returns the usage of the attempt.
    pub(crate) fn observe(&self, calls: &UpstreamCalls) -> BilledUsage {
        if let Some(call) = self.call {
            calls.observe(call, self.normaliser.reported_usage(), self.normaliser.answer_bytes());
        }
        for StreamUsage { call, usage, answer_bytes, is_refused } in self.source.seen() {
            calls.observe(call, usage, answer_bytes);
            if is_refused {
                calls.mark_free(call);
            }
        }
        calls.of(self.attempt)
    }
}

/// Opens a stream on a candidate, and reads it to its first content, its end or its failure.
pub(crate) async fn open(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
) -> Result<UpstreamStream, Failure> {
    let clocks = context.clocks(candidate);
    let mut parts = context.encode(candidate, context.request.parts(candidate), &clocks).await?;
    let (mut stream, began) = if let [part] = parts.as_mut_slice() {
        let only = one(context, candidate, attempt, (part, &mut None), clocks).await?;
        let (mut stream, began) = (unopened(context, candidate, attempt), only.began);
        drop(parts);
        stream.call = Some(only.call);
        stream.warnings = begin(context, &mut stream, only, &clocks).await?;
        (stream, began)
    } else {
        // Boxed, because few requests have several parts.
        let mut stream = unopened(context, candidate, attempt);
        let began = Box::pin(stream.open_parts(context, &parts)).await?;
        (stream, began)
    };
    // A part that was asked for again has its whole time, too.
    let first_token_by = (began + clocks.first_token).min(context.deadline(&clocks).into());
    let limits = FirstTokenLimits { idle: first_token_by, working: context.deadline(&clocks).into() };
    let read = read_to_first_content(&mut stream, limits, &context.upstream_calls).await;
    if let Err(failure) = read {
        stream.observe(&context.upstream_calls);
        if let Some(call) = stream.call {
            context.upstream_calls.fail(call, &failure);
        }
        return Err(failure);
    }
    stream.first_content = attempt.elapsed();
    Ok(stream)
}

/// A stream without an upstream.
fn unopened(context: &AttemptContext, candidate: &Candidate, attempt: Attempt) -> UpstreamStream {
    let opening =
        context.opening(candidate.model.upstream_model.to_string(), context.request.prompt_tokens(candidate));
    UpstreamStream {
        candidate: candidate.clone(),
        attempt,
        first_content: Duration::ZERO,
        normaliser: normaliser(context, opening),
        index: 0,
        output: Vec::with_capacity(1024),
        warnings: Vec::new(),
        in_flight: None,
        source: UpstreamSource::Closed(Vec::new()),
        most_bytes: if context.granted.is_some() { MARGIN_BYTES } else { usize::MAX },
        call: None,
        reservation: None,
        notes: ProgressNotes::new(),
        seen_work: 0,
        media_type: None,
        half_event: context.snapshot.state.event_memory.half_event(context.client.caller.key_id()),
    }
}

/// Begins to read the body of the only answer, and returns the warnings.
async fn begin(
    context: &AttemptContext,
    stream: &mut UpstreamStream,
    mut only: OpenedCall,
    clocks: &Timeouts,
) -> Result<Vec<Cow<'static, str>>, Failure> {
    let candidate = stream.candidate.clone();
    stream.media_type = only.response.headers.get(CONTENT_TYPE).cloned();
    let media_type = stream.media_type.clone();
    let media_type = media_type.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
    let own = context.request.one_shot().and_then(|own| own.decoder(&candidate.provider, media_type));
    let decoder = own.unwrap_or_else(|| candidate.provider.adapter().stream(&only.reading));
    let is_json =
        stream.media_type.as_ref().is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if context.granted.is_some() {
        // A budget ends the answer at the piece that exceeds it, so that pieces are not joined.
        only.response.body.read_by_chunk();
    }
    if is_json {
        // Some upstreams answer a streamed request with a document: an error, or the complete answer.
        let (body, _permit) = context.collect(only.response.body, clocks, Some(SMALL_EVENT)).await?;
        let read = || {
            replay(stream, &context.request, &body, &only.reading)
                .or_else(|failure| play_stream(stream, decoder, &body, failure))
        };
        offload_if(is_heavy(&body), read)
            .await
            .inspect_err(|failure| context.upstream_calls.fail(only.call, failure))?;
    } else {
        stream.source = UpstreamSource::one(only.response.body, decoder);
    }
    Ok(only.warnings)
}

/// The normaliser of a new stream or of a continuation.
fn normaliser(context: &AttemptContext, opening: Opening) -> Normaliser {
    match &context.continuation {
        Some(resume) => resume.normaliser(),
        None => {
            let new =
                if context.is_shared { Normaliser::recording(opening) } else { Normaliser::new(opening) };
            let asked = choices::asked_for(&context.request);
            let new = new.with_prompts(asked.map_or(1, |asked| asked.prompts.len()));
            if context.snapshot.routing.continue_mid_stream { new.with_kept_text() } else { new }
        }
    }
}

/// The moments at which the wait for the first content ends.
#[derive(Clone, Copy)]
struct FirstTokenLimits {
    /// For an upstream that has shown no work.
    idle: Instant,
    /// For an upstream that has.
    working: Instant,
}

impl FirstTokenLimits {
    fn of(&self, stream: &UpstreamStream) -> Instant {
        if stream.normaliser.signs_of_work() > 0 { self.working } else { self.idle }
    }
}

async fn read_to_first_content(
    stream: &mut UpstreamStream,
    limits: FirstTokenLimits,
    calls: &UpstreamCalls,
) -> Result<(), Failure> {
    loop {
        let by = limits.of(stream);
        let reading = async {
            while let ReadStep::Heavy = poll_to_first_content(stream, limits, calls).await? {
                offload(|| stream.digest()).await;
            }
            Ok(())
        };
        match tokio::time::timeout_at(by.into(), reading).await {
            Ok(read) => return read,
            // The upstream has shown work in the meantime, so it has more time.
            Err(_) if limits.of(stream) > by => {}
            Err(_) => return Err(late()),
        }
    }
}

/// Reads to the first content, or to a piece that takes long to read.
fn poll_to_first_content(
    stream: &mut UpstreamStream,
    limits: FirstTokenLimits,
    calls: &UpstreamCalls,
) -> impl Future<Output = Result<ReadStep, Failure>> {
    std::future::poll_fn(move |cx| {
        for _ in 0..MAX_STEPS_PER_POLL {
            // Content comes before a failure: the client must get the same answer whether or not both arrived in one
            // read.
            if stream.normaliser.has_content() || stream.normaliser.is_complete() {
                return Poll::Ready(Ok(ReadStep::Progress));
            }
            if let Some(failure) = stream.normaliser.take_failure() {
                return Poll::Ready(Err(failure));
            }
            match stream.poll_step(cx) {
                Poll::Pending => {
                    stream.observe_early(calls);
                    return Poll::Pending;
                }
                Poll::Ready(ReadStep::Heavy) => return Poll::Ready(Ok(ReadStep::Heavy)),
                Poll::Ready(ReadStep::Progress | ReadStep::Over) => {}
            }
            // An upstream that sends without a pause would keep the timer from firing.
            if clock::now() >= limits.of(stream) && !stream.normaliser.has_content() {
                return Poll::Ready(Err(late()));
            }
        }
        stream.observe_early(calls);
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

fn late() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream did not send a first token in time.")
}

/// Reads a body as a stream although it was announced as a document. `failure` is the fault of the document.
fn play_stream(
    stream: &mut UpstreamStream,
    mut decoder: Box<dyn StreamDecoder>,
    body: &[u8],
    failure: Failure,
) -> Result<(), Failure> {
    if failure.kind != FailureKind::InvalidResponse {
        return Err(failure);
    }
    let UpstreamStream { normaliser, output, .. } = stream;
    decoder.feed(body, &mut |event| normaliser.accept(event, output));
    decoder.eof(&mut |event| normaliser.accept(event, output));
    normaliser.eof();
    if normaliser.has_content() || normaliser.is_complete() { Ok(()) } else { Err(failure) }
}

/// Converts a complete answer into the events of a stream.
fn replay(
    stream: &mut UpstreamStream,
    request: &ValidatedRequest,
    body: &Bytes,
    reading: &Reading,
) -> Result<(), Failure> {
    let UpstreamStream { candidate, normaliser, output, .. } = stream;
    let adapter = candidate.provider.adapter();
    let mut play = |event: Event<'_>| normaliser.accept(event, output);
    match request {
        ValidatedRequest::Chat(_) => {
            let reply = adapter.decode_chat(body, reading)?;
            choices::check_said(reply.is_blank())?;
            replay_chat(reply, &mut play);
        }
        ValidatedRequest::Completion(_) => {
            let reply = adapter.decode_completion(body, reading)?;
            choices::check_said(reply.is_blank())?;
            replay_text(reply, &mut play);
        }
        ValidatedRequest::OneShot(request) => request.replay(&candidate.provider, body, &mut play)?,
    }
    Ok(())
}
