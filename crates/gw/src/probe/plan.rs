//! The steps of a probe, with the number and the highest cost of their calls.

use gw_wire::money::Money;
use gw_wire::usage::Usage;

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
    /// Wrong requests.
    Errors,
    /// Embeddings.
    Embeddings,
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
    (ProbeStep::Tools, "tools", 4, 300),
    (ProbeStep::Json, "json", 2, 150),
    (ProbeStep::Images, "images", 1, 400),
    (ProbeStep::Native, "native", 2, 40),
    (ProbeStep::Cancel, "cancel", 2, 40),
    (ProbeStep::Errors, "errors", 3, 40),
    (ProbeStep::Embeddings, "embeddings", 4, 60),
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
    /// Tokens of the prompt that exceeds the context. None: this call is not made.
    pub oversize_tokens: Option<u64>,
}

impl ProbePlan {
    /// The plan for this model. `only` has names of steps; without any, all steps of the model are chosen.
    pub(super) fn new(
        subject: &ProbeSubject,
        only: &[String],
        max_tokens: u64,
        oversize_limit: u64,
    ) -> Self {
        let is_chosen = |row: &&StepRow| {
            let (step, name, ..) = **row;
            let fits = match step {
                ProbeStep::List => true,
                ProbeStep::Embeddings => subject.embeds,
                ProbeStep::Errors => true,
                _ => !subject.embeds,
            };
            if only.is_empty() { fits } else { fits && only.iter().any(|chosen| chosen == name) }
        };
        let rows: Vec<&StepRow> = STEPS.iter().filter(is_chosen).collect();
        let steps: Vec<ProbeStep> = rows.iter().map(|(step, ..)| *step).collect();
        let oversize_tokens = subject
            .context_length
            .map(|tokens| tokens.saturating_add(tokens / 4).saturating_add(64))
            .filter(|tokens| *tokens <= oversize_limit && steps.contains(&ProbeStep::Errors) && !subject.embeds);
        let generating: u32 = rows.iter().map(|(_, _, calls, _)| *calls).sum();
        let prompts: u64 = rows.iter().map(|(_, _, calls, prompt)| u64::from(*calls) * prompt).sum();
        let prompt_tokens = prompts.saturating_add(oversize_tokens.unwrap_or(0));
        // `choices` asks for two answers in one call.
        let answers = u64::from(generating) + u64::from(steps.contains(&ProbeStep::Choices));
        let completion_tokens = if subject.embeds { 0 } else { answers.saturating_mul(max_tokens) };
        let usage = Usage { prompt: prompt_tokens, completion: completion_tokens, ..Usage::default() };
        let free = u32::from(steps.contains(&ProbeStep::List)) + u32::from(oversize_tokens.is_some());
        Self {
            steps,
            calls: generating + free,
            prompt_tokens,
            completion_tokens,
            cost: subject.model.as_ref().and_then(|model| model.cost(&usage)),
            oversize_tokens,
        }
    }

    /// The bounds in one sentence.
    pub(super) fn sentence(&self) -> String {
        let cost = match self.cost {
            Some(cost) => format!("at most {:.4} USD", cost.approx_usd()),
            None => "the price of the model is unknown".to_owned(),
        };
        format!(
            "at most {} calls, {} prompt tokens and {} answer tokens; {cost}",
            self.calls, self.prompt_tokens, self.completion_tokens
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
        let chat = ProbePlan::new(&subject(false, None), &[], 100, 8192);
        assert_eq!((chat.calls, chat.completion_tokens), (21, 2100));
        let few = ProbePlan::new(&subject(false, None), &["chat".to_owned(), "stop".to_owned()], 100, 8192);
        assert_eq!((few.steps, few.calls, few.completion_tokens), (vec![ProbeStep::Chat, ProbeStep::Stop], 2, 200));
        let embeds = ProbePlan::new(&subject(true, Some(512)), &[], 100, 8192);
        assert_eq!(embeds.steps, [ProbeStep::List, ProbeStep::Errors, ProbeStep::Embeddings]);
        assert_eq!(embeds.completion_tokens, 0);
    }

    #[test]
    fn only_a_small_context_is_exceeded_without_being_asked() {
        let plan = |context| ProbePlan::new(&subject(false, context), &[], 100, 8192).oversize_tokens;
        assert_eq!((plan(None), plan(Some(1000)), plan(Some(128_000))), (None, Some(1314), None));
    }
}
