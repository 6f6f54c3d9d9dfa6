//! `model-gateway audit`: shows, exports and verifies the log of changes.

use clap::{Args, ValueEnum};
use gw_admin::AdminRequest;
use gw_admin::endpoints::LIST_AUDIT;
use gw_admin::time::parse_moment;
use gw_command::table::{Align, clean, columns};
use gw_command::{CommandError, Common, print};
use gw_store::audit::{AuditEntry, AuditHead, ChainFault};
use gw_wire::hex;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::admin_client::{self, AdminTarget};
use crate::url_query::query;

/// Rows of a page of a whole export.
const PAGE_ROWS: &str = "1000";

/// The options of `audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    target: AdminTarget,
    /// Only changes by this actor: the id of a key or an identity, or uid:N for a user of this machine
    #[arg(long, value_name = "ID")]
    actor: Option<String>,
    /// Only this action, such as key.create, or all actions that begin with key.
    #[arg(long)]
    action: Option<String>,
    /// Only changes of this object, such as the id of a key or a team
    #[arg(long, value_name = "ID")]
    object: Option<String>,
    /// First time of the changes: 7d, 24h, 2026-11-21 or 2026-11-21T09:00:00Z [default: the beginning]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// End of the changes, in the same forms as --since [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Most changes of the table, 1 to 1000; json and csv print all changes
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// Output format
    #[arg(long, value_enum, default_value_t = AuditFormat::Table)]
    format: AuditFormat,
    /// Verify that no change is missing and that none was altered
    #[arg(long, conflicts_with_all = ["actor", "action", "object", "since", "until", "format"])]
    verify: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AuditFormat {
    Table,
    Json,
    Csv,
}

#[derive(Deserialize)]
struct AuditPage<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
    next: Option<String>,
    head: NotedHead,
}

#[derive(Deserialize)]
struct NotedHead {
    seq: i64,
    hash: String,
}

#[derive(Deserialize)]
struct Change {
    seq: i64,
    at: String,
    actor: ChangeActor,
    action: String,
    target: String,
    before: Option<Box<RawValue>>,
    after: Option<Box<RawValue>>,
    hash: String,
}

#[derive(Deserialize)]
struct ChangeActor {
    kind: String,
    id: String,
    name: String,
    address: Option<String>,
}

/// Shows, exports or verifies the log.
///
/// # Errors
/// Exit code 2 for a request that is refused, 1 when the store or the gateway does not answer, and when the log was altered.
pub fn run(common: &Common, args: &AuditArgs) -> Result<(), CommandError> {
    let ask = |query: String| {
        let request = AdminRequest::new(LIST_AUDIT).with_query(query);
        admin_client::ask(common, &args.target, request)
    };
    if args.verify {
        return print(&verify(&ask)?);
    }
    match args.format {
        AuditFormat::Table => {
            let limit = args.limit.to_string();
            let body = ask(parameters(args, &limit, None, "json"))?;
            print(&table(&body)?)
        }
        AuditFormat::Json => {
            let mut after: Option<String> = None;
            loop {
                let body = ask(parameters(args, PAGE_ROWS, after.as_deref(), "json"))?;
                let page = page(&body)?;
                let lines: String = page.data.iter().map(|row| format!("{}\n", row.get())).collect();
                print(&lines)?;
                after = page.next;
                if after.is_none() {
                    return Ok(());
                }
            }
        }
        AuditFormat::Csv => csv(args, &ask),
    }
}

fn parameters(args: &AuditArgs, limit: &str, after: Option<&str>, format: &str) -> String {
    query(&[
        ("actor", args.actor.as_deref()),
        ("action", args.action.as_deref()),
        ("object", args.object.as_deref()),
        ("since", args.since.as_deref()),
        ("until", args.until.as_deref()),
        ("limit", Some(limit)),
        ("after", after),
        ("format", Some(format)),
    ])
}

/// Prints all pages as one CSV document. The JSON of each page tells where the next one begins.
fn csv(
    args: &AuditArgs,
    ask: &impl Fn(String) -> Result<bytes::Bytes, CommandError>,
) -> Result<(), CommandError> {
    let mut after: Option<String> = None;
    let mut is_first = true;
    loop {
        let next = page(&ask(parameters(args, PAGE_ROWS, after.as_deref(), "json"))?)?.next;
        let body = ask(parameters(args, PAGE_ROWS, after.as_deref(), "csv"))?;
        let text = String::from_utf8_lossy(&body);
        let rows = text.split_once("\r\n").map_or("", |(_, rows)| rows);
        print(if is_first { &text } else { rows })?;
        (after, is_first) = (next, false);
        if after.is_none() {
            return Ok(());
        }
    }
}

fn page(body: &[u8]) -> Result<AuditPage<'_>, CommandError> {
    serde_json::from_slice(body)
        .map_err(|error| CommandError::Runtime(format!("the answer is no page of the audit log: {error}")))
}

fn change(row: &RawValue) -> Result<Change, CommandError> {
    serde_json::from_str(row.get())
        .map_err(|error| CommandError::Runtime(format!("the answer holds no change: {error}")))
}

fn table(body: &[u8]) -> Result<String, CommandError> {
    let mut rows =
        vec![["SEQ", "AT", "ACTOR", "NAME", "FROM", "ACTION", "OBJECT"].map(str::to_owned).to_vec()];
    for row in page(body)?.data {
        let change = change(row)?;
        rows.push(vec![
            change.seq.to_string(),
            clean(&change.at),
            clean(&change.actor.id),
            clean(&change.actor.name),
            change.actor.address.as_deref().map_or_else(|| "-".to_owned(), clean),
            clean(&change.action),
            clean(&change.target),
        ]);
    }
    use Align::{Left, Right};
    Ok(columns(&rows, &[Right, Left, Left, Left, Left, Left, Left]))
}

/// Computes the chain of hashes of the whole log. It trusts nothing but the rows themselves.
fn verify(ask: &impl Fn(String) -> Result<bytes::Bytes, CommandError>) -> Result<String, CommandError> {
    let altered = |fault: &dyn std::fmt::Display| {
        CommandError::Runtime(format!("the audit log was altered by another program: {fault}"))
    };
    let mut end = AuditHead::START;
    let mut noted: Option<NotedHead> = None;
    loop {
        let after = (end.seq > 0).then(|| end.seq.to_string());
        let body =
            ask(query(&[("order", Some("asc")), ("limit", Some(PAGE_ROWS)), ("after", after.as_deref())]))?;
        let page = page(&body)?;
        for row in &page.data {
            let entry = entry(change(row)?)
                .ok_or_else(|| altered(&ChainFault::Changed(end.seq.saturating_add(1))))?;
            end = entry.follow(&end).map_err(|fault| altered(&fault))?;
        }
        let head = noted.insert(page.head);
        if page.next.is_none() {
            let hash = hex::encode(&end.hash);
            if end.seq < head.seq {
                return Err(altered(&ChainFault::Missing(end.seq.saturating_add(1))));
            }
            if end.seq == head.seq && hash != head.hash {
                return Err(altered(&ChainFault::Changed(end.seq)));
            }
            return Ok(format!("{} changes, all in place; the newest has the hash {hash}\n", end.seq));
        }
    }
}

/// The row of a change. None: the change holds a value that the gateway never writes.
fn entry(change: Change) -> Option<AuditEntry> {
    let state = |state: Option<Box<RawValue>>| state.map(|state| state.get().to_owned());
    Some(AuditEntry {
        seq: change.seq,
        at: parse_moment(&change.at, 0)?,
        actor_kind: change.actor.kind,
        actor: change.actor.id,
        actor_name: change.actor.name,
        address: change.actor.address,
        action: change.action,
        object: change.target,
        before: state(change.before),
        after: state(change.after),
        hash: hex::decode(&change.hash)?.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// A log of `count` rows as the gateway shows it, and its head.
    fn log(count: i64) -> (Vec<String>, AuditHead) {
        let (mut rows, mut head) = (Vec::new(), AuditHead::START);
        for seq in 1..=count {
            let mut entry = AuditEntry {
                seq,
                at: 1_700_000_000_123,
                actor_kind: "key".into(),
                actor: "sk-gw-000000".into(),
                actor_name: "boss".into(),
                address: Some("::1".into()),
                action: "key.create".into(),
                object: format!("o{seq}"),
                before: None,
                after: Some("{\"id\": 1.0}".into()),
                hash: [0; 32],
            };
            entry.hash = entry.expected_hash(&head.hash);
            head = AuditHead { seq, hash: entry.hash };
            rows.push(format!(
                r#"{{"object":"audit","seq":{seq},"at":"2023-11-14T22:13:20.123Z","actor":{{"kind":"key","id":"sk-gw-000000",
                "name":"boss","address":"::1"}},"action":"key.create","target":"o{seq}","before":null,"after":{{"id": 1.0}},
                "hash":"{}"}}"#,
                hex::encode(&entry.hash)
            ));
        }
        (rows, head)
    }

    fn verified(rows: &[String], head: &AuditHead) -> Result<String, CommandError> {
        let head = format!(r#"{{"seq":{},"hash":"{}"}}"#, head.seq, hex::encode(&head.hash));
        let body = format!(r#"{{"data":[{}],"next":null,"head":{head}}}"#, rows.join(","));
        verify(&|_| Ok(Bytes::from(body.clone())))
    }

    #[test]
    fn k14_a_log_in_place_is_verified_and_every_alteration_is_told() {
        let (rows, head) = log(4);
        assert!(verified(&rows, &head).unwrap().starts_with("4 changes, all in place"));
        assert!(verified(&[], &AuditHead::START).unwrap().starts_with("0 changes"));
        let fault = |rows: &[String]| verified(rows, &head).unwrap_err().to_string();
        assert!(fault(&rows[..3]).contains("the row 4 is missing"));
        assert!(fault(&rows[1..]).contains("the row 1 is missing"));
        assert!(fault(&[&rows[..1], &rows[2..]].concat()).contains("the row 2 is missing"));
        for (from, to) in [("boss", "Boss"), ("o2", "o9"), ("1.0", "1.1"), ("::1", "::2"), (".123Z", ".124Z")]
        {
            let mut changed = rows.clone();
            changed[1] = changed[1].replacen(from, to, 1);
            assert!(fault(&changed).contains("the row 2 was changed"), "{from}");
        }
    }
}
