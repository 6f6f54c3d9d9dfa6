//! A real Prometheus scrapes the gateway, loads the alerts and answers the queries of the dashboards.

use gw_testkit::prometheus::{Prometheus, promtool};
use gw_testkit::wait::eventually_async;
use serde_json::Value;

use crate::harness::{ADMIN, Setup, World, chat};
use crate::telemetry::alerts::{ALERTS, rules};
use crate::telemetry::collector::Collector;
use crate::telemetry::dashboards::DASHBOARDS;

fn config(world: &World) -> String {
    format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\nscrape_configs:\n  - job_name: \
         model-gateway\n    authorization: {{ credentials: {ADMIN} }}\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
        world.gateway.addr
    )
}

/// Percent-encodes a query.
fn encoded(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn ask(prometheus: &Prometheus, path: &str) -> Value {
    let answer = prometheus.client.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()["data"].clone()
}

/// The value of a query's only series, as soon as it has one.
async fn value(prometheus: &Prometheus, query: &str) -> String {
    let path = format!("/api/v1/query?query={}", encoded(query));
    eventually_async(query, async || {
        let found = ask(prometheus, &path).await;
        if let Some(value) = found["result"][0]["value"][1].as_str() {
            return Some(value.to_owned());
        }
        None
    })
    .await
}

#[tokio::test]
async fn prometheus_scrapes_the_gateway_and_loads_its_alerts() {
    let collector = Collector::http().await;
    let world = Setup { extra: collector.config(""), ..Setup::default() }.start().await;
    world.chat_ok(&chat("acme/fast")).await;
    let spans = collector.wait_for(2).await;
    let trace = super::collector::hex(&spans[0].trace_id);
    let prometheus = Prometheus::start(&config(&world), &rules()).await;
    assert_eq!(value(&prometheus, "gateway_calls_total{code=\"ok\"}").await, "1", "{}", prometheus.log());
    assert_eq!(value(&prometheus, "up{job=\"model-gateway\"}").await, "1");
    assert_eq!(value(&prometheus, "gateway_tokens_total{kind=\"completion\"}").await, "5");
    assert_eq!(value(&prometheus, "gen_ai_client_token_usage_sum{gen_ai_token_type=\"input\"}").await, "10");
    assert_eq!(value(&prometheus, "gateway_provider_key_up{provider=\"acme\"}").await, "1");

    let query = encoded("gen_ai_server_request_duration_seconds_bucket");
    let path = format!("/api/v1/query_exemplars?query={query}&start=0&end=4102444800");
    let exemplars = ask(&prometheus, &path).await;
    assert_eq!(exemplars[0]["exemplars"][0]["labels"]["trace_id"], trace, "{exemplars}");

    let rules = ask(&prometheus, "/api/v1/rules").await;
    let rules = rules["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
    assert_eq!(rules.len(), ALERTS.len());
    assert!(rules.iter().all(|rule| rule["lastError"].is_null()), "{rules:?}");
    for (query, _) in DASHBOARDS.iter().flat_map(|it| it.panels).flat_map(|panel| panel.queries) {
        let query = query.replace("$__rate_interval", "1m");
        ask(&prometheus, &format!("/api/v1/query?query={}", encoded(&query))).await;
    }
}

#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let collector = Collector::http().await;
    let world = Setup { extra: collector.config(""), ..Setup::default() }.start().await;
    world.chat_ok(&chat("acme/fast")).await;
    let client = world.client.with_key(ADMIN).with_header("accept", "text/plain");
    let answer = client.get("/metrics").await.ok();
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let file = world.gateway.dir().join("metrics.txt");
    std::fs::write(&file, &answer.body).expect("the metrics are written");
    let checked = promtool(&["check", "metrics"], &file);
    let told = [checked.stdout, checked.stderr].concat();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&told));
}
