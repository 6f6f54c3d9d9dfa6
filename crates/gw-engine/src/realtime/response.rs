//! A response of a realtime session: its reservation, its charge and its row.

use std::sync::Arc;

use gw_limits::{Limiter, Subject, SubjectKind};
use gw_wire::money::Money;
use gw_wire::usage::{BYTES_PER_TOKEN, Usage, small};

use super::OPERATION;
use super::session::RealtimeSession;
use crate::call::forwarded_reserve::{ForwardedCase, reserve};
use crate::call::settlement::{Outcome, Settlement};
use crate::call::upstream_call::{Attempt, AttemptOutcome, BilledUsage, UpstreamCallId};
use crate::clock::{self, millis};
use crate::error::{Error, Kind, Result};
use crate::plan::call_size::CallSize;
use crate::plan::candidate::Candidate;
use crate::request::context::RequestContext;
use crate::services::Services;

/// Tokens of an answer that nothing bounds.
const UNBOUNDED_ANSWER_TOKENS: u64 = 4_096;
/// The base64 characters of a token of sound that a model makes: 50 milliseconds of 16-bit samples, 24,000 a second.
const MADE_CHARS_PER_TOKEN: u64 = 3_200;
/// The status of a call that ended well.
const OK: &str = "ok";

/// The estimated size of what a response reads, and the bound of its answer, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptSize {
    /// Tokens of text.
    pub text: u64,
    /// Tokens of sound.
    pub audio: u64,
    /// The client's bound on the answer.
    pub max_answer: Option<u64>,
}

/// A response that runs. Dropped before its end, it is charged for what is known of it.
#[derive(Debug)]
pub struct RealtimeResponse {
    candidate: Candidate,
    settlement: Box<Settlement>,
    begun: Option<(Attempt, UpstreamCallId)>,
    prompt: Usage,
    made: MadeOutput,
    /// The tokens when the journal was told last.
    told_tokens: u64,
    accepted: std::time::Instant,
    unreserved: Option<Unreserved>,
    refusal: Option<Error>,
}

/// The output that has come.
#[derive(Clone, Copy, Debug, Default)]
struct MadeOutput {
    text_bytes: u64,
    audio_chars: u64,
}

/// The subjects that pay for a response which nothing reserved.
#[derive(Debug)]
struct Unreserved {
    limiter: Limiter,
    request_id: Arc<str>,
    subjects: Vec<Arc<Subject>>,
}

/// Begins a response. `is_forced`: the upstream makes it already, so that it is charged also if it is refused
/// ([`RealtimeResponse::refusal`]).
///
/// # Errors
/// The refusal of a limit, a budget, a rule or a guard.
pub(crate) async fn begin(
    services: &Services,
    session: &RealtimeSession,
    mut client: Box<RequestContext>,
    (size, is_forced): (PromptSize, bool),
) -> Result<RealtimeResponse> {
    let snapshot = services.snapshot();
    client.rules = services.rules_of(&snapshot, &client);
    let candidate = session.candidate(&snapshot);
    let mut settlement =
        Settlement::open(&client, Arc::clone(&services.metrics), services.journal.as_ref(), OPERATION);
    settlement.note_forwarded(session.requested_model(), true);
    client.log.note(|record| {
        record.stream = true;
        record.model = Some(Arc::clone(&candidate.model.id));
        record.provider = Some(Arc::clone(&candidate.model.provider));
    });
    let admitted = admit(services, session, &client, (&candidate, &size), &mut settlement).await;
    let refusal = match admitted {
        Err(error) if !is_forced => {
            settlement.finish(&Outcome::Failed(&error));
            return Err(error);
        }
        admitted => admitted.err(),
    };
    let unreserved = refusal.as_ref().map(|_| Unreserved::of(services, &client, &candidate));
    let prompt =
        Usage { audio_prompt: Some(small(size.audio)), ..Usage::estimate(size.text + size.audio, 0) };
    let mut response = RealtimeResponse {
        candidate,
        settlement,
        begun: None,
        prompt,
        made: MadeOutput::default(),
        told_tokens: 0,
        accepted: client.accepted,
        unreserved,
        refusal,
    };
    response.send()?;
    Ok(response)
}

/// The checks of a response before the upstream makes it.
async fn admit(
    services: &Services,
    session: &RealtimeSession,
    client: &RequestContext,
    (candidate, size): (&Candidate, &PromptSize),
    settlement: &mut Settlement,
) -> Result<()> {
    let model = &candidate.model;
    if !client.caller.may_use(model) {
        let message = format!("This API key may not use the model '{}'.", session.requested_model());
        return Err(Error::new(Kind::ModelNotAllowed, message));
    }
    let (tokens, cost, is_priced) = worst_case(candidate, size);
    if !is_priced
        && let Some(refusal) = client.unpriced_refusal_at(&services.limiter, &model.id, candidate.serving())
    {
        return Err(refusal);
    }
    if let Some(most) = client.max_cost.as_deref().copied()
        && (cost > most || !is_priced)
    {
        let message =
            format!("'x-gateway-max-cost-usd' allows {most} USD, and the response may cost {cost} USD.");
        return Err(Error::new(Kind::MaxCostExceeded, message));
    }
    let guards = &services.snapshot().session_guards;
    if let Some(guarded) = guards.of_forwarded(client, session.requested_model()) {
        let warnings = guarded.admit(&services.limiter, &services.metrics).await?;
        if !warnings.is_empty() {
            settlement.note_warnings(&warnings);
        }
        settlement.charge_session(guarded.charge(&services.limiter));
    }
    // The session counts in the limits of requests, and not its responses.
    let (need, is_unpriced) = ((tokens, cost.femtos()), !is_priced);
    let case = ForwardedCase { candidate, need, is_unpriced, counts: false };
    reserve(&services.limiter, client, case, settlement).await
}

/// The tokens and the cost of the worst case, and whether all its prices are known.
fn worst_case(candidate: &Candidate, size: &PromptSize) -> (u64, Money, bool) {
    let model = &candidate.model;
    let context = model.context_length.unwrap_or(u64::MAX);
    let prompt = size.text.saturating_add(size.audio).min(context);
    let longest = size.max_answer.or(model.max_output_tokens).unwrap_or(UNBOUNDED_ANSWER_TOKENS).min(context);
    let usual = if size.max_answer.is_some() { longest } else { longest.min(UNBOUNDED_ANSWER_TOKENS) };
    let written = Usage {
        prompt: prompt.max(2),
        audio_prompt: Some(small(size.audio.clamp(1, prompt.max(1)))),
        completion: longest,
        ..Usage::default()
    };
    let spoken = Usage { audio_completion: Some(small(longest)), ..written };
    let (written, spoken) = (model.charge(&written), model.charge(&spoken));
    let is_priced = written.is_complete && spoken.is_complete;
    (prompt.saturating_add(usual), written.known.max(spoken.known), is_priced)
}

impl Unreserved {
    fn of(services: &Services, client: &RequestContext, candidate: &Candidate) -> Self {
        let limiter = services.limiter.clone();
        let subjects = client.paying_subjects(&limiter, candidate.serving());
        Self { limiter, request_id: Arc::clone(&client.request_id), subjects }
    }

    fn charge(self, cost: Money, begun: i64) {
        let subjects: Vec<(SubjectKind, &str)> =
            self.subjects.iter().map(|subject| (subject.kind(), subject.id())).collect();
        self.limiter.charge(&self.request_id, &subjects, cost.femtos(), begun);
    }
}

impl RealtimeResponse {
    /// The reason for which the response should not go on.
    #[must_use]
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// Notes that the upstream is asked.
    ///
    /// # Errors
    /// The journal cannot record it.
    fn send(&mut self) -> Result<()> {
        let mut billed = BilledUsage::default();
        billed.add_usage(&self.candidate.model, &self.prompt);
        match self.settlement.begin_forwarded(&self.candidate, &billed) {
            Ok(attempt) => {
                let call =
                    self.settlement.upstream_calls().begin(attempt, &self.candidate, CallSize::default());
                self.begun = Some((attempt, call));
                self.charge_estimate();
                Ok(())
            }
            Err(error) => {
                self.settlement.finish(&Outcome::Failed(&error));
                Err(error)
            }
        }
    }

    /// Notes output that passed: bytes of text, and base64 characters of sound.
    pub fn note_output(&mut self, text_bytes: u64, audio_chars: u64) {
        let is_first = self.made.text_bytes | self.made.audio_chars == 0;
        self.made.text_bytes = self.made.text_bytes.saturating_add(text_bytes);
        self.made.audio_chars = self.made.audio_chars.saturating_add(audio_chars);
        if is_first && let Some((attempt, _)) = self.begun {
            let after = attempt.elapsed();
            let waited = millis(clock::since(self.accepted));
            self.settlement.note_first_token(&self.candidate, (attempt, after), waited);
        }
        let usage = self.charge_estimate();
        let Some(every) = self.settlement.progress_tokens() else { return };
        if usage.completion >= self.told_tokens.saturating_add(every) {
            self.told_tokens = usage.completion;
            self.settlement.note_progress(&self.candidate, &usage);
        }
    }

    /// Charges what is known so far: an estimate of the prompt and of the output that passed.
    fn charge_estimate(&self) -> Usage {
        let audio = self.made.audio_chars.div_ceil(MADE_CHARS_PER_TOKEN);
        let text = self.made.text_bytes.div_ceil(BYTES_PER_TOKEN);
        let usage = Usage { completion: text + audio, audio_completion: Some(small(audio)), ..self.prompt };
        self.charge(usage);
        usage
    }

    fn charge(&self, usage: Usage) {
        if let Some((_, call)) = self.begun {
            // The estimate of the prompt stands in for a count that cannot be true. A true count of zero stays.
            let prompt = if usage.estimated { self.prompt } else { Usage::default() };
            let size = CallSize {
                prompt_tokens: prompt.prompt,
                audio_tokens: u64::from(prompt.audio_prompt.unwrap_or(0)),
                prompts: 1,
                answers: 1,
                ..CallSize::default()
            };
            let calls = self.settlement.upstream_calls();
            // The upstream's count stands unless it is impossible beside the output that passed.
            let sound = self.made.audio_chars.div_ceil(MADE_CHARS_PER_TOKEN).saturating_mul(BYTES_PER_TOKEN);
            let passed = self.made.text_bytes.saturating_add(sound);
            calls.charge_as(call, (&self.candidate.model, size), Some(usage), passed);
        }
    }

    /// Ends a response that the upstream has ended with this status and this `usage` (JSON).
    /// Returns the usage that it reports.
    pub fn done(mut self, status: &str, usage: Option<&str>) -> Option<Usage> {
        let surface = self.candidate.provider.surfaces().realtime.as_deref();
        let reported = usage.zip(surface).and_then(|(usage, surface)| surface.usage(usage));
        match (reported, self.begun) {
            (Some(usage), _) => self.charge(usage),
            // A failed response without a usage cost nothing.
            (None, Some((_, call))) if status == "failed" => self.settlement.upstream_calls().mark_free(call),
            (None, _) => {}
        }
        let failed = (status == "failed").then_some(Kind::UpstreamStreamError.code());
        match self.refusal.take().map(|error| error.kind.code()).or(failed) {
            Some(code) => self.end(AttemptOutcome::Interrupted, code),
            None => self.end(AttemptOutcome::Served, OK),
        }
        reported
    }

    /// Ends a response that the upstream refused with an error event.
    pub fn refused(mut self, code: &str) {
        if let Some((_, call)) = self.begun {
            self.settlement.upstream_calls().mark_free(call);
        }
        let message = "The upstream provider refused the response.";
        let error = Error { code: Some(code.to_owned().into()), ..Error::new(Kind::Invalid, message) };
        self.end_attempt(AttemptOutcome::Failed, error.kind.code());
        self.finish(&Outcome::Failed(&error));
    }

    /// Ends a response whose end will not come, for this reason. It is charged for what is known of it.
    pub fn torn(mut self, code: &'static str) {
        self.end(AttemptOutcome::Interrupted, code);
    }

    fn end(&mut self, outcome: AttemptOutcome, status: &'static str) {
        self.end_attempt(outcome, status);
        if outcome == AttemptOutcome::Served {
            self.finish(&Outcome::Served);
        } else {
            self.finish(&Outcome::Interrupted(status));
        }
    }

    fn end_attempt(&mut self, outcome: AttemptOutcome, status: &'static str) {
        let Some((attempt, _)) = self.begun.take() else { return };
        self.settlement.end_only_attempt(&self.candidate, attempt, outcome, (status, None));
    }

    fn finish(&mut self, outcome: &Outcome<'_>) {
        self.settlement.finish(outcome);
        if let Some(unreserved) = self.unreserved.take() {
            let begun = clock::unix_millis().div_euclid(1_000);
            unreserved.charge(self.settlement.upstream_calls().all().cost, begun);
        }
    }
}

impl Drop for RealtimeResponse {
    /// The client has gone.
    fn drop(&mut self) {
        if self.begun.is_some() {
            self.finish(&Outcome::Dropped(Kind::ClientClosedRequest.code()));
        }
    }
}
