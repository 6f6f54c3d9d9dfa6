//! `/v1/responses/{id}`: stored responses.

use gw_engine::Caller;
use gw_engine::catalog::query::{Query, invalid};
use gw_engine::error::Result;
use gw_wire::dialects::responses::documents::deleted;
use gw_wire::dialects::responses::input_items::{ItemPage, write_page};
use http::Method;
use http::request::Parts;

use crate::response::{GatewayReply, HttpReply};
use crate::state::ServerState;

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

/// Answers a question about a stored response of the caller.
pub(crate) async fn answer(
    state: &ServerState,
    parts: &Parts,
    caller: &Caller,
    action: StoredResponseAction,
    id: &str,
) -> Result<GatewayReply> {
    let engine = &state.engine;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    match action {
        StoredResponseAction::Cancel => engine.cancel_response(caller, id).await.map(HttpReply::json),
        StoredResponseAction::InputItems => {
            let found = engine.stored_response(caller, id).await?;
            Ok(HttpReply::json(write_page(&found.input, &page(&query)?)))
        }
        StoredResponseAction::Object if parts.method == Method::DELETE => {
            engine.delete_response(caller, id).await?;
            Ok(HttpReply::json(deleted(id)))
        }
        StoredResponseAction::Object if is_stream(&query)? => {
            let after = query.whole("starting_after", 0)?.map(|after| after as u64);
            engine.follow_response(caller, id, after).await.map(HttpReply::events)
        }
        StoredResponseAction::Object => {
            let found = engine.stored_response(caller, id).await?;
            Ok(HttpReply::json(found.document.clone()))
        }
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
