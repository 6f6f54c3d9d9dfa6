//! `model-gateway keys`: made, listed, rotated and revoked in the terminal.
//!
//! Standard output gets what a script wants and nothing else: the secret of a new key alone on its line, or the list.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use gw_admin::AdminRequest;
use gw_wire::money::Price;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::{Common, Stop, print};
use crate::models::table::{Align, clean, columns};
use crate::operator::{self, Whom};

/// What is done with which key.
#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(flatten)]
    whom: Whom,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a key; its secret is printed once and kept nowhere
    Create(Box<New>),
    /// Show the keys, without their secrets
    List {
        /// As JSON, in the shape of the API
        #[arg(long)]
        json: bool,
        /// Revoked ones too
        #[arg(long)]
        all: bool,
        /// Only those of this team
        #[arg(long)]
        team: Option<String>,
    },
    /// Refuse a key from now on, for good
    Revoke {
        /// Its id (the first 12 characters), or its name if no other key has it
        #[arg(value_name = "ID|NAME")]
        id: String,
    },
    /// Give a key a new secret, which is printed once; the old one goes on for a while
    Rotate {
        /// Its id (the first 12 characters), or its name if no other key has it
        #[arg(value_name = "ID|NAME")]
        id: String,
        /// For how long the old secret is still good, 0 to 604800
        #[arg(long, value_name = "SECONDS", default_value_t = 3600, allow_negative_numbers = true, value_parser = grace)]
        grace_seconds: u32,
    },
}

/// A new key.
#[derive(Debug, Args, Serialize)]
struct New {
    /// Label shown in lists and reports
    #[arg(long)]
    name: String,
    /// inference, or admin: the management API too
    #[arg(long, default_value = "inference")]
    role: String,
    /// The team it belongs to
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    /// The models it may use, separated by commas; acme/* is all of acme [default: all]
    #[arg(long, value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Vec<String>>,
    /// Requests per minute
    #[arg(long, allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    rpm: Option<u64>,
    /// Of these, how many may come at once, the rest evenly [default: all, at most so many in any minute]
    #[arg(long, requires = "rpm", allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    /// Tokens per minute
    #[arg(long, allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tpm: Option<u64>,
    /// Requests at one time
    #[arg(long, allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_in_flight: Option<u64>,
    /// What it may spend in a period
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = amount)]
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_usd: Option<String>,
    /// day, week, month or total [default: month]
    #[arg(long, requires = "budget_usd")]
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_period: Option<String>,
    /// What becomes of an answer when the budget ends under it: finish or cut [default: finish]
    #[arg(long, requires = "budget_usd")]
    #[serde(skip_serializing_if = "Option::is_none")]
    on_budget: Option<String>,
    /// Store what its requests and answers say, redacted
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log_payloads: bool,
    /// When it ends, as 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// A JSON object to keep with it
    #[arg(long, value_name = "JSON", value_parser = json)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

/// Checks an amount of money and keeps it as it is written.
fn amount(text: &str) -> Result<String, String> {
    Price::parse(text).map(|_| text.to_owned()).map_err(|_| {
        "write an amount of US dollars that is not negative, with at most nine decimals, such as 25 or 0.50".to_owned()
    })
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "write a whole number from 1 on, or leave the option out for no limit".to_owned())
}

fn grace(text: &str) -> Result<u32, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 604_800);
    seconds.ok_or_else(|| "write a whole number of seconds from 0 to 604800".to_owned())
}

fn json(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text.to_owned()).map_err(|error| error.to_string())
}

/// Does what is asked for.
///
/// # Errors
/// Exit code 2 for what cannot be done, 1 when the store or the gateway does not answer.
pub fn run(common: &Common, args: &KeysArgs) -> Result<(), Stop> {
    let ask = |ask| operator::ask(common, &args.whom, ask);
    match &args.what {
        What::Create(new) => {
            let body = serde_json::to_vec(&**new).map_err(|error| Stop::Usage(error.to_string()))?;
            secret(&parse(&ask(AdminRequest::CreateKey(body.into()))?)?, "made")
        }
        What::Rotate { id, grace_seconds } => {
            let body = format!("{{\"grace_seconds\":{grace_seconds}}}");
            let id = id_of(&ask, id, false)?;
            secret(&parse(&ask(AdminRequest::RotateKey(id, body.into()))?)?, "given a new secret")
        }
        What::Revoke { id } => {
            let id = id_of(&ask, id, false)?;
            let key = parse(&ask(AdminRequest::RevokeKey(id))?)?;
            say(&format!("{} is revoked", name(&key)));
            Ok(())
        }
        What::List { json, all, team } => {
            let keys = list(&ask, *all, team.as_deref())?;
            if *json {
                let text =
                    serde_json::to_string_pretty(&keys).map_err(|error| Stop::Runtime(error.to_string()))?;
                return print(&format!("{text}\n"));
            }
            let keys = keys.iter().map(|key| parse(key.get().as_bytes())).collect::<Result<Vec<_>, _>>()?;
            print(&table(&keys))
        }
    }
}

/// Characters of a key's id: `sk-gw-` and six more.
const ID_LENGTH: usize = 12;

/// The id of the key that is meant: an id is taken as it is, a name when one key alone has it. `all`: among revoked keys, too.
///
/// # Errors
/// Exit code 2 when no key or more than one key has the name, and for a whole key, which is not repeated.
pub(crate) fn id_of(
    ask: &impl Fn(AdminRequest) -> Result<bytes::Bytes, Stop>,
    given: &str,
    all: bool,
) -> Result<String, Stop> {
    if given.starts_with("sk-gw-") && given.len() > ID_LENGTH {
        let message =
            "this looks like a whole key, which should stay secret; write its id, the first 12 characters";
        return Err(Stop::Usage(message.to_owned()));
    }
    if given.starts_with("sk-gw-") || given.starts_with("cfg-") {
        return Ok(given.to_owned());
    }
    let keys = list(ask, all, None)?;
    let keys = keys.iter().map(|key| parse(key.get().as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let text = |key: &Value, member: &str| key.get(member).and_then(Value::as_str).map(str::to_owned);
    let named = keys.iter().filter(|key| text(key, "name").as_deref() == Some(given));
    let ids: Vec<String> = named.filter_map(|key| text(key, "id")).collect();
    match ids.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Stop::Usage(format!(
            "no key has the id or the name '{}'; 'model-gateway keys list' shows all keys",
            clean(given)
        ))),
        several => Err(Stop::Usage(format!(
            "{} keys have the name '{}'; write the id of one of them: {}",
            several.len(),
            clean(given),
            several.join(", ")
        ))),
    }
}

/// Every page, as it was written: an amount of money is not to pass through a float.
fn list(
    ask: &impl Fn(AdminRequest) -> Result<bytes::Bytes, Stop>,
    all: bool,
    team: Option<&str>,
) -> Result<Vec<Box<RawValue>>, Stop> {
    #[derive(serde::Deserialize)]
    struct Page {
        data: Vec<Box<RawValue>>,
        next: Option<String>,
    }
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let revoked = all.then_some("true");
        let query = operator::query(&[
            ("limit", Some("1000")),
            ("include_revoked", revoked),
            ("team", team),
            ("after", after.as_deref()),
        ]);
        let page: Page = serde_json::from_slice(&ask(AdminRequest::ListKeys(query))?)
            .map_err(|error| Stop::Runtime(format!("the answer is not a list of keys: {error}")))?;
        keys.extend(page.data);
        after = page.next;
        if after.is_none() {
            return Ok(keys);
        }
    }
}

fn parse(body: &[u8]) -> Result<Value, Stop> {
    serde_json::from_slice(body).map_err(|error| Stop::Runtime(format!("the answer is not a key: {error}")))
}

/// The secret alone to standard output, what happened to standard error.
fn secret(key: &Value, done: &str) -> Result<(), Stop> {
    let secret = key.get("key").and_then(Value::as_str);
    let secret = secret.ok_or_else(|| Stop::Runtime("the answer holds no key".to_owned()))?;
    let until = key.pointer("/rotated/previous_valid_until").and_then(Value::as_str);
    let until = until.map(|until| format!("; the old one is good until {until}")).unwrap_or_default();
    say(&format!("{} is {done}, shown now and never again{until}", name(key)));
    print(&format!("{secret}\n"))
}

fn name(key: &Value) -> String {
    let text = |member: &str| key.get(member).and_then(Value::as_str).map(clean).unwrap_or_default();
    format!("key {} '{}' of role {}", text("id"), text("name"), text("role"))
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn table(keys: &[Value]) -> String {
    const MEMBERS: [&str; 9] =
        ["id", "name", "role", "team", "models", "rpm", "tpm", "budget_usd", "expires_at"];
    let header = ["ID", "NAME", "ROLE", "TEAM", "MODELS", "RPM", "TPM", "BUDGET", "EXPIRES"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for key in keys {
        let cell = |member: &str| match key.get(member) {
            None | Some(Value::Null) => "-".to_owned(),
            Some(Value::String(text)) => clean(text),
            Some(Value::Array(items)) => {
                let items: Vec<_> = items.iter().filter_map(Value::as_str).map(clean).collect();
                items.join(" ")
            }
            Some(other) => other.to_string(),
        };
        let mut row: Vec<_> = MEMBERS.into_iter().map(cell).collect();
        if let (Some(budget), Some(Value::String(period))) = (row.get_mut(7), key.get("budget_period")) {
            *budget = format!("{budget} USD/{period}");
        }
        if let (Some(last), Some(Value::String(at))) = (row.last_mut(), key.get("revoked_at")) {
            *last = format!("revoked {at}");
        }
        rows.push(row);
    }
    use Align::{Left, Right};
    let count = keys.len();
    let table = columns(&rows, &[Left, Left, Left, Left, Left, Right, Right, Right, Left]);
    format!("{table}\n{count} key{}\n", if count == 1 { "" } else { "s" })
}
