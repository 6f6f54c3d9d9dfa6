//! A client sends an answer back as history: reasoning, texts and tool calls reach the same model unchanged and in order, after
//! plain and streamed answers. Other providers never get them.

pub(crate) mod answers;

use gw_testkit::{Answer, FakeUpstream, Gateway};
use serde_json::{Value, json};

use self::answers::{DIALECTS, Dialect};
use crate::harness::providers::api;
use crate::harness::{KEY, serve};

/// A gateway with one provider of each dialect and its upstream, and with a second account at each upstream.
async fn all() -> (Gateway, Vec<FakeUpstream>) {
    let mut config = format!("[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n");
    let mut upstreams = Vec::new();
    for Dialect { name, lines, model, .. } in DIALECTS {
        let upstream = FakeUpstream::start().await;
        let (api, address) = (api(name), upstream.addr);
        for (provider, key) in [(format!("my-{name}"), "000"), (format!("second-{name}"), "111")] {
            config.push_str(&format!(
                "[[providers]]\nname = \"{provider}\"\napi = \"{api}\"\nbase_url = \"http://{address}\"\napi_key = \"sk-upstream-key-{key}\"\n{lines}\n[[models]]\nid = \"{provider}/{model}\"\n[[models]]\nid = \"{provider}/twin\"\nupstream_model = \"{model}\"\n"
            ));
        }
        upstreams.push(upstream);
    }
    (serve(&config).await, upstreams)
}

pub(crate) fn request(model: &str, messages: &Value) -> Value {
    json!({"model": model, "reasoning_effort": "high", "max_tokens": 9000, "messages": messages, "tools": [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}},
    ]})
}

/// Merges a delta into a message as openai-python does (`accumulate_delta` in `lib/streaming/_deltas.py`): it appends strings and
/// finds entries of lists by their `index`.
fn accumulate(message: &mut Value, delta: &Value) {
    for (name, more) in delta.as_object().expect("an object") {
        let known = message.as_object_mut().expect("an object").entry(name.clone()).or_insert(Value::Null);
        match (&mut *known, more) {
            (Value::Null, _) => *known = more.clone(),
            (_, _) if name == "index" || name == "type" => *known = more.clone(),
            (Value::String(text), Value::String(more)) => text.push_str(more),
            (Value::Object(_), Value::Object(_)) => accumulate(known, more),
            (Value::Array(entries), Value::Array(more)) => {
                for entry in more {
                    let at = entry["index"].as_u64().expect("an entry of a list has an index");
                    match entries.get_mut(usize::try_from(at).expect("small")) {
                        Some(known) => accumulate(known, entry),
                        None => entries.push(entry.clone()),
                    }
                }
            }
            (known, more) => panic!("{known} and {more}"),
        }
    }
}

/// The complete message of a client, and the warnings.
pub(crate) async fn ask(gateway: &Gateway, mut body: Value, stream: bool) -> (Value, Value) {
    let client = gateway.client().with_key(KEY);
    if !stream {
        let answer = client.post_json("/v1/chat/completions", &body).await.ok().json();
        return (answer["choices"][0]["message"].clone(), answer["gateway"]["warnings"].clone());
    }
    body["stream"] = json!(true);
    let frames = client.stream("/v1/chat/completions", &body).await.rest().await;
    let (mut message, mut warnings) = (json!({}), Value::Null);
    for chunk in gw_testkit::sse::chunks(&frames) {
        assert!(chunk.get("error").is_none(), "{chunk}");
        accumulate(&mut message, &chunk["choices"][0]["delta"]);
        warnings = chunk["gateway"]["warnings"].clone();
    }
    for call in message["tool_calls"].as_array_mut().expect("calls") {
        call.as_object_mut().expect("a call").remove("index");
    }
    (message, warnings)
}

/// The conversation after the answer.
pub(crate) fn history(message: &Value) -> Value {
    let results = message["tool_calls"].as_array().into_iter().flatten();
    let results = results.map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": "Dark."}));
    let mut messages = vec![json!({"role": "user", "content": "What is there?"}), message.clone()];
    messages.extend(results);
    json!(messages)
}

#[tokio::test]
async fn an_answer_that_is_sent_back_reaches_its_provider_as_it_came() {
    let (gateway, upstreams) = all().await;
    for (dialect, upstream) in DIALECTS.iter().zip(&upstreams) {
        let model = format!("my-{}/{}", dialect.name, dialect.model);
        for stream in [false, true] {
            let label = format!("{} stream={stream}", dialect.name);
            upstream.always((dialect.answer)(stream));
            let first = request(&model, &json!([{"role": "user", "content": "What is there?"}]));
            let (message, _) = ask(&gateway, first, stream).await;
            // Cohere's plan is a line of the text.
            let plan = if dialect.name == "cohere" { "The plan.\n" } else { "" };
            assert_eq!(message["content"], plan.to_owned() + &answers::words(), "{label}");
            assert!(!message.to_string().contains(answers::SIGNATURE), "{label}: signatures are sealed");
            // Another name of the same model at the same account is the same target.
            for again in [model.clone(), format!("my-{}/twin", dialect.name)] {
                let (_, warnings) = ask(&gateway, request(&again, &history(&message)), stream).await;
                let sent = upstream.last().json();
                assert_eq!((dialect.turn)(&sent), (dialect.expected)(), "{label} {again}: {message}");
                assert!(!warnings.to_string().contains("reasoning_dropped"), "{label} {again}: {warnings}");
            }
        }
    }
}

#[tokio::test]
async fn a_message_that_was_edited_or_has_lost_its_details_is_a_valid_turn() {
    let (gateway, upstreams) = all().await;
    for (dialect, upstream) in DIALECTS.iter().zip(&upstreams) {
        let model = format!("my-{}/{}", dialect.name, dialect.model);
        upstream.always((dialect.answer)(false));
        let first = request(&model, &json!([{"role": "user", "content": "What is there?"}]));
        let (message, _) = ask(&gateway, first, false).await;
        let mut edited = message.clone();
        edited["content"] = json!("Something else, and longer.");
        let mut bare = message.clone();
        bare.as_object_mut().unwrap().remove("reasoning_details");
        for (changed, said) in [(edited, "Something else, and longer."), (bare, "Hm. 漢字 I look.")] {
            ask(&gateway, request(&model, &history(&changed)), false).await;
            let turn = (dialect.turn)(&upstream.last().json()).to_string();
            assert!(turn.contains(said) && turn.contains("look"), "{}: {turn}", dialect.name);
        }
    }
}

#[tokio::test]
async fn what_a_model_signed_goes_to_no_other_model_and_no_other_account() {
    let (gateway, upstreams) = all().await;
    for (from, upstream) in DIALECTS.iter().zip(&upstreams) {
        upstream.always((from.answer)(false));
        let first =
            request(&format!("my-{}/{}", from.name, from.model), &json!([{"role": "user", "content": "x"}]));
        let (message, _) = ask(&gateway, first, false).await;
        let signs = message.to_string().contains("gw1.");
        // The text of reasoning goes with its entries.
        let mut entries = message["reasoning_details"].as_array().into_iter().flatten();
        let has_entries = entries.any(|entry| entry["type"] != "gateway.order");
        for (to, other) in DIALECTS.iter().zip(&upstreams) {
            other.always((to.answer)(false));
            // The second account has the same models at the same address.
            let account = if from.name == to.name { "second" } else { "my" };
            let model = to.model;
            let again = request(&format!("{account}-{}/{model}", to.name), &history(&message));
            let (_, warnings) = ask(&gateway, again, false).await;
            let sent = other.last().json().to_string();
            let label = format!("{} to {account}-{}/{model}: {sent}", from.name, to.name);
            assert!(!sent.contains(answers::SIGNATURE) && !sent.contains("__thought__"), "{label}");
            assert!(!sent.contains("gateway.order") && !sent.contains("gw1."), "{label}");
            let told = warnings.to_string().contains("reasoning_dropped");
            assert!(told || !signs, "{label}: {warnings}");
            assert!(!has_entries || !sent.contains(answers::THOUGHTS[1]), "{label}");
        }
    }
}

/// A client of the Messages or the Responses API goes on at an upstream with that API, which gets its body byte by byte.
#[tokio::test]
async fn a_signature_in_the_id_of_a_call_reaches_no_native_upstream_of_another_provider() {
    let [gemini, anthropic, openai] =
        [FakeUpstream::start().await, FakeUpstream::start().await, FakeUpstream::start().await];
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"g\"\napi = \"gemini\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n[[models]]\nid = \"g/gemini-3-flash-preview\"\n\
         [[providers]]\nname = \"a\"\napi = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n[[models]]\nid = \"a/claude-opus-5-5\"\n\
         [[providers]]\nname = \"o\"\napi = \"openai\"\nbase_url = \"{}/v1\"\napi_key = \"sk-upstream-key-000\"\nresponses = true\n[[models]]\nid = \"o/gpt-4o\"\n",
        base(&gemini),
        base(&anthropic),
        base(&openai)
    );
    let gateway = serve(&config).await;
    let client = gateway.client().with_key(KEY);
    let dialect = |name: &str| DIALECTS.iter().find(|dialect| dialect.name == name).expect("a dialect");
    gemini.always((dialect("gemini").answer)(false));
    anthropic.always((dialect("anthropic").answer)(false));
    openai.always(Answer::json(200, &json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-4o",
        "error": null, "incomplete_details": null, "output": [], "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}})));

    let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}});
    let messages = |model: &str, messages: Value| json!({"model": model, "max_tokens": 9000, "messages": messages, "tools": [{"name": "look", "input_schema": schema}]});
    let asked = json!({"role": "user", "content": "What is there?"});
    let body = messages("g/gemini-3-flash-preview", json!([asked]));
    let answer = client.post_json("/v1/messages", &body).await.ok().json();
    let content = answer["content"].as_array().expect("blocks");
    let calls: Vec<_> = content.iter().filter(|block| block["type"] == "tool_use").cloned().collect();
    assert!(calls.iter().any(|call| is_signed(&call["id"])), "{calls:?}");
    let result = |call: &Value| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "Dark."});
    let results: Vec<_> = calls.iter().map(result).collect();
    let history =
        json!([asked, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]);
    let answer = client.post_json("/v1/messages", &messages("a/claude-opus-5-5", history)).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"][0], "reasoning_dropped");
    let sent = anthropic.last();
    let sent = sent.json();
    assert!(!sent.to_string().contains("__thought__"), "{sent}");
    assert_eq!(sent["messages"][1]["content"][0]["id"], sent["messages"][2]["content"][0]["tool_use_id"]);

    let responses = |model: &str, input: Value| json!({"model": model, "store": false, "input": input, "tools": [{"type": "function", "name": "look", "parameters": schema}]});
    let body = responses("g/gemini-3-flash-preview", json!([asked]));
    let answer = client.post_json("/v1/responses", &body).await.ok().json();
    let output = answer["output"].as_array().expect("items");
    let calls: Vec<_> = output.iter().filter(|item| item["type"] == "function_call").cloned().collect();
    assert!(calls.iter().any(|call| is_signed(&call["call_id"])), "{calls:?}");
    let result =
        |call: &Value| json!({"type": "function_call_output", "call_id": call["call_id"], "output": "Dark."});
    let results: Vec<_> = calls.iter().map(result).collect();
    let history = [vec![asked], calls, results].concat();
    let answer = client.post_json("/v1/responses", &responses("o/gpt-4o", json!(history))).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"][0], "reasoning_dropped");
    let sent = openai.last();
    assert_eq!(sent.path, "/v1/responses");
    let sent = sent.json();
    assert!(!sent.to_string().contains("__thought__"), "{sent}");
}

fn base(upstream: &FakeUpstream) -> String {
    format!("http://{}", upstream.addr)
}

fn is_signed(id: &Value) -> bool {
    id.as_str().is_some_and(|id| id.contains("__thought__"))
}
