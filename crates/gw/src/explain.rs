//! `model-gateway explain`: explains the routing of a request. An engine built from the configuration decides, or a running
//! gateway does (`--url`), which has measurements and open circuits. No provider is called.

use std::io::Read;

use bytes::Bytes;
use clap::Args;
use gw_command::table::{Align, clean, columns};
use gw_command::{CommandError, Common, print};
use gw_config::setup::{self, Setup};
use gw_engine::auth::configured_id;
use gw_engine::engine::Stored;
use gw_engine::{Caller, RequestMarks};
use gw_providers::seal::Sealer;
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::admin_client::{self, AdminTarget};
use crate::keys;
use crate::models::unknown_model;
use crate::pretty_json;
use crate::url_query::query;

/// The most bytes that are read from standard input.
const MAX_REQUEST_BYTES: u64 = 1 << 30;

/// The options of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Request as JSON: a chat, a text completion or embeddings; - reads it from standard input
    #[arg(value_name = "REQUEST")]
    request: String,
    /// Print JSON, as the API does
    #[arg(long)]
    json: bool,
    /// Explain for the key of this id or name [default: a key without limits]
    #[arg(long, value_name = "ID|NAME")]
    key: Option<String>,
    /// Ask the running gateway at this address, which has measurements, with the admin key in MODEL_GATEWAY_ADMIN_KEY
    #[arg(long, value_name = "URL", value_parser = admin_client::gateway_address)]
    url: Option<String>,
}

/// Prints the explanation.
///
/// # Errors
/// Exit code 2 when the request would be refused, 1 when the gateway does not answer.
pub fn run(common: &Common, args: &ExplainArgs) -> Result<(), CommandError> {
    let request = request(&args.request)?;
    let body = match &args.url {
        Some(url) => {
            let target = AdminTarget { url: Some(url.clone()) };
            let ask = |ask| admin_client::ask(common, &target, ask);
            let key = args.key.as_deref().map(|key| keys::id_of(&ask, key, false)).transpose()?;
            admin_client::explain_route(url, key.as_deref(), request)?
        }
        None => offline(common, args.key.as_deref(), request)?,
    };
    let answer: Value = serde_json::from_slice(&body)
        .map_err(|error| CommandError::Runtime(format!("the answer is not an explanation: {error}")))?;
    if args.json {
        return print(&format!("{}\n", pretty_json::on_lines(&body)?));
    }
    let mut text = table(&answer);
    if args.url.is_none() {
        text += "this decision uses no measurements and no circuit breakers; --url URL asks a running gateway, which has both\n";
    }
    print(&text)
}

fn request(text: &str) -> Result<Bytes, CommandError> {
    if text != "-" {
        return Ok(Bytes::copy_from_slice(text.as_bytes()));
    }
    let mut body = Vec::new();
    let read = std::io::stdin().lock().take(MAX_REQUEST_BYTES).read_to_end(&mut body);
    read.map_err(|error| CommandError::Runtime(format!("standard input: {error}")))?;
    Ok(body.into())
}

/// The explanation of an engine built from the configuration, without measurements.
fn offline(common: &Common, key: Option<&str>, request: Bytes) -> Result<Bytes, CommandError> {
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let deployed = setup.deploy(&Sealer::random()).map_err(|problems| CommandError::problems(&problems))?;
    let engine = crate::engine_parts::engine(&setup, deployed, Stored::default(), &mut Registry::default())?;
    let key = key.map(|key| key_id(&setup, key)).transpose()?;
    let parameters = query(&[("key", key.as_deref())]);
    gw_admin::explain_route(&engine, &Caller::operator(), &parameters, request, |_| RequestMarks::default())
        .map(|explained| explained.without_rules())
        .map_err(|error| {
            let code = error.code();
            let message = unknown_model(code, &error.message);
            let message = match hint(&setup, code) {
                Some(hint) => format!("{}. {hint}", message.trim_end_matches('.')),
                None => message,
            };
            if error.status() < 500 { CommandError::Usage(message) } else { CommandError::Runtime(message) }
        })
}

/// The id of a configured key. `given` is the id or the name of the key.
fn key_id(setup: &Setup, given: &str) -> Result<String, CommandError> {
    let keys = &setup.config.engine.keys;
    let found = keys.iter().map(|key| (configured_id(&key.name), &key.name));
    let found = found.into_iter().find(|(id, name)| id == given || *name == given);
    found.map(|(id, _)| id).ok_or_else(|| {
        CommandError::Usage(format!(
            "the configuration has no key '{}'; for a key of the store, ask a running gateway with --url URL",
            clean(given)
        ))
    })
}

/// A possible reason why a model is unknown: providers list models only to a running gateway.
fn hint(setup: &Setup, code: &str) -> Option<String> {
    let lists = setup.config.providers.iter().filter(|provider| provider.discover);
    let names: Vec<_> = lists.map(|provider| provider.name.as_str()).collect();
    if code != "model_not_found" || names.is_empty() {
        return None;
    }
    Some(format!(
        "Models that {} would list are known only to a running gateway; ask it with --url URL",
        names.join(", ")
    ))
}

fn table(answer: &Value) -> String {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let member = |name: &str| answer.get(name).and_then(Value::as_str).map(clean).unwrap_or_default();
    let header =
        ["", "MODEL", "NAMED AS", "STANDING", "SCORE", "PARTS OF THE SCORE", "EXPECTED USD", "IN FLIGHT"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (place, candidate) in (1..).zip(list("candidates")) {
        rows.push(row(place, candidate));
    }
    use Align::{Left, Right};
    let aligns = [Right, Left, Left, Left, Right, Left, Right, Right];
    let mut text = format!("'{}' by strategy {}\n\n", member("requested_model"), member("strategy"));
    text += &columns(&rows, &aligns);
    let excluded = list("excluded");
    if !excluded.is_empty() {
        let mut rows = vec![vec!["EXCLUDED".to_owned(), "REASON".to_owned()]];
        rows.extend(excluded.iter().map(|row| vec![cell(row, "model"), cell(row, "reason")]));
        text.push('\n');
        text += &columns(&rows, &[Left, Left]);
    }
    if answer.get("conversation_known").and_then(Value::as_bool) == Some(true) {
        text += "\na candidate holds the prompt cache of this conversation\n";
    }
    let worst = answer.get("worst_case").unwrap_or(&Value::Null);
    let cost = match worst.get("cost_usd") {
        None | Some(Value::Null) => "at an unknown price".to_owned(),
        Some(_) => format!("{} USD, which a budget sets aside", cell(worst, "cost_usd")),
    };
    text += &format!(
        "\nworst case: answers of {} tokens, {} tokens in all, {cost}; at most {} upstream calls\nEXPECTED USD assumes answers of max_tokens, or of 4096 tokens without it, or of the model's longest if that \
         is shorter\n",
        cell(worst, "answer_tokens"),
        cell(worst, "tokens"),
        cell(answer, "max_attempts")
    );
    text
}

fn row(place: u32, candidate: &Value) -> Vec<String> {
    let parts = candidate.get("parts").and_then(Value::as_object);
    let parts: Vec<_> = parts
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{} {}", clean(name), short(value)))
        .collect();
    let warm = candidate.get("holds_prompt_cache").and_then(Value::as_bool) == Some(true);
    let standing = cell(candidate, "standing");
    vec![
        place.to_string(),
        cell(candidate, "model"),
        cell(candidate, "named_as"),
        if warm { format!("{standing}, warm") } else { standing },
        candidate.get("score").map_or_else(|| "-".to_owned(), short),
        if parts.is_empty() { "-".to_owned() } else { parts.join(", ") },
        cell(candidate, "expected_cost_usd"),
        cell(candidate, "in_flight"),
    ]
}

fn cell(row: &Value, name: &str) -> String {
    match row.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => clean(text),
        Some(number) if number.as_f64() == Some(0.0) => "0".to_owned(),
        Some(other) => clean(&other.to_string()),
    }
}

/// A part of a score, rounded to about four digits.
fn short(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number != 0.0 && number.abs() < 0.01 => format!("{number:.3e}"),
        Some(number) => {
            let text = format!("{number:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_a_score_are_short() {
        for (value, text) in [
            (json!(0), "0"),
            (json!(1.0), "1"),
            (json!(-12.5), "-12.5"),
            (json!(0.000_012_345), "1.234e-5"),
            (json!(120.0), "120"),
            (json!(null), "-"),
        ] {
            assert_eq!(short(&value), text, "{value}");
        }
    }

    #[test]
    fn any_answer_becomes_a_table_without_control_characters() {
        let answer = json!({
            "requested_model": "m\u{1b}[2J", "strategy": "cheapest", "max_attempts": 4, "conversation_known": true,
            "candidates": [{"model": "a/m", "named_as": "requested", "standing": "able", "score": 0.5,
                            "parts": {"price": 0.5}, "expected_cost_usd": 0.25, "in_flight": 0,
                            "holds_prompt_cache": true},
                           {"model": "b/m", "named_as": "fallback", "standing": "open", "score": null}],
            "excluded": [{"model": "c/m", "reason": "No tools."}],
            "worst_case": {"answer_tokens": 8, "tokens": 10, "cost_usd": 0.5},
        });
        let table = table(&answer);
        for part in [
            "1  a/m",
            "able, warm",
            "price 0.5",
            "0.25",
            "2  b/m",
            "c/m",
            "No tools.",
            "answers of 8 tokens, 10 tokens in all, 0.5 USD",
        ] {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(!table.contains('\u{1b}'), "{table:?}");
        assert!(super::table(&json!({})).contains("MODEL"));
    }
}
