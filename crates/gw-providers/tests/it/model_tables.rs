//! The part of docs/providers.md that tells what becomes of a request's members, and what each model demands.

use std::fmt::Write as _;

use gw_providers::model_rules::{self, Row};
use serde_json::{Value, json};

use crate::capabilities::{PDF, PNG, dialects};

/// What is asked for, and the members that ask for it.
fn probes() -> Vec<(&'static str, Value)> {
    let part = |part: Value| json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, part]}]});
    let tools = |more: Value| {
        let function = json!({"name": "f", "strict": true, "parameters": {"type": "object", "properties": {}, "additionalProperties": false}});
        let mut members = json!({"tools": [{"type": "function", "function": function}]});
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        members
    };
    let schema = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {}, "additionalProperties": false}}});
    vec![
        ("image as data", part(json!({"type": "image_url", "image_url": {"url": PNG}}))),
        (
            "image by address",
            part(json!({"type": "image_url", "image_url": {"url": "https://x.example/y.png"}})),
        ),
        ("PDF", part(json!({"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}))),
        ("audio", part(json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}))),
        ("`tools`", tools(json!({}))),
        ("`tool_choice: \"required\"`", tools(json!({"tool_choice": "required"}))),
        (
            "`tool_choice` of one name",
            tools(json!({"tool_choice": {"type": "function", "function": {"name": "f"}}})),
        ),
        ("`tool_choice: \"none\"`", tools(json!({"tool_choice": "none"}))),
        ("`parallel_tool_calls: false`", tools(json!({"parallel_tool_calls": false}))),
        ("`json_object`", json!({"response_format": {"type": "json_object"}})),
        ("`json_schema`", json!({"response_format": schema})),
        ("`json_schema` beside `tools`", tools(json!({"response_format": schema}))),
        (
            "a last message of the assistant",
            json!({"messages": [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2"}]}),
        ),
        ("`reasoning_effort: \"none\"`", json!({"reasoning_effort": "none"})),
        ("`reasoning_effort: \"high\"`", json!({"reasoning_effort": "high"})),
        ("`reasoning_effort: \"max\"`", json!({"reasoning_effort": "max"})),
        ("`temperature: 1.8`", json!({"temperature": 1.8})),
        ("`top_p: 0.999`", json!({"top_p": 0.999})),
        ("`top_p` beside `temperature: 0`", json!({"temperature": 0, "top_p": 0.5})),
        ("`frequency_penalty`", json!({"frequency_penalty": 0.5})),
        ("`presence_penalty`", json!({"presence_penalty": -0.5})),
        ("`logit_bias`", json!({"logit_bias": {"1": 1}})),
        ("`logprobs`", json!({"logprobs": true})),
        ("`top_logprobs`", json!({"logprobs": true, "top_logprobs": 2})),
        ("`seed`", json!({"seed": 7})),
        ("`stop`", json!({"stop": ["a"]})),
        ("`user`", json!({"user": "u"})),
        ("`verbosity`", json!({"verbosity": "low"})),
    ]
}

/// What becomes of each member in each dialect, found by asking.
pub(crate) fn translations() -> String {
    let mut page = String::from(
        "\n## What becomes of a request\n\n\
         Of each dialect, with the model that is named: **translated** goes out in the provider's own words; **with a warning** is\n\
         changed or left out, and `gateway.warnings` holds the entry that is named; **refused** is a 400 `unsupported_value`, or another\n\
         candidate. `parameter_clamped` = the nearest value that is taken; `parameter_weakened` = asked for in words; `message_added` = a\n\
         turn that the provider wants.\n",
    );
    for asked in dialects() {
        let (mut translated, mut warned, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (label, members) in probes() {
            match asked.chat(members) {
                Err(_) => refused.push(label.to_owned()),
                Ok(encoded) if encoded.warnings.is_empty() => translated.push(label.to_owned()),
                Ok(encoded) => warned.push(format!("{label} (`{}`)", encoded.warnings.join("`, `"))),
            }
        }
        let list = |items: &[String]| if items.is_empty() { "–".to_owned() } else { items.join(", ") };
        let _ = write!(
            page,
            "\n**{}** (`{}`{})\n\n- translated: {}\n- with a warning: {}\n- refused: {}\n",
            asked.name(),
            asked.model(),
            if asked.thinker() == asked.model() { String::new() } else { format!(", `{}`", asked.thinker()) },
            list(&translated),
            list(&warned),
            list(&refused)
        );
    }
    page
}

/// A member of a row as the tables write it.
fn word(row: &Value, member: &str) -> String {
    row[member].as_str().unwrap_or("–").replace('_', " ")
}

fn efforts(row: &Row) -> String {
    let words: Vec<&str> = row.efforts.iter().map(model_rules::Effort::as_str).collect();
    let budgets = row.budgets.iter().map(|(effort, tokens)| format!("{} = {tokens}", effort.as_str()));
    let all: Vec<String> = words.into_iter().map(str::to_owned).chain(budgets).collect();
    if all.is_empty() { "–".to_owned() } else { all.join(", ") }
}

fn limits(row: &Row) -> String {
    let number = |limit: Option<u64>| limit.map_or_else(|| "–".to_owned(), |limit| limit.to_string());
    match row.limits_source.as_str() {
        "" => "–".to_owned(),
        source => format!("{}, {} ({source})", number(row.context_tokens), number(row.max_output_tokens)),
    }
}

/// The tables of model rules.
pub(crate) fn rules() -> String {
    let mut page = String::from(
        "\n## What each model demands\n\n\
         The rules by which requests are written, one table per vendor (`crates/gw-providers/src/model_rules/*.toml`). A row holds for every\n\
         name that has its words, whatever a cloud writes around them. A model that no row names gets the row of the newest of its family,\n\
         and the answer carries the warning `model_rules_assumed:<row>`. `model-gateway models show ID` prints a model's row with all its\n\
         members. A new model is one more row. Limits hold where the catalogue and the configuration name none, as for Claude on a cloud.\n",
    );
    for table in model_rules::tables() {
        let _ = write!(
            page,
            "\n**{}**\n\n| row | names | forced tools | last message of the assistant | thinks | told not to | efforts, or tokens | temperature, top_p | schema | context, answer in tokens | source | as of |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
            table.vendor
        );
        for row in table.rows.iter().chain(&table.otherwise) {
            let value = serde_json::to_value(row).unwrap();
            let names = if row.names.is_empty() {
                "any other".to_owned()
            } else {
                format!("`{}`", row.names.join("`, `"))
            };
            let _ = writeln!(
                page,
                "| `{}` | {names} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                row.name,
                word(&value, "forced_tools"),
                word(&value, "prefill"),
                word(&value, "thinks"),
                word(&value, "thinking_off"),
                efforts(row),
                word(&value, "sampling"),
                word(&value, "schema"),
                limits(row),
                row.source,
                row.as_of
            );
        }
    }
    page
}
