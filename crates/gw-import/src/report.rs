//! The report of an import: the outcome of each key of the source.

use gw_command::table::{Align, clean, columns};
use serde::Serialize;

use super::draft::REFERENCE;
use super::yaml::SourceNode;

/// The note of a key that nothing here stands for.
pub(super) const NO_SUCH_SETTING: &str = "the gateway has no such setting";

/// How a key of the source was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fidelity {
    /// The key has an exact counterpart.
    Exact,
    /// The key has a similar counterpart; the note says how it differs.
    Approximate,
    /// The key is left out; the note says why.
    Ignored,
}

/// One key of the source.
#[derive(Debug, Serialize)]
pub(super) struct KeyOutcome {
    /// The path, such as `model_list[0].litellm_params.tpm`.
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) outcome: Fidelity,
    /// The place in gateway.toml, how it differs, or why it is left out.
    pub(super) note: String,
}

/// The outcomes of all keys.
#[derive(Debug, Default, Serialize)]
pub(super) struct ImportReport {
    pub(super) keys: Vec<KeyOutcome>,
    /// The environment variables that the result refers to without a default.
    pub(super) variables: Vec<String>,
}

impl ImportReport {
    pub(super) fn exact(&mut self, key: impl Into<String>, node: &SourceNode, note: impl Into<String>) {
        self.add(key.into(), node, Fidelity::Exact, &note.into());
    }

    pub(super) fn approximate(&mut self, key: impl Into<String>, node: &SourceNode, note: impl Into<String>) {
        self.add(key.into(), node, Fidelity::Approximate, &note.into());
    }

    pub(super) fn ignored(&mut self, key: impl Into<String>, node: &SourceNode, note: impl Into<String>) {
        self.add(key.into(), node, Fidelity::Ignored, &note.into());
    }

    fn add(&mut self, key: String, node: &SourceNode, outcome: Fidelity, note: &str) {
        let note = note.replace(REFERENCE, "$");
        self.keys.push(KeyOutcome { key, line: node.line, outcome, note });
    }

    /// Turns an earlier key into an ignored one, because another key of the source has its place.
    pub(super) fn overrule(&mut self, key: &str, note: impl Into<String>) {
        if let Some(earlier) = self.keys.iter_mut().rev().find(|earlier| earlier.key == key) {
            earlier.outcome = Fidelity::Ignored;
            earlier.note = note.into();
        }
    }

    /// Whether the source has only sections that its gateway does not know, so that it is hardly a file of this gateway.
    pub(super) fn knows_nothing(&self) -> bool {
        let is_unknown = |key: &KeyOutcome| !key.key.contains('.') && key.note == NO_SUCH_SETTING;
        !self.keys.is_empty() && self.keys.iter().all(is_unknown)
    }

    /// Sorts the keys by their lines.
    pub(super) fn sort(&mut self) {
        self.keys.sort_by_key(|key| key.line);
    }

    /// The report for people: what differs and what is left out, then the counts and the variables to set.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (outcome, title) in [
            (Fidelity::Ignored, "Ignored (the gateway does not have this, or does it another way):"),
            (Fidelity::Approximate, "Approximate (the meaning differs):"),
            (Fidelity::Exact, "Exact:"),
        ] {
            let rows: Vec<Vec<String>> = self
                .keys
                .iter()
                .filter(|key| key.outcome == outcome)
                .map(|key| vec![format!("  {}", key.line), clean(&key.key), clean(&key.note)])
                .collect();
            if !rows.is_empty() {
                let table = columns(&rows, &[Align::Right, Align::Left, Align::Left]);
                text += &format!("{title}\n{}\n\n", table.trim_end());
            }
        }
        let count = |outcome| self.keys.iter().filter(|key| key.outcome == outcome).count();
        text += &format!(
            "{} exact, {} approximate, {} ignored\n",
            count(Fidelity::Exact),
            count(Fidelity::Approximate),
            count(Fidelity::Ignored)
        );
        if !self.variables.is_empty() {
            text +=
                &format!("Set these environment variables before the start: {}\n", self.variables.join(", "));
        }
        text
    }
}
