//! The parts of a request that decide which kept answer it may have.

use gw_cache::{Question, Route};

use crate::call::Call;
use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;

/// Who may answer a call, whatever the order of the day: with what the configuration can change about them.
pub(crate) struct CandidateIdentities(pub(crate) Vec<(u32, bool, String)>);

impl CandidateIdentities {
    pub(crate) fn of(call: &Call) -> Self {
        let named = |candidate: &Candidate| {
            let Candidate { model, provider, group, is_upgrade, .. } = candidate;
            // Its limits are sent upstream where a request names none.
            let limits = (model.max_output_tokens, model.context_length);
            let who = format!("{} {} {:x} {limits:?}", model.id, model.upstream_model, provider.identity());
            (*group, *is_upgrade, who)
        };
        let mut all: Vec<(u32, bool, String)> = call.plan.candidates.iter().map(named).collect();
        all.sort_unstable();
        Self(all)
    }

    /// Those whom the requested name stands for.
    pub(crate) fn asked(&self) -> Vec<&str> {
        self.0.iter().filter(|(group, up, _)| *group == 0 && !up).map(|(_, _, who)| who.as_str()).collect()
    }
}

/// What a call asks, of these candidates.
pub(crate) fn question<'a>(call: &'a Call, candidates: &'a [&'a str]) -> Question<'a> {
    let (route, body) = match &call.context.request {
        ValidatedRequest::Chat(request) => (Route::Chat, &request.body),
        ValidatedRequest::Completion(request) => (Route::Completion, &request.body),
        ValidatedRequest::Embeddings(request) => (Route::Embedding, &request.body),
    };
    Question { route, model: call.context.request.model(), candidates, config: 0, body, input: None }
}
