//! `/v1/models`: the model catalogue, answered from the engine's memory.

use gw_engine::Caller;
use gw_engine::error::{Error, Kind, Result};

use crate::response::{GatewayReply, HttpReply};
use crate::state::ServerState;

/// A request for the catalogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogueCall<'a> {
    pub(crate) caller: &'a Caller,
    /// The query string without its `?`.
    pub(crate) query: &'a str,
    /// The decoded `{id}`. None: the URL has no id, or its id is not valid percent-encoded UTF-8.
    pub(crate) id: Option<&'a str>,
}

/// `GET /v1/models`.
pub(crate) fn list(state: &ServerState, call: CatalogueCall<'_>) -> Result<GatewayReply> {
    state.engine.list_models(call.caller, call.query).map(HttpReply::json)
}

/// `GET /v1/models/compare`.
pub(crate) fn compare(state: &ServerState, call: CatalogueCall<'_>) -> Result<GatewayReply> {
    state.engine.compare(call.caller, call.query).map(HttpReply::json)
}

/// `GET /v1/models/{id}`.
pub(crate) fn model(state: &ServerState, call: CatalogueCall<'_>) -> Result<GatewayReply> {
    let message = "The model does not exist: its id is not valid percent-encoded UTF-8.";
    let id = call.id.ok_or_else(|| Error::new(Kind::ModelNotFound, message))?;
    state.engine.model(call.caller, id).map(HttpReply::json)
}
