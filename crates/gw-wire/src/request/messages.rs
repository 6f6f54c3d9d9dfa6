//! `messages` of a chat: roles, content parts and tool calls, as CONTRACT 1.4 lists them.

use super::fields::{
    Path, array, empty_array, invalid_value, missing, not_one_of, object, optional, required_string,
};
use super::{Beside, Invalid, Needs};
use crate::json::{Kind, View};

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// What the messages hold, found while they are checked.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) needs: Needs,
    /// Bytes of text.
    pub(super) bytes: u64,
    /// What is in the prompt beside its text.
    pub(super) beside: Beside,
}

impl Survey {
    fn text(&mut self, path: &Path<'_>, value: Option<View<'_>>) -> Result<(), Invalid> {
        let value = value.ok_or_else(|| missing(path))?;
        optional(path, Some(value), Kind::String)?;
        self.bytes += value.string_len() as u64;
        Ok(())
    }

    fn optional_text(&mut self, path: &Path<'_>, value: Option<View<'_>>) -> Result<(), Invalid> {
        value.map_or(Ok(()), |value| self.text(path, Some(value)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// `system`, `developer`, `tool` and `function`: text only.
    Plain,
    User,
    Assistant,
}

/// Checks all messages.
pub(super) fn messages(value: Option<View<'_>>) -> Result<Survey, Invalid> {
    let path = Path::Top("messages");
    let value = value.ok_or_else(|| missing(&path))?;
    let mut survey = Survey::default();
    let mut none = true;
    for (at, value) in array(&path, value, usize::MAX, "an array of objects")?.enumerate() {
        none = false;
        survey.beside.frames += 1;
        message(&path.item(at), value, &mut survey)?;
    }
    if none { Err(empty_array(&path)) } else { Ok(survey) }
}

fn message(path: &Path<'_>, value: View<'_>, survey: &mut Survey) -> Result<(), Invalid> {
    const MEMBERS: [&str; 8] =
        ["role", "content", "name", "tool_call_id", "tool_calls", "function_call", "refusal", "audio"];
    let [role, content, name, tool_call_id, tool_calls, function_call, refusal, audio] =
        object(path, value, MEMBERS)?;
    let role_path = path.member("role");
    let role_name = required_string(&role_path, role)?;
    let role = match &*role_name {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" | "tool" | "function" => Role::Plain,
        other => return Err(not_one_of(&role_path, &ROLES, other)),
    };
    let content_path = path.member("content");
    match content {
        Some(content) => parts(&content_path, content, role, survey)?,
        None if role == Role::Assistant || role_name == "function" => {}
        None => return Err(missing(&content_path)),
    }
    if role_name == "function" {
        required_string(&path.member("name"), name)?;
    }
    optional(&path.member("name"), name, Kind::String)?;
    if role_name == "tool" {
        required_string(&path.member("tool_call_id"), tool_call_id)?;
    }
    if role != Role::Assistant {
        return Ok(());
    }
    survey.optional_text(&path.member("refusal"), refusal)?;
    optional(&path.member("audio"), audio, Kind::Object)?;
    if let Some(calls) = tool_calls {
        let path = path.member("tool_calls");
        for (at, call) in array(&path, calls, usize::MAX, "an array of objects")?.enumerate() {
            tool_call(&path.item(at), call, survey)?;
        }
    }
    function_call.map_or(Ok(()), |call| called(&path.member("function_call"), call, survey))
}

fn parts(path: &Path<'_>, content: View<'_>, role: Role, survey: &mut Survey) -> Result<(), Invalid> {
    const EXPECTED: &str = "one of a string or an array of objects";
    if content.kind() == Kind::String {
        return survey.text(path, Some(content));
    }
    let mut none = true;
    for (at, value) in array(path, content, usize::MAX, EXPECTED)?.enumerate() {
        none = false;
        part(&path.item(at), value, role, survey)?;
    }
    if none { Err(empty_array(path)) } else { Ok(()) }
}

fn part(path: &Path<'_>, value: View<'_>, role: Role, survey: &mut Survey) -> Result<(), Invalid> {
    let [kind, text, image_url, input_audio, file, refusal] =
        object(path, value, ["type", "text", "image_url", "input_audio", "file", "refusal"])?;
    let kind_path = path.member("type");
    let kind = required_string(&kind_path, kind)?;
    let allowed: &[&str] = match role {
        Role::Plain => &["text"],
        Role::User => &["text", "image_url", "input_audio", "file"],
        Role::Assistant => &["text", "refusal"],
    };
    let known = ["text", "image_url", "input_audio", "file", "refusal"].contains(&&*kind);
    if !allowed.contains(&&*kind) {
        if known || role == Role::Plain {
            return Err(not_one_of(&kind_path, allowed, &kind));
        }
        survey.needs.openai_only.get_or_insert(Needs::OTHER_PARTS);
        survey.beside.bytes += value.text().len() as u64;
        return Ok(());
    }
    match &*kind {
        "image_url" => {
            survey.needs.image = true;
            survey.beside.images += 1;
            image(&path.member("image_url"), image_url)
        }
        "input_audio" => {
            survey.needs.audio_input = true;
            // A second of speech is some ten tokens, and several thousand bytes.
            survey.beside.bytes += value.text().len() as u64 / 16;
            audio(&path.member("input_audio"), input_audio)
        }
        "file" => {
            survey.beside.bytes += value.text().len() as u64;
            let path = path.member("file");
            let names = ["file_id", "file_data", "filename"];
            let members = object(&path, file.ok_or_else(|| missing(&path))?, names)?;
            names
                .iter()
                .zip(members)
                .try_for_each(|(name, value)| optional(&path.member(name), value, Kind::String))
        }
        "refusal" => survey.text(&path.member("refusal"), refusal),
        _ => survey.text(&path.member("text"), text),
    }
}

fn image(path: &Path<'_>, value: Option<View<'_>>) -> Result<(), Invalid> {
    let [url, detail] = object(path, value.ok_or_else(|| missing(path))?, ["url", "detail"])?;
    let url_path = path.member("url");
    let url = required_string(&url_path, url)?;
    let begins =
        |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !["https://", "http://", "data:"].into_iter().any(begins) {
        return Err(invalid_value(
            &url_path,
            "expected a URL that begins with 'https://', 'http://' or 'data:'.",
        ));
    }
    optional(&path.member("detail"), detail, Kind::String)
}

fn audio(path: &Path<'_>, value: Option<View<'_>>) -> Result<(), Invalid> {
    let [data, format] = object(path, value.ok_or_else(|| missing(path))?, ["data", "format"])?;
    required_string(&path.member("data"), data)?;
    let path = path.member("format");
    match &*required_string(&path, format)? {
        "wav" | "mp3" => Ok(()),
        other => Err(not_one_of(&path, &["wav", "mp3"], other)),
    }
}

fn tool_call(path: &Path<'_>, value: View<'_>, survey: &mut Survey) -> Result<(), Invalid> {
    let [id, kind, function, custom] = object(path, value, ["id", "type", "function", "custom"])?;
    required_string(&path.member("id"), id)?;
    let kind_path = path.member("type");
    match &*required_string(&kind_path, kind)? {
        "function" => {
            let path = path.member("function");
            called(&path, function.ok_or_else(|| missing(&path))?, survey)
        }
        "custom" => {
            survey.needs.openai_only.get_or_insert(Needs::OTHER_TOOLS);
            let path = path.member("custom");
            let [name, input] = object(&path, custom.ok_or_else(|| missing(&path))?, ["name", "input"])?;
            survey.text(&path.member("name"), name)?;
            survey.text(&path.member("input"), input)
        }
        other => Err(not_one_of(&kind_path, &["function", "custom"], other)),
    }
}

/// A function's name and the arguments it was called with; the arguments are the model's and may be anything.
fn called(path: &Path<'_>, value: View<'_>, survey: &mut Survey) -> Result<(), Invalid> {
    let [name, arguments] = object(path, value, ["name", "arguments"])?;
    survey.text(&path.member("name"), name)?;
    survey.text(&path.member("arguments"), arguments)
}
