//! The facts of a realtime session that all its responses share.

use std::sync::Arc;

use gw_limits::AdmissionPermit;
use gw_wire::request::References;

use crate::catalog::Model;
use crate::plan::candidate::Candidate;
use crate::plan::snapshot::Snapshot;
use crate::rules::ServingTarget;

/// An open session.
#[derive(Debug)]
pub struct RealtimeSession {
    candidate: Candidate,
    requested: String,
    /// The places of the session among the requests that rules have in flight.
    _permits: Vec<AdmissionPermit>,
}

impl RealtimeSession {
    pub(super) fn new(candidate: Candidate, requested: String, permits: Vec<AdmissionPermit>) -> Self {
        Self { candidate, requested, _permits: permits }
    }

    /// The model as the client named it.
    #[must_use]
    pub fn requested_model(&self) -> &str {
        &self.requested
    }

    /// The catalogue id of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.candidate.model.id
    }

    /// The name of the model at the upstream.
    #[must_use]
    pub fn upstream_model(&self) -> &str {
        &self.candidate.model.upstream_model
    }

    /// Whether clients may name tools of the provider, stored prompts and other things of its account.
    #[must_use]
    pub fn takes_references(&self) -> bool {
        self.candidate.provider.takes_references()
    }

    /// The place of the first reference that the provider is not sent, or its own host.
    #[must_use]
    pub fn refused_reference<'r>(&'r self, references: &'r References) -> Option<&'r str> {
        let provider = &self.candidate.provider;
        if provider.takes_references() {
            return None;
        }
        let at_own_host = || provider.host().filter(|host| references.hosts.contains(*host));
        references.verbatim.as_deref().or_else(at_own_host)
    }

    /// Whether the provider is sent this kind of tool.
    #[must_use]
    pub fn takes_tool(&self, kind: &str) -> bool {
        kind == "function" || self.candidate.provider.takes_member(kind)
    }

    /// The model and the provider, as rules see them.
    pub(super) fn serving(&self) -> ServingTarget<'_> {
        self.candidate.serving()
    }

    /// Removes the secrets of the provider from a text.
    pub fn censor(&self, text: &mut String) {
        self.candidate.provider.censor_text(text);
    }

    /// The candidate with the prices that are in force now.
    pub(super) fn candidate(&self, snapshot: &Snapshot) -> Candidate {
        let mut candidate = self.candidate.clone();
        if let Some(model) = snapshot.catalog.get(&candidate.model.id) {
            candidate.model = Arc::clone(model);
        }
        candidate
    }

    /// The candidate for a transcript by the model of this name at the upstream; None: the catalogue does not have it.
    pub(super) fn transcriber(&self, snapshot: &Snapshot, name: &str) -> Option<Candidate> {
        let provider = &self.candidate.model.provider;
        let is_named = |model: &&Arc<Model>| *model.provider == **provider && *model.upstream_model == *name;
        let model = snapshot.catalog.models().iter().find(is_named)?;
        Some(Candidate { model: Arc::clone(model), ..self.candidate.clone() })
    }
}
