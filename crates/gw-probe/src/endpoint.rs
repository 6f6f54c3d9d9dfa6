//! The probed endpoint: encodes a call with the provider's adapter, sends it, and keeps the answer with its head and times.

use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_providers::adapter::{ChoiceRange, Encoded, HttpCall, Target};
use gw_providers::client::{UpstreamBody, UpstreamResponse};
use gw_providers::model_rules::ModelRules;
use gw_providers::provider::Provider;
use gw_providers::settings::Timeouts;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::request::{RequestLimits, parse_chat, parse_embeddings};
use http::HeaderMap;
use serde_json::{Value, json};

use super::answer::{EventCollector, ReplyFacts, StreamFacts};
use super::subject::ProbeSubject;

/// The most bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// A response without an interpretation.
#[derive(Debug)]
pub(super) struct RawAnswer {
    /// HTTP status.
    pub status: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
    /// From sending to the last byte.
    pub took: Duration,
}

impl RawAnswer {
    /// The first value of a header, in lower case and without parameters.
    pub(super) fn media_type(&self) -> String {
        media_type(&self.headers)
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// The media type in `content-type`; "" if there is none.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

/// A complete chat answer, as it was received and as the adapter reads it.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The response; None if no complete response arrived.
    pub raw: Option<RawAnswer>,
    /// The content, or the failure.
    pub reply: Result<ReplyFacts, Failure>,
    /// Members that the adapter left out (`parameter_dropped:stop`).
    pub warnings: Vec<String>,
}

/// The moment at which the reading of a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadUntil {
    /// The end of the body.
    End,
    /// The first content. The connection is then closed.
    FirstContent,
}

/// Counts of the calls so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallTotals {
    /// Calls that were sent.
    pub calls: u32,
    /// Reported prompt tokens.
    pub prompt_tokens: u64,
    /// Reported tokens of answers.
    pub completion_tokens: u64,
}

/// The provider and the model, with the bounds of every wait.
#[derive(Debug)]
pub(super) struct ProbedEndpoint {
    /// The subject of the probe.
    pub subject: ProbeSubject,
    provider: Provider,
    timeouts: Timeouts,
    secrets: Vec<String>,
    /// The counts so far.
    pub totals: CallTotals,
    /// The names of calls whose answer repeats a key.
    pub echoes: Vec<String>,
}

impl ProbedEndpoint {
    /// An endpoint. No call takes longer than `limit`.
    pub(super) fn new(
        subject: ProbeSubject,
        provider: Provider,
        limit: Duration,
        secrets: Vec<String>,
    ) -> Self {
        let connect = limit.min(Duration::from_secs(10));
        let timeouts = Timeouts { connect, first_token: limit, idle: limit, total: limit };
        Self { subject, provider, timeouts, secrets, totals: CallTotals::default(), echoes: Vec::new() }
    }

    /// The provider.
    pub(super) fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Whether answers have OpenAI's format, so that their members can be checked one by one.
    pub(super) fn is_openai(&self) -> bool {
        self.provider.api().answers_as_openai
    }

    /// Whether requests and errors have OpenAI's format too.
    pub(super) fn speaks_openai(&self) -> bool {
        self.provider.adapter().capabilities().openai_fields
    }

    /// Encodes a chat for the provider. `request` has no `model`.
    pub(super) fn encode(&self, request: &Value) -> Result<Encoded, Failure> {
        self.encode_for(request, &self.subject.upstream_model)
    }

    /// As [`ProbedEndpoint::encode`], for another model of the provider.
    pub(super) fn encode_for(&self, request: &Value, upstream_model: &str) -> Result<Encoded, Failure> {
        let mut body = request.clone();
        if let Some(members) = body.as_object_mut() {
            members.insert("model".to_owned(), json!(self.subject.id));
        }
        let chat = parse_chat(Bytes::from(body.to_string()), &RequestLimits::default())
            .map_err(|invalid| Failure::new(FailureKind::Unsupported, invalid.to_string()))?;
        let range = ChoiceRange { n: chat.n, prompts: 0..1, from: 0 };
        self.provider.adapter().chat(&chat, &range, &self.target(upstream_model))
    }

    fn target<'a>(&'a self, upstream_model: &'a str) -> Target<'a> {
        Target {
            upstream_model,
            id: &self.subject.id,
            clamp_max_tokens: None,
            most_tokens: None,
            max_output_tokens: self.subject.max_output_tokens,
            context_length: self.subject.context_length,
            rules: ModelRules::of(self.provider.api().rules, upstream_model, &self.subject.id),
            issuer: None,
            breakpoints: None,
        }
    }

    /// Sends a chat and reads its complete answer.
    pub(super) async fn chat(&mut self, name: &str, request: &Value) -> Exchange {
        let encoded = match self.encode(request) {
            Ok(encoded) => encoded,
            Err(failure) => return Exchange { raw: None, reply: Err(failure), warnings: Vec::new() },
        };
        let warnings = encoded.warnings.iter().map(ToString::to_string).collect();
        let raw = match self.send(name, encoded.call).await {
            Ok(raw) => raw,
            Err(failure) => return Exchange { raw: None, reply: Err(failure), warnings },
        };
        let adapter = self.provider.adapter();
        let reply = if (200..300).contains(&raw.status) {
            let decoded = adapter.decode_chat(&raw.body, &encoded.reading);
            decoded.map(|reply| ReplyFacts::of_reply(&reply))
        } else {
            Err(adapter.classify(raw.status, &raw.headers, &raw.body))
        };
        let reply = reply.map_err(|failure| self.provider.censor(failure.with_status(raw.status)));
        self.count(reply.as_ref().ok());
        Exchange { raw: Some(raw), reply, warnings }
    }

    /// Sends a streamed chat and reads its events.
    ///
    /// # Errors
    /// The failure in place of a stream.
    pub(super) async fn stream(
        &mut self,
        name: &str,
        request: &Value,
        until: ReadUntil,
    ) -> Result<StreamFacts, Failure> {
        let encoded = self.encode(request)?;
        let limit = self.timeouts.total;
        let read = self.read_stream(name, encoded, until);
        let facts = match tokio::time::timeout(limit, read).await {
            Ok(facts) => facts.map_err(|failure| self.provider.censor(failure))?,
            Err(_) => return Err(late(limit)),
        };
        self.count(Some(&facts.reply));
        Ok(facts)
    }

    async fn read_stream(
        &mut self,
        name: &str,
        encoded: Encoded,
        until: ReadUntil,
    ) -> Result<StreamFacts, Failure> {
        let began = Instant::now();
        self.totals.calls += 1;
        let response = send_call(&self.provider, encoded.call, &self.timeouts).await?;
        if !(200..300).contains(&response.status) {
            let body = collect(response.body, &self.timeouts).await?;
            self.note_echo(name, &body);
            let failure = self.provider.classify(response.status, &response.headers, &body);
            return Err(failure.with_status(response.status));
        }
        let decoder = self.provider.adapter().stream(&encoded.reading);
        let mut events = EventCollector::new(response.headers, decoder);
        let mut body = response.body;
        while let Some(chunk) = body.chunk().await {
            match chunk {
                Ok(chunk) => events.feed(&chunk, began.elapsed()),
                Err(failure) => {
                    events.broken(failure);
                    break;
                }
            }
            if events.raw_bytes() > MAX_ANSWER_BYTES {
                events.broken(Failure::new(FailureKind::InvalidResponse, "The stream exceeds 8 MiB."));
                break;
            }
            if until == ReadUntil::FirstContent && events.has_content() {
                // Dropping the body closes the connection.
                return Ok(events.cancelled(began.elapsed()));
            }
        }
        let facts = events.finish(began.elapsed());
        self.note_echo(name, &facts.raw);
        Ok(facts)
    }

    /// Sends a call as it is, and reads the complete response. A response with any status is a success.
    ///
    /// # Errors
    /// The failure in place of a complete response.
    pub(super) async fn send(&mut self, name: &str, call: HttpCall) -> Result<RawAnswer, Failure> {
        let outcome = exchange(&self.provider, call, &self.timeouts).await;
        self.note(name, outcome)
    }

    /// As [`ProbedEndpoint::send`], with the credentials of another provider.
    ///
    /// # Errors
    /// As [`ProbedEndpoint::send`].
    pub(super) async fn send_by(
        &mut self,
        provider: &Provider,
        name: &str,
        call: HttpCall,
    ) -> Result<RawAnswer, Failure> {
        let outcome = exchange(provider, call, &self.timeouts).await;
        self.note(name, outcome)
    }

    fn note(&mut self, name: &str, outcome: Result<RawAnswer, Failure>) -> Result<RawAnswer, Failure> {
        self.totals.calls += 1;
        let raw = outcome.map_err(|failure| self.provider.censor(failure))?;
        self.note_echo(name, &raw.body);
        Ok(raw)
    }

    /// Encodes embeddings.
    ///
    /// # Errors
    /// The dialect cannot express the request.
    pub(super) fn encode_embeddings(&self, request: &Value, inputs: usize) -> Result<HttpCall, Failure> {
        self.encode_embeddings_for(request, inputs, &self.subject.upstream_model)
    }

    /// As [`ProbedEndpoint::encode_embeddings`], for another model of the provider.
    ///
    /// # Errors
    /// As [`ProbedEndpoint::encode_embeddings`].
    pub(super) fn encode_embeddings_for(
        &self,
        request: &Value,
        inputs: usize,
        upstream_model: &str,
    ) -> Result<HttpCall, Failure> {
        let mut body = request.clone();
        if let Some(members) = body.as_object_mut() {
            members.insert("model".to_owned(), json!(self.subject.id));
        }
        let parsed = parse_embeddings(Bytes::from(body.to_string()), &RequestLimits::default())
            .map_err(|invalid| Failure::new(FailureKind::Unsupported, invalid.to_string()))?;
        self.provider.adapter().embeddings(&parsed, 0..inputs, &self.target(upstream_model))
    }

    /// Counts the tokens of an answer.
    fn count(&mut self, reply: Option<&ReplyFacts>) {
        if let Some(usage) = reply.and_then(|reply| reply.usage) {
            self.totals.prompt_tokens = self.totals.prompt_tokens.saturating_add(usage.prompt);
            self.totals.completion_tokens = self.totals.completion_tokens.saturating_add(usage.completion);
        }
    }

    fn note_echo(&mut self, name: &str, body: &[u8]) {
        let text = String::from_utf8_lossy(body);
        if self.secrets.iter().any(|secret| text.contains(secret.as_str())) {
            self.echoes.push(name.to_owned());
        }
    }
}

/// Sends a call, and sends it again if no connection carried it, as the gateway does. Some servers close a connection that
/// they promised to keep, and the next call then finds it closed.
async fn send_call(
    provider: &Provider,
    call: HttpCall,
    timeouts: &Timeouts,
) -> Result<UpstreamResponse, Failure> {
    match provider.send(call.clone(), timeouts).await {
        Err(failure) if failure.kind == FailureKind::Unreachable => provider.send(call, timeouts).await,
        outcome => outcome,
    }
}

/// Sends a call and reads the complete response within the total timeout.
async fn exchange(provider: &Provider, call: HttpCall, timeouts: &Timeouts) -> Result<RawAnswer, Failure> {
    let began = Instant::now();
    let work = async {
        let response = send_call(provider, call, timeouts).await?;
        let body = collect(response.body, timeouts).await?;
        Ok(RawAnswer { status: response.status, headers: response.headers, body, took: began.elapsed() })
    };
    let limit = timeouts.total;
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(late(limit)))
}

async fn collect(body: UpstreamBody, timeouts: &Timeouts) -> Result<Bytes, Failure> {
    let deadline = tokio::time::Instant::now() + timeouts.total;
    body.collect(MAX_ANSWER_BYTES, timeouts.idle, deadline).await
}

fn late(limit: Duration) -> Failure {
    Failure::new(FailureKind::Timeout, format!("The call did not end within {} s.", limit.as_secs()))
}
