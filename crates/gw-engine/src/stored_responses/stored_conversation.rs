//! The stored items that a request continues or refers to. They are copies, so that no stored document is held for them.

use std::collections::HashMap;

use gw_wire::dialects::responses::input_items::{listed_items, output_items};
use gw_wire::dialects::responses::{CallOrOutput, call_item, referable_id};
use gw_wire::json::View;

use super::stored_response::{ConversationSize, StoredResponse};
use crate::cpu_pool::HEAVY_BYTES;
use crate::read_memory::ReadPermit;

/// JSON values that take about a millisecond to read.
const HEAVY_VALUES: u64 = 4_000;

/// The ids that the references of a request name, each with the number of its references.
pub(super) type ReferenceCounts = HashMap<String, u64>;

/// The stored items that a request needs.
#[derive(Default)]
pub(crate) struct StoredConversation {
    /// The JSON texts of all items, one behind the other: the candidates of references, then the conversation.
    text: String,
    /// The end of each item.
    ends: Vec<usize>,
    /// The number of items at the beginning that are candidates of references only.
    candidates: usize,
    /// The places of the calls that the model did not finish.
    cut_calls: Vec<usize>,
    /// The places of those of them that nothing answers. They are left out of the conversation.
    left_out: Vec<usize>,
    /// The size of the conversation that the request continues.
    pub(crate) size: ConversationSize,
    /// The size of the conversation, and of the items that references bring in, each as often as a reference names it.
    pub(super) expanded: ConversationSize,
    /// The response that the request continues. None: it only refers to items.
    pub(crate) previous: Option<String>,
    pub(super) permit: Option<ReadPermit>,
}

/// The items of one turn: their JSON texts, one behind the other.
#[derive(Default)]
pub(super) struct TurnItems {
    pub(super) text: String,
    /// The end of each item.
    pub(super) ends: Vec<usize>,
    /// The places of the calls that the model did not finish.
    pub(super) cut_calls: Vec<usize>,
}

impl std::fmt::Debug for TurnItems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnItems").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl TurnItems {
    /// The bytes that the items take.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + (self.ends.len() + self.cut_calls.len()) * size_of::<usize>()
    }
}

impl std::fmt::Debug for StoredConversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredConversation").field("expanded", &self.expanded).finish_non_exhaustive()
    }
}

impl StoredConversation {
    /// A conversation without its items. `permit` holds the memory of its copies.
    pub(super) fn new(size: ConversationSize, previous: Option<String>, permit: Option<ReadPermit>) -> Self {
        let text = String::with_capacity(usize::try_from(size.bytes).unwrap_or_default());
        Self { text, size, expanded: size, previous, permit, ..Self::default() }
    }

    /// Copies the items of an older response that references name. They precede the conversation.
    pub(super) fn add_candidates(&mut self, response: &StoredResponse, wanted: &ReferenceCounts) {
        for item in items_of(response) {
            if referable_id(item.text()).is_some_and(|id| wanted.contains_key(&*id)) {
                self.push(item);
            }
        }
        self.candidates = self.ends.len();
    }

    /// Copies the items of the next turn. A call that the client itself sent as unfinished stays.
    pub(super) fn add_turn(&mut self, response: &StoredResponse) {
        listed_items(&response.history).for_each(|item| self.push_answer(item));
        listed_items(&response.input).for_each(|item| self.push(item));
        output_items(response.text()).for_each(|item| self.push_answer(item));
    }

    /// Copies the items of the next turn, which was opened before.
    pub(super) fn add_items(&mut self, turn: &TurnItems) {
        let (start, first) = (self.text.len(), self.ends.len());
        self.text.push_str(&turn.text);
        self.ends.extend(turn.ends.iter().map(|end| start + end));
        self.cut_calls.extend(turn.cut_calls.iter().map(|place| first + place));
    }

    /// The number of items so far.
    pub(super) fn item_count(&self) -> usize {
        self.ends.len()
    }

    /// A copy of the items from this place on.
    pub(super) fn items_from(&self, place: usize) -> TurnItems {
        let start = place.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default();
        let ends = self.ends.get(place..).unwrap_or_default().iter().map(|end| end - start).collect();
        let cut_calls = self.cut_calls.iter().filter_map(|call| call.checked_sub(place)).collect();
        TurnItems { text: self.text.get(start..).unwrap_or_default().to_owned(), ends, cut_calls }
    }

    /// Copies an item of an answer.
    fn push_answer(&mut self, item: View<'_>) {
        if matches!(call_item(item), Some(CallOrOutput::Call { is_cut: true, .. })) {
            self.cut_calls.push(self.ends.len());
        }
        self.push(item);
    }

    fn push(&mut self, item: View<'_>) {
        self.text.push_str(item.text());
        self.ends.push(self.text.len());
    }

    /// Whether the conversation has calls that the model did not finish.
    pub(super) fn has_cut_calls(&self) -> bool {
        !self.cut_calls.is_empty()
    }

    /// Leaves out the calls that the model did not finish and that have no output: upstreams refuse them. A client may answer such a
    /// call, with an error for example, and then the call and its output stay. `answered` holds the ids of the calls that
    /// the new input has outputs of.
    pub(super) fn leave_out_cut_calls(&mut self, answered: &[String]) {
        self.left_out = self.with_reasoning(self.unanswered_cut_calls(answered));
    }

    /// The places of these calls, and of the reasoning that led to them alone. OpenAI refuses reasoning without the item that
    /// followed it ("was provided without its required following item").
    fn with_reasoning(&self, calls: Vec<usize>) -> Vec<usize> {
        if calls.is_empty() {
            return calls;
        }
        let mut left_out = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        // The reasoning before an item, and whether nothing but calls that are left out has followed it.
        let (mut thoughts, mut is_bare) = (Vec::new(), false);
        for (place, text) in self.all_texts().into_iter().enumerate().skip(self.candidates) {
            if calls.next_if_eq(&place).is_some() {
                left_out.push(place);
                is_bare = true;
                continue;
            }
            let item = View::new(text);
            let is_thought = is_reasoning(item);
            if is_bare && !continues_answer(item) {
                left_out.append(&mut thoughts);
            }
            if is_bare || !is_thought {
                thoughts.clear();
            }
            thoughts.extend(is_thought.then_some(place));
            is_bare = false;
        }
        if is_bare {
            left_out.append(&mut thoughts);
        }
        left_out.sort_unstable();
        left_out
    }

    /// The places of the calls that the model did not finish and that have no output behind them.
    fn unanswered_cut_calls(&self, answered: &[String]) -> Vec<usize> {
        let texts = self.all_texts();
        let mut cut_calls = self.cut_calls.iter().copied().peekable();
        let (mut open, mut unanswered) = (HashMap::new(), Vec::new());
        for (place, text) in texts.iter().enumerate().skip(self.candidates) {
            let is_cut = cut_calls.next_if_eq(&place).is_some();
            match call_item(View::new(text)) {
                // Providers use ids again. An output belongs to the last call of its id.
                Some(CallOrOutput::Call { id, .. }) if is_cut => unanswered.extend(open.insert(id, place)),
                Some(CallOrOutput::Call { id, .. }) => unanswered.extend(open.remove(&id)),
                Some(CallOrOutput::Output { id }) => {
                    open.remove(&id);
                }
                None => {}
            }
        }
        for id in answered {
            open.remove(id.as_str());
        }
        // The input may refer to an output.
        for text in texts.iter().take(self.candidates) {
            if let Some(CallOrOutput::Output { id }) = call_item(View::new(text)) {
                open.remove(&id);
            }
        }
        unanswered.extend(open.into_values());
        unanswered.sort_unstable();
        unanswered
    }

    /// Counts the items that references bring in.
    pub(super) fn expand(&mut self, wanted: &ReferenceCounts) {
        let mut sizes = HashMap::new();
        let texts = self.texts();
        for item in &texts {
            // The last item of an id is the one that is found.
            if let Some(id) = referable_id(item)
                && let Some((id, count)) = wanted.get_key_value(&*id)
            {
                sizes.insert(id.as_str(), (*item, *count));
            }
        }
        let expanded = sizes.into_values().fold(self.expanded, |size, (item, count)| {
            let bytes = (item.len() as u64 + 1).saturating_mul(count);
            let values = (View::new(item).extent().values as u64).saturating_mul(count);
            size.plus(ConversationSize { bytes, values, items: count, turns: 0 })
        });
        self.expanded = expanded;
    }

    /// The bytes of the copied items.
    pub(super) fn copied_bytes(&self) -> u64 {
        self.text.capacity() as u64
    }

    /// The JSON text of every item, in order. The first [`StoredConversation::candidates`] are not in the conversation.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let texts = self.all_texts();
        if self.left_out.is_empty() {
            return texts;
        }
        let stays = |place: &usize| self.left_out.binary_search(place).is_err();
        let candidates = (0..self.candidates).chain(self.left_out.iter().copied());
        let places = candidates.chain((self.candidates..texts.len()).filter(stays));
        places.filter_map(|place| texts.get(place).copied()).collect()
    }

    /// The JSON text of every item as it was copied.
    fn all_texts(&self) -> Vec<&str> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).filter_map(|(begin, end)| self.text.get(*begin..*end)).collect()
    }

    /// The number of items that only references bring in. An item that is left out of the conversation is one of them.
    pub(crate) fn candidates(&self) -> usize {
        self.candidates + self.left_out.len()
    }

    /// Whether reading the items may take more than a millisecond.
    pub(crate) fn is_heavy(&self) -> bool {
        let bytes = self.expanded.bytes.max(self.text.len() as u64);
        bytes >= HEAVY_BYTES as u64 || self.expanded.values >= HEAVY_VALUES
    }

    /// All items of the conversation as one list, for a response whose former turns are gone. A later request may answer a call that is
    /// left out of this one.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let texts = self.all_texts();
        let items = texts.get(self.candidates..).unwrap_or_default();
        ["[", &items.join(","), "]"].concat().into_bytes()
    }

    /// Hands over the memory that the copies of the conversation need, until the call has ended.
    pub(crate) fn take_permit(&mut self) -> Option<ReadPermit> {
        self.permit.take()
    }
}

/// The items of a response: those before its turn if it holds them, its input and its output.
fn items_of(response: &StoredResponse) -> impl Iterator<Item = View<'_>> {
    let own = listed_items(&response.history).chain(listed_items(&response.input));
    own.chain(output_items(response.text()))
}

fn is_reasoning(item: View<'_>) -> bool {
    let [kind] = item.pick(["type"]);
    kind.and_then(View::string).is_some_and(|kind| kind == "reasoning")
}

/// Whether an item may belong to the answer of the item before it: a call, or words of the model.
fn continues_answer(item: View<'_>) -> bool {
    let [role] = item.pick(["role"]);
    let is_said = role.and_then(View::string).is_some_and(|role| role == "assistant");
    is_said || matches!(call_item(item), Some(CallOrOutput::Call { .. }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A turn whose incomplete items are calls that the model did not finish.
    fn turn(items: &[&Value]) -> TurnItems {
        let mut turn = TurnItems::default();
        for item in items {
            if item["status"] == "incomplete" {
                turn.cut_calls.push(turn.ends.len());
            }
            turn.text.push_str(&item.to_string());
            turn.ends.push(turn.text.len());
        }
        turn
    }

    #[test]
    fn reasoning_is_left_out_with_the_call_that_it_led_to() {
        const NONE: &[usize] = &[];
        let call = |id: &str, status: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{", "status": status});
        let (cut, other, whole) = (call("c", "incomplete"), call("d", "incomplete"), call("e", "completed"));
        let thought = json!({"type": "reasoning", "summary": []});
        let (said, asked) =
            (json!({"role": "assistant", "content": "x"}), json!({"role": "user", "content": "x"}));
        let turns: [&[&Value]; 2] = [&[], &[&asked]];
        for (answer, left_out, if_answered) in [
            (&[&thought, &cut][..], &[0, 1][..], NONE),
            (&[&thought, &thought, &cut], &[0, 1, 2], NONE),
            (&[&thought, &cut, &other], &[0, 1, 2], &[2]),
            (&[&thought, &cut, &thought, &other], &[0, 1, 2, 3], &[2, 3]),
            (&[&thought, &cut, &whole], &[1], NONE),
            (&[&thought, &whole, &cut], &[2], NONE),
            (&[&thought, &said, &cut], &[2], NONE),
            (&[&thought, &whole], NONE, NONE),
        ] {
            for then in turns {
                let mut conversation = StoredConversation::default();
                conversation.add_items(&turn(&[answer, then].concat()));
                conversation.leave_out_cut_calls(&[]);
                assert_eq!(conversation.left_out, left_out, "{answer:?}");
                conversation.leave_out_cut_calls(&["c".to_owned()]);
                assert_eq!(conversation.left_out, if_answered, "{answer:?}");
            }
        }
    }
}
