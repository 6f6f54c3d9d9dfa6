//! The table of all metrics. `/metrics`, the tables of docs/monitoring.md, the dashboards and the alerts agree with it.

use self::Kind::{Counter, Gauge, Histogram};
use self::Section::{Cache, Configuration, GenAi, Ledger, Load, Providers, Traces, Traffic};
use super::{root, written};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
            Histogram => "histogram",
        }
    }
}

/// A table of docs/monitoring.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Traffic,
    GenAi,
    Providers,
    Load,
    Ledger,
    Configuration,
    Cache,
    Traces,
}

/// One metric.
pub(super) struct Metric {
    section: Section,
    /// The name without the `_total` of a counter and the `_bucket` of a histogram.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// `seconds`, or empty for a count.
    pub(super) unit: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
    /// The gateway shows it only after something that seldom happens.
    pub(super) is_rare: bool,
}

const fn metric(
    section: Section,
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { section, name, kind, unit, labels, help, is_rare: false }
}

const fn rare(
    section: Section,
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { is_rare: true, ..metric(section, name, kind, unit, labels, help) }
}

#[rustfmt::skip]
pub(super) const METRICS: [Metric; 88] = [
    rare(Traffic, "gateway_budget_left_usd", Gauge, "", &["kind", "name"], "USD that a key of the configuration or a team has left of its budget in the current period"),
    metric(Traffic, "gateway_calls", Counter, "", &["operation", "code"], "Generation calls by operation and outcome"),
    metric(Traffic, "gateway_first_token_seconds", Histogram, "seconds", &["provider", "model"], "From the request's acceptance to the first content of a stream"),
    metric(Traffic, "gateway_http_connections", Gauge, "", &[], "Open client connections"),
    metric(Traffic, "gateway_http_in_flight", Gauge, "", &[], "Requests being answered"),
    metric(Traffic, "gateway_http_request_duration_seconds", Histogram, "seconds", &["route"], "Time from the acceptance of a request to the end of its response"),
    metric(Traffic, "gateway_http_requests", Counter, "", &["route", "method", "status"], "Requests by route, method and status"),
    rare(Traffic, "gateway_limit_left", Gauge, "", &["kind", "name", "limit"], "Requests, tokens or places that a key of the configuration or a team has left now, by limit"),
    metric(Traffic, "gateway_overhead_seconds", Histogram, "seconds", &["component"], "Time of the gateway itself before the first upstream call of a request, and after the last one"),
    rare(Traffic, "gateway_session_limits", Counter, "", &["limit", "action"], "Requests beyond a limit of their session, by limit and action"),
    metric(GenAi, "gen_ai_client_operation_duration_seconds", Histogram, "seconds", &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"], "Duration of an attempt at a provider"),
    metric(GenAi, "gen_ai_client_operation_time_to_first_chunk_seconds", Histogram, "seconds", &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"], "From the begin of an attempt to the first content of its stream"),
    metric(GenAi, "gen_ai_client_token_usage", Histogram, "", &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"], "Tokens of an attempt by type"),
    metric(GenAi, "gen_ai_server_request_duration_seconds", Histogram, "seconds", &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"], "From the acceptance of a generation request to its settlement"),
    metric(GenAi, "gen_ai_server_time_per_output_token_seconds", Histogram, "seconds", &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"], "Time for each token of a stream after the first"),
    metric(GenAi, "gen_ai_server_time_to_first_token_seconds", Histogram, "seconds", &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"], "From the acceptance of a streamed request to its first content"),
    rare(Providers, "gateway_attributed_cost_usd", Counter, "", &["kind", "name"], "Cost in USD by end user, tag, repository, branch and pull request: the first 100 names of a kind, and all others"),
    metric(Providers, "gateway_billed_attempts", Counter, "", &["usage", "priced"], "Attempts that a provider bills, by the origin of their usage and by whether their model has a price"),
    rare(Providers, "gateway_breaker_opened", Counter, "", &["provider", "model"], "How often a model's circuit was opened"),
    metric(Providers, "gateway_circuit_open", Gauge, "", &["provider", "model"], "1 while the circuit of a model is open or a probe tests it"),
    metric(Providers, "gateway_cost_usd", Counter, "", &["provider", "model"], "Cost in USD of all upstream calls that a provider bills. Of a cost with an unknown part it has the known part"),
    metric(Providers, "gateway_fallbacks", Counter, "", &["provider", "model"], "Requests that a fallback model answered"),
    metric(Providers, "gateway_price_unknown", Counter, "", &["provider", "model"], "Served calls of models without a price"),
    metric(Providers, "gateway_unpriced_requests", Counter, "", &["provider", "model"], "Requests whose cost is not known, by the first model without a needed price"),
    metric(Providers, "gateway_provider_key_up", Gauge, "", &["provider", "key"], "1 if the key at this place of the configuration is used, 0 if it is set aside"),
    rare(Providers, "gateway_prompt_cache_lost_usd", Counter, "", &["provider", "model"], "USD that prompts cost because a session did not find them in the prompt cache any more, as far as prices are known"),
    rare(Providers, "gateway_prompt_cache_saved_usd", Counter, "", &["provider", "model"], "USD that reads of prompt caches saved, as far as prices are known"),
    rare(Providers, "gateway_prompt_cache_surcharge_usd", Counter, "", &["provider", "model"], "USD that writes of prompt caches cost above the price of plain input, as far as prices are known"),
    rare(Providers, "gateway_prompt_cache_tokens", Counter, "", &["provider", "model", "kind"], "Tokens that prompt caches of providers read and wrote, and those that a session did not find any more, by kind"),
    rare(Providers, "gateway_reconcile_day_timestamp_seconds", Gauge, "", &["provider"], "Unix time of the begin of the last day that was compared with the provider's bill"),
    rare(Providers, "gateway_reconcile_difference_usd", Gauge, "", &["provider"], "Cost in USD of the last compared day on the provider's bill, less the ledger's cost of that day"),
    metric(Providers, "gateway_target_resting", Gauge, "", &["provider", "model"], "1 while a model rests because its provider asked for a pause"),
    metric(Providers, "gateway_tokens", Counter, "", &["provider", "model", "kind"], "Tokens by provider, model and kind"),
    metric(Providers, "gateway_upstream_attempts", Counter, "", &["provider", "model", "status"], "Upstream calls by provider, model and outcome"),
    metric(Providers, "gateway_upstream_in_flight", Gauge, "", &["provider", "model"], "Upstream calls of a model that are under way"),
    metric(Load, "gateway_accept_errors", Counter, "", &[], "Connections that could not be accepted, for want of file descriptors or memory"),
    metric(Load, "gateway_admission_wait_seconds", Gauge, "seconds", &["worker"], "Age of the oldest generation request that waits for its worker, to start or to go on after its body came"),
    metric(Load, "gateway_answer_bytes", Gauge, "", &[], "Bytes of documents of upstreams and of whole answers over 64 KiB, until their clients have taken them"),
    metric(Load, "gateway_background_responses", Gauge, "", &[], "Responses that are made in the background"),
    metric(Load, "gateway_cpu_pool_wait_seconds", Histogram, "seconds", &[], "How long a step waited for a thread of the CPU pool"),
    metric(Load, "gateway_cpu_pool_waiting", Gauge, "", &[], "Steps of requests that wait for a thread of the CPU pool"),
    metric(Load, "gateway_log_lines_dropped", Counter, "", &["log"], "Log lines that were dropped, because the reader of the log did not keep up"),
    metric(Load, "gateway_panics", Counter, "", &[], "Panics while a request was answered; each is a bug"),
    metric(Load, "gateway_refused_connections", Counter, "", &[], "Connections that were refused at once: too many, too many of one address, or no header of the PROXY protocol"),
    metric(Load, "gateway_request_body_bytes", Gauge, "", &[], "Bytes of request bodies over 64 KiB that are held"),
    metric(Load, "gateway_upload_disk_bytes", Gauge, "", &[], "Bytes of uploads that are held on the disk"),
    metric(Load, "gateway_websockets", Gauge, "", &[], "Open WebSockets"),
    metric(
        Load,
        "gateway_websocket_bytes",
        Gauge,
        "",
        &[],
        "Bytes of messages over 64 KiB that wait, and of turns that WebSockets remember",
    ),
    metric(Load, "gateway_shed_requests", Counter, "", &[], "Generation requests refused with 503 because the gateway was overloaded"),
    metric(Load, "gateway_stored_response_read_bytes", Gauge, "", &[], "Bytes held to read stored responses: opened copies, readers, and conversations that requests continue"),
    metric(Load, "gateway_stream_event_bytes", Gauge, "", &[], "Bytes of stream events over 64 KiB that wait for their clients"),
    rare(Load, "gateway_image_fetches", Counter, "", &["outcome"], "Images that the gateway fetched for providers that take only bytes, by outcome"),
    metric(Ledger, "gateway_clock_held", Gauge, "", &[], "1 while the clock is doubted and nothing is purged"),
    metric(Ledger, "gateway_journal_set_aside", Gauge, "", &[], "Damaged journals that are kept for inspection"),
    metric(Ledger, "gateway_journal_unreadable", Counter, "", &[], "Damaged places in the journals of processes that died, since the start"),
    metric(Ledger, "gateway_journal_unwritten", Counter, "", &[], "Lines that could not be written to the journal; a crash would have lost them"),
    metric(Ledger, "gateway_ledger_dropped", Counter, "", &[], "Requests without a row in the ledger, because they called no upstream and too many rows waited for the store"),
    metric(Ledger, "gateway_ledger_lag_seconds", Gauge, "seconds", &[], "Age of the oldest finished request that is not in the ledger yet"),
    metric(Ledger, "gateway_ledger_waiting", Gauge, "", &[], "Finished requests that are not in the ledger yet"),
    metric(Ledger, "gateway_limits_held", Gauge, "", &[], "Requests that Redis counts in a budget or a token limit and that are not in the ledger yet"),
    metric(Ledger, "gateway_limits_lost", Counter, "", &[], "Charges that Redis never got, because too many waited"),
    metric(Ledger, "gateway_limits_rebuilds", Counter, "", &[], "Times that Redis lost its memory and got this replica's reservations again"),
    metric(Ledger, "gateway_limits_undelivered", Gauge, "", &[], "Charges that wait for Redis"),
    metric(Ledger, "gateway_payloads_dropped", Counter, "", &[], "Payloads that were not stored, because too many waited or the store refused them"),
    metric(Ledger, "gateway_payloads_waiting", Gauge, "", &[], "Payloads that are not in the store yet"),
    metric(Configuration, "gateway_config_last_reload_success_timestamp_seconds", Gauge, "", &[], "Unix time at which the configuration in force was read"),
    metric(Configuration, "gateway_config_last_reload_successful", Gauge, "", &[], "1 if the configuration that was read last is in force, 0 if it was refused"),
    rare(Configuration, "gateway_alerts", Counter, "", &["alert", "outcome"], "Attempts to deliver alerts and alerts that are given up, by outcome"),
    rare(Configuration, "gateway_config_reloads", Counter, "", &["result"], "Configurations that were read again, by result"),
    metric(Cache, "gateway_cache_bypassed", Counter, "", &[], "Requests whose directives excluded the cache"),
    metric(Cache, "gateway_cache_bytes", Gauge, "", &[], "Bytes that these answers take"),
    metric(Cache, "gateway_cache_coalesced", Counter, "", &[], "Requests that shared the upstream call of an equal request"),
    metric(Cache, "gateway_cache_entries", Gauge, "", &[], "Answers in the memory of this process"),
    metric(Cache, "gateway_cache_hits", Counter, "", &[], "Requests answered from the cache"),
    metric(Cache, "gateway_cache_misses", Counter, "", &[], "Requests that asked for the cache and called an upstream"),
    metric(Cache, "gateway_cache_partial", Counter, "", &[], "Misses that found a part of their embeddings in the cache"),
    metric(Cache, "gateway_cache_saved_usd", Counter, "", &[], "Cost that answers from the cache have saved, in USD"),
    metric(Cache, "gateway_cache_similar", Counter, "", &[], "Chats answered with the answer to a similar question"),
    rare(Cache, "gateway_cache_similar_looks", Counter, "", &["alias"], "Searches for a similar question"),
    rare(Cache, "gateway_cache_similar_matches", Counter, "", &["alias"], "Searches that found an answer"),
    rare(Cache, "gateway_cache_similar_shadow_matches", Counter, "", &["alias"], "Searches that found an answer in shadow mode, which does not use it"),
    metric(Cache, "gateway_cache_stale", Counter, "", &[], "Requests answered with an expired answer, because no upstream answered"),
    metric(Cache, "gateway_cache_stored", Counter, "", &[], "Answers that were stored"),
    metric(Cache, "gateway_cache_unanswered", Counter, "", &[], "Look-ups that Redis did not answer in time"),
    metric(Cache, "gateway_cache_unwritten", Counter, "", &[], "Answers that Redis did not store"),
    metric(Traces, "gateway_spans_dropped", Counter, "", &[], "Spans that the collector did not get, because too many waited or it did not take them"),
    metric(Traces, "gateway_spans_sent", Counter, "", &[], "Spans that the collector took"),
    metric(Traces, "gateway_spans_waiting", Gauge, "", &[], "Requests whose spans wait for the collector"),
];

impl Metric {
    /// The names of its samples.
    fn samples(&self) -> Vec<String> {
        let ends: &[&str] = match self.kind {
            Counter => &["_total"],
            Gauge => &[""],
            Histogram => &["_bucket", "_sum", "_count"],
        };
        ends.iter().map(|end| format!("{}{end}", self.name)).collect()
    }

    /// The name in the documentation.
    fn shown_name(&self) -> String {
        if self.kind == Counter { format!("{}_total", self.name) } else { self.name.to_owned() }
    }
}

/// The names in a query that look like the gateway's and are no metric's.
pub(super) fn unknown_metrics(query: &str) -> Vec<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("gateway_") || word.starts_with("gen_ai_"));
    let is_label = |word: &str| METRICS.iter().any(|metric| metric.labels.contains(&word));
    let is_known =
        |word: &str| METRICS.iter().any(|metric| metric.samples().iter().any(|sample| sample == word));
    ours.filter(|word| !is_known(word) && !is_label(word)).map(str::to_owned).collect()
}

#[test]
fn a_query_for_a_metric_that_is_gone_is_found() {
    assert_eq!(
        unknown_metrics("sum(rate(gateway_calls_total[5m])) by (gen_ai_request_model)"),
        Vec::<String>::new()
    );
    assert_eq!(
        unknown_metrics("sum(rate(gateway_calls[5m])) > gateway_gone"),
        ["gateway_calls", "gateway_gone"]
    );
}

/// One table of the documentation.
fn rows(section: Section) -> String {
    let mut table = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS.iter().filter(|metric| metric.section == section) {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.shown_name(), metric.kind.as_str(), labels.join(", "));
        table += &format!("| `{name}` | {kind} | {labels} | {} |\n", metric.help);
    }
    table
}

#[test]
fn the_documentation_lists_every_metric() {
    let file = "docs/monitoring.md";
    let mut page = std::fs::read_to_string(root().join(file)).expect("the page");
    for (name, section) in [
        ("traffic", Traffic),
        ("gen_ai", GenAi),
        ("providers", Providers),
        ("load", Load),
        ("ledger", Ledger),
        ("configuration", Configuration),
        ("cache", Cache),
        ("traces", Traces),
    ] {
        let (begin, end) = (format!("<!-- metrics: {name} -->\n"), "<!-- /metrics -->");
        let (before, rest) = page.split_once(&begin).expect("the mark of the table");
        let (_, after) = rest.split_once(end).expect("the end of the table");
        page = format!("{before}{begin}{}{end}{after}", rows(section));
    }
    written(file, &page);
}
