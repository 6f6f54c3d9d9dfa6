//! The results of the checks, in the order in which they were made.

use gw_command::table::clean;
use gw_wire::failure::{Failure, FailureKind};

/// The most characters of a text that a report quotes.
const MAX_QUOTED_CHARS: usize = 160;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The endpoint does this. The text has the measured values and may be empty.
    Passed(String),
    /// The endpoint claims to do this, and does it wrongly.
    Failed {
        /// The correct behaviour.
        expected: String,
        /// The behaviour of the endpoint.
        seen: String,
    },
    /// The endpoint refuses this or does not have it. The text says how that was noticed.
    NotOffered(String),
    /// The check was not made, or its answer proves nothing. The text has the reason.
    Skipped(String),
}

impl Finding {
    /// A failure with the expected and the seen behaviour.
    pub(super) fn failed(expected: impl Into<String>, seen: impl Into<String>) -> Self {
        Self::Failed { expected: expected.into(), seen: seen.into() }
    }

    /// Passed, without a measured value.
    pub(super) fn passed() -> Self {
        Self::Passed(String::new())
    }

    /// The finding about a feature whose request failed. A refused request means that the feature is not offered.
    pub(super) fn of_refusal(failure: &Failure) -> Self {
        let text = failure_text(failure);
        match failure.kind {
            FailureKind::BadRequest
            | FailureKind::Unsupported
            | FailureKind::ImageAddress
            | FailureKind::ModelMissing => Self::NotOffered(text),
            FailureKind::RateLimited
            | FailureKind::Billing
            | FailureKind::ContextLength
            | FailureKind::ContentFilter
            | FailureKind::NoKey => Self::Skipped(text),
            _ => Self::failed("an answer, or a refusal with status 400", text),
        }
    }

    /// The name of the result in reports.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed { .. } => "failed",
            Self::NotOffered(_) => "not_offered",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The finding with every text changed by `edit`.
    fn map(self, edit: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Passed(text) => Self::Passed(edit(&text)),
            Self::Failed { expected, seen } => Self::Failed { expected: edit(&expected), seen: edit(&seen) },
            Self::NotOffered(text) => Self::NotOffered(edit(&text)),
            Self::Skipped(text) => Self::Skipped(edit(&text)),
        }
    }
}

/// All findings of a probe.
#[derive(Debug, Default)]
pub(super) struct Findings {
    rows: Vec<(&'static str, Finding)>,
    secrets: Vec<String>,
}

impl Findings {
    /// No findings yet. The secrets are removed from every text.
    pub(super) fn new(secrets: Vec<String>) -> Self {
        Self { rows: Vec::new(), secrets }
    }

    /// Adds the finding of a check. `check` is the name of the check in reports and in docs/probe.md.
    pub(super) fn add(&mut self, check: &'static str, finding: Finding) {
        let finding = finding.map(|text| quoted(text, &self.secrets));
        self.rows.push((check, finding));
    }

    /// All findings with the names of their checks.
    pub(super) fn rows(&self) -> &[(&'static str, Finding)] {
        &self.rows
    }

    /// The finding of this check.
    pub(super) fn of(&self, check: &str) -> Option<&Finding> {
        self.rows.iter().find(|(name, _)| *name == check).map(|(_, finding)| finding)
    }

    /// Whether this check passed.
    pub(super) fn has_passed(&self, check: &str) -> bool {
        matches!(self.of(check), Some(Finding::Passed(_)))
    }

    /// The number of findings with this result.
    pub(super) fn count(&self, result: &str) -> usize {
        self.rows.iter().filter(|(_, finding)| finding.as_str() == result).count()
    }
}

/// A failure in one line: the status, the gateway's sentence and the provider's own message.
pub(super) fn failure_text(failure: &Failure) -> String {
    let status = failure.status.map(|status| format!("status {status}: ")).unwrap_or_default();
    let own = failure.reason.as_deref().or(failure.detail.as_deref());
    match own {
        Some(own) => format!("{status}{own}"),
        None => format!("{status}{}", failure.message),
    }
}

/// A text for a report: without secrets, on one line, and cut.
fn quoted(text: &str, secrets: &[String]) -> String {
    let mut text = clean(text);
    for secret in secrets {
        text = text.replace(secret.as_str(), "[redacted]");
    }
    if text.chars().count() > MAX_QUOTED_CHARS {
        text = text.chars().take(MAX_QUOTED_CHARS).chain("…".chars()).collect();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_quotes_no_secret_no_control_character_and_no_long_text() {
        let mut findings = Findings::new(vec!["sk-secret-1234".to_owned()]);
        let long = format!("a\u{1b}[2J sk-secret-1234 {}", "x".repeat(500));
        findings.add("chat", Finding::failed("an answer", long));
        let Some(Finding::Failed { seen, .. }) = findings.of("chat") else { panic!("no failure") };
        assert!(seen.starts_with("a [2J [redacted] xxx"), "{seen}");
        assert_eq!(seen.chars().count(), MAX_QUOTED_CHARS + 1);
        assert!(!findings.has_passed("chat") && findings.count("failed") == 1);
    }

    #[test]
    fn a_refused_request_means_that_a_feature_is_not_offered() {
        for (kind, result) in [
            (FailureKind::BadRequest, "not_offered"),
            (FailureKind::RateLimited, "skipped"),
            (FailureKind::Server, "failed"),
            (FailureKind::InvalidResponse, "failed"),
        ] {
            let finding = Finding::of_refusal(&Failure::new(kind, "No."));
            assert_eq!(finding.as_str(), result, "{kind:?}");
        }
    }
}
