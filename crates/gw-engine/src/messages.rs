//! `POST /v1/messages`: a request of the Messages API becomes a chat, and its answer is written in that API's form.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use gw_wire::dialects::messages::errors::THREAD_NOT_FOUND;
use gw_wire::dialects::{ClientDialect, ClientRequest, NativeBody, messages};
use gw_wire::event::Event;
use gw_wire::gateway::GatewayMeta;
use gw_wire::json::View;
use gw_wire::money::Money;
use gw_wire::operation::Operation;
use gw_wire::render::Envelope;
use gw_wire::reply::{ChatChoice, ChatReply, Finish};
use gw_wire::request::{RequestLimits, chat};
use gw_wire::usage::Usage;

use crate::auth::Caller;
use crate::call::Call;
use crate::error::{Error, Kind, Result};
use crate::execute::opening;
use crate::pipeline;
use crate::plan::routing_state::RoutingState;
use crate::request::ValidatedRequest;
use crate::request::context::{ClientSurface, RequestContext};
use crate::response::headers::reply_headers;
use crate::response::reply::{Reply, ReplyBody};
use crate::services::Services;

/// Answers a request.
///
/// # Errors
/// Every refusal of the request, and the error of its last attempt.
pub(crate) async fn create(services: &Services, client: Box<RequestContext>, body: Bytes) -> Result<Reply> {
    let surface = client.surface.clone();
    let (state, caller) = (Arc::clone(&services.snapshot().state), client.caller.clone());
    let mut warms_cache = false;
    let parse = |body, limits: &RequestLimits| {
        let mut request = messages::translate(body, limits)?;
        request.context.plain = surface.is_plain;
        warms_cache = request.context.warms_cache;
        own_thread(&request.native, &state, &caller)?;
        if request.native.policy.keeps_thread {
            request.context.answer_ids =
                messages::AnswerIds::new(move |id| state.threads.note(caller.key_id(), id));
        }
        let (chat, client) = request.into_parts();
        validated(chat, client, &surface, limits)
    };
    let call = pipeline::begin(services, Operation::Messages, client, body, parse).await?;
    let overflow = Overflow::of(&call);
    if warms_cache && !is_native(&call) {
        return empty(call);
    }
    pipeline::answer(services, call).await.map_err(|error| overflow.explain(error))
}

/// Checks that the key itself got the message with which the request continues a thread. The provider would continue the
/// thread of any key, because it knows the operator's account only.
///
/// # Errors
/// `thread_not_found`.
pub(crate) fn own_thread(native: &NativeBody, state: &RoutingState, caller: &Caller) -> Result<()> {
    if !native.policy.inner.holds_history {
        return Ok(());
    }
    let [thread] = View::new(std::str::from_utf8(&native.bytes).unwrap_or("{}")).pick(["thread"]);
    let [id] = thread.map_or([None], |thread| thread.pick(["previous_message_id"]));
    let id = id.and_then(View::string);
    if id.is_some_and(|id| state.threads.has(caller.key_id(), &id)) {
        return Ok(());
    }
    let message = "thread: the gateway knows no such message of this key. Send the whole conversation.";
    Err(Error { code: Some(THREAD_NOT_FOUND.into()), ..Error::new(Kind::Invalid, message) })
}

/// The chat form of a translated request, with the client's own form beside it.
pub(crate) fn validated(
    chat: Vec<u8>,
    mut client: ClientRequest,
    surface: &ClientSurface,
    limits: &RequestLimits,
) -> Result<ValidatedRequest> {
    client.headers = surface
        .forwarded
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().into(), value.to_str().ok()?.into())))
        .collect();
    let request = chat::parse_chat(Bytes::from(chat), limits)?.with_client(client);
    Ok(ValidatedRequest::Chat(Box::new(request)))
}

/// Whether the candidates speak the Messages API themselves. The plan of a request that fills a prompt cache has no others
/// beside them.
fn is_native(call: &Call) -> bool {
    call.plan.candidates.first().is_some_and(|first| first.speaks(ClientDialect::Messages))
}

/// The answer to `max_tokens: 0`, which only fills a provider's prompt cache: an empty message without an upstream call.
fn empty(mut call: Box<Call>) -> Result<Reply> {
    let no_candidate = || Error::new(Kind::InternalError, "The plan has no candidate.");
    let first = call.plan.candidates.first().cloned().ok_or_else(no_candidate)?;
    let form =
        call.context.request.client().map(|client| Arc::clone(&client.form)).ok_or_else(no_candidate)?;
    let gateway: GatewayMeta = call.meta(&first, true);
    let headers = reply_headers(Some(&first));
    let (usage, cost) = (Usage::default(), Some(Money::ZERO));
    call.finish_without_upstream();
    if call.context.request.wants_stream() {
        let mut out = Vec::new();
        if let Some(mut encoder) = opening(&call).encoder() {
            let model = Some(Cow::Borrowed(&*first.model.upstream_model));
            encoder.accept(&Event::Start { model, fingerprint: None }, &mut out);
            let closing = gw_wire::stream::Closing { usage, cost, gateway: &gateway };
            encoder.finish(Some(Finish::Stop), &closing, &mut out);
        }
        let due = call.context.client.accepted + call.plan.longest_total();
        let stream = crate::response::event_stream::EventStream::ready(out, due);
        return Ok(Reply { headers, body: ReplyBody::Stream(Box::new(stream)) });
    }
    // An answer without a choice would be one that was filtered.
    let choice = ChatChoice { finish: Some(Finish::Stop), ..ChatChoice::default() };
    let body = form.write(
        &ChatReply { choices: vec![choice], ..ChatReply::default() },
        &Envelope {
            id: &call.context.id,
            created: call.context.created,
            model: &first.model.upstream_model,
            fingerprint: "",
            usage,
            cost,
            gateway: &gateway,
        },
    );
    Ok(Reply { headers, body: ReplyBody::Full(body.into()) })
}

/// The sizes of a request and of its model's context, for the message about a prompt that is too long.
struct Overflow {
    tokens: u64,
    maximum: Option<u64>,
}

impl Overflow {
    fn of(call: &Call) -> Self {
        let first = call.plan.candidates.first();
        Self {
            tokens: first.map_or(0, |first| call.context.request.prompt_tokens(first)),
            maximum: first.and_then(|first| first.model.context_length),
        }
    }

    /// Puts the numbers into an error about a prompt that is too long, because clients shorten the conversation by them.
    fn explain(&self, mut error: Error) -> Error {
        if error.kind != Kind::ContextLengthExceeded {
            return error;
        }
        let told = messages::overflow::recognise(&error.message).unwrap_or_default();
        let tokens = told.tokens.unwrap_or(self.tokens);
        // An upstream that counts no more than the catalogue's maximum has a smaller context than the catalogue says.
        let of_catalogue = self.maximum.filter(|maximum| told.tokens.is_none_or(|tokens| tokens > *maximum));
        if let Some(maximum) = of_catalogue.or(told.maximum).or(self.maximum) {
            error.message = messages::overflow::message(tokens, maximum).into();
        }
        error
    }
}

/// Reads the body of `POST /v1/messages/count_tokens`.
///
/// # Errors
/// The first fault.
pub(crate) fn parse_count(
    body: Bytes,
    surface: &ClientSurface,
    limits: &RequestLimits,
    state: &RoutingState,
    caller: &Caller,
) -> Result<ValidatedRequest> {
    let request = messages::translate_count(body, limits)?;
    own_thread(&request.native, state, caller)?;
    let (chat, client) = request.into_parts();
    validated(chat, client, surface, limits)
}
