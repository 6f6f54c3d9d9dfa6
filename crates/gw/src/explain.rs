//! `model-gateway explain`: why a request would go where. The engine of the configuration decides, or a running gateway
//! (`--url`), which knows what was measured and which circuits are open. No provider is called.

use std::io::Read;

use bytes::Bytes;
use clap::Args;
use gw_engine::Caller;
use gw_engine::auth::configured_id;
use gw_engine::engine::Stored;
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::cli::{Common, Stop, print};
use crate::keys;
use crate::models::table::{Align, clean, columns};
use crate::models::unknown_model;
use crate::operator::{self, Whom};
use crate::setup::{self, Setup};

/// More is no request.
const LONGEST: u64 = 1 << 30;

/// Which request, and who asks whom.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The request as JSON (chat, text completion or embeddings, told by its members); - reads it from standard input
    #[arg(value_name = "REQUEST")]
    request: String,
    /// As JSON, in the shape of the API
    #[arg(long)]
    json: bool,
    /// As if the key of this id or name asked [default: a key without limits]
    #[arg(long, value_name = "ID|NAME")]
    key: Option<String>,
    /// Ask the gateway running at this address, with the key in MODEL_GATEWAY_ADMIN_KEY: it knows what was measured
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// Prints the explanation.
///
/// # Errors
/// Exit code 2 for what the request would be refused with, 1 when the gateway does not answer.
pub fn run(common: &Common, args: &ExplainArgs) -> Result<(), Stop> {
    let request = request(&args.request)?;
    let answer = match &args.url {
        Some(url) => {
            let whom = Whom { url: Some(url.clone()) };
            let ask = |ask| operator::ask(common, &whom, ask);
            let key = args.key.as_deref().map(|key| keys::id_of(&ask, key, false)).transpose()?;
            operator::ask_for_route(url, key.as_deref(), request)?
        }
        None => offline(common, args.key.as_deref(), request)?,
    };
    let answer: Value = serde_json::from_slice(&answer)
        .map_err(|error| Stop::Runtime(format!("the answer is not an explanation: {error}")))?;
    if args.json {
        return print(&format!("{answer:#}\n"));
    }
    let mut text = table(&answer);
    if args.url.is_none() {
        text += "this decision uses no measurements and no circuit breakers; --url asks a running gateway, which has them\n";
    }
    print(&text)
}

fn request(text: &str) -> Result<Bytes, Stop> {
    if text != "-" {
        return Ok(Bytes::copy_from_slice(text.as_bytes()));
    }
    let mut body = Vec::new();
    let read = std::io::stdin().lock().take(LONGEST).read_to_end(&mut body);
    read.map_err(|error| Stop::Runtime(format!("standard input: {error}")))?;
    Ok(body.into())
}

/// What the engine of the configuration says, with nothing measured yet.
fn offline(common: &Common, key: Option<&str>, request: Bytes) -> Result<Bytes, Stop> {
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let deployed = setup.deploy().map_err(|problems| Stop::Usage(problems.join("\n")))?;
    let engine = crate::serve::engine(&setup, deployed, Stored::default(), &mut Registry::default())?;
    let key = key.map(|key| key_id(&setup, key)).transpose()?;
    let query = operator::query(&[("key", key.as_deref())]);
    gw_admin::explain_route(&engine, &Caller::operator(), &query, request).map_err(|error| {
        let code = error.code();
        let message = unknown_model(code, &error.message);
        let message = match hint(&setup, code) {
            Some(hint) => format!("{}. {hint}", message.trim_end_matches('.')),
            None => message,
        };
        if error.status() < 500 { Stop::Usage(message) } else { Stop::Runtime(message) }
    })
}

/// The id of a key of the configuration, given as it is or by its name.
fn key_id(setup: &Setup, given: &str) -> Result<String, Stop> {
    let keys = &setup.config.engine.keys;
    let found = keys.iter().map(|key| (configured_id(&key.name), &key.name));
    let found = found.into_iter().find(|(id, name)| id == given || *name == given);
    found.map(|(id, _)| id).ok_or_else(|| {
        Stop::Usage(format!(
            "the configuration has no key '{}'; for a key of the store ask a running gateway with --url",
            clean(given)
        ))
    })
}

/// What may be behind a name that is not known.
fn hint(setup: &Setup, code: &str) -> Option<String> {
    let lists = setup.config.providers.iter().filter(|provider| provider.discover);
    let names: Vec<_> = lists.map(|provider| provider.name.as_str()).collect();
    if code != "model_not_found" || names.is_empty() {
        return None;
    }
    Some(format!(
        "The models that {} would list were not asked for: a running gateway knows them (--url)",
        names.join(", ")
    ))
}

fn table(answer: &Value) -> String {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(clean).unwrap_or_default();
    let header =
        ["", "MODEL", "NAMED AS", "STANDING", "SCORE", "PARTS OF THE SCORE", "EXPECTED USD", "IN FLIGHT"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (place, candidate) in (1..).zip(list("candidates")) {
        rows.push(row(place, candidate));
    }
    use Align::{Left, Right};
    let aligns = [Right, Left, Left, Left, Right, Left, Right, Right];
    let mut told = format!("'{}' by strategy {}\n\n", text("requested_model"), text("strategy"));
    told += &columns(&rows, &aligns);
    let excluded = list("excluded");
    if !excluded.is_empty() {
        let mut rows = vec![vec!["LEFT OUT".to_owned(), "WHY".to_owned()]];
        rows.extend(excluded.iter().map(|row| vec![cell(row, "model"), cell(row, "reason")]));
        told.push('\n');
        told += &columns(&rows, &[Left, Left]);
    }
    if answer.get("conversation_known").and_then(Value::as_bool) == Some(true) {
        told += "\none of them holds the prompt cache of this conversation\n";
    }
    let worst = answer.get("worst_case").unwrap_or(&Value::Null);
    told += &format!(
        "\nat the worst {} tokens and {} USD are set aside; at most {} upstream calls\n",
        cell(worst, "tokens"),
        cell(worst, "cost_usd"),
        cell(answer, "max_attempts")
    );
    told
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

/// A part of a score to four digits: it is compared, not added up.
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
    fn a_table_is_told_of_any_answer_and_controls_are_not_repeated() {
        let answer = json!({
            "requested_model": "m\u{1b}[2J", "strategy": "cheapest", "max_attempts": 4, "conversation_known": true,
            "candidates": [{"model": "a/m", "named_as": "requested", "standing": "able", "score": 0.5,
                            "parts": {"price": 0.5}, "expected_cost_usd": 0.25, "in_flight": 0,
                            "holds_prompt_cache": true},
                           {"model": "b/m", "named_as": "fallback", "standing": "open", "score": null}],
            "excluded": [{"model": "c/m", "reason": "No tools."}],
            "worst_case": {"tokens": 10, "cost_usd": 0.5},
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
            "10 tokens and 0.5 USD",
        ] {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(!table.contains('\u{1b}'), "{table:?}");
        assert!(super::table(&json!({})).contains("MODEL"));
    }
}
