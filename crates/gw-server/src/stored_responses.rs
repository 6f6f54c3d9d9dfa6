//! `/v1/responses/{id}`: stored responses.

use std::sync::Arc;

use gw_engine::catalog::query::{Query, invalid};
use gw_engine::error::Result;
use gw_engine::{Caller, Engine, StoredObject};
use gw_wire::dialects::responses::documents::deleted;
use gw_wire::dialects::responses::item_page::ItemPage;
use http::Method;
use http::request::Parts;

use crate::generate::admitted;
use crate::request_record::RequestRecord;
use crate::response::{ExtraHeaders, GatewayReply, HttpReply};

/// The URLs below a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredResponseAction {
    /// `GET` and `DELETE /v1/responses/{id}`.
    Object,
    /// `POST /v1/responses/{id}/cancel`.
    Cancel,
    /// `GET /v1/responses/{id}/input_items`.
    InputItems,
}

/// The page size of `input_items` without `limit`, and the largest one.
const DEFAULT_PAGE: usize = 20;
const MAX_PAGE: usize = 100;

/// Answers a question about a stored response of the caller. The request counts in the limits of its key until its answer
/// has been taken.
pub(crate) async fn answer(
    parts: &Parts,
    record: &mut RequestRecord,
    caller: Caller,
    action: StoredResponseAction,
    id: &str,
    extra: &mut ExtraHeaders,
) -> Result<GatewayReply> {
    let engine = Arc::clone(&record.state.engine);
    let (id, query) = (id.to_owned(), parts.uri.query().unwrap_or_default().to_owned());
    let is_delete = parts.method == Method::DELETE;
    let is_poll = match action {
        StoredResponseAction::Object => !is_delete && is_stream(&Query::parse(&query)).is_ok_and(|is| !is),
        StoredResponseAction::Cancel => true,
        StoredResponseAction::InputItems => false,
    };
    let admission = engine.admit_reading(&caller, &record.request_id, is_poll.then_some(id.as_str())).await;
    record.admission_permit = Some(admitted(admission, extra)?);
    let cpu = engine.cpu_of(&caller);
    cpu.host(async move { read(&engine, &caller, action, &id, &query, is_delete).await }).await
}

async fn read(
    engine: &Engine,
    caller: &Caller,
    action: StoredResponseAction,
    id: &str,
    query: &str,
    is_delete: bool,
) -> Result<GatewayReply> {
    let query = Query::parse(query);
    match action {
        StoredResponseAction::Cancel => engine.cancel_response(caller, id).await.map(object),
        StoredResponseAction::InputItems => {
            engine.input_items(caller, id, page(&query)?).await.map(HttpReply::json_pieces)
        }
        StoredResponseAction::Object if is_delete => {
            engine.delete_response(caller, id).await?;
            Ok(HttpReply::json(deleted(id)))
        }
        StoredResponseAction::Object if is_stream(&query)? => {
            let after = query.whole("starting_after", 0)?.map(|after| after as u64);
            engine.follow_response(caller, id, after).await.map(HttpReply::events)
        }
        StoredResponseAction::Object => engine.response_object(caller, id).await.map(object),
    }
}

fn object(found: StoredObject) -> GatewayReply {
    match found {
        StoredObject::Whole(object) => HttpReply::json(object),
        StoredObject::Pieces(pieces) => HttpReply::json_pieces(pieces),
    }
}

/// Whether the response is asked for as a stream.
fn is_stream(query: &Query) -> Result<bool> {
    match query.last("stream") {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(invalid("invalid_type", "Invalid type for 'stream': expected a boolean.")),
    }
}

fn page(query: &Query) -> Result<ItemPage<'_>> {
    let limit = query.whole("limit", 1)?.unwrap_or(DEFAULT_PAGE);
    if limit > MAX_PAGE {
        return Err(invalid("integer_above_max_value", "Invalid 'limit': expected a value <= 100."));
    }
    let is_descending = match query.last("order") {
        None | Some("desc") => true,
        Some("asc") => false,
        Some(_) => return Err(invalid("invalid_value", "Invalid 'order': expected 'asc' or 'desc'.")),
    };
    Ok(ItemPage { limit, is_descending, after: query.last("after") })
}
