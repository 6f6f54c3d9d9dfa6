//! Thinking: translates `reasoning_effort` for the model, and decides which other members go with it.
//!
//! "Thinking", "Adaptive thinking", "Extended thinking" and "Effort" at platform.claude.com.

use std::borrow::Cow;

use super::object::Object;
use crate::model_rules::{Effort, ModelRules, Off, Prefill, Thinks};

/// The least value of `budget_tokens`.
const LEAST_BUDGET: u64 = 1024;

/// The member `thinking` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters) enum Thinking {
    /// A token budget.
    Budget(u64),
    /// The model decides by the effort.
    Adaptive {
        /// The request asks for the text of the thoughts, which is empty otherwise.
        summarized: bool,
    },
    /// No thinking.
    Disabled,
    /// No thinking except notes between tool calls.
    BetweenTools,
}

/// The members of a request that concern thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::adapters) struct Plan {
    /// `thinking`; None leaves the model's default.
    pub(in crate::adapters) thinking: Option<Thinking>,
    /// `output_config.effort`; None leaves the model's default.
    pub(in crate::adapters) effort: Option<&'static str>,
    /// The model may think, so it gets its earlier thoughts back.
    pub(in crate::adapters) replay: bool,
}

/// Other members of the request that thinking depends on.
#[derive(Clone, Copy, Debug)]
pub(in crate::adapters) struct Circumstances {
    /// The `max_tokens` that is sent.
    pub(in crate::adapters) max_tokens: u64,
    /// A tool must be called. This excludes thinking and takes precedence over it.
    pub(in crate::adapters) forced_tool: bool,
    /// The answer continues after calls without signed thoughts, which a thinking budget requires.
    pub(in crate::adapters) thoughts_missing: bool,
}

/// Returns the token budget of an effort: a share of the token limit, because thoughts count towards it, up to a useful
/// maximum.
fn budget(effort: Effort, max_tokens: u64) -> u64 {
    let (percent, most) = match effort {
        Effort::None | Effort::Minimal => (10, LEAST_BUDGET),
        Effort::Low => (20, 4_096),
        Effort::Medium => (50, 16_384),
        Effort::High => (80, 32_768),
        Effort::Xhigh | Effort::Max => (90, 65_536),
    };
    (max_tokens / 100).saturating_mul(percent).min(most).max(LEAST_BUDGET)
}

type Warnings = Vec<Cow<'static, str>>;

const DROPPED: Cow<'static, str> = Cow::Borrowed("parameter_dropped:reasoning_effort");
const CLAMPED: Cow<'static, str> = Cow::Borrowed("parameter_clamped:reasoning_effort");

impl Plan {
    /// Translates a client's `reasoning_effort`.
    pub(in crate::adapters) fn new(
        rules: ModelRules,
        asked: Option<&str>,
        at: Circumstances,
        warnings: &mut Warnings,
    ) -> Self {
        let effort = asked.and_then(Effort::read);
        if asked.is_some() && effort.is_none() {
            warnings.push(DROPPED);
        }
        match effort {
            None => Self::unasked(rules, at),
            Some(Effort::None) => Self::off(rules, warnings),
            Some(effort) => Self::on(rules, effort, at, warnings),
        }
    }

    fn unasked(rules: ModelRules, at: Circumstances) -> Self {
        match (rules.thinks, rules.thinking_off) {
            (Thinks::Usually, Off::Disabled) if at.forced_tool => {
                Self { thinking: Some(Thinking::Disabled), ..Self::default() }
            }
            (Thinks::Usually | Thinks::Always, _) => Self { replay: true, ..Self::default() },
            _ => Self::default(),
        }
    }

    fn off(rules: ModelRules, warnings: &mut Warnings) -> Self {
        match (rules.thinks, rules.thinking_off) {
            (Thinks::Usually, Off::BetweenTools) => {
                Self { thinking: Some(Thinking::BetweenTools), effort: None, replay: true }
            }
            (Thinks::Usually, Off::Disabled) => {
                Self { thinking: Some(Thinking::Disabled), ..Self::default() }
            }
            (Thinks::Usually | Thinks::Always, _) => {
                warnings.push(CLAMPED);
                let effort = rules.effort(Effort::None).map(Effort::as_str);
                Self { thinking: None, effort, replay: true }
            }
            _ => Self::default(),
        }
    }

    fn on(rules: ModelRules, effort: Effort, at: Circumstances, warnings: &mut Warnings) -> Self {
        let Some(fitting) = rules.effort(effort) else {
            return Self::within_budget(rules, effort, at, warnings);
        };
        // Without thinking, models take only the lower efforts.
        let disabled =
            at.forced_tool && rules.thinks == Thinks::Usually && rules.thinking_off == Off::Disabled;
        let most = rules.effort_most_when_off.filter(|_| disabled).unwrap_or(Effort::Max);
        let sent = fitting.min(most);
        if sent != effort {
            warnings.push(CLAMPED);
        }
        let adaptive = Thinking::Adaptive { summarized: rules.hides_thoughts };
        let thinking = match at.forced_tool {
            false => Some(adaptive),
            true => disabled.then_some(Thinking::Disabled),
        };
        let replay = !at.forced_tool || rules.thinks == Thinks::Always;
        Self { thinking, effort: Some(sent.as_str()), replay }
    }

    /// Translates an effort for a model that takes only token budgets.
    fn within_budget(rules: ModelRules, effort: Effort, at: Circumstances, warnings: &mut Warnings) -> Self {
        let room = at.max_tokens > LEAST_BUDGET;
        if rules.thinks != Thinks::Budget || at.forced_tool || at.thoughts_missing || !room {
            warnings.push(DROPPED);
            return Self::default();
        }
        let budget = budget(effort, at.max_tokens).min(at.max_tokens - 1);
        Self { thinking: Some(Thinking::Budget(budget)), effort: None, replay: true }
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
        matches!(self.thinking, Some(Thinking::Budget(_) | Thinking::Adaptive { .. }))
    }
}

impl Thinking {
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
                let mut object = Object::of_type(out, "enabled");
                object.raw("budget_tokens", &tokens.to_string());
                object.close();
            }
            Self::Adaptive { summarized } => {
                let mut object = Object::of_type(out, "adaptive");
                if summarized {
                    object.text("display", "summarized");
                }
                object.close();
            }
            Self::Disabled => Object::of_type(out, "disabled").close(),
            Self::BetweenTools => Object::of_type(out, "between_tools").close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Circumstances, Plan, Thinking};
    use crate::model_rules::ModelRules;
    use crate::settings::Api;

    const FREE: Circumstances =
        Circumstances { max_tokens: 64_000, forced_tool: false, thoughts_missing: false };

    fn plan(model: &str, effort: Option<&str>, at: Circumstances) -> (Plan, Vec<String>) {
        let mut warnings = Vec::new();
        let plan = Plan::new(ModelRules::of(Api::Anthropic, model, ""), effort, at, &mut warnings);
        (plan, warnings.into_iter().map(String::from).collect())
    }

    fn summarized() -> Option<Thinking> {
        Some(Thinking::Adaptive { summarized: true })
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
                plan("claude-haiku-4-5", Some(effort), Circumstances { max_tokens, ..FREE });
            assert_eq!(plan.thinking, Some(Thinking::Budget(budget)), "{effort} of {max_tokens}");
            assert!(budget >= 1024 && budget < max_tokens && warnings.is_empty() && plan.effort.is_none());
        }
        let none = |at| {
            let (plan, warnings) = plan("claude-opus-4-5", Some("high"), at);
            assert_eq!(
                (plan, warnings),
                (Plan::default(), vec!["parameter_dropped:reasoning_effort".into()])
            );
        };
        none(Circumstances { max_tokens: 1024, ..FREE });
        none(Circumstances { forced_tool: true, ..FREE });
        none(Circumstances { thoughts_missing: true, ..FREE });
    }

    #[test]
    fn efforts_are_efforts_for_newer_models() {
        for (model, effort, word, thinking, warned) in [
            ("claude-sonnet-4-6", "high", "high", Some(Thinking::Adaptive { summarized: false }), false),
            ("claude-opus-4-6", "xhigh", "high", Some(Thinking::Adaptive { summarized: false }), true),
            ("claude-opus-4-6", "max", "max", Some(Thinking::Adaptive { summarized: false }), false),
            ("claude-opus-4-7", "xhigh", "xhigh", summarized(), false),
            ("claude-sonnet-5", "minimal", "low", summarized(), true),
            ("claude-opus-5-5", "medium", "medium", summarized(), false),
            ("claude-what-is-this", "low", "low", summarized(), false),
        ] {
            let (plan, warnings) = plan(model, Some(effort), FREE);
            assert_eq!((plan.effort, plan.thinking), (Some(word), thinking), "{model} {effort}");
            assert!(plan.replay && plan.is_on());
            assert_eq!(!warnings.is_empty(), warned, "{model} {effort}");
        }
    }

    #[test]
    fn off_is_said_as_each_model_wants_it() {
        for (model, thinking, effort, replay) in [
            ("claude-haiku-4-5", None, None, false),
            ("claude-opus-4-8", None, None, false),
            ("claude-sonnet-5", Some(Thinking::Disabled), None, false),
            ("claude-opus-5", Some(Thinking::Disabled), None, false),
            ("claude-haiku-5-5", Some(Thinking::Disabled), None, false),
            ("claude-sonnet-5-5", Some(Thinking::BetweenTools), None, true),
            ("claude-opus-5-5", None, Some("low"), true),
            ("claude-fable-5-1", None, Some("low"), true),
        ] {
            let (plan, warnings) = plan(model, Some("none"), FREE);
            assert_eq!(plan, Plan { thinking, effort, replay }, "{model}");
            assert_eq!(warnings.is_empty(), effort.is_none(), "{model}");
        }
    }

    #[test]
    fn a_forced_tool_turns_thinking_off_where_it_can_be() {
        let forced = Circumstances { forced_tool: true, ..FREE };
        assert_eq!(plan("claude-sonnet-5", None, forced).0.thinking, Some(Thinking::Disabled));
        assert_eq!(plan("claude-opus-4-8", None, forced).0, Plan::default());
        assert_eq!(plan("claude-opus-4-8", Some("low"), forced).0.thinking, None);
        let (kept, warnings) = plan("claude-opus-5", Some("max"), forced);
        assert_eq!((kept.thinking, kept.effort), (Some(Thinking::Disabled), Some("high")));
        assert_eq!(warnings, ["parameter_clamped:reasoning_effort"]);
        assert_eq!(plan("claude-fable-5", None, forced).0.thinking, None);
    }

    #[test]
    fn what_nobody_knows_and_what_cannot_think_is_dropped() {
        for (model, effort) in [("claude-opus-5", "extreme"), ("claude-3-5-haiku-latest", "high")] {
            assert_eq!(plan(model, Some(effort), FREE).1, ["parameter_dropped:reasoning_effort"]);
        }
        assert_eq!(plan("claude-opus-5-5", None, FREE).0, Plan { replay: true, ..Plan::default() });
    }
}
