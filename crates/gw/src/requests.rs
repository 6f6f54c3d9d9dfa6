//! `model-gateway requests`: shows the request log.

use clap::Args;
use gw_admin::AdminRequest;
use gw_admin::endpoints::LIST_REQUESTS;
use gw_command::table::{Align, clean, columns};
use gw_command::{CommandError, Common, print};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::admin_client::{self, AdminTarget};
use crate::keys;
use crate::log_filter::LogFilter;
use crate::url_query::query;

/// The options of `requests`.
#[derive(Debug, Args)]
pub struct RequestsArgs {
    #[command(flatten)]
    target: AdminTarget,
    #[command(flatten)]
    filter: LogFilter,
    /// Only requests with this status: ok or an error code
    #[arg(long)]
    status: Option<String>,
    /// Most requests to show, up to 1000
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct RequestPage<'a> {
    #[serde(borrow)]
    data: Vec<LogRow<'a>>,
}

/// A row of the log; without an amount if a price is unknown. The amount is kept as it is written, so that it passes through no float.
#[derive(Deserialize)]
struct LogRow<'a> {
    at: String,
    request_id: String,
    key_name: String,
    surface: String,
    session: Option<String>,
    requested_model: String,
    status: String,
    total_tokens: u64,
    #[serde(borrow)]
    cost_usd: Option<&'a RawValue>,
    latency_ms: u64,
}

/// Prints the newest requests first.
///
/// # Errors
/// Exit code 2 for a request that is refused, 1 when the store or the gateway does not answer.
pub fn run(common: &Common, args: &RequestsArgs) -> Result<(), CommandError> {
    let ask = |ask| admin_client::ask(common, &args.target, ask);
    let key = args.filter.key.as_deref().map(|key| keys::id_of(&ask, key, true)).transpose()?;
    let limit = args.limit.to_string();
    let mut parameters = args.filter.parameters(key.as_deref());
    parameters.extend([("status", args.status.as_deref()), ("limit", Some(&*limit))]);
    let body = ask(AdminRequest::new(LIST_REQUESTS).with_query(query(&parameters)))?;
    let text = String::from_utf8_lossy(&body);
    print(&if args.json { format!("{text}\n") } else { table(&text)? })
}

fn table(json: &str) -> Result<String, CommandError> {
    const HEADER: [&str; 10] =
        ["AT", "REQUEST", "KEY", "SURFACE", "SESSION", "MODEL", "STATUS", "TOKENS", "COST USD", "MS"];
    const LEFT: usize = 7;
    let page: RequestPage<'_> = serde_json::from_str(json)
        .map_err(|error| CommandError::Runtime(format!("the answer is no page of the log: {error}")))?;
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    for row in page.data {
        rows.push(vec![
            clean(&row.at),
            clean(&row.request_id),
            clean(&row.key_name),
            clean(&row.surface),
            row.session.as_deref().map_or_else(|| "-".to_owned(), clean),
            clean(&row.requested_model),
            clean(&row.status),
            row.total_tokens.to_string(),
            row.cost_usd.map_or_else(|| "unpriced".to_owned(), |amount| clean(amount.get())),
            row.latency_ms.to_string(),
        ]);
    }
    let aligns: Vec<Align> =
        (0..HEADER.len()).map(|column| if column < LEFT { Align::Left } else { Align::Right }).collect();
    Ok(columns(&rows, &aligns))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_row_is_a_line_with_its_session() {
        let row = |session: &str| {
            format!(
                r#"{{"at":"2026-11-22T10:00:00.000Z","request_id":"req_1","key_name":"ci","surface":"chat","session":{session},
                "requested_model":"acme/fast","status":"ok","total_tokens":15,"cost_usd":0.000020,"latency_ms":7}}"#
            )
        };
        let json = format!(r#"{{"object":"list","data":[{},{}]}}"#, row("\"run\\u001b1\""), row("null"));
        let table = super::table(&json).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(
            lines[1].contains("chat") && lines[1].contains("run 1") && lines[1].contains("0.000020"),
            "{table}"
        );
        assert!(lines[2].contains(" - "), "{table}");
        assert!(super::table("{}").is_err());
    }
}
