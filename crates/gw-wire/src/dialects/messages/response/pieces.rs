//! The pieces of a complete chat answer, in the order in which the model made them ([`crate::reply::order`]).

use std::borrow::Cow;

use super::super::blocks::AnswerPiece;
use super::super::extras::{extra_pieces, seal};
use crate::json::View;
use crate::render::made_tool_id;
use crate::reply::order::{DETAILS, ReplyPart, reply_parts};
use crate::reply::{ChatChoice, ToolCall};

/// Calls `each` with the pieces of a choice. `id` is the answer's id.
pub(in crate::dialects) fn reply_pieces<'c>(
    choice: &'c ChatChoice<'c>,
    id: &str,
    mut each: impl FnMut(AnswerPiece<'c>),
) {
    reply_parts(choice, |part| match part {
        ReplyPart::Text(text) => each(AnswerPiece::Text(Cow::Borrowed(text))),
        ReplyPart::Reasoning(text) => each(AnswerPiece::Thinking(Cow::Borrowed(text))),
        ReplyPart::Detail(entry) => seal(entry).into_iter().for_each(&mut each),
        ReplyPart::Refusal(text) => each(AnswerPiece::Refusal(Cow::Borrowed(text))),
        ReplyPart::Image(image) => {
            let (media_type, base64) = (&*image.media_type, &*image.base64);
            each(AnswerPiece::Image { media_type: media_type.into(), base64: base64.into() });
        }
        ReplyPart::Call(position, call) => place_call(call, position, id, &mut each),
    });
    if let Some((name, arguments)) = choice.legacy_call() {
        let id = made_tool_id(id, 0, 0).into();
        each(AnswerPiece::Call { call: 0, id, name: name.into(), is_custom: false });
        each(AnswerPiece::Arguments { call: 0, fragment: arguments.into() });
    }
    // Other extras have no place of their own.
    for (name, value) in choice.extras.iter().filter(|(name, _)| name != DETAILS) {
        extra_pieces(name, View::new(value.get()), &mut each);
    }
}

fn place_call<'c>(
    call: &'c ToolCall<'c>,
    position: usize,
    answer_id: &str,
    each: &mut impl FnMut(AnswerPiece<'c>),
) {
    let id = match &*call.id {
        "" => Cow::Owned(made_tool_id(answer_id, 0, position)),
        id => Cow::Borrowed(id),
    };
    let number = u32::try_from(position).unwrap_or(u32::MAX);
    each(AnswerPiece::Call { call: number, id, name: Cow::Borrowed(&call.name), is_custom: call.custom });
    each(AnswerPiece::Arguments { call: number, fragment: Cow::Borrowed(&call.arguments) });
}
