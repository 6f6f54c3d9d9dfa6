//! A reservation assumes the work that the upstream may do, whatever the client writes about it, and no more.

use gw_testkit::{Answer, Client, FakeUpstream};
use serde_json::{Value, json};

use super::{ask_responses, response};
use crate::harness::{Setup, World, chat_with, with};

/// A model whose hosted tools have prices.
const SEARCHING: &str = "acme/searching";
/// A model without prices of tools.
const PLAIN: &str = "acme/plain-prices";

const PATH: &str = "/v1/chat/completions";

/// The members and tools that `acme` is sent in most tests.
const OPEN: &str = "responses = true\nallow_members = [\"tools\", \"search_parameters\", \"compound_custom\", \
                    \"data_sources\", \"extra_body\", \"search_mode\"]";

/// Models whose tokens cost 1 and 2 USD per million. `poor` may spend 0.05 USD, `richer` 0.3 USD, and `paced` and `small`
/// use 500 and 300 tokens in a minute.
async fn priced(routing: &'static str, acme: &str) -> (World, FakeUpstream) {
    let claude = FakeUpstream::start().await;
    let pricing = |more: &str| {
        format!(
            "context_length = 100000\nmax_output_tokens = 100\nquality_scores = {{ overall = 70.0 }}\n\
             pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0{more} }}"
        )
    };
    let tools = pricing(", tools = { web_search_per_call = 0.01, web_fetch_per_call = 0.0 }");
    let plain = pricing("");
    let mut extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"claude/claude-opus-5-5\"\n{plain}\n[[models]]\nid = \"{SEARCHING}\"\n{tools}\n\
         [[models]]\nid = \"{PLAIN}\"\n{plain}\n[[models]]\nid = \"acme/few-tools\"\nmax_tools = 3\n{tools}\n",
        claude.addr
    );
    for (name, limit) in [
        ("poor", "budget_usd = 0.05"),
        ("richer", "budget_usd = 0.3"),
        ("paced", "tpm = 500"),
        ("small", "tpm = 300"),
    ] {
        extra.push_str(&format!("[[keys]]\nname = \"{name}\"\nkey = \"sk-{name}\"\n{limit}\n"));
    }
    (Setup { extra, acme: acme.to_owned(), routing, ..Setup::default() }.start().await, claude)
}

fn chat_answer(prompt_tokens: u64) -> Answer {
    let mut answer = gw_testkit::upstream::chat_body("searching", "Hi");
    answer["usage"] =
        json!({"prompt_tokens": prompt_tokens, "completion_tokens": 50, "total_tokens": prompt_tokens + 50});
    Answer::json(200, &answer)
}

fn asked(model: &str, more: Value) -> Value {
    with(chat_with(model, json!({"max_tokens": 50})), more)
}

/// The status and the code of the answer to a chat.
async fn outcome(client: &Client, body: &Value) -> (u16, String) {
    let answer = client.post_json(PATH, body).await;
    let code = if answer.status == 200 { String::new() } else { answer.code() };
    (answer.status, code)
}

fn no_quota() -> (u16, String) {
    (429, "insufficient_quota".to_owned())
}

fn served() -> (u16, String) {
    (200, String::new())
}

#[tokio::test]
async fn a_chats_own_bounds_of_hosted_tools_are_not_believed() {
    let (world, _) = priced("", OPEN).await;
    world.upstream.always(chat_answer(400_000));
    let poor = world.gateway.client().with_key("sk-poor");
    for tool in [
        json!({"type": "web_search", "max_uses": 0}),
        json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 0}),
        json!({"type": "web_fetch", "max_uses": 1, "max_content_tokens": 100}),
        json!({"type": "next_month", "max_uses": 0}),
    ] {
        assert_eq!(outcome(&poor, &asked(SEARCHING, json!({"tools": [tool]}))).await, no_quota(), "{tool}");
    }
    let body = asked(SEARCHING, json!({"tools": [{"type": "web_search", "max_uses": 0}]}));
    let all = futures_util::future::join_all((0..20).map(|_| outcome(&poor, &body))).await;
    assert!(all.iter().all(|outcome| *outcome == no_quota()), "{all:?}");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn each_answer_of_a_call_has_its_own_hosted_work() {
    let (world, _) = priced("", OPEN).await;
    world.upstream.always(chat_answer(10));
    let richer = world.gateway.client().with_key("sk-richer");
    // Ten searches are 0.1 USD, and their results 0.08 USD. The key has 0.3 USD.
    let search = json!({"tools": [{"type": "web_search"}]});
    // A member without a price of its own: 0.08 USD for each answer.
    let member = json!({"search_parameters": {"mode": "on"}});
    for (more, fits, exceeds) in [(search, 1, 2), (member, 3, 4)] {
        for (n, expected) in [(fits, served()), (exceeds, no_quota())] {
            let body = asked(SEARCHING, with(more.clone(), json!({"n": n})));
            assert_eq!(outcome(&richer, &body).await, expected, "{n}: {more}");
        }
    }
}

#[tokio::test]
async fn only_a_request_that_may_be_hedged_reserves_two_prompts() {
    // 900 bytes are 300 tokens, so the key `paced` has room for one prompt and its answer, but not for two prompts.
    let long = json!({"messages": [{"role": "user", "content": "x".repeat(900)}], "max_tokens": 20});
    let to = |fallback: &str, more: Value| {
        let routed = json!({"routing": {"fallback": [fallback]}});
        with(with(with(chat_with(SEARCHING, json!({})), long.clone()), routed), more)
    };
    let streamed = to(PLAIN, json!({"stream": true}));
    let upgraded = json!({"routing": {"allow_upgrade": true}, "stream": true});
    let upgraded = with(with(chat_with("acme/plain", json!({})), long.clone()), upgraded);
    let hedge = "hedge = { after = 60000 }";
    let never = "hedge = { after = 60000, max_extra_cost_percent = 0 }";
    let once = "max_attempts = 1\nhedge = { after = 60000 }";
    for (case, routing, body, status) in [
        ("may be hedged", hedge, streamed.clone(), 429),
        ("a complete answer", hedge, to(PLAIN, json!({})), 200),
        ("no money for hedges", never, streamed.clone(), 200),
        ("one attempt", once, streamed, 200),
        ("an upgrade", hedge, upgraded, 200),
    ] {
        let (world, _) = priced(routing, OPEN).await;
        if body["stream"] == true {
            world.upstream.always(Answer::sse().all(&gw_testkit::upstream::chat_transcript(&["Hi"])).done());
        } else {
            world.upstream.always(chat_answer(10));
        }
        let paced = world.gateway.client().with_key("sk-paced");
        let answer = paced.post_json(PATH, &body).await;
        assert_eq!(answer.status, status, "{case}: {}", answer.text());
    }
    // The choices of a chat with Claude are several calls, which are not hedged: two prompts, and no third or fourth.
    let (world, _) = priced(hedge, OPEN).await;
    let explained = |more: Value| {
        let body = with(
            with(chat_with("claude/claude-opus-5-5", json!({"n": 2, "stream": true})), long.clone()),
            more,
        );
        let client = world.gateway.client().with_key(crate::harness::ADMIN);
        async move { client.post_json("/admin/v1/routing/explain", &body).await.ok().json() }
    };
    let alone = explained(json!({})).await;
    let beside = explained(json!({"routing": {"fallback": [PLAIN]}})).await;
    assert_eq!(alone["worst_case"], beside["worst_case"], "{alone} {beside}");
}

#[tokio::test]
async fn tools_that_the_client_runs_are_no_hosted_work() {
    let (world, _) = priced("", "").await;
    world.upstream.always(chat_answer(10));
    let poor = world.gateway.client().with_key("sk-poor");
    let function = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    let namespace =
        |tools: Value| json!({"type": "namespace", "name": "n", "description": "d", "tools": tools});
    let own = [
        namespace(json!([function])),
        namespace(json!([{"type": "function", "function": {"name": "f"}}, {"type": "custom", "name": "c"}])),
        json!({"type": "local_shell"}),
        json!({"type": "shell", "environment": {"type": "local"}}),
        json!({"type": "apply_patch"}),
    ];
    for tool in &own {
        assert_eq!(outcome(&poor, &asked(PLAIN, json!({"tools": [tool]}))).await, served(), "{tool}");
    }
    world.upstream.always(chat_answer(20_000_000));
    for tool in &own {
        let answer = world.chat_ok(&asked(PLAIN, json!({"tools": [tool]}))).await;
        assert_eq!(answer["gateway"]["warnings"], json!(["usage_not_believed"]), "{tool}");
    }
    // The hosted tools of a namespace are as those outside.
    let calls = world.upstream.hits();
    for tool in [
        json!({"type": "web_search"}),
        namespace(json!([function, {"type": "web_search"}])),
        namespace(json!([namespace(json!([{"type": "web_search"}]))])),
        json!({"type": "namespace", "name": "n", "Tools": [{"Type": "web_search"}]}),
    ] {
        let refused = (400, "unsupported_value".to_owned());
        assert_eq!(outcome(&world.client, &asked(PLAIN, json!({"tools": [tool]}))).await, refused, "{tool}");
    }
    assert_eq!(world.upstream.hits(), calls);
    // A shell in the provider's container, and a type of a later release in a namespace.
    for tool in [json!({"type": "shell"}), namespace(json!([{"type": "next_month"}]))] {
        assert_eq!(outcome(&poor, &asked(PLAIN, json!({"tools": [tool]}))).await, no_quota(), "{tool}");
    }
}

#[tokio::test]
async fn opened_members_that_run_tools_are_reserved_and_believed() {
    let (world, _) = priced("", OPEN).await;
    let poor = world.gateway.client().with_key("sk-poor");
    world.upstream.always(chat_answer(400_000));
    for more in [
        json!({"compound_custom": {"tools": {"enabled_tools": ["web_search"]}}}),
        json!({"data_sources": [{"type": "azure_search", "parameters": {}}]}),
        json!({"extra_body": {"search_parameters": {"mode": "on"}}}),
    ] {
        let body = asked(PLAIN, more.clone());
        assert_eq!(outcome(&poor, &body).await, no_quota(), "{more}");
        let answer = world.chat_ok(&body).await;
        // Their price is not known, and the row has the tokens' part of the cost.
        assert_eq!(answer["usage"]["prompt_tokens"], 400_000, "{more}: {answer}");
        assert_eq!(answer["gateway"]["warnings"], json!(["price_unknown"]), "{more}");
    }
    // A filter of results at a model that always searches.
    world.upstream.always(chat_answer(10));
    assert_eq!(outcome(&poor, &asked(PLAIN, json!({"search_mode": "academic"}))).await, served());
}

#[tokio::test]
async fn a_tool_that_is_left_out_is_not_reserved() {
    let (world, _) = priced("", "responses = \"auto\"").await;
    world.upstream.always(chat_answer(10));
    let poor = world.gateway.client().with_key("sk-poor");
    let body = with(response(PLAIN), json!({"tools": [{"type": "web_search"}], "max_output_tokens": 50}));
    let answer = ask_responses(&poor, &body).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["tool_dropped:web_search"]), "{answer}");
    assert_eq!(world.upstream.last().json()["tools"], Value::Null);
    // The usage of that chat is one reading.
    world.upstream.always(chat_answer(20_000_000));
    let answer = ask_responses(&world.client, &body).await.ok().json();
    let warnings = json!(["tool_dropped:web_search", "usage_not_believed"]);
    assert_eq!(answer["gateway"]["warnings"], warnings, "{answer}");
}

#[tokio::test]
async fn hosted_tools_that_are_forwarded_count_for_the_limit_of_tools() {
    let (world, _) = priced("", OPEN).await;
    let usage = json!({"input_tokens": 10, "output_tokens": 50, "total_tokens": 60});
    world.upstream.always(Answer::json(
        200,
        &json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "few-tools",
            "error": null, "incomplete_details": null, "output": [], "usage": usage}),
    ));
    let function = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let search = json!({"type": "web_search"});
    let space = |tools: Value| json!({"type": "namespace", "name": "n", "description": "d", "tools": tools});
    let within = json!([function("f"), function("g"), search]);
    ask_responses(&world.client, &with(response("acme/few-tools"), json!({"tools": within}))).await.ok();
    for tools in [
        json!([function("f"), function("g"), function("h"), search]),
        json!([search, {"type": "web_search_preview"}, {"type": "file_search", "vector_store_ids": []}, function("f")]),
        json!([space(json!([function("f"), function("g"), search])), search]),
    ] {
        let refused =
            ask_responses(&world.client, &with(response("acme/few-tools"), json!({"tools": tools}))).await;
        assert_eq!((refused.status, &*refused.code()), (400, "array_above_max_length"), "{}", refused.text());
        assert!(refused.message().contains("at most 3 tools"), "{}", refused.text());
    }
    assert_eq!(world.upstream.hits(), 1);
}

#[tokio::test]
async fn an_input_of_token_ids_has_as_many_tokens() {
    let (world, _) = priced("", "token_arrays = true").await;
    let small = world.gateway.client().with_key("sk-small");
    let ask = |count: usize| json!({"model": "acme/embed", "input": vec![7; count]});
    let refused = small.post_json("/v1/embeddings", &ask(320)).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    small.post_json("/v1/embeddings", &ask(220)).await.ok();
}
