//! The survey of a Responses request.

use super::inner_work::bound;
use super::responses_rows::{HOSTED_SHELL, LARGE_CONTAINER};
use super::terms::{PolicyPlace, Surface, Treatment};
use super::{NativePolicy, Surveyor, is_id, word};
use crate::json::{Kind, View};
use crate::request::fields::Path;
use crate::request::member_policy::{REASONING_MODE, dropped_inside, has_other_mode};

/// A Responses request that is being surveyed.
#[derive(Debug)]
pub struct ResponsesSurvey {
    survey: Surveyor,
    /// `max_tool_calls`.
    most: Option<u32>,
}

/// Surveys a Responses request, a JSON object, without the items that it refers to. One pass over the text.
#[must_use]
pub fn survey_responses(text: &str) -> ResponsesSurvey {
    let body = View::new(text);
    let mut survey = Surveyor::new(Surface::Responses);
    let names = [
        "tools",
        "input",
        "max_tool_calls",
        "prompt_cache_options",
        "prompt",
        "mcp_servers",
        "context_management",
        "reasoning",
    ];
    let [tools, input, most, options, prompt, servers, context, reasoning] = survey.members(body, names);
    if reasoning.is_some_and(has_other_mode) {
        survey.found.members.push(dropped_inside(REASONING_MODE));
    }
    // A prompt that the provider stores can have tools of its own.
    survey.found.inner.calls_model = prompt.is_some_and(|prompt| prompt.kind() != Kind::Null)
        || servers.is_some_and(|servers| servers.elements().next().is_some());
    if context.is_some_and(compacts) {
        survey.compacts();
    }
    survey.found.tool_count = tools.into_iter().flat_map(View::elements).map(offered).sum();
    survey.tools(&Path::Top("tools"), tools, 0);
    if let Some(options) = options {
        let [compared] = options.pick(["comparison_response_id"]);
        if is_id(compared) {
            survey.stored(&Path::Top("prompt_cache_options").member("comparison_response_id"));
        }
    }
    let path = Path::Top("input");
    for (at, item) in input.into_iter().flat_map(View::elements).enumerate() {
        survey.item(&path.item(at), item, true);
    }
    ResponsesSurvey { survey, most: bound(most) }
}

/// Whether a `context_management` has an entry that summarises the conversation.
fn compacts(context: View<'_>) -> bool {
    let compacts = |entry: View<'_>| {
        let [kind] = entry.pick(["type"]);
        word(kind).is_some_and(|kind| kind.starts_with("compact"))
    };
    match context.kind() {
        Kind::Array => context.elements().any(compacts),
        _ => compacts(context),
    }
}

impl ResponsesSurvey {
    /// Surveys an item that the gateway keeps and sends in the request's place. Calls of hosted tools in it are the
    /// provider's own words.
    pub fn stored_item(&mut self, item: View<'_>) {
        self.survey.item(&Path::Top("previous_response_id"), item, false);
    }

    /// The findings.
    #[must_use]
    pub fn finish(self) -> NativePolicy {
        let mut survey = self.survey;
        if let Some(most) = self.most {
            survey.bound_calls(most);
        }
        survey.found
    }
}

/// The number of tools that an entry of `tools` stands for.
fn offered(tool: View<'_>) -> usize {
    let [kind, inner] = tool.pick(["type", "tools"]);
    match word(kind).as_deref() {
        Some("namespace") => inner.into_iter().flat_map(View::elements).count(),
        _ => 1,
    }
}

/// The depth of tools in tools: those of a namespace.
const MAX_TOOL_DEPTH: u32 = 1;

/// The memory of a code interpreter's container whose price is known.
const USUAL_MEMORY: &str = "1g";

impl Surveyor {
    fn tools(&mut self, path: &Path<'_>, tools: Option<View<'_>>, depth: u32) {
        for (at, tool) in tools.into_iter().flat_map(View::elements).enumerate() {
            self.response_tool(&path.item(at), tool, depth);
        }
    }

    fn response_tool(&mut self, path: &Path<'_>, tool: View<'_>, depth: u32) {
        let [kind, environment, container, inner] = tool.pick(["type", "environment", "container", "tools"]);
        let Some(kind) = word(kind) else { return };
        let decision = self.judge(PolicyPlace::Tool, &kind);
        self.offered_tool(&kind, tool, decision, None, None);
        if decision != Some(Treatment::Forwarded) {
            self.references(path, tool);
        }
        match &*kind {
            "code_interpreter" => {
                let [memory] = container.map_or([None], |container| container.pick(["memory_limit"]));
                if word(memory).is_some_and(|memory| memory != USUAL_MEMORY) {
                    self.judge(PolicyPlace::Tool, LARGE_CONTAINER);
                }
            }
            "shell" => self.environment(path, environment),
            "namespace" if depth < MAX_TOOL_DEPTH => self.tools(&path.member("tools"), inner, depth + 1),
            // A namespace in a namespace has no row.
            "namespace" => {
                let decision = self.judge(PolicyPlace::Tool, "namespace.namespace");
                self.hosted_tool(decision, None, None);
            }
            _ => {}
        }
    }

    /// The place where the commands of a `shell` run.
    fn environment(&mut self, path: &Path<'_>, environment: Option<View<'_>>) {
        let [kind, skills] =
            environment.map_or([None; 2], |environment| environment.pick(["type", "skills"]));
        if word(kind).is_none_or(|kind| kind != "local") {
            let decision = self.judge(PolicyPlace::Tool, HOSTED_SHELL);
            self.hosted_tool(decision, None, None);
        }
        let Some(environment) = environment else { return };
        let skills = skills.into_iter().flat_map(View::elements);
        let mut ids = skills.map(|skill| {
            let [id] = skill.pick(["skill_id"]);
            id
        });
        if ids.any(is_id) {
            self.stored(&path.member("environment"));
        }
        self.references(path, environment);
    }

    /// An item of the conversation. `is_own` says that the client wrote it.
    fn item(&mut self, path: &Path<'_>, item: View<'_>, is_own: bool) {
        let [kind, content, output, tools, result, environment] =
            item.pick(["type", "content", "output", "tools", "result", "environment"]);
        let Some(kind) = word(kind) else { return self.parts(&path.member("content"), content) };
        self.judge(PolicyPlace::Part, &kind);
        match &*kind {
            "message" => self.parts(&path.member("content"), content),
            "computer_call_output" => {
                if let Some(output) = output {
                    self.part(&path.member("output"), output);
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.parts(&path.member("output"), output);
            }
            "additional_tools" | "tool_search_output" => self.tools(&path.member("tools"), tools, 0),
            "shell_call" if is_own => {
                if let Some(environment) = environment {
                    self.references(path, environment);
                }
            }
            "compaction_trigger" => self.compacts(),
            "code_interpreter_call" | "file_search_call" if is_own => self.references(path, item),
            // Without its bytes, the provider looks the image up by its id.
            "image_generation_call" if is_own && !is_id(result) => self.stored(&path.member("id")),
            _ => {}
        }
    }

    fn parts(&mut self, path: &Path<'_>, content: Option<View<'_>>) {
        let Some(content) = content.filter(|content| content.kind() == Kind::Array) else { return };
        content.elements().enumerate().for_each(|(at, part)| self.part(&path.item(at), part));
    }

    fn part(&mut self, path: &Path<'_>, part: View<'_>) {
        let [kind, id, image, file] = part.pick(["type", "file_id", "image_url", "file_url"]);
        let Some(kind) = word(kind) else { return };
        self.judge(PolicyPlace::Part, &kind);
        if is_id(id) {
            self.stored(&path.member("file_id"));
        }
        self.address(path, "image_url", image);
        self.address(path, "file_url", file);
    }
}
