//! Metrics of the HTTP server. The handles of a route are looked up once and then kept.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gw_engine::metrics::{registered, registered_seconds};
use gw_wire::trace_context::TraceId;
use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabels {
    worker: String,
}

/// The label of an exemplar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TraceLabel {
    trace_id: String,
}

type Durations = HistogramWithExemplars<TraceLabel>;

/// The most routes whose handles are kept.
pub(crate) const MAX_ROUTES: usize = 96;

/// The label of a route, and what the metrics need to find its kept handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteLabel {
    /// The position of the route in the table of routes, below [`MAX_ROUTES`].
    pub(crate) index: usize,
    /// The URL, with `{id}` for its variable part.
    pub(crate) pattern: &'static str,
    /// The method of most of its successful requests.
    pub(crate) main_method: &'static str,
}

/// The metrics of the HTTP server.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Durations, fn() -> Durations>,
    routes: [RouteMetrics; MAX_ROUTES],
    pub(crate) in_flight: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) panics: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) shed: Counter,
    pub(crate) refused_connections: Counter,
    waits: Family<WorkerLabels, Gauge<f64, AtomicU64>>,
}

/// The kept handles of one route: the counter of its successes with its main method, and its histogram.
#[derive(Debug, Default)]
struct RouteMetrics {
    ok: OnceLock<Counter>,
    duration: OnceLock<Durations>,
}

fn buckets() -> Durations {
    let seconds = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
    HistogramWithExemplars::new(seconds.into_iter())
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        Self {
            requests: registered(registry, "gateway_http_requests", "Requests by route, method and status"),
            durations: registered_seconds(
                registry,
                "gateway_http_request_duration",
                "Time from the acceptance of a request to the end of its response",
                Family::new_with_constructor(buckets as fn() -> Durations),
            ),
            in_flight: registered(registry, "gateway_http_in_flight", "Requests being answered"),
            connections: registered(registry, "gateway_http_connections", "Open client connections"),
            panics: registered(
                registry,
                "gateway_panics",
                "Panics while a request was answered; each is a bug",
            ),
            accept_errors: registered(
                registry,
                "gateway_accept_errors",
                "Connections that could not be accepted, for want of file descriptors or memory",
            ),
            shed: registered(
                registry,
                "gateway_shed_requests",
                "Generation requests refused with 503 because the gateway was overloaded",
            ),
            refused_connections: registered(
                registry,
                "gateway_refused_connections",
                "Connections that were refused at once: too many, too many of one address, or no header of the PROXY protocol",
            ),
            waits: registered_seconds(
                registry,
                "gateway_admission_wait",
                "Age of the oldest generation request that waits for its worker, to start or to go on after its body came",
                Family::default(),
            ),
            routes: std::array::from_fn(|_| RouteMetrics::default()),
        }
    }

    /// The gauge of a worker: the age of its oldest waiting request, in seconds.
    pub(crate) fn admission_wait(&self, worker: usize) -> Gauge<f64, AtomicU64> {
        self.waits.get_or_create(&WorkerLabels { worker: worker.to_string() }).clone()
    }

    /// Counts a request whose response has ended. Its trace becomes the exemplar of its duration.
    pub(crate) fn count_request(
        &self,
        route: RouteLabel,
        method: &Method,
        status: u16,
        duration: Duration,
        trace: Option<TraceId>,
    ) {
        let labels = || RequestLabels { route: route.pattern, method: method_label(method), status };
        let Some(kept) = self.routes.get(route.index) else { return };
        if status == StatusCode::OK.as_u16() && method.as_str() == route.main_method {
            kept.ok.get_or_init(|| self.requests.get_or_create(&labels()).clone()).inc();
        } else {
            self.requests.get_or_create(&labels()).inc();
        }
        let histogram = kept
            .duration
            .get_or_init(|| self.durations.get_or_create(&RouteLabels { route: route.pattern }).clone());
        let exemplar = trace.map(|trace| TraceLabel { trace_id: trace.to_string() });
        histogram.observe(duration.as_secs_f64(), exemplar, None);
    }
}

/// Clients may send any word as a method. Only known methods become labels, so that the number of labels is bounded.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_method_and_status() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let chat = RouteLabel { index: 0, pattern: "/v1/chat/completions", main_method: "POST" };
        let models = RouteLabel { index: 1, pattern: "/v1/models", main_method: "GET" };
        for _ in 0..2 {
            metrics.count_request(chat, &Method::POST, 200, Duration::from_millis(3), None);
        }
        metrics.count_request(chat, &Method::POST, 429, Duration::from_millis(1), None);
        metrics.count_request(models, &Method::HEAD, 200, Duration::from_millis(1), Some(TraceId::new(7)));
        metrics.count_request(models, &Method::from_bytes(b"BREW").unwrap(), 405, Duration::ZERO, None);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "gateway_http_requests_total{route=\"/v1/chat/completions\",method=\"POST\",status=\"200\"} 2",
            "gateway_http_requests_total{route=\"/v1/chat/completions\",method=\"POST\",status=\"429\"} 1",
            "gateway_http_requests_total{route=\"/v1/models\",method=\"HEAD\",status=\"200\"} 1",
            "gateway_http_requests_total{route=\"/v1/models\",method=\"other\",status=\"405\"} 1",
            "gateway_http_request_duration_seconds_count{route=\"/v1/chat/completions\"} 3",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
