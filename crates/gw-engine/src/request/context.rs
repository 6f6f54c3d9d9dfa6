//! The facts about a request that the edge hands to the engine beside its body, and the record for the access log.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_limits::{Limiter, Subject};
use gw_wire::attribution::Attribution;
use gw_wire::dialects::ClientDialect;
use gw_wire::dialects::gemini::GeminiMethod;
use gw_wire::gateway::PresetUse;
use gw_wire::money::Money;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::auth::Caller;
use crate::error::Error;
use crate::limit_error;
use crate::request::trace::RequestTrace;
use crate::rules::{Asker, RequestRules, ServingTarget};

/// The facts about a request beside its body.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// `req_…`.
    pub request_id: Arc<str>,
    /// The key's owner.
    pub caller: Caller,
    /// The moment at which the request was accepted. Latencies count from it.
    pub accepted: Instant,
    /// The record for the access log.
    pub log: Arc<CallLog>,
    /// The client's address, for the ledger.
    pub client: Option<IpAddr>,
    /// The name of the session that the request belongs to: at most 128 printable characters.
    pub session: Option<Arc<str>>,
    /// The request's end user, tags, repository, branch and pull request; None = it has none that counts.
    pub attribution: Option<Arc<Attribution>>,
    /// The preset that changed the request's body.
    pub preset: Option<Arc<PresetUse>>,
    /// The headers that a target's condition reads.
    pub matched_headers: Vec<(HeaderName, HeaderValue)>,
    /// The rules that apply to the request. The engine finds them.
    pub rules: Option<Arc<RequestRules>>,
    /// Warnings of the edge about the request.
    pub warnings: Vec<&'static str>,
    /// The most that the request may cost in the worst case; None = any amount.
    pub max_cost: Option<Box<Money>>,
    /// Takes the report of a dry run; None = the request is served.
    pub dry_run: Option<Arc<DryRun>>,
    /// The values of its `Cache-Control` headers, joined; None if it has none.
    pub cache_control: Option<Box<[u8]>>,
    /// The silence after which a keep-alive comment is sent; None = never.
    pub keepalive: Option<Duration>,
    /// The form of the answer, and headers for upstreams.
    pub surface: ClientSurface,
    /// The trace of the request; None = no traces are written.
    pub trace: Option<Arc<RequestTrace>>,
}

impl RequestContext {
    /// The key, its team and the counters of rules: everything that limits the request.
    pub(crate) fn subjects(&self) -> &[Arc<Subject>] {
        self.rules.as_ref().map_or_else(|| self.caller.subjects(), |rules| rules.subjects())
    }

    /// The key, its team, and all rules of the request and of this target that refuse.
    pub(crate) fn subjects_at(
        &self,
        limiter: &Limiter,
        target: ServingTarget<'_>,
    ) -> Cow<'_, [Arc<Subject>]> {
        let of_target = self.rules.as_ref().and_then(|rules| rules.at(limiter, self.asker(), target));
        match of_target {
            Some(at) => self.subjects().iter().chain(at.of_counters()).cloned().collect(),
            None => Cow::Borrowed(self.subjects()),
        }
    }

    /// Everybody that pays for what a target serves: the key, its team, and all rules of the request and of the target, those in shadow
    /// mode, too.
    pub(crate) fn paying_subjects(&self, limiter: &Limiter, target: ServingTarget<'_>) -> Vec<Arc<Subject>> {
        let mut paying = self.subjects().to_vec();
        if let Some(rules) = &self.rules {
            let at = rules.at(limiter, self.asker(), target);
            let of_target = at.iter().flat_map(|at| at.of_counters());
            let shadows = std::iter::once(&**rules).chain(at.as_ref()).flat_map(RequestRules::shadows);
            paying.extend(of_target.chain(shadows.map(|counter| &counter.subject)).cloned());
        }
        paying
    }

    /// The caller and its names, as rules see them.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker { caller: &self.caller, attribution: self.attribution.as_deref() }
    }

    /// The refusal of a request to a model whose cost nobody can know (`unpriced = "refuse"`). None: the key, its team and the rules of
    /// the whole request allow it.
    pub(crate) fn unpriced_refusal(&self, model: &str) -> Option<Error> {
        match self.caller.refuses_unpriced() {
            Some(kind) => Some(limit_error::unpriced(&format!("this {kind}"), model)),
            None => self.rules.as_ref()?.unpriced_refusal(model),
        }
    }

    /// As [`Self::unpriced_refusal`], for a request with one target, whose rules count, too.
    pub(crate) fn unpriced_refusal_at(
        &self,
        limiter: &Limiter,
        model: &str,
        target: ServingTarget<'_>,
    ) -> Option<Error> {
        let of_target = || self.rules.as_ref()?.at(limiter, self.asker(), target)?.unpriced_refusal(model);
        self.unpriced_refusal(model).or_else(of_target)
    }
}

/// The facts beside a body that conditions of targets and rules read.
#[derive(Clone, Debug, Default)]
pub struct RequestMarks {
    /// The headers that a target's condition reads.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The request's end user, tags, repository, branch and pull request; None = it has none that counts.
    pub attribution: Option<Arc<Attribution>>,
}

/// A dry run: the place for the report that the client gets instead of an answer.
#[derive(Debug, Default)]
pub struct DryRun(Mutex<Option<Bytes>>);

impl DryRun {
    /// Notes the report.
    pub(crate) fn note(&self, report: Bytes) {
        *self.0.lock() = Some(report);
    }

    /// Takes the report. None: the request has a fault, which its error names.
    #[must_use]
    pub fn take(&self) -> Option<Bytes> {
        self.0.lock().take()
    }
}

/// The facts that differ between the APIs that clients speak.
#[derive(Clone, Debug)]
pub struct ClientSurface {
    /// The dialect in which the client is answered.
    pub dialect: ClientDialect,
    /// The answer has none of the gateway's own members.
    pub is_plain: bool,
    /// Headers for an upstream that speaks the client's dialect (`anthropic-beta`, …).
    pub forwarded: Vec<(HeaderName, HeaderValue)>,
    /// The facts in the URL of a Gemini request; None for all others.
    pub gemini: Option<Arc<GeminiUrl>>,
    /// The body of a Responses request as the client sent it, which the answer repeats; None = no preset changed it.
    pub own_body: Option<Bytes>,
}

/// The facts about a Gemini request that stand in its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeminiUrl {
    /// The name of the model.
    pub model: String,
    /// The method of the model.
    pub method: GeminiMethod,
    /// The client wants a stream as a JSON array, and not as server-sent events (`alt=sse`).
    pub is_array: bool,
}

impl Default for ClientSurface {
    /// OpenAI's dialect with the gateway's members.
    fn default() -> Self {
        Self {
            dialect: ClientDialect::OpenAi,
            is_plain: false,
            forwarded: Vec::new(),
            gemini: None,
            own_body: None,
        }
    }
}

/// The outcome of a call, for the access log. It is complete when the call ends.
#[derive(Debug, Default)]
pub struct CallLog(Mutex<CallRecord>);

/// The fields of the access log line of a generation request.
#[derive(Clone, Debug, Default)]
pub struct CallRecord {
    /// The catalogue id of the model that answered, else of the requested one.
    pub model: Option<Arc<str>>,
    /// Its provider.
    pub provider: Option<Arc<str>>,
    /// `"ok"` or an error code.
    pub status: Option<&'static str>,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// The token counts are estimates.
    pub estimated: bool,
    /// The tokens that the limits of tokens count: those that are set aside for the request, and at its end those that it has used.
    pub counted_tokens: u64,
    /// The cost of all upstream calls, as far as prices are known.
    pub cost: Money,
    /// A price that the cost needs is unknown.
    pub unpriced: bool,
    /// How many attempts were made.
    pub attempts: u32,
    /// Milliseconds from acceptance to the first content of a stream.
    pub ttft_ms: Option<u64>,
    /// The client asked for a stream.
    pub stream: bool,
    /// A fallback model answered.
    pub fallback: bool,
    /// The answer came from the response cache, or from another request's call.
    pub cache_hit: bool,
    /// The reason of the last failed upstream: one line of at most 2 KiB, without secrets and quotations of the prompt.
    pub upstream_error: Option<Arc<str>>,
}

impl CallRecord {
    /// The cost of all upstream calls; None = a price is unknown.
    #[must_use]
    pub fn known_cost(&self) -> Option<Money> {
        (!self.unpriced).then_some(self.cost)
    }
}

impl CallLog {
    /// A copy of the record as it stands.
    #[must_use]
    pub fn record(&self) -> CallRecord {
        self.0.lock().clone()
    }

    /// Counts tokens that are set aside for the request.
    pub(crate) fn count_tokens(&self, tokens: u64) {
        self.note(|record| record.counted_tokens = record.counted_tokens.saturating_add(tokens));
    }

    /// The tokens that the limits of tokens count for the request by now.
    #[must_use]
    pub fn counted_tokens(&self) -> u64 {
        self.0.lock().counted_tokens
    }

    /// The status noted so far.
    pub(crate) fn status(&self) -> Option<&'static str> {
        self.0.lock().status
    }

    /// Notes a status, unless one is noted.
    pub fn ended(&self, status: &'static str) {
        self.note(|record| record.status = record.status.or(Some(status)));
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut CallRecord)) {
        change(&mut self.0.lock());
    }
}
