//! `/v1/models`: the model catalogue, answered from the engine's memory.

use std::hash::{DefaultHasher, Hasher};

use gw_engine::Caller;
use gw_engine::error::{Error, Kind, Result};
use gw_wire::dialects::ClientDialect;
use http::HeaderValue;
use http::header::ETAG;

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
    /// The dialect of the client.
    pub(crate) dialect: ClientDialect,
}

/// `GET /v1/models`.
pub(crate) fn list(state: &ServerState, call: CatalogueCall<'_>) -> Result<GatewayReply> {
    match call.dialect {
        ClientDialect::Messages => {
            return state.engine.list_models_for_messages(call.caller, call.query).map(HttpReply::json);
        }
        ClientDialect::Gemini => {
            return state.engine.list_models_for_gemini(call.caller, call.query).map(HttpReply::json);
        }
        ClientDialect::OpenAi | ClientDialect::Responses => {}
    }
    let body = state.engine.list_models(call.caller, call.query)?;
    let is_for_codex = call.query.split('&').any(|pair| pair.starts_with("client_version="));
    let tag = if is_for_codex { entity_tag(&body) } else { None };
    let mut reply = HttpReply::json(body);
    reply.headers.extend(tag.map(|tag| (ETAG, tag)));
    Ok(reply)
}

/// The tag of a body. Codex notes it together with the list of models.
fn entity_tag(body: &[u8]) -> Option<HeaderValue> {
    let mut hasher = DefaultHasher::new();
    hasher.write(body);
    HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).ok()
}

/// `GET /v1/models/compare`.
pub(crate) fn compare(state: &ServerState, call: CatalogueCall<'_>) -> Result<GatewayReply> {
    state.engine.compare(call.caller, call.query).map(HttpReply::json)
}

/// `GET /v1/models/{id}`.
pub(crate) fn model(state: &ServerState, call: CatalogueCall<'_>) -> Result<GatewayReply> {
    let message = "The model does not exist: its id is not valid percent-encoded UTF-8.";
    let id = call.id.ok_or_else(|| Error::new(Kind::ModelNotFound, message))?;
    let body = match call.dialect {
        ClientDialect::Messages => state.engine.model_for_messages(call.caller, id),
        ClientDialect::Gemini => state.engine.model_for_gemini(call.caller, id),
        ClientDialect::OpenAi | ClientDialect::Responses => state.engine.model(call.caller, id),
    };
    body.map(HttpReply::json)
}
