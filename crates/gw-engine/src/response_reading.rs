//! `GET`, `DELETE` and `cancel` of stored responses. Long answers are made piece by piece as their client reads them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::unfold;
use gw_limits::{AdmissionPermit, LimitStates, Refusal, Refused};
use gw_wire::dialects::responses::item_page::ItemPage;
use gw_wire::dialects::responses::replay::Replay;
use gw_wire::dialects::responses::states;
use gw_wire::json::View;

use crate::auth::Caller;
use crate::cpu_pool::{CpuPool, HEAVY_BYTES, offload, offload_if};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::limit_error;
use crate::read_memory::{READER_BYTES, ReadPermit};
use crate::response::event_stream::EventStream;
use crate::response::event_stream::following::READING_TIME;
use crate::response::event_stream::state::BackgroundEvents;
use crate::shutdown::CutoffWatch;
use crate::stored_responses::StoredResponse;
use crate::stored_responses::stored_response::{missing, text_of};

fn is_background(document: &[u8]) -> bool {
    let [background] = View::new(text_of(document)).pick(["background"]);
    background.is_some_and(|value| value.text() == "true")
}

/// Whether a response does not change any more. Nothing of its text is read, which may be long.
fn is_over(found: &StoredResponse) -> bool {
    !found.turn.is_running
}

impl Engine {
    /// Admits a request that reads or deletes a stored response: it counts in the limits of its key and its team. A budget
    /// that is used up does not prevent it, because the answer is paid already. `polled` is the response that is polled or
    /// cancelled: while it is made in the background, it holds the places in flight that its polls need.
    ///
    /// # Errors
    /// `rate_limit_exceeded`, with the limits as they stand.
    pub async fn admit_reading(
        &self,
        caller: &Caller,
        request_id: &str,
        polled: Option<&str>,
    ) -> std::result::Result<AdmissionPermit, Box<(LimitStates, Error)>> {
        if caller.subjects().is_empty() {
            return Ok(AdmissionPermit::default());
        }
        let makes = |id| self.services().background_responses.makes(caller.key_id(), id);
        match self.services().limiter.admit_free(request_id, caller.subjects()).await {
            Ok(permit) => Ok(permit),
            Err(refused) => match *refused {
                Refused { limits, refusal: Refusal::InFlight { .. } }
                    if match polled {
                        Some(id) => makes(id) || self.is_made_elsewhere(caller, id).await,
                        None => false,
                    } =>
                {
                    let mut permit = AdmissionPermit::default();
                    permit.limits = limits;
                    Ok(permit)
                }
                Refused { limits, refusal } => Err(Box::new((limits, limit_error::error(&refusal)))),
            },
        }
    }

    /// Whether this response of the key is made in the background, by any process that shares the database. With limits in
    /// Redis such a response holds a place of its key here, too.
    async fn is_made_elsewhere(&self, caller: &Caller, id: &str) -> bool {
        self.services().stored_responses.is_running(caller.key_id(), id).await.unwrap_or_default()
    }

    /// `GET /v1/responses/{id}`.
    ///
    /// # Errors
    /// `not_found` or `store_unavailable`.
    pub async fn stored_response(&self, caller: &Caller, id: &str) -> Result<Arc<StoredResponse>> {
        let found = self.services().stored_responses.load(caller.key_id(), id).await?;
        found.ok_or_else(|| missing(id))
    }

    /// `GET /v1/responses/{id}`: the object in pieces.
    ///
    /// # Errors
    /// As [`Engine::stored_response`], and the memory for reading is full.
    pub async fn response_object(&self, caller: &Caller, id: &str) -> Result<StoredObject> {
        let found = self.stored_response(caller, id).await?;
        self.object(caller, id, found).await
    }

    async fn object(&self, caller: &Caller, id: &str, found: Arc<StoredResponse>) -> Result<StoredObject> {
        if found.document.len() <= SMALL_BYTES {
            return Ok(StoredObject::Whole(found.document.clone()));
        }
        let held = self.reader(caller, id, found).await?;
        let mut rest = held.1.document.clone();
        let pieces = std::iter::from_fn(move || {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            (!piece.is_empty()).then_some(piece)
        });
        Ok(StoredObject::Pieces(in_pieces(Box::new(pieces), None, held, CpuPool::default())))
    }

    /// `GET /v1/responses/{id}/input_items`.
    ///
    /// # Errors
    /// As [`Engine::response_object`], and a 400 for an item that is not in the list.
    pub async fn input_items(
        &self,
        caller: &Caller,
        id: &str,
        page: ItemPage<'_>,
    ) -> Result<Box<EventStream>> {
        let found = self.stored_response(caller, id).await?;
        let (permit, found) = self.reader(caller, id, found).await?;
        let pieces = offload_if(found.input.len() >= HEAVY_BYTES, || page.of(found.input.clone())).await;
        let pieces = pieces.ok_or_else(|| {
            let after: String = page.after.unwrap_or_default().chars().take(64).collect();
            let message = format!("Invalid 'after': no input item of this response has the id '{after}'.");
            Error { code: Some("invalid_value".into()), ..Error::new(Kind::Invalid, message) }
        })?;
        Ok(in_pieces(Box::new(pieces), None, (permit, found), CpuPool::default()))
    }

    /// `DELETE /v1/responses/{id}`. A response in the background is stopped, too.
    ///
    /// # Errors
    /// As [`Engine::stored_response`].
    pub async fn delete_response(&self, caller: &Caller, id: &str) -> Result<()> {
        let stored = &self.services().stored_responses;
        let background = &self.services().background_responses;
        // Clients that follow it learn that it was stopped.
        let last = match background.makes(caller.key_id(), id) {
            // A store that fails must not keep the call running.
            true => stored.load(caller.key_id(), id).await.ok().flatten(),
            false => None,
        };
        let last = last.map(|found| states::cancelled(text_of(&found.document)));
        background.stop(caller.key_id(), id, last.as_deref().map(text_of));
        match stored.delete(caller.key_id(), id).await? {
            true => Ok(()),
            false => Err(missing(id)),
        }
    }

    /// `POST /v1/responses/{id}/cancel`. Returns the response object.
    ///
    /// # Errors
    /// As [`Engine::response_object`], and a 400 for a response that is not made in the background.
    pub async fn cancel_response(&self, caller: &Caller, id: &str) -> Result<StoredObject> {
        let found = self.stored_response(caller, id).await?;
        if !is_background(&found.document) {
            let message = "Only a response with 'background: true' can be cancelled.";
            return Err(Error::new(Kind::Invalid, message));
        }
        if is_over(&found) {
            return self.object(caller, id, found).await;
        }
        let stored = &self.services().stored_responses;
        let cancelled = states::cancelled(text_of(&found.document));
        self.services().background_responses.stop(caller.key_id(), id, Some(text_of(&cancelled)));
        // The response may have ended since it was read.
        let found = self.stored_response(caller, id).await?;
        if is_over(&found) {
            return self.object(caller, id, found).await;
        }
        let document = Bytes::from(states::cancelled(text_of(&found.document)));
        let cancelled = found.with_document(document);
        let found = match stored.cancel(caller.key_id(), id, cancelled.clone()).await? {
            true => Arc::new(cancelled),
            // It runs in another process, where it ended a moment ago.
            false => self.stored_response(caller, id).await?,
        };
        self.object(caller, id, found).await
    }

    /// `GET /v1/responses/{id}?stream=true`: the events after `starting_after`.
    ///
    /// # Errors
    /// As [`Engine::response_object`], and a 400 for a response that runs in another process, or for a number of a stream
    /// whose numbers are not known any more.
    pub async fn follow_response(
        &self,
        caller: &Caller,
        id: &str,
        starting_after: Option<u64>,
    ) -> Result<Box<EventStream>> {
        let found = self.stored_response(caller, id).await?;
        let services = self.services();
        let running = services.background_responses.follow(caller.key_id(), id, starting_after);
        if let Some(events) = running {
            let permit = services.stored_responses.reading.hold(caller.key_id(), READER_BYTES)?;
            return Ok(Box::new(EventStream::background(events, permit, None, CutoffWatch::default())));
        }
        let found = if is_over(&found) { found } else { self.stored_response(caller, id).await? };
        if !is_over(&found) {
            let message =
                "Invalid 'stream': this response is in progress and cannot be followed. Poll it instead.";
            return Err(Error::new(Kind::Invalid, message));
        }
        if starting_after.is_some() && found.turn.is_streamed {
            let message = "Invalid 'starting_after': the numbers of this response's events are not known any more. Read \
                           the events from the first one, or retrieve the response.";
            return Err(Error { code: Some("invalid_value".into()), ..Error::new(Kind::Invalid, message) });
        }
        let (permit, found) = self.reader(caller, id, found).await?;
        let document = found.document.clone();
        let is_heavy = document.len() >= HEAVY_BYTES;
        let replay = offload_if(is_heavy, || Replay::new(document, starting_after)).await;
        Ok(in_pieces(Box::new(replay), Some(Replay::is_heavy), (permit, found), services.cpu_of(caller)))
    }

    /// Counts a reader who takes a long answer, and the response that it reads.
    async fn reader(
        &self,
        caller: &Caller,
        id: &str,
        found: Arc<StoredResponse>,
    ) -> Result<(ReadPermit, Arc<StoredResponse>)> {
        self.services().stored_responses.reader(caller.key_id(), id, found).await
    }
}

/// A stored object on its way to its client.
#[derive(Debug)]
pub enum StoredObject {
    /// All of it.
    Whole(Bytes),
    /// A long one.
    Pieces(Box<EventStream>),
}

/// A body of the pieces of an iterator. `held` lives as long as the body. A piece that is heavy is made on the CPU pool.
fn in_pieces<I>(
    pieces: Box<I>,
    is_heavy: Option<fn(&I) -> bool>,
    held: (ReadPermit, Arc<StoredResponse>),
    cpu: CpuPool,
) -> Box<EventStream>
where
    I: Iterator<Item = Bytes> + Send + 'static,
{
    let events = unfold((pieces, held), move |(mut pieces, held)| {
        let cpu = cpu.clone();
        async move {
            let (piece, pieces) = if is_heavy.is_some_and(|is_heavy| is_heavy(&pieces)) {
                let making = async move {
                    let piece = offload(|| pieces.next()).await;
                    (piece, pieces)
                };
                cpu.host(making).await
            } else {
                (pieces.next(), pieces)
            };
            piece.map(|piece| (piece, (pieces, held)))
        }
    });
    let events: BackgroundEvents = Box::pin(events);
    Box::new(EventStream::pieces(events, crate::clock::now() + READING_TIME))
}

/// Objects up to this size are sent at once.
const SMALL_BYTES: usize = 64 << 10;
/// The pieces of a larger one.
const PIECE_BYTES: usize = 64 << 10;
