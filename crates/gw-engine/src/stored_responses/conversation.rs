//! The conversation that a request continues, and the stored items that it refers to. Everything is counted before anything
//! is opened.

use std::collections::BTreeSet;

use gw_wire::dialects::responses::WantedItems;
use gw_wire::request::RequestLimits;

use super::keeping::{FoundResponse, not_ended, not_found};
use super::opened_turns::MAX_TURN_BYTES;
use super::stored_conversation::{ReferenceCounts, StoredConversation};
use super::stored_response::response_of;
use super::{ConversationSize, StoredResponses};
use crate::cpu_pool::{HEAVY_BYTES, offload_if};
use crate::error::{Error, Kind, Result};

/// The most turns of a conversation.
pub(crate) const MAX_TURNS: u64 = 1000;
/// The most responses whose items one request may refer to.
const MAX_REFERENCED_RESPONSES: usize = 1000;
/// Conversations up to this size need no part of the memory for reading.
const FREE_BYTES: u64 = 64 << 10;
/// The copies of a conversation that a request makes: its items, a chat, and a body of the Responses API.
const COPIES: u64 = 3;

/// The bounds of a request with its conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversationBounds<'l> {
    /// The bytes of the request's own body.
    pub(crate) body_bytes: usize,
    pub(crate) limits: &'l RequestLimits,
}

impl StoredResponses {
    /// The turns that a request continues or refers to. They count towards its limits before they are opened.
    ///
    /// # Errors
    /// `previous_response_not_found`, a limit of the request, the memory for reading, or `store_unavailable`.
    pub(crate) async fn conversation(
        &self,
        owner: &str,
        wanted: &WantedItems,
        bounds: ConversationBounds<'_>,
    ) -> Result<StoredConversation> {
        self.check_references(wanted, bounds)?;
        let before = self.opened_turns.deletions();
        let previous = wanted.previous_response_id.clone();
        let chain = match &previous {
            Some(id) => self.continued(owner, id).await?,
            None => Vec::new(),
        };
        let references = References::of(&wanted.items).await;
        let others = self.referenced(owner, &references, &chain).await?;
        if chain.is_empty() && others.is_empty() {
            return Ok(StoredConversation::default());
        }
        let size = chain.first().map(|last| last.facts.size).unwrap_or_default();
        let all = others.iter().map(|one| one.facts.own_size()).fold(size, ConversationSize::plus);
        let member = if previous.is_some() { "previous_response_id" } else { "input" };
        self.check_size(member, all, wanted, bounds)?;
        // One response is open at a time. The chat and the body are made later.
        let largest = chain.iter().chain(&others).map(|one| one.facts.bytes).max().unwrap_or_default();
        let needed = size.bytes.saturating_mul(COPIES).max(all.bytes.saturating_add(largest));
        let permit = (needed > FREE_BYTES).then(|| self.reading.hold(owner, needed)).transpose()?;
        let mut conversation = StoredConversation::new(size, previous.clone(), permit);
        for one in others.into_iter().rev() {
            if let Some(response) = self.open_alone(owner, one).await? {
                let add = || conversation.add_candidates(&response, &references.counts);
                offload_if(response.bytes() >= HEAVY_BYTES, add).await;
            }
        }
        for one in chain.into_iter().rev() {
            if let Some(turn) = self.opened_turns.get(owner, &one.facts) {
                offload_if(turn.bytes() >= HEAVY_BYTES, || conversation.add_items(&turn)).await;
                continue;
            }
            let (row, first) = (one.facts.clone(), conversation.item_count());
            let response = self.open_alone(owner, one).await?;
            let gone = || not_found(self, previous.as_deref().unwrap_or_default());
            let response = response.ok_or_else(gone)?;
            offload_if(response.bytes() >= HEAVY_BYTES, || conversation.add_turn(&response)).await;
            if self.is_in_database() && row.bytes <= MAX_TURN_BYTES {
                self.opened_turns.keep(owner, &row, conversation.items_from(first), before);
            }
        }
        if conversation.has_cut_calls() {
            let is_heavy = conversation.is_heavy();
            offload_if(is_heavy, || conversation.leave_out_cut_calls(&wanted.answered_calls)).await;
        }
        if !references.counts.is_empty() {
            offload_if(conversation.is_heavy(), || conversation.expand(&references.counts)).await;
            self.check_size("input", conversation.expanded, wanted, bounds)?;
        }
        let expanded = conversation.expanded.bytes;
        let held = conversation.copied_bytes().saturating_add(expanded.saturating_mul(COPIES - 1));
        match &mut conversation.permit {
            Some(permit) => permit.change(held)?,
            None if held > FREE_BYTES * COPIES => conversation.permit = Some(self.reading.hold(owner, held)?),
            None => {}
        }
        Ok(conversation)
    }

    /// The turns up to this response, the newest first.
    async fn continued(&self, owner: &str, id: &str) -> Result<Vec<FoundResponse>> {
        let most = u32::try_from(MAX_TURNS).unwrap_or(u32::MAX);
        let mut last = self.find(owner, id).await?;
        if last.as_ref().is_some_and(|last| last.facts.is_running) {
            // Its process may have died, which ends the response.
            self.load(owner, id).await?;
            last = self.find(owner, id).await?;
            if last.as_ref().is_some_and(|last| last.facts.is_running) {
                return Err(not_ended(id));
            }
        }
        let last = last.ok_or_else(|| not_found(self, id))?.facts;
        if last.size.turns >= MAX_TURNS {
            let message = format!(
                "Invalid 'previous_response_id': the conversation has {} responses, and at most {MAX_TURNS} are kept. \
                 Send its items in 'input'.",
                last.size.turns
            );
            return Err(Error {
                code: Some("conversation_too_long".into()),
                ..Error::new(Kind::Invalid, message)
            });
        }
        let chain = self.chain(owner, id, most).await?;
        // A turn that is missing would be a conversation without its beginning.
        if chain.len() as u64 != last.size.turns {
            return Err(not_found(self, id));
        }
        Ok(chain)
    }

    /// The responses outside the chain that hold the items of these references, the newest first.
    async fn referenced(
        &self,
        owner: &str,
        references: &References,
        chain: &[FoundResponse],
    ) -> Result<Vec<FoundResponse>> {
        let mut responses = references.responses.clone();
        if !references.others.is_empty() {
            responses.extend(self.responses_of_items(owner, &references.others).await?);
        }
        for turn in chain {
            responses.remove(&turn.facts.id);
        }
        if responses.len() > MAX_REFERENCED_RESPONSES {
            let message = format!(
                "Invalid 'input': the items belong to {} responses. Expected at most {MAX_REFERENCED_RESPONSES}. Send \
                 'previous_response_id', or the items themselves.",
                responses.len()
            );
            return Err(Error {
                code: Some("array_above_max_length".into()),
                ..Error::new(Kind::Invalid, message)
            });
        }
        let mut found = Vec::with_capacity(responses.len());
        for response in &responses {
            found.extend(self.find(owner, response).await?);
        }
        // Ids grow with time.
        found.reverse();
        Ok(found)
    }

    /// Refuses more references than a request may have items, before anything is looked up for them.
    fn check_references(&self, wanted: &WantedItems, bounds: ConversationBounds<'_>) -> Result<()> {
        let items = wanted.items.len() as u64;
        self.check_size("input", ConversationSize { items, ..ConversationSize::default() }, wanted, bounds)
    }

    fn check_size(
        &self,
        member: &str,
        size: ConversationSize,
        wanted: &WantedItems,
        bounds: ConversationBounds<'_>,
    ) -> Result<()> {
        let ConversationBounds { body_bytes, limits } = bounds;
        let bytes = size.bytes.saturating_add(body_bytes as u64);
        let most = self.settings.max_conversation_bytes;
        if bytes > most {
            let message = format!(
                "Invalid '{member}': the request has {bytes} bytes with its stored conversation. Expected at most {most} \
                 (setting 'server.body_limit_mib')."
            );
            return Err(Error::new(Kind::RequestTooLarge, message));
        }
        let counted = [
            ("items", "max_messages", limits.max_messages, size.items),
            ("JSON values", "max_values", limits.max_values, size.values.saturating_add(wanted.values)),
        ];
        for (what, setting, most, got) in counted {
            if got > most as u64 {
                let message = format!(
                    "Invalid '{member}': too many {what}. Expected at most {most} in one request (setting \
                     'server.request_limits.{setting}'), but got {got} with the stored conversation instead."
                );
                let code = Some("array_above_max_length".into());
                return Err(Error { code, ..Error::new(Kind::Invalid, message) });
            }
        }
        Ok(())
    }
}

/// The references of a request.
#[derive(Debug, Default)]
struct References {
    /// The responses that the ids name.
    responses: BTreeSet<String>,
    /// The ids that name no response.
    others: Vec<String>,
    /// All ids.
    counts: ReferenceCounts,
}

impl References {
    async fn of(items: &[String]) -> Self {
        let read = || {
            let mut all = Self::default();
            for item in items {
                *all.counts.entry(item.clone()).or_default() += 1;
            }
            for item in all.counts.keys() {
                match response_of(item) {
                    Some(response) => drop(all.responses.insert(response)),
                    None => all.others.push(item.clone()),
                }
            }
            all.others.sort_unstable();
            all
        };
        offload_if(items.len() > LIGHT_REFERENCES, read).await
    }
}

/// References that take less than a millisecond to collect.
const LIGHT_REFERENCES: usize = 500;

#[cfg(test)]
mod tests;
