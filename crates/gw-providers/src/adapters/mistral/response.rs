//! Complete answers: OpenAI's, with the order of reasoning and texts. `content` is then a list of chunks (`ThinkChunk`, `TextChunk` in the
//! reference), which OpenAI's reader joins. `reasoning_details` keeps the order, so the next request can restore the
//! list.

use std::borrow::Cow;

use gw_wire::json::View;
use gw_wire::reply::ChatReply;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{Block, Order};

/// The order that needs no entry, because messages are written in it anyway.
pub(super) const USUAL_ORDER: &[(char, usize)] = &[('r', 1), ('t', 1), ('c', usize::MAX)];

#[derive(Deserialize)]
struct MistralReply<'a> {
    #[serde(borrow)]
    choices: Vec<MistralChoice<'a>>,
}

#[derive(Deserialize)]
struct MistralChoice<'a> {
    #[serde(borrow)]
    message: Option<MistralMessage<'a>>,
}

#[derive(Deserialize)]
struct MistralMessage<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Adds the order to each choice of an answer. `body` is the JSON of the answer.
pub(super) fn add_order(body: &[u8], reply: &mut ChatReply<'_>) {
    if memmem::find(body, b"\"thinking\"").is_none() {
        return;
    }
    let Ok(answer) = serde_json::from_slice::<MistralReply<'_>>(body) else { return };
    for (choice, read) in answer.choices.iter().zip(&mut reply.choices) {
        let content = choice.message.as_ref().and_then(|message| message.content);
        let mut order = Order::default();
        for chunk in content.into_iter().flat_map(|content| View::new(content.get()).elements()) {
            order.close();
            if let Some(block) = block(chunk) {
                order.add(block);
            }
        }
        order.close();
        read.tool_calls.iter().for_each(|_| order.add(Block::Call));
        if let Some(value) = order.entry(&[USUAL_ORDER], 0) {
            read.extras.push((Cow::Borrowed(DETAILS), Cow::Owned(value)));
        }
    }
}

/// The block of a chunk; None for an empty or unknown chunk.
fn block(chunk: View<'_>) -> Option<Block> {
    let [kind, text, thinking] = chunk.pick(["type", "text", "thinking"]);
    let block = match &*kind?.string()? {
        "text" => Block::Text(text.map_or(0, View::string_len)),
        "thinking" => {
            let thinking = thinking?;
            let texts = thinking.elements().filter_map(|piece| {
                let [text] = piece.pick(["text"]);
                text
            });
            Block::Thought(thinking.string_len() + texts.map(View::string_len).sum::<usize>())
        }
        _ => return None,
    };
    (!matches!(block, Block::Text(0) | Block::Thought(0))).then_some(block)
}
