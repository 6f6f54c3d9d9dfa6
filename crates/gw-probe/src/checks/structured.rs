//! Structured output: JSON mode, and a strict JSON schema.

use gw_wire::reply::Finish;
use serde_json::{Value, json};

use super::ProbeRun;
use crate::endpoint::Exchange;
use crate::finding::Finding;

impl ProbeRun<'_> {
    pub(super) async fn json_answers(&mut self) {
        let prompt = "Answer with a JSON object that has the member \"ok\" with the value true.";
        let request = self.request(prompt, json!({ "response_format": { "type": "json_object" } }));
        let exchange = self.endpoint.chat("json.mode", &request).await;
        let finding = self.judge_json(exchange, "a JSON object", Value::is_object);
        self.findings.add("json.mode", finding);
        let schema = json!({
            "type": "object",
            "properties": {
                "animal": { "type": "string", "enum": ["cat", "dog"] },
                "legs": { "type": "integer" },
            },
            "required": ["animal", "legs"],
            "additionalProperties": false,
        });
        let format = json!({ "name": "animal", "strict": true, "schema": schema });
        let format = json!({ "type": "json_schema", "json_schema": format });
        // The prompt does not name the members, so only the schema can.
        let request = self.request("Describe a cat in JSON.", json!({ "response_format": format }));
        let exchange = self.endpoint.chat("json.schema", &request).await;
        let expected = "an object with exactly animal (cat or dog) and legs (an integer)";
        let finding = self.judge_json(exchange, expected, fits_schema);
        self.findings.add("json.schema", finding);
    }

    fn judge_json(&self, exchange: Exchange, expected: &str, is_good: impl Fn(&Value) -> bool) -> Finding {
        let is_dropped = exchange.warnings.iter().any(|warning| warning.contains("response_format"));
        let reply = match exchange.reply {
            Err(failure) => return Finding::of_refusal(&failure),
            Ok(_) if is_dropped => return Finding::NotOffered("the API has no such option".to_owned()),
            Ok(reply) => reply,
        };
        let first = reply.first();
        match serde_json::from_str::<Value>(first.text.trim()) {
            Ok(value) if is_good(&value) => Finding::passed(),
            Err(_) if first.finish == Some(Finish::Length) => Finding::Skipped(format!(
                "the answer is cut at {} tokens; --max-tokens allows more",
                self.max_tokens
            )),
            _ if first.text.is_empty() => Finding::failed(expected, "no text"),
            _ => Finding::failed(expected, first.text),
        }
    }
}

fn fits_schema(value: &Value) -> bool {
    let animal = value.get("animal").and_then(Value::as_str);
    let legs = value.get("legs").is_some_and(Value::is_i64);
    animal.is_some_and(|animal| matches!(animal, "cat" | "dog"))
        && legs
        && value.as_object().is_some_and(|members| members.len() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_members_of_the_schema_fit() {
        for (value, fits) in [
            (json!({"animal": "cat", "legs": 4}), true),
            (json!({"animal": "cow", "legs": 4}), false),
            (json!({"animal": "cat", "legs": "4"}), false),
            (json!({"animal": "cat"}), false),
            (json!({"animal": "cat", "legs": 4, "tail": 1}), false),
            (json!([]), false),
        ] {
            assert_eq!(fits_schema(&value), fits, "{value}");
        }
    }
}
