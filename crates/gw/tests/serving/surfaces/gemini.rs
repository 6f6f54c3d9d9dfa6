//! Google's Gemini API: requests and answers of every method, streams, keys, errors and lists of models.

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, Client, Response, Signal};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Differences, EXPIRED, KEY, LIMITED, Setup, World, logged, world};

/// The path of a method of a model.
fn path(model: &str, method: &str) -> String {
    format!("/v1beta/models/{model}:{method}")
}

/// A client with the key in Google's header.
fn google(world: &World) -> Client {
    world.gateway.client().with_header("x-goog-api-key", KEY)
}

/// A request of one user message.
fn hello() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]})
}

async fn ask(client: &Client, model: &str, body: &Value) -> Response {
    client.post_json(&path(model, "generateContent"), body).await
}

/// The data of each event of a stream.
async fn events(client: &Client, model: &str, body: &Value) -> Vec<Value> {
    let mut stream = client.stream(&(path(model, "streamGenerateContent") + "?alt=sse"), body).await;
    let frames = stream.rest().await;
    assert!(!stream.broken, "{frames:?}");
    let data =
        |frame: &String| frame.strip_prefix("data: ").map(|data| serde_json::from_str(data).expect("JSON"));
    frames.iter().filter_map(data).collect()
}

/// The parts of the first candidate of all events.
fn parts(events: &[Value]) -> Vec<Value> {
    let of =
        |event: &Value| event["candidates"][0]["content"]["parts"].as_array().cloned().unwrap_or_default();
    events.iter().flat_map(of).collect()
}

/// Checks Google's envelope: these members and no others.
#[track_caller]
fn assert_envelope(label: &str, answer: &Response, status: u16, name: &str) {
    let body = answer.json();
    let error = body["error"].as_object().unwrap_or_else(|| panic!("{label}: {}", answer.text()));
    assert_eq!((answer.status, error["status"].as_str()), (status, Some(name)), "{label}: {}", answer.text());
    assert_eq!(error["code"], status, "{label}");
    assert!(error["message"].is_string(), "{label}");
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{label}");
    let known = ["code", "message", "status", "details"];
    assert!(error.keys().all(|key| known.contains(&key.as_str())), "{label}: {error:?}");
}

#[tokio::test]
async fn an_answer_has_googles_shape_and_the_row_its_cost() {
    let world = world().await;
    let body = json!({
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"parts": [{"text": "Hel"}, {"text": "lo"}]}],
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "topK": 40.0, "maxOutputTokens": 20, "candidateCount": 1,
            "stopSequences": ["END"], "seed": 7, "presencePenalty": 0.1, "frequency_penalty": 0.2},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    });
    let answer = ask(&google(&world), "acme/fast", &body).await.ok();
    let sent = world.upstream.last();
    assert_eq!(sent.path, "/v1/chat/completions");
    assert_eq!(
        sent.json(),
        json!({
            "model": "fast-2026-01",
            "messages": [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hel\n\nlo"}],
            "temperature": 0.5, "top_p": 0.9, "presence_penalty": 0.1, "frequency_penalty": 0.2,
            "max_tokens": 20, "n": 1, "seed": 7, "stop": ["END"]
        })
    );
    let told = answer.json();
    let candidate = &told["candidates"][0];
    assert_eq!(candidate["content"]["role"], "model", "{told}");
    assert!(candidate["content"]["parts"][0]["text"].is_string(), "{told}");
    assert_eq!((&candidate["finishReason"], &candidate["index"]), (&json!("STOP"), &json!(0)));
    let usage = &told["usageMetadata"];
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    assert!(count("promptTokenCount") > 0 && count("candidatesTokenCount") > 0, "{told}");
    assert_eq!(count("totalTokenCount"), count("promptTokenCount") + count("candidatesTokenCount"));
    assert!(told["modelVersion"].is_string() && told["responseId"].is_string(), "{told}");
    assert_eq!(told.as_object().map(serde_json::Map::len), Some(4), "{told}");
    assert_eq!(answer.header("x-gateway-model"), Some("acme/fast"));
    let cost = answer.header("x-gateway-cost-usd").expect("a cost").to_owned();
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
    assert_eq!((&row["surface"], &row["operation"]), (&json!("gemini"), &json!("gemini")), "{row}");
    assert_eq!(row["cost_usd"].as_f64(), cost.parse::<f64>().ok(), "{row}");
    let warnings = row["warnings"].to_string();
    assert!(warnings.contains("parameter_dropped:safetySettings"), "{row}");
}

#[tokio::test]
async fn a_key_may_stand_in_four_places_and_never_in_a_log() {
    let world = world().await;
    let nobody = world.gateway.client();
    let with_query = path("acme/fast", "generateContent") + "?key=" + KEY;
    for (label, client, path) in [
        ("x-goog-api-key", google(&world), path("acme/fast", "generateContent")),
        ("query", nobody.clone(), with_query.clone()),
        ("bearer", nobody.with_key(KEY), path("acme/fast", "generateContent")),
        ("x-api-key", nobody.with_header("x-api-key", KEY), path("acme/fast", "generateContent")),
        ("header and query", google(&world), with_query.clone()),
        ("below /v1", google(&world), "/v1/models/acme/fast:generateContent".to_owned()),
        ("encoded", google(&world), "/v1beta/models/acme%2Ffast%3AgenerateContent".to_owned()),
        ("twice named", google(&world), "/v1beta/models/models/acme/fast:generateContent".to_owned()),
        ("tuned", google(&world), "/v1beta/tunedModels/acme/fast:generateContent".to_owned()),
        ("alias", google(&world), path("smart", "generateContent")),
    ] {
        let answer = client.post_json(&path, &hello()).await;
        assert_eq!(answer.status, 200, "{label}: {}", answer.text());
        assert_eq!(answer.header("x-gateway-model"), Some("acme/fast"), "{label}");
    }
    let other = nobody.with_header("x-goog-api-key", LIMITED);
    assert_envelope("two keys", &other.post_json(&with_query, &hello()).await, 401, "UNAUTHENTICATED");
    // The key of the query counts for this API only.
    let chat = nobody.post_json(&format!("/v1/chat/completions?key={KEY}"), &hello()).await;
    assert_eq!(chat.status, 401);
    let log = world.gateway.stderr().join("\n");
    assert!(!log.contains(KEY), "{log}");
}

#[tokio::test]
async fn every_error_has_googles_envelope() {
    let world = world().await;
    let nobody = world.gateway.client();
    let key = google(&world);
    let limited = nobody.with_header("x-goog-api-key", LIMITED);
    let (body, url) = (hello().to_string(), path("acme/fast", "generateContent"));
    let none = path("acme/none", "generateContent");
    let (vectors, list) = (path("acme/embed", "generateContent"), "/v1beta/models".to_owned());
    for (label, client, method, path, body, status, name) in [
        ("no key", &nobody, "POST", &url, body.as_str(), 401, "UNAUTHENTICATED"),
        (
            "wrong key",
            &nobody.with_header("x-goog-api-key", "x"),
            "POST",
            &url,
            &body,
            401,
            "UNAUTHENTICATED",
        ),
        (
            "expired",
            &nobody.with_header("x-goog-api-key", EXPIRED),
            "POST",
            &url,
            &body,
            401,
            "UNAUTHENTICATED",
        ),
        (
            "wrong key, list",
            &nobody.with_header("x-goog-api-key", "x"),
            "GET",
            &list,
            "",
            401,
            "UNAUTHENTICATED",
        ),
        ("not its model", &limited, "POST", &url, &body, 403, "PERMISSION_DENIED"),
        ("unknown model", &key, "POST", &none, &body, 404, "NOT_FOUND"),
        ("unknown URL", &key, "POST", &"/v1beta/files".to_owned(), "{}", 404, "NOT_FOUND"),
        ("unknown model in the list", &key, "GET", &"/v1beta/models/none".to_owned(), "", 404, "NOT_FOUND"),
        ("method", &key, "GET", &url, "", 405, "UNIMPLEMENTED"),
        ("no JSON", &key, "POST", &url, "{", 400, "INVALID_ARGUMENT"),
        ("no contents", &key, "POST", &url, "{}", 400, "INVALID_ARGUMENT"),
        ("model of another category", &key, "POST", &vectors, &body, 400, "INVALID_ARGUMENT"),
    ] {
        let answer = client.send(method, path, Some("application/json"), Some(body.as_bytes())).await;
        assert_envelope(label, &answer, status, name);
    }
    world.upstream.always(Answer::error(503, "overloaded", "busy"));
    world.second.always(Answer::error(503, "overloaded", "busy"));
    let answer = ask(&key, "acme/fast", &hello()).await;
    assert_envelope("overload", &answer, 503, "UNAVAILABLE");
    let told = answer.text();
    assert!(told.contains("google.rpc.RetryInfo") && told.contains("UPSTREAM_OVERLOADED"), "{told}");
}

#[tokio::test]
async fn a_faulty_request_is_refused_by_the_name_of_the_field() {
    let world = world().await;
    let client = google(&world);
    let mut differences = Differences::default();
    let user = |parts: Value| json!({"contents": [{"role": "user", "parts": parts}]});
    let config = |config: Value| json!({"contents": hello()["contents"], "generationConfig": config});
    for (body, field) in [
        (json!({"contents": []}), "contents"),
        (json!({"contents": "Hello"}), "contents"),
        (json!({"contents": [{"role": "system", "parts": [{"text": "x"}]}]}), "contents[0].role"),
        (json!({"contents": [{"role": "user"}]}), "contents[0].parts"),
        (user(json!([])), "contents[0].parts"),
        (user(json!([{}])), "contents[0].parts[0]"),
        (user(json!([{"foo": 1}])), "contents[0].parts[0]"),
        (user(json!([{"text": "a"}, {"foo": 1}])), "contents[0].parts[1]"),
        (user(json!([{"videoMetadata": {"fps": 1}}])), "contents[0].parts[0]"),
        (user(json!([{"text": 1}])), "contents[0].parts[0].text"),
        (user(json!([{"inlineData": {"data": "eA=="}}])), "contents[0].parts[0].inlineData.mimeType"),
        (user(json!([{"fileData": {"fileUri": "x"}}])), "contents[0].parts[0].fileData.fileUri"),
        (
            user(json!([{"functionResponse": {"name": "f", "response": {}}}])),
            "contents[0].parts[0].functionResponse",
        ),
        (user(json!([{"functionCall": {"name": "f"}}])), "contents[0].parts[0].functionCall"),
        (config(json!({"temperature": 3})), "generationConfig.temperature"),
        (config(json!({"topK": 1.5})), "generationConfig.topK"),
        (config(json!({"candidateCount": 9})), "generationConfig.candidateCount"),
        (config(json!({"responseMimeType": "text/html"})), "generationConfig.responseMimeType"),
        (config(json!({"responseSchema": {"type": "STRING"}})), "generationConfig.responseMimeType"),
        (
            config(json!({"thinkingConfig": {"thinkingLevel": "MUCH"}})),
            "generationConfig.thinkingConfig.thinkingLevel",
        ),
        (config(json!({"responseModalities": ["AUDIO"]})), "generationConfig.responseModalities[0]"),
        (json!({"contents": hello()["contents"], "cachedContent": "cachedContents/x"}), "cachedContent"),
        (
            json!({"contents": hello()["contents"], "tools": [{"functionDeclarations": [{}]}]}),
            "tools[0].functionDeclarations[0].name",
        ),
        (
            json!({"contents": hello()["contents"], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
            "toolConfig.functionCallingConfig.mode",
        ),
    ] {
        let answer = ask(&client, "acme/fast", &body).await;
        let is_named = answer.text().contains(&format!("'{field}'"));
        differences.check(format!("{body}: {}", answer.text()), (answer.status, is_named), (400, true));
    }
    differences.finish();
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_stream_is_events_or_an_array() {
    let world = world().await;
    let client = google(&world);
    let answer = || {
        let chunk = |delta: Value| {
            json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
        };
        let end = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}}});
        Answer::sse()
            .data(&chunk(json!({"role": "assistant", "content": "Hel"})))
            .data(&chunk(json!({"content": "lo"})))
            .data(&end)
            .done()
    };
    world.upstream.enqueue(answer());
    let told = events(&client, "acme/fast", &hello()).await;
    assert_eq!(
        parts(&told),
        [json!({"text": "Hel"}), json!({"text": "lo"}), json!({"text": ""})],
        "{told:?}"
    );
    let last = told.last().expect("a last event");
    assert_eq!(last["candidates"][0]["finishReason"], "MAX_TOKENS", "{last}");
    assert_eq!(
        last["usageMetadata"],
        json!({"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 13,
            "cachedContentTokenCount": 2, "thoughtsTokenCount": 1})
    );
    assert!(told.iter().all(|event| event["responseId"] == last["responseId"]), "{told:?}");
    world.upstream.enqueue(answer());
    let array = client.post_json(&path("acme/fast", "streamGenerateContent"), &hello()).await.ok();
    assert_eq!(array.header("content-type"), Some("application/json"));
    let array = array.json();
    assert_eq!(parts(array.as_array().expect("an array")), parts(&told), "{array}");
}

#[tokio::test]
async fn a_broken_stream_is_told_and_never_finished() {
    let world = world().await;
    let client = google(&world);
    let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": null}]});
    world.upstream.enqueue(Answer::sse().data(&chunk).reset());
    let told = events(&client, "acme/fast", &hello()).await;
    assert_eq!(parts(&told), [json!({"text": "Hel"})], "{told:?}");
    let error = &told.last().expect("an error")["error"];
    assert_eq!((&error["code"], &error["status"]), (&json!(502), &json!("INTERNAL")), "{told:?}");
    assert!(told.iter().all(|event| event["candidates"][0]["finishReason"].is_null()), "{told:?}");
    world.upstream.enqueue(Answer::sse().data(&chunk).reset());
    let array = client.post_json(&path("acme/fast", "streamGenerateContent"), &hello()).await.json();
    assert_eq!(array[1]["error"]["code"], 502, "{array}");
}

#[tokio::test]
async fn a_sign_of_life_is_an_empty_line() {
    let world = Setup { server: "keepalive_seconds = 1", ..Setup::default() }.start().await;
    let go = Signal::new();
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1,
        "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let answer = Answer::sse()
        .data(&chunk(json!({"content": "a"}), Value::Null))
        .then(Step::Wait(go.clone()))
        .data(&chunk(json!({}), json!("stop")))
        .done();
    world.upstream.enqueue(answer);
    let url = path("acme/fast", "streamGenerateContent") + "?alt=sse";
    let mut socket = google(&world)
        .open("POST", &url, Some("application/json"), Some(hello().to_string().as_bytes()))
        .await;
    let head = socket.head().await.expect("a head");
    socket.expect_body(&head, false);
    let mut seen = String::new();
    while !seen.ends_with("\n\n\n\n") {
        seen.push_str(&String::from_utf8(socket.body_chunk().await.unwrap().expect("a piece")).unwrap());
    }
    go.fire();
    while let Some(piece) = socket.body_chunk().await.unwrap() {
        seen.push_str(&String::from_utf8(piece).unwrap());
    }
    // Google's clients read each line that is not empty as JSON.
    let is_data = |line: &str| line.is_empty() || line.starts_with("data: {");
    assert!(seen.lines().all(is_data), "{seen}");
}

#[tokio::test]
async fn a_tool_loop_passes_and_ids_may_be_absent() {
    let world = world().await;
    let client = google(&world);
    let call =
        json!({"id": "call_7", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}});
    world.upstream.enqueue(Answer::json(
        200,
        &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]},
                "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}}),
    ));
    let tools = json!([{"functionDeclarations": [{"name": "add", "description": "Adds.",
        "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": true}}}}]}]);
    let config = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}});
    let body = json!({"contents": hello()["contents"], "tools": tools, "toolConfig": config});
    let told = ask(&client, "acme/fast", &body).await.ok().json();
    let sent = world.upstream.last().json();
    let schema = json!({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}});
    assert_eq!(
        sent["tools"],
        json!([{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": schema}}])
    );
    assert_eq!(sent["tool_choice"], json!({"type": "function", "function": {"name": "add"}}));
    let part = &told["candidates"][0]["content"]["parts"][0];
    assert_eq!(part["functionCall"], json!({"id": "call_7", "name": "add", "args": {"a": 1}}), "{told}");
    assert_eq!(told["candidates"][0]["finishReason"], "STOP");
    for (call, response) in [
        (
            json!({"id": "call_7", "name": "add", "args": {"a": 1}}),
            json!({"id": "call_7", "name": "add", "response": {"r": 2}}),
        ),
        (json!({"name": "add", "args": {"a": 1}}), json!({"name": "add", "response": {"r": 2}})),
    ] {
        let contents = json!([hello()["contents"][0], {"role": "model", "parts": [{"functionCall": call}]},
            {"role": "user", "parts": [{"functionResponse": response}]}]);
        ask(&client, "acme/fast", &json!({"contents": contents, "tools": tools})).await.ok();
        let sent = world.upstream.last().json();
        let (made, result) = (&sent["messages"][1]["tool_calls"][0], &sent["messages"][2]);
        assert_eq!(made["function"], json!({"name": "add", "arguments": "{\"a\":1}"}), "{sent}");
        assert_eq!((&result["role"], &result["content"]), (&json!("tool"), &json!("{\"r\":2}")), "{sent}");
        assert_eq!(result["tool_call_id"], made["id"], "{sent}");
        assert_eq!(sent["messages"].as_array().map(Vec::len), Some(3), "{sent}");
    }
}

#[tokio::test]
async fn images_schemas_and_thinking_reach_the_chat() {
    let world = world().await;
    let client = google(&world);
    let body = json!({
        "contents": [{"parts": [{"text": "See"}, {"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}]}],
        "generationConfig": {"responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
            "thinkingConfig": {"thinkingBudget": 5000, "includeThoughts": true}}
    });
    world.upstream.enqueue(Answer::json(
        200,
        &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "{}", "reasoning_content": "Hm."},
                "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}}),
    ));
    let told = ask(&client, "acme/fast", &body).await.ok().json();
    let sent = world.upstream.last().json();
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    assert_eq!(sent["messages"][0]["content"], json!([{"type": "text", "text": "See"}, image]), "{sent}");
    assert_eq!(sent["response_format"]["type"], "json_schema", "{sent}");
    assert_eq!(
        sent["response_format"]["json_schema"]["schema"]["properties"]["a"]["type"], "string",
        "{sent}"
    );
    assert_eq!(sent["reasoning_effort"], "high", "{sent}");
    let parts = told["candidates"][0]["content"]["parts"].as_array().cloned().expect("parts");
    assert_eq!(parts[0], json!({"text": "Hm.", "thought": true}), "{told}");
    assert_eq!(parts.last().expect("a text")["text"], "{}", "{told}");
    // The thought comes back with the history, and its signature tells whose it is.
    let history = json!({"contents": [hello()["contents"][0], {"role": "model", "parts": parts}, hello()["contents"][0]]});
    ask(&client, "acme/fast", &history).await.ok();
    let sent = world.upstream.last().json();
    assert_eq!(sent["messages"][1]["content"], "{}", "{sent}");
}

#[tokio::test]
async fn several_candidates_have_their_places() {
    let world = world().await;
    let client = google(&world);
    let body = json!({"contents": hello()["contents"], "generationConfig": {"candidateCount": 2}});
    let told = ask(&client, "demo/chat", &body).await.ok().json();
    let places: Vec<_> =
        told["candidates"].as_array().expect("a list").iter().map(|one| &one["index"]).collect();
    assert_eq!(places, [0, 1], "{told}");
    let told = events(&client, "demo/chat", &body).await;
    let last = told.last().expect("a last event");
    let ends: Vec<_> =
        last["candidates"].as_array().expect("a list").iter().map(|one| &one["finishReason"]).collect();
    assert_eq!(ends, ["STOP", "STOP"], "{told:?}");
}

#[tokio::test]
async fn tokens_are_counted_and_texts_embedded() {
    let world = world().await;
    let client = google(&world);
    let count = |body: Value| {
        let client = client.clone();
        async move { client.post_json(&path("acme/fast", "countTokens"), &body).await.ok() }
    };
    let plain = count(hello()).await;
    assert_eq!(plain.header("x-gateway-token-count"), Some("estimate"));
    let tokens = plain.json()["totalTokens"].as_u64().expect("a count");
    assert!(tokens > 0);
    let whole = json!({"generateContentRequest": {"model": "models/acme/fast", "contents": hello()["contents"],
        "systemInstruction": {"parts": [{"text": "A longer instruction."}]}}});
    assert!(count(whole).await.json()["totalTokens"].as_u64() > Some(tokens));
    assert_eq!(world.upstream.hits(), 0);

    let content = json!({"parts": [{"text": "Hello"}]});
    let one = client.post_json(&path("acme/embed", "embedContent"), &json!({"content": content})).await.ok();
    assert!(one.json()["embedding"]["values"][0].is_number(), "{}", one.text());
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, one.header("x-request-id").expect("an id")).await;
    assert_eq!(row["surface"], "gemini", "{row}");
    let requests = json!([{"model": "models/demo/embed", "content": content, "outputDimensionality": 8},
        {"model": "demo/embed", "content": content, "outputDimensionality": 8}]);
    let demo = path("demo/embed", "batchEmbedContents");
    let two = client.post_json(&demo, &json!({"requests": requests})).await;
    assert_eq!(two.status, 200, "{}", two.text());
    let two = two.json();
    let other = json!({"requests": [{"model": "models/acme/embed", "content": content}]});
    let refused = client.post_json(&demo, &other).await;
    assert_eq!((refused.status, &refused.json()["error"]["status"]), (400, &json!("INVALID_ARGUMENT")));
    let expected = "Invalid 'requests[0].model': expected the model of the URL.";
    assert_eq!(refused.json()["error"]["message"], expected);
    assert_eq!(two["embeddings"].as_array().map(Vec::len), Some(2), "{two}");
    assert_eq!(two["embeddings"][1]["values"].as_array().map(Vec::len), Some(8), "{two}");
}

#[tokio::test]
async fn models_are_listed_in_googles_shape() {
    let world = world().await;
    let client = google(&world);
    let first = client.get("/v1beta/models?pageSize=3").await.ok().json();
    assert_eq!(first["models"].as_array().map(Vec::len), Some(3), "{first}");
    let model = &first["models"][2];
    assert_eq!(
        (&model["name"], &model["displayName"]),
        (&json!("models/acme/fast"), &json!("Acme Fast")),
        "{first}"
    );
    assert_eq!((&model["inputTokenLimit"], &model["outputTokenLimit"]), (&json!(128_000), &json!(16384)));
    assert!(model["supportedGenerationMethods"].to_string().contains("streamGenerateContent"), "{model}");
    let token = first["nextPageToken"].as_str().expect("a token");
    let second = client.get(&format!("/v1beta/models?pageToken={token}")).await.ok().json();
    assert_ne!(second["models"][0]["name"], first["models"][2]["name"]);
    for url in ["/v1beta/models/acme/fast", "/v1/models/acme/fast", "/v1beta/models/models%2Facme%2Ffast"] {
        assert_eq!(client.get(url).await.ok().json()["name"], "models/acme/fast", "{url}");
    }
    assert!(client.get("/v1/models").await.ok().json()["models"].is_array());
    let with_query = world.gateway.client().get(&format!("/v1beta/models?key={KEY}")).await.ok();
    assert!(with_query.json()["models"].is_array());
    let limited = world.gateway.client().with_header("x-goog-api-key", LIMITED);
    assert!(!limited.get("/v1beta/models").await.ok().text().contains("acme/fast\""));
}

#[tokio::test]
async fn unknown_methods_and_unreadable_answers_have_googles_shape() {
    let world = world().await;
    let client = google(&world);
    for url in [path("acme/fast", "generateContent"), "/v1beta/models".to_owned()] {
        for method in ["PUT", "PATCH", "DELETE", "TRACE", "BREW"] {
            let answer = client.send(method, &url, Some("application/json"), Some(b"{}")).await;
            assert_envelope(&format!("{method} {url}"), &answer, 405, "UNIMPLEMENTED");
        }
        assert_eq!(client.send("OPTIONS", &url, None, None).await.status, 204, "{url}");
    }
    let text =
        client.send("POST", &path("acme/fast", "generateContent"), Some("text/xml"), Some(b"<x/>")).await;
    assert_envelope("media type", &text, 415, "INVALID_ARGUMENT");
    for (method, model, body) in [
        ("generateContent", "acme/fast", hello()),
        ("embedContent", "acme/embed", json!({"content": {"parts": [{"text": "x"}]}})),
    ] {
        world.upstream.enqueue(Answer::full(200, &[], "{}"));
        let answer = client.post_json(&path(model, method), &body).await;
        assert_envelope(method, &answer, 502, "INTERNAL");
        assert_eq!(answer.code(), "upstream_invalid_response", "{method}");
    }
}

#[tokio::test]
async fn files_of_the_operators_account_are_refused() {
    let world = world().await;
    let client = google(&world);
    for uri in ["gs://operator/a.png", "https://generativelanguage.googleapis.com/v1beta/files/abc"] {
        let part = json!({"fileData": {"mimeType": "image/png", "fileUri": uri}});
        let answer = ask(&client, "acme/fast", &json!({"contents": [{"parts": [part]}]})).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "unsupported_value"),
            "{uri}: {}",
            answer.text()
        );
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn an_unknown_method_of_a_model_is_an_unknown_url() {
    let world = world().await;
    for model in ["acme/fast", "acme%2Ffast", "none"] {
        let answer = google(&world).post_json(&path(model, "predict"), &hello()).await;
        assert_envelope(model, &answer, 404, "NOT_FOUND");
        let answer = world.client.post_json(&format!("/v1/models/{model}:predict"), &hello()).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_url"), "{}", answer.text());
    }
    // A GET reads a model, whose name may have a colon, and a wrong method is one.
    let answer = google(&world).get(&path("acme/fast", "predict")).await;
    assert_envelope("a model", &answer, 404, "NOT_FOUND");
    let answer = google(&world).post_json("/v1beta/models/acme/fast", &hello()).await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    let wrong = world.client.with_key("sk-wrong").post_json(&path("acme/fast", "predict"), &hello()).await;
    assert_envelope("a wrong key", &wrong, 401, "UNAUTHENTICATED");
    assert_eq!(world.upstream.hits(), 0);
}
