//! The steps of a probe, with the number and the highest cost of their calls.

use gw_command::table::counted;
use gw_wire::money::Money;
use gw_wire::usage::Usage;
use serde_json::{Value, json};

use super::subject::ProbeSubject;

/// A part of the probe that can be chosen with `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeStep {
    /// The provider's own list of models.
    List,
    /// A plain chat and its usage.
    Chat,
    /// A streamed chat: framing, usage, flushing, speed.
    Stream,
    /// Several choices.
    Choices,
    /// Stop sequences.
    Stop,
    /// The token limit.
    MaxTokens,
    /// The system prompt.
    System,
    /// Tools, forced tool choice, parallel calls and results.
    Tools,
    /// JSON mode and JSON schema.
    Json,
    /// An image in the prompt.
    Images,
    /// The endpoints of the Responses API and of the Messages API.
    Native,
    /// A stream that the client leaves.
    Cancel,
    /// Embeddings.
    Embeddings,
    /// Wrong requests.
    Errors,
}

/// A step, its name, its generating calls, and the prompt tokens of each call.
type StepRow = (ProbeStep, &'static str, u32, u64);

/// The steps in their order. The list of models and refused calls cost nothing.
const STEPS: [StepRow; 14] = [
    (ProbeStep::List, "list", 0, 0),
    (ProbeStep::Chat, "chat", 1, 40),
    (ProbeStep::Stream, "stream", 1, 40),
    (ProbeStep::Choices, "choices", 1, 40),
    (ProbeStep::Stop, "stop", 1, 50),
    (ProbeStep::MaxTokens, "max_tokens", 1, 40),
    (ProbeStep::System, "system", 1, 120),
    (ProbeStep::Tools, "tools", 5, 300),
    (ProbeStep::Json, "json", 2, 150),
    (ProbeStep::Images, "images", 1, 400),
    (ProbeStep::Native, "native", 2, 40),
    (ProbeStep::Cancel, "cancel", 2, 40),
    (ProbeStep::Embeddings, "embeddings", 4, 60),
    (ProbeStep::Errors, "errors", 3, 40),
];

/// The names of all steps.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|(_, name, ..)| *name)
}

/// The chosen steps, with the bounds of their calls.
#[derive(Clone, Debug)]
pub(super) struct ProbePlan {
    /// The steps in their order.
    pub steps: Vec<ProbeStep>,
    /// The most calls, free ones included.
    pub calls: u32,
    /// The most prompt tokens.
    pub prompt_tokens: u64,
    /// The most tokens of answers.
    pub completion_tokens: u64,
    /// The highest cost. None: the price is unknown.
    pub cost: Option<Money>,
    /// The most tokens of the prompt that exceeds the context. A longer one is not sent.
    pub oversize_tokens: u64,
}

/// Tokens of a prompt that exceeds this context.
pub(super) fn oversize_tokens(context_length: u64) -> u64 {
    context_length.saturating_add(context_length / 4).saturating_add(64)
}

/// The longest prompt, in tokens, that exceeds a context without being asked for.
pub(super) const SMALL_OVERSIZE_TOKENS: u64 = 8192;

impl ProbePlan {
    /// The plan for this model. `only` has names of steps; without any, all steps of the model are chosen.
    pub(super) fn new(subject: &ProbeSubject, only: &[String], max_tokens: u64, oversize: bool) -> Self {
        let is_chosen = |row: &&StepRow| {
            let (step, name, ..) = **row;
            let fits = match step {
                ProbeStep::List | ProbeStep::Errors => true,
                ProbeStep::Embeddings => subject.embeds,
                _ => !subject.embeds,
            };
            if only.is_empty() { fits } else { fits && only.iter().any(|chosen| chosen == name) }
        };
        let rows: Vec<&StepRow> = STEPS.iter().filter(is_chosen).collect();
        let steps: Vec<ProbeStep> = rows.iter().map(|(step, ..)| *step).collect();
        let needed = subject.context_length.map(oversize_tokens);
        let oversize_tokens = match needed {
            _ if subject.embeds || !steps.contains(&ProbeStep::Errors) => 0,
            // The provider's list may have the context.
            None => SMALL_OVERSIZE_TOKENS,
            Some(needed) if oversize || needed <= SMALL_OVERSIZE_TOKENS => needed,
            Some(_) => 0,
        };
        let generating: u32 = rows.iter().map(|(_, _, calls, _)| *calls).sum();
        let prompts: u64 = rows.iter().map(|(_, _, calls, prompt)| u64::from(*calls) * prompt).sum();
        let prompt_tokens = prompts.saturating_add(oversize_tokens);
        // `choices` asks for two answers in one call.
        let answers = u64::from(generating) + u64::from(steps.contains(&ProbeStep::Choices));
        let completion_tokens = if subject.embeds { 0 } else { answers.saturating_mul(max_tokens) };
        let usage = Usage { prompt: prompt_tokens, completion: completion_tokens, ..Usage::default() };
        let free = u32::from(steps.contains(&ProbeStep::List)) + u32::from(oversize_tokens > 0);
        Self {
            steps,
            calls: generating + free,
            prompt_tokens,
            completion_tokens,
            cost: subject.model.as_ref().and_then(|model| model.cost(&usage)),
            oversize_tokens,
        }
    }

    /// The bounds as JSON.
    pub(super) fn json(&self, model: &str) -> Value {
        json!({
            "object": "probe.plan",
            "model": model,
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": self.cost.map(Money::approx_usd),
        })
    }

    /// The bounds in one sentence.
    pub(super) fn sentence(&self) -> String {
        let cost = match self.cost {
            Some(cost) => format!("at most {:.4} USD", cost.approx_usd()),
            None => "the price of the model is unknown".to_owned(),
        };
        let calls = counted(self.calls.into(), "call");
        format!(
            "at most {calls}, {} prompt tokens and {} answer tokens; {cost}",
            self.prompt_tokens, self.completion_tokens
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(embeds: bool, context_length: Option<u64>) -> ProbeSubject {
        ProbeSubject {
            id: "p/m".to_owned(),
            upstream_model: "m".to_owned(),
            model: None,
            context_length,
            max_output_tokens: None,
            embeds,
        }
    }

    #[test]
    fn the_plan_counts_the_calls_of_the_chosen_steps() {
        let chat = ProbePlan::new(&subject(false, None), &[], 100, false);
        assert_eq!((chat.calls, chat.completion_tokens), (23, 2200));
        let few = ProbePlan::new(&subject(false, None), &["chat".to_owned(), "stop".to_owned()], 100, false);
        assert_eq!(
            (few.steps, few.calls, few.completion_tokens),
            (vec![ProbeStep::Chat, ProbeStep::Stop], 2, 200)
        );
        let embeds = ProbePlan::new(&subject(true, Some(512)), &[], 100, false);
        assert_eq!(embeds.steps, [ProbeStep::List, ProbeStep::Embeddings, ProbeStep::Errors]);
        assert_eq!(embeds.completion_tokens, 0);
    }

    #[test]
    fn only_a_small_context_is_exceeded_without_being_asked() {
        let plan =
            |context, oversize| ProbePlan::new(&subject(false, context), &[], 100, oversize).oversize_tokens;
        assert_eq!((plan(None, false), plan(Some(1000), false)), (SMALL_OVERSIZE_TOKENS, 1314));
        assert_eq!((plan(Some(128_000), false), plan(Some(128_000), true)), (0, 160_064));
    }
}
