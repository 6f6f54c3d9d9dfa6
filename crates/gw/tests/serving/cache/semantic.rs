//! Semantic cache: similarity, its report to the client, and its limits.

use gw_testkit::upstream::Recorded;
use gw_testkit::wait::eventually_true;
use gw_testkit::{Answer, Client, Response};
use serde_json::{Value, json};

use crate::harness::answers::cache_result;
use crate::harness::management;
use crate::harness::{ADMIN, LIMITED, Setup, World, chat_with, logged, with};

const PATH: &str = "/v1/chat/completions";

/// `beta` computes vectors: a text's vector is the angle that its last word names, in degrees (`one`, `five`, …).
fn vectors(request: &Recorded) -> Answer {
    let text = request.json()["input"][0]
        .as_str()
        .or(request.json()["input"].as_str())
        .expect("is there")
        .to_owned();
    let degrees: f64 = match text.rsplit(' ').next().expect("is there") {
        "zero" => 0.0,
        "ten" => 10.0,
        "twenty" => 20.0,
        "away" => 80.0,
        other => panic!("no angle is known for {other}"),
    };
    let radians = degrees.to_radians();
    Answer::json(
        200,
        &json!({ "object": "list", "model": "vectors", "usage": { "prompt_tokens": 1000, "total_tokens": 1000 },
            "data": [{ "object": "embedding", "index": 0, "embedding": [3.0 * radians.cos(), 3.0 * radians.sin()] }] }),
    )
}

/// Aliases of `acme/fast` (`support`) and of `acme/plain` with semantic caching.
async fn similar(more: &str) -> World {
    similar_in("", more).await
}

/// As [`similar`], with these lines of `[cache]`.
async fn similar_in(cache: &str, more: &str) -> World {
    let entry = |alias: &str| {
        format!("[[cache.semantic]]\nalias = \"{alias}\"\nembedding_model = \"beta/vectors\"\n{more}\n")
    };
    let extra = format!(
        "[cache]\n{cache}\n{}{}[[models]]\nid = \"beta/vectors\"\ncategory = [\"embedding\"]\n\
         pricing = {{ official_input_per_m = 0.02, currency = \"USD\" }}\n",
        entry("support"),
        entry("simple"),
    );
    let aliases = "support = \"acme/fast\"\nsimple = \"acme/plain\"";
    let world = Setup { extra, aliases, ..Setup::default() }.start().await;
    world.second.respond_with(vectors);
    world
}

/// A long timeout for busy machines.
const ANSWER: &str = "mode = \"answer\"\ntimeout_ms = 30000";

fn question(text: &str) -> Value {
    let messages = json!([{ "role": "system", "content": "Be kind." }, { "role": "user", "content": text }]);
    chat_with("support", json!({ "cache": { "enabled": true }, "messages": messages }))
}

async fn ask(client: &Client, body: &Value) -> Response {
    client.post_json(PATH, body).await.ok()
}

async fn figures(world: &World) -> Value {
    world.gateway.client().with_key(ADMIN).get("/admin/v1/cache").await.ok().json()
}

/// Waits until the gateway has the vectors of this many answers.
async fn known(world: &World, vectors: u64) {
    eventually_true("the vectors are there", async || {
        let figures = figures(world).await;
        let models = figures["semantic"].as_array().expect("is there").iter();
        models.map(|one| one["vectors"].as_u64().expect("is there")).sum::<u64>() >= vectors
    })
    .await;
}

#[tokio::test]
async fn a_similar_question_gets_the_answer_and_is_told_whose_it_is() {
    let world = similar(ANSWER).await;
    let first = ask(&world.client, &question("Where is my parcel? zero")).await;
    assert_eq!(cache_result(&first), "MISS");
    assert_eq!(first.header("x-gateway-cache-similarity"), None);
    known(&world, 1).await;
    let second = ask(&world.client, &question("So where is my parcel? ten")).await;
    assert_eq!((cache_result(&second), world.upstream.hits()), ("HIT", 1));
    let source = first.json()["gateway"]["request_id"].clone();
    // The cosine of ten degrees is 0.98480.
    assert_eq!(second.header("x-gateway-cache-similarity"), Some("0.9848"));
    assert_eq!(second.header("x-gateway-cache-source"), source.as_str());
    assert!(second.header("age").is_some());
    let (first, second) = (first.json(), second.json());
    assert_eq!(first["choices"], second["choices"]);
    let gateway = &second["gateway"];
    assert_eq!(
        (&gateway["cache_hit"], &gateway["similarity"], &gateway["source"]),
        (&json!(true), &json!(0.9848), &source)
    );
    assert_eq!(
        (&second["usage"]["cost_usd"], &gateway["saved_usd"]),
        (&json!(0), &first["usage"]["cost_usd"])
    );
    // Streamed.
    let streamed =
        ask(&world.client, &with(question("Tell me, where is my parcel? ten"), json!({ "stream": true })))
            .await;
    assert_eq!((cache_result(&streamed), world.upstream.hits()), ("HIT", 1));
    assert!(streamed.text().contains("\"similarity\":0.9848"), "{}", streamed.text());
    // Each lookup was an embedding request of the key, charged with 1,000 tokens at 0.02 USD per million.
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, second["gateway"]["request_id"].as_str().unwrap()).await;
    assert_eq!((&row["cache_hit"], &row["cost_usd"]), (&json!(true), &json!(0)));
    // The row of the last request is written after those of its lookup and of the requests before.
    logged(&admin, streamed.header("x-request-id").unwrap()).await;
    let rows = admin.get("/admin/v1/requests").await.ok().json();
    let looks = rows["data"].as_array().unwrap().iter().filter(|row| row["operation"] == "embeddings");
    let paid: Vec<_> = looks.map(|row| (&row["model"], &row["cost_usd"], &row["status"])).collect();
    assert_eq!(paid, vec![(&json!("beta/vectors"), &json!(0.000_02), &json!("ok")); 3], "{rows}");
    let figures = figures(&world).await;
    assert_eq!(
        (&figures["similar"], &figures["misses"], &figures["hits"]),
        (&json!(2), &json!(1), &json!(0))
    );
    let support =
        figures["semantic"].as_array().unwrap().iter().find(|one| one["alias"] == "support").unwrap();
    assert_eq!(
        (&support["looks"], &support["matches"], &support["vectors"]),
        (&json!(3), &json!(2), &json!(1))
    );
    // A semantic hit stores nothing, so an answer cannot drift from question to question.
    let far = ask(&world.client, &question("Where is my parcel? twenty")).await;
    assert_eq!((cache_result(&far), world.upstream.hits()), ("MISS", 2));
}

#[tokio::test]
async fn another_company_figure_key_or_wish_is_another_question() {
    let world = similar(ANSWER).await;
    let first = question("Where is parcel 4711? zero");
    ask(&world.client, &first).await;
    known(&world, 1).await;
    let mut misses = 1;
    let near = "Now where is parcel 4711? ten";
    for (body, why) in [
        (question("Now where is parcel 4712? ten"), "another number"),
        (question("Where is parcel 4711? away"), "not near"),
        (with(question(near), json!({ "temperature": 0.3 })), "another parameter"),
        (with(question(near), json!({ "n": 2 })), "more answers"),
        (
            with(question(near), json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] })),
            "a tool",
        ),
        (
            with(question(near), json!({ "messages": [{ "role": "user", "content": near }] })),
            "no system prompt",
        ),
        (with(question(near), json!({ "model": "acme/fast" })), "not the alias"),
        (with(question(near), json!({ "cache": { "enabled": true, "mode": "write" } })), "asked anew"),
    ] {
        let answer = ask(&world.client, &body).await;
        misses += 1;
        assert_eq!((cache_result(&answer), world.upstream.hits()), ("MISS", misses), "{why}");
    }
    let without = ask(&world.client, &with(question(near), json!({ "cache": { "enabled": false } }))).await;
    assert_eq!((cache_result(&without), world.upstream.hits()), ("BYPASS", misses + 1), "without the cache");
    // Another key with equal rights.
    let other = ask(&world.client.with_key(ADMIN), &question(near)).await;
    assert_eq!((cache_result(&other), world.upstream.hits()), ("MISS", misses + 2));
    assert_eq!(cache_result(&ask(&world.client, &question("But where is parcel 4711? ten")).await), "HIT");
    // A purge of everything removes it, too.
    let admin = world.gateway.client().with_key(ADMIN);
    admin.send("DELETE", "/admin/v1/cache", None, None).await.ok();
    let purged = ask(&world.client, &question("And where is parcel 4711? ten")).await;
    assert_eq!((cache_result(&purged), world.upstream.hits()), ("MISS", misses + 3));
}

#[tokio::test]
async fn a_shadow_counts_what_it_would_have_answered_and_delays_nobody() {
    let world = similar("").await;
    ask(&world.client, &question("Where is my parcel? zero")).await;
    known(&world, 1).await;
    let second = ask(&world.client, &question("Now where is my parcel? ten")).await;
    assert_eq!((cache_result(&second), world.upstream.hits()), ("MISS", 2));
    assert_eq!(second.json()["gateway"]["similarity"], Value::Null);
    known(&world, 2).await;
    let support = figures(&world).await["semantic"][1].clone();
    assert_eq!(
        (
            &support["alias"],
            &support["mode"],
            &support["matches"],
            &support["shadow_matches"],
            &support["looks"]
        ),
        (&json!("support"), &json!("shadow"), &json!(0), &json!(1), &json!(2)),
    );
    let metrics = world.gateway.client().with_key(ADMIN).get("/metrics").await.ok().text();
    for line in [
        "gateway_cache_similar_looks_total{alias=\"support\"} 2",
        "gateway_cache_similar_shadow_matches_total{alias=\"support\"} 1",
        "gateway_cache_similar_matches_total{alias=\"simple\"} 0",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}");
    }
    // The request does not wait for an embedding that never arrives.
    world.second.respond_with(|_| Answer::sse().hang());
    let third = ask(&world.client, &question("Here, where is my parcel? ten")).await;
    assert_eq!(cache_result(&third), "MISS");
}

fn vector(numbers: &Value) -> Value {
    json!({ "object": "list", "data": [{ "index": 0, "embedding": numbers }] })
}

#[tokio::test]
async fn an_embedding_that_fails_or_is_late_is_a_miss() {
    // The limit is also that of the first question, whose vector must be there.
    let late = "mode = \"answer\"\ntimeout_ms = 5000";
    type Fault = fn(&Recorded) -> Answer;
    let faults: [(Fault, &str); 4] = [
        (|_| Answer::sse().hang(), late),
        (|_| Answer::json(500, &json!({ "error": { "message": "broken" } })), ANSWER),
        (|_| Answer::json(200, &vector(&json!([0.0, 0.0]))), ANSWER),
        (|_| Answer::json(200, &vector(&json!([1.0, 0.0, 0.0]))), ANSWER),
    ];
    for (fault, settings) in faults {
        let world = similar(settings).await;
        ask(&world.client, &question("Where is my parcel? zero")).await;
        known(&world, 1).await;
        world.second.respond_with(fault);
        let answer = ask(&world.client, &question("So where is my parcel? ten")).await;
        assert_eq!((cache_result(&answer), world.upstream.hits()), ("MISS", 2));
    }
}

#[tokio::test]
async fn the_words_of_a_key_go_to_no_model_that_it_may_not_use() {
    let world = similar(ANSWER).await;
    let limited = world.client.with_key(LIMITED);
    for text in ["Where is my parcel? zero", "Now where is my parcel? ten"] {
        let answer = ask(&limited, &with(question(text), json!({ "model": "simple" }))).await;
        assert_eq!(cache_result(&answer), "MISS");
    }
    assert_eq!((world.upstream.hits(), world.second.hits()), (2, 0));
}

#[tokio::test]
async fn what_is_under_way_is_shared_by_who_asks_the_same_and_found_by_no_other() {
    let world = similar(ANSWER).await;
    ask(&world.client, &question("Where is my parcel? zero")).await;
    known(&world, 1).await;
    let body = question("Now where is my parcel? ten");
    let all = (0..20).map(|_| ask(&world.client, &body));
    for answer in futures_util::future::join_all(all).await {
        assert!(["HIT", "COALESCED"].contains(&cache_result(&answer)));
        assert_eq!(answer.header("x-gateway-cache-similarity"), Some("0.9848"));
    }
    assert_eq!(world.upstream.hits(), 1);
    let figures = figures(&world).await;
    assert_eq!(figures["misses"], 1);
    assert_eq!(figures["similar"].as_u64().unwrap() + figures["coalesced"].as_u64().unwrap(), 20);
}

#[tokio::test]
async fn a_reader_of_little_patience_takes_nothing_from_others() {
    let world = similar(ANSWER).await;
    ask(&world.client, &question("Where is my parcel? zero")).await;
    known(&world, 1).await;
    // The answer is at least a second old, which is too old for `max_age = 0`.
    let hurried = json!({ "cache": { "enabled": true, "mode": "read", "ttl": 1 } });
    eventually_true("a second", async || {
        cache_result(
            &ask(&world.client, &with(question("Now where is my parcel? ten"), hurried.clone())).await,
        ) != "HIT"
    })
    .await;
    let answer = ask(&world.client, &question("But where is my parcel? ten")).await;
    assert_eq!(cache_result(&answer), "HIT");
}

#[tokio::test]
async fn who_leaves_ends_the_look_and_a_hanging_look_holds_no_budget() {
    let world = similar(ANSWER).await;
    world.second.respond_with(|_| Answer::sse().hang());
    let admin = world.gateway.client().with_key(ADMIN);
    let asking = world.client.clone();
    let asking =
        tokio::spawn(async move { asking.post_json(PATH, &question("Where is my parcel? zero")).await });
    let look = world.second.request(0).await;
    asking.abort();
    look.until_closed().await;
    assert_eq!(world.upstream.hits(), 0);
    eventually_true("both rows are there", async || {
        let rows = admin.get("/admin/v1/requests").await.ok().json();
        let status = |row: &Value| row["status"].as_str().expect("a status").to_owned();
        let ended: Vec<_> = rows["data"].as_array().expect("rows").iter().map(status).collect();
        if ended == ["client_closed_request"; 2] {
            return true;
        }
        false
    })
    .await;
    // A late embedding call is cancelled, too.
    let world = similar("mode = \"answer\"\ntimeout_ms = 2000").await;
    world.second.respond_with(|_| Answer::sse().hang());
    assert_eq!(cache_result(&ask(&world.client, &question("Where is my parcel? zero")).await), "MISS");
    world.second.request(0).await.until_closed().await;
}

#[tokio::test]
async fn the_limits_of_one_are_not_those_of_another_of_its_team() {
    let world = similar_in("shared_by_teams = [\"search\"]", ANSWER).await;
    let admin = world.gateway.client().with_key(ADMIN);
    management::ask(&admin, "PUT", "/admin/v1/teams/search", &json!({})).await;
    let poor = json!({ "name": "poor", "team": "search", "budget_usd": "0.000001", "budget_period": "day" });
    let (poor, _) = management::create(&admin, poor).await;
    let (rich, _) = management::create(&admin, json!({ "name": "rich", "team": "search" })).await;
    let (poor, rich) = (world.client.with_key(&poor), world.client.with_key(&rich));
    // Any of the requests may become the leader.
    for round in 0..12 {
        let body = question(&format!("{}, where is my parcel? zero", "So".repeat(round)));
        let all = (0..20).map(|n| if n % 2 == 0 { poor.clone() } else { rich.clone() });
        let all = all.map(|client| async { (client.post_json(PATH, &body).await, client) });
        for (number, (answer, _)) in futures_util::future::join_all(all).await.into_iter().enumerate() {
            assert!(number % 2 == 0 || answer.status == 200, "{}", answer.text());
        }
    }
}
