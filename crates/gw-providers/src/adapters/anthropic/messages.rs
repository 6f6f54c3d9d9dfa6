//! The conversation as `messages`: user and assistant in turn, no block and no message empty.

use std::collections::HashSet;

use gw_wire::conversation::{Content, Conversation, Message, Turn, UserItem, word_id};
use gw_wire::failure::Failure;

use super::content::Block;
use super::details;
use crate::adapters::replay::order::{ReplayedBlock, arrange};
use crate::adapters::unique_names::UniqueNames;

/// What is said for the user where a conversation begins with the assistant: the API wants the user first.
const OPENING: &str = "(The assistant begins the conversation.)";

/// What is said for a user who says nothing.
const NOTHING_SAID: &str = ".";

/// What is said for the user where a conversation ends with the assistant and the model refuses to be prefilled.
pub(in crate::adapters) const GO_ON: &str = "Go on exactly where your last message ends.";

/// One message.
#[derive(Debug)]
pub(super) struct Said<'c> {
    /// Of the assistant, else of the user.
    pub(super) assistant: bool,
    /// Never empty.
    pub(super) blocks: Vec<Block<'c>>,
}

/// Builds the messages. Borrows the turns, which borrow the conversation.
pub(super) fn messages<'c>(turns: &'c [Turn<'c, 'c>], replay: bool) -> Result<Vec<Said<'c>>, Failure> {
    let mut builder = Builder { said: Vec::new(), ids: UniqueNames::default(), open: Vec::new().into_iter() };
    for turn in turns {
        match turn {
            Turn::User(items) => builder.user(items)?,
            Turn::Assistant(messages) => builder.assistant(messages, replay)?,
        }
    }
    trim_last(&mut builder.said);
    if builder.said.first().is_some_and(|first| first.assistant) {
        let opening = Block::Text { text: OPENING, marker: None };
        builder.said.insert(0, Said { assistant: false, blocks: vec![opening] });
    }
    if builder.said.is_empty() {
        // Empty content and a lone system message are legal (CONTRACT 1.4), but the API wants a word from the user.
        let nothing = Block::Text { text: NOTHING_SAID, marker: None };
        builder.said.push(Said { assistant: false, blocks: vec![nothing] });
    }
    Ok(builder.said)
}

/// Gives the user the last word, where the assistant has it and the model refuses to go on from there. Whether it did.
pub(super) fn close(said: &mut Vec<Said<'_>>) -> bool {
    let is_open = said.last().is_some_and(|last| last.assistant);
    if is_open {
        said.push(Said { assistant: false, blocks: vec![Block::Text { text: GO_ON, marker: None }] });
    }
    is_open
}

struct Builder<'c> {
    said: Vec<Said<'c>>,
    /// The ids of all calls: the API wants each one once.
    ids: UniqueNames,
    /// The ids of the calls that the next user turn answers, in order.
    open: std::vec::IntoIter<String>,
}

impl<'c> Builder<'c> {
    /// A side that says nothing has no turn; the turns around it are then one.
    fn push(&mut self, assistant: bool, blocks: Vec<Block<'c>>) {
        match self.said.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.assistant == assistant => last.blocks.extend(blocks),
            _ => self.said.push(Said { assistant, blocks }),
        }
    }

    fn user(&mut self, items: &'c [UserItem<'c, 'c>]) -> Result<(), Failure> {
        let mut blocks = Vec::with_capacity(items.len());
        for item in items {
            match item {
                UserItem::Result { id, message, .. } => {
                    let id = self.open.next().unwrap_or_else(|| word_id(id).into_owned());
                    blocks.push(result(id, *message));
                }
                UserItem::Part(part) => blocks.extend(Block::of_part(part)?),
            }
        }
        self.push(false, blocks);
        Ok(())
    }

    fn assistant(&mut self, messages: &'c [&'c Message<'c>], replay: bool) -> Result<(), Failure> {
        if let [message] = messages
            && let Some(pieces) = arrange(message)
        {
            self.arranged(message, pieces, replay);
            return Ok(());
        }
        let mut blocks = Vec::new();
        let (mut ids, mut calls) = (Vec::new(), Vec::new());
        for message in messages {
            let mut spoken = Vec::with_capacity(message.parts.len() + message.tool_calls.len());
            for part in &message.parts {
                spoken.extend(Block::of_part(part)?);
            }
            for call in &message.tool_calls {
                let id = self.unique(&call.id);
                ids.push(id.clone());
                let block = Block::Call { id, name: &call.name, input: call.arguments_object() };
                // The results follow the whole turn, so calls stand at its end.
                if messages.len() == 1 { spoken.push(block) } else { calls.push(block) }
            }
            let thoughts = if replay { details::read(&message.reasoning_details) } else { Vec::new() };
            weave(&mut blocks, thoughts, spoken);
        }
        blocks.extend(calls);
        self.open = ids.into_iter();
        self.push(true, blocks);
        Ok(())
    }

    /// A message as it came. Blank text and a thought at the end are not taken.
    fn arranged(&mut self, message: &'c Message<'c>, pieces: Vec<ReplayedBlock<'c, 'c>>, replay: bool) {
        let (mut blocks, mut ids) = (Vec::with_capacity(pieces.len()), Vec::new());
        for piece in pieces {
            match piece {
                ReplayedBlock::Text(text) if !text.trim().is_empty() => {
                    blocks.push(Block::Text { text, marker: None });
                }
                ReplayedBlock::Detail(entry) if replay => {
                    blocks.extend(details::thought(entry).map(Block::Thought));
                }
                ReplayedBlock::Call(call) => {
                    let id = self.unique(&call.id);
                    ids.push(id.clone());
                    blocks.push(Block::Call { id, name: &call.name, input: call.arguments_object() });
                }
                _ => {}
            }
        }
        while matches!(blocks.last(), Some(Block::Thought(_))) {
            blocks.pop();
        }
        let marked = message.parts.iter().find_map(|part| part.cache_control);
        let last = blocks.iter_mut().rev().find_map(|block| match block {
            Block::Text { marker, .. } => Some(marker),
            _ => None,
        });
        if let Some(marker) = last {
            *marker = marked;
        }
        self.open = ids.into_iter();
        self.push(true, blocks);
    }

    /// The call's id as the API takes it. Some models number their calls anew in each answer.
    fn unique(&mut self, id: &str) -> String {
        let word = word_id(id);
        self.ids.take(&word, |count| word_id(&format!("{word}.{count}")).into_owned())
    }
}

/// Puts thoughts where they stood in the answer, among the blocks that were said: at the position each was given, but
/// never at the end, where the API does not take them. (Pieces of text that were one by one in the answer come back as
/// one, so that a position may be too high.) Thoughts that nothing was said after are left out.
fn weave<'c>(blocks: &mut Vec<Block<'c>>, thoughts: Vec<details::Thought<'c>>, spoken: Vec<Block<'c>>) {
    let mut position = 0_u32;
    let mut thoughts = thoughts.into_iter().peekable();
    let mut left = spoken.len();
    for block in spoken {
        left -= 1;
        while let Some(thought) = thoughts.next_if(|thought| thought.index <= position || left == 0) {
            blocks.push(Block::Thought(thought));
            position = position.saturating_add(1);
        }
        blocks.push(block);
        position = position.saturating_add(1);
    }
}

fn result<'c>(id: String, message: Option<&'c Message<'_>>) -> Block<'c> {
    let parts = message.map(|message| message.parts.as_slice()).unwrap_or_default();
    let texts = parts.iter().filter_map(|part| match &part.content {
        Content::Text(text) if !text.trim().is_empty() => Some(&**text),
        _ => None,
    });
    let marker = parts.iter().rev().find_map(|part| part.cache_control);
    Block::Result { id, texts: texts.collect(), marker }
}

/// An answer that the model is to go on with must not end in white space.
fn trim_last(said: &mut Vec<Said<'_>>) {
    let Some(last) = said.last_mut().filter(|last| last.assistant) else { return };
    if let Some(Block::Text { text, .. }) = last.blocks.last_mut() {
        *text = text.trim_end();
    }
}

/// Whether the answer that is asked for goes on after calls that the model made without signed thoughts. It then has no
/// thoughts to go on with, and a thinking budget is refused.
pub(super) fn thoughts_missing(turns: &[Turn<'_, '_>]) -> bool {
    let mut first = None;
    for pair in turns.rchunks(2) {
        let [Turn::Assistant(messages), Turn::User(items)] = pair else { break };
        if !items.iter().any(|item| matches!(item, UserItem::Result { .. })) {
            break;
        }
        first = messages.first();
    }
    first.is_some_and(|message| details::read(&message.reasoning_details).is_empty())
}

/// The names of all functions that were called, each once, in order.
pub(super) fn called<'c>(conversation: &'c Conversation<'_>) -> Vec<&'c str> {
    let mut known = HashSet::new();
    let calls = conversation.messages.iter().flat_map(|message| &message.tool_calls);
    calls.map(|call| &*call.name).filter(|name| known.insert(*name)).collect()
}
