//! Rules of budgets: they hold on every surface, name themselves in a refusal, and show their state.

mod aliases;
mod bursts;
mod checks;
mod replicas;
mod restarts;
mod several;
mod shadow;
mod targets;

use gw_testkit::{Client, FakeUpstream, Gateway, Launch, Response};
use serde_json::{Value, json};

use crate::harness::{ADMIN, KEY, Setup, World, assert_error, binary, chat, with};

const CHAT: &str = "/v1/chat/completions";

/// A gateway with these rules and a key that is believed about end users and tags.
async fn world(rules: &str) -> World {
    let keys = "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n\
        [[keys]]\nname = \"other\"\nkey = \"sk-other\"\n";
    Setup { extra: format!("{keys}{rules}"), ..Setup::default() }.start().await
}

fn trusted(world: &World) -> Client {
    world.gateway.client().with_key("sk-trusted")
}

/// 10 prompt and 5 completion tokens of `acme/plain` cost 0.00002 USD, and no request can cost more.
fn ask() -> Value {
    json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hello!" }] })
}

fn message() -> Value {
    json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hello!" }] })
}

fn response() -> Value {
    json!({ "model": "acme/plain", "max_output_tokens": 16, "input": "Hello!" })
}

fn assert_refused(what: &str, answer: &Response, code: &str, rule: &str) {
    let kind = if code == "insufficient_quota" { code } else { "rate_limit_error" };
    assert_error(what, answer, 429, kind, code);
    assert!(answer.message().contains(&format!("rule '{rule}'")), "{what}: {}", answer.message());
    assert_eq!(answer.header("x-gateway-rule"), Some(rule), "{what}");
}

/// A call costs 0.00002 USD and a hit nothing.
#[tokio::test]
async fn an_answer_of_the_cache_tells_what_the_budget_has_left() {
    let world = world("[cache]\n[[budgets]]\nname = \"shop\"\nmatch = { key = \"trusted\" }\nbudget_usd = 0.00005\nperiod = \"day\"\n").await;
    let client = trusted(&world);
    let mut asked = ask();
    asked["cache"] = json!({ "enabled": true });
    for (cache, left) in [("MISS", "0.00003"), ("HIT", "0.00003"), ("HIT", "0.00003")] {
        let answer = client.post_json(CHAT, &asked).await.ok();
        let found = ["x-gateway-cache", "x-gateway-budget-left-usd"].map(|name| answer.header(name));
        assert_eq!(found, [Some(cache), Some(left)]);
    }
}

/// The first request with a tag may be a hit, which learns the spending of the tag's counter.
#[tokio::test]
async fn an_answer_of_the_cache_tells_what_a_counter_has_left_that_no_call_has_used() {
    let world = world("[cache]\n[[budgets]]\nname = \"wide\"\nmatch = { key = \"trusted\" }\nbudget_usd = 5\n\
        [[budgets]]\nname = \"tags\"\nmatch = { tag = \"project:*\" }\nsplit_by = \"tag:project\"\nbudget_usd = 0.00005\n").await;
    let mut asked = ask();
    asked["cache"] = json!({ "enabled": true });
    for (tags, cache, left) in [
        ("none", "MISS", "4.99998"),
        ("project:one", "HIT", "0.00005"),
        ("project:one", "HIT", "0.00005"),
        ("none", "HIT", "4.99998"),
    ] {
        let client = trusted(&world).with_header("x-gateway-tags", tags);
        let answer = client.post_json(CHAT, &asked).await.ok();
        let found = ["x-gateway-cache", "x-gateway-budget-left-usd"].map(|name| answer.header(name));
        assert_eq!(found, [Some(cache), Some(left)], "{tags}");
    }
}

#[tokio::test]
async fn a_used_up_budget_names_the_rule_its_state_and_its_new_beginning() {
    let world = world("[[budgets]]\nname = \"shop\"\nmatch = { key = \"trusted\" }\nbudget_usd = 0.00005\nperiod = \"day\"\n").await;
    let client = trusted(&world);
    let first = client.post_json(CHAT, &ask()).await.ok();
    assert_eq!(first.header("x-gateway-budget-left-usd"), Some("0.00003"));
    client.post_json(CHAT, &ask()).await.ok();
    let refused = client.post_json(CHAT, &ask()).await;
    assert_refused("spent", &refused, "insufficient_quota", "shop");
    let resets_at = refused.header("x-gateway-rule-resets-at").expect("a time").to_owned();
    let message = refused.message();
    assert!(message.contains("0.00004 USD") && message.contains("0.00005 USD"), "{message}");
    assert!(resets_at.ends_with("T00:00:00Z") && message.contains(&resets_at), "{message}");
    assert_eq!(world.upstream.hits(), 2);
    // The rule has no other key.
    world.gateway.client().with_key("sk-other").post_json(CHAT, &ask()).await.ok();
}

#[tokio::test]
async fn rates_refuse_with_a_wait_and_use_up_no_rule() {
    let rules = "[[budgets]]\nname = \"wide\"\nrpm = 3\n[[budgets]]\nname = \"narrow\"\nmatch = { tag = \"team:*\" }\nrpm = 1\n";
    let world = world(rules).await;
    let tagged = trusted(&world).with_header("x-gateway-tags", "team:red");
    tagged.post_json(CHAT, &ask()).await.ok();
    for _ in 0..3 {
        let refused = tagged.post_json(CHAT, &ask()).await;
        assert_refused("narrow", &refused, "rate_limit_exceeded", "narrow");
        assert!(
            refused.header("retry-after").is_some() && refused.header("x-gateway-rule-resets-at").is_some()
        );
    }
    // The refusals counted in no rule: two of three requests are left.
    for _ in 0..2 {
        trusted(&world).post_json(CHAT, &ask()).await.ok();
    }
    let refused = tagged.post_json(CHAT, &ask()).await;
    assert_refused("the first of the file", &refused, "rate_limit_exceeded", "wide");
    assert_eq!(world.upstream.hits(), 3);
}

#[tokio::test]
async fn tokens_and_names_that_are_not_believed() {
    let rules = "[[budgets]]\nname = \"tokens\"\nmatch = { end_user = [\"ann\", \"ben\"] }\ntpm = 20\n";
    let world = world(rules).await;
    let ann = trusted(&world).with_header("x-gateway-user", "ann");
    ann.post_json(CHAT, &ask()).await.ok();
    let refused = trusted(&world).post_json(CHAT, &with(ask(), json!({"user": "ben"}))).await;
    assert_refused("one counter for both", &refused, "rate_limit_exceeded", "tokens");
    trusted(&world).post_json(CHAT, &ask()).await.ok();
    let other = world.gateway.client().with_key("sk-other").with_header("x-gateway-user", "ann");
    other.post_json(CHAT, &ask()).await.ok();
}

#[tokio::test]
async fn every_surface_counts_in_one_rule_and_a_burst_never_crosses_it() {
    // Five requests of 0.00002 USD.
    let rules = "[[budgets]]\nname = \"all\"\nbudget_usd = 0.0001\n";
    let world = world(rules).await;
    let client = trusted(&world);
    let requests = (0..200).map(|n| {
        let client = client.clone();
        async move {
            match n % 3 {
                0 => client.post_json(CHAT, &ask()).await,
                1 => client.post_json("/v1/messages", &message()).await,
                _ => client.post_json("/v1/responses", &response()).await,
            }
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    requests.for_each(|request| {
        tasks.spawn(request);
    });
    let answers = tasks.join_all().await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!(served + refused, 200);
    assert!((1..=5).contains(&served), "{served}");
    let admin = world.gateway.client().with_key(ADMIN);
    let rule = &admin.get("/admin/v1/budgets").await.ok().json()["data"][0];
    let counter = &rule["counters"][0];
    let spent = counter["spent_usd"].as_f64().expect("a sum");
    assert!(spent <= 0.0001 && counter["reserved_usd"] == json!(0), "{counter}");
}

#[tokio::test]
async fn all_other_surfaces_are_refused_too() {
    let world = world("[[budgets]]\nname = \"none\"\nbudget_usd = 0\n").await;
    let client = trusted(&world);
    let requests = [
        ("/v1/completions", json!({"model": "acme/plain", "prompt": "Hello", "max_tokens": 20})),
        ("/v1/chat/completions", with(chat("acme/plain"), json!({"stream": true, "max_tokens": 20}))),
        ("/v1/embeddings", json!({"model": "acme/embed", "input": "Hello"})),
        ("/v1/rerank", json!({"model": "acme/rerank", "query": "q", "documents": ["a", "b"]})),
        ("/v1/score", json!({"model": "acme/rerank", "text_1": "q", "text_2": ["a", "b"]})),
        ("/v1/moderations", json!({"model": "acme/moderation", "input": "Hello"})),
        ("/v1/responses/compact", response()),
    ];
    for (path, request) in requests {
        let refused = client.post_json(path, &request).await;
        assert_eq!((refused.status, refused.header("x-gateway-rule")), (429, Some("none")), "{path}");
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_split_rule_has_a_counter_for_each_value_and_shows_its_state() {
    let rules = "[[budgets]]\nname = \"users\"\nsplit_by = \"end_user\"\nbudget_usd = 0.00003\nperiod = \"total\"\n\
        [[budgets]]\nname = \"roomy\"\nin_flight = 5\n";
    let world = world(rules).await;
    let of = |user: &str| trusted(&world).with_header("x-gateway-user", user);
    of("ann").post_json(CHAT, &ask()).await.ok();
    let refused = of("ann").post_json(CHAT, &ask()).await;
    assert_refused("ann", &refused, "insufficient_quota", "users");
    assert_eq!(refused.header("x-gateway-rule-resets-at"), None, "a total has no new beginning");
    of("ben").post_json(CHAT, &ask()).await.ok();
    let mine = of("ann").get("/v1/me").await.ok().json();
    let state = json!({
        "name": "users", "mode": "enforce", "period": "total", "split": {"end_user": "ann"},
        "budget_usd": 0.00003, "spent_usd": 0.00002, "reserved_usd": 0, "left_usd": 0.00001,
        "rpm": null, "requests_left": null, "tpm": null, "tokens_left": null,
        "in_flight": null, "in_flight_left": null, "resets_at": null, "fits": true, "binds": true,
    });
    assert_eq!(mine["rules"][0], state);
    assert_eq!(mine["rules"][1]["in_flight_left"], 5);
    assert_eq!(mine["rules"][1]["binds"], false);
    let dry = of("ann").with_header("x-gateway-dry-run", "true").post_json(CHAT, &ask()).await.ok().json();
    assert_eq!((&dry["would"], &dry["error"]["message"]), (&json!("refuse"), &json!(refused.message())));
    assert_eq!((&dry["rules"][0]["fits"], &dry["rules"][0]["binds"]), (&json!(false), &json!(true)));
    let admin = world.gateway.client().with_key(ADMIN);
    let list = admin.get("/admin/v1/budgets").await.ok().json();
    assert_eq!((&list["object"], &list["data"][0]["name"]), (&json!("list"), &json!("users")));
    let counters = list["data"][0]["counters"].as_array().expect("a list");
    let users: Vec<_> = counters.iter().map(|counter| counter["split"]["end_user"].as_str()).collect();
    assert_eq!(users, [Some("ann"), Some("ben")]);
    assert_eq!(counters[0]["would_refuse"], 0);
    let binding = [&counters[0], &counters[1], &list["data"][1]["counters"][0]].map(|state| &state["binds"]);
    assert_eq!(binding, [&json!(true), &json!(false), &json!(false)], "one counter of the whole list binds");
}

#[tokio::test]
async fn a_request_with_two_tags_of_a_name_counts_for_each_value() {
    let rules = "[[budgets]]\nname = \"projects\"\nsplit_by = [\"tag:project\", \"tag:stage\"]\nbudget_usd = 0.00003\n";
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    let keys = "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n";
    let setup = Setup { extra: format!("{keys}{rules}"), ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let start = || {
        let launch = Launch::new(binary()).file("gateway.toml", &config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start()
    };
    let gateway = start().await;
    let of = |gateway: &Gateway, tags: &str| {
        gateway.client().with_key("sk-trusted").with_header("x-gateway-tags", tags)
    };
    let both = "project:one,project:two,stage:test";
    of(&gateway, both).post_json(CHAT, &ask()).await.ok();
    let check = async |gateway: &Gateway, what: &str| {
        for tags in
            ["project:one,stage:test", "stage:test,project:two", "project:three,stage:test,project:two"]
        {
            let refused = of(gateway, tags).post_json(CHAT, &ask()).await;
            assert_refused(what, &refused, "insufficient_quota", "projects");
        }
        let mine = of(gateway, both).get("/v1/me").await.ok().json();
        let splits: Vec<_> = mine["rules"]
            .as_array()
            .expect("rules")
            .iter()
            .map(|rule| (rule["split"]["tag:project"].clone(), rule["spent_usd"].clone()))
            .collect();
        assert_eq!(splits, [(json!("one"), json!(0.00002)), (json!("two"), json!(0.00002))], "{what}");
    };
    check(&gateway, "at once").await;
    let _ = gateway.stop();
    let gateway = start().await;
    check(&gateway, "after a restart").await;
    // Another value of the other name has a counter of its own.
    of(&gateway, "project:one,stage:live").post_json(CHAT, &ask()).await.ok();
    of(&gateway, "project:four").post_json(CHAT, &ask()).await.ok();
}

#[tokio::test]
async fn explain_believes_the_headers_that_the_key_in_question_would_be_believed() {
    let rules = "[[budgets]]\nname = \"users\"\nsplit_by = [\"end_user\", \"tag:project\"]\nbudget_usd = 1\n";
    let world = world(rules).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let admin = admin.with_header("x-gateway-user", "ann").with_header("x-gateway-tags", "project:shop");
    let keys = world.gateway.client().with_key(ADMIN).get("/admin/v1/keys").await.ok().json();
    let id = |name: &str| {
        let all = keys["data"].as_array().expect("keys");
        let key = all.iter().find(|key| key["name"] == name).expect("the key");
        key["id"].as_str().expect("an id").to_owned()
    };
    let nobody = json!({"end_user": null, "tag:project": null});
    let ann = json!({"end_user": "ann", "tag:project": "shop"});
    for (query, split) in [
        (String::new(), &nobody),
        (format!("?key={}", id("other")), &nobody),
        (format!("?key={}", id("trusted")), &ann),
    ] {
        let explained =
            admin.post_json(&format!("/admin/v1/routing/explain{query}"), &ask()).await.ok().json();
        assert_eq!(&explained["rules"][0]["split"], split, "{query}: {explained}");
    }
}

#[tokio::test]
async fn a_restart_learns_what_a_rule_has_spent_from_the_ledger() {
    let rules = "[[budgets]]\nname = \"users\"\nmatch = { key = \"trusted\", tag = \"app:*\" }\n\
        split_by = [\"end_user\"]\nbudget_usd = 0.00005\n";
    let keys = "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n";
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    let setup = Setup { extra: format!("{keys}{rules}"), ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let start = || {
        let launch = Launch::new(binary()).file("gateway.toml", &config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start()
    };
    let gateway = start().await;
    let of = |gateway: &Gateway, user: &str| {
        let client = gateway.client().with_key("sk-trusted");
        client.with_header("x-gateway-user", user).with_header("x-gateway-tags", "app:shop")
    };
    for _ in 0..2 {
        of(&gateway, "ann").post_json(CHAT, &ask()).await.ok();
    }
    of(&gateway, "ben").post_json(CHAT, &ask()).await.ok();
    let _ = gateway.stop();
    let gateway = start().await;
    let refused = of(&gateway, "ann").post_json(CHAT, &ask()).await;
    assert_refused("after a restart", &refused, "insufficient_quota", "users");
    assert!(refused.message().contains("0.00004 USD"), "{}", refused.message());
    of(&gateway, "ben").post_json(CHAT, &ask()).await.ok();
}

#[tokio::test]
async fn an_unknown_price_is_refused_by_a_rule_and_by_a_key_without_a_budget() {
    let rules = "[[keys]]\nname = \"strict\"\nkey = \"sk-strict\"\nunpriced = \"refuse\"\n\
        [[budgets]]\nname = \"exact\"\nmatch = { key = \"trusted\" }\nrpm = 100\nunpriced = \"refuse\"\n";
    let world = world(rules).await;
    for key in ["sk-strict", "sk-trusted"] {
        let refused = world.gateway.client().with_key(key).post_json(CHAT, &chat("acme/unpriced")).await;
        assert_error(key, &refused, 429, "insufficient_quota", "insufficient_quota");
        assert!(refused.message().contains("acme/unpriced"), "{}", refused.message());
    }
    let refused = trusted(&world).post_json(CHAT, &chat("acme/unpriced")).await;
    assert_refused("a rule", &refused, "insufficient_quota", "exact");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_rule_of_targets_leaves_out_those_of_an_unknown_price() {
    let rules = "[[budgets]]\nname = \"exact\"\nmatch = { model = \"acme/*\" }\nsplit_by = \"model\"\nbudget_usd = 1\nunpriced = \"refuse\"\n";
    let world = world(rules).await;
    let client = trusted(&world);
    let refused = client.post_json(CHAT, &chat("acme/unpriced")).await;
    assert_refused("alone", &refused, "insufficient_quota", "exact");
    assert!(refused.header("x-gateway-rule-resets-at").is_some());
    let asking = world.gateway.client().with_key("sk-trusted").with_header("x-gateway-dry-run", "true");
    let report = asking.post_json(CHAT, &chat("acme/unpriced")).await.ok().json();
    assert_eq!(
        (&report["would"], &report["error"]["code"]),
        (&json!("refuse"), &json!("insufficient_quota"))
    );
    assert_eq!(world.upstream.hits(), 0);
    let body = with(chat("acme/unpriced"), json!({"routing": {"fallback": ["acme/fast"]}}));
    let served = client.post_json(CHAT, &body).await.ok().json();
    assert_eq!(served["gateway"]["model_used"], "acme/fast");
    assert_eq!((served["gateway"]["attempts"].as_array().map(Vec::len), world.upstream.hits()), (Some(1), 1));
}

#[tokio::test]
async fn a_rolling_period_of_minutes_is_learnt_from_the_ledger_to_the_step() {
    let rules = "[[budgets]]\nname = \"quick\"\nmatch = { model = \"acme/*\" }\nsplit_by = \"model\"\nbudget_usd = 0.00005\nperiod = \"15m\"\n";
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    let setup = Setup { extra: rules.to_owned(), ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let start = || {
        let launch = Launch::new(binary()).file("gateway.toml", &config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start()
    };
    let gateway = start().await;
    for _ in 0..2 {
        gateway.client().with_key(KEY).post_json(CHAT, &ask()).await.ok();
    }
    let fast = with(ask(), json!({"model": "acme/fast"}));
    gateway.client().with_key(KEY).post_json(CHAT, &fast).await.ok();
    let _ = gateway.stop();
    let gateway = start().await;
    let refused = gateway.client().with_key(KEY).post_json(CHAT, &ask()).await;
    assert_refused("after a restart", &refused, "insufficient_quota", "quick");
    assert!(refused.message().contains("0.00004 USD"), "{}", refused.message());
    let step = refused.header("x-gateway-rule-resets-at").expect("the end of the step");
    let words =
        format!("Its period is the last 15m: what was spent longest ago may leave it from {step} on.");
    assert!(refused.message().contains(&words), "{}", refused.message());
    let admin = gateway.client().with_key(ADMIN);
    let list = admin.get("/admin/v1/budgets").await.ok().json();
    assert_eq!(list["data"][0]["period"], "15m");
}
