//! What each model was like, as the log has it: speed and failures of the calls that were made to it.

use std::collections::BTreeMap;

use gw_engine::catalog::Model;
use gw_routing::metrics::Averages;
use gw_store::ledger::Entry;

/// The figures of every model in the log.
#[derive(Debug, Default)]
pub(super) struct Log(BTreeMap<String, Figures>);

/// The calls to one model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Calls that were answered.
    pub served: u64,
    /// Calls that failed by the upstream's fault.
    pub failed: u64,
    /// Milliseconds that calls of any kind took which brought nothing.
    lost: Mean,
    /// Milliseconds to a plain answer.
    pub plain: Mean,
    /// Milliseconds to the end of a stream.
    pub stream: Mean,
    /// Milliseconds to the first token of a stream.
    first_token: Mean,
    /// Tokens a second, behind the first.
    speed: Mean,
}

/// A mean in the making.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    /// One more.
    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// Both together.
    pub(super) fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    /// None when there was nothing.
    #[must_use]
    pub(super) fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Whether calls of this kind are looked at: those that have a choice of strategy.
pub(super) fn has_strategy(entry: &Entry) -> bool {
    matches!(entry.operation.as_str(), "chat" | "completion")
}

impl Log {
    /// Takes a row in, whatever became of its request.
    pub(super) fn take(&mut self, entry: &Entry) {
        if !has_strategy(entry) || entry.cache_hit {
            return;
        }
        // What the request had lost before the call that is looked at: the row's times count from its beginning.
        let mut before = 0;
        for attempt in &entry.attempts {
            let figures = self.0.entry(attempt.model.to_string()).or_default();
            match &*attempt.status {
                "ok" => figures.served(entry, attempt.latency_ms, before),
                // The upstream is there, and is asked too often: it costs time, and is no failure.
                "upstream_rate_limited" => figures.lost.add(attempt.latency_ms as f64),
                code if code.starts_with("upstream_") => {
                    figures.failed += 1;
                    figures.lost.add(attempt.latency_ms as f64);
                }
                _ => {}
            }
            // A hedge that lost ran beside the one that won.
            if attempt.status != "cancelled" {
                before += attempt.latency_ms;
            }
        }
    }

    /// What is known of a model.
    #[must_use]
    pub(super) fn of(&self, model: &str) -> Figures {
        self.0.get(model).copied().unwrap_or_default()
    }
}

impl Figures {
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

    /// Calls that tell of its reliability.
    #[must_use]
    pub(super) fn calls(&self) -> u64 {
        self.served + self.failed
    }

    /// Percent of them that failed.
    #[must_use]
    pub(super) fn failed_percent(&self) -> Option<f64> {
        let calls = self.calls();
        (calls > 0).then(|| self.failed as f64 * 100.0 / calls as f64)
    }

    /// Mean milliseconds to the end of an answer: of this kind, else of the other.
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

    /// Milliseconds that a request loses here on the average before another one serves it.
    #[must_use]
    pub(super) fn lost(&self) -> f64 {
        let calls = self.served + self.lost.count;
        if calls == 0 { 0.0 } else { self.lost.sum / calls as f64 }
    }

    /// As the strategies want it: everything was seen just now, and nobody is busy.
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

    /// Milliseconds that a request would have taken: to its end, and to its first token. What was never measured is the
    /// catalogue's prior.
    #[must_use]
    pub(super) fn expected(&self, model: &Model, stream: bool) -> (Option<f64>, Option<f64>) {
        let prior = model.performance.latency_p50_ms;
        let with_lost = |millis: Option<f64>| millis.or(prior).map(|millis| millis + self.lost());
        (with_lost(self.latency(stream)), with_lost(self.first_token()).filter(|_| stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(attempts: &str, ttft_ms: Option<u64>) -> Entry {
        Entry {
            operation: "chat".to_owned(),
            model: "b/m".to_owned(),
            status: "ok".to_owned(),
            stream: ttft_ms.is_some(),
            ttft_ms,
            latency_ms: 1000,
            attempts: serde_json::from_str(attempts).unwrap_or_default(),
            tokens: gw_store::ledger::Tokens { completion: 60, ..Default::default() },
            ..Entry::default()
        }
    }

    #[test]
    fn a_failed_call_is_its_own_models_and_does_not_slow_the_one_behind_it() {
        let mut log = Log::default();
        let attempts = r#"[{"provider":"a","model":"a/m","status":"upstream_error","latency_ms":100},
            {"provider":"b","model":"b/m","status":"ok","latency_ms":800}]"#;
        log.take(&row(attempts, Some(300)));
        log.take(&row(r#"[{"provider":"b","model":"b/m","status":"ok","latency_ms":1000}]"#, None));
        // Nobody was called: the model is only who would have been.
        log.take(&row("[]", None));
        let (a, b) = (log.of("a/m"), log.of("b/m"));
        assert_eq!((a.served, a.failed, a.failed_percent(), a.lost()), (0, 1, Some(100.0), 100.0));
        assert_eq!((b.served, b.failed, b.lost()), (2, 0, 0.0));
        assert_eq!(b.first_token(), Some(200.0), "300 ms of which another one had used 100");
        assert_eq!(b.speed(), Some(100.0), "60 tokens in 600 ms");
        assert_eq!((b.latency(true), b.latency(false)), (Some(800.0), Some(1000.0)));
        assert_eq!(log.of("c/m").latency(true), None);
    }

    #[test]
    fn limits_cancellations_and_clients_that_leave_are_no_failures() {
        let mut log = Log::default();
        for status in ["upstream_rate_limited", "cancelled", "client_closed_request"] {
            log.take(&row(
                &format!(r#"[{{"provider":"b","model":"b/m","status":"{status}","latency_ms":50}}]"#),
                None,
            ));
        }
        let figures = log.of("b/m");
        assert_eq!((figures.calls(), figures.failed_percent(), figures.lost()), (0, None, 50.0));
    }
}
