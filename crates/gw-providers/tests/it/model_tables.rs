//! The part of docs/providers.md about the members of requests and the rules of models.

use std::fmt::Write as _;

use gw_providers::model_rules::{self, Row};
use serde_json::{Value, json};

use crate::capabilities::{PDF, PNG, dialects};

/// The features of a request, with their members.
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

/// The treatment of each feature in each dialect.
pub(crate) fn translations() -> String {
    let mut page = String::from(
        "\n## How requests are translated\n\n\
         The lists show each dialect with the model in brackets. **translated**: the request has the feature in the provider's format.\n\
         **with a warning**: the feature is changed or left out, and `gateway.warnings` has the entry in brackets. **refused**: the gateway\n\
         answers 400 `unsupported_value`, or tries another candidate. `parameter_clamped` means the nearest accepted value,\n\
         `parameter_weakened` an instruction in the prompt, and `message_added` a message that the provider requires.\n",
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

/// The text of a row's member in the tables.
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
        "\n## Model rules\n\n\
         Requests follow these rules. There is one table per vendor (`crates/gw-providers/src/model_rules/*.toml`). A row applies to\n\
         every name that has its words, whatever a cloud writes around them. A model without a row gets the row of the newest model in its\n\
         family, and the answer has the warning `model_rules_assumed:<row>`. `model-gateway models show ID` prints the complete row of a\n\
         model. To add a model, add a row. The limits apply where the catalogue and the configuration have none, for example to Claude on a\n\
         cloud.\n",
    );
    for table in model_rules::tables() {
        let _ = write!(
            page,
            "\n**{}**\n\n| row | names | forced tools | last message of the assistant | reasons | how reasoning is switched off | efforts, or tokens | temperature, top_p | schema | context, answer in tokens | source | as of |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
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
