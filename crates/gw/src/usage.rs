//! `model-gateway usage`: reports requests, tokens and costs.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use gw_admin::AdminRequest;
use gw_admin::endpoints::REPORT_USAGE;
use gw_command::table::{Align, clean, columns};
use gw_command::{CommandError, Common, print};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::admin_client::{self, AdminTarget};
use crate::keys;
use crate::log_filter::LogFilter;
use crate::url_query::query;

/// The options of `usage`.
#[derive(Debug, Args)]
pub struct UsageArgs {
    #[command(flatten)]
    target: AdminTarget,
    /// Group by key, team, model, provider, session, surface, end_user, tag, repository, branch, pull_request, day or hour
    #[arg(long, default_value = "day")]
    by: String,
    #[command(flatten)]
    filter: LogFilter,
    /// Most groups to list, the most expensive ones, up to 1000; the others are one row
    #[arg(long)]
    limit: Option<u32>,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Table,
    Json,
    Csv,
}

/// Prints the report.
///
/// # Errors
/// Exit code 2 for a request that is refused, 1 when the store or the gateway does not answer.
pub fn run(common: &Common, args: &UsageArgs) -> Result<(), CommandError> {
    let is_csv = args.format == OutputFormat::Csv;
    let ask = |ask| admin_client::ask(common, &args.target, ask);
    let key = args.filter.key.as_deref().map(|key| keys::id_of(&ask, key, true)).transpose()?;
    let mut parameters = args.filter.parameters(key.as_deref());
    let limit = args.limit.map(|limit| limit.to_string());
    parameters.extend([
        ("limit", limit.as_deref()),
        ("by", Some(&*args.by)),
        ("format", Some(if is_csv { "csv" } else { "json" })),
    ]);
    let query = query(&parameters);
    let body = ask(AdminRequest::new(REPORT_USAGE).with_query(query))?;
    let text = String::from_utf8_lossy(&body);
    match args.format {
        OutputFormat::Csv => print(&text),
        OutputFormat::Json => print(&format!("{text}\n")),
        OutputFormat::Table => print(&table(&text)?),
    }
}

/// The members of a row as they are written, so that no amount passes through a float.
type Row<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Deserialize)]
struct UsageReport<'a> {
    by: String,
    #[serde(borrow)]
    data: Vec<Row<'a>>,
    #[serde(borrow)]
    total: Row<'a>,
}

/// Amounts of prompt caches, which a table has only if one of them is not 0.
const CACHE_MEMBERS: [&str; 3] = ["cache_saved_usd", "cache_surcharge_usd", "cache_lost_usd"];
const CACHE_HEADER: [&str; 3] = ["CACHE SAVED", "CACHE SURCHARGE", "CACHE LOST"];

/// The costs that providers stated, which a table has only if a request has one.
const STATED_MEMBER: &str = "provider_cost_usd";

fn table(json: &str) -> Result<String, CommandError> {
    const MEMBERS: [&str; 8] = [
        "requests",
        "failed",
        "cache_hits",
        "prompt_tokens",
        "completion_tokens",
        "cost_usd",
        "unpriced_requests",
        "saved_usd",
    ];
    const HEADER: [&str; 8] =
        ["REQUESTS", "FAILED", "CACHED", "PROMPT", "COMPLETION", "COST USD", "UNPRICED", "SAVED USD"];
    let report: UsageReport<'_> = serde_json::from_str(json)
        .map_err(|error| CommandError::Runtime(format!("the answer is not a usage report: {error}")))?;
    let groups: Vec<&str> = match report.by.as_str() {
        "key" => vec!["key", "key_name"],
        by => vec![by],
    };
    let is_known = |name: &&str| !matches!(&*cell(&report.total, name), "0" | "-");
    let has_caches = CACHE_MEMBERS.iter().any(is_known);
    let has_stated = report.total.get(STATED_MEMBER).is_some_and(|value| value.get() != "null");
    let shown = |caches: [&'static str; 3], stated| {
        let caches = caches.into_iter().filter(move |_| has_caches);
        caches.chain(has_stated.then_some(stated))
    };
    let members: Vec<&str> = MEMBERS.into_iter().chain(shown(CACHE_MEMBERS, STATED_MEMBER)).collect();
    let header = HEADER.into_iter().chain(shown(CACHE_HEADER, "STATED USD")).map(str::to_owned);
    let upper = |name: &&str| name.replace("key_name", "name").to_uppercase();
    let mut rows: Vec<Vec<String>> = vec![groups.iter().map(upper).chain(header).collect()];
    for row in &report.data {
        let mut cells: Vec<String> = groups.iter().chain(&members).map(|name| cell(row, name)).collect();
        if let (Some(first), Some(_)) = (cells.first_mut(), row.get("other")) {
            "(other)".clone_into(first);
        }
        rows.push(cells);
    }
    let blanks = groups.iter().enumerate().map(|(at, _)| if at == 0 { "total" } else { "" }.to_owned());
    rows.push(blanks.chain(members.iter().map(|name| cell(&report.total, name))).collect());
    let aligns: Vec<Align> =
        groups.iter().map(|_| Align::Left).chain(members.iter().map(|_| Align::Right)).collect();
    Ok(columns(&rows, &aligns))
}

fn cell(row: &Row<'_>, name: &str) -> String {
    let text = row.get(name).map_or("null", |value| value.get());
    match serde_json::from_str::<Option<String>>(text) {
        Ok(Some(text)) => clean(&text),
        Ok(None) => "-".to_owned(),
        Err(_) => clean(text),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_has_a_line_per_group_and_a_total_with_exact_amounts() {
        let sums = r#""requests":2,"failed":1,"cache_hits":0,"prompt_tokens":10,"completion_tokens":5,
            "cost_usd":0.123456789012345,"saved_usd":0,"unpriced_requests":7"#;
        let json = format!(
            r#"{{"object":"usage","by":"key","data":[{{"key":"sk-gw-000000","key_name":"a\u001bb",{sums}}},
            {{"key":null,"key_name":null,{sums}}}],"total":{{{sums}}}}}"#
        );
        let table = super::table(&json).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(lines[0].starts_with("KEY") && lines[0].contains("NAME"), "{table}");
        assert!(lines[1].starts_with("sk-gw-000000  a b "), "{table}");
        assert!(lines[2].starts_with("- "), "{table}");
        assert!(lines[3].starts_with("total ") && lines[3].contains("0.123456789012345"), "{table}");
        assert!(lines[0].contains("UNPRICED") && lines[3].contains(" 7 "), "{table}");
        assert!(!lines[0].contains("CACHE SAVED"), "{table}");
        assert!(super::table("{}").is_err());
    }

    #[test]
    fn a_table_has_what_prompt_caches_saved_and_cost_if_there_is_some() {
        let sums = r#""requests":2,"cache_saved_usd":0,"cache_surcharge_usd":0.25,"cache_lost_usd":0"#;
        let json = format!(r#"{{"object":"usage","by":"day","data":[],"total":{{{sums}}}}}"#);
        let table = super::table(&json).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].ends_with("CACHE SAVED  CACHE SURCHARGE  CACHE LOST"), "{table}");
        assert!(lines[1].contains("0.25"), "{table}");
    }

    #[test]
    fn a_table_has_the_costs_that_providers_stated_if_there_are_some() {
        for (stated, shows) in [("null", false), ("0", true), ("0.25", true)] {
            let sums = format!(r#""requests":2,"provider_cost_usd":{stated}"#);
            let table = super::table(&format!(r#"{{"by":"day","data":[],"total":{{{sums}}}}}"#)).unwrap();
            assert_eq!(table.contains("STATED USD"), shows, "{table}");
        }
    }
}
