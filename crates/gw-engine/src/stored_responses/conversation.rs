//! The conversation that a request continues, and the stored items that it refers to. Everything is counted before anything
//! is opened.

use std::collections::BTreeSet;

use gw_wire::dialects::responses::WantedItems;
use gw_wire::request::RequestLimits;

use super::keeping::{FoundResponse, not_found};
use super::stored_conversation::StoredConversation;
use super::stored_response::response_of;
use super::{ConversationSize, StoredResponses};
use crate::error::{Error, Kind, Result};

/// The most turns of a conversation.
pub(crate) const MAX_TURNS: u64 = 1000;
/// The most responses whose items one request may refer to.
const MAX_REFERENCED_RESPONSES: usize = 1000;
/// Conversations up to this size need no part of the memory for reading.
const FREE_BYTES: u64 = 64 << 10;
/// The copies of a conversation that a request makes: as a chat, and as a body of the Responses API.
const COPIES: u64 = 2;

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
        let found = match &wanted.previous_response_id {
            Some(id) => self.continued(owner, id).await?,
            None if wanted.items.is_empty() => return Ok(StoredConversation::default()),
            None => self.referenced(owner, &wanted.items).await?,
        };
        let previous = wanted.previous_response_id.clone();
        let size = match (&previous, found.first()) {
            (Some(_), Some(last)) => last.facts.size,
            _ => found
                .iter()
                .map(|one| one.facts.own_size())
                .fold(ConversationSize::default(), ConversationSize::plus),
        };
        let member = if previous.is_some() { "previous_response_id" } else { "input" };
        self.check_size(member, size, wanted, bounds)?;
        let copies = size.bytes.saturating_mul(COPIES);
        let permit = (size.bytes > FREE_BYTES).then(|| self.reading.hold(owner, copies)).transpose()?;
        let mut turns = Vec::with_capacity(found.len());
        for one in found.iter().rev() {
            let turn = self.open(owner, one).await?;
            turns.extend(turn);
        }
        if let Some(id) = previous.as_ref().filter(|_| turns.len() < found.len()) {
            return Err(not_found(self, id));
        }
        Ok(StoredConversation::new(turns, size, previous, permit))
    }

    /// The turns up to this response, the newest first.
    async fn continued(&self, owner: &str, id: &str) -> Result<Vec<FoundResponse>> {
        let most = u32::try_from(MAX_TURNS).unwrap_or(u32::MAX);
        let mut last = self.find(owner, id).await?;
        if last.as_ref().is_some_and(|last| last.facts.is_running) {
            // Its process may have died, which ends the response.
            self.load(owner, id).await?;
            last = self.find(owner, id).await?.filter(|last| !last.facts.is_running);
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

    /// The responses that hold these items.
    async fn referenced(&self, owner: &str, items: &[String]) -> Result<Vec<FoundResponse>> {
        let mut responses = BTreeSet::new();
        let mut others = Vec::new();
        for item in items {
            match response_of(item) {
                Some(response) => drop(responses.insert(response)),
                None => others.push(item.clone()),
            }
        }
        others.sort_unstable();
        others.dedup();
        if !others.is_empty() {
            responses.extend(self.responses_of_items(owner, &others).await?);
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
            if previous_only(member, what) && got > most as u64 {
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

/// Whether a number of parts counts for this member. A request that refers to items has only those, not the whole responses.
fn previous_only(member: &str, what: &str) -> bool {
    member != "input" || what != "items"
}
