//! Tools: a forced call, a call that the model chooses, two calls in one stream, and a result that is sent back.

use gw_wire::reply::Finish;
use serde_json::{Value, json};

use super::ProbeRun;
use super::wire::WireEvents;
use crate::answer::{CallFacts, ReplyFacts};
use crate::endpoint::ReadUntil;
use crate::finding::{Finding, failure_text};

/// The name of the offered tool.
const TOOL: &str = "get_weather";

fn tools() -> Value {
    json!([{ "type": "function", "function": {
        "name": TOOL,
        "description": "Gives the current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        },
    } }])
}

impl ProbeRun<'_> {
    pub(super) async fn tools(&mut self) {
        let named = json!({ "type": "function", "function": { "name": TOOL } });
        self.forced_tool("tools.forced", &named).await;
        self.forced_tool("tools.required", &json!("required")).await;
        self.chosen_tool().await;
        let is_refused = |check: &&str| matches!(self.findings.of(check), Some(Finding::NotOffered(_)));
        // Some endpoints have tools without a forced choice.
        if ["tools.forced", "tools.required", "tools.auto"].iter().all(is_refused) {
            let why = "the endpoint has no tools".to_owned();
            self.findings.add("tools.parallel", Finding::Skipped(why.clone()));
            self.findings.add("tools.result", Finding::Skipped(why));
            return;
        }
        self.parallel_tools().await;
        self.tool_result().await;
    }

    /// The choice leaves the model no way but a call.
    async fn forced_tool(&mut self, check: &'static str, choice: &Value) {
        let more = json!({ "tools": tools(), "tool_choice": choice });
        let request = self.request("What is the weather in Paris?", more);
        let exchange = self.endpoint.chat(check, &request).await;
        let finding = match exchange.reply {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(reply) => {
                let first = reply.first();
                match first.calls.as_slice() {
                    [] if first.finish == Some(Finish::Length) => Finding::Skipped(format!(
                        "the answer is cut at {} tokens, before a call; --max-tokens allows more",
                        self.max_tokens
                    )),
                    [] => Finding::failed(format!("a call of {TOOL}"), text_of(&reply)),
                    [call, ..] => self.keep_call(call),
                }
            }
        };
        self.findings.add(check, finding);
    }

    async fn chosen_tool(&mut self) {
        let prompt = "What is the weather in Paris? Use the tool to find out.";
        let request = self.request(prompt, json!({ "tools": tools() }));
        let exchange = self.endpoint.chat("tools.auto", &request).await;
        let finding = match exchange.reply {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(reply) => match reply.first().calls.as_slice() {
                [] => Finding::Skipped(format!("the model did not call the tool: {}", text_of(&reply))),
                [call, ..] => {
                    let finding = self.keep_call(call);
                    let finish = reply.first().finish.map(Finish::as_str);
                    match finding {
                        Finding::Passed(_) if finish != Some("tool_calls") => {
                            Finding::failed("finish_reason tool_calls", finish.unwrap_or("none"))
                        }
                        other => other,
                    }
                }
            },
        };
        self.findings.add("tools.auto", finding);
    }

    /// Judges a call, and keeps it for the check of results.
    fn keep_call(&mut self, call: &CallFacts) -> Finding {
        let finding = judge(call);
        if matches!(finding, Finding::Passed(_)) {
            self.tool_call = Some(call.clone());
        }
        finding
    }

    async fn parallel_tools(&mut self) {
        let prompt = "What is the weather in Paris and in Tokyo? Call the tool for both cities at once.";
        let request = self.request(prompt, json!({ "tools": tools(), "stream": true }));
        let finding = match self.endpoint.stream("tools.parallel", &request, ReadUntil::End).await {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(facts) => {
                let merged =
                    WireEvents::read(&facts.raw).merged_calls().filter(|_| self.endpoint.is_openai());
                match (merged, facts.failure) {
                    (Some(merged), _) => Finding::failed("an index for each call", merged),
                    (None, Some(failure)) => Finding::failed("a complete stream", failure_text(&failure)),
                    (None, None) => judge_all(&facts.reply),
                }
            }
        };
        self.findings.add("tools.parallel", finding);
    }

    async fn tool_result(&mut self) {
        let call = self.tool_call.clone().unwrap_or_else(|| CallFacts {
            id: "call_probe_1".to_owned(),
            name: TOOL.to_owned(),
            arguments: "{\"city\":\"Paris\"}".to_owned(),
        });
        let function = json!({ "name": call.name, "arguments": call.arguments });
        let messages = json!([
            { "role": "user", "content": "What is the temperature in Paris? Answer with the number of degrees." },
            { "role": "assistant", "content": null,
              "tool_calls": [{ "id": call.id, "type": "function", "function": function }] },
            { "role": "tool", "tool_call_id": call.id, "content": "{\"temperature_celsius\": 17}" }
        ]);
        let request = self.request("", json!({ "messages": messages, "tools": tools() }));
        let exchange = self.endpoint.chat("tools.result", &request).await;
        let finding = match exchange.reply {
            Err(failure) => Finding::failed("an answer after the tool's result", failure_text(&failure)),
            Ok(reply) => {
                let first = reply.first();
                if first.text.contains("17") {
                    Finding::passed()
                } else {
                    let too_short = self.was_too_short(&first.text, first.finish);
                    too_short.unwrap_or_else(|| {
                        Finding::Skipped(format!(
                            "the answer does not mention the result: {}",
                            text_of(&reply)
                        ))
                    })
                }
            }
        };
        self.findings.add("tools.result", finding);
    }
}

/// The text of an answer, for a report.
fn text_of(reply: &ReplyFacts) -> String {
    let first = reply.first();
    if first.text.is_empty() { "no text".to_owned() } else { first.text }
}

/// Judges two or more calls of one answer.
fn judge_all(reply: &ReplyFacts) -> Finding {
    let calls = reply.first().calls;
    let bad = calls.iter().map(judge).find(|finding| !matches!(finding, Finding::Passed(_)));
    match (calls.as_slice(), bad) {
        (_, Some(bad)) => bad,
        ([], _) => Finding::Skipped(format!("the model did not call the tool: {}", text_of(reply))),
        ([_], _) => Finding::NotOffered("the model makes one call at a time".to_owned()),
        ([first, rest @ ..], _) if rest.iter().any(|call| call.id == first.id) => {
            Finding::failed("an id for each call", format!("{} twice", first.id))
        }
        (all, _) => Finding::Passed(format!("{} calls", all.len())),
    }
}

/// Judges one call: its id, its name, and its arguments.
fn judge(call: &CallFacts) -> Finding {
    if call.name != TOOL {
        return Finding::failed(format!("a call of {TOOL}"), format!("a call of '{}'", call.name));
    }
    if call.id.is_empty() {
        return Finding::failed("a call with an id", "no id");
    }
    let values = serde_json::Deserializer::from_str(&call.arguments).into_iter::<Value>();
    let values: Vec<Value> = values.map_while(Result::ok).collect();
    if values.len() > 1 {
        return Finding::failed("arguments of one call", format!("merged calls: {}", call.arguments));
    }
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(arguments) if arguments.get("city").is_some_and(Value::is_string) => Finding::passed(),
        Ok(_) => Finding::failed("arguments with the string 'city'", call.arguments.clone()),
        Err(_) => Finding::failed("arguments as a JSON object", call.arguments.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, arguments: &str) -> CallFacts {
        CallFacts { id: id.to_owned(), name: TOOL.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn a_call_needs_an_id_and_json_arguments() {
        for (id, arguments, result) in [
            ("a", "{\"city\":\"Paris\"}", "passed"),
            ("", "{\"city\":\"Paris\"}", "failed"),
            ("a", "{\"city\":", "failed"),
            ("a", "{\"town\":\"Paris\"}", "failed"),
            ("a", "{\"city\":\"Paris\"}{\"city\":\"Tokyo\"}", "failed"),
        ] {
            assert_eq!(judge(&call(id, arguments)).as_str(), result, "{id} {arguments}");
        }
    }

    #[test]
    fn two_calls_have_two_ids() {
        let paris = || call("a", "{\"city\":\"Paris\"}");
        let reply = |calls: Vec<CallFacts>| {
            let mut reply = ReplyFacts::default();
            reply.choices.entry(0).or_default().calls = calls;
            reply
        };
        let tokyo = call("b", "{\"city\":\"Tokyo\"}");
        assert_eq!(judge_all(&reply(vec![paris(), tokyo])).as_str(), "passed");
        assert_eq!(judge_all(&reply(vec![paris(), paris()])).as_str(), "failed");
        assert_eq!(judge_all(&reply(vec![paris()])).as_str(), "not_offered");
        assert_eq!(judge_all(&reply(Vec::new())).as_str(), "skipped");
    }
}
