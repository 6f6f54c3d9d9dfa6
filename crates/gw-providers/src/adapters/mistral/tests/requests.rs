//! Encoded requests.

use std::collections::HashSet;

use bytes::Bytes;
use gw_wire::conversation::alphanumeric_id;
use gw_wire::failure::FailureKind;
use gw_wire::request::{RequestLimits, parse_chat, parse_completion, parse_embeddings};
use serde_json::{Value, json};

use super::{chat, completion, fixture, json, mistral, sent, target};
use crate::adapter::{ChoiceRange, Scheme};
use crate::adapters::trial::names;

fn body(messages: &Value, members: &Value, model: &str) -> (Value, Vec<String>) {
    let mut request = json!({"model": "mistral/m", "messages": messages});
    request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let encoded = chat(request.to_string(), model);
    (json(&encoded.call.body), encoded.warnings.iter().map(ToString::to_string).collect())
}

fn hi() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

#[test]
fn the_shared_conversation_is_encoded_completely() {
    let encoded = chat(fixture!("conversation.request.json"), "mistral-medium-latest");
    assert_eq!(encoded.call.path, "/chat/completions");
    assert_eq!(encoded.call.headers["accept"], "application/json");
    assert_eq!(json(&encoded.call.body), sent(fixture!("conversation.upstream.json")));
    assert_eq!(encoded.warnings, ["reasoning_dropped", "parameter_dropped:messages.name"]);
}

#[test]
fn only_members_that_mistral_knows_are_sent() {
    let encoded = chat(fixture!("parameters.request.json"), "mistral-small-latest");
    assert_eq!(json(&encoded.call.body), sent(fixture!("parameters.upstream.json")));
    assert_eq!(encoded.call.headers["accept"], "text/event-stream");
    let dropped = ["logit_bias", "top_logprobs", "top_k", "logprobs", "verbosity"]
        .map(|name| format!("parameter_dropped:{name}"));
    assert_eq!(encoded.warnings, dropped);
}

#[test]
fn a_speakers_name_is_dropped_with_one_warning_and_a_tools_name_is_sent() {
    let call = json!({"id": "VvvODy9mT", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let messages = |name: &Value| {
        json!([{"role": "user", "name": name, "content": "a"}, {"role": "assistant", "name": name, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "VvvODy9mT", "name": "f", "content": "1"}])
    };
    let dropped = vec!["parameter_dropped:messages.name".to_owned()];
    for (name, warnings) in [(json!("ann"), dropped), (Value::Null, vec![])] {
        let (sent, warned) = body(&messages(&name), &json!({}), "m");
        assert_eq!(sent["messages"][0], json!({"role": "user", "content": "a"}));
        assert_eq!((sent["messages"][1].get("name"), &sent["messages"][2]["name"]), (None, &json!("f")));
        assert_eq!(warned, warnings, "{name}");
    }
}

#[test]
fn ids_are_nine_letters_and_digits_and_pairs_stay_pairs() {
    let ids = ["call_1234567890", "a", "VvvODy9mT", "toolu_01__thought__c2ln", "ひ", "call-1-call-2"];
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}))
        .collect();
    let mut messages =
        vec![json!({"role": "user", "content": "x"}), json!({"role": "assistant", "tool_calls": calls})];
    messages.extend(ids.iter().rev().map(|id| json!({"role": "tool", "tool_call_id": id, "content": id})));
    let (sent, _) = body(&json!(messages), &json!({}), "m");
    for (at, id) in ids.iter().enumerate() {
        let short = sent["messages"][1]["tool_calls"][at]["id"].as_str().unwrap();
        assert!(short.len() == 9 && short.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{short}");
        let result = &sent["messages"][2 + ids.len() - 1 - at];
        assert_eq!((&result["tool_call_id"], &result["content"]), (&json!(short), &json!(id)));
    }
    assert_eq!(sent["messages"][1]["tool_calls"][2]["id"], "VvvODy9mT");
}

#[test]
fn equal_ids_become_unique_and_results_have_the_id_and_the_name_of_their_call() {
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let history = [
        json!({"role": "user", "content": "x"}),
        json!({"role": "assistant", "tool_calls": [call("c", "f"), call("VvvODy9mT", "g"), call("c", "h"), call("c", "i")]}),
        result("c", "of f"),
        result("c", "of h"),
        result("VvvODy9mT", "of g"),
        result("c", "of i"),
        json!({"role": "assistant", "content": "y"}),
        json!({"role": "user", "content": "z"}),
        // A later turn may number its calls anew. Its results are its own, though a call before has the same id.
        json!({"role": "assistant", "tool_calls": [call("VvvODy9mT", "j"), call("c", "k")]}),
        result("c", "of k"),
        json!({"role": "tool", "tool_call_id": "VvvODy9mT", "name": "g", "content": "of j"}),
    ];
    let (sent, warnings) = body(&json!(history), &json!({}), "m");
    let messages = sent["messages"].as_array().unwrap();
    let calls: Vec<&Value> =
        messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten().collect();
    let ids: HashSet<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), warnings.len()), (6, 0));
    assert!(ids.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    // The first call of an id keeps the id that it had without the others.
    assert_eq!((&calls[0]["id"], &calls[1]["id"]), (&json!(alphanumeric_id("c")), &json!("VvvODy9mT")));
    let results: Vec<&Value> = messages.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), calls.len());
    for result in results {
        let name = result["content"].as_str().unwrap().strip_prefix("of ").unwrap();
        let call = calls.iter().find(|call| call["function"]["name"] == name).unwrap();
        assert_eq!((&result["tool_call_id"], &result["name"]), (&call["id"], &json!(name)));
    }
    // An earlier request of the conversation has the same bytes, so its prefix stays cached.
    let (earlier, _) = body(&json!(history[..8]), &json!({}), "m");
    assert_eq!(earlier["messages"].to_string(), json!(messages[..8]).to_string());
}

#[test]
fn a_signature_in_an_id_is_not_sent() {
    let id = alphanumeric_id("c1__thought__QUJD");
    assert_eq!(id, alphanumeric_id("c1"));
    let encoded = chat(fixture!("conversation.request.json"), "m");
    let body = String::from_utf8(encoded.call.body.to_vec()).unwrap();
    assert!(!body.contains("__thought__") && !body.contains("QUJD"));
}

#[test]
fn tool_choices_use_mistrals_names() {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let named = json!({"type": "function", "function": {"name": "f"}});
    for (choice, expected) in [
        (json!("auto"), json!("auto")),
        (json!("none"), json!("none")),
        (json!("required"), json!("any")),
        (named.clone(), named),
    ] {
        let (sent, _) = body(&hi(), &json!({"tools": tools, "tool_choice": choice}), "m");
        assert_eq!(sent["tool_choice"], expected);
    }
    let (sent, _) = body(&hi(), &json!({"tools": [], "parallel_tool_calls": true}), "m");
    assert_eq!(sent, json!({"model": "m", "messages": hi()}));
}

#[test]
fn legacy_functions_become_tools() {
    let functions = json!({"functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": {"name": "f"}});
    let messages = json!([{"role": "user", "content": "x"},
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"}]);
    let (sent, _) = body(&messages, &functions, "m");
    assert_eq!(sent["tools"][0]["function"]["name"], "f");
    assert_eq!(sent["tool_choice"], json!({"type": "function", "function": {"name": "f"}}));
    assert_eq!(sent["parallel_tool_calls"], json!(false));
    assert_eq!(sent["messages"][1]["tool_calls"][0]["id"], sent["messages"][2]["tool_call_id"]);
    assert!(
        chat(
            json!({"model": "x", "messages": messages, "functions": functions["functions"]}).to_string(),
            "m"
        )
        .reading
        .function_call
    );
}

#[test]
fn roles_come_in_an_order_that_mistral_accepts() {
    let called = json!({"role": "assistant", "tool_calls": [{"id": "VvvODy9mT", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "VvvODy9mT", "content": "1"});
    let user = json!({"role": "user", "content": "u"});
    let system = json!({"role": "developer", "content": "s"});
    let roles = |messages: Value| {
        let (sent, warnings) = body(&messages, &json!({}), "m");
        let roles = sent["messages"].as_array().unwrap().iter();
        (roles.map(|message| message["role"].as_str().unwrap()[..1].to_owned()).collect::<String>(), warnings)
    };
    let inserted = vec!["message_added:assistant".to_owned()];
    assert_eq!(roles(json!([user, called, result, user])), ("uatau".to_owned(), inserted));
    assert_eq!(roles(json!([user, called, result, result])), ("uatt".to_owned(), vec![]));
    // A system message may follow a user's message. After an assistant's message it moves to the front.
    assert_eq!(roles(json!([user, system, user])), ("usu".to_owned(), vec![]));
    assert_eq!(roles(json!([user, called, result, system])), ("suat".to_owned(), vec![]));
    // An empty message of the assistant is left out.
    assert_eq!(
        roles(json!([user, {"role": "assistant", "content": ""}, {"role": "assistant"}, user])),
        ("uu".to_owned(), vec![])
    );
}

#[test]
fn a_final_assistant_message_is_marked_as_a_prefix() {
    let user = json!({"role": "user", "content": "u"});
    let begin = json!({"role": "assistant", "content": "{"});
    let marked = json!({"role": "assistant", "content": "{", "prefix": true});
    for messages in [
        json!([user, begin]),
        json!([user, marked]),
        json!([user, begin, {"role": "assistant", "content": ""}]),
        json!([user, {"role": "assistant", "content": "{", "prefix": false}]),
    ] {
        let (sent, warnings) = body(&messages, &json!({}), "m");
        assert_eq!((&sent["messages"][1], warnings.len()), (&marked, 0));
    }
    // Only the last message can be a prefix, and only without calls.
    let (sent, _) = body(&json!([user, marked, user]), &json!({}), "m");
    assert_eq!(sent["messages"][1], begin);
    let calls =
        json!([{"id": "VvvODy9mT", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let calling = json!({"role": "assistant", "content": "{", "tool_calls": calls});
    let (sent, _) = body(&json!([user, calling]), &json!({}), "m");
    assert_eq!(sent["messages"][1].get("prefix"), None);
}

#[test]
fn top_p_is_dropped_beside_temperature_zero() {
    let dropped = vec!["parameter_dropped:top_p".to_owned()];
    for (members, top_p, warned) in [
        (json!({"temperature": 0, "top_p": 0.5}), Value::Null, dropped.clone()),
        (json!({"temperature": 0.0, "top_p": 0.95}), Value::Null, dropped),
        (json!({"temperature": 0, "top_p": 1}), json!(1), vec![]),
        (json!({"temperature": 0.1, "top_p": 0.5}), json!(0.5), vec![]),
        (json!({"top_p": 0.5}), json!(0.5), vec![]),
    ] {
        let (sent, warnings) = body(&hi(), &members, "mistral-small-latest");
        assert_eq!((&sent["top_p"], warnings), (&top_p, warned), "{members}");
    }
    let fim = r#"{"model":"x","prompt":"a","temperature":0,"top_p":0.5}"#;
    let encoded = completion(fim, "codestral-2508");
    assert_eq!(json(&encoded.call.body).get("top_p"), None);
    assert_eq!(encoded.warnings, ["parameter_dropped:top_p"]);
}

#[test]
fn every_kind_of_part_has_its_chunk() {
    let parts = json!([
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://x.y/i.png"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "file", "file": {"filename": "d.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
    ]);
    let (sent, _) = body(&json!([{"role": "user", "content": parts}]), &json!({}), "m");
    let chunks = json!([
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": "https://x.y/i.png"},
        {"type": "input_audio", "input_audio": "UklGRg=="},
        {"type": "file", "file_id": "f1"},
        {"type": "document_url", "document_url": "data:application/pdf;base64,JVBERi0=", "document_name": "d.pdf"},
    ]);
    assert_eq!(sent["messages"][0]["content"], chunks);
    let nothing =
        json!({"model": "x", "messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]});
    let request = parse_chat(Bytes::from(nothing.to_string()), &RequestLimits::default()).unwrap();
    let failure =
        mistral().chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target("m")).unwrap_err();
    assert_eq!(
        (failure.kind, failure.code.as_deref()),
        (FailureKind::Unsupported, Some("unsupported_value"))
    );
}

#[test]
fn a_temperature_above_the_limit_is_clamped_with_a_warning() {
    let (sent, warnings) = body(&hi(), &json!({"temperature": 2, "seed": -9_007_199_254_740_991_i64}), "m");
    assert_eq!(
        (&sent["temperature"], &sent["random_seed"]),
        (&json!(1.5), &json!(9_007_199_254_740_991_i64))
    );
    assert_eq!(warnings, ["parameter_clamped:temperature"]);
    let (sent, _) = body(&hi(), &json!({"seed": i64::MIN, "stop": []}), "m");
    assert_eq!(sent, json!({"model": "m", "messages": hi(), "random_seed": 0}));
    let (sent, _) = body(&hi(), &json!({"random_seed": 5, "prompt_mode": "reasoning", "max_tokens": 0}), "m");
    assert_eq!(
        sent,
        json!({"model": "m", "messages": hi(), "random_seed": 5, "prompt_mode": "reasoning", "max_tokens": 0})
    );
}

#[test]
fn formats_and_efforts_are_encoded() {
    for (format, expected) in [
        (json!({"type": "text"}), Value::Null),
        (json!({"type": "json_object"}), json!({"type": "json_object"})),
        (json!({"type": "json_schema", "json_schema": {"name": "r"}}), json!({"type": "json_object"})),
    ] {
        let (sent, _) = body(&hi(), &json!({"response_format": format}), "m");
        assert_eq!(sent["response_format"], expected);
    }
    let clamped = "parameter_clamped:reasoning_effort";
    let dropped = "parameter_dropped:reasoning_effort";
    for (model, asked, said, warning) in [
        ("mistral-small-latest", "none", json!("none"), None),
        ("mistral-small-latest", "high", json!("high"), None),
        ("mistral-small-latest", "minimal", json!("none"), Some(clamped)),
        ("mistral-medium-3-5", "low", json!("high"), Some(clamped)),
        ("mistral-large-4-0", "medium", json!("medium"), None),
        ("mistral-large-4-0", "xhigh", json!("high"), Some(clamped)),
        ("magistral-medium-latest", "high", Value::Null, Some(dropped)),
        ("mistral-large-2512", "high", Value::Null, Some(dropped)),
        ("mistral-large-2512", "none", Value::Null, None),
    ] {
        let (sent, warnings) = body(&hi(), &json!({"reasoning_effort": asked}), model);
        assert_eq!(sent["reasoning_effort"], said, "{model} {asked}");
        assert_eq!(warnings.first().map(String::as_str), warning);
    }
}

#[test]
fn earlier_thoughts_go_back_to_models_that_think() {
    let messages = json!([{"role": "user", "content": "u"},
        {"role": "assistant", "reasoning_content": "hm", "content": "a"}, {"role": "user", "content": "v"}]);
    let (sent, warnings) = body(&messages, &json!({}), "magistral-small-latest");
    assert_eq!(
        sent["messages"][1],
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]})
    );
    assert_eq!(warnings, Vec::<String>::new());
    let (sent, warnings) = body(&messages, &json!({}), "mistral-small-latest");
    assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": "a"}));
    assert_eq!(warnings, ["reasoning_dropped"]);
}

#[test]
fn the_token_limit_of_a_fallback_is_clamped() {
    let request = r#"{"model":"x","messages":[{"role":"user","content":"hi"}],"max_tokens":500}"#;
    let request = parse_chat(Bytes::from(request), &RequestLimits::default()).unwrap();
    let bound = crate::adapter::Target { clamp_max_tokens: Some(100), ..target("m") };
    let encoded = mistral().chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &bound).unwrap();
    assert_eq!(json(&encoded.call.body)["max_tokens"], json!(100));
}

#[test]
fn codestral_uses_fill_in_the_middle() {
    let encoded = completion(fixture!("fim.request.json"), "codestral-latest");
    assert_eq!(encoded.call.path, "/fim/completions");
    assert_eq!(json(&encoded.call.body), json(fixture!("fim.upstream.json")));
    assert_eq!(encoded.reading.echo.as_deref(), Some("def f("));
    let dropped = ["presence_penalty", "best_of", "logprobs"].map(|name| format!("parameter_dropped:{name}"));
    assert_eq!(encoded.warnings, dropped);
    // Without a suffix the model continues the prompt.
    let encoded = completion(r#"{"model":"x","prompt":"a"}"#, "codestral-2508");
    assert_eq!(encoded.call.path, "/fim/completions");
    assert_eq!(json(&encoded.call.body), json!({"model": "codestral-2508", "prompt": "a"}));
    // Other models answer the prompt. With a suffix Mistral itself accepts or refuses it.
    let encoded = completion(r#"{"model":"x","prompt":"a","n":1}"#, "mistral-small-latest");
    assert_eq!(encoded.call.path, "/chat/completions");
    let chat = json!({"model": "mistral-small-latest", "messages": [{"role": "user", "content": "a"}]});
    assert_eq!(json(&encoded.call.body), chat);
    assert_eq!(completion(r#"{"model":"x","prompt":"a","suffix":"b"}"#, "m").call.path, "/fim/completions");
    let request =
        parse_completion(Bytes::from(r#"{"model":"x","prompt":"a","n":2}"#), &RequestLimits::default())
            .unwrap();
    let failure = mistral().completion(
        &request,
        &ChoiceRange { n: 2, prompts: 0..1, from: 0 },
        &target("codestral-2508"),
    );
    assert_eq!(failure.unwrap_err().code.as_deref(), Some("unsupported_value"));
}

#[test]
fn embeddings_have_mistrals_names() {
    let request =
        r#"{"model":"x","input":["a","b\n","c"],"dimensions":8,"encoding_format":"base64","user":"u"}"#;
    let request = parse_embeddings(Bytes::from(request), &RequestLimits::default()).unwrap();
    let call = mistral().embeddings(&request, 1..3, &target("codestral-embed")).unwrap();
    assert_eq!(call.path, "/embeddings");
    assert_eq!(
        json(&call.body),
        json!({"model": "codestral-embed", "input": ["b\n", "c"], "output_dimension": 8})
    );
    let tokens =
        parse_embeddings(Bytes::from(r#"{"model":"x","input":[1,2]}"#), &RequestLimits::default()).unwrap();
    let failure = mistral().embeddings(&tokens, 0..1, &target("m")).unwrap_err();
    assert_eq!(failure.code.as_deref(), Some("unsupported_value"));
}

#[test]
fn capabilities_scheme_and_model_list_are_mistrals() {
    let mistral = mistral();
    let can = mistral.traits().capabilities;
    assert!(can.suffix && can.image_urls && !can.token_prompts && !can.openai_fields);
    assert_eq!((can.choices, can.prompts, mistral.traits().scheme), (128, 1, Scheme::Bearer));
    assert_eq!((mistral.traits().models.unwrap().call)().path, "/models");
    let list = r#"{"object":"list","data":[{"id":"mistral-small-latest","capabilities":{}},{"id":"codestral-latest"}]}"#;
    assert_eq!(
        names((mistral.traits().models.unwrap().read)(list.as_bytes())),
        ["mistral-small-latest", "codestral-latest"]
    );
}
