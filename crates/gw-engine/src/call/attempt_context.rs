//! The parts of a call that do not change while its upstreams are called. Attempts that run at the same time share
//! them.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gw_limits::Limiter;
use gw_providers::adapter::{Encoded, HttpCall, Reading};
use gw_providers::client::{UpstreamBody, UpstreamResponse};
use gw_providers::missing_model::{names_model, names_url};
use gw_providers::settings::Timeouts;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::money::Money;
use gw_wire::stream::Opening;

use crate::call::continuation::Continuation;
use crate::call::upstream_call::{UpstreamCallId, UpstreamCalls};
use crate::clock::{self, millis};
use crate::cpu_pool::{CpuPool, offload};
use crate::document_memory::{DocumentPermit, MAX_ANSWER_BYTES};
use crate::plan::call_size::CallSize;
use crate::plan::candidate::Candidate;
use crate::plan::cost_estimate::{affordable, costs, longest_answer};
use crate::plan::snapshot::Snapshot;
use crate::read_memory::ReadPermit;
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::request::fan_out::{SeededEncodings, SubRequest};
use crate::request::one_shot::OneShot;
use crate::shared_pool::PoolHolding;

/// The largest error body that is read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// The time that the body of an upstream's error may take. The status alone decides what happens next; the body
/// explains it.
const ERROR_BODY_TIME: Duration = Duration::from_secs(2);

/// The request, its client, and the configuration that it runs under.
#[derive(Debug)]
pub(crate) struct AttemptContext {
    pub(crate) request: ValidatedRequest,
    pub(crate) client: Box<RequestContext>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// `chatcmpl-…` or `cmpl-…`.
    pub(crate) id: String,
    /// Unix seconds.
    pub(crate) created: u64,
    /// Reading or writing the request takes so long that it runs on the CPU pool.
    pub(crate) is_heavy: bool,
    /// Runs the parts of the call that outlive the request's own future.
    pub(crate) cpu: CpuPool,
    /// Reserves more money while a stream grows.
    pub(crate) limiter: Limiter,
    /// The money that is reserved, if the budget must not be exceeded (`on_budget = "cut"`).
    pub(crate) granted: Option<Money>,
    /// The budget may have shortened the answer.
    pub(crate) is_shortened: AtomicBool,
    /// The request's upstream calls.
    pub(crate) upstream_calls: Arc<UpstreamCalls>,
    /// Other requests may get its answer, too. A stream writes a log of its events for them.
    pub(crate) is_shared: bool,
    /// The memory of the stored conversation that the request continues.
    pub(crate) conversation_memory: Option<ReadPermit>,
    /// The memory of the images that were fetched for the request.
    pub(crate) image_memory: Option<PoolHolding>,
    /// The attempts that retries of parts leave to the candidates behind this one.
    pub(crate) kept_attempts: usize,
    /// Set while another upstream continues a stream that broke off. In a box, because few streams do, and the context is moved.
    pub(crate) continuation: Option<Box<Continuation>>,
}

/// The warning that a fallback writes at most a shorter answer than the client asked for.
const CLAMPED: Cow<'static, str> = Cow::Borrowed("parameter_clamped:max_tokens");

/// A call that brought no success.
struct RefusedSend {
    failure: Failure,
    /// The provider bills nothing for it.
    is_free: bool,
}

impl AttemptContext {
    /// The timeouts of a candidate. The connect and first-token timeouts end with the total timeout of the request. A model
    /// that reasons, or whose provider runs tools, may be silent for all of that time. If it reasons without being asked, a
    /// first-token timeout that the operator made shorter holds, so that a fallback follows a target that hangs.
    pub(crate) fn clocks(&self, candidate: &Candidate) -> Timeouts {
        let mut clocks = candidate.clocks();
        let left = clocks.total.saturating_sub(clock::since(self.client.accepted));
        let is_shortened = clocks.first_token < Timeouts::default().first_token;
        let reasons_unasked = candidate.model.reasons_unasked && !is_shortened;
        let may_be_silent = self.request.may_be_silent(reasons_unasked);
        let first_token = if may_be_silent { left } else { clocks.first_token };
        clocks.first_token = first_token.min(left);
        clocks.connect = clocks.connect.min(left);
        clocks
    }

    /// The opening of the client's stream. `model` is its model if the upstream reports no other name.
    pub(crate) fn opening(&self, model: String, prompt_tokens: u64) -> Opening {
        let (shape, choices, include_usage) = self.request.stream_form();
        let form = self.request.form();
        let (id, created) = (self.id.clone(), self.created);
        Opening { shape, id, created, model, choices, include_usage, form, prompt_tokens }
    }

    /// Runs a step over the request: on the CPU pool if the request is heavy, and only until the request's deadline.
    pub(crate) async fn step<T>(
        &self,
        clocks: &Timeouts,
        step: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if !self.is_heavy {
            return step();
        }
        let late = |_| Err(Failure::new(FailureKind::Timeout, "The request exceeded its time limit."));
        tokio::time::timeout_at(self.deadline(clocks), offload(step)).await.unwrap_or_else(late)
    }

    /// The sub-requests in the candidate's dialect. Sub-requests that differ only in their position are encoded once, as far as their seeds
    /// need no encodings of their own.
    pub(crate) async fn encode(
        &self,
        candidate: &Candidate,
        parts: Vec<SubRequest>,
        clocks: &Timeouts,
    ) -> Result<Vec<(SubRequest, Encoded)>, Failure> {
        let target = self.target(candidate);
        let asked = self.request.max_tokens().zip(target.clamp_max_tokens);
        let is_clamped = asked.is_some_and(|(asked, most)| asked > most);
        let mut done: Vec<(SubRequest, Encoded)> = Vec::with_capacity(parts.len());
        let mut seeds = SeededEncodings::new(self.request.has_seed());
        for part in parts {
            let is_alike = done.last().is_some_and(|(last, _)| {
                last.share.n == part.share.n && last.share.prompts == part.share.prompts
            });
            let same = done.last().filter(|(_, last)| is_alike && seeds.are_shared(last.call.body.len()));
            let encoded = match same {
                Some((_, encoded)) => encoded.clone(),
                None => {
                    let encode = || self.request.encode(candidate, &part, &target);
                    let mut encoded = self.step(clocks, encode).await?;
                    if is_clamped && !encoded.warnings.contains(&CLAMPED) {
                        encoded.warnings.push(CLAMPED);
                    }
                    let equal = done
                        .last()
                        .filter(|(_, last)| is_alike && seeds.are_equal(&last.call.body, &encoded.call.body));
                    match equal {
                        Some((_, last)) => last.clone(),
                        None => encoded,
                    }
                }
            };
            done.push((part, encoded));
        }
        Ok(done)
    }

    /// The longest answer of a plain request that its reservation can pay, if the budget must not be exceeded. A stream
    /// has no such bound: it reserves more as it grows.
    pub(crate) fn most_tokens(&self, candidate: &Candidate) -> Option<u64> {
        let granted = self.granted.filter(|_| !self.request.wants_stream())?;
        // Providers may bill failed attempts, too.
        let left = granted - self.upstream_calls.all().cost;
        let (request, model) = (&self.request, &candidate.model);
        let is_bounded = request.max_tokens().or(model.max_output_tokens).is_some();
        if is_bounded && costs(request, candidate, longest_answer(request, candidate)) <= left {
            return None;
        }
        let seen =
            model.context_length.map(|context| context.saturating_sub(request.prompt_tokens(candidate)));
        let most = affordable(request, candidate, left)?;
        let most = [Some(most), model.max_output_tokens, seen].into_iter().flatten().min()?.max(1);
        if request.max_tokens().is_none_or(|asked| most < asked) {
            self.is_shortened.store(true, Ordering::Relaxed);
        }
        Some(most)
    }

    /// Reads the complete body of an upstream's answer. A large one waits for memory, and `expected_bytes` is its estimated
    /// size. None: it does not wait, because it is one of several documents of an answer. The permit counts it until the client has the answer that is made of it.
    ///
    /// # Errors
    /// As [`UpstreamBody::collect_in`].
    pub(crate) async fn collect(
        &self,
        body: UpstreamBody,
        clocks: &Timeouts,
        expected_bytes: Option<usize>,
    ) -> Result<(Bytes, DocumentPermit), Failure> {
        let memory = &self.snapshot.state.document_memory;
        let mut room =
            memory.room(self.client.caller.key_id(), expected_bytes.map(|bytes| bytes.min(MAX_ANSWER_BYTES)));
        // Images may be larger than usual ones, and the provider has billed them.
        let most_bytes =
            expected_bytes.unwrap_or(0).saturating_mul(2).clamp(MAX_ANSWER_BYTES, 2 * MAX_ANSWER_BYTES);
        let body = body.collect_in(&mut room, most_bytes, clocks.idle, self.deadline(clocks)).await?;
        Ok((body, room.into_permit()))
    }

    /// The milliseconds since the request was accepted.
    pub(crate) fn latency_ms(&self) -> u64 {
        millis(clock::since(self.client.accepted))
    }

    /// The moment at which the request's total timeout ends.
    pub(crate) fn deadline(&self, clocks: &Timeouts) -> tokio::time::Instant {
        (self.client.accepted + clocks.total).into()
    }

    /// Sends an upstream call. Returns the response if its status has an answer.
    ///
    /// # Errors
    /// The failure that the error's body describes.
    pub(crate) async fn send(
        &self,
        candidate: &Candidate,
        call: UpstreamCallId,
        mut http: HttpCall,
        clocks: &Timeouts,
    ) -> Result<UpstreamResponse, Failure> {
        self.try_send(candidate, call, &mut http, clocks).await.map_err(|refused| self.refused(call, refused))
    }

    /// Sends an encoded request, and takes it. A request in the client's own dialect is sent as a chat, if the provider turns out not
    /// to know the dialect.
    ///
    /// # Errors
    /// As [`AttemptContext::send`].
    pub(crate) async fn send_encoded(
        &self,
        candidate: &Candidate,
        call: UpstreamCallId,
        (part, encoded): (&SubRequest, &mut Encoded),
        clocks: &Timeouts,
    ) -> Result<(UpstreamResponse, Reading, Vec<Cow<'static, str>>), Failure> {
        let Encoded { call: http, reading, warnings } = encoded;
        self.upstream_calls.note_breakpoints(call, reading.breakpoints);
        let refused = match self.try_send(candidate, call, http, clocks).await {
            Ok(response) => {
                // A server without the endpoint may answer with a page, but not with a stream.
                if reading.is_native && is_event_stream(&response) {
                    candidate.provider.adapter().answered_native();
                }
                return Ok((response, std::mem::take(reading), std::mem::take(warnings)));
            }
            Err(refused) => refused,
        };
        let is_unknown = reading.is_native && matches!(refused.failure.status, Some(404 | 405));
        let adapter = candidate.provider.adapter();
        if !is_unknown || !adapter.refused_native(&refused.failure, &candidate.target()) {
            return Err(self.chat_only(candidate, self.refused(call, refused)));
        }
        let target = self.target(candidate);
        let encoded = self.step(clocks, || self.request.encode(candidate, part, &target)).await;
        let encoded =
            encoded.map_err(|failure| self.refused(call, RefusedSend { failure, is_free: true }))?;
        self.upstream_calls.note_breakpoints(call, encoded.reading.breakpoints);
        let response = Box::pin(self.send(candidate, call, encoded.call, clocks)).await?;
        Ok((response, encoded.reading, encoded.warnings))
    }

    /// Tells a client of `/v1/completions` that the upstream has only chats. Its 404 is not about the model.
    fn chat_only(&self, candidate: &Candidate, mut failure: Failure) -> Failure {
        let is_completion = matches!(self.request, ValidatedRequest::Completion(_));
        let is_refused =
            failure.kind == FailureKind::ModelMissing && matches!(failure.status, Some(404 | 405));
        let is_url = || names_url(&failure) && !names_model(&failure, &candidate.model.upstream_model);
        if is_completion && is_refused && is_url() {
            failure.code = Some("unsupported_model".to_owned());
            failure.message = format!(
                "The model '{}' cannot complete text: its provider has no /completions. Send a chat to POST \
                 /v1/chat/completions instead.",
                candidate.model.id
            );
        }
        failure
    }

    fn refused(&self, call: UpstreamCallId, refused: RefusedSend) -> Failure {
        if refused.is_free {
            self.upstream_calls.mark_free(call);
        }
        refused.failure
    }

    async fn try_send(
        &self,
        candidate: &Candidate,
        call: UpstreamCallId,
        http: &mut HttpCall,
        clocks: &Timeouts,
    ) -> Result<UpstreamResponse, RefusedSend> {
        if let Some(trace) = &self.client.trace {
            let attempt = self.upstream_calls.attempt_of(call).unwrap_or_default();
            trace.write_headers(attempt, &mut http.headers);
        }
        if let Some(upload) = http.upload.take() {
            // Nothing is served before the upstream has the whole form.
            self.upstream_calls.mark_free(call);
            let calls = Arc::clone(&self.upstream_calls);
            let size = self.request.one_shot().and_then(OneShot::size_of_upload);
            let notice = move || calls.mark_sent(call, size.as_ref().map(|size| CallSize::from(size())));
            http.upload = Some(upload.with_notice(Arc::new(notice)));
        }
        let sent = candidate.provider.send(std::mem::take(http), clocks).await;
        let response = sent.map_err(|failure| RefusedSend { is_free: !failure.sent, failure })?;
        if response.has_answer() {
            candidate.provider.record_outcome(response.key, Ok(()));
            return Ok(response);
        }
        // A provider that answers with success, but without an answer, may well have done the work.
        let is_free = !response.is_success();
        let failure = Box::pin(self.refusal(candidate, response, clocks)).await;
        Err(RefusedSend { failure, is_free })
    }

    /// The failure of a response whose status has no answer.
    async fn refusal(&self, candidate: &Candidate, response: UpstreamResponse, clocks: &Timeouts) -> Failure {
        let (key, status, headers) = (response.key, response.status, response.headers);
        let by = self.deadline(clocks).min(tokio::time::Instant::now() + ERROR_BODY_TIME);
        let reading = response.body.collect(MAX_ERROR_BYTES, clocks.idle, by);
        let body = reading.await.unwrap_or_default();
        let failure = candidate.provider.classify(status, &headers, &body);
        candidate.provider.record_outcome(key, Err(&failure));
        failure
    }
}

fn is_event_stream(response: &UpstreamResponse) -> bool {
    let media_type = response.headers.get(http::header::CONTENT_TYPE);
    media_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}
