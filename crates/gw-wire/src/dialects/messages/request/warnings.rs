//! The parts of a request that its translation leaves out.

use std::borrow::Cow;

use crate::request::fields::clip;

/// The most warnings of one request.
const MAX_WARNINGS: usize = 32;

/// Collects warnings about the parts that are left out.
#[derive(Debug, Default)]
pub(super) struct Losses {
    warnings: Vec<Cow<'static, str>>,
    changes_answer: bool,
}

impl Losses {
    /// A parameter was left out. `changes_answer`: an upstream that knows the parameter would answer differently.
    pub(super) fn parameter(&mut self, name: &str, changes_answer: bool) {
        self.add("parameter_dropped", name, changes_answer);
    }

    /// A tool that the provider runs was left out.
    pub(super) fn tool(&mut self, name: &str) {
        self.add("tool_dropped", name, true);
    }

    /// A content block of this type was left out.
    pub(super) fn content(&mut self, kind: &str) {
        self.add("content_dropped", kind, true);
    }

    /// Whether an upstream of the client's dialect would answer differently.
    pub(super) fn changes_answer(&self) -> bool {
        self.changes_answer
    }

    /// The warnings, each once.
    pub(super) fn into_warnings(self) -> Vec<Cow<'static, str>> {
        self.warnings
    }

    fn add(&mut self, what: &str, name: &str, changes_answer: bool) {
        self.changes_answer |= changes_answer;
        // Names come from the client and go into a header, too.
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let name = if is_plain && !name.is_empty() { clip(name) } else { Cow::Borrowed("unknown") };
        let warning = format!("{what}:{name}");
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.iter().any(|known| *known == warning) {
            self.warnings.push(Cow::Owned(warning));
        }
    }
}
