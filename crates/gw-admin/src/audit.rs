//! The audit log as operators read it: newest first, filtered, as JSON or CSV.

use gw_engine::error::Error;
use gw_store::audit::{AuditEntry, AuditFilter};
use gw_wire::hex;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::csv::csv_cell;
use crate::query::QueryParams;
use crate::records::Records;
use crate::response::{AdminResponse, AdminResult};
use crate::time::format_millis;

/// Rows of a page if the query has no `limit`.
const DEFAULT_PAGE_ROWS: usize = 100;
const PARAMETERS: [&str; 9] =
    ["actor", "action", "object", "since", "until", "limit", "after", "order", "format"];
const COLUMNS: &str = "seq,at,actor_kind,actor,actor_name,address,action,object,before,after,hash\r\n";

#[derive(Serialize)]
struct AuditObject<'a> {
    object: &'static str,
    seq: i64,
    at: String,
    actor: ActorObject<'a>,
    action: &'a str,
    target: &'a str,
    before: Option<Box<RawValue>>,
    after: Option<Box<RawValue>>,
    hash: String,
}

#[derive(Serialize)]
struct ActorObject<'a> {
    kind: &'a str,
    id: &'a str,
    name: &'a str,
    address: Option<&'a str>,
}

#[derive(Serialize)]
struct AuditPage<'a> {
    object: &'static str,
    data: Vec<AuditObject<'a>>,
    has_more: bool,
    next: Option<String>,
    head: HeadObject,
}

/// The newest row of the whole log.
#[derive(Serialize)]
struct HeadObject {
    seq: i64,
    hash: String,
}

/// `GET /admin/v1/audit` at the time `now` (unix seconds).
pub(crate) async fn list_audit(
    records: &Records,
    query: &str,
    is_csv_preferred: bool,
    now: i64,
) -> AdminResult {
    let params = QueryParams::parse(query, &PARAMETERS)?;
    let (filter, limit) = (filter(&params, now)?, params.page_size(DEFAULT_PAGE_ROWS)?);
    let is_csv = params.choice("format", &[("json", false), ("csv", true)])?.unwrap_or(is_csv_preferred);
    // The head is read first, so a row that is added meanwhile does not look like a missing end.
    let head = records.store.audit_head().await?;
    // One row more than the page holds tells whether there is another page.
    let wanted = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    let mut rows = records.store.audit(&filter, wanted).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    if is_csv {
        return Ok(AdminResponse::csv(to_csv(&rows)));
    }
    let next = rows.last().filter(|_| has_more).map(|row| row.seq.to_string());
    let data = rows.iter().map(audit_object).collect();
    let head = HeadObject { seq: head.seq, hash: hex::encode(&head.hash) };
    AdminResponse::json(&AuditPage { object: "list", data, has_more, next, head })
}

fn filter(params: &QueryParams, now: i64) -> Result<AuditFilter, Error> {
    let (since, until) = params.span(now)?;
    Ok(AuditFilter {
        since,
        until,
        actor: params.text("actor")?,
        action: params.text("action")?,
        object: params.text("object")?,
        after: params.whole("after")?,
        is_ascending: params.choice("order", &[("desc", false), ("asc", true)])?.unwrap_or(false),
    })
}

fn audit_object(row: &AuditEntry) -> AuditObject<'_> {
    AuditObject {
        object: "audit",
        seq: row.seq,
        at: format_millis(row.at),
        actor: ActorObject {
            kind: &row.actor_kind,
            id: &row.actor,
            name: &row.actor_name,
            address: row.address.as_deref(),
        },
        action: &row.action,
        target: &row.object,
        before: row.before.as_deref().map(state),
        after: row.after.as_deref().map(state),
        hash: hex::encode(&row.hash),
    }
}

/// The state of an object, byte for byte. A state that another program has replaced by a text that is not JSON becomes a string.
fn state(text: &str) -> Box<RawValue> {
    let raw = RawValue::from_string(text.to_owned());
    raw.or_else(|_| RawValue::from_string(serde_json::Value::from(text).to_string())).unwrap_or_default()
}

fn to_csv(rows: &[AuditEntry]) -> String {
    let mut text = COLUMNS.to_owned();
    for row in rows {
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        let cells = [
            row.seq.to_string(),
            format_millis(row.at),
            row.actor_kind.clone(),
            row.actor.clone(),
            row.actor_name.clone(),
            optional(&row.address),
            row.action.clone(),
            row.object.clone(),
            optional(&row.before),
            optional(&row.after),
            hex::encode(&row.hash),
        ];
        text.push_str(&cells.map(|cell| csv_cell(&cell)).join(","));
        text.push_str("\r\n");
    }
    text
}
