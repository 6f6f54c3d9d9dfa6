//! Encodes requests with every member for each model of the shipped catalogue. The result never holds anything that the
//! model's row forbids.

use bytes::Bytes;
use gw_providers::adapter::{Adapter, ChoiceRange, Target};
use gw_providers::model_rules::{
    Effort, ForcedTools, LimitName, LogprobsRule, ModelRules, Off, Prefill, Sampling, SchemaDialect,
    SchemaRule, System, Thinks,
};
use gw_providers::registry;
use gw_providers::settings::Api;
use gw_wire::failure::FailureKind;
use gw_wire::request::{RequestLimits, parse_chat};
use serde_json::{Value, json};

use crate::capabilities::settings;

const CATALOGUE: &str = include_str!("../../../gw-engine/data/catalogue.json");

struct Listed {
    api: Api,
    adapter: Box<dyn Adapter>,
    upstream: String,
    id: String,
}

/// The chat models with the adapters of their providers, and some models under the names of clouds.
fn listed() -> Vec<Listed> {
    let catalogue: Vec<Value> = serde_json::from_str(CATALOGUE).unwrap();
    let chats = |model: &&Value| model["category"].as_array().unwrap().contains(&json!("chat"));
    let of_catalogue = catalogue.iter().filter(chats).map(|model| {
        let id = model["id"].as_str().unwrap();
        let (provider, name) = id.split_once('/').unwrap();
        (provider.to_owned(), model["upstream_model"].as_str().unwrap_or(name).to_owned(), id.to_owned())
    });
    let of_clouds = catalogue.iter().filter(|model| model["provider"] == "anthropic").map(|model| {
        let name = model["id"].as_str().unwrap().split_once('/').unwrap().1;
        ("amazon".to_owned(), format!("us.anthropic.{name}-v1:0"), format!("amazon/{name}"))
    });
    let on_vertex = catalogue.iter().filter(|model| model["provider"] == "anthropic").map(|model| {
        let name = model["id"].as_str().unwrap().split_once('/').unwrap().1;
        ("vertex".to_owned(), format!("{name}@20261101"), format!("vertex/{name}"))
    });
    let others = [
        ("amazon", "cohere.command-r-plus-v1:0"),
        ("amazon", "us.deepseek.r1-v1:0"),
        ("amazon", "mistral.mistral-large-2407-v1:0"),
        ("amazon", "openai.gpt-oss-120b-1:0"),
        ("cohere", "command-a-reasoning-08-2025"),
        ("mistral", "magistral-medium-latest"),
        ("google", "gemma-3-27b-it"),
        ("google", "gemini-2.0-flash"),
        ("ollama", "gpt-oss:20b"),
        ("ollama", "qwen3"),
        ("ollama", "llama3.2"),
        ("ollama", "deepseek-v4-flash"),
        ("ollama", "mine"),
    ]
    .map(|(provider, name)| (provider.to_owned(), name.to_owned(), format!("{provider}/{name}")));
    let all = of_catalogue.chain(of_clouds).chain(on_vertex).chain(others);
    let listed = all.map(|(provider, upstream, id)| {
        let api = Api::of_known_provider(&provider).unwrap_or(Api::VERTEX);
        let adapter = registry::build(&settings(&provider, api)).unwrap().adapter;
        Listed { api, adapter, upstream, id }
    });
    listed.collect()
}

/// Requests of every kind, all with a system prompt.
fn requests() -> Vec<Value> {
    let tools = json!([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object", "properties": {}}}},
        {"type": "function", "function": {"name": "g"}}]);
    let named = json!({"type": "function", "function": {"name": "f"}});
    let schema = json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true,
        "schema": {"$schema": "x", "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}}});
    let sampling = [
        json!({"temperature": 1.9, "top_p": 0.999, "presence_penalty": -1.5, "logprobs": true, "top_logprobs": 2}),
        json!({"temperature": 0, "top_p": 0.001, "frequency_penalty": 1.5, "seed": 7, "stop": ["a"]}),
    ];
    let mut requests = Vec::new();
    for choice in [Value::Null, json!("auto"), json!("required"), named, json!("none")] {
        for format in [Value::Null, schema.clone()] {
            for effort in ["", "none", "minimal", "low", "medium", "high", "xhigh", "max", "odd"] {
                for prefill in [false, true] {
                    for sampling in &sampling {
                        let mut request = sampling.clone();
                        let members = request.as_object_mut().unwrap();
                        let mut messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Count."}]);
                        if prefill {
                            messages
                                .as_array_mut()
                                .unwrap()
                                .push(json!({"role": "assistant", "content": "1, 2"}));
                        }
                        members.insert("model".to_owned(), json!("m"));
                        members.insert("messages".to_owned(), messages);
                        members.insert("max_tokens".to_owned(), json!(8000));
                        if !choice.is_null() {
                            members.insert("tools".to_owned(), tools.clone());
                            members.insert("tool_choice".to_owned(), choice.clone());
                        }
                        if !format.is_null() {
                            members.insert("response_format".to_owned(), format.clone());
                        }
                        if !effort.is_empty() {
                            members.insert("reasoning_effort".to_owned(), json!(effort));
                        }
                        requests.push(request);
                    }
                }
            }
        }
    }
    requests
}

/// The features of a request that a row restricts, wherever the dialect writes them.
#[derive(Debug, Default)]
struct Sent {
    forced_any: bool,
    forced_name: bool,
    /// The last message is the assistant's; true if it is marked.
    open_end: Option<bool>,
    thinks: bool,
    off: Option<Off>,
    effort: Option<String>,
    budget: Option<u64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    penalties: Vec<f64>,
    logprobs: bool,
    native_schema: bool,
    open_api: bool,
    json_schema: bool,
    tools: bool,
    system: bool,
    limit: Option<LimitName>,
}

fn number(body: &Value, pointer: &str) -> Option<f64> {
    body.pointer(pointer).and_then(Value::as_f64)
}

fn text(body: &Value, pointer: &str) -> Option<String> {
    body.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

fn has(body: &Value, pointer: &str) -> bool {
    body.pointer(pointer).is_some()
}

fn count(body: &Value, pointer: &str) -> Option<u64> {
    body.pointer(pointer).and_then(Value::as_u64)
}

/// Whether the last message is the assistant's, and whether it is marked.
fn open_end(body: &Value) -> Option<bool> {
    let last = body["messages"].as_array()?.last()?;
    (last["role"] == "assistant").then(|| last["prefix"] == true)
}

/// The value of `thinking.type`.
fn thinking(body: &Value, pointer: &str) -> (bool, Option<Off>) {
    match text(body, pointer).as_deref() {
        Some("disabled") => (false, Some(Off::Disabled)),
        Some("between_tools") => (false, Some(Off::BetweenTools)),
        kind => (kind.is_some(), None),
    }
}

fn read(api: Api, body: &Value) -> Sent {
    match api.name {
        // Claude.
        "vertex" if has(body, "/anthropic_version") => anthropic(body),
        "anthropic" => anthropic(body),
        "bedrock" => bedrock(body),
        "gemini" | "vertex" => google(body),
        "cohere" => cohere(body),
        "ollama" => Sent {
            forced_any: has(body, "/tool_choice"),
            thinks: body.pointer("/think").is_some_and(|think| *think != false),
            off: (body.pointer("/think") == Some(&Value::Bool(false))).then_some(Off::Disabled),
            effort: text(body, "/think"),
            ..Sent::default()
        },
        _ => openai(body),
    }
}

fn anthropic(body: &Value) -> Sent {
    let choice = text(body, "/tool_choice/type");
    let (thinks, off) = thinking(body, "/thinking/type");
    Sent {
        forced_any: choice.as_deref() == Some("any"),
        forced_name: choice.as_deref() == Some("tool"),
        open_end: open_end(body),
        thinks,
        off,
        effort: text(body, "/output_config/effort"),
        budget: count(body, "/thinking/budget_tokens"),
        temperature: number(body, "/temperature"),
        top_p: number(body, "/top_p"),
        native_schema: has(body, "/output_config/format"),
        tools: has(body, "/tools"),
        system: has(body, "/system"),
        ..Sent::default()
    }
}

fn bedrock(body: &Value) -> Sent {
    let fields = &body["additionalModelRequestFields"];
    let (thinks, off) = thinking(fields, "/thinking/type");
    let efforts = ["/output_config/effort", "/reasoning_effort", "/reasoningConfig/maxReasoningEffort"];
    Sent {
        forced_any: has(body, "/toolConfig/toolChoice/any"),
        forced_name: has(body, "/toolConfig/toolChoice/tool"),
        open_end: open_end(body),
        thinks,
        off,
        effort: efforts.iter().find_map(|effort| text(fields, effort)),
        budget: count(fields, "/thinking/budget_tokens"),
        temperature: number(body, "/inferenceConfig/temperature"),
        top_p: number(body, "/inferenceConfig/topP"),
        native_schema: has(body, "/outputConfig"),
        tools: has(body, "/toolConfig"),
        system: has(body, "/system"),
        ..Sent::default()
    }
}

fn google(body: &Value) -> Sent {
    let config = &body["generationConfig"];
    let function = &body["tools"][0]["functionDeclarations"][0];
    Sent {
        effort: text(config, "/thinkingConfig/thinkingLevel").map(|level| level.to_lowercase()),
        budget: count(config, "/thinkingConfig/thinkingBudget"),
        temperature: number(config, "/temperature"),
        top_p: number(config, "/topP"),
        penalties: [number(config, "/presencePenalty"), number(config, "/frequencyPenalty")]
            .into_iter()
            .flatten()
            .collect(),
        logprobs: has(config, "/responseLogprobs"),
        native_schema: has(config, "/responseMimeType"),
        open_api: has(config, "/responseSchema") || has(function, "/parameters"),
        json_schema: has(config, "/responseJsonSchema") || has(function, "/parametersJsonSchema"),
        tools: has(body, "/tools"),
        system: has(body, "/systemInstruction"),
        ..Sent::default()
    }
}

fn cohere(body: &Value) -> Sent {
    let (thinks, off) = thinking(body, "/thinking/type");
    Sent {
        thinks,
        off,
        budget: count(body, "/thinking/token_budget"),
        temperature: number(body, "/temperature"),
        top_p: number(body, "/p"),
        penalties: penalties(body),
        native_schema: has(body, "/response_format"),
        tools: has(body, "/tools"),
        ..Sent::default()
    }
}

fn openai(body: &Value) -> Sent {
    Sent {
        open_end: open_end(body),
        effort: text(body, "/reasoning_effort"),
        temperature: number(body, "/temperature"),
        top_p: number(body, "/top_p"),
        penalties: penalties(body),
        logprobs: body.pointer("/logprobs").is_some_and(|logprobs| *logprobs == true),
        limit: match (has(body, "/max_tokens"), has(body, "/max_completion_tokens")) {
            (true, false) => Some(LimitName::MaxTokens),
            (false, true) => Some(LimitName::MaxCompletionTokens),
            _ => None,
        },
        ..Sent::default()
    }
}

fn penalties(body: &Value) -> Vec<f64> {
    ["/presence_penalty", "/frequency_penalty"].iter().filter_map(|name| number(body, name)).collect()
}

/// The features that the row forbids and the request has.
fn faults(api: Api, rules: ModelRules, sent: &Sent, asked_effort: Option<&str>) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut forbid = |is_held: bool, fault: &'static str| {
        if is_held {
            faults.push(fault);
        }
    };
    let is_forced = sent.forced_any || sent.forced_name;
    forbid(is_forced && rules.forced_tools == ForcedTools::Refused, "a forced tool");
    forbid(sent.forced_name && rules.forced_tools == ForcedTools::Any, "a tool forced by name");
    forbid(is_forced && sent.thinks, "a forced tool beside thinking");
    let open_end = sent.open_end.is_some();
    forbid(open_end && rules.prefill == Prefill::Refused, "a prefill");
    forbid(
        open_end && rules.prefill == Prefill::WithoutThinking && sent.thinks,
        "a prefill of one that thinks",
    );
    forbid(sent.open_end == Some(false) && rules.prefill == Prefill::Marked, "a prefill without its mark");
    let silent = rules.thinks == Thinks::Never;
    forbid(
        silent && (sent.thinks || sent.off.is_some() || sent.effort.is_some() || sent.budget.is_some()),
        "thinking",
    );
    forbid(sent.off.is_some_and(|off| off != rules.thinking_off), "thinking turned off in a wrong way");
    let effort = sent.effort.as_deref().and_then(Effort::read);
    let open_words = api == Api::OPENAI && rules.efforts.is_empty();
    let is_known = effort.is_none_or(|effort| rules.efforts.iter().any(|taken| taken == effort));
    // OpenAI itself refuses unknown words.
    forbid(!open_words && asked_effort != Some("odd") && !is_known, "an effort");
    let thinks_in_tokens = !rules.budgets.is_empty() || rules.thinks == Thinks::Budget;
    forbid(sent.budget.is_some() && !thinks_in_tokens, "a budget");
    let both = sent.temperature.is_some() && sent.top_p.is_some();
    let any = sent.temperature.is_some() || sent.top_p.is_some();
    forbid(both && rules.sampling == Sampling::One, "temperature and top_p");
    let is_on = effort.map_or(rules.thinks == Thinks::Usually, |effort| effort != Effort::None);
    let is_fixed =
        rules.sampling == Sampling::Fixed || rules.sampling == Sampling::FixedWhileThinking && is_on;
    // 1 is the default, which is accepted.
    forbid(any && is_fixed && asked_effort != Some("odd"), "a sampling parameter");
    forbid(sent.temperature.is_some_and(|temperature| temperature > rules.temperature_most), "a temperature");
    let [least, most] = rules.top_p;
    forbid(sent.top_p.is_some_and(|top_p| !(least..=most).contains(&top_p)), "a top_p");
    let greedy = sent.temperature == Some(0.0) && sent.top_p.is_some_and(|top_p| top_p < 1.0);
    forbid(rules.greedy_top_p && greedy, "a top_p at temperature 0");
    if api != Api::OLLAMA && api != Api::MISTRAL {
        let [least, most] = rules.penalties;
        let within = |penalty: &f64| (least..=most).contains(penalty) && least < most;
        forbid(!sent.penalties.iter().all(within), "a penalty");
    }
    forbid(sent.logprobs && rules.logprobs == LogprobsRule::Refused, "logprobs");
    forbid(sent.logprobs && rules.logprobs == LogprobsRule::OnVertex && api != Api::VERTEX, "logprobs");
    forbid(sent.native_schema && rules.schema != SchemaRule::Native, "structured output");
    forbid(sent.open_api && rules.schema_dialect != SchemaDialect::OpenApi, "an OpenAPI schema");
    forbid(sent.json_schema && rules.schema_dialect != SchemaDialect::JsonSchema, "a JSON schema");
    forbid(sent.native_schema && sent.tools && rules.schema_without_tools, "a form beside tools");
    forbid(sent.system && rules.system == System::InUserTurn, "a system prompt");
    forbid(sent.limit.is_some_and(|limit| limit != rules.limit_name), "a limit under another name");
    faults
}

#[test]
fn no_request_holds_a_member_that_the_models_row_forbids() {
    let requests = requests();
    for Listed { api, adapter, upstream, id } in listed() {
        let rules = ModelRules::of(api.rules, &upstream, &id);
        assert_eq!(rules.warning(), None, "{id} is in no table");
        let target = Target {
            upstream_model: &upstream,
            id: &id,
            clamp_max_tokens: None,
            most_tokens: None,
            max_output_tokens: Some(16_000),
            context_length: Some(128_000),
            rules,
            issuer: None,
            breakpoints: None,
        };
        for request in &requests {
            let parsed = parse_chat(Bytes::from(request.to_string()), &RequestLimits::default()).unwrap();
            let encoded = match adapter.chat(&parsed, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target)
            {
                Ok(encoded) => encoded,
                Err(failure) => {
                    assert_eq!(failure.kind, FailureKind::Unsupported, "{id} {request}");
                    continue;
                }
            };
            let body: Value = serde_json::from_slice(&encoded.call.body).unwrap();
            let faults = faults(api, rules, &read(api, &body), request["reasoning_effort"].as_str());
            assert!(faults.is_empty(), "{id} is sent {faults:?}:\n{body}\nfor {request}");
        }
    }
}

#[test]
fn limits_of_rows_and_catalogue_agree() {
    let catalogue: Vec<Value> = serde_json::from_str(CATALOGUE).unwrap();
    let mut compared = 0;
    for model in &catalogue {
        let id = model["id"].as_str().unwrap();
        let (provider, name) = id.split_once('/').unwrap();
        let upstream = model["upstream_model"].as_str().unwrap_or(name);
        let rules = ModelRules::of(Api::of_known_provider(provider).unwrap().rules, upstream, id);
        let known =
            [(rules.context_tokens(), "context_length"), (rules.max_output_tokens(), "max_output_tokens")];
        for (limit, member) in known.into_iter().filter_map(|(limit, member)| Some((limit?, member))) {
            if let Some(listed) = model[member].as_u64() {
                assert_eq!(limit, listed, "{id}: {member} of the row '{}'", rules.name);
                compared += 1;
            }
        }
    }
    assert!(compared > 40, "{compared} limits are in both");
}
