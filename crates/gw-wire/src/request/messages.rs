//! The `messages` of a chat: checks roles, content parts and tool calls.

use super::fields::{
    Path, array, empty_array, invalid_value, missing, not_one_of, object_and, optional, required_string,
};
use super::invalid::Invalid;
use super::limits::{RequestLimits, too_many};
use super::measure::{self, Detail, PromptExtras, Unpacker, value_bytes};
use super::native_policy::is_unpriced_part;
use super::needs::Needs;
use super::references::{References, is_stored};
use crate::json::{Kind, Reader, View};

/// The length of a usual id of a tool call, or of a usual file name.
const USUAL_NAME_BYTES: u64 = 64;

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Facts about the messages, collected while they are checked.
pub(super) struct Survey<'l> {
    limits: &'l RequestLimits,
    pub(super) needs: Needs,
    /// Bytes of text.
    pub(super) bytes: u64,
    /// The content of the prompt besides its text.
    pub(super) extras: PromptExtras,
    /// References to resources at a provider.
    pub(super) references: References,
    unpacker: Unpacker,
    /// Whether a content part may have a price that the catalogue cannot hold.
    pub(super) has_unpriced_part: bool,
    /// Whether every message so far is a [`PlainMessage`].
    pub(super) is_plain: bool,
    /// Number of content parts and of tool calls so far, in all messages.
    content_parts: usize,
    tool_calls: usize,
}

impl<'l> Survey<'l> {
    /// An empty survey of messages of this many bytes.
    fn new(limits: &'l RequestLimits, bytes: usize) -> Self {
        Self {
            limits,
            needs: Needs::default(),
            bytes: 0,
            extras: PromptExtras::default(),
            references: References::default(),
            unpacker: Unpacker::of_request(bytes),
            has_unpriced_part: false,
            is_plain: true,
            content_parts: 0,
            tool_calls: 0,
        }
    }

    fn count_content_part(&mut self, path: &Path<'_>) -> Result<(), Invalid> {
        self.content_parts += 1;
        let (max, got) = (self.limits.max_content_parts, self.content_parts);
        if got > max { Err(too_many(path, "content parts", max, got, "max_content_parts")) } else { Ok(()) }
    }

    fn count_tool_call(&mut self, path: &Path<'_>) -> Result<(), Invalid> {
        self.tool_calls += 1;
        let (max, got) = (self.limits.max_tool_calls, self.tool_calls);
        if got > max { Err(too_many(path, "tool calls", max, got, "max_tool_calls")) } else { Ok(()) }
    }

    fn text(&mut self, path: &Path<'_>, value: Option<View<'_>>) -> Result<(), Invalid> {
        let value = value.ok_or_else(|| missing(path))?;
        optional(path, Some(value), Kind::String)?;
        self.bytes += value.string_len() as u64;
        Ok(())
    }

    /// Reads text of a message with this role.
    fn message_text(
        &mut self,
        path: &Path<'_>,
        value: Option<View<'_>>,
        role: RoleClass,
    ) -> Result<(), Invalid> {
        self.text(path, value)?;
        if let Some(text) = value.filter(|_| role == RoleClass::Instruction) {
            self.references.instruction(path, text);
        }
        Ok(())
    }

    /// Counts a member that the provider may read.
    fn count(&mut self, value: View<'_>) {
        self.extras.bytes += value_bytes(value);
    }

    /// Notes and counts a member without a check of its own. It reaches providers that copy unknown members.
    fn other_member(&mut self, path: &Path<'_>, name: &str, value: View<'_>) {
        self.references.member(path, name, value);
        self.count(value);
    }

    /// Counts an id or a file's name as far as it is longer than usual. The tokens of the message's frame or of the file
    /// cover a usual one.
    fn count_long(&mut self, name: Option<View<'_>>) {
        let len = name.map_or(0, value_bytes);
        self.extras.bytes += len.saturating_sub(USUAL_NAME_BYTES);
    }

    fn optional_text(&mut self, path: &Path<'_>, value: Option<View<'_>>) -> Result<(), Invalid> {
        value.map_or(Ok(()), |value| self.text(path, Some(value)))
    }
}

/// Roles with the same rules for their content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoleClass {
    /// `system` and `developer`: text only.
    Instruction,
    /// `tool` and `function`: text only.
    Plain,
    User,
    Assistant,
}

/// Checks all messages.
pub(super) fn messages<'l>(
    value: Option<View<'_>>,
    limits: &'l RequestLimits,
) -> Result<Survey<'l>, Invalid> {
    let path = Path::Top("messages");
    let value = value.ok_or_else(|| missing(&path))?;
    let mut survey = Survey::new(limits, value.text().len());
    let mut elements = array(&path, value, usize::MAX, "an array of objects")?;
    for at in 0.. {
        let plain = PlainMessage::read(elements.rest());
        let other = match &plain {
            Some(plain) => {
                elements.pass(plain.bytes);
                None
            }
            None => match elements.next() {
                Some(other) => Some(other),
                None if at == 0 => return Err(empty_array(&path)),
                None => break,
            },
        };
        if at >= limits.max_messages {
            return Err(too_many(&path, "messages", limits.max_messages, at + 1, "max_messages"));
        }
        survey.extras.frames += 1;
        match (plain, other) {
            (Some(plain), _) => plain.count(&path.item(at), &mut survey),
            (None, Some(other)) => {
                survey.is_plain = false;
                message(&path.item(at), other, &mut survey)?;
            }
            (None, None) => {}
        }
    }
    Ok(survey)
}

/// A message of a role and a text, each written once and without escapes in their names: most messages. It is read in one
/// pass, and nothing in it needs a check or an edit. A text of the assistant is one, too.
struct PlainMessage<'a> {
    is_instruction: bool,
    content: View<'a>,
    /// Bytes of the decoded text.
    text_bytes: usize,
    /// The size of the message.
    bytes: usize,
}

impl<'a> PlainMessage<'a> {
    /// Reads the message at the start of this checked text; None if it is of another form.
    fn read(text: &'a str) -> Option<Self> {
        if !text.starts_with('{') {
            return None;
        }
        let mut reader = Reader::checked(text);
        let (mut role, mut content) = (None, None);
        reader.object(|reader, name| {
            let place = match name {
                "role" => &mut role,
                "content" => &mut content,
                _ => return None,
            };
            let is_first = place.is_none();
            *place = Some(reader.string_literal()?);
            is_first.then_some(())
        })?;
        let ((role, _), (content, is_escaped)) = (role?, content?);
        let is_instruction = match role.text() {
            "\"user\"" | "\"assistant\"" => false,
            "\"system\"" => true,
            _ => return None,
        };
        let text_bytes =
            if is_escaped { content.string_len() } else { content.text().len().saturating_sub(2) };
        Some(Self { is_instruction, content, text_bytes, bytes: reader.offset() })
    }

    fn count(self, path: &Path<'_>, survey: &mut Survey<'_>) {
        survey.bytes += self.text_bytes as u64;
        if self.is_instruction {
            survey.references.instruction(&path.member("content"), self.content);
        }
    }
}

fn message(path: &Path<'_>, value: View<'_>, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    const MEMBERS: [&str; 9] = [
        "role",
        "content",
        "name",
        "tool_call_id",
        "tool_calls",
        "function_call",
        "refusal",
        "audio",
        "images",
    ];
    let [role, content, name, tool_call_id, tool_calls, function_call, refusal, audio, images] =
        object_and(path, value, MEMBERS, |name, value| survey.other_member(&path.member(name), name, value))?;
    if let Some(audio) = audio {
        survey.references.object(&path.member("audio"), audio);
    }
    let role_path = path.member("role");
    let role_name = required_string(&role_path, role)?;
    let role = match &*role_name {
        "user" => RoleClass::User,
        "assistant" => RoleClass::Assistant,
        "system" | "developer" => RoleClass::Instruction,
        "tool" | "function" => RoleClass::Plain,
        other => return Err(not_one_of(&role_path, &ROLES, other)),
    };
    let content_path = path.member("content");
    match content {
        Some(content) => parts(&content_path, content, role, survey)?,
        None if role == RoleClass::Assistant || role_name == "function" => {}
        None => return Err(missing(&content_path)),
    }
    if role_name == "function" {
        required_string(&path.member("name"), name)?;
    }
    optional(&path.member("name"), name, Kind::String)?;
    survey.extras.bytes += name.map_or(0, value_bytes);
    if role_name == "tool" {
        required_string(&path.member("tool_call_id"), tool_call_id)?;
    }
    survey.count_long(tool_call_id);
    if let Some(images) = images {
        survey.references.member(&path.member("images"), "images", images);
        returned_images(&path.member("images"), images, survey)?;
    }
    survey.extras.bytes += audio.map_or(0, value_bytes);
    if role != RoleClass::Assistant {
        // Members that belong to an assistant are not checked here, but they are sent.
        let misplaced = [tool_calls, function_call, refusal].into_iter().flatten();
        survey.extras.bytes += misplaced.map(value_bytes).sum::<u64>();
        return Ok(());
    }
    survey.optional_text(&path.member("refusal"), refusal)?;
    optional(&path.member("audio"), audio, Kind::Object)?;
    if let Some(calls) = tool_calls {
        let path = path.member("tool_calls");
        for (at, call) in array(&path, calls, usize::MAX, "an array of objects")?.enumerate() {
            survey.count_tool_call(&path)?;
            tool_call(&path.item(at), call, survey)?;
        }
    }
    function_call.map_or(Ok(()), |call| called(&path.member("function_call"), call, survey))
}

fn parts(
    path: &Path<'_>,
    content: View<'_>,
    role: RoleClass,
    survey: &mut Survey<'_>,
) -> Result<(), Invalid> {
    const EXPECTED: &str = "one of a string or an array of objects";
    if content.kind() == Kind::String {
        return survey.message_text(path, Some(content), role);
    }
    let mut none = true;
    for (at, value) in array(path, content, usize::MAX, EXPECTED)?.enumerate() {
        none = false;
        survey.count_content_part(path)?;
        part(&path.item(at), value, role, survey)?;
    }
    if none { Err(empty_array(path)) } else { Ok(()) }
}

fn part(path: &Path<'_>, value: View<'_>, role: RoleClass, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    let [kind, text, image_url, input_audio, file, refusal] = object_and(
        path,
        value,
        ["type", "text", "image_url", "input_audio", "file", "refusal"],
        |name, value| survey.other_member(&path.member(name), name, value),
    )?;
    let kind_path = path.member("type");
    let kind = required_string(&kind_path, kind)?;
    let allowed: &[&str] = match role {
        RoleClass::Instruction | RoleClass::Plain => &["text"],
        RoleClass::User => &["text", "image_url", "input_audio", "file"],
        RoleClass::Assistant => &["text", "refusal"],
    };
    let known = ["text", "image_url", "input_audio", "file", "refusal"].contains(&&*kind);
    if !allowed.contains(&&*kind) {
        if known || matches!(role, RoleClass::Instruction | RoleClass::Plain) {
            return Err(not_one_of(&kind_path, allowed, &kind));
        }
        survey.needs.openai_only.get_or_insert(Needs::OTHER_PARTS);
        survey.has_unpriced_part |= is_unpriced_part(&kind);
        survey.references.member(path, "", value);
        survey.extras.bytes += value.text().len() as u64;
        return Ok(());
    }
    // A provider might read a member that does not belong to the part's type.
    for (name, value) in [("image_url", image_url), ("input_audio", input_audio), ("file", file)] {
        if let Some(value) = value.filter(|_| *kind != *name) {
            survey.other_member(&path.member(name), name, value);
        }
    }
    for (name, value) in [("text", text), ("refusal", refusal)] {
        value.into_iter().filter(|_| *kind != *name).for_each(|value| survey.count(value));
    }
    match &*kind {
        "image_url" => {
            survey.needs.image = true;
            image(&path.member("image_url"), image_url, survey)?;
        }
        "input_audio" => {
            survey.needs.audio_input = true;
            audio(&path.member("input_audio"), input_audio, survey)?;
        }
        "file" => document(&path.member("file"), file, survey)?,
        "refusal" => survey.text(&path.member("refusal"), refusal)?,
        _ => survey.message_text(&path.member("text"), text, role)?,
    }
    Ok(())
}

fn document(path: &Path<'_>, value: Option<View<'_>>, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    let names = ["file_id", "file_data", "filename"];
    let members = object_and(path, value.ok_or_else(|| missing(path))?, names, |name, value| {
        survey.other_member(&path.member(name), name, value);
    })?;
    let checked =
        |(name, value): (&&str, Option<View<'_>>)| optional(&path.member(name), value, Kind::String);
    names.iter().zip(members).try_for_each(checked)?;
    let [file_id, file_data, name] = members;
    survey.references.id(&path.member("file_id"), file_id);
    let data = file_data.and_then(View::string);
    if let Some(data) = &data {
        survey.references.address(&path.member("file_data"), data);
    }
    survey.count_long(name);
    let name = name.and_then(View::string);
    let measured = measure::file(data.as_deref(), name.as_deref(), &mut survey.unpacker);
    survey.extras.add(measured);
    Ok(())
}

fn image(path: &Path<'_>, value: Option<View<'_>>, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    let value = value.ok_or_else(|| missing(path))?;
    let [url, detail] = object_and(path, value, ["url", "detail"], |name, value| {
        survey.other_member(&path.member(name), name, value);
    })?;
    let url_path = path.member("url");
    let url = required_string(&url_path, url)?;
    let begins =
        |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    survey.references.image(&url_path, &url);
    if !["https://", "http://", "data:"].into_iter().any(begins) && !is_stored(&url) {
        return Err(invalid_value(
            &url_path,
            "expected a URL that begins with 'https://', 'http://' or 'data:'.",
        ));
    }
    optional(&path.member("detail"), detail, Kind::String)?;
    let detail = detail.and_then(View::string).map_or(Detail::Auto, |word| Detail::named(&word));
    let measured = measure::image(&url, detail, &mut survey.unpacker);
    survey.extras.add(measured);
    Ok(())
}

/// Measures generated images that the client sends back. Their form is not checked further, because not every dialect
/// uses them.
fn returned_images(path: &Path<'_>, images: View<'_>, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    for image in images.elements() {
        survey.count_content_part(path)?;
        let [image_url] = image.pick(["image_url"]);
        let [url] = image_url.map_or([None], |image_url| image_url.pick(["url"]));
        match url.and_then(View::string) {
            Some(url) => {
                let measured = measure::image(&url, Detail::Auto, &mut survey.unpacker);
                survey.extras.add(measured);
            }
            None => survey.extras.bytes += value_bytes(image),
        }
    }
    Ok(())
}

fn audio(path: &Path<'_>, value: Option<View<'_>>, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    let value = value.ok_or_else(|| missing(path))?;
    let [data, format] = object_and(path, value, ["data", "format"], |name, value| {
        survey.other_member(&path.member(name), name, value);
    })?;
    let data_path = path.member("data");
    let data = required_string(&data_path, data)?;
    survey.references.address(&data_path, &data);
    let path = path.member("format");
    match &*required_string(&path, format)? {
        format @ ("wav" | "mp3") => survey.extras.add(measure::audio(&data, format)),
        other => return Err(not_one_of(&path, &["wav", "mp3"], other)),
    }
    Ok(())
}

fn tool_call(path: &Path<'_>, value: View<'_>, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    let names = ["id", "type", "function", "custom"];
    let [id, kind, function, custom] = object_and(path, value, names, |_, value| survey.count(value))?;
    required_string(&path.member("id"), id)?;
    survey.count_long(id);
    let kind_path = path.member("type");
    match &*required_string(&kind_path, kind)? {
        "function" => {
            let path = path.member("function");
            called(&path, function.ok_or_else(|| missing(&path))?, survey)
        }
        "custom" => {
            survey.needs.custom_tools = true;
            let path = path.member("custom");
            let custom = custom.ok_or_else(|| missing(&path))?;
            let [name, input] = object_and(&path, custom, ["name", "input"], |_, value| survey.count(value))?;
            survey.text(&path.member("name"), name)?;
            survey.text(&path.member("input"), input)
        }
        other => Err(not_one_of(&kind_path, &["function", "custom"], other)),
    }
}

/// Checks a function's name and arguments. The arguments are the model's text and may be anything.
fn called(path: &Path<'_>, value: View<'_>, survey: &mut Survey<'_>) -> Result<(), Invalid> {
    let [name, arguments] = object_and(path, value, ["name", "arguments"], |_, value| survey.count(value))?;
    survey.text(&path.member("name"), name)?;
    survey.text(&path.member("arguments"), arguments)
}
