//! `tools` and `toolConfig`: the client's functions. Tools that the provider runs are left out, but for the web search.

use std::borrow::Cow;
use std::collections::HashSet;

use super::schema;
use crate::dialects::gemini::members::{Losses, list, members, members_and, optional, required_name};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::fields::{Path, array, clip, invalid_value, not_one_of, string, wrong_type};
use crate::request::limits::too_many;
use crate::request::{Invalid, RequestLimits};

/// A function of the client.
struct Declaration<'a> {
    name: Cow<'a, str>,
    description: Option<Cow<'a, str>>,
    parameters: Option<View<'a>>,
    json_schema: Option<View<'a>>,
}

/// The functions of a request, and whether the model may search the web.
#[derive(Default)]
struct Offered<'a> {
    functions: Vec<Declaration<'a>>,
    searches: bool,
}

/// Writes `tools`, `tool_choice` and `web_search_options`.
pub(super) fn write(
    tools: Option<View<'_>>,
    config: Option<View<'_>>,
    limits: &RequestLimits,
    chat: &mut ObjectWriter<'_>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let offered = match tools {
        Some(tools) => read(tools, limits, losses)?,
        None => Offered::default(),
    };
    if !offered.functions.is_empty() {
        chat.array("tools", &offered.functions, write_declaration);
    }
    if offered.searches {
        chat.raw("web_search_options", "{}");
    }
    match config {
        Some(config) => choice(config, &offered.functions, chat, losses),
        None => Ok(()),
    }
}

fn read<'a>(value: View<'a>, limits: &RequestLimits, losses: &mut Losses) -> Result<Offered<'a>, Invalid> {
    let path = Path::Top("tools");
    let (mut offered, mut names) = (Offered::default(), HashSet::new());
    for (at, tool) in list(&path, value, "an array of tools")?.enumerate() {
        let path = path.item(at);
        let [declarations, search, old_search] = members_and(
            &path,
            tool,
            ["functionDeclarations", "googleSearch", "googleSearchRetrieval"],
            |name, _| losses.tool(name),
        )?;
        offered.searches |= search.or(old_search).is_some();
        let Some(declarations) = declarations else { continue };
        let path = path.member("functionDeclarations");
        for (at, declaration) in list(&path, declarations, "an array of functions")?.enumerate() {
            let path = path.item(at);
            let declaration = read_declaration(&path, declaration)?;
            if !names.insert(declaration.name.clone()) {
                let what = format!("the function '{}' is declared more than once.", clip(&declaration.name));
                return Err(invalid_value(&path, &what));
            }
            offered.functions.push(declaration);
            let (count, most) = (offered.functions.len(), limits.max_tools);
            if count > most {
                return Err(too_many(&Path::Top("tools"), "tools", most, count, "max_tools"));
            }
        }
    }
    Ok(offered)
}

fn read_declaration<'a>(path: &Path<'_>, value: View<'a>) -> Result<Declaration<'a>, Invalid> {
    let [name, description, parameters, json_schema] =
        members(path, value, ["name", "description", "parameters", "parametersJsonSchema"])?;
    let name = required_name(path, "name", name)?;
    let description = optional(path, "description", description)?;
    for (name, schema) in [("parameters", parameters), ("parametersJsonSchema", json_schema)] {
        if let Some(schema) = schema.filter(|schema| schema.kind() != Kind::Object) {
            return Err(wrong_type(&path.member(name), "an object", schema));
        }
    }
    Ok(Declaration { name, description, parameters, json_schema })
}

fn write_declaration(out: &mut Vec<u8>, declaration: &Declaration<'_>) {
    let mut tool = ObjectWriter::begin(out);
    tool.string("type", "function");
    tool.object("function", |function| {
        function.string("name", &declaration.name);
        function.optional_string("description", declaration.description.as_deref());
        match (declaration.json_schema, declaration.parameters) {
            (Some(schema), _) => function.raw("parameters", schema.text()),
            (None, Some(parameters)) => schema::write(function.member("parameters"), parameters),
            (None, None) => function.raw("parameters", r#"{"type":"object","properties":{}}"#),
        }
    });
    tool.finish();
}

fn choice(
    value: View<'_>,
    functions: &[Declaration<'_>],
    chat: &mut ObjectWriter<'_>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let path = Path::Top("toolConfig");
    let [calling] = members_and(&path, value, ["functionCallingConfig"], |name, value| {
        if value.kind() != Kind::Null {
            losses.parameter(name);
        }
    })?;
    let Some(calling) = calling else { return Ok(()) };
    let path = path.member("functionCallingConfig");
    let [mode, allowed] = members_and(&path, calling, ["mode", "allowedFunctionNames"], |name, _| {
        losses.parameter(name);
    })?;
    let mode = optional(&path, "mode", mode)?.map(|mode| mode.to_ascii_uppercase());
    let word = match mode.as_deref() {
        None | Some("MODE_UNSPECIFIED" | "AUTO" | "VALIDATED") => "auto",
        Some("ANY") => "required",
        Some("NONE") => "none",
        Some(other) => {
            return Err(not_one_of(&path.member("mode"), &["AUTO", "ANY", "NONE", "VALIDATED"], other));
        }
    };
    let allowed = match allowed {
        Some(allowed) => allowed_names(&path.member("allowedFunctionNames"), allowed, functions)?,
        None => Vec::new(),
    };
    if functions.is_empty() {
        return match word {
            "required" => Err(invalid_value(&path.member("mode"), "'ANY' needs functions in 'tools'.")),
            _ => Ok(()),
        };
    }
    match (allowed.as_slice(), word) {
        ([], _) | (_, "none") => chat.string("tool_choice", word),
        ([name], "required") => chat.object("tool_choice", |choice| write_function(choice, name)),
        (names, word) => chat.object("tool_choice", |choice| {
            choice.string("type", "allowed_tools");
            choice.object("allowed_tools", |allowed| {
                allowed.string("mode", word);
                allowed.array("tools", names, |out, name| {
                    let mut entry = ObjectWriter::begin(out);
                    write_function(&mut entry, name);
                    entry.finish();
                });
            });
        }),
    }
    Ok(())
}

fn write_function(object: &mut ObjectWriter<'_>, name: &str) {
    object.string("type", "function");
    object.object("function", |function| function.string("name", name));
}

/// The names of functions that the model may call.
fn allowed_names<'a>(
    path: &Path<'_>,
    value: View<'a>,
    functions: &[Declaration<'_>],
) -> Result<Vec<Cow<'a, str>>, Invalid> {
    let mut names = Vec::new();
    for (at, name) in array(path, value, usize::MAX, "an array of strings")?.enumerate() {
        let path = path.item(at);
        let name = string(&path, name)?;
        if functions.iter().all(|function| function.name != name) {
            let what = format!("the function '{}' is not declared in 'tools'.", clip(&name));
            return Err(invalid_value(&path, &what));
        }
        names.push(name);
    }
    Ok(names)
}
