//! Keys: made, shown, changed, revoked, and given a new secret.
//!
//! A key's secret is in the answer that made it, once. Keys of the configuration are shown beside those of the store,
//! under an id that begins with `cfg-`, and are changed where they are written.

use std::collections::HashMap;

use gw_store::ledger::{Filter, GroupBy};
use gw_store::limits::Limits;
use gw_store::{NewKey, Period, Role, StoredKey};
use gw_wire::request::Invalid;
use gw_wire::request::fields::{Path, invalid_value};
use serde::Serialize;
use serde_json::value::RawValue;

use super::body::{self, KeyChanges};
use super::query::Params;
use super::write::{self, LimitsObject, List, time};
use super::{Answer, Books, Document, Fault};
use crate::auth::configured_id;
use crate::catalog::query::shown;
use crate::error::{Error, Kind};
use crate::settings::KeySettings;

/// Keys of a page when no number is asked for.
const USUAL_PAGE: usize = 100;

#[derive(Serialize)]
struct KeyObject<'a> {
    object: &'static str,
    id: &'a str,
    name: &'a str,
    role: &'static str,
    team: Option<&'a str>,
    models: Option<&'a [String]>,
    #[serde(flatten)]
    limits: LimitsObject,
    log_payloads: bool,
    expires_at: Option<String>,
    created_at: Option<String>,
    revoked_at: Option<String>,
    metadata: Option<Box<RawValue>>,
    source: &'static str,
    rotated: Option<Rotated>,
    /// The secret: only where it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

#[derive(Serialize)]
struct Rotated {
    previous_valid_until: String,
}

impl<'a> KeyObject<'a> {
    fn of_store(key: &'a StoredKey, spent: i128, now: i64) -> Self {
        let until = key.previous.map(|(_, until)| until).filter(|until| *until > now);
        Self {
            object: "key",
            id: &key.id,
            name: &key.name,
            role: key.role.as_str(),
            team: key.team.as_deref(),
            models: key.models.as_deref(),
            limits: LimitsObject::new(&key.limits, spent, now),
            log_payloads: key.log_payloads,
            expires_at: key.expires_at.map(time),
            created_at: Some(time(key.created_at)),
            revoked_at: key.revoked_at.map(time),
            metadata: key.metadata.as_deref().and_then(write::stored),
            source: "store",
            rotated: until.map(|until| Rotated { previous_valid_until: time(until) }),
            key: None,
        }
    }

    fn of_configuration(id: &'a str, key: &'a KeySettings, spent: i128, now: i64) -> Self {
        Self {
            object: "key",
            id,
            name: &key.name,
            role: key.role.as_str(),
            team: None,
            models: key.models.as_deref(),
            limits: LimitsObject::new(&limits_of(key), spent, now),
            log_payloads: key.log_payloads,
            expires_at: key.expires_at.map(time),
            created_at: None,
            revoked_at: None,
            metadata: None,
            source: "config",
            rotated: None,
            key: None,
        }
    }
}

/// What a key of the configuration may use.
fn limits_of(key: &KeySettings) -> Limits {
    key.limits
}

/// A key of either kind, while a list is made.
enum Listed<'a> {
    Configured(String, &'a KeySettings),
    Stored(&'a StoredKey),
}

impl Listed<'_> {
    fn id(&self) -> &str {
        match self {
            Self::Configured(id, _) => id,
            Self::Stored(key) => &key.id,
        }
    }

    fn limits(&self) -> Limits {
        match self {
            Self::Configured(_, key) => limits_of(key),
            Self::Stored(key) => key.limits,
        }
    }

    fn passes(&self, ask: &ListAsk) -> bool {
        let (name, team, is_revoked) = match self {
            Self::Configured(_, key) => (&key.name, None, false),
            Self::Stored(key) => (&key.name, key.team.as_deref(), key.revoked_at.is_some()),
        };
        (ask.include_revoked || !is_revoked)
            && ask.name.as_ref().is_none_or(|wanted| wanted == name)
            && ask.team.as_deref().is_none_or(|wanted| Some(wanted) == team)
    }
}

struct ListAsk {
    limit: usize,
    after: Option<String>,
    team: Option<String>,
    name: Option<String>,
    include_revoked: bool,
}

impl ListAsk {
    fn read(query: &str) -> Result<Self, Error> {
        let params = Params::read(query, &["limit", "after", "team", "name", "include_revoked"])?;
        Ok(Self {
            limit: params.limit(USUAL_PAGE)?,
            after: params.text("after")?,
            team: params.text("team")?,
            name: params.text("name")?,
            include_revoked: params.flag("include_revoked")?,
        })
    }
}

impl Books {
    pub(super) async fn create_key(&self, body: &[u8], now: i64) -> Answer {
        let changes = body::key(body)?;
        let name = body::name_of(&changes)?;
        if changes.expires_at.flatten().is_some_and(|at| at <= now) {
            return Err(invalid_value(&Path::Top("expires_at"), "the time is over already.").into());
        }
        self.check_team(&changes).await?;
        let new = NewKey::generate()?;
        let mut key = new.stored(name, Role::Inference, now);
        apply(&changes, &mut key)?;
        self.store.insert_key(&key).await?;
        let object = KeyObject { key: Some(new.expose()), ..KeyObject::of_store(&key, 0, now) };
        write::document(&object).map(|document| Document { is_new: true, ..document })
    }

    pub(super) async fn list_keys(&self, query: &str, now: i64) -> Answer {
        let ask = ListAsk::read(query)?;
        if let Some(team) = &ask.team {
            self.known_team(team).await?;
        }
        let stored = self.store.keys().await?;
        let configured = self.configured.iter().map(|key| Listed::Configured(configured_id(&key.name), key));
        let all: Vec<_> = configured.chain(stored.iter().map(Listed::Stored)).collect();
        let from = match &ask.after {
            None => 0,
            Some(id) => all.iter().position(|key| key.id() == id).ok_or_else(|| no_key(id))? + 1,
        };
        let mut page: Vec<_> =
            all.iter().skip(from).filter(|key| key.passes(&ask)).take(ask.limit + 1).collect();
        let has_more = page.len() > ask.limit;
        page.truncate(ask.limit);
        let next = page.last().filter(|_| has_more).map(|key| key.id().to_owned());
        let limits: Vec<_> = page.iter().map(|key| (key.id(), key.limits())).collect();
        let spent = self.spent(GroupBy::Key, &limits, now).await?;
        let data: Vec<_> = page
            .iter()
            .map(|key| {
                let spent = spent.get(key.id()).copied().unwrap_or_default();
                match key {
                    Listed::Configured(id, key) => KeyObject::of_configuration(id, key, spent, now),
                    Listed::Stored(key) => KeyObject::of_store(key, spent, now),
                }
            })
            .collect();
        write::document(&List::new(data, next))
    }

    pub(super) async fn show_key(&self, id: &str, now: i64) -> Answer {
        if let Some(key) = self.configured_key(id) {
            let spent = self.spent_by(GroupBy::Key, id, &limits_of(key), now).await?;
            return write::document(&KeyObject::of_configuration(id, key, spent, now));
        }
        self.shown(&self.stored_key(id).await?, now).await
    }

    async fn shown(&self, key: &StoredKey, now: i64) -> Answer {
        let spent = self.spent_by(GroupBy::Key, &key.id, &key.limits, now).await?;
        write::document(&KeyObject::of_store(key, spent, now))
    }

    pub(super) async fn change_key(&self, id: &str, body: &[u8], now: i64) -> Answer {
        let key = self.changeable_key(id).await?;
        let changes = body::key(body)?;
        self.check_team(&changes).await?;
        let mut changed = key.clone();
        apply(&changes, &mut changed)?;
        self.keep_an_admin(&key, &changed, now).await?;
        // Once more inside the store's own transaction: another program may have changed other fields meanwhile.
        let changed = self.store.change_key(id, |key| _ = apply(&changes, key)).await?;
        self.shown(&changed.ok_or_else(|| no_key(id))?, now).await
    }

    pub(super) async fn revoke_key(&self, id: &str, now: i64) -> Answer {
        self.not_configured(id)?;
        let key = self.stored_key(id).await?;
        if key.revoked_at.is_some() {
            return self.shown(&key, now).await;
        }
        self.keep_an_admin(&key, &StoredKey { revoked_at: Some(now), ..key.clone() }, now).await?;
        let revoked = self.store.change_key(id, |key| _ = key.revoked_at.get_or_insert(now)).await?;
        self.shown(&revoked.ok_or_else(|| no_key(id))?, now).await
    }

    pub(super) async fn rotate_key(&self, id: &str, body: &[u8], now: i64) -> Answer {
        let key = self.changeable_key(id).await?;
        let grace = body::grace(body)?;
        let new = NewKey::successor(&key.id)?;
        let hash = gw_store::keys::hash(new.expose());
        let rotate = |key: &mut StoredKey| {
            key.previous = (grace > 0).then_some((key.hash, now.saturating_add(grace)));
            key.hash = hash;
        };
        let rotated = self.store.change_key(id, rotate).await?.ok_or_else(|| no_key(id))?;
        let spent = self.spent_by(GroupBy::Key, id, &rotated.limits, now).await?;
        write::document(&KeyObject { key: Some(new.expose()), ..KeyObject::of_store(&rotated, spent, now) })
    }

    pub(super) fn configured_key(&self, id: &str) -> Option<&KeySettings> {
        self.configured.iter().find(|key| configured_id(&key.name) == id)
    }

    async fn stored_key(&self, id: &str) -> Result<StoredKey, Fault> {
        // What cannot be an id needs no store to be unknown.
        let is_plain = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let found = if is_plain { self.store.key(id).await? } else { None };
        found.ok_or_else(|| no_key(id).into())
    }

    fn not_configured(&self, id: &str) -> Result<(), Error> {
        let Some(key) = self.configured_key(id) else { return Ok(()) };
        let what =
            format!("the key '{}' is written in the configuration; change it there.", shown(&key.name));
        Err(super::refused(invalid_value(&Path::Top("id"), &what)))
    }

    async fn changeable_key(&self, id: &str) -> Result<StoredKey, Fault> {
        self.not_configured(id)?;
        let key = self.stored_key(id).await?;
        if key.revoked_at.is_some() {
            return Err(invalid_value(&Path::Top("id"), "the key is revoked, which is for good.").into());
        }
        Ok(key)
    }

    /// A key is never put into a team that does not exist: its limits would be those of nobody.
    async fn check_team(&self, changes: &KeyChanges) -> Result<(), Fault> {
        let Some(Some(team)) = &changes.team else { return Ok(()) };
        if self.store.team(team).await?.is_some() {
            return Ok(());
        }
        let what = format!("there is no team '{}'; it is made with PUT /admin/v1/teams/{{id}}.", shown(team));
        Err(invalid_value(&Path::Top("team"), &what).into())
    }

    /// Refuses what would leave nobody who may manage the gateway. Two programs that do this at the same moment can
    /// still do it to each other; `model-gateway keys create` on the store is the way back.
    async fn keep_an_admin(&self, before: &StoredKey, after: &StoredKey, now: i64) -> Result<(), Fault> {
        if !is_admin(before, now) || is_admin(after, now) {
            return Ok(());
        }
        let configured = self
            .configured
            .iter()
            .any(|key| key.role == Role::Admin && key.expires_at.is_none_or(|at| at > now));
        let others = || async { self.store.keys().await };
        if configured || others().await?.iter().any(|key| key.id != before.id && is_admin(key, now)) {
            return Ok(());
        }
        let what = "this is the last usable key of role admin; make another one first.";
        Err(invalid_value(&Path::Top("id"), what).into())
    }

    /// What one key or team has spent in the present period of its budget, in femto-USD.
    pub(super) async fn spent_by(
        &self,
        by: GroupBy,
        id: &str,
        limits: &Limits,
        now: i64,
    ) -> Result<i128, Fault> {
        let Some(budget) = limits.budget else { return Ok(0) };
        let mut filter = within(budget.period, now);
        let name = if by == GroupBy::Team { &mut filter.team } else { &mut filter.key_id };
        *name = Some(id.to_owned());
        Ok(self.store.total(&filter).await?.cost)
    }

    /// What these have spent in the present periods of their budgets, in femto-USD: one query for each kind of period.
    pub(super) async fn spent(
        &self,
        by: GroupBy,
        limits: &[(&str, Limits)],
        now: i64,
    ) -> Result<HashMap<String, i128>, Fault> {
        let mut spent = HashMap::new();
        for period in Period::ALL {
            let has = |limits: &Limits| limits.budget.is_some_and(|budget| budget.period == period);
            let wanted: Vec<&str> =
                limits.iter().filter(|(_, limits)| has(limits)).map(|(id, _)| *id).collect();
            if wanted.is_empty() {
                continue;
            }
            let filter = within(period, now);
            let sums = self.store.usage(by, &filter).await?;
            spent.extend(
                sums.into_iter().filter(|(id, _)| wanted.contains(&&**id)).map(|(id, sums)| (id, sums.cost)),
            );
        }
        Ok(spent)
    }
}

/// The present period.
fn within(period: Period, now: i64) -> Filter {
    let (begin, end) = period.around(now);
    let millis = |moment: i64| moment.saturating_mul(1000);
    Filter {
        since: (begin > i64::MIN).then(|| millis(begin)),
        until: (end < i64::MAX).then(|| millis(end)),
        ..Filter::default()
    }
}

fn is_admin(key: &StoredKey, now: i64) -> bool {
    key.role == Role::Admin && key.revoked_at.is_none() && key.expires_at.is_none_or(|at| at > now)
}

fn apply(changes: &KeyChanges, key: &mut StoredKey) -> Result<(), Invalid> {
    key.limits = changes.limits.apply(key.limits)?;
    if let Some(name) = &changes.name {
        key.name.clone_from(name);
    }
    key.role = changes.role.unwrap_or(key.role);
    key.expires_at = changes.expires_at.unwrap_or(key.expires_at);
    // null is what a new key has.
    key.log_payloads = changes.log_payloads.map_or(key.log_payloads, Option::unwrap_or_default);
    for (field, change) in [(&mut key.team, &changes.team), (&mut key.metadata, &changes.metadata)] {
        if let Some(change) = change {
            field.clone_from(change);
        }
    }
    if let Some(models) = &changes.models {
        key.models.clone_from(models);
    }
    Ok(())
}

/// The 404 for a key that is not there.
pub(super) fn no_key(id: &str) -> Error {
    Error::new(Kind::NotFound, format!("There is no key '{}'.", shown(id)))
}
