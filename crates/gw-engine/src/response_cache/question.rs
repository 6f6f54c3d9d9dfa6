//! The parts of a request that a cache key is made of.

use gw_cache::{NativeDigests, Question};

use crate::call::Call;
use crate::plan::candidate::Candidate;
use crate::plan::tenant_policy::is_forwarded;

/// The candidates of a call with the settings that change their answers, in an order that does not depend on the
/// routing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CandidateIdentities(pub(crate) Vec<(u32, bool, String)>);

impl CandidateIdentities {
    pub(crate) fn of(call: &Call) -> Self {
        let named = |candidate: &Candidate| {
            let Candidate { model, provider, group, is_upgrade, .. } = candidate;
            // The model's limits go upstream if a request names none, so they are part of its identity.
            let numbers = [Some(provider.identity()), model.max_output_tokens, model.context_length];
            (*group, *is_upgrade, identity(&model.id, &model.upstream_model, numbers))
        };
        let mut all: Vec<(u32, bool, String)> = call.plan.candidates.iter().map(named).collect();
        all.sort_unstable();
        Self(all)
    }

    /// The candidates of the requested name.
    pub(crate) fn asked(&self) -> Vec<&str> {
        self.0.iter().filter(|(group, up, _)| *group == 0 && !up).map(|(_, _, who)| who.as_str()).collect()
    }
}

/// A text that differs for all names and numbers that differ.
fn identity(id: &str, upstream_model: &str, numbers: [Option<u64>; 3]) -> String {
    // A request for the cache makes such a text for each candidate, and a formatter would cost several times as much.
    let mut text = String::with_capacity(id.len() + upstream_model.len() + 64);
    text.push_str(id);
    text.push(' ');
    text.push_str(upstream_model);
    for number in numbers {
        text.push(' ');
        let Some(mut rest) = number else {
            text.push('-');
            continue;
        };
        // From the lowest digit on: the order does not matter here.
        while rest > 0 {
            text.push(char::from_digit((rest & 15) as u32, 16).unwrap_or('0'));
            rest >>= 4;
        }
    }
    text
}

/// The question of a call to these candidates.
pub(crate) fn question<'a>(call: &'a Call, candidates: &'a [&'a str]) -> Question<'a> {
    let request = &call.context.request;
    let (route, body) = (request.operation(), request.body());
    let native = native(call);
    Question { route, model: request.model(), candidates, config: 0, body, native, input: None }
}

/// Whether the candidate is one of the requested name.
fn is_asked(candidate: &Candidate) -> bool {
    candidate.group == 0 && !candidate.is_upgrade
}

/// The digests of the client's own body, if a candidate of the requested name gets that body.
fn native(call: &Call) -> Option<NativeDigests> {
    digests(call, is_asked)
}

/// The digests of the client's own body, if only a fallback or an upgrade gets that body, so that the question has none.
pub(crate) fn native_of_fallbacks(call: &Call) -> Option<NativeDigests> {
    let client = call.context.request.client()?;
    let mut candidates = call.plan.candidates.iter();
    let is_in_question = candidates.any(|candidate| is_asked(candidate) && is_forwarded(candidate, client));
    if is_in_question { None } else { digests(call, |candidate| !is_asked(candidate)) }
}

/// The digests of the client's own body, if one of these candidates gets that body.
fn digests(call: &Call, is_counted: impl Fn(&Candidate) -> bool) -> Option<NativeDigests> {
    let client = call.context.request.client()?;
    let mut candidates = call.plan.candidates.iter();
    if !candidates.any(|candidate| is_counted(candidate) && is_forwarded(candidate, client)) {
        return None;
    }
    let headers = client.headers.iter().map(|(name, value)| (&**name, &**value));
    Some(NativeDigests::of(&client.native.bytes, headers))
}
