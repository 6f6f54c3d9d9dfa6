//! The survey of a Responses request.

use super::responses_rows::{HOSTED_SHELL, LARGE_CONTAINER};
use super::rows::{PolicyPlace, Surface, Treatment};
use super::{MOST_HOSTED_CALLS, NativePolicy, Surveyor, is_id, word};
use crate::hosted_tools::{HostedCalls, HostedTool};
use crate::json::{Kind, View};
use crate::request::fields::Path;

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
    survey.members(body);
    let [tools, input, most, options] =
        body.pick(["tools", "input", "max_tool_calls", "prompt_cache_options"]);
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
    ResponsesSurvey { survey, most: most.and_then(|most| most.text().parse().ok()) }
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
        let mut found = self.survey.found;
        if let Some(most) = self.most {
            // The request bounds the calls of all tools together, so each tool has at most as many.
            let mut bounded = HostedCalls::default();
            for tool in HostedTool::ALL {
                bounded.add(tool, found.most_calls.of(tool).min(most));
            }
            found.most_calls = bounded;
        }
        found
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
        match self.judge(PolicyPlace::Tool, &kind) {
            Some(Treatment::Priced(hosted)) => {
                self.references(path, tool);
                let calls = if hosted == HostedTool::CodeInterpreter { 1 } else { MOST_HOSTED_CALLS };
                self.found.most_calls.add(hosted, calls);
            }
            Some(Treatment::Forwarded) => {}
            _ => self.references(path, tool),
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
            "namespace" => _ = self.judge(PolicyPlace::Tool, "namespace.namespace"),
            _ => {}
        }
    }

    /// The place where the commands of a `shell` run.
    fn environment(&mut self, path: &Path<'_>, environment: Option<View<'_>>) {
        let [kind, skills] =
            environment.map_or([None; 2], |environment| environment.pick(["type", "skills"]));
        if word(kind).is_none_or(|kind| kind != "local") {
            self.judge(PolicyPlace::Tool, HOSTED_SHELL);
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
        let [kind, id] = part.pick(["type", "file_id"]);
        let Some(kind) = word(kind) else { return };
        self.judge(PolicyPlace::Part, &kind);
        if is_id(id) {
            self.stored(&path.member("file_id"));
        }
    }
}
