//! Keys: create, list, show, update, revoke, rotate.
//!
//! The answer that creates a secret is the only one that shows it. Lists show the keys of the configuration beside the store's
//! keys, under an id that begins with `cfg-`; they can only be changed in the configuration.

mod binding;
mod list;
mod object;

use gw_engine::catalog::query::shown;
use gw_engine::error::Error;
use gw_store::audit::AuditRecord;
use gw_store::ledger::GroupBy;
use gw_store::{NewKey, Role, StoredKey};
use gw_wire::request::fields::{Path, invalid_value};

use self::binding::BindingLimits;
pub(crate) use self::list::list_keys;
use self::object::KeyObject;
use crate::body::{KeyChanges, parse_grace_seconds};
use crate::error::{AdminError, not_found};
use crate::records::Records;
use crate::requester::Requester;
use crate::response::{AdminResponse, AdminResult};
use crate::spending::spent_by_one;

/// `POST /admin/v1/keys` at the time `now` (unix seconds).
pub(crate) async fn create_key(
    records: &Records,
    requester: &Requester,
    body: &[u8],
    now: i64,
) -> AdminResult {
    let changes = KeyChanges::parse(body)?;
    let name = changes.required_name()?;
    if changes.expires_at.flatten().is_some_and(|at| at <= now) {
        return Err(invalid_value(&Path::Top("expires_at"), "the time is in the past.").into());
    }
    check_team(records, &changes).await?;
    let new = NewKey::generate()?;
    let mut key = new.stored(name, Role::Inference, now);
    changes.apply(&mut key)?;
    requester.check_key_role(key.role)?;
    let record = AuditRecord { after: audited(&key, now), ..requester.record("key.create", &key.id) };
    records.store.insert_key_recorded(&key, &record).await?;
    let object = KeyObject::of_store(&key, 0, now).with_secret(new.expose());
    AdminResponse::json(&object).map(|response| AdminResponse { is_new: true, ..response })
}

/// `GET /admin/v1/keys/{id}` at the time `now` (unix seconds).
pub(crate) async fn show_key(records: &Records, id: &str, now: i64) -> AdminResult {
    let binding = BindingLimits::read(records, &[id]).await.take(id);
    let Some(key) = records.configured_key(id) else {
        let key = records.stored_key(id).await?;
        let spent = spent_by_one(&records.store, GroupBy::Key, id, &key.limits, now).await?;
        return AdminResponse::json(&KeyObject::of_store(&key, spent, now).with_binding_limit(binding));
    };
    let spent = spent_by_one(&records.store, GroupBy::Key, id, &key.limits, now).await?;
    AdminResponse::json(&KeyObject::of_configuration(id, &key, spent, now).with_binding_limit(binding))
}

async fn stored_key_response(records: &Records, key: &StoredKey, now: i64) -> AdminResult {
    let spent = spent_by_one(&records.store, GroupBy::Key, &key.id, &key.limits, now).await?;
    AdminResponse::json(&KeyObject::of_store(key, spent, now))
}

/// `PATCH /admin/v1/keys/{id}` at the time `now` (unix seconds).
pub(crate) async fn update_key(
    records: &Records,
    requester: &Requester,
    id: &str,
    body: &[u8],
    now: i64,
) -> AdminResult {
    let key = changeable_key(records, id).await?;
    let changes = KeyChanges::parse(body)?;
    check_team(records, &changes).await?;
    let mut changed = key.clone();
    changes.apply(&mut changed)?;
    requester.check_key_role(key.role)?;
    requester.check_key_role(changed.role)?;
    check_admin_remains(records, &key, &changed, now).await?;
    // The changes are applied again in the store's transaction, because another program may have changed other members.
    let edit = |key: &mut StoredKey| _ = changes.apply(key);
    let record = changed_key(requester, "key.update", now);
    let changed = records.store.change_key_recorded(id, edit, record).await?;
    stored_key_response(records, &changed.ok_or_else(|| not_found("key", id))?, now).await
}

/// `DELETE /admin/v1/keys/{id}` at the time `now` (unix seconds). Revoking a revoked key changes nothing.
pub(crate) async fn revoke_key(records: &Records, requester: &Requester, id: &str, now: i64) -> AdminResult {
    check_not_configured(records, id)?;
    let key = records.stored_key(id).await?;
    requester.check_key_role(key.role)?;
    if key.revoked_at.is_some() {
        return stored_key_response(records, &key, now).await;
    }
    let revoked = StoredKey { revoked_at: Some(now), ..key.clone() };
    check_admin_remains(records, &key, &revoked, now).await?;
    let edit = |key: &mut StoredKey| _ = key.revoked_at.get_or_insert(now);
    let record = changed_key(requester, "key.revoke", now);
    let revoked = records.store.change_key_recorded(id, edit, record).await?;
    stored_key_response(records, &revoked.ok_or_else(|| not_found("key", id))?, now).await
}

/// `POST /admin/v1/keys/{id}/rotate` at the time `now` (unix seconds).
pub(crate) async fn rotate_key(
    records: &Records,
    requester: &Requester,
    id: &str,
    body: &[u8],
    now: i64,
) -> AdminResult {
    let key = changeable_key(records, id).await?;
    requester.check_key_role(key.role)?;
    let grace_seconds = parse_grace_seconds(body)?;
    let new = NewKey::successor(&key.id)?;
    let hash = gw_store::keys::hash(new.expose());
    let rotate = |key: &mut StoredKey| {
        key.previous = (grace_seconds > 0).then_some((key.hash, now.saturating_add(grace_seconds)));
        key.hash = hash;
    };
    let record = changed_key(requester, "key.rotate", now);
    let rotated =
        records.store.change_key_recorded(id, rotate, record).await?.ok_or_else(|| not_found("key", id))?;
    let spent = spent_by_one(&records.store, GroupBy::Key, id, &rotated.limits, now).await?;
    AdminResponse::json(&KeyObject::of_store(&rotated, spent, now).with_secret(new.expose()))
}

/// The key as the audit log shows it, without its secret and without its spending.
fn audited(key: &StoredKey, now: i64) -> Option<String> {
    serde_json::to_string(&KeyObject::of_store(key, 0, now).without_spending()).ok()
}

/// Makes the record of a change from the key before and after it.
fn changed_key(
    requester: &Requester,
    action: &'static str,
    now: i64,
) -> impl FnOnce(&StoredKey, &StoredKey) -> AuditRecord {
    move |before, after| AuditRecord {
        before: audited(before, now),
        after: audited(after, now),
        ..requester.record(action, &after.id)
    }
}

/// The store's key with this id, unless it is revoked.
async fn changeable_key(records: &Records, id: &str) -> Result<StoredKey, AdminError> {
    check_not_configured(records, id)?;
    let key = records.stored_key(id).await?;
    if key.revoked_at.is_some() {
        let message = "the key is revoked; a revoked key cannot be changed.";
        return Err(invalid_value(&Path::Top("id"), message).into());
    }
    Ok(key)
}

fn check_not_configured(records: &Records, id: &str) -> Result<(), Error> {
    let Some(key) = records.configured_key(id) else { return Ok(()) };
    let message = format!("the key '{}' belongs to the configuration; change it there.", shown(&key.name));
    Err(invalid_value(&Path::Top("id"), &message).into())
}

/// Checks that the team of a key exists, because the key would have none of the team's limits otherwise.
async fn check_team(records: &Records, changes: &KeyChanges) -> Result<(), AdminError> {
    let Some(Some(team)) = &changes.team else { return Ok(()) };
    if records.store.team(team).await?.is_some() {
        return Ok(());
    }
    let message = format!("there is no team '{}'; create it with PUT /admin/v1/teams/{{id}}.", shown(team));
    Err(invalid_value(&Path::Top("team"), &message).into())
}

/// Checks that a change leaves a usable key of role admin, now and until the changed key expires. Two programs that change the
/// store at the same moment can pass this check and leave none; `model-gateway keys create` on the store is the way back then.
async fn check_admin_remains(
    records: &Records,
    before: &StoredKey,
    after: &StoredKey,
    now: i64,
) -> Result<(), AdminError> {
    let Some(until) = usable_admin_until(before, now) else { return Ok(()) };
    // A key that is to end earlier needs another one that lasts until then.
    let needed = usable_admin_until(after, now).unwrap_or(now);
    if needed >= until {
        return Ok(());
    }
    let lasts = |until: i64| until > now && until >= needed;
    let configured = records.configured_keys();
    let mut configured = configured.iter().filter(|key| key.role == Role::Admin);
    if configured.any(|key| lasts(key.expires_at.unwrap_or(i64::MAX))) {
        return Ok(());
    }
    let stored = records.store.keys().await?;
    let mut others = stored.iter().filter(|key| key.id != before.id);
    if others.any(|key| usable_admin_until(key, now).is_some_and(lasts)) {
        return Ok(());
    }
    let message = "this is the last usable key of role admin; create another one first.";
    Err(invalid_value(&Path::Top("id"), message).into())
}

/// The time until which this is a usable key of role admin: `i64::MAX` if it does not expire. None: it is no such key.
fn usable_admin_until(key: &StoredKey, now: i64) -> Option<i64> {
    let is_admin = key.role == Role::Admin && key.revoked_at.is_none();
    Some(key.expires_at.unwrap_or(i64::MAX)).filter(|until| is_admin && *until > now)
}
