//! Complete answers, and the model list.

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatChoice, ChatReply, ToolCall};
use gw_wire::usage::Usage;
use serde_json::Value;

use super::wire::{OllamaCall, OllamaLine};
use super::{errors, logprobs};
use crate::adapter::ListedModel;
use crate::adapters::failure::{body_text, invalid, invalid_json};
use crate::adapters::model_list::{ModelList, makes_embeddings};

/// The usage in an answer that cannot be used.
pub(super) fn failed_usage(body: &[u8]) -> Option<Usage> {
    let line: OllamaLine<'_> = serde_json::from_slice(body).ok()?;
    line.usage()
}

/// Reads an answer of `/api/chat` or `/api/generate`.
pub(super) fn decode(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    let text = body_text(body)?;
    let line: OllamaLine<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if line.error.is_some() {
        return Err(errors::reported(text, FailureKind::Server));
    }
    if line.message.is_none() && line.response.is_none() {
        return Err(invalid("the body has no message"));
    }
    if !line.is_done() {
        return Err(invalid("the answer is not complete"));
    }
    let usage = line.usage();
    let message = line.message.as_ref();
    let has_calls =
        message.and_then(|message| message.tool_calls.as_ref()).is_some_and(|calls| !calls.is_empty());
    let finish = line.finish(has_calls)?;
    let message = line.message.unwrap_or_default();
    let mut ids = UsedIds::default();
    let calls = message.tool_calls.unwrap_or_default().into_iter();
    let thinking = message.thinking.or(line.thinking).map(|thinking| thinking.0);
    let choice = ChatChoice {
        content: message.content.or(line.response).map(|content| content.0),
        reasoning: thinking.filter(|thinking| !thinking.is_empty()),
        tool_calls: calls.filter_map(|call| tool_call(call, &mut ids)).collect(),
        finish: Some(finish),
        logprobs: line.logprobs.and_then(logprobs::convert).map(Cow::Owned),
        ..ChatChoice::default()
    };
    let model = line.model.map(|model| model.0).filter(|model| !model.is_empty());
    let (choices, members) = (vec![choice], Vec::new());
    Ok(ChatReply { model, fingerprint: None, choices, usage, members, native: None })
}

/// Converts a call. A call without a function is dropped. An empty id is replaced when the answer is written.
pub(super) fn tool_call<'a>(call: OllamaCall<'a>, ids: &mut UsedIds) -> Option<ToolCall<'a>> {
    let function = call.function?;
    let name = function.name?.0;
    let id = ids.unique(call.id.unwrap_or_default().0);
    let arguments = function.arguments.map(|arguments| arguments.0).filter(|arguments| !arguments.is_empty());
    Some(ToolCall { id, name, arguments: arguments.unwrap_or(Cow::Borrowed("{}")), custom: false })
}

/// The ids of an answer's calls. Two calls must not share one. Most servers give none.
#[derive(Debug, Default)]
pub(super) struct UsedIds {
    known: HashSet<String>,
    held_bytes: usize,
}

impl UsedIds {
    /// Bytes that the ids keep.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn unique<'a>(&mut self, id: Cow<'a, str>) -> Cow<'a, str> {
        if id.is_empty() || self.known.contains(&*id) {
            return Cow::Borrowed("");
        }
        self.held_bytes = self.held_bytes.saturating_add(id.len() + 2 * size_of::<String>());
        self.known.insert(id.clone().into_owned());
        id
    }
}

/// The models that the server holds.
pub(super) fn models(body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
    let list = value.get("models").and_then(Value::as_array).ok_or_else(|| invalid("no list of models"))?;
    let mut models = ModelList::default();
    for model in list {
        let name = ["name", "model"].iter().find_map(|member| model.get(member)?.as_str());
        models.add_of_category(
            name.unwrap_or_default(),
            None,
            makes_embeddings(model).then_some("embedding"),
        );
    }
    Ok(models.into_models())
}
