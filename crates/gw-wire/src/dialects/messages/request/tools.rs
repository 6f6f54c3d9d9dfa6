//! `tools` and `tool_choice`: the client's own tools as functions. Tools that the provider runs are left out.

use std::borrow::Cow;
use std::collections::HashSet;

use super::warnings::Losses;
use crate::dialects::messages::faults::{
    MessagesPath, boolean, check_object, invalid, list, missing, not_one_of, object, optional_string,
    required_name, required_string,
};
use crate::json::{ObjectWriter, View};
use crate::request::fields::clip;
use crate::request::{Body, Invalid, RequestLimits};

/// A tool that the client runs, as a function.
struct ToolFunction<'a> {
    name: Cow<'a, str>,
    description: Option<Cow<'a, str>>,
    parameters: &'a str,
    is_strict: Option<bool>,
    cache_control: Option<View<'a>>,
}

/// Tools whose schema Anthropic's models know and the client runs: the beginning of the type, a description and the
/// schema. The parameters are those of anthropic-sdk-python (`beta_memory_tool_20250818_*`) and of the pages "Bash tool"
/// and "Text editor tool" at platform.claude.com, November 2026. `insert` has `insert_text`
/// (anthropics/anthropic-sdk-python#1155).
const CLIENT_TOOLS: [(&str, &str, &str); 3] = [
    (
        "bash_",
        "Runs a command in a bash session that keeps its state. `restart` starts a new session.",
        r#"{"type":"object","properties":{"command":{"type":"string"},"restart":{"type":"boolean"}}}"#,
    ),
    (
        "text_editor_",
        "Views and edits text files. `view` shows a file, or the lines of `view_range`; `create` writes `file_text`; \
         `str_replace` replaces the only occurrence of `old_str` by `new_str`; `insert` inserts `insert_text` after the \
         line `insert_line`.",
        r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"}},"required":["command","path"]}"#,
    ),
    (
        "memory_",
        "Keeps notes in files below /memories. `view` shows a directory or a file; `create` writes `file_text`; \
         `str_replace` replaces `old_str` by `new_str`; `insert` inserts `insert_text` after the line `insert_line`; \
         `delete` removes `path`; `rename` moves `old_path` to `new_path`.",
        r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]}"#,
    ),
];

/// Writes `tools`, `tool_choice` and `parallel_tool_calls`.
pub(super) fn write(
    body: &Body,
    limits: &RequestLimits,
    chat: &mut ObjectWriter<'_>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let given = body.view("tools").filter(|tools| !tools.is_empty_array());
    let tools = match given {
        Some(tools) => read(tools, limits, losses)?,
        None => Vec::new(),
    };
    if !tools.is_empty() {
        chat.array("tools", &tools, write_tool);
    }
    choice(body, given.is_some(), &tools, chat, losses)
}

fn read<'a>(
    tools: View<'a>,
    limits: &RequestLimits,
    losses: &mut Losses,
) -> Result<Vec<ToolFunction<'a>>, Invalid> {
    let path = MessagesPath::Top("tools");
    let (mut functions, mut names) = (Vec::new(), HashSet::new());
    let mut nodes = 0;
    for (at, tool) in list(&path, tools)?.enumerate() {
        let path = path.item(at);
        let [kind, name] = object(&path, tool, ["type", "name"])?;
        let kind = optional_string(&path.member("type"), kind)?;
        let function = match kind.as_deref() {
            None | Some("custom") => custom_tool(&path, tool, limits, &mut nodes)?,
            Some(kind) => match CLIENT_TOOLS.iter().find(|(start, ..)| kind.starts_with(start)) {
                Some((_, description, parameters)) => ToolFunction {
                    name: required_name(&path.member("name"), name)?,
                    description: Some(Cow::Borrowed(description)),
                    parameters,
                    is_strict: None,
                    cache_control: cache_control(tool),
                },
                None => {
                    losses.tool(without_date(kind));
                    continue;
                }
            },
        };
        if !names.insert(function.name.clone()) {
            return Err(invalid(&MessagesPath::Top("tools"), "Tool names must be unique."));
        }
        functions.push(function);
        if functions.len() > limits.max_tools {
            let max = limits.max_tools;
            let what = format!(
                "Too many tools. At most {max} are allowed (setting 'server.request_limits.max_tools')"
            );
            return Err(invalid(&MessagesPath::Top("tools"), what));
        }
    }
    Ok(functions)
}

fn cache_control(tool: View<'_>) -> Option<View<'_>> {
    let [cache_control] = tool.pick(["cache_control"]);
    cache_control
}

/// A type without its version: `web_search` for `web_search_20250305`.
fn without_date(kind: &str) -> &str {
    match kind.rsplit_once('_') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => kind,
    }
}

fn custom_tool<'a>(
    path: &MessagesPath<'_>,
    tool: View<'a>,
    limits: &RequestLimits,
    nodes: &mut usize,
) -> Result<ToolFunction<'a>, Invalid> {
    let [name, description, schema, strict, cache_control, defer_loading] =
        tool.pick(["name", "description", "input_schema", "strict", "cache_control", "defer_loading"]);
    let path = path.member("custom");
    let name = required_name(&path.member("name"), name)?;
    let description = optional_string(&path.member("description"), description)?;
    let schema_path = path.member("input_schema");
    let schema = schema.ok_or_else(|| missing(&schema_path))?;
    check_schema(&schema_path, schema, limits, nodes)?;
    let is_strict = strict.map(|_| boolean(&path.member("strict"), strict)).transpose()?;
    boolean(&path.member("defer_loading"), defer_loading)?;
    Ok(ToolFunction { name, description, parameters: schema.text(), is_strict, cache_control })
}

/// Checks that a JSON Schema is an object within the limits. `nodes` counts the values of all schemas.
pub(super) fn check_schema(
    path: &MessagesPath<'_>,
    schema: View<'_>,
    limits: &RequestLimits,
    nodes: &mut usize,
) -> Result<(), Invalid> {
    check_object(path, schema)?;
    let extent = schema.extent();
    *nodes = nodes.saturating_add(extent.values);
    if extent.depth > limits.max_schema_depth {
        let max = limits.max_schema_depth;
        let what = format!(
            "JSON schema is nested too deeply. At most {max} levels are allowed (setting \
             'server.request_limits.max_schema_depth')"
        );
        return Err(invalid(path, what));
    }
    if *nodes > limits.max_schema_nodes {
        let max = limits.max_schema_nodes;
        let what = format!(
            "JSON schemas are too large. At most {max} values are allowed in one request (setting \
             'server.request_limits.max_schema_nodes')"
        );
        return Err(invalid(path, what));
    }
    Ok(())
}

fn write_tool(out: &mut Vec<u8>, tool: &ToolFunction<'_>) {
    let mut object = ObjectWriter::begin(out);
    object.string("type", "function");
    object.object("function", |function| {
        function.string("name", &tool.name);
        function.optional_string("description", tool.description.as_deref());
        function.raw("parameters", tool.parameters);
        if let Some(is_strict) = tool.is_strict {
            function.raw("strict", if is_strict { "true" } else { "false" });
        }
    });
    if let Some(cache_control) = tool.cache_control {
        object.raw("cache_control", cache_control.text());
    }
    object.finish();
}

fn choice(
    body: &Body,
    has_tools: bool,
    tools: &[ToolFunction<'_>],
    chat: &mut ObjectWriter<'_>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let Some(choice) = body.view("tool_choice") else { return Ok(()) };
    let path = MessagesPath::Top("tool_choice");
    let [kind, name, is_single] = object(&path, choice, ["type", "name", "disable_parallel_tool_use"])?;
    let kind_path = path.member("type");
    let kind = required_string(&kind_path, kind)?;
    let is_single = boolean(&path.member("disable_parallel_tool_use"), is_single)?;
    if !["auto", "any", "tool", "none"].contains(&&*kind) {
        return Err(not_one_of(&kind_path, &["any", "auto", "none", "tool"], &kind));
    }
    if !has_tools && kind != "none" {
        return Err(invalid(&path, "may only be specified while providing `tools`."));
    }
    if tools.is_empty() {
        return Ok(());
    }
    match &*kind {
        "auto" => chat.string("tool_choice", "auto"),
        "any" => chat.string("tool_choice", "required"),
        "none" => chat.string("tool_choice", "none"),
        _ => {
            let name_path = path.member("tool");
            let name_path = name_path.member("name");
            let name = required_name(&name_path, name)?;
            if tools.iter().any(|tool| tool.name == name) {
                chat.object("tool_choice", |choice| {
                    choice.string("type", "function");
                    choice.object("function", |function| function.string("name", &name));
                });
            } else if is_offered(body, &name) {
                // The tool was left out before.
                losses.parameter("tool_choice", true);
            } else {
                let what = format!("Tool '{}' not found in provided tools", clip(&name));
                return Err(invalid(&name_path, what));
            }
        }
    }
    if is_single {
        chat.raw("parallel_tool_calls", "false");
    }
    Ok(())
}

/// Whether any tool of the request has this name.
fn is_offered(body: &Body, name: &str) -> bool {
    let mut tools = body.view("tools").into_iter().flat_map(View::elements);
    tools.any(|tool| {
        let [known] = tool.pick(["name"]);
        known.and_then(View::string).is_some_and(|known| known == name)
    })
}
