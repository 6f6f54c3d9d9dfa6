//! Sends a request that passes through, and judges the head of its answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use gw_providers::client::UpstreamResponse;
use gw_providers::provider::{ClientSecrets, PassedCall};
use gw_providers::settings::Timeouts;
use gw_providers::usage_scan::UsageScanner;
use gw_wire::failure::{Failure, FailureKind};
use http::{HeaderMap, HeaderValue, Method};

use super::charging::{AnswerFacts, Charging};
use super::relay::{RelayParts, RelayedBody};
use super::upload::UploadEnd;
use super::{PassthroughBody, PassthroughReply, PassthroughRequest};
use crate::call::quoted_prompt;
use crate::call::settlement::{Outcome, Settlement};
use crate::call::upstream_call::{Attempt, AttemptOutcome, UpstreamCallId, UpstreamCalls};
use crate::clock::{self, millis};
use crate::error::{Error, Result};
use crate::plan::call_size::CallSize;
use crate::plan::candidate::Candidate;
use crate::plan::snapshot::Snapshot;
use crate::request::context::RequestContext;
use crate::retry_policy;
use crate::shutdown::CutoffWatch;

/// The longest refusal of an upstream that is read before it is passed on.
const MAX_REFUSAL_BYTES: usize = 256 << 10;
/// How long the body of a refusal may take.
const REFUSAL_TIME: Duration = Duration::from_secs(10);

/// The only upstream call of a request. Dropped before its end, it is charged for what its client left.
#[derive(Debug)]
pub(super) struct SentCall {
    snapshot: Arc<Snapshot>,
    pub(super) candidate: Candidate,
    charging: Charging,
    pub(super) settlement: Box<Settlement>,
    calls: Arc<UpstreamCalls>,
    begun: Option<(Attempt, UpstreamCallId)>,
    upload: UploadEnd,
    /// The credentials that the client sends to the upstream.
    secrets: ClientSecrets,
    /// An answer has come that is charged.
    is_answered: bool,
}

impl SentCall {
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        candidate: Candidate,
        charging: Charging,
        settlement: Box<Settlement>,
    ) -> Self {
        let calls = Arc::clone(settlement.upstream_calls());
        let (upload, secrets) = (UploadEnd::WHOLE, ClientSecrets::default());
        Self {
            snapshot,
            candidate,
            charging,
            settlement,
            calls,
            begun: None,
            upload,
            secrets,
            is_answered: false,
        }
    }

    /// Begins the upstream call.
    ///
    /// # Errors
    /// The journal cannot record it.
    fn begin(&mut self, upload: UploadEnd) -> Result<usize> {
        let attempt = self.settlement.begin_forwarded(&self.candidate, &self.charging.of_sent())?;
        let call = self.calls.begin(attempt, &self.candidate, CallSize::default());
        // Nothing is served before the upstream has the whole body.
        self.calls.mark_free(call);
        (self.begun, self.upload) = (Some((attempt, call)), upload);
        Ok(self.calls.attempt_of(call).unwrap_or_default())
    }

    /// Charges the call by what is known of its answer.
    pub(super) fn charge(&mut self, answer: &AnswerFacts) {
        if let Some((_, call)) = self.begun {
            self.is_answered = true;
            self.charging.charge(&self.calls, call, answer);
        }
    }

    /// Charges a request that was sent and may have been served.
    fn charge_sent(&mut self) {
        if self.upload.is_reached() {
            self.charge(&AnswerFacts::SENT);
        }
    }

    /// Tokens of a stream between two notes of its progress; None = nothing is noted.
    pub(super) fn progress_tokens(&self) -> Option<u64> {
        self.settlement.progress_tokens().map(|most| self.charging.progress_tokens(most))
    }

    /// Notes in the journal what the answer has used by now.
    pub(super) fn note_progress(&mut self, answer: &AnswerFacts) {
        self.charge(answer);
        if let Some((_, call)) = self.begun {
            let usage = self.calls.usage_of(call);
            self.settlement.note_progress(&self.candidate, &usage);
        }
    }

    /// Notes when the first content of a stream came.
    pub(super) fn note_first_content(&mut self, client: std::time::Instant) {
        if let Some((attempt, _)) = self.begun {
            let after = attempt.elapsed();
            self.settlement.note_first_token(&self.candidate, (attempt, after), millis(clock::since(client)));
        }
    }

    /// Ends the call and the request.
    pub(super) fn end(&mut self, outcome: AttemptOutcome, status: &'static str, reason: Option<String>) {
        let Some((attempt, _)) = self.begun.take() else { return };
        self.settlement.end_only_attempt(&self.candidate, attempt, outcome, (status, reason));
    }

    /// Ends the request with a failure of its upstream call, which is charged as it stands.
    fn fail(&mut self, mut failure: Failure, prompt: &[u8]) -> Error {
        if let Some(reason) = &mut failure.reason {
            self.censor(reason);
            self.secrets.censor_text(reason);
            quoted_prompt::hide(reason, std::iter::once(prompt));
            self.settlement.note_upstream_error(reason);
        }
        let failure = self.candidate.provider.censor(failure);
        let error = retry_policy::error(&failure, &[], None);
        self.end(AttemptOutcome::Failed, error.kind.code(), failure.reason);
        self.settlement.finish(&Outcome::Failed(&error));
        error
    }

    /// Removes the secrets of all providers.
    fn censor(&self, text: &mut String) {
        if let Cow::Owned(censored) = self.censored(text.as_bytes()) {
            *text = String::from_utf8_lossy(&censored).into_owned();
        }
    }

    /// The bytes without the secrets of all providers.
    fn censored<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let providers = std::iter::once(&self.candidate.provider).chain(self.snapshot.providers.values());
        providers.fold(Cow::Borrowed(bytes), |bytes, provider| match provider.censored(&bytes) {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(censored) => Cow::Owned(censored),
        })
    }
}

impl Drop for SentCall {
    /// The request was dropped before its head came. A request that the upstream has in full may be served.
    fn drop(&mut self) {
        if self.begun.is_some() && !self.is_answered {
            self.charge_sent();
        }
    }
}

/// Sends the request, and answers with what comes back.
///
/// # Errors
/// No answer came, or one that says that the operator's credential is refused.
pub(super) async fn send(
    mut call: SentCall,
    client: &RequestContext,
    request: PassthroughRequest,
    clocks: Timeouts,
    cut: CutoffWatch,
) -> Result<PassthroughReply> {
    let PassthroughRequest { route, method, path, headers, body } = request;
    let is_injected = route.injects();
    call.secrets = ClientSecrets::of(&headers, &path);
    let (bytes, streamed, upload) = match body {
        PassthroughBody::Whole(bytes) => (bytes, None, UploadEnd::WHOLE),
        PassthroughBody::Streamed(upload) => {
            let (streamed, end) = upload.streamed();
            (Bytes::new(), Some(streamed), end)
        }
    };
    let attempt = match call.begin(upload) {
        Ok(attempt) => attempt,
        Err(error) => {
            call.settlement.finish(&Outcome::Failed(&error));
            return Err(error);
        }
    };
    let mut http = HttpCall { method: method.clone(), path, headers, body: bytes.clone(), upload: None };
    if let Some(trace) = &client.trace {
        trace.write_headers(attempt, &mut http.headers);
    }
    let due = client.accepted + clocks.total;
    let provider = Arc::clone(&call.candidate.provider);
    let sending = provider.pass(PassedCall { call: http, streamed, is_injected }, &clocks);
    let mut response = match tokio::time::timeout_at(due.into(), sending).await {
        Ok(Ok(response)) => response,
        Ok(Err(failure)) => {
            // An answer that cannot be read was an answer.
            if failure.sent || failure.kind == FailureKind::InvalidResponse {
                call.charge_sent();
            }
            return Err(call.fail(failure, &bytes));
        }
        Err(_) => {
            call.charge_sent();
            let late = Failure::new(FailureKind::Timeout, "The request exceeded its time limit.");
            return Err(call.fail(late, &bytes));
        }
    };
    if is_injected {
        response.headers = headers_without_secrets(&call, response.headers);
    }
    if response.status >= 400 {
        return refused(call, (response, is_injected), &bytes, clocks, due).await;
    }
    let mask = is_injected.then(|| provider.secret_mask()).flatten();
    let scanner = route.usage.map(|shape| UsageScanner::new(shape, &response.headers));
    Ok(relayed(
        call,
        response,
        RelayParts { scanner, mask, method, accepted: client.accepted, due, idle: clocks.idle, cut },
    ))
}

/// Passes the answer on as it comes.
fn relayed(mut call: SentCall, response: UpstreamResponse, parts: RelayParts) -> PassthroughReply {
    let UpstreamResponse { status, mut headers, body, .. } = response;
    // Of two contradicting facts about its end, the body follows this one.
    if headers.contains_key(http::header::TRANSFER_ENCODING) {
        headers.remove(http::header::CONTENT_LENGTH);
    }
    // A redirect served nothing.
    if (200..300).contains(&status) {
        call.charge(&AnswerFacts::SENT);
    }
    let body = RelayedBody::new(call, (status, &headers), body, parts);
    PassthroughReply { status, headers, budget_left: None, body }
}

/// Ends a request that the upstream refused. The client gets the refusal, unless it is about the operator's credential.
async fn refused(
    mut call: SentCall,
    (response, is_injected): (UpstreamResponse, bool),
    prompt: &[u8],
    clocks: Timeouts,
    due: std::time::Instant,
) -> Result<PassthroughReply> {
    let UpstreamResponse { status, headers, body, .. } = response;
    let by = tokio::time::Instant::from(due).min(tokio::time::Instant::now() + REFUSAL_TIME);
    let read = body.collect(MAX_REFUSAL_BYTES, clocks.idle, by).await;
    let known = read.as_deref().unwrap_or_default();
    // A guess of what looks like a key may replace a part of a credential, and leave the other part.
    let mut failure = call.candidate.provider.classify(status, &headers, &call.secrets.censored(known));
    // The client chose the URL, so its refusal says nothing about the operator's keys, which all requests share.
    if is_injected && status == 401 {
        failure.kind = FailureKind::Auth;
        return Err(call.fail(failure, prompt));
    }
    // A refusal that is too long to be read has no words that the client could get, and an empty one would hide that.
    let body = match read {
        Ok(body) => body,
        Err(unread) => return Err(call.fail(unread, prompt)),
    };
    let body = if is_injected { without_secrets(&call, body) } else { body };
    call.fail(failure, prompt);
    let (headers, body) = (without_coding(headers), RelayedBody::whole(body));
    Ok(PassthroughReply { status, headers, budget_left: None, body })
}

/// Some upstreams repeat the key of a call.
fn without_secrets(call: &SentCall, body: Bytes) -> Bytes {
    match call.censored(&body) {
        Cow::Borrowed(_) => body,
        Cow::Owned(censored) => censored.into(),
    }
}

/// Some upstreams repeat the key of a call in a header: in the address of a redirect, for example.
fn headers_without_secrets(call: &SentCall, headers: HeaderMap) -> HeaderMap {
    let censored = |text: &str| {
        let mut censored = text.to_owned();
        call.censor(&mut censored);
        (censored != text).then_some(censored)
    };
    // Few answers hold a secret, so all values are searched at once. No secret has a line break.
    let values: Vec<_> = headers.values().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    if censored(&values.join("\n")).is_none() {
        return headers;
    }
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in &headers {
        let without = match censored(&String::from_utf8_lossy(value.as_bytes())) {
            None => Some(value.clone()),
            Some(text) => HeaderValue::from_str(&text).ok(),
        };
        if let Some(value) = without {
            kept.append(name.clone(), value);
        }
    }
    kept
}

/// The headers of an answer whose body was read.
fn without_coding(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(http::header::CONTENT_LENGTH);
    headers
}

/// Whether an answer to this method with this status has a body.
pub(super) fn has_body(method: &Method, status: u16) -> bool {
    *method != Method::HEAD && !matches!(status, 204 | 304)
}

/// The code of a request that ended well.
pub(super) const OK: &str = "ok";
