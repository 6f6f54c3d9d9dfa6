//! `/v1/responses`: a request of the Responses API becomes a chat, and its answer is written in that API's form. Answers
//! can be stored, so that a client retrieves, continues, follows and cancels them.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use gw_wire::dialects::responses::input_items::input_items;
use gw_wire::dialects::responses::native::{EncryptedContent, Forwarding, for_upstream};
use gw_wire::dialects::responses::request::summary_item;
use gw_wire::dialects::responses::{self, EarlierItems, ResponsesContext, ResponsesRequest, states};
use gw_wire::dialects::{ClientDialect, EncoderOpening, NativeBody, NativeNeed};
use gw_wire::json::View;
use gw_wire::operation::Operation;
use gw_wire::request::{Body, Invalid, RequestLimits};

use crate::call::Call;
use crate::compaction::SummarySealer;
use crate::cpu_pool::{CpuPool, is_heavy, offload_if};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::execute::execute_as_stream;
use crate::messages::validated;
use crate::pipeline;
use crate::plan::tenant_policy::is_forwarded;
use crate::read_memory::READER_BYTES;
use crate::request::ValidatedRequest;
use crate::request::context::{ClientSurface, RequestContext};
use crate::response::event_stream::EventStream;
use crate::response::event_stream::recording::Keep;
use crate::response::hand_over::RecordHandOver;
use crate::response::reply::{BackgroundReply, Reply, ReplyBody};
use crate::services::Services;
use crate::shutdown::CutoffWatch;
use crate::stored_responses::conversation::ConversationBounds;
use crate::stored_responses::stored_response::{missing, text_of};
use crate::stored_responses::{
    BackgroundTask, Kept, KeptInput, StoredConversation, StoredResponse, StoredResponses, TurnFacts,
};

/// The parts of a request that its stored response keeps.
struct Made {
    context: ResponsesContext,
    /// The answer is stored.
    is_stored: bool,
    is_background: bool,
    is_stream: bool,
    input: KeptInput,
}

/// Answers a request.
///
/// # Errors
/// Every refusal of the request, and the error of its last attempt.
pub(crate) async fn create(
    engine: &Arc<Engine>,
    mut client: Box<RequestContext>,
    body: Bytes,
) -> Result<Reply> {
    let services = engine.services();
    let own = client.surface.own_body.take();
    let stored = Arc::clone(&services.stored_responses);
    let owner = Arc::clone(client.caller.key_id());
    let limits = services.snapshot().request_limits;
    let (wanted, outline) = offload_if(is_heavy(&body), || responses::outline(&body, &limits)).await;
    let bounds = ConversationBounds { body_bytes: body.len(), limits: &limits };
    let (mut earlier, mut refusal) = match stored.conversation(&owner, &wanted, bounds).await {
        Ok(earlier) => (earlier, None),
        Err(refusal) => (StoredConversation::default(), Some(refusal)),
    };
    if wanted.store && refusal.is_none() {
        refusal = stored.check_room(&owner, body.len(), &earlier).await.err();
    }
    let memory = earlier.take_permit();
    let is_heavy = is_heavy(&body) || own.as_ref().is_some_and(|own| is_heavy(own)) || earlier.is_heavy();
    let surface = client.surface.clone();
    let summaries = SummarySealer::new(&services.sealer, &client.caller);
    let (is_plain, can_store) = (surface.is_plain, stored.is_on());
    let (mut made, mut has_history) = (None, false);
    let parse = |body: Bytes, limits: &RequestLimits| {
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let texts = earlier.texts();
        let has_summary = Cell::new(false);
        let opener = |sealed: &str| summaries.open(sealed).inspect(|_| has_summary.set(true));
        let known = EarlierItems {
            items: &texts,
            candidates: earlier.candidates(),
            open_compaction: Some(&opener),
            closing_message: None,
            own_body: own.as_ref(),
        };
        let request = translate(outline, body, limits, &known)?;
        if request.background && !(can_store && request.store) {
            return Err(no_background(can_store));
        }
        let is_stored = can_store && request.store;
        let context = request.context.clone().with_plain(is_plain).with_stored(is_stored);
        let place = texts.len().saturating_sub(earlier.candidates());
        let input = is_stored.then(|| input_items(&request.native.bytes, &texts, place));
        let (is_background, is_stream) = (request.background, request.stream);
        let mut client = request.client(context.clone());
        // No upstream knows the stored items, so they go along.
        if !texts.is_empty() {
            // A response in the background is read as a stream, so that its client can follow it.
            let streams = request.background;
            let candidates = earlier.candidates();
            let forwarding = Forwarding { streams, history: &texts, candidates, ..Forwarding::default() };
            client.native = with_history(&client.native, forwarding, &summaries);
        } else if has_summary.get() {
            client.native.bytes = rewritten(&client.native, Forwarding::default(), &summaries);
        }
        has_history = !texts.is_empty();
        let validated = validated(request.chat, client, &surface, limits)?;
        let input = input.map(|input| KeptInput::new(input, validated.body().bytes())).unwrap_or_default();
        made = Some(Made { context, is_stored, is_background, is_stream, input });
        Ok(validated)
    };
    let mut call =
        pipeline::begin_sized(services, Operation::Responses, client, body, is_heavy, parse).await?;
    // The client's own body would take memory until the answer ends.
    drop(own);
    call.context.conversation_memory = memory;
    let Some(made) = made else { return Err(Error::new(Kind::InternalError, "The request was not read.")) };
    let cpu = services.cpu_pool.of(&owner);
    let streams = (made.is_stored && !has_history).then_some(made.is_background);
    offload_if(is_heavy, || settle_own_body(&mut call, streams, &summaries)).await;
    let keeper = Keeper { stored, owner, id: call.context.id.clone(), before: Arc::new(earlier), cpu };
    if made.is_background {
        return background(engine, call, made, keeper).await;
    }
    answer(services, call, made, keeper).await
}

/// Answers a call in the foreground, and keeps the answer if the client wants it stored.
async fn answer(services: &Services, call: Box<Call>, made: Made, keeper: Keeper) -> Result<Reply> {
    let keep = made.is_stored.then(|| keeper.keep(made));
    let mut reply = pipeline::answer(services, call).await?;
    if let Some(keep) = keep {
        match &mut reply.body {
            ReplyBody::Full(document) => {
                if !keep(document.clone()).await {
                    *document = states::not_stored(text_of(document)).into();
                }
            }
            ReplyBody::Stream(stream) => stream.record(keep),
            ReplyBody::Background(_) => {}
        }
    }
    Ok(reply)
}

/// Translates a body that was read once. A body without an outline has a fault, which the error names.
fn translate(
    outline: Option<Body>,
    body: Bytes,
    limits: &RequestLimits,
    known: &EarlierItems<'_>,
) -> std::result::Result<ResponsesRequest, Invalid> {
    match outline {
        Some(body) => responses::translate_body(&body, limits, known),
        None => responses::translate_with(body, limits, known),
    }
}

/// The body for an upstream of this dialect, with the stored items in it.
fn with_history(native: &NativeBody, forwarding: Forwarding<'_>, summaries: &SummarySealer) -> NativeBody {
    NativeBody { bytes: rewritten(native, forwarding, summaries), is_kept_here: true, ..native.clone() }
}

/// The body for an upstream of this dialect, with the caller's summaries in words. The upstream's adapter judges its reasoning.
fn rewritten(native: &NativeBody, forwarding: Forwarding<'_>, summaries: &SummarySealer) -> Bytes {
    let model = model_of(&native.bytes);
    let open = |sealed: Option<&str>| match sealed.and_then(|sealed| summaries.open(sealed)) {
        Some(summary) => EncryptedContent::ReplaceItem(summary_item(&summary)),
        None => EncryptedContent::Keep,
    };
    for_upstream(native, &Forwarding { model: &model, ..forwarding }, open, |_| None).into()
}

/// Prepares the client's own body for the upstreams of the plan that get it. If there is none, the body is dropped
/// before the call: a large one would take memory until the answer ends. `streams` is for a body that is not prepared yet: the
/// upstream streams, although the client may not have asked for it.
fn settle_own_body(call: &mut Call, streams: Option<bool>, summaries: &SummarySealer) {
    let Call { context, plan, .. } = call;
    let ValidatedRequest::Chat(request) = &mut context.request else { return };
    let Some(client) = &mut request.client else { return };
    if !plan.candidates.iter().any(|candidate| is_forwarded(candidate, client)) {
        // A provider that learns this dialect in the meantime must not get the empty body.
        client.native.dialect = ClientDialect::OpenAi;
        client.native.bytes = Bytes::new();
    } else if let Some(streams) = streams {
        let forwarding = Forwarding { streams, ..Forwarding::default() };
        client.native = with_history(&client.native, forwarding, summaries);
    }
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

/// Stores the final object of a response.
struct Keeper {
    stored: Arc<StoredResponses>,
    owner: Arc<str>,
    id: String,
    /// The conversation before the request.
    before: Arc<StoredConversation>,
    cpu: CpuPool,
}

impl Keeper {
    /// The work at the end of the answer. It runs where the stream is read, so its heavy steps go to the CPU pool.
    fn keep(self, made: Made) -> Keep {
        let Self { stored, owner, id, before, cpu } = self;
        let Made { input, is_background, is_stream, .. } = made;
        Box::new(move |document| {
            Box::pin(cpu.host(async move {
                // The document of an upstream that speaks this dialect has the upstream's id.
                let id = id_of(&document).unwrap_or(id);
                let turn = TurnFacts { is_streamed: is_stream || is_background, ..TurnFacts::default() };
                // The chat, which the input shares its strings with, is not needed any more.
                let input = input.into_joined();
                let response =
                    |document| StoredResponse::new([document, input, Bytes::new()], turn, stored.expiry());
                if !is_background {
                    let saved = stored.save(&owner, &id, response(document), &before).await;
                    // The client has its answer, which says that a later request cannot refer to it.
                    return saved.is_ok_and(|kept| kept == Kept::Stored);
                }
                let whole = response(document);
                let failed = || {
                    let failed =
                        states::failed_without_output(whole.text(), "server_error", LARGER_THAN_STORE);
                    whole.with_document(failed.into())
                };
                if let Ok(Kept::TooLarge) = stored.finish(&owner, &id, whole.clone(), &before).await
                    && let Ok(Kept::TooLarge) = stored.finish(&owner, &id, failed(), &before).await
                    // The object of its beginning holds the room for its failure.
                    && let Err(error) = stored.fail(&owner, &id, LARGER_THAN_STORE).await
                {
                    tracing::warn!(?error, "the failure of a response in the background was not stored");
                }
                true
            }))
        })
    }
}

/// The error of a response in the background whose answer has no room.
const LARGER_THAN_STORE: &str = "The answer is larger than the store of responses (settings 'max_mib' and 'max_mib_per_key' of [responses]).";

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
async fn background(engine: &Arc<Engine>, mut call: Box<Call>, made: Made, keeper: Keeper) -> Result<Reply> {
    let services = engine.services();
    let (stored, owner) = (Arc::clone(&keeper.stored), Arc::clone(&keeper.owner));
    // A client that follows the response counts as one that reads a stored response.
    let reader = || made.is_stream.then(|| stored.reading.hold(&owner, READER_BYTES)).transpose();
    let taken = services.background_responses.take_place(&owner).and_then(|place| Ok((place, reader()?)));
    let (place, reader) = match taken {
        Ok(taken) => taken,
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
    let document = Bytes::from(context.write_pending(&opening, "in_progress"));
    let turn = TurnFacts { is_streamed: true, ..TurnFacts::default() };
    let pending = StoredResponse::new([document, made.input.joined(), Bytes::new()], turn, stored.expiry());
    let before = Arc::clone(&keeper.before);
    let cpu = keeper.cpu.clone();
    let keep = keeper.keep(made);
    let mut stream = execute_as_stream(services, call).await?;
    stream.record(keep);
    let (hand_over, record) = RecordHandOver::new();
    let task = BackgroundTask {
        owner: Arc::clone(&owner),
        id: id.clone(),
        pending,
        before,
        stream,
        record,
        place,
        cpu,
    };
    // A task that ends without a report was stopped by a request that guessed its id.
    services.background_responses.start(&stored, task).await.unwrap_or_else(|_| Err(missing(&id)))?;
    let events =
        reader.and_then(|reader| Some((services.background_responses.follow(&owner, &id, None)?, reader)));
    let body = match events {
        // It ends when the response does, which a shutdown ends itself.
        Some((events, reader)) => {
            let cut = CutoffWatch::default();
            ReplyBody::Stream(Box::new(EventStream::background(events, reader, keepalive, cut)))
        }
        None => ReplyBody::Full(context.write_pending(&opening, "queued").into()),
    };
    let body = ReplyBody::Background(Box::new(BackgroundReply { body, hand_over }));
    Ok(Reply { headers: Vec::new(), body })
}

impl Engine {
    /// `POST /v1/responses`.
    ///
    /// # Errors
    /// As [`Engine::chat`], and `previous_response_not_found`.
    pub async fn responses(self: Arc<Self>, context: Box<RequestContext>, body: Bytes) -> Result<Reply> {
        create(&self, context, body).await
    }
}

/// Reads the body of `POST /v1/responses/input_tokens`.
///
/// # Errors
/// The first fault.
pub(crate) fn parse_count(
    body: Bytes,
    limits: &RequestLimits,
    earlier: &StoredConversation,
    summaries: &SummarySealer,
) -> Result<ValidatedRequest> {
    let texts = earlier.texts();
    let opener = |sealed: &str| summaries.open(sealed);
    let known = EarlierItems {
        items: &texts,
        candidates: earlier.candidates(),
        open_compaction: Some(&opener),
        ..EarlierItems::default()
    };
    let request = responses::translate_with(body, limits, &known)?;
    let mut client = request.client(request.context.clone());
    client.need = NativeNeed::None;
    validated(request.chat, client, &ClientSurface::default(), limits)
}
