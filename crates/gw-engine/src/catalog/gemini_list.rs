//! `GET /v1beta/models` and `GET /v1beta/models/{id}`, and the same below `/v1` for requests with `x-goog-api-key`: the list in
//! the shape of Google's API.

use bytes::Bytes;
use gw_wire::dialects::gemini::model_name;
use gw_wire::dialects::gemini::models::{ListedModel, write_model, write_page};

use super::list::{ListEntry, Visible, entries, not_found, sees};
use super::names::Index;
use super::query::{Query, invalid, shown};
use crate::error::Result;

/// The entries of a page when the request does not say.
const DEFAULT_PAGE_ENTRIES: usize = 50;
/// The largest page. Google shortens a longer one.
const MAX_PAGE_ENTRIES: usize = 1000;

/// An entry as the list shows it. `id` is the name that a request uses.
fn info<'i>(id: &'i str, display_name: &'i str, entry: &ListEntry<'i>) -> ListedModel<'i> {
    let model = entry.model();
    ListedModel {
        id,
        display_name,
        input_tokens: model.context_length,
        output_tokens: model.max_output_tokens,
        embeds: !model.is_chat(),
    }
}

/// The body of `GET /v1beta/models`: the models that chat or embed, which are those that this API can use.
pub(super) fn page(index: &Index, query: &str, visible: Visible<'_>) -> Result<Bytes> {
    let query = Query::parse(query);
    let limit = query.whole("pageSize", 0)?.filter(|limit| *limit > 0).unwrap_or(DEFAULT_PAGE_ENTRIES);
    let is_usable = |entry: &ListEntry<'_>| {
        let model = entry.model();
        (model.is_chat() || model.is_embedding()) && !model.is_fault
    };
    let all: Vec<ListEntry<'_>> = entries(index, visible).map(|(_, entry)| entry).filter(is_usable).collect();
    let from = match query.last("pageToken").filter(|token| !token.is_empty()) {
        None => 0,
        Some(token) => match all.iter().position(|entry| entry.name() == token) {
            Some(place) => place + 1,
            None => {
                let message = format!("Invalid 'pageToken': there is no model '{}'.", shown(token));
                return Err(invalid("invalid_value", message));
            }
        },
    };
    let to = from.saturating_add(limit.min(MAX_PAGE_ENTRIES)).min(all.len());
    let page = all.get(from..to).unwrap_or_default();
    let next = page.last().filter(|_| to < all.len()).map(ListEntry::name);
    let page = page.iter().map(|entry| info(entry.name(), entry.display_name(), entry));
    Ok(Bytes::from(write_page(page, next)))
}

/// The body of `GET /v1beta/models/{id}`. It has the name of the request.
pub(super) fn one(index: &Index, id: &str, visible: Visible<'_>) -> Result<Bytes> {
    let id = model_name(id);
    let resolved = index.resolve(id).ok_or_else(|| not_found(id))?;
    let model = resolved.models.iter().find(|model| sees(visible, model)).ok_or_else(|| not_found(id))?;
    let is_alias = index.listed_aliases().iter().any(|alias| *alias.name == *id);
    let display_name = if is_alias { id } else { &model.name };
    Ok(Bytes::from(write_model(&info(id, display_name, &ListEntry::Model(model)))))
}
