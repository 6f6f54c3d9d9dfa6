//! The one loop that calls upstreams: next candidate, at most one retry, one deadline over all of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, Target};
use gw_providers::client::UpstreamResponse;
use gw_providers::settings::Timeouts;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::gateway::{AttemptRecord, GatewayMeta};
use gw_wire::money::Money;
use gw_wire::render::{self, Envelope};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use gw_wire::usage::Usage;
use rand::Rng;

use crate::account::Account;
use crate::call::Context;
use crate::embed;
use crate::error::Error;
use crate::live::{self, Live};
use crate::plan::{Candidate, Plan, Snapshot};
use crate::verdict::{self, Verdict};

/// The largest body of a complete upstream answer, decoded.
pub(crate) const MAX_ANSWER_BYTES: usize = 32 << 20;
/// The largest error body that is read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A validated request of any operation.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Chat(Box<ChatRequest>),
    Completion(Box<CompletionRequest>),
    Embeddings(Box<EmbeddingsRequest>),
}

/// One call on its way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) context: Context,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) plan: Plan,
    /// `chatcmpl-…` or `cmpl-…`.
    pub(crate) id: String,
    /// Unix seconds.
    pub(crate) created: u64,
    pub(crate) account: Account,
    pub(crate) records: Vec<AttemptRecord>,
}

/// What a successful attempt gave.
pub(crate) enum Answer {
    /// The client's body.
    Full(Vec<u8>),
    /// A stream whose first content has come.
    Stream(Box<Live>),
}

impl Ask {
    pub(crate) fn wants_stream(&self) -> bool {
        match self {
            Self::Chat(request) => request.stream,
            Self::Completion(request) => request.stream,
            Self::Embeddings(_) => false,
        }
    }

    pub(crate) fn prompt_bytes(&self) -> u64 {
        match self {
            Self::Chat(request) => request.prompt_bytes,
            Self::Completion(request) => request.prompt_bytes,
            Self::Embeddings(request) => request.prompt_bytes,
        }
    }

    /// The request in the provider's dialect. Embeddings are split, see `embed.rs`.
    fn encode(&self, candidate: &Candidate) -> Result<HttpCall, Failure> {
        let target = target(candidate);
        let adapter = candidate.provider.adapter();
        match self {
            Self::Chat(request) => adapter.chat(request, &target),
            Self::Completion(request) => adapter.completion(request, &target),
            Self::Embeddings(request) => adapter.embeddings(request, 0..request.inputs.len(), &target),
        }
    }
}

/// How a candidate is named to its adapter. A fallback must not fail on a limit that the client could not know.
pub(crate) fn target(candidate: &Candidate) -> Target<'_> {
    Target {
        upstream_model: &candidate.model.upstream_model,
        id: &candidate.model.id,
        clamp_max_tokens: candidate.is_fallback.then_some(candidate.model.max_output_tokens).flatten(),
    }
}

impl Call {
    /// The clocks of a candidate, the first-token clock cut to what is left of the whole.
    pub(crate) fn clocks(&self, candidate: &Candidate) -> Timeouts {
        let mut clocks = candidate.model.timeouts.over(candidate.provider.timeouts());
        let left = clocks.total.saturating_sub(self.context.accepted.elapsed());
        clocks.first_token = clocks.first_token.min(left);
        clocks.connect = clocks.connect.min(left);
        clocks
    }

    pub(crate) fn latency_ms(&self) -> u64 {
        millis(self.context.accepted.elapsed())
    }

    /// Notes a successful attempt.
    pub(crate) fn record_ok(&mut self, candidate: &Candidate, started: Instant) {
        self.record(candidate, "ok", started);
    }

    fn record(&mut self, candidate: &Candidate, status: &'static str, started: Instant) {
        self.records.push(AttemptRecord {
            provider: Arc::clone(&candidate.model.provider),
            model: Arc::clone(&candidate.model.id),
            status,
            latency_ms: millis(started.elapsed()),
        });
        self.account.attempts(self.records.len());
    }

    /// The `gateway` object of an answer that this candidate gave. Takes the records: it is written once.
    pub(crate) fn meta(&mut self, candidate: &Candidate, priced: bool) -> GatewayMeta {
        GatewayMeta {
            request_id: Arc::clone(&self.context.request_id),
            model_used: Arc::clone(&candidate.model.id),
            provider: Arc::clone(&candidate.model.provider),
            cache_hit: false,
            routing_strategy: self.plan.strategy,
            fallback_used: candidate.is_fallback,
            latency_ms: self.latency_ms(),
            attempts: std::mem::take(&mut self.records),
            warnings: if priced { Vec::new() } else { vec!["price_unknown"] },
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Runs the plan until a candidate answers. On failure the account is settled with the error's code.
pub(crate) async fn run(call: &mut Call) -> Result<(usize, Answer), Error> {
    let routing = call.snapshot.routing;
    // Another candidate is a better second try than the one that just failed; only a sole target is tried again.
    let retries = if call.plan.candidates.len() == 1 { routing.retries } else { 0 };
    let mut failures: Vec<Failure> = Vec::new();
    'plan: for index in 0..call.plan.candidates.len() {
        let Some(candidate) = call.plan.candidates.get(index).cloned() else { break };
        let mut retries_left = retries;
        loop {
            let total = candidate.model.timeouts.over(candidate.provider.timeouts()).total;
            let spent = call.context.accepted.elapsed();
            if failures.len() >= routing.max_attempts as usize || (!failures.is_empty() && spent >= total) {
                break 'plan;
            }
            let started = Instant::now();
            call.account.calling(&candidate, call.records.len() + 1, call.ask.prompt_bytes());
            let failure = match attempt(call, &candidate, started).await {
                Ok(answer) => {
                    // A stream is judged at its end, see `stream.rs`.
                    if matches!(answer, Answer::Full(_)) {
                        candidate.model.measured.served(started.elapsed());
                    }
                    return Ok((index, answer));
                }
                Err(failure) => candidate.provider.censor(failure),
            };
            call.account.call_failed();
            if verdict::is_upstreams_fault(&failure) {
                candidate.model.measured.failed();
            }
            let code = verdict::kind(&failure).code();
            call.record(&candidate, code, started);
            call.account.metrics().failed(&candidate.metrics, code);
            tell(call, &candidate, &failure, code);
            let verdict = verdict::verdict(&failure, routing.fallback_on_4xx);
            failures.push(failure);
            match verdict {
                Verdict::Stop => break 'plan,
                Verdict::Retry if retries_left > 0 => {
                    retries_left -= 1;
                    // A little jitter, so that clients that failed together do not come back together.
                    let pause = Duration::from_millis(rand::rng().random_range(20..80));
                    tokio::time::sleep(pause).await;
                }
                Verdict::Retry | Verdict::Next => break,
            }
        }
    }
    let error = overall(call, &failures);
    call.account.failed(error.kind.code());
    Err(error)
}

/// One line for the operator. What an upstream said may quote the prompt, so its words are for debugging only; what we
/// found ourselves (refused, timed out, not JSON) is for everybody.
fn tell(call: &Call, candidate: &Candidate, failure: &Failure, code: &'static str) {
    let ours = matches!(
        failure.kind,
        FailureKind::Unreachable
            | FailureKind::Timeout
            | FailureKind::InvalidResponse
            | FailureKind::StreamBroken
    );
    let detail = failure.detail.as_deref();
    tracing::info!(
        request_id = %call.context.request_id,
        model = %candidate.model.id,
        code,
        upstream_status = failure.status,
        detail = detail.filter(|_| ours),
        "an upstream call failed"
    );
    if let Some(detail) = detail.filter(|_| !ours) {
        tracing::debug!(request_id = %call.context.request_id, detail, "what the upstream said");
    }
}

/// The last attempt's error, except that 429 wins if every attempt was 429, with the smallest hint.
fn overall(call: &Call, failures: &[Failure]) -> Error {
    let Some(last) = failures.last() else {
        return verdict::error(
            &Failure::new(FailureKind::Timeout, "The request's time was used up."),
            &[],
            None,
        );
    };
    let mut tried: Vec<&str> = Vec::new();
    for record in &call.records {
        if !tried.contains(&&*record.model) {
            tried.push(&record.model);
        }
    }
    let all_limited = failures.iter().all(|failure| failure.kind == FailureKind::RateLimited);
    let smallest =
        all_limited.then(|| failures.iter().filter_map(|failure| failure.retry_after).min()).flatten();
    verdict::error(last, &tried, smallest)
}

async fn attempt(call: &mut Call, candidate: &Candidate, started: Instant) -> Result<Answer, Failure> {
    if call.ask.wants_stream() {
        return Box::pin(live::open(call, candidate, started))
            .await
            .map(|live| Answer::Stream(Box::new(live)));
    }
    if matches!(call.ask, Ask::Embeddings(_)) {
        return Box::pin(embed::attempt(call, candidate, started)).await.map(Answer::Full);
    }
    let clocks = call.clocks(candidate);
    let response = candidate.provider.send(call.ask.encode(candidate)?, &clocks).await?;
    let body = whole(call, candidate, response, &clocks).await?;
    complete(call, candidate, started, &body).map(Answer::Full)
}

/// Sends the request and gives the response once its head says success.
pub(crate) async fn send(
    call: &Call,
    candidate: &Candidate,
    clocks: &Timeouts,
) -> Result<UpstreamResponse, Failure> {
    let response = candidate.provider.send(call.ask.encode(candidate)?, clocks).await?;
    successful(call, candidate, response, clocks).await
}

/// A response whose head says success, else the failure that its body tells.
async fn successful(
    call: &Call,
    candidate: &Candidate,
    response: UpstreamResponse,
    clocks: &Timeouts,
) -> Result<UpstreamResponse, Failure> {
    if response.status == 200 {
        return Ok(response);
    }
    let (status, headers) = (response.status, response.headers);
    let body =
        response.body.collect(MAX_ERROR_BYTES, clocks.idle, deadline(call, clocks)).await.unwrap_or_default();
    Err(candidate.provider.adapter().classify(status, &headers, &body))
}

/// The whole body of a successful response.
pub(crate) async fn whole(
    call: &Call,
    candidate: &Candidate,
    response: UpstreamResponse,
    clocks: &Timeouts,
) -> Result<Bytes, Failure> {
    let response = successful(call, candidate, response, clocks).await?;
    response.body.collect(MAX_ANSWER_BYTES, clocks.idle, deadline(call, clocks)).await
}

/// When the call's time is up.
pub(crate) fn deadline(call: &Call, clocks: &Timeouts) -> tokio::time::Instant {
    (call.context.accepted + clocks.total).into()
}

/// Reads a complete chat or text answer and writes it in the client's shape.
fn complete(
    call: &mut Call,
    candidate: &Candidate,
    started: Instant,
    body: &[u8],
) -> Result<Vec<u8>, Failure> {
    let adapter = candidate.provider.adapter();
    let prompt_bytes = call.ask.prompt_bytes();
    if matches!(call.ask, Ask::Chat(_)) {
        let reply = adapter.decode_chat(body)?;
        let answered = || reply.choices.iter().map(chat_bytes).sum();
        let usage = known_or_estimated(reply.usage, prompt_bytes, answered);
        let made = if reply.fingerprint.is_none() { fingerprint(candidate) } else { String::new() };
        let write = |envelope: &Envelope<'_>| render::chat(&reply, envelope);
        return Ok(settle(call, candidate, started, usage, &made, write));
    }
    let reply = adapter.decode_completion(body)?;
    let answered = || reply.choices.iter().map(|choice| choice.text.len() as u64).sum();
    let usage = known_or_estimated(reply.usage, prompt_bytes, answered);
    Ok(settle(call, candidate, started, usage, "", |envelope| render::text(&reply, envelope)))
}

/// The upstream's usage, where it is sound; the answer's bytes are only counted when they are needed.
fn known_or_estimated(known: Option<Usage>, prompt_bytes: u64, answered: impl FnOnce() -> u64) -> Usage {
    match known {
        Some(usage) if !usage.estimated => usage,
        Some(usage) => usage.or_estimate(prompt_bytes, answered()),
        None => Usage::estimate(prompt_bytes, answered()),
    }
}

fn chat_bytes(choice: &gw_wire::reply::ChatChoice<'_>) -> u64 {
    let texts = [&choice.content, &choice.reasoning, &choice.refusal];
    let texts: usize = texts.iter().filter_map(|text| text.as_deref()).map(str::len).sum();
    let calls: usize = choice.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    (texts + calls) as u64
}

fn settle(
    call: &mut Call,
    candidate: &Candidate,
    started: Instant,
    usage: Usage,
    fingerprint: &str,
    write: impl FnOnce(&Envelope<'_>) -> Vec<u8>,
) -> Vec<u8> {
    let cost = candidate.model.cost(&usage);
    call.record_ok(candidate, started);
    let meta = call.meta(candidate, cost.is_some());
    let body = write(&Envelope {
        id: &call.id,
        created: call.created,
        model: &candidate.model.upstream_model,
        fingerprint,
        usage,
        cost: cost.unwrap_or(Money::ZERO),
        gateway: &meta,
    });
    call.account.served(candidate, &usage, cost);
    body
}

/// A stand-in for providers that give no `system_fingerprint`: stable for a provider, model and program version.
fn fingerprint(candidate: &Candidate) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (&*candidate.model.id, &*candidate.model.upstream_model, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    format!("fp_{:010x}", hasher.finish() & 0xff_ffff_ffff)
}
