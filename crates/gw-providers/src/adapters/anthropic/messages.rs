//! The conversation as `messages`: user and assistant alternate, and no message or block is empty.

use std::collections::HashSet;

use gw_wire::conversation::{Content, Conversation, Message, Turn, UserItem, word_id};
use gw_wire::failure::Failure;

use super::content::AnthropicBlockParam;
use super::details;
use crate::adapters::call_ids::CallIds;
use crate::adapters::replay::order::{ReplayedBlock, arrange};

/// The user's text before a conversation that begins with the assistant. The API requires the user first.
const OPENING_TEXT: &str = "(The assistant begins the conversation.)";

/// The user's text where the conversation holds none.
const PLACEHOLDER_TEXT: &str = ".";

/// The user's text after a conversation that ends with the assistant, for models that refuse to continue it.
pub(in crate::adapters) const CONTINUE_TEXT: &str = "Go on exactly where your last message ends.";

/// One message.
#[derive(Debug)]
pub(super) struct AnthropicMessageParam<'c> {
    /// Whether the role is assistant; it is user otherwise.
    pub(super) is_assistant: bool,
    /// The content blocks, at least one.
    pub(super) blocks: Vec<AnthropicBlockParam<'c>>,
}

/// Translates the turns into messages.
pub(super) fn messages<'c>(
    turns: &'c [Turn<'c, 'c>],
    is_replayed: bool,
) -> Result<Vec<AnthropicMessageParam<'c>>, Failure> {
    let mut builder = MessagesBuilder { messages: Vec::new(), ids: CallIds::new(word_id) };
    for turn in turns {
        match turn {
            Turn::User(items) => builder.user(items)?,
            Turn::Assistant(messages) => builder.assistant(messages, is_replayed)?,
        }
    }
    trim_last(&mut builder.messages);
    if builder.messages.first().is_some_and(|first| first.is_assistant) {
        let opening = AnthropicBlockParam::Text { text: OPENING_TEXT, marker: None };
        builder.messages.insert(0, AnthropicMessageParam { is_assistant: false, blocks: vec![opening] });
    }
    if builder.messages.is_empty() {
        // Clients may send empty content or only system messages, but the API requires a user message.
        let placeholder = AnthropicBlockParam::Text { text: PLACEHOLDER_TEXT, marker: None };
        builder.messages.push(AnthropicMessageParam { is_assistant: false, blocks: vec![placeholder] });
    }
    Ok(builder.messages)
}

/// Appends a user message if the last message is the assistant's, for models that refuse to continue it. Returns
/// whether it did.
pub(super) fn append_user_turn(messages: &mut Vec<AnthropicMessageParam<'_>>) -> bool {
    let is_open = messages.last().is_some_and(|last| last.is_assistant);
    if is_open {
        messages.push(AnthropicMessageParam {
            is_assistant: false,
            blocks: vec![AnthropicBlockParam::Text { text: CONTINUE_TEXT, marker: None }],
        });
    }
    is_open
}

struct MessagesBuilder<'c> {
    messages: Vec<AnthropicMessageParam<'c>>,
    /// The ids of all calls. The API refuses duplicates.
    ids: CallIds,
}

impl<'c> MessagesBuilder<'c> {
    /// Appends a message. An empty one is left out, which merges its neighbours.
    fn push(&mut self, is_assistant: bool, blocks: Vec<AnthropicBlockParam<'c>>) {
        match self.messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.is_assistant == is_assistant => last.blocks.extend(blocks),
            _ => self.messages.push(AnthropicMessageParam { is_assistant, blocks }),
        }
    }

    fn user(&mut self, items: &'c [UserItem<'c, 'c>]) -> Result<(), Failure> {
        let mut blocks = Vec::with_capacity(items.len());
        for item in items {
            match item {
                UserItem::Result { id, message, .. } => {
                    blocks.push(result(self.ids.of_result(id), *message));
                }
                UserItem::Part(part) => blocks.extend(AnthropicBlockParam::of_part(part)?),
            }
        }
        self.push(false, blocks);
        Ok(())
    }

    fn assistant(&mut self, messages: &'c [&'c Message<'c>], is_replayed: bool) -> Result<(), Failure> {
        if let [message] = messages
            && let Some(pieces) = arrange(message)
        {
            self.assistant_in_order(message, pieces, is_replayed);
            return Ok(());
        }
        let mut blocks = Vec::new();
        let (mut ids, mut calls) = (Vec::new(), Vec::new());
        for message in messages {
            let mut others = Vec::with_capacity(message.parts.len() + message.tool_calls.len());
            for part in &message.parts {
                others.extend(AnthropicBlockParam::of_part(part)?);
            }
            for call in &message.tool_calls {
                let id = self.ids.of_call(&call.id);
                ids.push(id.clone());
                let block =
                    AnthropicBlockParam::Call { id, name: &call.name, input: call.arguments_object() };
                // The results follow the whole turn, so the calls go to its end.
                if messages.len() == 1 { others.push(block) } else { calls.push(block) }
            }
            let thoughts =
                if is_replayed { details::read_thoughts(&message.reasoning_details) } else { Vec::new() };
            weave(&mut blocks, thoughts, others);
        }
        blocks.extend(calls);
        self.ids.end_turn(ids);
        self.push(true, blocks);
        Ok(())
    }

    /// Writes an assistant message in its recorded order. The API refuses blank text and a thought at the end.
    fn assistant_in_order(
        &mut self,
        message: &'c Message<'c>,
        pieces: Vec<ReplayedBlock<'c, 'c>>,
        is_replayed: bool,
    ) {
        let (mut blocks, mut ids) = (Vec::with_capacity(pieces.len()), Vec::new());
        for piece in pieces {
            match piece {
                ReplayedBlock::Text(text) if !text.trim().is_empty() => {
                    blocks.push(AnthropicBlockParam::Text { text, marker: None });
                }
                ReplayedBlock::Detail(entry) | ReplayedBlock::Signature(entry) if is_replayed => {
                    blocks.extend(details::read_thought(entry).map(AnthropicBlockParam::Thought));
                }
                ReplayedBlock::Call(call) => {
                    let id = self.ids.of_call(&call.id);
                    ids.push(id.clone());
                    blocks.push(AnthropicBlockParam::Call {
                        id,
                        name: &call.name,
                        input: call.arguments_object(),
                    });
                }
                _ => {}
            }
        }
        while matches!(blocks.last(), Some(AnthropicBlockParam::Thought(_))) {
            blocks.pop();
        }
        let marked = message.parts.iter().find_map(|part| part.cache_control);
        let last = blocks.iter_mut().rev().find_map(|block| match block {
            AnthropicBlockParam::Text { marker, .. } => Some(marker),
            _ => None,
        });
        if let Some(marker) = last {
            *marker = marked;
        }
        self.ids.end_turn(ids);
        self.push(true, blocks);
    }
}

/// Inserts thoughts at their recorded positions among the other blocks, but never at the end, where the API refuses
/// them. Pieces of text that were separate in the answer come back as one, so a position may be too high. Thoughts
/// without a block after them are left out.
fn weave<'c>(
    blocks: &mut Vec<AnthropicBlockParam<'c>>,
    thoughts: Vec<details::Thought<'c>>,
    others: Vec<AnthropicBlockParam<'c>>,
) {
    let mut position = 0_u32;
    let mut thoughts = thoughts.into_iter().peekable();
    let mut left = others.len();
    for block in others {
        left -= 1;
        while let Some(thought) = thoughts.next_if(|thought| thought.index <= position || left == 0) {
            blocks.push(AnthropicBlockParam::Thought(thought));
            position = position.saturating_add(1);
        }
        blocks.push(block);
        position = position.saturating_add(1);
    }
}

fn result<'c>(id: String, message: Option<&'c Message<'_>>) -> AnthropicBlockParam<'c> {
    let parts = message.map(|message| message.parts.as_slice()).unwrap_or_default();
    let texts = parts.iter().filter_map(|part| match &part.content {
        Content::Text(text) if !text.trim().is_empty() => Some(&**text),
        _ => None,
    });
    let marker = parts.iter().rev().find_map(|part| part.cache_control);
    AnthropicBlockParam::Result { id, texts: texts.collect(), marker }
}

/// Removes white space at the end of an answer that the model is to continue.
fn trim_last(messages: &mut Vec<AnthropicMessageParam<'_>>) {
    let Some(last) = messages.last_mut().filter(|last| last.is_assistant) else { return };
    if let Some(AnthropicBlockParam::Text { text, .. }) = last.blocks.last_mut() {
        *text = text.trim_end();
    }
}

/// Whether the answer continues after tool calls without signed thoughts. The API refuses a thinking budget in this
/// case.
pub(super) fn has_unsigned_calls(turns: &[Turn<'_, '_>]) -> bool {
    let mut first = None;
    for pair in turns.rchunks(2) {
        let [Turn::Assistant(messages), Turn::User(items)] = pair else { break };
        if !items.iter().any(|item| matches!(item, UserItem::Result { .. })) {
            break;
        }
        first = messages.first();
    }
    first.is_some_and(|message| details::read_thoughts(&message.reasoning_details).is_empty())
}

/// Returns the names of all called functions, each once, in their order.
pub(super) fn called_functions<'c>(conversation: &'c Conversation<'_>) -> Vec<&'c str> {
    let mut known = HashSet::new();
    let calls = conversation.messages.iter().flat_map(|message| &message.tool_calls);
    calls.map(|call| &*call.name).filter(|name| known.insert(*name)).collect()
}
