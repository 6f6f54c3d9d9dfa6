//! The checks of a probe, in their order.

mod cancel;
mod chat;
mod embeddings;
mod errors;
mod head;
mod list;
mod native;
mod options;
mod stream;
mod structured;
mod tools;
mod usage;
mod wire;

use gw_wire::failure::FailureKind;
use serde_json::{Map, Value, json};

use super::answer::CallFacts;
use super::endpoint::ProbedEndpoint;
use super::finding::{Finding, Findings};
use super::plan::{ProbePlan, ProbeStep};
use super::subject::ProbeTarget;

/// A probe while it runs.
struct ProbeRun<'a> {
    endpoint: &'a mut ProbedEndpoint,
    findings: &'a mut Findings,
    target: &'a ProbeTarget,
    plan: &'a ProbePlan,
    /// The limit of an answer, in tokens.
    max_tokens: u64,
    /// Members of every chat request.
    members: Option<Map<String, Value>>,
    /// The reported prompt tokens of the plain chat.
    plain_prompt_tokens: Option<u64>,
    /// A tool call that the model made.
    tool_call: Option<CallFacts>,
    /// The reason why further calls are useless.
    stopped: Option<String>,
}

/// The members that all chat requests have.
#[derive(Clone, Debug)]
pub(super) struct RequestMembers {
    /// The limit of an answer, in tokens.
    pub max_tokens: u64,
    /// Members of the operator.
    pub others: Option<Map<String, Value>>,
}

/// Makes all checks of the plan.
pub(super) async fn run(
    endpoint: &mut ProbedEndpoint,
    target: &ProbeTarget,
    plan: &ProbePlan,
    request: RequestMembers,
    findings: &mut Findings,
) {
    let mut run = ProbeRun {
        endpoint,
        findings,
        target,
        plan,
        max_tokens: request.max_tokens,
        members: request.others,
        plain_prompt_tokens: None,
        tool_call: None,
        stopped: None,
    };
    for step in &plan.steps {
        run.step(*step).await;
    }
    run.echoes();
}

impl ProbeRun<'_> {
    async fn step(&mut self, step: ProbeStep) {
        if let Some(why) = &self.stopped {
            let finding = Finding::Skipped(why.clone());
            self.findings.add(main_check(step), finding);
            return;
        }
        match step {
            ProbeStep::List => self.list().await,
            ProbeStep::Chat => self.plain_chat().await,
            ProbeStep::Stream => self.streamed_chat().await,
            ProbeStep::Choices => self.choices().await,
            ProbeStep::Stop => self.stop_sequence().await,
            ProbeStep::MaxTokens => self.token_limit().await,
            ProbeStep::System => self.system_prompt().await,
            ProbeStep::Tools => self.tools().await,
            ProbeStep::Json => self.json_answers().await,
            ProbeStep::Images => self.image().await,
            ProbeStep::Native => self.native_endpoints().await,
            ProbeStep::Cancel => self.cancel().await,
            ProbeStep::Errors => self.wrong_requests().await,
            ProbeStep::Embeddings => self.embeddings().await,
        }
    }

    /// Notes that the endpoint cannot be used at all, if the failure means that.
    fn stop_after(&mut self, kind: FailureKind) {
        let why = match kind {
            FailureKind::Unreachable => "the endpoint cannot be reached",
            FailureKind::Auth | FailureKind::NoKey => "the endpoint refuses the key",
            FailureKind::Billing => "the account has no credit",
            FailureKind::RateLimited => "the endpoint's rate limit is reached; probe it again later",
            FailureKind::ModelMissing => "the endpoint does not know the model",
            FailureKind::Timeout => "the endpoint does not answer in time",
            _ => return,
        };
        self.stopped = Some(why.to_owned());
    }

    /// Whether an answer ended at the token limit before it had any text.
    fn was_too_short(&self, text: &str, finish: Option<gw_wire::reply::Finish>) -> Option<Finding> {
        let is_cut = finish == Some(gw_wire::reply::Finish::Length) && text.trim().is_empty();
        is_cut.then(|| {
            Finding::Skipped(format!(
                "the answer has no text within {} tokens; --max-tokens allows more",
                self.max_tokens
            ))
        })
    }

    /// A chat of one user message, with more members.
    fn request(&self, text: &str, more: Value) -> Value {
        let mut body = json!({
            "messages": [{ "role": "user", "content": text }],
            "max_tokens": self.max_tokens,
        });
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            body.extend(self.members.clone().unwrap_or_default());
            body.extend(more);
        }
        body
    }
}

/// The check that stands for a step that is skipped as a whole.
fn main_check(step: ProbeStep) -> &'static str {
    match step {
        ProbeStep::List => "list.models",
        ProbeStep::Chat => "chat.answer",
        ProbeStep::Stream => "stream.answer",
        ProbeStep::Choices => "choices",
        ProbeStep::Stop => "stop",
        ProbeStep::MaxTokens => "max_tokens",
        ProbeStep::System => "system",
        ProbeStep::Tools => "tools.forced",
        ProbeStep::Json => "json.schema",
        ProbeStep::Images => "images",
        ProbeStep::Native => "native.responses",
        ProbeStep::Cancel => "cancel",
        ProbeStep::Errors => "errors.model",
        ProbeStep::Embeddings => "embeddings.answer",
    }
}
