//! The dashboards of deploy/grafana. They are generated, so a panel cannot show a metric that is gone.

use serde_json::{Value, json};

use super::table::unknown_metrics;
use super::written;

/// A panel: its title, the unit of its axis, and its queries with their legends.
pub(super) struct Panel {
    title: &'static str,
    unit: &'static str,
    pub(super) queries: &'static [(&'static str, &'static str)],
}

pub(super) struct Dashboard {
    file: &'static str,
    title: &'static str,
    pub(super) panels: &'static [Panel],
}

const fn panel(
    title: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, unit, queries }
}

pub(super) const DASHBOARDS: [Dashboard; 3] = [
    Dashboard {
        file: "requests.json",
        title: "Model Gateway: requests",
        panels: &[
            panel(
                "Requests by route",
                "reqps",
                &[("sum by (route) (rate(gateway_http_requests_total[$__rate_interval]))", "{{route}}")],
            ),
            panel(
                "Generation requests by result",
                "reqps",
                &[("sum by (code) (rate(gateway_calls_total[$__rate_interval]))", "{{code}}")],
            ),
            panel(
                "Duration of a generation request",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(gen_ai_server_request_duration_seconds_bucket[$__rate_interval])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(gen_ai_server_request_duration_seconds_bucket[$__rate_interval])))",
                        "p95",
                    ),
                ],
            ),
            panel(
                "Time to the first token",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le, gen_ai_request_model) (rate(gen_ai_server_time_to_first_token_seconds_bucket[$__rate_interval])))",
                    "{{gen_ai_request_model}}",
                )],
            ),
            panel(
                "Time for each further token",
                "s",
                &[(
                    "histogram_quantile(0.5, sum by (le, gen_ai_request_model) (rate(gen_ai_server_time_per_output_token_seconds_bucket[$__rate_interval])))",
                    "{{gen_ai_request_model}}",
                )],
            ),
            panel(
                "The gateway's own time, p95",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le, component) (rate(gateway_overhead_seconds_bucket[$__rate_interval])))",
                    "{{component}}",
                )],
            ),
            panel(
                "In flight",
                "short",
                &[
                    ("sum(gateway_http_in_flight)", "requests"),
                    ("sum(gateway_http_connections)", "connections"),
                ],
            ),
            panel(
                "Refused for load",
                "reqps",
                &[("sum(rate(gateway_shed_requests_total[$__rate_interval]))", "503")],
            ),
        ],
    },
    Dashboard {
        file: "providers.json",
        title: "Model Gateway: providers and spending",
        panels: &[
            panel(
                "Attempts by result",
                "reqps",
                &[(
                    "sum by (provider, status) (rate(gateway_upstream_attempts_total[$__rate_interval]))",
                    "{{provider}} {{status}}",
                )],
            ),
            panel(
                "Duration of an attempt, p95",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le, gen_ai_request_model) (rate(gen_ai_client_operation_duration_seconds_bucket[$__rate_interval])))",
                    "{{gen_ai_request_model}}",
                )],
            ),
            panel(
                "Fallbacks",
                "reqps",
                &[("sum by (model) (rate(gateway_fallbacks_total[$__rate_interval]))", "{{model}}")],
            ),
            panel(
                "Open circuits and resting models",
                "short",
                &[
                    ("max by (model) (gateway_circuit_open) > 0", "{{model}} open"),
                    ("max by (model) (gateway_target_resting) > 0", "{{model}} resting"),
                ],
            ),
            panel(
                "Provider keys set aside",
                "short",
                &[("sum by (provider) (1 - gateway_provider_key_up)", "{{provider}}")],
            ),
            panel(
                "Upstream calls under way",
                "short",
                &[("sum by (provider) (gateway_upstream_in_flight)", "{{provider}}")],
            ),
            panel(
                "Cost per hour",
                "currencyUSD",
                &[("sum by (model) (rate(gateway_cost_usd_total[$__rate_interval])) * 3600", "{{model}}")],
            ),
            panel(
                "Tokens",
                "short",
                &[("sum by (kind) (rate(gateway_tokens_total[$__rate_interval]))", "{{kind}}")],
            ),
            panel(
                "Spend capture rate",
                "percentunit",
                &[(
                    "sum(rate(gateway_billed_attempts_total{usage=\"reported\",priced=\"yes\"}[$__rate_interval])) / sum(rate(gateway_billed_attempts_total[$__rate_interval]))",
                    "reported usage and a known price",
                )],
            ),
            panel(
                "Calls of models without a price",
                "reqps",
                &[("sum by (model) (rate(gateway_price_unknown_total[$__rate_interval]))", "{{model}}")],
            ),
            panel(
                "Answers from the cache",
                "reqps",
                &[
                    ("sum(rate(gateway_cache_hits_total[$__rate_interval]))", "hits"),
                    ("sum(rate(gateway_cache_misses_total[$__rate_interval]))", "misses"),
                    ("sum(rate(gateway_cache_coalesced_total[$__rate_interval]))", "shared calls"),
                ],
            ),
        ],
    },
    Dashboard {
        file: "operations.json",
        title: "Model Gateway: operations",
        panels: &[
            panel("Rows that wait for the ledger", "short", &[("sum(gateway_ledger_waiting)", "rows")]),
            panel(
                "Budgets left",
                "currencyUSD",
                &[("min by (kind, name) (gateway_budget_left_usd)", "{{kind}} {{name}}")],
            ),
            panel("Lag of the ledger", "s", &[("max(gateway_ledger_lag_seconds)", "oldest row")]),
            panel(
                "Lost log lines",
                "short",
                &[("sum by (log) (increase(gateway_log_lines_dropped_total[$__rate_interval]))", "{{log}}")],
            ),
            panel(
                "Lost rows and journal lines",
                "short",
                &[
                    ("sum(increase(gateway_ledger_dropped_total[$__rate_interval]))", "rows"),
                    ("sum(increase(gateway_journal_unwritten_total[$__rate_interval]))", "journal lines"),
                ],
            ),
            panel("Charges that wait for Redis", "short", &[("sum(gateway_limits_undelivered)", "charges")]),
            panel(
                "Age of the oldest waiting request",
                "s",
                &[("max(gateway_admission_wait_seconds)", "worst worker")],
            ),
            panel(
                "Wait for the CPU pool, p95",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le) (rate(gateway_cpu_pool_wait_seconds_bucket[$__rate_interval])))",
                    "p95",
                )],
            ),
            panel("Memory of stream events", "bytes", &[("sum(gateway_stream_event_bytes)", "bytes")]),
            panel(
                "Spans",
                "short",
                &[
                    ("sum(rate(gateway_spans_sent_total[$__rate_interval]))", "sent"),
                    ("sum(rate(gateway_spans_dropped_total[$__rate_interval]))", "dropped"),
                ],
            ),
            panel(
                "Age of the configuration",
                "s",
                &[("time() - gateway_config_last_reload_success_timestamp_seconds", "{{instance}}")],
            ),
            panel("Bugs", "short", &[("sum(increase(gateway_panics_total[$__rate_interval]))", "panics")]),
        ],
    },
];

/// The dashboard as Grafana imports it.
fn document(dashboard: &Dashboard) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let panels = dashboard.panels.iter().enumerate().map(|(place, panel)| {
        let targets = panel.queries.iter().zip(["A", "B", "C"]).map(|((query, legend), id)| {
            json!({ "datasource": source, "expr": query, "legendFormat": legend, "refId": id, "exemplar": true })
        });
        json!({
            "id": place + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": source,
            "gridPos": { "x": place % 2 * 12, "y": place / 2 * 8, "w": 12, "h": 8 },
            "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
            "targets": targets.collect::<Vec<_>>(),
        })
    });
    json!({
        "title": dashboard.title,
        "uid": dashboard.title.to_lowercase().replace(": ", "-").replace(' ', "-"),
        "schemaVersion": 39,
        "tags": ["model-gateway"],
        "time": { "from": "now-3h", "to": "now" },
        "refresh": "30s",
        "templating": { "list": [{ "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source" }] },
        "panels": panels.collect::<Vec<_>>(),
    })
}

#[test]
fn every_panel_shows_a_metric_that_exists() {
    for dashboard in &DASHBOARDS {
        let queries = dashboard.panels.iter().flat_map(|panel| panel.queries);
        for (query, _) in queries {
            assert_eq!(unknown_metrics(query), Vec::<String>::new(), "{}: {query}", dashboard.file);
        }
    }
}

#[test]
fn the_dashboards_are_those_of_this_list() {
    for dashboard in &DASHBOARDS {
        let text = serde_json::to_string_pretty(&document(dashboard)).expect("JSON") + "\n";
        written(&format!("deploy/grafana/{}", dashboard.file), &text);
    }
}
