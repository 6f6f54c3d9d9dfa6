//! The stored turns of a conversation that a request continues.

use std::sync::Arc;

use gw_wire::dialects::responses::input_items::{listed_items, output_items};

use super::stored_response::{ConversationSize, StoredResponse};
use crate::cpu_pool::HEAVY_BYTES;
use crate::read_memory::ReadPermit;

/// JSON values that take about a millisecond to read.
const HEAVY_VALUES: u64 = 4_000;

/// The stored turns that a request needs.
#[derive(Debug, Default)]
pub(crate) struct StoredConversation {
    /// The turns, the oldest first.
    turns: Vec<Arc<StoredResponse>>,
    /// The size of all turns.
    pub(crate) size: ConversationSize,
    /// The response that the request continues. None: it only refers to items.
    pub(crate) previous: Option<String>,
    permit: Option<ReadPermit>,
}

impl StoredConversation {
    /// A conversation of these turns, the oldest first. `permit` holds the memory of its copies.
    pub(super) fn new(
        turns: Vec<Arc<StoredResponse>>,
        size: ConversationSize,
        previous: Option<String>,
        permit: Option<ReadPermit>,
    ) -> Self {
        Self { turns, size, previous, permit }
    }

    /// The JSON text of every item, in order.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let items = self.turns.iter().flat_map(|turn| {
            let own = listed_items(&turn.history).chain(listed_items(&turn.input));
            own.chain(output_items(turn.text()))
        });
        items.map(|item| item.text()).collect()
    }

    /// Whether reading the turns may take more than a millisecond.
    pub(crate) fn is_heavy(&self) -> bool {
        self.size.bytes >= HEAVY_BYTES as u64 || self.size.values >= HEAVY_VALUES
    }

    /// All items as one list, for a response whose former turns are gone.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let mut list = b"[".to_vec();
        for (at, item) in self.texts().into_iter().enumerate() {
            if at > 0 {
                list.push(b',');
            }
            list.extend_from_slice(item.as_bytes());
        }
        list.push(b']');
        list
    }

    /// Hands over the memory that the copies of the conversation need, until the call has ended.
    pub(crate) fn take_permit(&mut self) -> Option<ReadPermit> {
        self.permit.take()
    }
}
