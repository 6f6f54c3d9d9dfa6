//! `model-gateway keys`: creates, lists, rotates and revokes keys.
//!
//! Standard output holds only what a script needs: the secret of a new key alone on its line, or the list.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use gw_admin::AdminRequest;
use gw_admin::endpoints::{CREATE_KEY, LIST_KEYS, REVOKE_KEY, ROTATE_KEY};
use gw_command::table::{Align, clean, columns};
use gw_command::{CommandError, Common, print};
use gw_store::Period;
use gw_wire::money::Price;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::admin_client::{self, AdminTarget};
use crate::url_query::query;

/// The options of `keys`.
#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(flatten)]
    target: AdminTarget,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Create a key and print its secret once; the store keeps only its hash
    Create(Box<NewKeyArgs>),
    /// List the keys without their secrets
    List {
        /// Print JSON, as the API does
        #[arg(long)]
        json: bool,
        /// Include revoked keys
        #[arg(long)]
        all: bool,
        /// Only keys of this team
        #[arg(long)]
        team: Option<String>,
    },
    /// Revoke a key for good: it is refused from now on
    Revoke {
        /// Id of the key (its first 12 characters), or its name if no other key has this name
        #[arg(value_name = "ID|NAME")]
        id: String,
    },
    /// Give a key a new secret and print it once; the old secret stays valid for a while
    Rotate {
        /// Id of the key (its first 12 characters), or its name if no other key has this name
        #[arg(value_name = "ID|NAME")]
        id: String,
        /// Seconds for which the old secret stays valid, 0 to 604800
        #[arg(long, value_name = "SECONDS", default_value_t = 3600, allow_negative_numbers = true, value_parser = grace)]
        grace_seconds: u32,
    },
}

/// The options of `keys create`.
#[derive(Debug, Args, Serialize)]
struct NewKeyArgs {
    /// Label shown in lists and reports
    #[arg(long)]
    name: String,
    /// Role: inference, viewer, operator or admin; all but inference may use the management API
    #[arg(long, default_value = "inference")]
    role: String,
    /// Team of the key
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    /// Models that the key may use, separated by commas; acme/* means all models of acme [default: all]
    #[arg(long, value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Vec<String>>,
    /// Requests per minute [default: no limit]
    #[arg(long, allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    rpm: Option<u64>,
    /// Requests of --rpm that may come at once; the others are spread evenly over the minute [default: all]
    #[arg(long, requires = "rpm", allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    /// Tokens per minute, prompt and answer [default: no limit]
    #[arg(long, allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tpm: Option<u64>,
    /// Requests at the same time [default: no limit]
    #[arg(long, allow_negative_numbers = true, value_parser = count)]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_in_flight: Option<u64>,
    /// Amount that the key may spend in a period [default: no limit]
    #[arg(long, alias = "budget", value_name = "USD", allow_negative_numbers = true, value_parser = amount)]
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_usd: Option<String>,
    #[arg(long, requires = "budget_usd", help = period_help())]
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_period: Option<String>,
    /// When the budget runs out during an answer: finish the answer, or cut it [default: finish]
    #[arg(long, requires = "budget_usd")]
    #[serde(skip_serializing_if = "Option::is_none")]
    on_budget: Option<String>,
    /// Requests to models whose price is unknown: allow or refuse [default: allow]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    unpriced: Option<String>,
    /// Store the redacted text of its requests and answers
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log_payloads: bool,
    /// Believe the end user and the tags that its requests name
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    trust_attribution: bool,
    /// Time at which the key expires, such as 2027-01-01T00:00:00Z [default: never]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// JSON object that is stored with the key
    #[arg(long, value_name = "JSON", value_parser = json)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

/// The reason why the value of an option cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The value is not an amount of money.
    #[error(
        "write an amount of US dollars that is not negative, with at most nine decimals, such as 25 or 0.50"
    )]
    Amount,
    /// The value is not a positive whole number.
    #[error("write a whole number from 1 on, or leave the option out for no limit")]
    Count,
    /// The value is not a number of seconds within its range.
    #[error("write a whole number of seconds from 0 to 604800")]
    Grace,
}

/// Checks an amount of money and keeps its digits as they are written.
fn amount(text: &str) -> Result<String, OptionError> {
    Price::parse(text).map(|_| text.to_owned()).map_err(|_| OptionError::Amount)
}

/// The help of `--budget-period`, with the names of all periods.
fn period_help() -> String {
    let (names, default) = (Period::NAMES.join(", "), Period::default().as_str());
    format!("Period of the budget: {names}, or days such as 30d [default: {default}]")
}

fn count(text: &str) -> Result<u64, OptionError> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or(OptionError::Count)
}

fn grace(text: &str) -> Result<u32, OptionError> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 604_800);
    seconds.ok_or(OptionError::Grace)
}

fn json(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string(text.to_owned())
}

/// Runs the command.
///
/// # Errors
/// Exit code 2 for a request that is refused, 1 when the store or the gateway does not answer.
pub fn run(common: &Common, args: &KeysArgs) -> Result<(), CommandError> {
    let ask = |ask| admin_client::ask(common, &args.target, ask);
    match &args.command {
        KeysCommand::Create(new) => {
            let body = serde_json::to_vec(&**new).map_err(|error| CommandError::Usage(error.to_string()))?;
            print_secret(&parse(&ask(AdminRequest::new(CREATE_KEY).with_body(body))?)?, "created")
        }
        KeysCommand::Rotate { id, grace_seconds } => {
            let body = format!("{{\"grace_seconds\":{grace_seconds}}}");
            let id = id_of(&ask, id, false)?;
            print_secret(&parse(&ask(AdminRequest::new(ROTATE_KEY).with_id(id).with_body(body))?)?, "rotated")
        }
        KeysCommand::Revoke { id } => {
            let id = id_of(&ask, id, false)?;
            let key = parse(&ask(AdminRequest::new(REVOKE_KEY).with_id(id))?)?;
            log(&format!("{} is revoked", name(&key)));
            Ok(())
        }
        KeysCommand::List { json, all, team } => {
            let keys = list(&ask, *all, team.as_deref())?;
            if *json {
                let text = serde_json::to_string_pretty(&keys)
                    .map_err(|error| CommandError::Runtime(error.to_string()))?;
                return print(&format!("{text}\n"));
            }
            let keys = keys.iter().map(|key| with_exact_budget(key)).collect::<Result<Vec<_>, _>>()?;
            print(&table(&keys))
        }
    }
}

/// The length of a key's id: `sk-gw-` and six more characters.
const ID_LENGTH: usize = 12;

/// Finds the id of a key. `given` is an id, or a name that only one key has. `all` includes revoked keys.
///
/// # Errors
/// Exit code 2 when no key or several keys have the name, and when `given` is a whole key. The message does not repeat a key.
pub(crate) fn id_of(
    ask: &impl Fn(AdminRequest) -> Result<bytes::Bytes, CommandError>,
    given: &str,
    all: bool,
) -> Result<String, CommandError> {
    if given.starts_with("sk-gw-") && given.len() > ID_LENGTH {
        let message = "this looks like a whole key, which should stay secret; write its id, which is its first 12 characters";
        return Err(CommandError::Usage(message.to_owned()));
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
        [] => Err(CommandError::Usage(format!(
            "no key has the id or the name '{}'; 'model-gateway keys list' shows all keys",
            clean(given)
        ))),
        several => Err(CommandError::Usage(format!(
            "{} keys have the name '{}'; write the id of one of them: {}",
            several.len(),
            clean(given),
            several.join(", ")
        ))),
    }
}

/// Lists the keys of every page. Each key stays as it was written, so that no amount passes through a float.
fn list(
    ask: &impl Fn(AdminRequest) -> Result<bytes::Bytes, CommandError>,
    all: bool,
    team: Option<&str>,
) -> Result<Vec<Box<RawValue>>, CommandError> {
    #[derive(serde::Deserialize)]
    struct KeyPage {
        data: Vec<Box<RawValue>>,
        next: Option<String>,
    }
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let revoked = all.then_some("true");
        let parameters = query(&[
            ("limit", Some("1000")),
            ("include_revoked", revoked),
            ("team", team),
            ("after", after.as_deref()),
        ]);
        let page: KeyPage = serde_json::from_slice(
            &ask(AdminRequest::new(LIST_KEYS).with_query(parameters))?,
        )
        .map_err(|error| CommandError::Runtime(format!("the answer is not a list of keys: {error}")))?;
        keys.extend(page.data);
        after = page.next;
        if after.is_none() {
            return Ok(keys);
        }
    }
}

fn parse(body: &[u8]) -> Result<Value, CommandError> {
    serde_json::from_slice(body)
        .map_err(|error| CommandError::Runtime(format!("the answer is not a key: {error}")))
}

/// A key for the table. Its budget is the text of the number, because a float has fewer digits.
fn with_exact_budget(key: &RawValue) -> Result<Value, CommandError> {
    #[derive(serde::Deserialize)]
    struct ExactBudget<'a> {
        #[serde(borrow)]
        budget_usd: Option<&'a RawValue>,
    }
    let mut value = parse(key.get().as_bytes())?;
    let exact: ExactBudget<'_> = serde_json::from_str(key.get())
        .map_err(|error| CommandError::Runtime(format!("the answer is not a key: {error}")))?;
    if let (Some(budget), Some(shown)) = (exact.budget_usd, value.get_mut("budget_usd")) {
        *shown = Value::String(budget.get().to_owned());
    }
    Ok(value)
}

/// Prints the secret alone to standard output, and a line about the key to standard error.
fn print_secret(key: &Value, done: &str) -> Result<(), CommandError> {
    let secret = key.get("key").and_then(Value::as_str);
    let secret = secret.ok_or_else(|| CommandError::Runtime("the answer holds no key".to_owned()))?;
    let until = key.pointer("/rotated/previous_valid_until").and_then(Value::as_str);
    let until = until.map(|until| format!("; the old secret is valid until {until}")).unwrap_or_default();
    log(&format!("{done} {}; its secret is shown only now{until}", name(key)));
    print(&format!("{secret}\n"))
}

fn name(key: &Value) -> String {
    let text = |member: &str| key.get(member).and_then(Value::as_str).map(clean).unwrap_or_default();
    format!("key {} '{}' of role {}", text("id"), text("name"), text("role"))
}

fn log(line: &str) {
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
