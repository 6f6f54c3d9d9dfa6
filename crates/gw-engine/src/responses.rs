//! `/v1/responses`: a request of the Responses API becomes a chat, and its answer is written in that API's form. Answers
//! can be stored, so that a client retrieves, continues, follows and cancels them.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use gw_wire::dialects::responses::input_items::input_items;
use gw_wire::dialects::responses::native::{EncryptedContent, Forwarding, for_upstream};
use gw_wire::dialects::responses::replay::replay;
use gw_wire::dialects::responses::{self, EarlierItems, ResponsesContext, states};
use gw_wire::dialects::{EncoderOpening, NativeNeed};
use gw_wire::json::View;
use gw_wire::request::RequestLimits;

use crate::auth::Caller;
use crate::call::Call;
use crate::compaction::SummarySealer;
use crate::cpu_pool::{is_heavy, offload_if};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::execute::execute_as_stream;
use crate::messages::validated;
use crate::pipeline;
use crate::request::ValidatedRequest;
use crate::request::context::{ClientSurface, RequestContext};
use crate::request::operation::Operation;
use crate::response::event_stream::EventStream;
use crate::response::event_stream::recording::Keep;
use crate::response::hand_over::RecordHandOver;
use crate::response::reply::{BackgroundReply, Reply, ReplyBody};
use crate::shutdown::CutoffWatch;
use crate::stored_responses::{BackgroundTask, StoredResponse, StoredResponses};

/// The parts of a request that its stored response keeps.
struct Made {
    context: ResponsesContext,
    /// The answer is stored.
    is_stored: bool,
    is_background: bool,
    is_stream: bool,
    input: Vec<String>,
    history: Vec<Bytes>,
}

/// Answers a request.
///
/// # Errors
/// Every refusal of the request, and the error of its last attempt.
pub(crate) async fn create(engine: &Arc<Engine>, client: RequestContext, body: Bytes) -> Result<Reply> {
    let services = engine.services();
    let stored = Arc::clone(&services.stored_responses);
    let owner = Arc::clone(client.caller.key_id());
    let limits = services.snapshot().request_limits;
    let wanted = offload_if(is_heavy(&body), || responses::wanted_items(&body, &limits)).await;
    let earlier = earlier_items(&stored, &owner, &wanted).await;
    let surface = client.surface.clone();
    let summaries = SummarySealer::new(&services.sealer, &client.caller);
    let (is_plain, can_store) = (surface.is_plain, stored.is_on());
    let mut made = None;
    let parse = |body: Bytes, limits: &RequestLimits| {
        let earlier = earlier?;
        let texts: Vec<&str> = earlier.iter().filter_map(|item| std::str::from_utf8(item).ok()).collect();
        let opener = |sealed: &str| summaries.open(sealed);
        let known = EarlierItems { items: &texts, open_compaction: Some(&opener), ..EarlierItems::default() };
        let request = responses::translate_with(body, limits, &known)?;
        if request.background && !(can_store && request.store) {
            return Err(no_background(can_store));
        }
        let is_stored = can_store && request.store;
        let context = request.context.clone().with_plain(is_plain).with_stored(is_stored);
        made = Some(Made {
            context: context.clone(),
            is_stored,
            is_background: request.background,
            is_stream: request.stream,
            input: if is_stored { input_items(&request.native.bytes, &texts) } else { Vec::new() },
            history: if wanted.previous_response_id.is_some() { earlier.clone() } else { Vec::new() },
        });
        let mut client = request.client(context);
        if is_stored {
            let model = model_of(&client.native.bytes);
            // A response in the background is read as a stream, so that its client can follow it.
            let forwarding = Forwarding {
                model: &model,
                streams: request.background,
                history: &texts,
                ..Forwarding::default()
            };
            let body = for_upstream(&client.native, &forwarding, |_| EncryptedContent::Keep);
            client.native.bytes = body.into();
        }
        validated(request.chat, client, &surface, limits)
    };
    let call = pipeline::begin(services, Operation::Responses, client, body, parse).await?;
    let Some(made) = made else { return Err(Error::new(Kind::InternalError, "The request was not read.")) };
    if made.is_background {
        return background(engine, call, made, &owner).await;
    }
    let keep = made.is_stored.then(|| keep(&stored, &owner, &call.context.id, made));
    let mut reply = pipeline::answer(services, call).await?;
    if let Some(keep) = keep {
        match &mut reply.body {
            ReplyBody::Full(document) => keep(document.clone()).await,
            ReplyBody::Stream(stream) => stream.record(keep),
            ReplyBody::Background(_) => {}
        }
    }
    Ok(reply)
}

fn no_background(can_store: bool) -> Error {
    let message = match can_store {
        true => {
            "Invalid 'background': a response in the background must be stored. Leave out 'store: false'."
        }
        false => {
            "Invalid 'background': this gateway stores no responses (the setting 'store' of [responses] is \"off\")."
        }
    };
    Error { code: Some("unsupported_value".into()), ..Error::new(Kind::Invalid, message) }
}

/// The items that the request continues or refers to.
pub(crate) async fn earlier_items(
    stored: &StoredResponses,
    owner: &str,
    wanted: &responses::WantedItems,
) -> Result<Vec<Bytes>> {
    if let Some(id) = &wanted.previous_response_id {
        let found = stored.load(owner, id).await?;
        let previous = found.filter(|found| is_over(&found.document)).ok_or_else(|| not_found(stored, id))?;
        return Ok(conversation(&previous));
    }
    let mut items = Vec::new();
    let mut loaded: Vec<String> = Vec::new();
    for id in &wanted.items {
        // The gateway's own item ids hold the id of their response.
        let Some(response) = id.split('_').nth(1).map(|unique| format!("resp_{unique}")) else { continue };
        if loaded.contains(&response) || loaded.len() >= MAX_REFERENCED_RESPONSES {
            continue;
        }
        if let Some(found) = stored.load(owner, &response).await? {
            items.extend(conversation(&found));
        }
        loaded.push(response);
    }
    Ok(items)
}

/// Responses whose items one request may refer to.
const MAX_REFERENCED_RESPONSES: usize = 16;

fn not_found(stored: &StoredResponses, id: &str) -> Error {
    let id: String = id.chars().take(64).collect();
    let message = match stored.is_on() {
        true => format!("Invalid 'previous_response_id': previous response with id '{id}' not found."),
        false => "Invalid 'previous_response_id': this gateway stores no responses (the setting 'store' of [responses] \
                  is \"off\"). Send the whole conversation in 'input'."
            .to_owned(),
    };
    Error { code: Some("previous_response_not_found".into()), ..Error::new(Kind::Invalid, message) }
}

/// All items of a conversation up to this response and with its output.
fn conversation(response: &StoredResponse) -> Vec<Bytes> {
    let mut items = response.history.clone();
    items.extend(response.input.iter().map(|item| Bytes::copy_from_slice(item.as_bytes())));
    if let Ok(text) = std::str::from_utf8(&response.document) {
        let [output] = View::new(text).pick(["output"]);
        let output = output.into_iter().flat_map(View::elements);
        // A copy: a slice would keep the whole document in memory, which nobody counts.
        items.extend(output.map(|item| Bytes::copy_from_slice(item.text().as_bytes())));
    }
    items
}

/// Stores the final object of a response.
fn keep(stored: &Arc<StoredResponses>, owner: &Arc<str>, id: &str, made: Made) -> Keep {
    let (stored, owner, id) = (Arc::clone(stored), Arc::clone(owner), id.to_owned());
    let Made { input, history, is_background, .. } = made;
    Box::new(move |document| {
        Box::pin(async move {
            // The document of an upstream that speaks this dialect has the upstream's id.
            let id = id_of(&document).unwrap_or(id);
            let expires_at = stored.expiry();
            let response = StoredResponse { document, input, history, expires_at, running_until: None };
            // The client has its answer; only a later request that refers to it will fail.
            let _ = match is_background {
                true => stored.finish(&owner, &id, response).await.map(|_| ()),
                false => stored.save(&owner, &id, response).await,
            };
        })
    })
}

/// The model as the client wrote it.
fn model_of(body: &[u8]) -> String {
    let [model] = View::new(std::str::from_utf8(body).unwrap_or("null")).pick(["model"]);
    model.and_then(View::string).unwrap_or_default().into_owned()
}

/// The id of a response object.
fn id_of(document: &[u8]) -> Option<String> {
    let [id] = View::new(std::str::from_utf8(document).ok()?).pick(["id"]);
    id?.string().map(Cow::into_owned)
}

/// Runs a response without its client.
async fn background(
    engine: &Arc<Engine>,
    mut call: Box<Call>,
    made: Made,
    owner: &Arc<str>,
) -> Result<Reply> {
    let services = engine.services();
    let stored = Arc::clone(&services.stored_responses);
    let place = match stored.background.take_place(owner) {
        Ok(place) => place,
        Err(error) => {
            call.fail(&error);
            return Err(error);
        }
    };
    let id = call.context.id.clone();
    let opening = EncoderOpening {
        id: id.clone(),
        created: call.context.created,
        model: call.context.request.model().to_owned(),
        prompt_tokens: 0,
    };
    let (context, keepalive) = (made.context.clone(), call.context.client.keepalive);
    let is_stream = made.is_stream;
    let pending = StoredResponse {
        document: context.write_pending(&opening, "in_progress").into(),
        input: made.input.clone(),
        history: made.history.clone(),
        expires_at: stored.expiry(),
        running_until: None,
    };
    let keep = keep(&stored, owner, &id, made);
    let mut stream = execute_as_stream(services, call).await?;
    stream.record(keep);
    let (hand_over, record) = RecordHandOver::new();
    let task = BackgroundTask { owner: Arc::clone(owner), id: id.clone(), pending, stream, record, place };
    // A task that ends without a word was stopped: somebody guessed the id.
    stored.background.start(&stored, task).await.unwrap_or_else(|_| Err(missing(&id)))?;
    let events = if is_stream { stored.background.follow(owner, &id, None) } else { None };
    let body = match events {
        // It ends when the response does, which a shutdown ends itself.
        Some(events) => {
            ReplyBody::Stream(Box::new(EventStream::background(events, keepalive, CutoffWatch::default())))
        }
        None => ReplyBody::Full(context.write_pending(&opening, "queued").into()),
    };
    let body = ReplyBody::Background(Box::new(BackgroundReply { body, hand_over }));
    Ok(Reply { headers: Vec::new(), body })
}

/// The text of a stored object.
fn text_of(document: &[u8]) -> &str {
    std::str::from_utf8(document).unwrap_or("null")
}

fn is_background(document: &[u8]) -> bool {
    let [background] = View::new(text_of(document)).pick(["background"]);
    background.is_some_and(|value| value.text() == "true")
}

fn is_over(document: &[u8]) -> bool {
    states::is_final(&states::status(text_of(document)))
}

impl Engine {
    /// `POST /v1/responses`.
    ///
    /// # Errors
    /// As [`Engine::chat`], and `previous_response_not_found`.
    pub async fn responses(self: Arc<Self>, context: RequestContext, body: Bytes) -> Result<Reply> {
        create(&self, context, body).await
    }

    /// `GET /v1/responses/{id}`.
    ///
    /// # Errors
    /// `not_found` or `store_unavailable`.
    pub async fn stored_response(&self, caller: &Caller, id: &str) -> Result<Arc<StoredResponse>> {
        let found = self.services().stored_responses.load(caller.key_id(), id).await?;
        found.ok_or_else(|| missing(id))
    }

    /// `DELETE /v1/responses/{id}`. A response in the background is stopped, too.
    ///
    /// # Errors
    /// As [`Engine::stored_response`].
    pub async fn delete_response(&self, caller: &Caller, id: &str) -> Result<()> {
        let stored = &self.services().stored_responses;
        stored.background.stop(caller.key_id(), id);
        match stored.delete(caller.key_id(), id).await? {
            true => Ok(()),
            false => Err(missing(id)),
        }
    }

    /// `POST /v1/responses/{id}/cancel`; gives the response object.
    ///
    /// # Errors
    /// As [`Engine::stored_response`], and a 400 for a response that is not made in the background.
    pub async fn cancel_response(&self, caller: &Caller, id: &str) -> Result<Bytes> {
        let found = self.stored_response(caller, id).await?;
        if !is_background(&found.document) {
            let message = "Only a response with 'background: true' can be cancelled.";
            return Err(Error::new(Kind::Invalid, message));
        }
        if is_over(&found.document) {
            return Ok(found.document.clone());
        }
        let stored = &self.services().stored_responses;
        stored.background.stop(caller.key_id(), id);
        // The response may have ended since it was read.
        let found = self.stored_response(caller, id).await?;
        if is_over(&found.document) {
            return Ok(found.document.clone());
        }
        let document = Bytes::from(states::cancelled(text_of(&found.document)));
        let cancelled = StoredResponse { document: document.clone(), ..StoredResponse::clone(&found) };
        match stored.finish(caller.key_id(), id, cancelled).await? {
            true => Ok(document),
            // It runs in another process, where it ended a moment ago.
            false => Ok(self.stored_response(caller, id).await?.document.clone()),
        }
    }

    /// `GET /v1/responses/{id}?stream=true`: the events after `starting_after`.
    ///
    /// # Errors
    /// As [`Engine::stored_response`], and a 400 for a response that runs in another process.
    pub async fn follow_response(
        &self,
        caller: &Caller,
        id: &str,
        starting_after: Option<u64>,
    ) -> Result<Box<EventStream>> {
        let found = self.stored_response(caller, id).await?;
        let services = self.services();
        let running = services.stored_responses.background.follow(caller.key_id(), id, starting_after);
        if let Some(events) = running {
            return Ok(Box::new(EventStream::background(events, None, CutoffWatch::default())));
        }
        let found = if is_over(&found.document) { found } else { self.stored_response(caller, id).await? };
        if !is_over(&found.document) {
            let message =
                "Invalid 'stream': this response is in progress and cannot be followed. Poll it instead.";
            return Err(Error::new(Kind::Invalid, message));
        }
        let events = replay(text_of(&found.document), starting_after);
        Ok(Box::new(EventStream::ready(events, crate::clock::now() + REPLAY_TIME)))
    }
}

/// The time in which a client must read a replayed response.
const REPLAY_TIME: std::time::Duration = std::time::Duration::from_secs(600);

fn missing(id: &str) -> Error {
    let id: String = id.chars().take(64).collect();
    Error::new(Kind::NotFound, format!("Response with id '{id}' not found."))
}

/// Reads the body of `POST /v1/responses/input_tokens`.
///
/// # Errors
/// The first fault.
pub(crate) fn parse_count(
    body: Bytes,
    limits: &RequestLimits,
    earlier: &[Bytes],
) -> Result<ValidatedRequest> {
    let texts: Vec<&str> = earlier.iter().filter_map(|item| std::str::from_utf8(item).ok()).collect();
    let request = responses::translate(body, limits, &texts)?;
    let mut client = request.client(request.context.clone());
    client.need = NativeNeed::None;
    validated(request.chat, client, &ClientSurface::default(), limits)
}
