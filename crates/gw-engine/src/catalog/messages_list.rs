//! `GET /v1/models` and `GET /v1/models/{id}` in the shape of Anthropic's API, for requests with `anthropic-version`.

use bytes::Bytes;
use gw_wire::dialects::messages::models::{ModelInfo, write_model, write_page};

use super::date::created;
use super::list::{ListEntry, Visible, alias_entry, entries, not_found, sees};
use super::names::Index;
use super::query::{Query, invalid, shown};
use crate::error::Result;

/// The entries of a page when the request does not say.
const DEFAULT_PAGE_ENTRIES: usize = 20;
/// The largest page.
const MAX_PAGE_ENTRIES: usize = 1000;

/// An entry with the name that the list gives it.
struct NamedEntry<'i> {
    id: &'i str,
    display_name: &'i str,
    entry: ListEntry<'i>,
}

impl NamedEntry<'_> {
    fn info(&self) -> ModelInfo<'_> {
        let model = self.entry.model();
        ModelInfo {
            id: self.id,
            display_name: self.display_name,
            created: created(model.release_date.as_deref()),
            max_input_tokens: model.context_length,
            max_tokens: model.max_output_tokens,
        }
    }
}

/// The entries that can chat: the names for Claude Code first, because it reads one page, then the aliases, then the models.
fn all<'i>(index: &'i Index, visible: Visible<'i>) -> Vec<NamedEntry<'i>> {
    let for_claude = index.listed_aliases().iter().filter_map(|alias| {
        let id = alias.claude_name.as_deref()?;
        Some(NamedEntry { id, display_name: &alias.name, entry: alias_entry(index, id, visible)? })
    });
    let named =
        |entry: ListEntry<'i>| NamedEntry { id: entry.name(), display_name: entry.display_name(), entry };
    let (aliases, models): (Vec<_>, Vec<_>) = entries(index, visible)
        .map(|(_, entry)| named(entry))
        .partition(|named| matches!(named.entry, ListEntry::Alias { .. }));
    let can_chat = |named: &NamedEntry<'_>| {
        let model = named.entry.model();
        model.is_chat() && !model.is_fault
    };
    for_claude.chain(aliases).chain(models).filter(can_chat).collect()
}

/// The body of `GET /v1/models`.
pub(super) fn page(index: &Index, query: &str, visible: Visible<'_>) -> Result<Bytes> {
    let query = Query::parse(query);
    let limit = query.whole("limit", 1)?.unwrap_or(DEFAULT_PAGE_ENTRIES);
    if limit > MAX_PAGE_ENTRIES {
        let message = format!("limit: expected a value of at most {MAX_PAGE_ENTRIES}, but got {limit}");
        return Err(invalid("integer_above_max_value", message));
    }
    let all = all(index, visible);
    let place =
        |name: &'static str| match query.last(name).filter(|id| !id.is_empty()) {
            None => Ok(None),
            Some(id) => all.iter().position(|entry| entry.id == id).map(Some).ok_or_else(|| {
                invalid("invalid_value", format!("{name}: there is no model '{}'", shown(id)))
            }),
        };
    let (after, before) = (place("after_id")?, place("before_id")?);
    let (from, to, has_more) = match (after, before) {
        (Some(_), Some(_)) => {
            let message = "after_id: cannot be used together with before_id";
            return Err(invalid("invalid_value", message));
        }
        (None, Some(before)) => {
            let from = before.saturating_sub(limit);
            (from, before, from > 0)
        }
        (after, None) => {
            let from = after.map_or(0, |place| place + 1);
            let to = from.saturating_add(limit).min(all.len());
            (from, to, to < all.len())
        }
    };
    let page = all.get(from..to).unwrap_or_default().iter().map(NamedEntry::info);
    Ok(Bytes::from(write_page(page, has_more)))
}

/// The body of `GET /v1/models/{id}`. It has the name of the request.
pub(super) fn one(index: &Index, id: &str, visible: Visible<'_>) -> Result<Bytes> {
    let resolved = index.resolve(id).ok_or_else(|| not_found(id))?;
    let model = resolved.models.iter().find(|model| sees(visible, model)).ok_or_else(|| not_found(id))?;
    let alias = index
        .listed_aliases()
        .iter()
        .find(|alias| *alias.name == *id || alias.claude_name.as_deref() == Some(id));
    let display_name = alias.map_or(&*model.name, |alias| &*alias.name);
    let entry = NamedEntry { id, display_name, entry: ListEntry::Model(model) };
    Ok(Bytes::from(write_model(&entry.info())))
}
