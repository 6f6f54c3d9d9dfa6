//! The stored items that a request continues or refers to. They are copies, so that no stored document is held for them.

use std::collections::HashMap;

use gw_wire::dialects::responses::input_items::{listed_items, output_items};
use gw_wire::dialects::responses::referable_id;
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
}

impl std::fmt::Debug for TurnItems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnItems").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl TurnItems {
    /// The bytes that the items take.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<usize>()
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

    /// Copies the items of the next turn. A call that broke off has no output, and its arguments may be no JSON, so that no model takes it.
    pub(super) fn add_turn(&mut self, response: &StoredResponse) {
        own_items(response).for_each(|item| self.push(item));
        output_items(response.text()).filter(|item| !is_cut_call(*item)).for_each(|item| self.push(item));
    }

    /// Copies the items of the next turn, which was opened before.
    pub(super) fn add_items(&mut self, turn: &TurnItems) {
        let start = self.text.len();
        self.text.push_str(&turn.text);
        self.ends.extend(turn.ends.iter().map(|end| start + end));
    }

    /// The number of items so far.
    pub(super) fn item_count(&self) -> usize {
        self.ends.len()
    }

    /// A copy of the items from this place on.
    pub(super) fn items_from(&self, place: usize) -> TurnItems {
        let start = place.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default();
        let ends = self.ends.get(place..).unwrap_or_default().iter().map(|end| end - start).collect();
        TurnItems { text: self.text.get(start..).unwrap_or_default().to_owned(), ends }
    }

    fn push(&mut self, item: View<'_>) {
        self.text.push_str(item.text());
        self.ends.push(self.text.len());
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
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).filter_map(|(begin, end)| self.text.get(*begin..*end)).collect()
    }

    /// The number of items that only references bring in.
    pub(crate) fn candidates(&self) -> usize {
        self.candidates
    }

    /// Whether reading the items may take more than a millisecond.
    pub(crate) fn is_heavy(&self) -> bool {
        let bytes = self.expanded.bytes.max(self.text.len() as u64);
        bytes >= HEAVY_BYTES as u64 || self.expanded.values >= HEAVY_VALUES
    }

    /// All items of the conversation as one list, for a response whose former turns are gone.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let texts = self.texts();
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
    own_items(response).chain(output_items(response.text()))
}

/// The items of a response without its output.
fn own_items(response: &StoredResponse) -> impl Iterator<Item = View<'_>> {
    listed_items(&response.history).chain(listed_items(&response.input))
}

/// Whether an item is a call of a tool that the model did not finish.
fn is_cut_call(item: View<'_>) -> bool {
    let [kind, status] = item.pick(["type", "status"]);
    let is = |value: Option<View<'_>>, names: &[&str]| {
        value.and_then(View::string).is_some_and(|text| names.contains(&&*text))
    };
    is(kind, &["function_call", "custom_tool_call"]) && is(status, &["incomplete"])
}
