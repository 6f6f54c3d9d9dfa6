//! The report of a probe, as a table and as JSON.

use std::time::Duration;

use gw_command::table::{Align, clean, columns, counted};
use serde_json::{Value, json};

use super::endpoint::{CallTotals, ProbedEndpoint};
use super::finding::{Finding, Findings};

/// The findings, and the calls that they cost.
#[derive(Debug)]
pub(super) struct ProbeReport {
    id: String,
    upstream_model: String,
    api: &'static str,
    host: String,
    findings: Findings,
    totals: CallTotals,
    cost_usd: Option<f64>,
    took: Duration,
}

impl ProbeReport {
    /// The report of a probe that has ended.
    pub(super) fn new(endpoint: &ProbedEndpoint, findings: Findings, took: Duration) -> Self {
        let totals = endpoint.totals;
        let usage = gw_wire::usage::Usage {
            prompt: totals.prompt_tokens,
            completion: totals.completion_tokens,
            ..Default::default()
        };
        let cost = endpoint.subject.model.as_ref().and_then(|model| model.cost(&usage));
        Self {
            id: endpoint.subject.id.clone(),
            upstream_model: endpoint.subject.upstream_model.clone(),
            api: endpoint.provider().api().as_str(),
            host: endpoint.provider().host().unwrap_or("this process").to_owned(),
            findings,
            totals,
            cost_usd: cost.map(gw_wire::money::Money::approx_usd),
            took,
        }
    }

    /// The findings.
    pub(super) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The number of checks that failed.
    pub(super) fn failed(&self) -> usize {
        self.findings.count("failed")
    }

    /// The number of all checks.
    pub(super) fn checks(&self) -> usize {
        self.findings.rows().len()
    }

    /// The calls and their cost in one line.
    pub(super) fn calls(&self) -> String {
        let CallTotals { calls, prompt_tokens, completion_tokens } = self.totals;
        let cost = self.cost_usd.map_or_else(|| "price unknown".to_owned(), |usd| format!("{usd:.4} USD"));
        let seconds = self.took.as_secs_f64();
        let calls = counted(calls.into(), "call");
        format!(
            "{calls} in {seconds:.1} s; {prompt_tokens} prompt tokens and {completion_tokens} answer tokens reported; {cost}"
        )
    }

    /// The report as a table.
    pub(super) fn table(&self) -> String {
        let header = ["CHECK", "RESULT", "DETAILS"].map(str::to_owned).to_vec();
        let row = |(check, finding): &(&'static str, Finding)| {
            let (result, details) = match finding {
                Finding::Passed(text) => ("passed", text.clone()),
                Finding::Failed { expected, seen } => ("FAILED", format!("expected {expected}; seen {seen}")),
                Finding::NotOffered(text) => ("not offered", text.clone()),
                Finding::Skipped(text) => ("skipped", text.clone()),
            };
            vec![(*check).to_owned(), result.to_owned(), details]
        };
        let rows: Vec<Vec<String>> =
            std::iter::once(header).chain(self.findings.rows().iter().map(row)).collect();
        let count = |result: &str| self.findings.count(result);
        format!(
            "{} ({} at {}, api {})\n\n{}\n{} passed, {} failed, {} not offered, {} skipped\n{}\n",
            clean(&self.id),
            clean(&self.upstream_model),
            clean(&self.host),
            self.api,
            columns(&rows, &[Align::Left, Align::Left, Align::Left]),
            count("passed"),
            count("failed"),
            count("not_offered"),
            count("skipped"),
            self.calls(),
        )
    }

    /// The report as JSON.
    pub(super) fn json(&self) -> Value {
        let check = |(check, finding): &(&'static str, Finding)| {
            let result = finding.as_str();
            match finding {
                Finding::Passed(text) => json!({ "check": check, "result": result, "measured": text }),
                Finding::Failed { expected, seen } => {
                    json!({ "check": check, "result": result, "expected": expected, "seen": seen })
                }
                Finding::NotOffered(text) | Finding::Skipped(text) => {
                    json!({ "check": check, "result": result, "reason": text })
                }
            }
        };
        let count = |result: &str| self.findings.count(result);
        json!({
            "object": "probe",
            "model": self.id,
            "upstream_model": self.upstream_model,
            "api": self.api,
            "host": self.host,
            "conforms": self.failed() == 0,
            "passed": count("passed"),
            "failed": count("failed"),
            "not_offered": count("not_offered"),
            "skipped": count("skipped"),
            "calls": self.totals.calls,
            "prompt_tokens": self.totals.prompt_tokens,
            "completion_tokens": self.totals.completion_tokens,
            "cost_usd": self.cost_usd,
            "took_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "checks": self.findings.rows().iter().map(check).collect::<Vec<_>>(),
        })
    }
}
