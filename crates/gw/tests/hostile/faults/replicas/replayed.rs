//! A process that replays the journal of a killed one charges the team that made the request.

use super::*;

/// The key has moved to another team when the next process starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_request_is_charged_to_the_team_that_made_it() {
    let mut replicas = Replicas::start(2).await;
    let admin = replicas.admin(1);
    // The worst case of one request, or the prompts of two.
    let limits = json!({ "budget_usd": "0.00002", "budget_period": "total" });
    assert_eq!(ask(&admin, "PUT", "/admin/v1/teams/old", &limits).await.status, 201);
    assert_eq!(ask(&admin, "PUT", "/admin/v1/teams/new", &json!({})).await.status, 201);
    let (key, made) = replicas.key(json!({ "name": "moves", "team": "old" })).await;
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    let (other, _) = replicas.key(json!({ "name": "stays", "team": "old" })).await;
    let never = Signal::new();
    replicas.upstream.enqueue(Answer::steps(Vec::new()).wait(&never));
    let client = replicas.client(0, &key);
    let hanging = tokio::spawn(async move { client.post_json(CHAT, &cheap()).await });
    replicas.upstream.request(0).await;
    let _ = replicas.gateways.remove(0).stop();
    hanging.abort();
    ask(&admin, "PATCH", &path, &json!({ "team": "new" })).await.ok();
    let only_prompt = json!({ "model": "acme/plain", "max_tokens": 0, "messages": [{ "role": "user", "content": "Hello!" }] });
    let client = replicas.client(0, &other);
    let refused = client.post_json(CHAT, &only_prompt).await;
    assert_error("all of it is set aside", &refused, 429, "insufficient_quota", "insufficient_quota");
    // The next process charges the prompt, which was sent, and the rest is free again.
    let _next = replicas.launch(&replicas.data[0], (None, None)).start().await;
    within("the rest is free again", Duration::from_secs(10), async || {
        client.post_json(CHAT, &only_prompt).await.status == 200
    })
    .await;
    let refused = client.post_json(CHAT, &only_prompt).await;
    assert_error("the prompt was charged", &refused, 429, "insufficient_quota", "insufficient_quota");
}

/// Two gateways use one data directory, as after a take-over. One of them dies, and no other starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r02_a_running_gateway_charges_what_one_beside_it_had_under_way() {
    let mut replicas = Replicas::start(2).await;
    // The worst case of one request, or the prompts of two.
    let (key, made) =
        replicas.key(json!({ "name": "b", "budget_usd": "0.00002", "budget_period": "total" })).await;
    let _beside = replicas.launch(&replicas.data[0], (None, None)).start().await;
    let never = Signal::new();
    replicas.upstream.enqueue(Answer::steps(Vec::new()).wait(&never));
    let client = replicas.client(0, &key);
    let hanging = tokio::spawn(async move { client.post_json(CHAT, &cheap()).await });
    replicas.upstream.request(0).await;
    let _ = replicas.gateways.remove(0).stop();
    hanging.abort();
    let store = replicas.store().await;
    let filter = Filter { key_id: made["id"].as_str().map(str::to_owned), ..Filter::default() };
    eventually_true("the request has its row", async || {
        let rows = store.requests(&filter, None, 10).await.expect("rows");
        rows.iter().any(|row| row.status == "interrupted")
    })
    .await;
    let only_prompt = json!({ "model": "acme/plain", "max_tokens": 0, "messages": [{ "role": "user", "content": "Hello!" }] });
    let client = replicas.client(0, &key);
    eventually_true("the rest is free again", async || {
        client.post_json(CHAT, &only_prompt).await.status == 200
    })
    .await;
    let refused = client.post_json(CHAT, &only_prompt).await;
    assert_error("the prompt was charged", &refused, 429, "insufficient_quota", "insufficient_quota");
    eventually_true("the journal of the killed gateway is gone", async || {
        std::fs::read_dir(replicas.data[0].path().join("journal")).expect("the journal").count() == 2
    })
    .await;
}
