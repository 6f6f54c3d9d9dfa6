//! Renders catalogue answers as text.

use gw_command::table::{Align, clean, columns};
use serde_json::Value;

/// `GET /v1/models` as a table.
pub(super) fn list(answer: &Value) -> String {
    let header =
        ["MODEL", "CONTEXT", "MAX OUTPUT", "INPUT/M", "OUTPUT/M", "FEATURES"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    for model in answer.get("data").and_then(Value::as_array).into_iter().flatten() {
        rows.push(vec![
            text(model, "/id"),
            text(model, "/context_length"),
            text(model, "/max_output_tokens"),
            price(model, "/pricing/gateway_input_per_m"),
            price(model, "/pricing/gateway_output_per_m"),
            text(model, "/features"),
        ]);
    }
    use Align::{Left, Right};
    let table = columns(&rows, &[Left, Right, Right, Right, Right, Left]);
    let count = rows.len() - 1;
    format!("{table}\n{count} model{}\n", if count == 1 { "" } else { "s" })
}

/// One entry, with a line for each member. Nested members have dotted names.
pub(super) fn one(model: &Value) -> String {
    let mut rows = Vec::new();
    flatten("", model, &mut rows);
    rows.sort_by_key(|row| row.first().is_some_and(|name| name != "id"));
    columns(&rows, &[Align::Left, Align::Left])
}

/// `GET /v1/models/compare`: one column for each model, then the best model of each kind.
pub(super) fn comparison(answer: &Value) -> String {
    const LINES: [(&str, &str); 10] = [
        ("name", "/name"),
        ("provider", "/provider"),
        ("context", "/context_length"),
        ("input/M", "/pricing/gateway_input_per_m"),
        ("output/M", "/pricing/gateway_output_per_m"),
        ("latency p50 ms", "/performance/latency_p50_ms"),
        ("availability %", "/performance/availability"),
        ("quality", "/quality_scores/overall"),
        ("code", "/quality_scores/code"),
        ("math", "/quality_scores/math"),
    ];
    let ids: Vec<String> = strings(answer.get("models"));
    let models: Vec<&Value> =
        ids.iter().filter_map(|id| answer.get("comparison").and_then(|map| map.get(id))).collect();
    let mut rows = vec![std::iter::once(String::new()).chain(ids.iter().cloned()).collect::<Vec<_>>()];
    for (label, pointer) in LINES {
        let cells = models.iter().map(|model| text(model, pointer));
        rows.push(std::iter::once(label.to_owned()).chain(cells).collect());
        if pointer == LAST_TOKEN_PRICE {
            rows.extend(other_prices(&models));
        }
    }
    let aligns: Vec<Align> = (0..=ids.len()).map(|_| Align::Left).collect();
    let mut best = Vec::new();
    flatten("", answer.get("highlights").unwrap_or(&Value::Null), &mut best);
    for row in &mut best {
        let [label, winner] = row.as_mut_slice() else { continue };
        let figures = FIGURES.iter().find(|(name, _)| name == label).map_or(&[][..], |(_, figures)| *figures);
        // The API names a model even when no model has the figure.
        let side = answer.get("comparison").and_then(|sides| sides.get(winner.as_str()));
        let is_unknown =
            |figure: &&str| side.and_then(|side| side.pointer(figure)).is_none_or(Value::is_null);
        let is_by_unit = label == "cheapest" && side.is_some_and(|side| !other_prices(&[side]).is_empty());
        if figures.iter().any(is_unknown) && !is_by_unit {
            "-".clone_into(winner);
        }
        *label = label.replace('_', " ");
    }
    format!("{}\n{}", columns(&rows, &aligns), columns(&best, &[Align::Left, Align::Left]))
}

/// The price after which the prices of other units stand.
const LAST_TOKEN_PRICE: &str = "/pricing/gateway_output_per_m";

/// A row for each price that one of the models has beside those of text tokens: `per image`, `image output/M`.
fn other_prices(models: &[&Value]) -> Vec<Vec<String>> {
    let prices =
        |model: &Value| model.pointer("/pricing").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for name in models.iter().flat_map(|model| prices(model).into_iter().map(|(name, _)| name)) {
        let is_other = name.starts_with("gateway_")
            && !["gateway_input_per_m", "gateway_output_per_m"].contains(&name.as_str());
        if (is_other || name == "images") && !names.contains(&name) {
            names.push(name);
        }
    }
    let row = |name: String| {
        let label = name.trim_start_matches("gateway_").replace("_per_m", "/M").replace('_', " ");
        let cells = models.iter().map(|model| text(model, &format!("/pricing/{name}")));
        std::iter::once(label).chain(cells).collect()
    };
    names.into_iter().map(row).collect()
}

/// The figures behind each highlight of a comparison.
const FIGURES: [(&str, &[&str]); 5] = [
    ("cheapest", &["/pricing/gateway_input_per_m", "/pricing/gateway_output_per_m"]),
    ("fastest", &["/performance/latency_p50_ms"]),
    ("best_quality", &["/quality_scores/overall"]),
    ("best_code", &["/quality_scores/code"]),
    ("longest_context", &["/context_length"]),
];

fn flatten(prefix: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    let Value::Object(members) = value else { return };
    for (name, member) in members {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match member {
            Value::Object(_) => flatten(&path, member, rows),
            _ => rows.push(vec![path, show(member)]),
        }
    }
}

fn text(model: &Value, pointer: &str) -> String {
    model.pointer(pointer).map_or_else(|| "-".to_owned(), show)
}

fn price(model: &Value, pointer: &str) -> String {
    let amount = text(model, pointer);
    match model.pointer("/pricing/currency").and_then(Value::as_str) {
        Some(currency) if currency != "USD" && amount != "-" => format!("{amount} {currency}"),
        _ => amount,
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => clean(text),
        Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
            let items: Vec<_> = items.iter().map(show).collect();
            if items.is_empty() { "-".to_owned() } else { items.join(" ") }
        }
        other => clean(&other.to_string()),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
