//! The provider's own list of models: whether it has the model, and its context.

use super::ProbeRun;
use crate::finding::{Finding, failure_text};

impl ProbeRun<'_> {
    pub(super) async fn list(&mut self) {
        let Some(listing) = self.endpoint.provider().adapter().traits().models else {
            self.findings
                .add("list.models", Finding::NotOffered("this API has no list of models".to_owned()));
            return;
        };
        let raw = match self.endpoint.send("list.models", (listing.call)()).await {
            Ok(raw) => raw,
            Err(failure) => {
                self.findings.add("list.models", Finding::failed("a list of models", failure_text(&failure)));
                self.stop_after(failure.kind);
                return;
            }
        };
        if !(200..300).contains(&raw.status) {
            let finding = Finding::NotOffered(format!("status {}", raw.status));
            self.findings.add("list.models", finding);
            return;
        }
        let listed = match (listing.read)(&raw.body) {
            Ok(listed) => listed,
            Err(failure) => {
                self.findings.add("list.models", Finding::failed("a list of models", failure_text(&failure)));
                return;
            }
        };
        let name = &self.endpoint.subject.upstream_model;
        let named = listed.iter().find(|model| model.name == *name);
        // A server of one model answers under every name.
        let own = named.or(listed.first().filter(|_| listed.len() == 1)).cloned();
        let finding = match (named, &own) {
            (Some(_), _) => Finding::Passed(format!("{} models", listed.len())),
            (None, Some(only)) => {
                Finding::NotOffered(format!("the list has only '{}', not '{name}'", only.name))
            }
            (None, None) => {
                Finding::NotOffered(format!("the list has {} models, but not '{name}'", listed.len()))
            }
        };
        self.findings.add("list.models", finding);
        let context = match own.and_then(|model| model.context_length) {
            Some(tokens) => {
                self.endpoint.subject.context_length.get_or_insert(tokens);
                Finding::Passed(format!("{tokens} tokens"))
            }
            None => Finding::NotOffered("the list has no context length of the model".to_owned()),
        };
        self.findings.add("list.context", context);
    }
}
