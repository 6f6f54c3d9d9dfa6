//! Rules over two replicas on one PostgreSQL and one Redis: a burst over three surfaces crosses no rule, and what is given back is
//! given back everywhere.

use gw_store::Store;
use gw_store::ledger::Filter;
use gw_testkit::postgres::Postgres;
use gw_testkit::wait::{eventually_async, eventually_true};
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch, Redis, Response, Signal, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{CHAT, ask, assert_refused, bursts, message, response};
use crate::harness::{ADMIN, Setup, binary, chat};

struct Replicas {
    gateways: Vec<(Gateway, TempDir)>,
    upstream: FakeUpstream,
    config: String,
    store: String,
    _stores: (Postgres, Redis),
}

async fn launch(config: &str) -> (Gateway, TempDir) {
    launch_in(tempfile::tempdir().expect("a directory"), config).await
}

async fn launch_in(data: TempDir, config: &str) -> (Gateway, TempDir) {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let launch = launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy());
    (launch.start().await, data)
}

async fn replicas(rules: &str) -> Replicas {
    let (postgres, redis, upstream) = (Postgres::start(), Redis::start().await, FakeUpstream::start().await);
    let (store, shared) = (postgres.database(), redis.url());
    let extra = format!(
        "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n{rules}\
         [store]\nurl = \"{store}\"\n[redis]\nurl = \"{shared}\"\ntimeout_ms = 5000\n"
    );
    let acme = "responses = false".to_owned();
    let config = Setup { acme, extra, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let gateways = vec![launch(&config).await, launch(&config).await];
    Replicas { gateways, upstream, config, store, _stores: (postgres, redis) }
}

impl Replicas {
    fn client(&self, replica: usize) -> Client {
        self.gateways[replica].0.client().with_key("sk-trusted")
    }

    async fn counter(&self, replica: usize, rule: usize) -> Value {
        let admin = self.gateways[replica].0.client().with_key(ADMIN);
        admin.get("/admin/v1/budgets").await.ok().json()["data"][rule]["counters"][0].clone()
    }
}

async fn burst(replicas: &Replicas) -> Vec<Response> {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let client = replicas.client(n % 2);
        tasks.spawn(async move {
            match n % 3 {
                0 => client.post_json(CHAT, &ask()).await,
                1 => client.post_json("/v1/messages", &message()).await,
                _ => client.post_json("/v1/responses", &response()).await,
            }
        });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn a_burst_over_two_replicas_and_three_surfaces_crosses_no_rule() {
    for matched in ["model = \"acme/plain\"", "key = \"trusted\""] {
        // Five requests of 0.00002 USD.
        let rules = format!("[[budgets]]\nname = \"five\"\nmatch = {{ {matched} }}\nbudget_usd = 0.0001\n");
        let mut replicas = replicas(&rules).await;
        let answers = burst(&replicas).await;
        let served = answers.iter().filter(|answer| answer.status == 200).count();
        let refused = answers.iter().filter(|answer| answer.status == 429);
        assert_eq!(served + refused.clone().count(), 200, "{matched}");
        assert!(refused.clone().all(|answer| answer.header("x-gateway-rule") == Some("five")), "{matched}");
        assert!((1..=5).contains(&served), "{matched}: {served}");
        assert_eq!(replicas.upstream.hits(), served, "{matched}");
        let spent = json!(2 * served);
        eventually_true("all is settled", async || {
            let counter = replicas.counter(0, 0).await;
            if counter["reserved_usd"] == json!(0) {
                let micros = counter["spent_usd"].as_f64().map(|usd| (usd * 100_000.0).round() as u64);
                assert_eq!(json!(micros), spent, "{matched}: {counter}");
                return true;
            }
            false
        })
        .await;
        for _ in served..5 {
            replicas.client(0).post_json(CHAT, &ask()).await.ok();
        }
        // A replica that is killed, and starts again, knows it all.
        drop(replicas.gateways.remove(0));
        let again = launch(&replicas.config).await;
        replicas.gateways.push(again);
        for replica in 0..2 {
            let refused = replicas.client(replica).post_json(CHAT, &ask()).await;
            assert_refused(matched, &refused, "insufficient_quota", "five");
        }
    }
}

#[tokio::test]
async fn what_a_rule_gives_back_is_given_back_everywhere() {
    let rules = "[[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/plain\" }\nrpm = 3\nin_flight = 2\nbudget_usd = 1\n\
        [[budgets]]\nname = \"all\"\nrpm = 1\n\
        [[budgets]]\nname = \"quiet\"\nmode = \"shadow\"\nbudget_usd = 0\n";
    let replicas = replicas(rules).await;
    let first = replicas.client(0).post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(first["gateway"]["warnings"], json!(["budget_shadow:quiet"]));
    for replica in [1, 0, 1] {
        let refused = replicas.client(replica).post_json(CHAT, &ask()).await;
        assert_refused("all", &refused, "rate_limit_exceeded", "all");
        let refused = replicas.client(replica).post_json(CHAT, &chat("acme/fast")).await;
        assert_refused("all", &refused, "rate_limit_exceeded", "all");
    }
    eventually_true("the requests are taken back", async || {
        let (counter, quiet) = (replicas.counter(1, 0).await, replicas.counter(1, 2).await);
        let is_given_back = counter["requests_left"] == 2 && counter["in_flight_left"] == 2;
        let is_settled = counter["spent_usd"] == json!(0.00002) && counter["reserved_usd"] == json!(0);
        // A rule in shadow mode counts over all replicas, too.
        is_given_back && is_settled && quiet["spent_usd"] == json!(0.00002)
    })
    .await;
}

/// The journal of the killed replica says what its requests cost. They are charged to the rules of the whole request and of its target.
#[tokio::test]
async fn requests_of_a_killed_replica_are_charged_to_rules_and_the_rest_is_free_again() {
    // Three requests of 0.00002 USD, and two of them are in flight when the replica dies.
    let limits = "budget_usd = 0.00006\nperiod = \"total\"\n";
    let rules = format!(
        "[[budgets]]\nname = \"all\"\nsplit_by = \"end_user\"\n{limits}\
         [[budgets]]\nname = \"plain\"\nmatch = {{ model = \"acme/plain\" }}\n{limits}"
    );
    let mut replicas = replicas(&rules).await;
    let never = Signal::new();
    let mut hanging = Vec::new();
    for n in 0..2 {
        replicas.upstream.enqueue(Answer::steps(Vec::new()).wait(&never));
        let client = replicas.client(0);
        hanging.push(tokio::spawn(async move { client.post_json(CHAT, &ask()).await }));
        replicas.upstream.request(n).await;
    }
    replicas.client(1).post_json(CHAT, &ask()).await.ok();
    let refused = replicas.client(1).post_json(CHAT, &ask()).await;
    assert_refused("all of it is set aside", &refused, "insufficient_quota", "all");
    let (killed, data) = replicas.gateways.remove(0);
    let _ = killed.stop();
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    let again = launch_in(data, &replicas.config).await;
    replicas.gateways.push(again);
    let store = Store::open_url(&replicas.store).await.expect("the store");
    let spent_in_rows = async || {
        let total = store.total(&Filter::default()).await.expect("sums");
        (total.requests, total.cost as f64 / 1e15)
    };
    let (mut spent, mut sums) = (Vec::new(), (0, 0.0));
    eventually_true("both rules have what the rows have", async || {
        let counters = [replicas.counter(0, 0).await, replicas.counter(0, 1).await];
        spent = counters.iter().map(|counter| counter["spent_usd"].as_f64().unwrap_or(0.0)).collect();
        sums = spent_in_rows().await;
        let is_free = counters.iter().all(|counter| counter["reserved_usd"] == json!(0));
        // The refused request has a row, too.
        let is_charged = sums.0 == 4 && spent.iter().all(|spent| (spent - sums.1).abs() < 1e-9);
        is_free && is_charged
    })
    .await;
    // The answered request and two prompts.
    assert!(sums.1 > 0.00002 && sums.1 < 0.00006, "{spent:?} {sums:?}");
    let mut served = 0;
    while replicas.client(served % 2).post_json(CHAT, &ask()).await.status == 200 {
        served += 1;
    }
    let room = ((0.00006 - sums.1) / 0.00002 + 1e-9) as usize;
    assert_eq!(served, room, "{sums:?}");
}

/// A burst of 200 chats, embeddings and responses, half of them at each replica.
async fn mixed_burst(clients: [Client; 2]) -> Vec<Response> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..bursts::REQUESTS {
        let client = clients[number % 2].clone();
        tasks.spawn(async move { bursts::post(&client, number).await });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn requests_and_tokens_a_minute_over_two_replicas_are_never_crossed() {
    for (kind, limit) in [("tag = \"shop:*\"", "rpm = 5"), ("end_user = \"ann\"", "tpm = 75")] {
        let rule = format!("[[budgets]]\nname = \"five\"\nmatch = {{ {kind} }}\n{limit}\n");
        let replicas = replicas(&rule).await;
        let clients = [0, 1].map(|replica| bursts::named(&replicas.client(replica)));
        let began = std::time::Instant::now();
        let first = bursts::served(kind, &mixed_burst(clients).await, "rate_limit_exceeded");
        assert_eq!(replicas.upstream.hits(), first, "{kind}");
        let store = Store::open_url(&replicas.store).await.expect("the store");
        let tokens = eventually_async("all rows are in the store", || async {
            let total = store.total(&Filter::default()).await.expect("sums");
            let is_all = total.requests == bursts::REQUESTS as u64;
            is_all.then_some(total.tokens.prompt + total.tokens.completion)
        })
        .await;
        if limit == "rpm = 5" {
            assert_eq!(first, 5, "{kind}");
        } else {
            assert!(first > 0 && tokens <= 75 + bursts::come_back(75, began), "{kind}: {tokens} tokens");
        }
    }
}

/// Both replicas have requests in flight and refuse all others when one of them is killed. Its journal says what its requests cost.
#[tokio::test]
async fn a_replica_that_is_killed_in_the_middle_of_a_burst_crosses_no_rule() {
    // Five chats of 0.00002 USD.
    let budget = 0.0001;
    let rule = "[[budgets]]\nname = \"five\"\nmatch = { end_user = \"ann\" }\nbudget_usd = 0.0001\nperiod = \"total\"\n";
    let mut replicas = replicas(rule).await;
    let signals = bursts::hold(&replicas.upstream, bursts::REQUESTS);
    let clients = [0, 1].map(|replica| bursts::named(&replicas.client(replica)));
    let asking = tokio::spawn(mixed_burst(clients));
    let held = eventually("every request waits or is refused", || {
        let held = replicas.upstream.hits();
        let all = replicas.gateways.iter();
        let refused: usize = all.map(|(gateway, _)| bursts::refusals(gateway, "insufficient_quota")).sum();
        (held + refused == bursts::REQUESTS).then_some(held)
    })
    .await;
    let (killed, data) = replicas.gateways.remove(0);
    let _ = killed.stop();
    signals.iter().for_each(Signal::fire);
    // The test's client panics where the connection of a killed replica ends without an answer.
    let _ = asking.await;
    let again = launch_in(data, &replicas.config).await;
    replicas.gateways.push(again);
    let store = Store::open_url(&replicas.store).await.expect("the store");
    let spent = eventually_async("the rule has what the rows have", || async {
        let counter = replicas.counter(0, 0).await;
        let total = store.total(&Filter::default()).await.expect("sums");
        let spent = total.cost as f64 / 1e15;
        let is_charged = (counter["spent_usd"].as_f64().unwrap_or(-1.0) - spent).abs() < 1e-12;
        let is_all = total.requests == bursts::REQUESTS as u64 && counter["reserved_usd"] == json!(0);
        (is_all && is_charged).then_some(spent)
    })
    .await;
    assert!(held > 0 && spent > 0.0 && spent <= budget + 1e-12, "{held} requests for {spent} USD");
    let mut more = 0;
    while bursts::named(&replicas.client(more % 2)).post_json(CHAT, &ask()).await.status == 200 {
        more += 1;
    }
    assert_eq!(more, ((budget - spent) / 0.00002 + 1e-9) as usize, "{spent} USD were spent");
}
