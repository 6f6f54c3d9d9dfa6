//! The speed and the failures of each model's calls, taken from the log.

use std::collections::BTreeMap;

use gw_engine::catalog::Model;
use gw_routing::metrics::Averages;
use gw_store::ledger::Entry;
use gw_wire::operation::Operation;

/// The figures of all models in the log.
#[derive(Debug, Default)]
pub(super) struct LogFigures(BTreeMap<String, ModelFigures>);

/// The figures of the calls to one model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModelFigures {
    /// Calls that were answered.
    pub served: u64,
    /// Calls that failed through a fault of the upstream.
    pub failed: u64,
    /// Milliseconds of calls without an answer.
    wasted: Mean,
    /// Milliseconds to a plain answer.
    pub plain: Mean,
    /// Milliseconds to the end of a stream.
    pub stream: Mean,
    /// Milliseconds to the first token of a stream.
    first_token: Mean,
    /// Tokens per second after the first token.
    speed: Mean,
}

/// A mean to which values are added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    /// Adds a value.
    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// Adds the values of another mean.
    pub(super) fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    /// The mean. None: no value was added.
    #[must_use]
    pub(super) fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Whether requests of this operation have a routing strategy.
pub(super) fn has_strategy(entry: &Entry) -> bool {
    Operation::named(&entry.operation).is_some_and(|operation| operation.row().writes_text)
}

impl LogFigures {
    /// Adds a row, whatever its outcome.
    pub(super) fn add(&mut self, entry: &Entry) {
        if !has_strategy(entry) || entry.cache_hit {
            return;
        }
        // The row's times count from the start of its request, so the time of the earlier calls is subtracted.
        let mut before = 0;
        for attempt in &entry.attempts {
            let figures = self.0.entry(attempt.model.to_string()).or_default();
            match &*attempt.status {
                "ok" => figures.served(entry, attempt.latency_ms, before),
                // A rate limit costs time but is no failure of the upstream.
                "upstream_rate_limited" => figures.wasted.add(attempt.latency_ms as f64),
                code if code.starts_with("upstream_") => {
                    figures.failed += 1;
                    figures.wasted.add(attempt.latency_ms as f64);
                }
                _ => {}
            }
            // A cancelled hedge ran beside the call that served, so its time does not count.
            if attempt.status != "cancelled" {
                before += attempt.latency_ms;
            }
        }
    }

    /// The figures of a model.
    #[must_use]
    pub(super) fn of(&self, model: &str) -> ModelFigures {
        self.0.get(model).copied().unwrap_or_default()
    }
}

impl ModelFigures {
    fn served(&mut self, entry: &Entry, latency_ms: u64, before: u64) {
        self.served += 1;
        if !entry.stream {
            return self.plain.add(latency_ms as f64);
        }
        self.stream.add(latency_ms as f64);
        let Some(first) = entry.ttft_ms.map(|ttft| ttft.saturating_sub(before)) else { return };
        self.first_token.add(first as f64);
        let speaking = latency_ms.saturating_sub(first);
        if entry.tokens.completion > 0 && speaking > 0 {
            self.speed.add(entry.tokens.completion as f64 * 1e3 / speaking as f64);
        }
    }

    /// The calls that count for the reliability.
    #[must_use]
    pub(super) fn calls(&self) -> u64 {
        self.served + self.failed
    }

    /// The percentage of these calls that failed.
    #[must_use]
    pub(super) fn failed_percent(&self) -> Option<f64> {
        let calls = self.calls();
        (calls > 0).then(|| self.failed as f64 * 100.0 / calls as f64)
    }

    /// Mean milliseconds to the end of an answer: streamed or plain, or the other kind when this one has no calls.
    fn latency(&self, stream: bool) -> Option<f64> {
        let (same, other) = if stream { (self.stream, self.plain) } else { (self.plain, self.stream) };
        same.value().or_else(|| other.value())
    }

    /// Mean milliseconds to the first token of a stream.
    #[must_use]
    pub(super) fn first_token(&self) -> Option<f64> {
        self.first_token.value()
    }

    /// Mean tokens a second.
    #[must_use]
    pub(super) fn speed(&self) -> Option<f64> {
        self.speed.value()
    }

    /// Mean milliseconds that a request loses in failed calls to this model before another model serves it.
    #[must_use]
    pub(super) fn wasted(&self) -> f64 {
        let calls = self.served + self.wasted.count;
        if calls == 0 { 0.0 } else { self.wasted.sum / calls as f64 }
    }

    /// The figures as measurements for the strategies, all recent and without load.
    #[must_use]
    pub(super) fn seen(&self) -> Averages {
        let calls = self.calls() as f64;
        Averages {
            ttft_ms: self.first_token.value().or_else(|| self.plain.value()),
            tokens_per_second: self.speed.value(),
            error_rate: self.failed as f64 / (calls + 1.0),
            recent: calls,
            in_flight: 0,
            samples: u32::try_from(self.calls()).unwrap_or(u32::MAX),
        }
    }

    /// The expected milliseconds to the end of a request and to its first token. A model without calls has the prior of the
    /// catalogue.
    #[must_use]
    pub(super) fn expected(&self, model: &Model, stream: bool) -> (Option<f64>, Option<f64>) {
        let prior = model.performance.latency_p50_ms;
        let with_wasted = |millis: Option<f64>| millis.or(prior).map(|millis| millis + self.wasted());
        (with_wasted(self.latency(stream)), with_wasted(self.first_token()).filter(|_| stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(attempts: &str, ttft_ms: Option<u64>) -> Entry {
        Entry {
            operation: "chat".into(),
            model: "b/m".into(),
            status: "ok".into(),
            stream: ttft_ms.is_some(),
            ttft_ms,
            latency_ms: 1000,
            attempts: serde_json::from_str(attempts).unwrap_or_default(),
            tokens: gw_store::ledger::Tokens { completion: 60, ..Default::default() },
            ..Entry::default()
        }
    }

    #[test]
    fn every_operation_that_writes_a_text_has_a_strategy() {
        let operations = ["chat", "completion", "messages", "responses", "embeddings"];
        let with_strategy: Vec<&str> = operations
            .into_iter()
            .filter(|operation| {
                has_strategy(&Entry { operation: (*operation).to_owned().into(), ..row("[]", None) })
            })
            .collect();
        assert_eq!(with_strategy, ["chat", "completion", "messages", "responses"]);
    }

    #[test]
    fn a_failed_call_counts_for_its_own_model_alone() {
        let mut log = LogFigures::default();
        let attempts = r#"[{"provider":"a","model":"a/m","status":"upstream_error","latency_ms":100},
            {"provider":"b","model":"b/m","status":"ok","latency_ms":800}]"#;
        log.add(&row(attempts, Some(300)));
        log.add(&row(r#"[{"provider":"b","model":"b/m","status":"ok","latency_ms":1000}]"#, None));
        // No model was called.
        log.add(&row("[]", None));
        let (a, b) = (log.of("a/m"), log.of("b/m"));
        assert_eq!((a.served, a.failed, a.failed_percent(), a.wasted()), (0, 1, Some(100.0), 100.0));
        assert_eq!((b.served, b.failed, b.wasted()), (2, 0, 0.0));
        assert_eq!(b.first_token(), Some(200.0), "300 ms, of which another call used 100");
        assert_eq!(b.speed(), Some(100.0), "60 tokens in 600 ms");
        assert_eq!((b.latency(true), b.latency(false)), (Some(800.0), Some(1000.0)));
        assert_eq!(log.of("c/m").latency(true), None);
    }

    #[test]
    fn limits_cancellations_and_clients_that_leave_are_no_failures() {
        let mut log = LogFigures::default();
        for status in ["upstream_rate_limited", "cancelled", "client_closed_request"] {
            log.add(&row(
                &format!(r#"[{{"provider":"b","model":"b/m","status":"{status}","latency_ms":50}}]"#),
                None,
            ));
        }
        let figures = log.of("b/m");
        assert_eq!((figures.calls(), figures.failed_percent(), figures.wasted()), (0, None, 50.0));
    }
}
