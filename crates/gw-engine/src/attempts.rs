//! The one loop that calls upstreams: next candidate, at most one retry, one deadline over all of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_providers::client::UpstreamResponse;
use gw_providers::settings::Timeouts;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::gateway::{AttemptRecord, GatewayMeta};
use rand::Rng;

use crate::account::Account;
use crate::ask::Ask;
use crate::call::Context;
use crate::error::Error;
use crate::live::{self, Live};
use crate::plan::{Candidate, Plan, Snapshot};
use crate::verdict::{self, Verdict};
use crate::{embed, whole};

/// The largest body of a complete upstream answer, decoded.
pub(crate) const MAX_ANSWER_BYTES: usize = 32 << 20;
/// The largest error body that is read.
const MAX_ERROR_BYTES: usize = 64 << 10;

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
    /// What the attempt under way could not say, for `gateway.warnings`.
    pub(crate) warnings: Vec<Cow<'static, str>>,
}

/// What a successful attempt gave.
pub(crate) enum Answer {
    /// The client's body.
    Full(Vec<u8>),
    /// A stream whose first content has come.
    Stream(Box<Live>),
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

    /// Notes an attempt that is over.
    pub(crate) fn record(&mut self, candidate: &Candidate, status: &'static str, started: Instant) {
        let record = AttemptRecord {
            provider: Arc::clone(&candidate.model.provider),
            model: Arc::clone(&candidate.model.id),
            status,
            latency_ms: millis(started.elapsed()),
        };
        self.account.attempted(&record);
        self.records.push(record);
        self.account.attempts(self.records.len());
    }

    /// The `gateway` object of an answer that this candidate gave. Takes the records: it is written once.
    pub(crate) fn meta(&mut self, candidate: &Candidate, priced: bool) -> GatewayMeta {
        let mut warnings = std::mem::take(&mut self.warnings);
        if !priced {
            warnings.push(Cow::Borrowed("price_unknown"));
        }
        GatewayMeta {
            request_id: Arc::clone(&self.context.request_id),
            model_used: Arc::clone(&candidate.model.id),
            provider: Arc::clone(&candidate.model.provider),
            cache_hit: false,
            routing_strategy: self.plan.strategy,
            fallback_used: candidate.is_fallback,
            latency_ms: self.latency_ms(),
            attempts: std::mem::take(&mut self.records),
            warnings,
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
        // Of a divided request the parts that had succeeded would be paid twice.
        let mut retries_left = if call.ask.calls(&candidate) > 1 { 0 } else { retries };
        let mut keys_left = candidate.provider.keys().len().saturating_sub(1);
        loop {
            let total = candidate.model.timeouts.over(candidate.provider.timeouts()).total;
            let spent = call.context.accepted.elapsed();
            if call.records.len() >= routing.max_attempts as usize || (!failures.is_empty() && spent >= total)
            {
                break 'plan;
            }
            let started = Instant::now();
            let begun = call.account.calling(&candidate, call.records.len() + 1, call.ask.prompt_bytes());
            if let Err(error) = begun {
                call.account.failed(&error);
                return Err(error);
            }
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
            note_failure(call, &candidate, &failure, started);
            let verdict = verdict::verdict(&failure, routing.fallback_on_4xx);
            let key_failed = verdict::is_about_the_key(&failure);
            failures.push(failure);
            match verdict {
                Verdict::Stop => break 'plan,
                // The provider may well serve us, only not with that key.
                _ if key_failed && keys_left > 0 && candidate.provider.has_other_key() => keys_left -= 1,
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
    call.account.failed(&error);
    Err(error)
}

/// Notes a failed attempt wherever it counts. What was refused before anything was sent was no attempt.
fn note_failure(call: &mut Call, candidate: &Candidate, failure: &Failure, started: Instant) {
    call.account.call_failed();
    if verdict::is_upstreams_fault(failure) {
        candidate.model.measured.failed();
    }
    let code = verdict::kind(failure).code();
    if !verdict::was_sent(failure) {
        call.account.attempts(call.records.len());
        return;
    }
    call.record(candidate, code, started);
    call.account.metrics().failed(&candidate.metrics, code);
    tell(call, candidate, failure, code);
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
    // What an upstream said tells more than why others were not asked.
    let said = failures.iter().rev().find(|failure| verdict::was_sent(failure));
    let Some(last) = said.or(failures.last()) else {
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
    let all_limited = failures
        .iter()
        .filter(|failure| verdict::was_sent(failure))
        .all(|failure| failure.kind == FailureKind::RateLimited);
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
    Box::pin(whole::attempt(call, candidate, started)).await.map(Answer::Full)
}

/// A response whose head says success, else the failure that its body tells.
pub(crate) async fn successful(
    call: &Call,
    candidate: &Candidate,
    response: UpstreamResponse,
    clocks: &Timeouts,
) -> Result<UpstreamResponse, Failure> {
    let key = response.key;
    if response.status == 200 {
        candidate.provider.judge(key, Ok(()));
        return Ok(response);
    }
    let (status, headers) = (response.status, response.headers);
    let body =
        response.body.collect(MAX_ERROR_BYTES, clocks.idle, deadline(call, clocks)).await.unwrap_or_default();
    let failure = candidate.provider.adapter().classify(status, &headers, &body);
    candidate.provider.judge(key, Err(&failure));
    Err(failure)
}

/// The whole body of a successful response.
pub(crate) async fn body_of(
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
