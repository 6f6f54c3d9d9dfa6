//! The list of keys, page by page: first the keys of the configuration, then those of the store.

use gw_engine::auth::configured_id;
use gw_engine::error::Error;
use gw_engine::settings::KeySettings;
use gw_store::StoredKey;
use gw_store::ledger::GroupBy;
use gw_store::limits::Limits;

use super::binding::BindingLimits;
use super::object::KeyObject;
use crate::error::not_found;
use crate::json::ListObject;
use crate::query::QueryParams;
use crate::records::Records;
use crate::response::{AdminResponse, AdminResult};
use crate::spending::spent_by_each;

/// Keys of a page if the query has no `limit`.
const DEFAULT_PAGE_KEYS: usize = 100;

/// A key of the configuration or of the store.
enum ListedKey<'a> {
    Configured(String, &'a KeySettings),
    Stored(&'a StoredKey),
}

impl ListedKey<'_> {
    fn id(&self) -> &str {
        match self {
            Self::Configured(id, _) => id,
            Self::Stored(key) => &key.id,
        }
    }

    fn limits(&self) -> Limits {
        match self {
            Self::Configured(_, key) => key.limits,
            Self::Stored(key) => key.limits,
        }
    }

    fn is_wanted(&self, query: &KeyListQuery) -> bool {
        let (name, team, is_revoked) = match self {
            Self::Configured(_, key) => (&key.name, None, false),
            Self::Stored(key) => (&key.name, key.team.as_deref(), key.revoked_at.is_some()),
        };
        (query.has_revoked || !is_revoked)
            && query.name.as_ref().is_none_or(|wanted| wanted == name)
            && query.team.as_deref().is_none_or(|wanted| Some(wanted) == team)
    }
}

struct KeyListQuery {
    limit: usize,
    after: Option<String>,
    team: Option<String>,
    name: Option<String>,
    /// Whether the list includes revoked keys.
    has_revoked: bool,
}

impl KeyListQuery {
    fn parse(query: &str) -> Result<Self, Error> {
        let params = QueryParams::parse(query, &["limit", "after", "team", "name", "include_revoked"])?;
        Ok(Self {
            limit: params.page_size(DEFAULT_PAGE_KEYS)?,
            after: params.text("after")?,
            team: params.text("team")?,
            name: params.text("name")?,
            has_revoked: params.flag("include_revoked")?,
        })
    }
}

/// `GET /admin/v1/keys` at the time `now` (unix seconds).
pub(crate) async fn list_keys(records: &Records, query: &str, now: i64) -> AdminResult {
    let query = KeyListQuery::parse(query)?;
    if let Some(team) = &query.team {
        records.team(team).await?;
    }
    let stored = records.store.keys().await?;
    let configured = records.configured_keys();
    let configured = configured.iter();
    let configured = configured.map(|key| ListedKey::Configured(configured_id(&key.name), key));
    let all: Vec<_> = configured.chain(stored.iter().map(ListedKey::Stored)).collect();
    let first = match &query.after {
        None => 0,
        Some(id) => all.iter().position(|key| key.id() == id).ok_or_else(|| not_found("key", id))? + 1,
    };
    // One key more than the page holds tells whether there is another page.
    let mut page: Vec<_> =
        all.iter().skip(first).filter(|key| key.is_wanted(&query)).take(query.limit + 1).collect();
    let has_more = page.len() > query.limit;
    page.truncate(query.limit);
    let next = page.last().filter(|_| has_more).map(|key| key.id().to_owned());
    let limits: Vec<_> = page.iter().map(|key| (key.id(), key.limits())).collect();
    let spent = spent_by_each(&records.store, GroupBy::Key, &limits, now).await?;
    let ids: Vec<&str> = page.iter().map(|key| key.id()).collect();
    let mut binding = BindingLimits::read(records, &ids).await;
    let objects = page.iter().map(|key| {
        let spent = spent.get(key.id()).copied().unwrap_or_default();
        let limit = binding.take(key.id());
        let object = match key {
            ListedKey::Configured(id, key) => KeyObject::of_configuration(id, key, spent, now),
            ListedKey::Stored(key) => KeyObject::of_store(key, spent, now),
        };
        object.with_binding_limit(limit)
    });
    AdminResponse::json(&ListObject::new(objects.collect(), next))
}
