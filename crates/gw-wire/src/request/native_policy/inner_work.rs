//! The work of an upstream beyond one reading of the prompt and one answer. A reservation assumes it, and the upstream's
//! report of it is believed.

use super::rows::treatment;
use super::terms::{PolicyPlace, Surface, Treatment};
use super::{MOST_HOSTED_CALLS, Surveyor};
use crate::hosted_tools::{HostedCalls, HostedTool};
use crate::json::{Kind, View};
use crate::request::member_policy::{MAX_TOOL_DEPTH, inner_tools, is_client_tool, is_spelling, tool_types};

/// The work beyond one reading of the prompt and one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerWork {
    /// The upstream may call the model several times: it runs tools itself, or compacts the conversation.
    pub calls_model: bool,
    /// The most calls of hosted tools. The model reads the prompt once more after each.
    pub tool_calls: u32,
    /// The tokens of all results of those calls.
    pub result_tokens: u64,
    /// The compactions, each of which reads the prompt once more and writes a summary.
    pub compactions: u32,
    /// The upstream holds the messages before those of the request.
    pub holds_history: bool,
    /// A tool of the provider may cost what the catalogue cannot hold.
    pub is_unpriced: bool,
}

/// The tokens that a search of the web adds to the prompt, and so does a call of any other tool of the provider. A search
/// of Claude adds about 7,000 ("Web search tool" at platform.claude.com).
pub const SEARCH_RESULT_TOKENS: u64 = 8_000;
/// The tokens of a web page: a large page of documentation ("Web fetch tool" at platform.claude.com).
pub const PAGE_TOKENS: u64 = 25_000;
/// The tokens of a search in files: 20 chunks of 800 tokens ("File search" at developers.openai.com).
pub const FILE_RESULT_TOKENS: u64 = 16_000;

/// Types of tools without a row for a price that cost no more than the tokens: the remote MCP servers of OpenAI, Anthropic and
/// xAI.
const TOKENS_ONLY: [&str; 2] = ["mcp", "mcp_toolset"];

/// The searches for tools in one answer that a reservation assumes. A search loads the definitions for the rest of the
/// conversation, so that few answers have several.
const MOST_TOOL_SEARCHES: u32 = 3;

/// Whether the provider runs a search for tools itself. It costs no more than the tokens that the model reads again.
fn searches_tools(kind: &str, tool: View<'_>) -> bool {
    is_tool_search(kind)
        && !(kind == "tool_search" && every_is(tool, "execution", |word| is_word(word, "client")))
}

fn is_tool_search(kind: &str) -> bool {
    kind == "tool_search" || kind.starts_with("tool_search_tool_")
}

/// The tokens that one call of a tool adds to the prompt.
const fn result_tokens(tool: Option<HostedTool>) -> u64 {
    match tool {
        Some(HostedTool::WebFetch) => PAGE_TOKENS,
        Some(HostedTool::FileSearch) => FILE_RESULT_TOKENS,
        _ => SEARCH_RESULT_TOKENS,
    }
}

/// The tokens that these calls of a provider's tools add to the prompt. `hosted` has those of them that have a price.
#[must_use]
pub fn results_of(calls: u32, hosted: &HostedCalls) -> u64 {
    let large = [(hosted.web_fetch, HostedTool::WebFetch), (hosted.file_search, HostedTool::FileSearch)];
    let (mut others, mut tokens) = (calls, 0_u64);
    for (counted, tool) in large {
        let of_tool = counted.min(others);
        others -= of_tool;
        tokens = tokens.saturating_add(result_tokens(Some(tool)).saturating_mul(of_tool.into()));
    }
    tokens.saturating_add(SEARCH_RESULT_TOKENS.saturating_mul(others.into()))
}

impl InnerWork {
    /// The work with one more tool of the provider, whose calls have no other bound.
    #[must_use]
    pub fn with_tool(self, calls: u32) -> Self {
        let results = SEARCH_RESULT_TOKENS.saturating_mul(u64::from(calls));
        Self {
            calls_model: true,
            tool_calls: self.tool_calls.saturating_add(calls),
            result_tokens: self.result_tokens.saturating_add(results),
            ..self
        }
    }

    /// The work for as many answers of one upstream call, each of which runs the tools by itself.
    #[must_use]
    pub fn for_answers(self, answers: u64) -> Self {
        let times = u32::try_from(answers.max(1)).unwrap_or(u32::MAX);
        Self {
            tool_calls: self.tool_calls.saturating_mul(times),
            result_tokens: self.result_tokens.saturating_mul(u64::from(times)),
            ..self
        }
    }
}

/// The tools of a chat that the provider runs itself: the work, and the most calls with a price. A type is one of the
/// Responses or of the Messages API, or has no row.
#[must_use]
pub(in crate::request) fn chat_tools(tools: View<'_>) -> (InnerWork, HostedCalls) {
    let mut survey = Surveyor::new(Surface::Chat);
    tools.elements().for_each(|tool| survey.chat_tool(tool, 0));
    (survey.found.inner, survey.found.most_calls)
}

/// Whether a part of this type in a chat may have a price that the catalogue cannot hold: no surface forwards it for its tokens
/// alone.
pub(in crate::request) fn is_unpriced_part(kind: &str) -> bool {
    let surfaces = [Surface::Chat, Surface::Responses, Surface::Messages];
    !surfaces.iter().any(|surface| treatment(*surface, PolicyPlace::Part, kind) == Some(Treatment::Forwarded))
}

/// The decision about a type of a tool in a chat.
fn chat_decision(tool: View<'_>, kind: &str) -> Option<Treatment> {
    let of = |surface| treatment(surface, PolicyPlace::Tool, kind);
    let row = of(Surface::Responses).or_else(|| of(Surface::Messages));
    match kind {
        // Commands run in a container of the provider, unless the client runs them.
        "shell" => row.filter(|_| every_is(tool, "environment", is_local)),
        _ => row,
    }
}

/// Whether the tool has a member of this name and each of them passes, for a reader of any spelling.
fn every_is(tool: View<'_>, name: &str, passes: impl Fn(View<'_>) -> bool) -> bool {
    let is_named = |written: View<'_>| written.string().is_some_and(|written| is_spelling(&written, name));
    let mut values = tool.members().filter(|(written, _)| is_named(*written)).peekable();
    values.peek().is_some() && values.all(|(_, value)| passes(value))
}

fn is_local(environment: View<'_>) -> bool {
    every_is(environment, "type", |kind| is_word(kind, "local"))
}

fn is_word(value: View<'_>, word: &str) -> bool {
    value.string().is_some_and(|value| value == word)
}

impl Surveyor {
    /// Notes a tool of a chat and the tools inside it, such as those of a namespace. `depth` counts the tools around it.
    fn chat_tool(&mut self, tool: View<'_>, depth: u32) {
        if is_client_tool(tool) {
            return;
        }
        // A lenient reader may take any spelling of the member for the type.
        let kinds = tool_types(tool).map(|kind| (chat_decision(tool, &kind), kind));
        let is_hosted = |(decision, kind): &(Option<Treatment>, String)| {
            *decision != Some(Treatment::Forwarded) || searches_tools(kind, tool)
        };
        if let Some((decision, kind)) = kinds.into_iter().find(is_hosted) {
            // No chat API is known to apply a tool's own bound of its calls or results, so none is believed.
            self.note_price(&kind, decision);
            self.offered_tool(&kind, tool, decision, None, None);
        }
        for inner in inner_tools(tool) {
            if depth < MAX_TOOL_DEPTH {
                self.chat_tool(inner, depth + 1);
            } else {
                self.found.inner.is_unpriced = true;
                self.hosted_tool(None, None, None);
            }
        }
    }

    /// Notes whether a tool of this type, if it is sent, has a price that the catalogue cannot hold.
    pub(super) fn note_price(&mut self, kind: &str, decision: Option<Treatment>) {
        let is_other = matches!(decision, None | Some(Treatment::Refused));
        self.found.inner.is_unpriced |= is_other && !TOKENS_ONLY.contains(&kind) && !is_tool_search(kind);
    }

    /// Notes a tool of this type and with this decision, if the provider runs it. See [`Self::hosted_tool`].
    pub(super) fn offered_tool(
        &mut self,
        kind: &str,
        tool: View<'_>,
        decision: Option<Treatment>,
        most: Option<u32>,
        result: Option<u32>,
    ) {
        if searches_tools(kind, tool) {
            // The body has the definitions that a search finds, so each reading counts them already.
            self.adds_calls(MOST_TOOL_SEARCHES, 0);
        } else {
            self.hosted_tool(decision, most, result);
        }
    }

    /// Notes a tool with this decision, if the provider runs it. `most` bounds its calls, and `result` has the tokens of a
    /// call's result.
    pub(super) fn hosted_tool(
        &mut self,
        decision: Option<Treatment>,
        most: Option<u32>,
        result: Option<u32>,
    ) {
        let tool = match decision {
            Some(Treatment::Forwarded) => return,
            Some(Treatment::Priced(tool)) => Some(tool),
            _ => None,
        };
        let calls = most.unwrap_or(MOST_HOSTED_CALLS);
        if let Some(tool) = tool {
            // Code runs in one container, however often.
            let priced = if tool == HostedTool::CodeInterpreter { 1 } else { calls };
            self.found.most_calls.add(tool, priced);
        }
        self.adds_calls(calls, result.map_or(result_tokens(tool), u64::from));
    }

    /// Notes calls of a tool with results of this many tokens, after each of which the model reads the prompt again.
    fn adds_calls(&mut self, calls: u32, result: u64) {
        self.largest_result = self.largest_result.max(result);
        let inner = &mut self.found.inner;
        inner.calls_model = true;
        inner.tool_calls = inner.tool_calls.saturating_add(calls);
        inner.result_tokens = inner.result_tokens.saturating_add(result.saturating_mul(u64::from(calls)));
    }

    /// Notes that the request bounds the calls of all tools together, so that each tool may have as many.
    pub(super) fn bound_calls(&mut self, most: u32) {
        let mut bounded = HostedCalls::default();
        for tool in HostedTool::ALL {
            let offered = self.found.most_calls.of(tool);
            let calls = if tool == HostedTool::CodeInterpreter { offered.min(most) } else { most };
            bounded.add(tool, if offered > 0 { calls } else { 0 });
        }
        self.found.most_calls = bounded;
        let inner = &mut self.found.inner;
        if inner.tool_calls > 0 {
            inner.tool_calls = most;
            inner.result_tokens = self.largest_result.saturating_mul(u64::from(most));
        }
    }

    /// Notes a compaction of the conversation by the upstream.
    pub(super) fn compacts(&mut self) {
        self.found.inner.calls_model = true;
        self.found.inner.compactions = 1;
    }
}

/// A bound on calls or tokens. A number with a fraction counts as the next whole one; anything else is no bound.
pub(super) fn bound(value: Option<View<'_>>) -> Option<u32> {
    let value = value.filter(|value| matches!(value.kind(), Kind::Integer | Kind::Decimal))?;
    let number: f64 = value.text().parse().ok()?;
    Some(number.ceil().clamp(0.0, f64::from(u32::MAX)) as u32)
}
