//! The methods of a model in Google's Gemini API: a request becomes a chat or an embeddings request, and its answer is written
//! in that API's form.

use bytes::Bytes;
use gw_wire::dialects::gemini::{self, GeminiMethod, GeminiRequest};
use gw_wire::operation::{Operation, PlainOperation};
use gw_wire::request::RequestLimits;

use crate::cpu_pool::{is_heavy, offload_if};
use crate::error::{Error, Kind, Result};
use crate::messages::validated;
use crate::pipeline;
use crate::request::ValidatedRequest;
use crate::request::context::{ClientSurface, GeminiUrl, RequestContext};
use crate::request::operation::parse;
use crate::response::reply::{Reply, ReplyBody};
use crate::services::Services;

/// Answers a request.
///
/// # Errors
/// Every refusal of the request, and the error of its last attempt.
pub(crate) async fn create(services: &Services, client: Box<RequestContext>, body: Bytes) -> Result<Reply> {
    match url(&client.surface)?.method {
        // The edge has counts answered by `count_tokens.rs`.
        GeminiMethod::Generate | GeminiMethod::Stream | GeminiMethod::CountTokens => {
            generate(services, client, body).await
        }
        GeminiMethod::Embed => Box::pin(embed(services, client, body, false)).await,
        GeminiMethod::BatchEmbed => Box::pin(embed(services, client, body, true)).await,
    }
}

/// The facts in the URL.
fn url(surface: &ClientSurface) -> Result<&GeminiUrl> {
    let no_url = || Error::new(Kind::InternalError, "The request names no method of a model.");
    surface.gemini.as_deref().ok_or_else(no_url)
}

/// `generateContent` and `streamGenerateContent`.
async fn generate(services: &Services, client: Box<RequestContext>, body: Bytes) -> Result<Reply> {
    let surface = client.surface.clone();
    let parse = |body, limits: &RequestLimits| {
        let url = url(&surface)?;
        let is_stream = url.method == GeminiMethod::Stream;
        let mut request = gemini::translate(body, &url.model, is_stream, limits)?;
        request.context.is_array = url.is_array;
        as_chat(request, &surface, limits)
    };
    let call = pipeline::begin(services, Operation::Gemini, client, body, parse).await?;
    pipeline::answer(services, call).await
}

fn as_chat(
    request: GeminiRequest,
    surface: &ClientSurface,
    limits: &RequestLimits,
) -> Result<ValidatedRequest> {
    let (chat, client) = request.into_parts();
    validated(chat, client, surface, limits)
}

/// Reads the body of `countTokens`.
///
/// # Errors
/// The first fault.
pub(crate) fn parse_count(
    body: Bytes,
    surface: &ClientSurface,
    limits: &RequestLimits,
) -> Result<ValidatedRequest> {
    as_chat(gemini::translate_count(body, &url(surface)?.model, limits)?, surface, limits)
}

/// `embedContent` and `batchEmbedContents`.
async fn embed(
    services: &Services,
    client: Box<RequestContext>,
    body: Bytes,
    is_batch: bool,
) -> Result<Reply> {
    let surface = client.surface.clone();
    let read = |body, limits: &RequestLimits| {
        let request = gemini::translate_embed(body, &url(&surface)?.model, is_batch, limits)?;
        parse(PlainOperation::Embeddings, request.body.into(), limits)
    };
    let call = pipeline::begin(services, Operation::Gemini, client, body, read).await?;
    let mut reply = pipeline::answer(services, call).await?;
    if let ReplyBody::Full(body) = &reply.body {
        let write = || gemini::embeddings_body(std::str::from_utf8(body).ok()?, is_batch);
        let written = offload_if(is_heavy(body), write).await;
        let broken = || Error::new(Kind::InternalError, "The vectors cannot be written.");
        reply.body = ReplyBody::Full(written.ok_or_else(broken)?.into());
    }
    Ok(reply)
}
