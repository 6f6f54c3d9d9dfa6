//! A live upstream stream: opened by an attempt, read until its first content, then handed to the client's body.

use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_providers::adapter::StreamDecoder;
use gw_providers::client::UpstreamBody;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatReply, Finish, TextReply};
use gw_wire::stream::{Normaliser, Opening, Shape};

use crate::attempts::{Ask, Call, MAX_ANSWER_BYTES, deadline, send};
use crate::plan::Candidate;

/// An upstream stream under way.
pub(crate) struct Live {
    pub(crate) candidate: Candidate,
    pub(crate) started: Instant,
    /// From the call to its first content.
    pub(crate) first_content: Duration,
    pub(crate) normaliser: Normaliser,
    /// What the client has not been given yet.
    pub(crate) out: Vec<u8>,
    source: Option<(UpstreamBody, Box<dyn StreamDecoder>)>,
}

/// What reading a piece of the stream brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes came; whether they meant something is for `out` and the normaliser to say.
    Progress,
    /// The stream is over, well or badly: ask the normaliser.
    Over,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("candidate", &self.candidate).finish_non_exhaustive()
    }
}

impl Live {
    /// Reads the next piece.
    pub(crate) fn poll_step(&mut self, cx: &mut TaskContext<'_>) -> Poll<Step> {
        let Some((body, decoder)) = &mut self.source else { return Poll::Ready(Step::Over) };
        let Self { normaliser, out, .. } = self;
        let step = match std::task::ready!(body.poll_chunk(cx)) {
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
        };
        if step == Step::Over {
            self.finish_source();
        }
        Poll::Ready(step)
    }

    /// Lets go of the upstream. A completely read connection goes back to its pool by itself.
    fn finish_source(&mut self) {
        if let Some((body, _)) = self.source.take() {
            body.finish();
        }
    }

    /// Drops the upstream call at once.
    pub(crate) fn abandon(&mut self) {
        self.source = None;
    }
}

/// Opens a stream on a candidate and reads until its first content, its end or its failure.
pub(crate) async fn open(call: &mut Call, candidate: &Candidate, started: Instant) -> Result<Live, Failure> {
    let clocks = call.clocks(candidate);
    let first_token_by = started + clocks.first_token;
    let response = send(call, candidate, &clocks).await?;
    let (opening, is_chat) = opening(call, candidate);
    let adapter = candidate.provider.adapter();
    let is_json = response
        .headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    let mut live = Live {
        candidate: candidate.clone(),
        started,
        first_content: Duration::ZERO,
        normaliser: Normaliser::new(opening),
        out: Vec::with_capacity(1024),
        source: None,
    };
    if is_json {
        // Some upstreams answer a streamed request with a whole document: an error, or the complete answer.
        let body = response.body.collect(MAX_ANSWER_BYTES, clocks.idle, deadline(call, &clocks)).await?;
        replay(&mut live, candidate, is_chat, &body)?;
    } else {
        let decoder = if is_chat { adapter.chat_stream() } else { adapter.completion_stream() };
        live.source = Some((response.body, decoder));
    }
    read_to_first_content(&mut live, first_token_by).await?;
    live.first_content = started.elapsed();
    let millis = call.latency_ms();
    call.account.first_token(candidate, millis);
    Ok(live)
}

async fn read_to_first_content(live: &mut Live, by: Instant) -> Result<(), Failure> {
    loop {
        // Content first: whether a failure behind it came in the same read must not change what the client gets.
        if live.normaliser.has_content() || live.normaliser.is_complete() {
            return Ok(());
        }
        if let Some(failure) = live.normaliser.take_failure() {
            return Err(failure);
        }
        let step = std::future::poll_fn(|cx| live.poll_step(cx));
        if tokio::time::timeout_at(by.into(), step).await.is_err() {
            return Err(Failure::new(
                FailureKind::Timeout,
                "The upstream did not send a first token in time.",
            ));
        }
    }
}

fn opening(call: &Call, candidate: &Candidate) -> (Opening, bool) {
    let (shape, choices, include_usage) = match &call.ask {
        Ask::Chat(request) => (Shape::Chat, request.n, request.include_usage),
        Ask::Completion(request) => {
            let prompts = u32::try_from(request.prompts.len()).unwrap_or(1);
            (Shape::Text, request.n.saturating_mul(prompts), request.include_usage)
        }
        Ask::Embeddings(_) => (Shape::Text, 0, false),
    };
    let opening = Opening {
        shape,
        id: call.id.clone(),
        created: call.created,
        model: candidate.model.upstream_model.to_string(),
        choices,
        include_usage,
    };
    (opening, shape == Shape::Chat)
}

/// Plays a whole answer as the events of a stream.
fn replay(live: &mut Live, candidate: &Candidate, is_chat: bool, body: &Bytes) -> Result<(), Failure> {
    let adapter = candidate.provider.adapter();
    let Live { normaliser, out, .. } = live;
    let mut play = |event: Event<'_>| normaliser.accept(event, out);
    if is_chat {
        replay_chat(adapter.decode_chat(body)?, &mut play);
    } else {
        replay_text(adapter.decode_completion(body)?, &mut play);
    }
    Ok(())
}

fn replay_chat(reply: ChatReply<'_>, play: &mut dyn FnMut(Event<'_>)) {
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
            play(Event::ToolStart { choice: index, call: position, id: call.id, name: call.name });
            play(Event::ToolArgs { choice: index, call: position, fragment: call.arguments });
        }
        if let Some((name, arguments)) = choice.function_call {
            play(Event::FunctionCall { choice: index, name: Some(name), arguments: Some(arguments) });
        }
        play(Event::Finish { choice: index, reason: choice.finish.unwrap_or(made) });
    }
    if let Some(usage) = reply.usage {
        play(Event::Usage(usage));
    }
    play(Event::End);
}

fn replay_text(reply: TextReply<'_>, play: &mut dyn FnMut(Event<'_>)) {
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
