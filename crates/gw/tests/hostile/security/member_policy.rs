//! Members of a request that choose a model, an upstream or a price never override the operator's settings (C28).

use gw_testkit::upstream::{Recorded, default_answer};
use gw_testkit::{Answer, FakeUpstream, Launch};
use serde_json::{Value, json};

use crate::harness::providers::{all_with, targets};
use crate::harness::{KEY, LIMITED, Setup, assert_invalid, binary, chat, chat_with, serve, with, world};

const CHAT: &str = "/v1/chat/completions";

/// Members that choose a model, an upstream or credentials; the model that each names is `acme/dear`.
fn overriding_members() -> Vec<Value> {
    vec![
        json!({ "api_base": "https://dear.example" }),
        json!({ "apiBase": "https://dear.example" }),
        json!({ "API_BASE": "https://dear.example" }),
        json!({ "base_url": "https://dear.example" }),
        json!({ "api_key": "sk-dear" }),
        json!({ "api_version": "dear" }),
        json!({ "organization": "dear" }),
        json!({ "headers": { "x": "dear" } }),
        json!({ "extra_headers": { "x": "dear" } }),
        json!({ "extra_body": { "models": ["dear"] } }),
        json!({ "user_config": { "model_list": ["dear"] } }),
        json!({ "model_list": ["dear"] }),
        json!({ "litellm_params": { "model": "dear" } }),
        json!({ "litellm_metadata": { "tags": ["dear"] } }),
        json!({ "mock_response": "dear" }),
        json!({ "context_window_fallback_dict": { "plain": "dear" } }),
        json!({ "context_window_fallbacks": [{ "plain": ["dear"] }] }),
        json!({ "content_policy_fallbacks": [{ "plain": ["dear"] }] }),
        json!({ "custom_llm_provider": "dear" }),
        json!({ "aws_access_key_id": "dear" }),
        json!({ "vertex_credentials": "dear" }),
        json!({ "azure_ad_token": "dear" }),
        json!({ "providerOptions": { "gateway": { "models": ["dear"] } } }),
        json!({ "compound_custom": { "models": { "answering_model": "dear" } } }),
        json!({ "safety_model": "dear" }),
        json!({ "adapter_id": "dear" }),
        json!({ "lora_path": "dear" }),
        json!({ "tensorzero::variant_name": "dear" }),
        json!({ "provider_specific_header": { "x": "dear" } }),
        json!({ "lora": [{ "id": "dear" }] }),
        json!({ "gcs_bucket_name": "dear" }),
        json!({ "gcs_path_service_account": "dear" }),
        json!({ "turn_off_message_logging": "dear" }),
        json!({ "arize_api_key": "dear" }),
        json!({ "posthog_api_key": "dear" }),
        json!({ "humanloop_api_key": "dear" }),
        json!({ "wandb_api_key": "dear" }),
        json!({ "weave_project_id": "dear" }),
        json!({ "guardrails": ["dear"] }),
        json!({ "extra_body": { "model": "dear" } }),
        json!({ "extra_body": { "n": 2, "x": "dear" } }),
        json!({ "extra_body": { "maxTokens": 9, "x": "dear" } }),
        json!({ "data_sources": [{ "type": "azure_search", "parameters": { "index_name": "dear" } }] }),
    ]
}

/// Members that tell other gateways how to route, tag or retry a request.
fn hints() -> Vec<(&'static str, Value)> {
    vec![
        ("provider", json!({ "order": ["dear"], "allow_fallbacks": true })),
        ("route", json!("fallback")),
        ("plugins", json!([{ "id": "web", "model": "dear" }])),
        ("transforms", json!(["dear"])),
        ("tags", json!(["dear"])),
        ("num_retries", json!(9)),
        ("max_retries", json!(9)),
        ("metadata", json!({ "tags": ["dear"] })),
    ]
}

#[tokio::test]
async fn c28_hints_to_other_gateways_are_left_out_with_a_warning_by_every_provider() {
    let (gateway, upstreams) = all_with("").await;
    let client = gateway.client().with_key(KEY);
    let mut more = json!({ "cache": { "no-cache": true } });
    for (name, value) in hints() {
        more[name] = value;
    }
    let mut expected: Vec<String> =
        hints().iter().map(|(name, _)| format!("parameter_dropped:{name}")).collect();
    expected.sort_unstable();
    for ((api, model), upstream) in targets().zip(&upstreams) {
        let answer = client.post_json(CHAT, &chat_with(&model, more.clone())).await.ok().json();
        let mut warnings: Vec<String> =
            serde_json::from_value(answer["gateway"]["warnings"].clone()).expect("texts");
        warnings.retain(|warning| !warning.starts_with("model_rules_assumed"));
        warnings.sort_unstable();
        assert_eq!(warnings, expected, "{api}");
        let sent = upstream.last().json();
        assert!(hints().iter().all(|(name, _)| sent.get(*name).is_none()), "{api}: {sent}");
    }
    let world = world().await;
    for (path, body) in bodies("acme/fast", "acme/embed", &more) {
        world.client.post_json(path, &body).await.ok();
        let sent = world.upstream.last().json();
        assert!(hints().iter().all(|(name, _)| sent.get(*name).is_none()), "{path}: {sent}");
    }
}

fn bodies(model: &str, embed: &str, more: &Value) -> [(&'static str, Value); 7] {
    [
        (CHAT, with(chat(model), more.clone())),
        ("/v1/completions", with(json!({ "model": model, "prompt": "x" }), more.clone())),
        ("/v1/embeddings", with(json!({ "model": embed, "input": "x" }), more.clone())),
        (
            "/v1/rerank",
            with(json!({ "model": "acme/rerank", "query": "q", "documents": ["x"] }), more.clone()),
        ),
        ("/v1/moderations", with(json!({ "model": "acme/moderation", "input": "x" }), more.clone())),
        ("/v1/images/generations", with(json!({ "model": "acme/paint", "prompt": "x" }), more.clone())),
        (
            "/v1/audio/speech",
            with(json!({ "model": "acme/speak", "input": "x", "voice": "v" }), more.clone()),
        ),
    ]
}

#[tokio::test]
async fn c28_members_that_steer_are_refused_at_every_endpoint() {
    let world = world().await;
    for more in overriding_members() {
        for (path, body) in bodies("acme/fast", "acme/embed", &more) {
            let answer = world.client.post_json(path, &body).await;
            let label = format!("{path}: {more}");
            assert_invalid(&label, &answer, "unsupported_value");
            assert!(answer.message().contains("allow_members = ["), "{label}: {}", answer.message());
        }
    }
    assert_eq!(world.upstream.hits(), 0);
}

/// An aggregator that answers with the model that the last of these members names.
fn aggregator(request: &Recorded) -> Answer {
    let body = request.json();
    let chosen = ["/model", "/models/0", "/fallbacks/0", "/provider/order/0", "/extra_body/models/0"];
    let model = chosen.iter().filter_map(|place| body.pointer(place)?.as_str()).next_back();
    let mut answer = gw_testkit::upstream::chat_body(model.unwrap_or("plain"), "Hello");
    answer["usage"] = json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 });
    Answer::json(200, &answer)
}

#[tokio::test]
async fn c28_a_key_for_one_model_is_never_answered_by_another() {
    let world = world().await;
    world.upstream.respond_with(aggregator);
    let client = world.gateway.client().with_key(LIMITED);
    let mut members = overriding_members();
    for name in ["models", "Models", "fallbacks", "FALLBACKS"] {
        members.push(json!({ name: ["dear"] }));
    }
    for more in &members {
        let answer = client.post_json(CHAT, &chat_with("acme/plain", more.clone())).await;
        // `models` and `fallbacks` mean `routing.fallback`. Other spellings have no meaning and are not forwarded.
        let expected = match more.as_object().and_then(|members| members.keys().next()).map(String::as_str) {
            Some("models" | "fallbacks") if *more != json!({ "fallbacks": [{ "plain": ["dear"] }] }) => 404,
            Some("Models" | "FALLBACKS") => 200,
            _ => 400,
        };
        assert_eq!(answer.status, expected, "{more}: {}", answer.text());
        if expected == 200 {
            assert_eq!(answer.json()["gateway"]["model_used"], "acme/plain", "{more}");
        }
    }
    // Members that name the requested model are accepted and not forwarded.
    for name in ["models", "fallbacks"] {
        let answer =
            client.post_json(CHAT, &chat_with("acme/plain", json!({ name: ["acme/plain"] }))).await.ok();
        assert_eq!(answer.json()["gateway"]["model_used"], "acme/plain");
    }
    assert!(world.upstream.hits() >= 2);
    for request in world.upstream.requests() {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        assert!(!body.contains("dear") && !body.to_lowercase().contains("models"), "{body}");
        assert!(!body.to_lowercase().contains("fallbacks"), "{body}");
    }
}

#[tokio::test]
async fn c28_members_that_only_change_the_price_are_dropped_with_a_warning() {
    let world = world().await;
    for (more, name) in [
        (json!({ "service_tier": "priority" }), "service_tier"),
        (json!({ "service_tier": "flex" }), "service_tier"),
        (json!({ "speed": "fast" }), "speed"),
        (json!({ "inference_geo": "us" }), "inference_geo"),
        (json!({ "store": true }), "store"),
        (json!({ "keep_alive": "24h" }), "keep_alive"),
    ] {
        for path in [CHAT, "/v1/completions"] {
            let asked =
                if path == CHAT { chat("acme/fast") } else { json!({ "model": "acme/fast", "prompt": "x" }) };
            let answer = world.client.post_json(path, &with(asked, more.clone())).await.ok().json();
            let dropped = json!([format!("parameter_dropped:{name}")]);
            assert_eq!(answer["gateway"]["warnings"], dropped, "{path}: {more}");
            assert_eq!(world.upstream.last().json().get(name), None, "{path}: {more}");
        }
        let embeddings = with(json!({ "model": "acme/embed", "input": "x" }), more.clone());
        world.client.post_json("/v1/embeddings", &embeddings).await.ok();
        assert_eq!(world.upstream.last().json().get(name), None, "{more}");
        let streamed = with(chat("acme/fast"), with(more.clone(), json!({ "stream": true })));
        let frames = world.client.stream(CHAT, &streamed).await.rest().await;
        assert!(
            frames.iter().any(|frame| frame.contains(&format!("parameter_dropped:{name}"))),
            "{more}: {frames:?}"
        );
        assert_eq!(world.upstream.last().json().get(name), None, "{more}");
    }
    for more in [
        json!({ "service_tier": "auto" }),
        json!({ "service_tier": "default" }),
        json!({ "store": false }),
        json!({ "background": false }),
        json!({ "plugins": [], "provider": {} }),
        json!({ "extra_body": { "plugins": [], "provider": {} } }),
    ] {
        let answer = world.chat_ok(&chat_with("acme/fast", more.clone())).await;
        assert_eq!(answer["gateway"]["warnings"], json!([]), "{more}: {answer}");
        let sent = world.upstream.last().json();
        for (name, value) in more.as_object().expect("an object") {
            assert_eq!(&sent[name], value);
        }
    }
}

#[tokio::test]
async fn c28_a_dearer_mode_of_reasoning_is_dropped_and_the_effort_stays() {
    let world = world().await;
    let dropped = json!(["parameter_dropped:reasoning.mode"]);
    for (name, reasoning, sent) in [
        ("reasoning", json!({ "effort": "low", "mode": "pro" }), json!({ "effort": "low" })),
        ("Reasoning", json!({ "Mode": "pro", "mode": 7, "max_tokens": 9 }), json!({ "max_tokens": 9 })),
    ] {
        for (path, body) in bodies("acme/fast", "acme/embed", &json!({ name: reasoning })) {
            let answer = world.client.post_json(path, &body).await.ok();
            if ["/v1/rerank", "/v1/moderations", "/v1/images/generations", "/v1/audio/speech"].contains(&path)
            {
                assert_eq!(world.upstream.last().json().get(name), None, "{path} forwards no other member");
                continue;
            }
            assert_eq!(world.upstream.last().json()[name], sent, "{path}");
            if path != "/v1/embeddings" {
                assert_eq!(answer.json()["gateway"]["warnings"], dropped, "{path}");
            }
        }
    }
    for reasoning in [json!({ "mode": "standard" }), json!({ "mode": null }), json!({ "effort": "low" })] {
        let answer = world.chat_ok(&chat_with("acme/fast", json!({ "reasoning": reasoning }))).await;
        assert_eq!(answer["gateway"]["warnings"], json!([]), "{reasoning}");
        assert_eq!(world.upstream.last().json()["reasoning"], reasoning);
    }
    let hidden = json!({ "extra_body": { "reasoning": { "mode": "pro" } } });
    assert_invalid("extra_body", &world.chat(&chat_with("acme/fast", hidden)).await, "unsupported_value");
    let acme = "allow_members = [\"reasoning.mode\"]".to_owned();
    let world = Setup { acme, ..Setup::default() }.start().await;
    let pro = json!({ "reasoning": { "mode": "pro" } });
    let answer = world.chat_ok(&chat_with("acme/fast", pro.clone())).await;
    // Another model may answer, at a price of its own.
    assert_eq!(answer["gateway"]["warnings"], json!(["price_unknown"]));
    assert_eq!(world.upstream.last().json()["reasoning"], pro["reasoning"]);
}

/// Members that change the meaning of the request, and members with a price per call.
fn meaning() -> Vec<Value> {
    vec![
        json!({ "web_search_options": { "search_context_size": "high" } }),
        json!({ "search_parameters": { "mode": "on" } }),
        json!({ "web_search": true }),
        json!({ "enable_search": true }),
        json!({ "search_mode": "academic" }),
        json!({ "tools": [{ "type": "web_search_preview" }] }),
        json!({ "tools": [{ "type": "mcp", "server_url": "https://x.example" }] }),
        json!({ "tools": [{ "type": "function", "function": { "name": "f" }, "Type": "web_search" }] }),
        json!({ "web_search_options": {} }),
        json!({ "previous_response_id": "resp_1" }),
        json!({ "conversation": "conv_1" }),
        json!({ "background": true }),
    ]
}

#[tokio::test]
async fn c28_members_that_change_what_the_answer_is_are_refused() {
    let world = world().await;
    for more in meaning() {
        let answer = world.chat(&chat_with("acme/fast", more.clone())).await;
        assert_invalid(&more.to_string(), &answer, "unsupported_value");
        assert!(answer.message().contains("allow_members = ["), "{more}: {}", answer.message());
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn c28_other_dialects_forward_none_of_them() {
    let (gateway, upstreams) = all_with("").await;
    let client = gateway.client().with_key(KEY);
    for ((api, model), upstream) in targets().zip(&upstreams) {
        let is_openai = matches!(api, "openai" | "azure");
        for more in [json!({ "previous_response_id": "resp_dear" }), json!({ "background": true })] {
            let answer = client.post_json(CHAT, &chat_with(&model, more.clone())).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "unsupported_value"), "{api}: {more}");
        }
        assert_eq!(upstream.hits(), 0, "{api}");
        let more = json!({ "search_parameters": { "mode": "dear" }, "lora_path": "dear" });
        let answer = client.post_json(CHAT, &chat_with(&model, more)).await;
        if is_openai {
            assert_eq!((answer.status, answer.code().as_str()), (400, "unsupported_value"), "{api}");
            continue;
        }
        assert_eq!(answer.status, 200, "{api}: {}", answer.text());
        let warnings = answer.json()["gateway"]["warnings"].to_string();
        assert!(warnings.contains("parameter_dropped:search_parameters"), "{api}: {warnings}");
        let sent = String::from_utf8_lossy(&upstream.last().body).into_owned();
        assert!(!sent.contains("dear"), "{api}: {sent}");
    }
}

#[tokio::test]
async fn c28_tools_with_a_price_are_refused_where_tools_mean_nothing() {
    let world = world().await;
    for (path, body) in [
        ("/v1/completions", json!({ "model": "acme/fast", "prompt": "x" })),
        ("/v1/embeddings", json!({ "model": "acme/embed", "input": "x" })),
        ("/v1/rerank", json!({ "model": "acme/rerank", "query": "q", "documents": ["x"] })),
    ] {
        let more = json!({ "tools": [{ "Type": "web_search" }] });
        let answer = world.client.post_json(path, &with(body.clone(), more)).await;
        assert_invalid(path, &answer, "unsupported_value");
        assert!(answer.message().contains("allow_members = [\"tools\"]"), "{path}: {}", answer.message());
        let more = json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] });
        assert_eq!(world.client.post_json(path, &with(body, more)).await.status, 200, "{path}");
    }
    assert_eq!(world.upstream.hits(), 3);
}

#[tokio::test]
async fn c28_warnings_name_a_member_as_its_api_does_and_once() {
    let world = world().await;
    let long = format!("s{}tore", "_".repeat(5000));
    let answer = world.chat_ok(&chat_with("acme/fast", json!({ "s_tore": true, &long: true }))).await;
    assert_eq!(answer["gateway"]["warnings"], json!(["parameter_dropped:store"]));
    let sent = world.upstream.last().json();
    assert_eq!((sent.get("s_tore"), sent.get(&long)), (None, None));
    let (gateway, upstreams) = all_with("").await;
    let client = gateway.client().with_key(KEY);
    let long = format!("s{}earch", "_".repeat(5000));
    for ((api, model), upstream) in targets().zip(&upstreams).skip(2) {
        let body = chat_with(&model, json!({ "s_earch": true, &long: true }));
        let answer = client.post_json(CHAT, &body).await.ok().json();
        assert_eq!(answer["gateway"]["warnings"], json!(["parameter_dropped:search"]), "{api}");
        assert_eq!(upstream.hits(), 1, "{api}");
    }
}

#[tokio::test]
async fn c28_members_that_a_dialect_copies_need_the_operators_leave() {
    let more = json!({ "guardrails": [{ "block_on_error": true }], "keep_alive": "24h" });
    let (gateway, upstreams) = all_with("").await;
    let client = gateway.client().with_key(KEY);
    for ((api, model), upstream) in targets().zip(&upstreams) {
        let answer = client.post_json(CHAT, &chat_with(&model, more.clone())).await;
        if matches!(api, "openai" | "azure" | "mistral") {
            assert_eq!((answer.status, answer.code().as_str()), (400, "unsupported_value"), "{api}");
            assert!(answer.message().starts_with("Invalid 'guardrails': "), "{api}: {}", answer.message());
            assert_eq!(upstream.hits(), 0, "{api}");
            continue;
        }
        assert_eq!(answer.status, 200, "{api}: {}", answer.text());
        let sent = upstream.last().json();
        assert_eq!((sent.get("guardrails"), sent.get("keep_alive")), (None, None), "{api}");
        if api == "ollama" {
            let warnings = &answer.json()["gateway"]["warnings"];
            assert_eq!(warnings, &json!(["parameter_dropped:keep_alive"]));
        }
    }
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n[[providers]]\nname = \"own\"\n\
         api = \"mistral\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\nallow_members = [\"guardrails\"]\n\
         [[models]]\nid = \"own/m\"\n",
        upstream.addr
    );
    let gateway = serve(&config).await;
    gateway.client().with_key(KEY).post_json(CHAT, &chat_with("own/m", more.clone())).await.ok();
    assert_eq!(upstream.last().json().get("guardrails"), more.get("guardrails"));
}

#[tokio::test]
async fn c28_an_operator_opens_members_one_by_one() {
    let opened = r#"allow_members = ["provider", "api_base", "metadata", "service_tier", "store", "tools", "web_search_options", "background", "litellm_params"]"#;
    let world = Setup { acme: opened.to_owned(), ..Setup::default() }.start().await;
    for more in [
        json!({ "provider": { "order": ["x"] } }),
        json!({ "apiBase": "https://x.example" }),
        json!({ "metadata": { "hints": ["x"] } }),
        json!({ "service_tier": "priority" }),
        json!({ "store": true }),
        json!({ "tools": [{ "type": "web_search_preview" }] }),
        json!({ "web_search_options": {} }),
        json!({ "background": true }),
        json!({ "litellm_params": { "a": "b" } }),
    ] {
        let answer = world.chat_ok(&chat_with("acme/fast", more.clone())).await;
        // The model has no price of a search, and the catalogue none of another tier.
        let has_price =
            ["web_search_options", "tools", "service_tier"].iter().all(|name| more.get(*name).is_none());
        let warnings = if has_price { json!([]) } else { json!(["price_unknown"]) };
        assert_eq!(answer["gateway"]["warnings"], warnings, "{more}: {answer}");
        let sent = world.upstream.last().json();
        for (name, value) in more.as_object().expect("an object") {
            assert_eq!(&sent[name], value, "{name}");
        }
        // The other provider does not allow the member.
        let elsewhere = world.chat(&chat_with("beta/fast", more.clone())).await;
        let is_dropped =
            ["service_tier", "store", "provider", "metadata"].iter().any(|name| more.get(*name).is_some());
        assert_eq!(elsewhere.status, if is_dropped { 200 } else { 400 }, "{more}: {}", elsewhere.text());
    }
    let still = world.chat(&chat_with("acme/fast", json!({ "adapter_id": "x" }))).await;
    assert_invalid("one that was not opened", &still, "unsupported_value");
}

#[tokio::test]
async fn c28_sampling_members_of_other_servers_are_forwarded_as_they_came() {
    let world = world().await;
    world.upstream.respond_with(default_answer);
    let more = json!({ "top_k": 40, "min_p": 0.1, "guided_json": { "models": ["a"] }, "repetition_penalty": 1.1,
        "chat_template_kwargs": { "enable_thinking": false }, "extra_body": { "top_k": 1 },
        "metadata": { "route": "a", "provider": "b" }, "priority": 1 });
    world.chat_ok(&chat_with("acme/fast", more.clone())).await;
    let sent = world.upstream.last().json();
    for (name, value) in more.as_object().expect("an object") {
        assert_eq!(&sent[name], value, "{name}");
    }
}

#[test]
fn c28_unknown_members_to_allow_are_told() {
    let check = |lines: &str| {
        let config = format!("[[keys]]\nname = \"k\"\nkey = \"sk-x\"\n\n{lines}\n");
        let output = Launch::new(binary()).file("gateway.toml", config).arg("check").run();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };
    let provider = "[[providers]]\nname = \"acme\"\nbase_url = \"https://acme.example/v1\"\n";
    let (code, text) = check(&format!("{provider}api = \"openai\"\nallow_members = [\"plugns\"]"));
    assert_eq!(code, Some(2), "{text}");
    let fault = "providers[0].allow_members[0]: is not a member, a tool or a header that this release knows";
    assert!(text.contains(fault) && text.contains("did you mean 'plugins'?"), "{text}");
    // A vendor may have made the name after the release.
    let (code, text) = check(&format!("{provider}api = \"openai\"\nallow_members = [\"next_month\"]"));
    assert_eq!(code, Some(0), "{text}");
    let note = "note: provider 'acme': allow_members names 'next_month', which this release does not know";
    assert!(text.contains(note), "{text}");
    let (code, text) = check(&format!("{provider}api = \"cohere\"\nallow_members = [\"plugins\"]"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("is an option of openai, azure"), "{text}");
    let (code, text) =
        check(&format!("{provider}api = \"anthropic\"\nallow_members = [\"mcp_toolset\", \"speed\"]"));
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = check(&format!("{provider}api = \"openai\"\nallow_members = [\"models\"]"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("means routing.fallback and is never sent to a provider"), "{text}");
    for (api, own) in [("mistral", "guardrails"), ("ollama", "keep_alive"), ("gemini", "web_search_options")]
    {
        let (code, text) = check(&format!("{provider}api = \"{api}\"\nallow_members = [\"plugins\"]"));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(&format!("what can be allowed is '{own}'")), "{text}");
        let (code, text) = check(&format!("{provider}api = \"{api}\"\nallow_members = [\"{own}\"]"));
        assert_eq!(code, Some(0), "{text}");
    }
    let (code, text) =
        check(&format!("{provider}api = \"openai\"\nallow_members = [\"plugins\", \"aws_region_name\"]"));
    assert_eq!(code, Some(0), "{text}");
}
