//! The pieces of a complete chat answer, in the order in which the model made them.
//!
//! A chat message has one text, one reasoning text and a list of calls. Some adapters add an entry of the type
//! `gateway.order` to `reasoning_details`. It lists the blocks of the answer by their lengths in bytes: `t5 d c` is a text
//! of five bytes, a signed thought and a call.

use std::borrow::Cow;

use super::super::blocks::AnswerPiece;
use super::super::extras::{extra_pieces, seal};
use crate::json::View;
use crate::render::made_tool_id;
use crate::reply::{ChatChoice, Image, ToolCall};

/// The type of the entry with the order.
const ORDER: &str = "gateway.order";

/// The parts of an answer that are left to place.
struct ReplyParts<'c> {
    text: &'c str,
    reasoning: &'c str,
    details: std::vec::IntoIter<View<'c>>,
    images: std::slice::Iter<'c, Image<'c>>,
    calls: std::iter::Enumerate<std::slice::Iter<'c, ToolCall<'c>>>,
}

/// Calls `each` with the pieces of a choice. `id` is the answer's id.
pub(super) fn reply_pieces<'c>(choice: &'c ChatChoice<'c>, id: &str, mut each: impl FnMut(AnswerPiece<'c>)) {
    let values = choice.extras.iter().filter(|(name, _)| name == "reasoning_details");
    let entries: Vec<View<'c>> = values.flat_map(|(_, value)| View::new(value.get()).elements()).collect();
    let order = entries.iter().rev().find_map(|entry| order_of(*entry));
    let details: Vec<View<'c>> = entries.into_iter().filter(|entry| order_of(*entry).is_none()).collect();
    let parts = ReplyParts {
        text: choice.content.as_deref().unwrap_or_default(),
        reasoning: choice.reasoning.as_deref().unwrap_or_default(),
        details: details.into_iter(),
        images: choice.images.iter(),
        calls: choice.tool_calls.iter().enumerate(),
    };
    let steps = order.and_then(|words| parts.steps(&words)).unwrap_or_else(|| parts.usual_steps());
    parts.place(&steps, id, &mut each);
    // Text that explains a refusal follows the answer. Other extras have no place of their own.
    if let Some(refusal) = choice.refusal.as_deref().filter(|text| !text.is_empty()) {
        each(AnswerPiece::Refusal(Cow::Borrowed(refusal)));
    }
    for (name, value) in choice.extras.iter().filter(|(name, _)| name != "reasoning_details") {
        extra_pieces(name, View::new(value.get()), &mut each);
    }
}

/// The words of an entry with the order.
fn order_of(entry: View<'_>) -> Option<Cow<'_, str>> {
    let [kind, order] = entry.pick(["type", "order"]);
    kind.and_then(View::string).filter(|kind| kind == ORDER)?;
    Some(order.and_then(View::string).unwrap_or_default())
}

/// The next part of the answer.
#[derive(Clone, Copy)]
enum ReplyStep {
    /// Text of this many bytes.
    Text(usize),
    /// Reasoning of this many bytes.
    Reasoning(usize),
    /// The next entry of `reasoning_details`.
    Detail,
    Image,
    Call,
}

impl<'c> ReplyParts<'c> {
    /// The steps of an order; None if it does not fit the answer.
    fn steps(&self, words: &str) -> Option<Vec<ReplyStep>> {
        let mut steps = Vec::new();
        let (mut text, mut reasoning) = (self.text, self.reasoning);
        let mut details = self.details.clone();
        let (mut images, mut calls) = (0, 0);
        for word in words.split(' ') {
            let len = || word.get(1..)?.parse::<usize>().ok();
            match word.as_bytes().first()? {
                b't' | b'p' => {
                    steps.push(ReplyStep::Text(len()?));
                    text = text.get(len()?..)?;
                }
                b'r' => {
                    steps.push(ReplyStep::Reasoning(len()?));
                    reasoning = reasoning.get(len()?..)?;
                }
                b'd' => {
                    let thought = detail_text(details.next()?);
                    steps.push(ReplyStep::Reasoning(thought));
                    steps.push(ReplyStep::Detail);
                    reasoning = reasoning.get(thought..)?;
                }
                b's' => {
                    details.next()?;
                    steps.push(ReplyStep::Detail);
                }
                b'i' => {
                    images += 1;
                    steps.push(ReplyStep::Image);
                }
                b'c' => {
                    calls += 1;
                    steps.push(ReplyStep::Call);
                }
                _ => return None,
            }
        }
        let is_all = text.is_empty()
            && reasoning.is_empty()
            && details.next().is_none()
            && images == self.images.len()
            && calls == self.calls.len();
        is_all.then_some(steps)
    }

    /// The steps of an answer without an order: thoughts, text, images, calls.
    fn usual_steps(&self) -> Vec<ReplyStep> {
        let lengths: Vec<usize> = self.details.as_slice().iter().map(|entry| detail_text(*entry)).collect();
        let mut steps = Vec::with_capacity(lengths.len() * 2 + self.images.len() + self.calls.len() + 2);
        let mut end = 0;
        let mut fits = |len: &usize| {
            end += len;
            self.reasoning.is_char_boundary(end)
        };
        if lengths.iter().all(&mut fits) && end == self.reasoning.len() {
            for len in lengths {
                steps.extend([ReplyStep::Reasoning(len), ReplyStep::Detail]);
            }
        } else {
            steps.push(ReplyStep::Reasoning(self.reasoning.len()));
            steps.extend(lengths.iter().map(|_| ReplyStep::Detail));
        }
        steps.push(ReplyStep::Text(self.text.len()));
        steps.extend(self.images.as_slice().iter().map(|_| ReplyStep::Image));
        steps.extend((0..self.calls.len()).map(|_| ReplyStep::Call));
        steps
    }

    fn place(mut self, steps: &[ReplyStep], id: &str, each: &mut impl FnMut(AnswerPiece<'c>)) {
        for step in steps {
            match step {
                ReplyStep::Text(len) => {
                    if let Some(text) = cut(&mut self.text, *len) {
                        each(AnswerPiece::Text(Cow::Borrowed(text)));
                    }
                }
                ReplyStep::Reasoning(len) => {
                    if let Some(text) = cut(&mut self.reasoning, *len) {
                        each(AnswerPiece::Thinking(Cow::Borrowed(text)));
                    }
                }
                ReplyStep::Detail => {
                    self.details.next().and_then(seal).into_iter().for_each(&mut *each);
                }
                ReplyStep::Image => {
                    if let Some(image) = self.images.next() {
                        let (media_type, base64) = (&*image.media_type, &*image.base64);
                        each(AnswerPiece::Image { media_type: media_type.into(), base64: base64.into() });
                    }
                }
                ReplyStep::Call => {
                    if let Some((position, call)) = self.calls.next() {
                        place_call(call, position, id, each);
                    }
                }
            }
        }
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

/// The bytes of a detail's text.
fn detail_text(entry: View<'_>) -> usize {
    let [kind, text] = entry.pick(["type", "text"]);
    let is_text = kind.and_then(View::string).is_some_and(|kind| kind == "reasoning.text");
    text.filter(|_| is_text).map_or(0, View::string_len)
}

/// Takes the first `len` bytes off a text; None for no text.
fn cut<'t>(text: &mut &'t str, len: usize) -> Option<&'t str> {
    let (first, rest) = text.split_at_checked(len).filter(|_| len > 0)?;
    *text = rest;
    Some(first)
}
