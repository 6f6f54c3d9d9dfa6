//! The parts of a complete chat answer, in the order in which the model made them.
//!
//! A chat message has one text, one reasoning text and a list of calls. Some adapters add an entry of the type
//! `gateway.order` to `reasoning_details`. It lists the blocks of the answer by their lengths in bytes: `t5 d c` is a text
//! of five bytes, a signed thought and a call.

use std::borrow::Cow;

use super::{ChatChoice, Image, ToolCall};
use crate::json::View;

/// The member of a message that holds the entries.
pub const DETAILS: &str = "reasoning_details";

/// The type of the entry with the order.
pub const ORDER_TYPE: &str = "gateway.order";

/// A part of an answer.
#[derive(Clone, Copy, Debug)]
pub enum ReplyPart<'c> {
    /// A text, never empty.
    Text(&'c str),
    /// A reasoning, never empty.
    Reasoning(&'c str),
    /// An entry of `reasoning_details` that is no order.
    Detail(View<'c>),
    /// A refusal in words, never empty.
    Refusal(&'c str),
    /// An image.
    Image(&'c Image<'c>),
    /// A call, and its position among the calls.
    Call(usize, &'c ToolCall<'c>),
}

/// Whether an entry of `reasoning_details` is an order.
#[must_use]
pub fn is_order(entry: View<'_>) -> bool {
    order_of(entry).is_some()
}

/// The bytes of an entry's text, which are a part of the answer's reasoning.
#[must_use]
pub fn text_len(entry: View<'_>) -> usize {
    let [kind, text] = entry.pick(["type", "text"]);
    let is_text = kind.and_then(View::string).is_some_and(|kind| kind == "reasoning.text");
    text.filter(|_| is_text).map_or(0, View::string_len)
}

/// Calls `each` with the parts of a choice. Without an order, or if the order does not fit, the reasoning comes first,
/// then the text, the refusal, the images and the calls. An order has no place for a refusal, which then comes last.
pub fn reply_parts<'c>(choice: &'c ChatChoice<'c>, mut each: impl FnMut(ReplyPart<'c>)) {
    let values = choice.extras.iter().filter(|(name, _)| name == DETAILS);
    let entries: Vec<View<'c>> = values.flat_map(|(_, value)| View::new(value.get()).elements()).collect();
    let order = entries.iter().rev().find_map(|entry| order_of(*entry));
    let details: Vec<View<'c>> = entries.into_iter().filter(|entry| !is_order(*entry)).collect();
    let parts = ReplyParts {
        text: choice.content.as_deref().unwrap_or_default(),
        reasoning: choice.reasoning.as_deref().unwrap_or_default(),
        refusal: choice.refusal.as_deref().unwrap_or_default(),
        details: details.into_iter(),
        images: choice.images.iter(),
        calls: choice.tool_calls.iter().enumerate(),
    };
    let steps = order.and_then(|words| parts.steps(&words)).unwrap_or_else(|| parts.usual_steps());
    parts.place(&steps, &mut each);
}

/// The words of an entry with the order.
fn order_of(entry: View<'_>) -> Option<Cow<'_, str>> {
    let [kind, order] = entry.pick(["type", "order"]);
    kind.and_then(View::string).filter(|kind| kind == ORDER_TYPE)?;
    Some(order.and_then(View::string).unwrap_or_default())
}

/// The parts of an answer that are left to place.
struct ReplyParts<'c> {
    text: &'c str,
    reasoning: &'c str,
    refusal: &'c str,
    details: std::vec::IntoIter<View<'c>>,
    images: std::slice::Iter<'c, Image<'c>>,
    calls: std::iter::Enumerate<std::slice::Iter<'c, ToolCall<'c>>>,
}

/// The next part of the answer.
#[derive(Clone, Copy)]
enum ReplyStep {
    /// Text of this many bytes.
    Text(usize),
    /// Reasoning of this many bytes.
    Reasoning(usize),
    /// Line breaks between two reasonings, which are left out.
    Gap(usize),
    /// The next entry of `reasoning_details`.
    Detail,
    Refusal,
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
                    let thought = text_len(details.next()?);
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
        steps.push(ReplyStep::Refusal);
        is_all.then_some(steps)
    }

    /// The steps of an answer without an order: thoughts, text, images, calls.
    fn usual_steps(&self) -> Vec<ReplyStep> {
        let details = self.details.as_slice();
        let mut steps = Vec::with_capacity(details.len() * 3 + self.images.len() + self.calls.len() + 3);
        match self.divided_reasoning() {
            Some(pieces) => {
                for (gap, len) in pieces {
                    steps.extend([ReplyStep::Gap(gap), ReplyStep::Reasoning(len), ReplyStep::Detail]);
                }
            }
            None => {
                steps.push(ReplyStep::Reasoning(self.reasoning.len()));
                steps.extend(details.iter().map(|_| ReplyStep::Detail));
            }
        }
        steps.extend([ReplyStep::Text(self.text.len()), ReplyStep::Refusal]);
        steps.extend(self.images.as_slice().iter().map(|_| ReplyStep::Image));
        steps.extend((0..self.calls.len()).map(|_| ReplyStep::Call));
        steps
    }

    /// The reasoning as the texts of the entries: for each entry the bytes of the line breaks before its text, and those of
    /// its text. None if the entries do not make up the reasoning.
    fn divided_reasoning(&self) -> Option<Vec<(usize, usize)>> {
        let mut rest = self.reasoning;
        let mut pieces = Vec::with_capacity(self.details.len());
        for entry in self.details.as_slice() {
            let len = text_len(*entry);
            let [words] = entry.pick(["text"]);
            let words = words.filter(|_| len > 0).and_then(View::string).unwrap_or_default();
            let after = match rest.strip_prefix(&*words) {
                Some(after) => after,
                None => rest.trim_start_matches('\n').strip_prefix(&*words)?,
            };
            pieces.push((rest.len() - after.len() - len, len));
            rest = after;
        }
        // Line breaks that no entry follows are a part of the reasoning.
        (rest.is_empty() && !pieces.is_empty()).then_some(pieces)
    }

    fn place(mut self, steps: &[ReplyStep], each: &mut impl FnMut(ReplyPart<'c>)) {
        for step in steps {
            let part = match step {
                ReplyStep::Text(len) => cut(&mut self.text, *len).map(ReplyPart::Text),
                ReplyStep::Reasoning(len) => cut(&mut self.reasoning, *len).map(ReplyPart::Reasoning),
                ReplyStep::Gap(len) => cut(&mut self.reasoning, *len).and(None),
                ReplyStep::Detail => self.details.next().map(ReplyPart::Detail),
                ReplyStep::Refusal => {
                    Some(ReplyPart::Refusal(self.refusal)).filter(|_| !self.refusal.is_empty())
                }
                ReplyStep::Image => self.images.next().map(ReplyPart::Image),
                ReplyStep::Call => self.calls.next().map(|(position, call)| ReplyPart::Call(position, call)),
            };
            part.into_iter().for_each(&mut *each);
        }
    }
}

/// Takes the first `len` bytes off a text; None for no text.
fn cut<'t>(text: &mut &'t str, len: usize) -> Option<&'t str> {
    let (first, rest) = text.split_at_checked(len).filter(|_| len > 0)?;
    *text = rest;
    Some(first)
}
