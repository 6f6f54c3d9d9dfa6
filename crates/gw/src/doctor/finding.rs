//! The findings of `doctor`, and their form as a table and as JSON.

use gw_command::table::{Align, clean, columns, counted};
use serde_json::json;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Ok,
    /// The gateway works, but not as well or as long as it could.
    Warning,
    /// The gateway cannot work like this.
    Failed,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One fact that was checked.
#[derive(Clone, Debug)]
pub(super) struct DoctorFinding {
    /// The kind of the check, such as `port`.
    check: &'static str,
    /// The thing that was checked, such as an address.
    subject: String,
    severity: Severity,
    message: String,
    /// The action for the operator.
    remedy: Option<String>,
}

impl DoctorFinding {
    fn new(check: &'static str, subject: &str, severity: Severity, message: &str) -> Self {
        Self { check, subject: clean(subject), severity, message: clean(message), remedy: None }
    }

    pub(super) fn ok(check: &'static str, subject: &str, message: &str) -> Self {
        Self::new(check, subject, Severity::Ok, message)
    }

    pub(super) fn warning(check: &'static str, subject: &str, message: &str) -> Self {
        Self::new(check, subject, Severity::Warning, message)
    }

    pub(super) fn failed(check: &'static str, subject: &str, message: &str) -> Self {
        Self::new(check, subject, Severity::Failed, message)
    }

    /// Adds the action for the operator.
    pub(super) fn remedy(self, remedy: &str) -> Self {
        Self { remedy: Some(clean(remedy)), ..self }
    }
}

/// All findings, in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct DoctorReport {
    findings: Vec<DoctorFinding>,
}

impl DoctorReport {
    pub(super) fn add(&mut self, finding: DoctorFinding) {
        self.findings.push(finding);
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// The number of findings that have failed.
    pub(super) fn failures(&self) -> usize {
        self.count(Severity::Failed)
    }

    /// A line for each finding. The action follows on a line of its own.
    pub(super) fn to_table(&self) -> String {
        let mut rows = vec![["RESULT", "CHECK", "SUBJECT", "FINDING"].map(str::to_owned).to_vec()];
        for finding in &self.findings {
            let severity = finding.severity.as_str().to_owned();
            let row = [severity, finding.check.to_owned(), finding.subject.clone(), finding.message.clone()];
            rows.push(row.to_vec());
        }
        let table = columns(&rows, &[Align::Left, Align::Left, Align::Left, Align::Left]);
        let mut text = String::new();
        for (at, line) in table.lines().enumerate() {
            text += &format!("{line}\n");
            let finding = at.checked_sub(1).and_then(|at| self.findings.get(at));
            if let Some(remedy) = finding.and_then(|finding| finding.remedy.as_deref()) {
                text += &format!("         to do: {remedy}\n");
            }
        }
        let (warnings, failures) = (self.count(Severity::Warning), self.failures());
        let checks = self.findings.len();
        let (warnings, checks) = (counted(warnings as u64, "warning"), counted(checks as u64, "finding"));
        text + &format!("\n{checks}: {warnings}, {failures} failed\n")
    }

    /// The findings for programs.
    pub(super) fn to_json(&self) -> String {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "check": finding.check,
                "subject": finding.subject,
                "result": finding.severity.as_str(),
                "message": finding.message,
                "remedy": finding.remedy,
            })
        });
        let findings: Vec<_> = findings.collect();
        let worst = self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
        format!("{:#}\n", json!({ "result": worst.as_str(), "findings": findings }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DoctorReport {
        let mut report = DoctorReport::default();
        report.add(DoctorFinding::ok("port", "127.0.0.1:4000", "free"));
        report.add(DoctorFinding::failed("redis", "[redis]", "no answer\u{1b}[2J").remedy("start Redis"));
        report
    }

    #[test]
    fn the_table_has_the_action_below_its_finding() {
        let expected = "RESULT  CHECK  SUBJECT         FINDING\n\
                        ok      port   127.0.0.1:4000  free\n\
                        failed  redis  [redis]         no answer [2J\n         to do: start Redis\n\n\
                        2 findings: 0 warnings, 1 failed\n";
        assert_eq!(report().to_table(), expected);
    }

    #[test]
    fn the_worst_finding_is_the_result() {
        let value: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
        assert_eq!((&value["result"], &value["findings"][0]["result"]), (&json!("failed"), &json!("ok")));
        assert_eq!(value["findings"][1]["remedy"], "start Redis");
        assert_eq!(value["findings"][0]["remedy"], serde_json::Value::Null);
    }
}
