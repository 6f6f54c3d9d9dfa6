//! Thinking: translates `reasoning_effort` for the model, and decides which other members go with it.
//!
//! "Thinking", "Adaptive thinking", "Extended thinking" and "Effort" at platform.claude.com.

use std::borrow::Cow;

use gw_wire::json::ObjectWriter;

use crate::adapters::warnings::Warnings;
use crate::model_rules::{Effort, ModelRules, Off, Prefill, Thinks};

/// The least value of `budget_tokens`.
const MIN_BUDGET_TOKENS: u64 = 1024;

/// The member `thinking` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters) enum AnthropicThinking {
    /// A token budget.
    Budget(u64),
    /// The model decides by the effort.
    Adaptive {
        /// The request asks for the text of the thoughts, which is empty otherwise.
        is_summarized: bool,
    },
    /// No thinking.
    Disabled,
    /// No thinking except notes between tool calls.
    BetweenTools,
}

/// The members of a request that concern thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::adapters) struct ThinkingPlan {
    /// `thinking`; None leaves the model's default.
    pub(in crate::adapters) thinking: Option<AnthropicThinking>,
    /// `output_config.effort`; None leaves the model's default.
    pub(in crate::adapters) effort: Option<&'static str>,
    /// The model may think, so it gets its earlier thoughts back.
    pub(in crate::adapters) is_replayed: bool,
}

/// Other members of the request that thinking depends on.
#[derive(Clone, Copy, Debug)]
pub(in crate::adapters) struct ThinkingContext {
    /// The `max_tokens` that is sent.
    pub(in crate::adapters) max_tokens: u64,
    /// A tool must be called. This excludes thinking and takes precedence over it.
    pub(in crate::adapters) is_tool_forced: bool,
    /// The answer continues after calls without signed thoughts, which a thinking budget requires.
    pub(in crate::adapters) has_unsigned_calls: bool,
}

/// Returns the token budget of an effort: a share of the token limit, because thoughts count towards it, up to a useful
/// maximum.
fn budget(effort: Effort, max_tokens: u64) -> u64 {
    let (percent, most) = match effort {
        Effort::None | Effort::Minimal => (10, MIN_BUDGET_TOKENS),
        Effort::Low => (20, 4_096),
        Effort::Medium => (50, 16_384),
        Effort::High => (80, 32_768),
        Effort::Xhigh | Effort::Max => (90, 65_536),
    };
    (max_tokens / 100).saturating_mul(percent).min(most).max(MIN_BUDGET_TOKENS)
}

const DROPPED: Cow<'static, str> = Cow::Borrowed("parameter_dropped:reasoning_effort");
const CLAMPED: Cow<'static, str> = Cow::Borrowed("parameter_clamped:reasoning_effort");

impl ThinkingPlan {
    /// Translates a client's `reasoning_effort`.
    pub(in crate::adapters) fn new(
        rules: ModelRules,
        requested: Option<&str>,
        at: ThinkingContext,
        warnings: &mut Warnings,
    ) -> Self {
        let effort = requested.and_then(Effort::read);
        if requested.is_some() && effort.is_none() {
            warnings.push(DROPPED);
        }
        match effort {
            None => Self::model_default(rules, at),
            Some(Effort::None) => Self::off(rules, warnings),
            Some(effort) => Self::on(rules, effort, at, warnings),
        }
    }

    fn model_default(rules: ModelRules, at: ThinkingContext) -> Self {
        match (rules.thinks, rules.thinking_off) {
            (Thinks::Usually, Off::Disabled) if at.is_tool_forced => {
                Self { thinking: Some(AnthropicThinking::Disabled), ..Self::default() }
            }
            (Thinks::Usually | Thinks::Always, _) => Self { is_replayed: true, ..Self::default() },
            _ => Self::default(),
        }
    }

    fn off(rules: ModelRules, warnings: &mut Warnings) -> Self {
        match (rules.thinks, rules.thinking_off) {
            (Thinks::Usually, Off::BetweenTools) => {
                Self { thinking: Some(AnthropicThinking::BetweenTools), effort: None, is_replayed: true }
            }
            (Thinks::Usually, Off::Disabled) => {
                Self { thinking: Some(AnthropicThinking::Disabled), ..Self::default() }
            }
            (Thinks::Usually | Thinks::Always, _) => {
                warnings.push(CLAMPED);
                let effort = rules.effort(Effort::None).map(Effort::as_str);
                Self { thinking: None, effort, is_replayed: true }
            }
            _ => Self::default(),
        }
    }

    fn on(rules: ModelRules, effort: Effort, at: ThinkingContext, warnings: &mut Warnings) -> Self {
        let Some(fitting) = rules.effort(effort) else {
            return Self::within_budget(rules, effort, at, warnings);
        };
        // Without thinking, models take only the lower efforts.
        let is_disabled =
            at.is_tool_forced && rules.thinks == Thinks::Usually && rules.thinking_off == Off::Disabled;
        let most = rules.effort_most_when_off.filter(|_| is_disabled).unwrap_or(Effort::Max);
        let sent = fitting.min(most);
        if sent != effort {
            warnings.push(CLAMPED);
        }
        let adaptive = AnthropicThinking::Adaptive { is_summarized: rules.hides_thoughts };
        let thinking = match at.is_tool_forced {
            false => Some(adaptive),
            true => is_disabled.then_some(AnthropicThinking::Disabled),
        };
        let is_replayed = !at.is_tool_forced || rules.thinks == Thinks::Always;
        Self { thinking, effort: Some(sent.as_str()), is_replayed }
    }

    /// Translates an effort for a model that takes only token budgets.
    fn within_budget(
        rules: ModelRules,
        effort: Effort,
        at: ThinkingContext,
        warnings: &mut Warnings,
    ) -> Self {
        let has_room = at.max_tokens > MIN_BUDGET_TOKENS;
        if rules.thinks != Thinks::Budget || at.is_tool_forced || at.has_unsigned_calls || !has_room {
            warnings.push(DROPPED);
            return Self::default();
        }
        let budget = budget(effort, at.max_tokens).min(at.max_tokens - 1);
        Self { thinking: Some(AnthropicThinking::Budget(budget)), effort: None, is_replayed: true }
    }

    /// Whether the conversation must not end with the assistant.
    pub(in crate::adapters) fn forbids_prefill(&self, rules: ModelRules) -> bool {
        match rules.prefill {
            Prefill::Taken | Prefill::Marked => false,
            Prefill::WithoutThinking => self.is_on(),
            Prefill::Refused => true,
        }
    }

    /// Whether the model is certain to think, so that it refuses temperature and top_p.
    pub(in crate::adapters) fn is_on(&self) -> bool {
        matches!(self.thinking, Some(AnthropicThinking::Budget(_) | AnthropicThinking::Adaptive { .. }))
    }
}

impl AnthropicThinking {
    /// Returns the value of the member as JSON.
    pub(in crate::adapters) fn json(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Writes the value of the member as JSON.
    pub(in crate::adapters) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Budget(tokens) => {
                let mut object = ObjectWriter::begin_typed(out, "enabled");
                object.integer("budget_tokens", tokens);
                object.finish();
            }
            Self::Adaptive { is_summarized } => {
                let mut object = ObjectWriter::begin_typed(out, "adaptive");
                if is_summarized {
                    object.string("display", "summarized");
                }
                object.finish();
            }
            Self::Disabled => ObjectWriter::begin_typed(out, "disabled").finish(),
            Self::BetweenTools => ObjectWriter::begin_typed(out, "between_tools").finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AnthropicThinking, ThinkingContext, ThinkingPlan};
    use crate::model_rules::ModelRules;
    use crate::settings::Api;

    const FREE: ThinkingContext =
        ThinkingContext { max_tokens: 64_000, is_tool_forced: false, has_unsigned_calls: false };

    fn plan(model: &str, effort: Option<&str>, at: ThinkingContext) -> (ThinkingPlan, Vec<String>) {
        let mut warnings = Vec::new();
        let plan =
            ThinkingPlan::new(ModelRules::of(Api::ANTHROPIC.rules, model, ""), effort, at, &mut warnings);
        (plan, warnings.into_iter().map(String::from).collect())
    }

    fn is_summarized() -> Option<AnthropicThinking> {
        Some(AnthropicThinking::Adaptive { is_summarized: true })
    }

    #[test]
    fn efforts_are_budgets_for_older_models() {
        for (effort, max_tokens, budget) in [
            ("minimal", 64_000, 1024),
            ("low", 64_000, 4096),
            ("low", 2_000, 1024),
            ("medium", 8_000, 4000),
            ("high", 64_000, 32_768),
            ("high", 4_096, 3200),
            ("max", 128_000, 65_536),
            ("high", 1_025, 1024),
        ] {
            let (plan, warnings) =
                plan("claude-haiku-4-5", Some(effort), ThinkingContext { max_tokens, ..FREE });
            assert_eq!(plan.thinking, Some(AnthropicThinking::Budget(budget)), "{effort} of {max_tokens}");
            assert!(budget >= 1024 && budget < max_tokens && warnings.is_empty() && plan.effort.is_none());
        }
        let none = |at| {
            let (plan, warnings) = plan("claude-opus-4-5", Some("high"), at);
            assert_eq!(
                (plan, warnings),
                (ThinkingPlan::default(), vec!["parameter_dropped:reasoning_effort".into()])
            );
        };
        none(ThinkingContext { max_tokens: 1024, ..FREE });
        none(ThinkingContext { is_tool_forced: true, ..FREE });
        none(ThinkingContext { has_unsigned_calls: true, ..FREE });
    }

    #[test]
    fn efforts_are_efforts_for_newer_models() {
        for (model, effort, word, thinking, warned) in [
            (
                "claude-sonnet-4-6",
                "high",
                "high",
                Some(AnthropicThinking::Adaptive { is_summarized: false }),
                false,
            ),
            (
                "claude-opus-4-6",
                "xhigh",
                "high",
                Some(AnthropicThinking::Adaptive { is_summarized: false }),
                true,
            ),
            (
                "claude-opus-4-6",
                "max",
                "max",
                Some(AnthropicThinking::Adaptive { is_summarized: false }),
                false,
            ),
            ("claude-opus-4-7", "xhigh", "xhigh", is_summarized(), false),
            ("claude-sonnet-5", "minimal", "low", is_summarized(), true),
            ("claude-opus-5-5", "medium", "medium", is_summarized(), false),
            ("claude-what-is-this", "low", "low", is_summarized(), false),
        ] {
            let (plan, warnings) = plan(model, Some(effort), FREE);
            assert_eq!((plan.effort, plan.thinking), (Some(word), thinking), "{model} {effort}");
            assert!(plan.is_replayed && plan.is_on());
            assert_eq!(!warnings.is_empty(), warned, "{model} {effort}");
        }
    }

    #[test]
    fn thinking_is_switched_off_in_the_form_of_each_model() {
        for (model, thinking, effort, is_replayed) in [
            ("claude-haiku-4-5", None, None, false),
            ("claude-opus-4-8", None, None, false),
            ("claude-sonnet-5", Some(AnthropicThinking::Disabled), None, false),
            ("claude-opus-5", Some(AnthropicThinking::Disabled), None, false),
            ("claude-haiku-5-5", Some(AnthropicThinking::Disabled), None, false),
            ("claude-sonnet-5-5", Some(AnthropicThinking::BetweenTools), None, true),
            ("claude-opus-5-5", None, Some("low"), true),
            ("claude-fable-5-1", None, Some("low"), true),
        ] {
            let (plan, warnings) = plan(model, Some("none"), FREE);
            assert_eq!(plan, ThinkingPlan { thinking, effort, is_replayed }, "{model}");
            assert_eq!(warnings.is_empty(), effort.is_none(), "{model}");
        }
    }

    #[test]
    fn a_forced_tool_turns_thinking_off_where_it_can_be() {
        let forced = ThinkingContext { is_tool_forced: true, ..FREE };
        assert_eq!(plan("claude-sonnet-5", None, forced).0.thinking, Some(AnthropicThinking::Disabled));
        assert_eq!(plan("claude-opus-4-8", None, forced).0, ThinkingPlan::default());
        assert_eq!(plan("claude-opus-4-8", Some("low"), forced).0.thinking, None);
        let (kept, warnings) = plan("claude-opus-5", Some("max"), forced);
        assert_eq!((kept.thinking, kept.effort), (Some(AnthropicThinking::Disabled), Some("high")));
        assert_eq!(warnings, ["parameter_clamped:reasoning_effort"]);
        assert_eq!(plan("claude-fable-5", None, forced).0.thinking, None);
    }

    #[test]
    fn unknown_efforts_and_efforts_of_models_without_thinking_are_dropped() {
        for (model, effort) in [("claude-opus-5", "extreme"), ("claude-3-5-haiku-latest", "high")] {
            assert_eq!(plan(model, Some(effort), FREE).1, ["parameter_dropped:reasoning_effort"]);
        }
        assert_eq!(
            plan("claude-opus-5-5", None, FREE).0,
            ThinkingPlan { is_replayed: true, ..ThinkingPlan::default() }
        );
    }
}
