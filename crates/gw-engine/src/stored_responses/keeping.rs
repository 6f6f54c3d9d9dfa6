//! Writes responses to their store, within the bounds of their key.

use std::sync::Arc;

use gw_wire::dialects::responses::input_items::{listed_items, output_items};

use super::refusals::{no_room, unavailable};
use super::stored_conversation::StoredConversation;
use super::stored_response::{
    ConversationSize, Kept, ResponseFacts, ResponseWrite, StoredResponse, TurnFacts, entry_name, response_of,
};
use super::{Backend, StoredResponses};
use crate::cpu_pool::{HEAVY_BYTES, offload_if};
use crate::error::{Error, Kind, Result};
use crate::read_memory::{READER_BYTES, ReadPermit};

impl StoredResponses {
    /// Checks that a request of this size can be stored with its conversation, before its upstream is called.
    ///
    /// # Errors
    /// A 400 that names the bound, or `store_unavailable`.
    pub(crate) async fn check_room(
        &self,
        owner: &str,
        body_bytes: usize,
        before: &StoredConversation,
    ) -> Result<()> {
        let body_bytes = body_bytes as u64;
        let (needed, most) = match &self.place {
            Backend::Off => return Ok(()),
            // Older responses make room, but not those that this one continues.
            Backend::Memory(memory) => {
                let kept = if before.previous.is_some() { before.size.bytes } else { 0 };
                (body_bytes.saturating_add(kept), memory.max_bytes_per_key())
            }
            Backend::Database(_) => {
                let used = self.stored_bytes(owner).await?;
                (used.saturating_add(body_bytes), self.settings.max_bytes_per_key)
            }
        };
        if needed <= most { Ok(()) } else { Err(no_room()) }
    }

    /// The bytes that a key stores in the database. The number is at most half a minute old, but for what this process
    /// has written since.
    async fn stored_bytes(&self, owner: &str) -> Result<u64> {
        if let Some(bytes) = self.key_bytes.get(owner) {
            return Ok(bytes);
        }
        let Backend::Database(table) = &self.place else { return Ok(0) };
        let bytes = table.stored_bytes(owner).await.map_err(|error| unavailable(&error))?;
        self.key_bytes.set(owner, bytes);
        Ok(bytes)
    }

    /// Writes a response. If the conversation before it is gone by now, the response gets it as its own.
    pub(super) async fn put(
        &self,
        owner: &str,
        id: &str,
        response: StoredResponse,
        before: &StoredConversation,
        write: ResponseWrite,
    ) -> Result<Kept> {
        let is_heavy = response.bytes() >= HEAVY_BYTES;
        let (mut response, items) = offload_if(is_heavy, || {
            let items = foreign_items(response.text(), id);
            let size = before.turn_size(&response);
            let is_running = write == ResponseWrite::Begin;
            let turn = TurnFacts { parent: before.previous.clone(), size, is_running, ..response.turn };
            (StoredResponse { turn, held: None, ..response }, items)
        })
        .await;
        let kept = self.write(owner, id, &response, &items, write).await?;
        if kept != Kept::ParentGone {
            return Ok(kept);
        }
        response.history = offload_if(before.is_heavy(), || before.joined()).await.into();
        response.turn.parent = None;
        response.turn.size.turns = 1;
        self.write(owner, id, &response, &items, write).await
    }

    /// Replaces a response that runs by its end. Its place in the conversation stays.
    pub(super) async fn rewrite(&self, owner: &str, id: &str, response: StoredResponse) -> Result<Kept> {
        let turn = TurnFacts { is_running: false, ..response.turn.clone() };
        // While it ran, it was kept for longer.
        let expires_at = response.expires_at.min(self.expiry());
        let response = StoredResponse { turn, running_until: None, expires_at, held: None, ..response };
        self.write(owner, id, &response, &[], ResponseWrite::Finish).await
    }

    async fn write(
        &self,
        owner: &str,
        id: &str,
        response: &StoredResponse,
        items: &[String],
        write: ResponseWrite,
    ) -> Result<Kept> {
        let bytes = response.bytes() as u64;
        match &self.place {
            Backend::Off => Ok(Kept::Stored),
            Backend::Memory(memory) => {
                // The answer's own bytes count until its client has them, so the store must not share them.
                let document = crate::document_memory::uncounted(&response.document);
                let kept = StoredResponse { document, ..response.clone() };
                Ok(memory.put(owner, id, Arc::new(kept), items.to_vec(), write))
            }
            Backend::Database(table) => {
                // A response in the background was promised its place.
                let most = self.settings.max_bytes_per_key;
                if write == ResponseWrite::Save
                    && self.stored_bytes(owner).await?.saturating_add(bytes) > most
                {
                    return Ok(Kept::TooLarge);
                }
                let written = table.write(owner, id, write, response, items).await;
                let kept = written.map_err(|error| unavailable(&error))?;
                if kept == Kept::Stored {
                    self.key_bytes.add(owner, bytes);
                }
                Ok(kept)
            }
        }
    }

    /// The response of this id, unless it is deleted or expired.
    pub(super) async fn find(&self, owner: &str, id: &str) -> Result<Option<FoundResponse>> {
        match &self.place {
            Backend::Off => Ok(None),
            Backend::Memory(memory) => Ok(memory.get(owner, id).map(|found| FoundResponse::open(id, found))),
            Backend::Database(table) => {
                let found = table.find(owner, id).await.map_err(|error| unavailable(&error))?;
                Ok(found.map(FoundResponse::closed))
            }
        }
    }

    /// The response of this id and the ones that it continues, the newest first.
    pub(super) async fn chain(&self, owner: &str, id: &str, most: u32) -> Result<Vec<FoundResponse>> {
        match &self.place {
            Backend::Off => Ok(Vec::new()),
            Backend::Memory(memory) => {
                let chain = memory.chain(owner, id, most as usize);
                Ok(chain.into_iter().map(|found| FoundResponse::open(id, found)).collect())
            }
            Backend::Database(table) => {
                let chain = table.chain(owner, id, most).await.map_err(|error| unavailable(&error))?;
                Ok(chain.into_iter().map(FoundResponse::closed).collect())
            }
        }
    }

    /// Opens a response that was found. Readers at the same time share one copy.
    ///
    /// # Errors
    /// `store_unavailable`, or the memory for reading is full.
    pub(super) async fn open(
        &self,
        owner: &str,
        found: &FoundResponse,
    ) -> Result<Option<Arc<StoredResponse>>> {
        let FoundResponse { facts, opened } = found;
        let Backend::Database(table) = &self.place else { return Ok(opened.clone()) };
        let name = format!("{}\n{}", entry_name(owner, &facts.id), facts.version);
        let permit = || self.reading.hold(owner, facts.bytes);
        let open = || async { table.open(owner, &facts.id).await.map_err(|error| unavailable(&error)) };
        self.opened.get(name, permit, open).await
    }

    /// Counts a reader who takes a long answer, and the response itself for as long as anyone reads it: in the memory of
    /// this process, it may be deleted meanwhile.
    ///
    /// # Errors
    /// The memory for reading is full.
    pub(crate) async fn reader(
        &self,
        owner: &str,
        id: &str,
        found: Arc<StoredResponse>,
    ) -> Result<(ReadPermit, Arc<StoredResponse>)> {
        let found = match &self.place {
            Backend::Memory(_) => {
                // The copy shares its texts with the store. No other response of this id has its text in the same place.
                let name = format!("{}\n{:p}", entry_name(owner, id), found.document.as_ptr());
                let permit = || self.reading.hold(owner, found.bytes() as u64);
                let copy = || async { Ok(Some(StoredResponse::clone(&found))) };
                self.opened.get(name, permit, copy).await?.unwrap_or(found)
            }
            Backend::Database(_) | Backend::Off => found,
        };
        Ok((self.reading.hold(owner, READER_BYTES)?, found))
    }

    /// Opens a response for the one who holds the memory for it, and who copies from it and drops it.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(super) async fn open_alone(
        &self,
        owner: &str,
        found: FoundResponse,
    ) -> Result<Option<Arc<StoredResponse>>> {
        let Backend::Database(table) = &self.place else { return Ok(found.opened) };
        let opened = table.open(owner, &found.facts.id).await.map_err(|error| unavailable(&error))?;
        Ok(opened.map(Arc::new))
    }

    /// The ids of the responses that hold these items.
    pub(super) async fn responses_of_items(&self, owner: &str, items: &[String]) -> Result<Vec<String>> {
        match &self.place {
            Backend::Off => Ok(Vec::new()),
            Backend::Memory(memory) => Ok(memory.responses_of_items(owner, items)),
            Backend::Database(table) => {
                table.responses_of_items(owner, items).await.map_err(|error| unavailable(&error))
            }
        }
    }
}

impl StoredConversation {
    /// The size of the conversation with this response at its end.
    fn turn_size(&self, response: &StoredResponse) -> ConversationSize {
        let before = if self.previous.is_some() { self.size } else { ConversationSize::default() };
        let own = listed_items(&response.input).chain(output_items(response.text()));
        own.fold(before.plus(ConversationSize { turns: 1, ..ConversationSize::default() }), |size, item| {
            let values = item.extent().values as u64;
            let bytes = item.text().len() as u64 + 1;
            size.plus(ConversationSize { bytes, items: 1, values, turns: 0 })
        })
    }
}

/// A stored response that is found, and its content if that needs no opening.
#[derive(Debug)]
pub(super) struct FoundResponse {
    pub(super) facts: ResponseFacts,
    opened: Option<Arc<StoredResponse>>,
}

impl FoundResponse {
    fn closed(facts: ResponseFacts) -> Self {
        Self { facts, opened: None }
    }

    fn open(id: &str, response: Arc<StoredResponse>) -> Self {
        let facts = ResponseFacts {
            id: id.to_owned(),
            version: 0,
            bytes: response.bytes() as u64,
            size: response.turn.size,
            expires_at: response.expires_at,
            running_until: response.running_until,
            is_running: response.turn.is_running,
        };
        Self { facts, opened: Some(response) }
    }
}

/// The refusal of a request that continues an unknown response.
pub(crate) fn not_found(stored: &StoredResponses, id: &str) -> Error {
    let message = match stored.is_on() {
        true => {
            let id = shown_id(id);
            format!("Invalid 'previous_response_id': previous response with id '{id}' not found.")
        }
        false => "Invalid 'previous_response_id': this gateway stores no responses (the setting 'store' of [responses] \
                  is \"off\"). Send the whole conversation in 'input'."
            .to_owned(),
    };
    not_continued(message)
}

/// The refusal of a request that continues a response which is still running.
pub(super) fn not_ended(id: &str) -> Error {
    let id = shown_id(id);
    not_continued(format!(
        "Invalid 'previous_response_id': the response with id '{id}' has not ended yet. Wait for its end."
    ))
}

fn not_continued(message: String) -> Error {
    Error { code: Some("previous_response_not_found".into()), ..Error::new(Kind::Invalid, message) }
}

/// The beginning of an id that a client sent.
fn shown_id(id: &str) -> String {
    id.chars().take(64).collect()
}

/// The ids of a response's items that do not name their response, at most `MAX_INDEXED_ITEMS`.
fn foreign_items(document: &str, id: &str) -> Vec<String> {
    let ids = output_items(document).filter_map(|item| {
        let [id] = item.pick(["id"]);
        id?.string().map(std::borrow::Cow::into_owned)
    });
    let is_foreign =
        |item: &String| item.len() <= MAX_ITEM_ID_BYTES && response_of(item).is_none_or(|own| own != id);
    ids.filter(is_foreign).take(MAX_INDEXED_ITEMS).collect()
}

/// The items of one response that are found by ids that others made.
const MAX_INDEXED_ITEMS: usize = 512;
/// The longest id of an item that is found.
const MAX_ITEM_ID_BYTES: usize = 256;
