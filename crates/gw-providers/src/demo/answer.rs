//! The answers of the model `chat`: an echo, a tool call, or JSON of the requested form.

use serde_json::{Value, json};

use super::body::{BodyStep, DemoBody};
use super::choice::DemoChoice;
use super::example::{self, FilledMembers};
use super::response::DemoResponse;
use super::text::text_of;
use super::tools;
use super::write::{self, DemoEndpoint};

type DemoChoices = Result<Vec<DemoChoice>, Box<DemoResponse>>;

pub(super) fn chat(request: &Value) -> DemoResponse {
    respond(DemoEndpoint::Chat, request, chat_choices(request))
}

pub(super) fn completion(request: &Value) -> DemoResponse {
    respond(DemoEndpoint::Text, request, text_choices(request))
}

fn respond(endpoint: DemoEndpoint, request: &Value, answers: DemoChoices) -> DemoResponse {
    let answers = match answers {
        Ok(answers) => answers,
        Err(response) => return *response,
    };
    if request.get("stream").and_then(Value::as_bool) != Some(true) {
        return DemoResponse::json(200, &write::whole(endpoint, "chat", request, &answers));
    }
    let events = write::events(endpoint, "chat", request, &answers);
    DemoResponse::events(DemoBody::script(events.into_iter().map(BodyStep::Chunk)))
}

fn bad(message: &str) -> Box<DemoResponse> {
    Box::new(DemoResponse::error(400, "invalid_request_error", None, message))
}

/// The most choices of one text completion.
const MAX_CHOICES: u64 = 4096;
/// The most bytes of prompts that `echo` repeats.
const MAX_ECHOED_BYTES: u64 = 8 << 20;
/// The most bytes that all choices of an answer quote, and that one choice quotes.
const MAX_QUOTED_BYTES: u64 = 1 << 20;
const MAX_QUOTE_BYTES: usize = 64 << 10;

/// The choices of a chat.
pub(super) fn chat_choices(request: &Value) -> DemoChoices {
    let messages =
        request.get("messages").and_then(Value::as_array).ok_or_else(|| bad("'messages' is missing."))?;
    let last_role = messages.last().and_then(|message| message.get("role")?.as_str()).unwrap_or_default();
    let user_text =
        messages.iter().rev().find(|message| message.get("role").and_then(Value::as_str) == Some("user"));
    let user_text = user_text.map(text_of).unwrap_or_default();
    let after_tool = matches!(last_role, "tool" | "function");
    let (called, legacy) = if after_tool { (Vec::new(), false) } else { tools::choose(request, &user_text) };
    let result = messages.last().filter(|_| after_tool).map(text_of);
    let count = choices(request);
    let result = result.as_deref().map(|result| quoted(result, count));
    let user_text = quoted(&user_text, count);
    Ok((0..count)
        .map(|index| {
            if !called.is_empty() {
                return DemoChoice { called: called.clone(), is_legacy: legacy, ..DemoChoice::default() };
            }
            let text = match &result {
                Some(result) => format!("Demo answer from the tool's result: {result}"),
                None => echo(index, user_text),
            };
            DemoChoice::limited(shaped(request, &text).unwrap_or(text), request)
        })
        .collect())
}

/// The choices of a text completion: `n` for each prompt.
pub(super) fn text_choices(request: &Value) -> DemoChoices {
    let prompts = match request.get("prompt") {
        Some(Value::String(prompt)) => vec![prompt.clone()],
        Some(Value::Array(list)) if list.iter().all(Value::is_string) && !list.is_empty() => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::Array(list)) if list.iter().all(Value::is_array) && !list.is_empty() => {
            list.iter().map(tokens_named).collect()
        }
        Some(tokens @ Value::Array(list)) if !list.is_empty() => vec![tokens_named(tokens)],
        _ => return Err(bad("'prompt' is missing.")),
    };
    let echoed = request.get("echo").and_then(Value::as_bool) == Some(true);
    let count = choices(request).saturating_mul(prompts.len() as u64);
    let longest = prompts.iter().map(String::len).max().unwrap_or(0) as u64;
    if count > MAX_CHOICES || echoed && count.saturating_mul(longest) > MAX_ECHOED_BYTES {
        return Err(bad("The demo does not write that much at once."));
    }
    let answers = prompts.iter().flat_map(|prompt| {
        (0..choices(request)).map(move |index| {
            let mut answer = DemoChoice::limited(echo(index, quoted(prompt, count)), request);
            if echoed {
                answer.text.insert_str(0, prompt);
                answer.echoed_bytes = prompt.len();
            }
            answer
        })
    });
    Ok(answers.collect())
}

fn tokens_named(tokens: &Value) -> String {
    format!("{} tokens", tokens.as_array().map_or(0, Vec::len))
}

fn echo(index: u64, user_text: &str) -> String {
    match index {
        0 => format!("Demo answer to: {user_text}"),
        index => format!("Demo answer {} to: {user_text}", index + 1),
    }
}

/// The beginning of a text that each of `choices` repeats. The bound keeps a small request from causing a huge answer.
fn quoted(text: &str, choices: u64) -> &str {
    let share = usize::try_from(MAX_QUOTED_BYTES / choices.max(1)).unwrap_or(0);
    text.get(..text.floor_char_boundary(share.min(MAX_QUOTE_BYTES))).unwrap_or(text)
}

fn choices(request: &Value) -> u64 {
    request.get("n").and_then(Value::as_u64).unwrap_or(1).clamp(1, 128)
}

/// The answer as JSON, when the request asks for JSON.
fn shaped(request: &Value, text: &str) -> Option<String> {
    let format = request.get("response_format")?;
    match format.get("type")?.as_str()? {
        "json_object" => Some(json!({ "answer": text }).to_string()),
        "json_schema" => {
            let schema =
                format.pointer("/json_schema/schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
            Some(example::of(&schema, FilledMembers::All, text).to_string())
        }
        _ => None,
    }
}
