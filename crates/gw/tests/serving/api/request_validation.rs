//! The gateway does exactly the requested work or refuses it with the reason: names of fallbacks and models, misspelled members,
//! and an upstream's reason for a failure.

use gw_testkit::upstream::{chat_body, default_answer, sse_data};
use gw_testkit::wait::eventually;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};

use crate::harness::{
    ADMIN, KEY, Setup, UPSTREAM_KEY, assert_error, assert_invalid, binary, chat, chat_with, logged, with,
    world,
};

#[tokio::test]
async fn misspelled_members_of_routing_and_cache_are_refused_with_the_nearest_name() {
    let world = world().await;
    let text = json!({ "model": "acme/fast", "prompt": "Hello" });
    for (members, nearest) in [
        (
            json!({ "routing": { "fallbacks": ["beta/spare"] } }),
            "'routing.fallbacks'; did you mean 'fallback'?",
        ),
        (json!({ "routing": { "stategy": "cheapest" } }), "'routing.stategy'; did you mean 'strategy'?"),
        (json!({ "cache": { "enable": true } }), "'cache.enable'; did you mean 'enabled'?"),
        (
            json!({ "cache": { "namespace": "x" } }),
            "the members of 'cache' are 'enabled', 'ttl', 'mode', 'no-cache', 'no-store'.",
        ),
    ] {
        for (path, body) in [
            ("/v1/chat/completions", chat_with("acme/fast", members.clone())),
            ("/v1/completions", with(text.clone(), members.clone())),
        ] {
            let answer = world.client.post_json(path, &body).await;
            assert_invalid(path, &answer, "unknown_parameter");
            assert!(answer.message().ends_with(nearest), "{path}: {}", answer.message());
        }
    }
    assert_eq!(world.upstream.hits() + world.second.hits(), 0, "no request was sent");
    // Embeddings ignore the members `routing` and `cache`.
    let vectors = json!({ "model": "acme/embed", "input": "Hello", "routing": { "stategy": 1 } });
    world.client.post_json("/v1/embeddings", &vectors).await.ok();
}

#[tokio::test]
async fn the_lists_of_openrouter_and_litellm_are_fallbacks_and_no_upstream_sees_them() {
    for (members, first) in [
        (json!({ "model": "acme/fast", "models": ["acme/fast", "beta/spare"] }), "fast-2026-01"),
        (json!({ "models": ["acme/fast", "beta/spare"] }), "fast-2026-01"),
        (json!({ "model": "acme/fast", "fallbacks": ["beta/spare"] }), "fast-2026-01"),
        (
            json!({ "model": "acme/plain", "models": ["acme/fast"], "routing": { "fallback": ["beta/spare"] } }),
            "plain",
        ),
    ] {
        for (path, prompt) in [
            ("/v1/chat/completions", json!({ "messages": [{ "role": "user", "content": "Hello" }] })),
            ("/v1/completions", json!({ "prompt": "Hello" })),
        ] {
            let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
            world.upstream.always(Answer::error(500, "broken", "no"));
            let answer = world.client.post_json(path, &with(prompt, members.clone())).await.ok().json();
            assert_eq!(answer["gateway"]["model_used"], "beta/spare", "{path} {members}: {answer}");
            assert_eq!(answer["gateway"]["fallback_used"], true, "{path} {members}");
            for (upstream, model) in [(&world.upstream, first), (&world.second, "spare")] {
                let sent = upstream.last().json();
                assert_eq!(sent["model"], model, "{path} {members}: {sent}");
                assert!(sent.get("models").is_none() && sent.get("fallbacks").is_none(), "{path}: {sent}");
            }
        }
    }
}

#[tokio::test]
async fn lists_of_fallbacks_hold_names_of_models_and_nothing_else() {
    let world = world().await;
    let eleven: Vec<String> = (0..11).map(|n| format!("acme/{n}")).collect();
    for (members, code, word) in [
        (
            json!({ "fallbacks": [{ "model": "beta/spare" }] }),
            "invalid_type",
            "'fallbacks[0]': expected a string, the name",
        ),
        (json!({ "fallbacks": [{ "acme/fast": ["beta/spare"] }] }), "invalid_type", "'fallbacks[0]'"),
        (json!({ "models": "beta/spare" }), "invalid_type", "'models'"),
        (json!({ "models": eleven }), "array_above_max_length", "'models'"),
        (json!({ "fallbacks": [""] }), "empty_string", "'fallbacks[0]'"),
    ] {
        let answer = world.chat(&chat_with("acme/fast", members)).await;
        assert_invalid(word, &answer, code);
        assert!(answer.message().contains(word), "{}", answer.message());
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn an_unknown_fallback_is_named_with_its_place_and_the_way_to_the_list() {
    let world = world().await;
    for (members, place) in [
        (
            json!({ "routing": { "fallback": ["acme/fast", "beta/spare", "gone/model"] } }),
            "'routing.fallback[2]'",
        ),
        (json!({ "models": ["acme/fast", "gone/model"] }), "'models[1]'"),
        (json!({ "fallbacks": ["gone/model"] }), "'fallbacks[0]'"),
    ] {
        let answer = world.chat(&chat_with("acme/fast", members)).await;
        assert_error(place, &answer, 404, "invalid_request_error", "model_not_found");
        let message = answer.message();
        let told = ["'gone/model'", place, "GET /v1/models"].iter().all(|word| message.contains(word));
        assert!(told, "{place}: {message}");
    }
    assert_eq!(world.upstream.hits(), 0);
}

/// A gateway before a server that lists these models, after the gateway has read the list.
async fn discovered(upstream: &FakeUpstream, list: &Value, more: &str) -> Gateway {
    let list = list.clone();
    upstream.respond_with(move |request| {
        if request.path.ends_with("/models") { Answer::json(200, &list) } else { default_answer(request) }
    });
    let config = format!(
        "[[providers]]\nname = \"local\"\napi = \"openai\"\nbase_url = \"{}\"\ndiscover = true\n\n\
         [[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n{more}",
        upstream.base_url()
    );
    let gateway =
        Launch::new(binary()).file("gateway.toml", config).arg("--listen").arg("127.0.0.1:0").start().await;
    let client = gateway.client().with_key(KEY);
    let start = std::time::Instant::now();
    while client.get("/v1/models").await.ok().json()["total"] == 0 {
        assert!(start.elapsed() < gw_testkit::wait::DEADLINE, "the models are listed");
        tokio::task::yield_now().await;
    }
    gateway
}

#[tokio::test]
async fn a_discovered_model_named_by_a_path_is_offered_by_its_files_name() {
    let upstream = FakeUpstream::start().await;
    let list = json!({ "object": "list", "data": [
        { "id": "/models/x.gguf", "meta": { "n_ctx": 8192, "n_ctx_train": 131_072 } },
        { "id": "served", "max_model_len": 40960 },
        { "id": "words", "type": "embedding" },
    ] });
    let keys = "[[keys]]\nname = \"some\"\nkey = \"sk-some\"\nmodels = [\"local/*\"]\n\
        [[keys]]\nname = \"one\"\nkey = \"sk-one\"\nmodels = [\"local/x.gguf\"]\n";
    let gateway = discovered(&upstream, &list, keys).await;
    let id = "local/x.gguf";
    for key in [KEY, "sk-some", "sk-one"] {
        let client = gateway.client().with_key(key);
        let listed = client.get("/v1/models").await.ok().json();
        let entry = listed["data"].as_array().expect("data").iter().find(|entry| entry["id"] == id);
        assert_eq!(entry.expect("it is listed")["context_length"], 8192, "{key}");
        for path in ["/v1/models/local/x.gguf", "/v1/models/local%2Fx.gguf"] {
            assert_eq!(client.get(path).await.ok().json()["id"], id, "{key} {path}");
        }
        for name in [id, "x.gguf"] {
            let answer = client.post_json("/v1/chat/completions", &chat(name)).await.ok().json();
            assert_eq!(answer["gateway"]["model_used"], id, "{key} {name}");
            assert_eq!(upstream.last().json()["model"], "/models/x.gguf", "{key} {name}");
        }
    }
    let client = gateway.client().with_key(KEY);
    let compared = client.get(&format!("/v1/models/compare?models={id},served")).await.ok().json();
    assert_eq!(compared["models"], json!([id, "local/served"]));
    assert_eq!(compared["comparison"]["local/served"]["context_length"], 40960);
    // What the provider's list calls an embedding model is no model for chats.
    let words = client.get("/v1/models/local/words").await.ok().json();
    assert_eq!(words["category"], json!(["embedding"]));
    let chats = client.get("/v1/models?category=embedding").await.ok().json();
    assert_eq!(chats["data"].as_array().map(Vec::len), Some(1));
    let refused = client.post_json("/v1/chat/completions", &chat("local/words")).await;
    assert_eq!((refused.status, &*refused.code()), (400, "unsupported_model"));
}

#[tokio::test]
async fn a_path_can_be_the_upstreams_name_of_a_configured_model() {
    let model = "[[models]]\nid = \"acme/y\"\nupstream_model = \"/models/y.gguf\"\ncategory = [\"chat\"]\n"
        .to_owned();
    let world = Setup { extra: model, ..Setup::default() }.start().await;
    world.chat_ok(&chat("acme/y")).await;
    assert_eq!(world.upstream.last().json()["model"], "/models/y.gguf");
}

#[tokio::test]
async fn operators_see_what_an_upstream_said_and_clients_see_it_for_a_501() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let said = format!("CUDA out of memory on gpu 3\u{1b}[31m\nkey {UPSTREAM_KEY} {}", "tail ".repeat(2000));
    for (status, is_told, ours) in [(500, false, 502), (503, false, 503), (501, true, 502), (400, true, 400)]
    {
        for body in
            [json!({ "error": { "message": said, "type": "server_error" } }).to_string(), said.clone()]
        {
            let is_json = body.starts_with('{');
            world.upstream.always(Answer::full(status, &[("content-type", "application/json")], &body));
            let answer = world.chat(&chat("acme/fast")).await;
            let text = answer.text();
            assert_eq!(answer.status, ours, "{status}: {text}");
            assert_eq!(text.contains("CUDA out of memory"), is_told && is_json, "{status}: {text}");
            let id = answer.header("x-request-id").expect("an id").to_owned();
            let row = logged(&admin, &id).await;
            let line = world.gateway.log_of(&id).await;
            for reason in [&row["attempts"][0]["reason"], &line["upstream_error"]] {
                let reason = reason.as_str().unwrap_or_else(|| panic!("{status}: {row} {line}"));
                assert!(
                    reason.starts_with("CUDA out of memory on gpu 3 [31m key [redacted] tail"),
                    "{reason}"
                );
                assert!(reason.len() <= 2048, "{}", reason.len());
            }
        }
    }
    let everything = world.gateway.stdout().join("\n") + &world.gateway.stderr().join("\n");
    assert!(!everything.contains(UPSTREAM_KEY) && !everything.contains('\u{1b}'));
    // Only the ledger shows a reason that names the gateway's own account.
    world.upstream.always(Answer::error(401, "invalid_api_key", "This key expired yesterday."));
    let answer = world.chat(&chat("acme/fast")).await;
    let id = answer.header("x-request-id").expect("an id").to_owned();
    assert_eq!(logged(&admin, &id).await["attempts"][0]["reason"], "This key expired yesterday.");
    assert!(world.gateway.log_of(&id).await.get("upstream_error").is_none());
    // A successful request has no reason.
    world.upstream.always(Answer::json(200, &chat_body("m", "fine")));
    let answer = world.chat(&chat("acme/fast")).await.ok();
    let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
    assert!(row["attempts"][0].get("reason").is_none(), "{row}");
}

#[tokio::test]
async fn operators_see_why_a_stream_broke() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let role = sse_data(&json!({ "role": "assistant", "content": "Hel" }), None);
    let error = json!({ "error": { "message": "worker 7 died", "type": "server_error" } });
    world.upstream.always(Answer::sse().data(&role).data(&error).end());
    let mut stream =
        world.client.stream("/v1/chat/completions", &chat_with("acme/fast", json!({ "stream": true }))).await;
    let told = stream.rest().await;
    assert!(!told.iter().any(|event| event.contains("worker 7")), "{told:?}");
    let line = world.gateway.log_with("upstream_stream_error").await;
    assert_eq!(line["upstream_error"], "worker 7 died", "{line}");
    let row = logged(&admin, line["request_id"].as_str().expect("an id")).await;
    assert_eq!(row["attempts"][0]["reason"], "worker 7 died", "{row}");
}

async fn ids(client: &Client, query: &str) -> Vec<String> {
    let list = client.get(&format!("/v1/models{query}")).await.ok().json();
    let data = list["data"].as_array().expect("data");
    assert_eq!(list["total"], data.len(), "{query}");
    data.iter().filter_map(|entry| entry["id"].as_str()).map(str::to_owned).collect()
}

#[tokio::test]
async fn models_that_misbehave_on_purpose_are_listed_when_they_are_asked_for() {
    let world = world().await;
    let is_demo = |id: &String| id.starts_with("demo/");
    let usual: Vec<String> = ids(&world.client, "").await.into_iter().filter(is_demo).collect();
    assert_eq!(
        usual,
        [
            "demo/chat",
            "demo/embed",
            "demo/rerank",
            "demo/images",
            "demo/moderation",
            "demo/speech",
            "demo/realtime",
            "demo/transcribe"
        ]
    );
    let all: Vec<String> = ids(&world.client, "?include=faults").await.into_iter().filter(is_demo).collect();
    assert_eq!(all.len(), 24, "{all:?}");
    assert_eq!(ids(&world.client, "?provider=demo&include=faults").await, all);
    // Every key can see the model and use it by its name.
    assert_eq!(world.client.get("/v1/models/demo/error-500").await.ok().json()["id"], "demo/error-500");
    let answer = world.chat(&chat("demo/error-429")).await;
    assert_error("demo/error-429", &answer, 429, "rate_limit_error", "upstream_rate_limited");
}

#[tokio::test]
async fn aliases_may_hold_a_slash_and_name_several_models() {
    let aliases = "\"team/chat\" = [\"acme/plain\", \"beta/spare\"]";
    let keys = "[[keys]]\nname = \"t\"\nkey = \"sk-team\"\nmodels = [\"team/chat\"]\n".to_owned();
    let world = Setup { aliases, extra: keys, routing: "retries = 0", ..Setup::default() }.start().await;
    world.upstream.always(Answer::error(500, "broken", "no"));
    for key in [KEY, "sk-team"] {
        let client = world.gateway.client().with_key(key);
        let answer = client.post_json("/v1/chat/completions", &chat("team/chat")).await.ok().json();
        assert_eq!(answer["gateway"]["model_used"], "beta/spare", "{answer}");
        assert_eq!(answer["gateway"]["fallback_used"], false, "another target of a name is no fallback");
        let cheapest = chat_with("team/chat", json!({ "routing": { "strategy": "best_quality" } }));
        client.post_json("/v1/chat/completions", &cheapest).await.ok();
    }
    let admin = world.gateway.client().with_key(ADMIN);
    let asked = chat_with("team/chat", json!({ "routing": { "strategy": "cheapest" } }));
    let told = admin.post_json("/admin/v1/routing/explain", &asked).await.ok().json();
    let named: Vec<&str> = told["candidates"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["model"].as_str())
        .collect();
    assert_eq!(named.len(), 2, "{told}");
    assert_eq!(world.client.get("/v1/models/team/chat").await.ok().json()["id"], "acme/plain");
    let compared = world.client.get("/v1/models/compare?models=team/chat,beta/spare").await.ok().json();
    assert_eq!(compared["models"], json!(["acme/plain", "beta/spare"]));
}

#[tokio::test]
async fn aliases_can_be_written_as_tables_and_must_not_hide_a_model() {
    let config = |name: &str| {
        format!(
            "[[providers]]\nname = \"demo\"\napi = \"demo\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
             [[aliases]]\nname = \"{name}\"\ntargets = [\"demo/chat\"]\n"
        )
    };
    let gateway =
        crate::harness::serve(&format!("[server]\nlisten = \"127.0.0.1:0\"\n{}", config("vendor/best")))
            .await;
    let client = gateway.client().with_key(KEY);
    let answer = client.post_json("/v1/chat/completions", &chat("vendor/best")).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "demo/chat");
    let output = Launch::new(binary()).file("gateway.toml", config("demo/embed")).arg("check").run();
    let told =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("alias 'demo/embed' hides the model of the same id"), "{told}");
}

#[tokio::test]
async fn a_key_may_be_limited_by_id_bare_name_and_alias() {
    let keys = ["acme/fast", "fast", "smart", "acme/f*", "found-one"]
        .iter()
        .enumerate()
        .map(|(n, name)| format!("[[keys]]\nname = \"k{n}\"\nkey = \"sk-{n}\"\nmodels = [\"{name}\"]\n"))
        .collect::<String>();
    let late =
        "[[providers]]\nname = \"late\"\napi = \"openai\"\nbase_url = \"<acme_url>\"\ndiscover = true\n";
    let world = Setup { extra: format!("{keys}{late}"), ..Setup::default() }.start().await;
    for (key, may, may_not) in [
        ("sk-0", &["acme/fast", "fast", "smart"][..], &["beta/fast", "acme/plain"][..]),
        ("sk-1", &["acme/fast", "beta/fast", "fast", "smart"], &["acme/plain", "beta/spare"]),
        ("sk-2", &["acme/fast", "smart", "fast"], &["beta/fast", "acme/plain"]),
        ("sk-3", &["acme/fast", "smart"], &["beta/fast", "acme/plain"]),
    ] {
        let client = world.gateway.client().with_key(key);
        for name in may {
            let answer = client.post_json("/v1/chat/completions", &chat(name)).await;
            assert_eq!(answer.status, 200, "{key} {name}: {}", answer.text());
        }
        for name in may_not {
            let answer = client.post_json("/v1/chat/completions", &chat(name)).await;
            assert_error(&format!("{key} {name}"), &answer, 403, "permission_error", "model_not_allowed");
        }
    }
    assert_eq!(ids(&world.gateway.client().with_key("sk-2"), "").await, ["acme/fast", "smart"]);
    let of_fast = ids(&world.gateway.client().with_key("sk-1"), "").await;
    assert_eq!(of_fast, ["acme/fast", "beta/fast", "smart"]);
    // The model is known only from its provider's list.
    let client = world.gateway.client().with_key("sk-4");
    let start = std::time::Instant::now();
    while ids(&client, "").await != ["late/found-one"] {
        assert!(start.elapsed() < gw_testkit::wait::DEADLINE, "the model is listed");
        tokio::task::yield_now().await;
    }
    client.post_json("/v1/chat/completions", &chat("found-one")).await.ok();
    let line =
        eventually("its log line", || world.gateway.logs().into_iter().find(|line| line["key"] == "k4"))
            .await;
    assert_eq!(line["code"], "ok");
}
