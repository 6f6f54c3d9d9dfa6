//! Checks `tools`, `tool_choice` and their legacy forms `functions` and `function_call`.

use std::collections::HashSet;

use super::fields::{
    Path, array, invalid_value, missing, not_one_of, object, object_and, optional, required_name,
    required_string,
};
use super::invalid::Invalid;
use super::limits::{RequestLimits, too_many};
use super::member_policy::is_type;
use super::needs::Needs;
use super::options::{Fields, WordOrObject, without_tools, word_or_object};
use super::schemas::Schemas;
use crate::json::{Kind, View};

impl Fields<'_, '_> {
    /// Checks all four members, records the needed capabilities and returns the bytes of the definitions.
    pub(super) fn tools(&self, needs: &mut Needs, schemas: &mut Schemas<'_>) -> Result<u64, Invalid> {
        let path = Path::Top("tools");
        let tools = self.get("tools");
        if let Some(tools) = tools {
            for (at, value) in array(&path, tools, usize::MAX, "an array of objects")?.enumerate() {
                needs.tool_count = counted(&path, at, schemas.limits())?;
                tool(&path.item(at), value, needs, schemas)?;
            }
        }
        // An empty array counts as no tools.
        let tools = tools.filter(|tools| !tools.is_empty_array());
        if let Some(choice) = self.get("tool_choice") {
            tool_choice(choice, tools, needs)?;
        }
        self.kinds(&[("parallel_tool_calls", Kind::Boolean)])?;
        let definitions = match tools {
            // With tools the legacy members are ignored.
            Some(tools) => Some(tools),
            None => self.functions(needs, schemas)?,
        };
        needs.tools = definitions.is_some();
        Ok(definitions.map_or(0, |definitions| definitions.text().len() as u64))
    }

    fn functions(&self, needs: &mut Needs, schemas: &mut Schemas<'_>) -> Result<Option<View<'_>>, Invalid> {
        let path = Path::Top("functions");
        let functions = self.get("functions");
        if let Some(functions) = functions {
            for (at, value) in array(&path, functions, usize::MAX, "an array of objects")?.enumerate() {
                needs.tool_count = counted(&path, at, schemas.limits())?;
                function(&path.item(at), value, schemas)?;
            }
        }
        if let Some(call) = self.get("function_call") {
            let path = Path::Top("function_call");
            match word_or_object(&path, call)? {
                WordOrObject::Word(word) if *word == *"none" || *word == *"auto" => {}
                WordOrObject::Word(word) => return Err(not_one_of(&path, &["none", "auto"], &word)),
                WordOrObject::Object(named) => {
                    let [name] = object(&path, named, ["name"])?;
                    required_name(&path.member("name"), name)?;
                }
            }
        }
        Ok(functions.filter(|functions| !functions.is_empty_array()))
    }
}

/// The number of tools up to this one, within the limit of a request.
fn counted(path: &Path<'_>, at: usize, limits: &RequestLimits) -> Result<usize, Invalid> {
    let (count, most) = (at + 1, limits.max_tools);
    if count > most { Err(too_many(path, "tools", most, count, "max_tools")) } else { Ok(count) }
}

fn tool(
    path: &Path<'_>,
    value: View<'_>,
    needs: &mut Needs,
    schemas: &mut Schemas<'_>,
) -> Result<(), Invalid> {
    let mut other_type = false;
    let [kind, definition, custom] =
        object_and(path, value, ["type", "function", "custom"], |name, value| {
            other_type |=
                is_type(name) && value.string().is_none_or(|kind| kind != "function" && kind != "custom");
        })?;
    let kind = required_name(&path.member("type"), kind)?;
    // A custom tool in another form than OpenAI's is left to OpenAI to judge.
    let is_custom = kind == "custom" && definition.is_none() && custom.is_some_and(has_name);
    needs.custom_tools |= is_custom;
    if other_type || kind != "function" && !is_custom {
        needs.openai_only.get_or_insert(Needs::OTHER_TOOLS);
    }
    if kind != "function" {
        return Ok(());
    }
    let path = path.member("function");
    function(&path, definition.ok_or_else(|| missing(&path))?, schemas)
}

fn function(path: &Path<'_>, value: View<'_>, schemas: &mut Schemas<'_>) -> Result<(), Invalid> {
    let [name, description, parameters, strict] =
        object(path, value, ["name", "description", "parameters", "strict"])?;
    required_name(&path.member("name"), name)?;
    optional(&path.member("description"), description, Kind::String)?;
    let parameters_path = path.member("parameters");
    optional(&parameters_path, parameters, Kind::Object)?;
    schemas.take(&parameters_path, parameters)?;
    optional(&path.member("strict"), strict, Kind::Boolean)
}

fn tool_choice(value: View<'_>, tools: Option<View<'_>>, needs: &mut Needs) -> Result<(), Invalid> {
    let path = Path::Top("tool_choice");
    let object_choice = match word_or_object(&path, value)? {
        WordOrObject::Word(word) => {
            return match &*word {
                "none" | "auto" => Ok(()),
                "required" if tools.is_some() => Ok(()),
                "required" => Err(without_tools(&path)),
                other => Err(not_one_of(&path, &["none", "auto", "required"], other)),
            };
        }
        WordOrObject::Object(choice) => choice,
    };
    let [kind, function] = object(&path, object_choice, ["type", "function"])?;
    let kind_path = path.member("type");
    let kind = required_string(&kind_path, kind)?;
    match &*kind {
        "function" => {
            let function_path = path.member("function");
            let [name] = object(&function_path, function.ok_or_else(|| missing(&function_path))?, ["name"])?;
            let name = required_name(&function_path.member("name"), name)?;
            let tools = tools.ok_or_else(|| without_tools(&path))?;
            if !is_offered(&name, Some(tools)) {
                return Err(invalid_value(&path, "the named function is not among the 'tools'."));
            }
        }
        "custom" | "allowed_tools" if tools.is_none() => return Err(without_tools(&path)),
        "allowed_tools" if may_choose(object_choice, tools) => {}
        "custom" if named(object_choice).is_some_and(|name| is_offered(&name, tools)) => {}
        "custom" if named(object_choice).is_some() && all_named(tools) => {
            return Err(invalid_value(&path, "the named tool is not among the 'tools'."));
        }
        "custom" | "allowed_tools" => {
            needs.openai_only.get_or_insert(Needs::OTHER_TOOLS);
        }
        other => return Err(not_one_of(&kind_path, &["function", "allowed_tools", "custom"], other)),
    }
    Ok(())
}

/// Whether `allowed_tools` has OpenAI's form and names only offered tools, so that every provider can apply it.
fn may_choose(choice: View<'_>, tools: Option<View<'_>>) -> bool {
    let [allowed] = choice.pick(["allowed_tools"]);
    let [mode, names] = allowed.map_or([None, None], |allowed| allowed.pick(["mode", "tools"]));
    let mode = mode.and_then(View::string);
    let is_mode = mode.is_some_and(|mode| mode == "auto" || mode == "required");
    let mut names = names.into_iter().flat_map(View::elements).peekable();
    if !is_mode || names.peek().is_none() {
        return false;
    }
    let offered: HashSet<_> = tools.into_iter().flat_map(View::elements).filter_map(named).collect();
    names.all(|entry| named(entry).is_some_and(|name| offered.contains(&name)))
}

fn is_offered(name: &str, tools: Option<View<'_>>) -> bool {
    let mut tools = tools.into_iter().flat_map(View::elements);
    tools.any(|tool| named(tool).is_some_and(|known| known == name))
}

/// Whether every tool is in one of OpenAI's forms with a name. A tool in another form may have any name.
fn all_named(tools: Option<View<'_>>) -> bool {
    tools.into_iter().flat_map(View::elements).all(|tool| named(tool).is_some())
}

/// Whether a custom tool has a non-empty name.
fn has_name(custom: View<'_>) -> bool {
    let [name] = custom.pick(["name"]);
    name.and_then(View::string).is_some_and(|name| !name.is_empty())
}

/// The name of a function or of a custom tool.
fn named(tool: View<'_>) -> Option<std::borrow::Cow<'_, str>> {
    let [function, custom] = tool.pick(["function", "custom"]);
    let [name] = function.or(custom)?.pick(["name"]);
    name?.string()
}
